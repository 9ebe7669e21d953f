//! The closed model: a number of virtual users; each starts its next iteration when its last one ends.
//!
//! Used by serial, constant, constant_for_duration, and ramping of a concurrency. An iteration is due
//! when its user is free, so response time and service time are the same here.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use tokio::task::JoinSet;

use base::clock::now;
use iteration::user::VirtualUser;
use terms::runner::ClosedModel;

use super::share::WorkerShare;

/// The interval at which a ramp's number of users is updated.
const RAMP_EVERY: Duration = Duration::from_millis(10);

/// A virtual user that may start and end several times in a ramp.
struct UserSlot {
    /// Its number among the slots of this worker.
    number: u32,
    user: RefCell<VirtualUser>,
    /// True while the user's task runs.
    taken: Cell<bool>,
}

/// One worker's users.
struct ClosedModelUsers {
    share: Rc<WorkerShare>,
    slots: Vec<Rc<UserSlot>>,
    tasks: JoinSet<()>,
    /// Users whose slot has this number or a higher one end before their next iteration.
    wanted: Rc<Cell<u32>>,
    /// This worker's count of iterations.
    local: Rc<Cell<u64>>,
}

/// Drives a worker's share of a workload to its end. Returns the number of users that panicked.
pub(super) async fn drive(share: Rc<WorkerShare>, model: &ClosedModel) -> usize {
    let stop = share.group.load.stop.clone();
    let (mut panics, mut changes) = (0, !model.users.is_level());
    let mut users = ClosedModelUsers {
        share,
        slots: Vec::new(),
        tasks: JoinSet::new(),
        wanted: Rc::default(),
        local: Rc::default(),
    };
    users.fill(model);
    let cut_off = stop.cut_off_token().cancelled();
    let mut cut_off = std::pin::pin!(cut_off);
    while changes || !users.tasks.is_empty() {
        tokio::select! {
            biased;
            Some(ended) = users.tasks.join_next() => panics += usize::from(ended.is_err()),
            () = tokio::time::sleep(RAMP_EVERY), if changes => {
                users.fill(model);
                changes = !stop.is_stopping() && !users.is_over();
            }
            () = &mut cut_off => {
                users.cut_off().await;
                changes = false;
            }
        }
    }
    panics
}

impl ClosedModelUsers {
    /// Starts users up to the number wanted at this time.
    fn fill(&mut self, model: &ClosedModel) {
        let (share, elapsed) =
            (&self.share, Duration::from_nanos(self.share.running.elapsed_ns(&self.share.group)));
        let users = share.running.part_of_users(model.users.users(elapsed));
        let wanted = share.running.share(users, share.worker);
        self.wanted.set(wanted);
        share.counters().users.set(wanted.into());
        for number in 0..wanted {
            if self.slots.len() <= number as usize {
                let user = RefCell::new(share.new_user(number.into()));
                self.slots.push(Rc::new(UserSlot { number, user, taken: Cell::new(false) }));
            }
            let slot = &self.slots[number as usize];
            if !slot.taken.replace(true) {
                let (wanted, local) = (Rc::clone(&self.wanted), Rc::clone(&self.local));
                self.tasks.spawn_local(run_user(Rc::clone(share), Rc::clone(slot), wanted, local));
            }
        }
    }

    /// True at the end of a ramp. Having no users is not enough: a ramp can contain a pause.
    fn is_over(&self) -> bool {
        if self.share.running.is_used_up() {
            return true;
        }
        let runner = &self.share.running.plan(&self.share.group.load).runner;
        let lasts = runner.duration().unwrap_or_default();
        Duration::from_nanos(self.share.running.elapsed_ns(&self.share.group)) >= lasts
    }

    async fn cut_off(&mut self) {
        self.tasks.shutdown().await;
        for slot in &self.slots {
            self.share.cut_off(&mut slot.user.borrow_mut());
        }
    }
}

/// Runs a virtual user until it is no longer wanted. Dropping the future cuts off the current iteration.
#[expect(clippy::await_holding_refcell_ref, reason = "others borrow the user only after its task has ended")]
async fn run_user(share: Rc<WorkerShare>, slot: Rc<UserSlot>, wanted: Rc<Cell<u32>>, local: Rc<Cell<u64>>) {
    let mut user = slot.user.borrow_mut();
    while slot.number < wanted.get() && !share.group.load.stop.is_stopping() {
        let now = now();
        let now_ns = share.group.load.context.clock.offset_ns(now);
        let mut next = local.get();
        let elapsed_ns = now_ns.saturating_sub(share.running.started_ns(&share.group));
        let claim = share.running.claim(share.worker, &mut next, elapsed_ns);
        local.set(next);
        let Some(claim) = claim else { break };
        share.iterate(&mut user, claim.number, claim.warm_up, now_ns, now).await;
    }
    share.tear_down(&mut user).await;
    user.leave();
    slot.taken.set(false);
}
