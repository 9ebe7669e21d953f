//! The closed model: so many virtual users, each starting its next iteration when its last one ends.
//!
//! serial, constant, constant_for_duration, and ramping of a concurrency. An iteration is due when
//! its user is free, so response time and service time are the same here.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::iteration::user::VirtualUser;
use crate::plan::runner::Closed;

use super::one::Post;

/// How often a ramp's number of users is looked at.
const RAMP_EVERY: Duration = Duration::from_millis(10);

/// A place for a virtual user.
struct Seat {
    /// Its number among the seats of this worker.
    number: u32,
    user: RefCell<VirtualUser>,
    /// True while the user's task runs.
    taken: Cell<bool>,
}

/// One worker's users.
struct Crew {
    post: Rc<Post>,
    seats: Vec<Rc<Seat>>,
    tasks: JoinSet<()>,
    /// Users whose seat has this number or a higher one leave before their next iteration.
    wanted: Rc<Cell<u32>>,
    /// The worker's own count of iterations.
    local: Rc<Cell<u64>>,
}

/// Drives a worker's share of a workload to its end; gives the number of users that panicked.
pub(super) async fn drive(post: Rc<Post>, model: &Closed) -> usize {
    let stop = post.group.load.stop.clone();
    let (mut panics, mut changes) = (0, !model.users.is_level());
    let mut crew =
        Crew { post, seats: Vec::new(), tasks: JoinSet::new(), wanted: Rc::default(), local: Rc::default() };
    crew.fill(model);
    let cut_off = stop.cut_off_token().cancelled();
    let mut cut_off = std::pin::pin!(cut_off);
    while changes || !crew.tasks.is_empty() {
        tokio::select! {
            Some(ended) = crew.tasks.join_next() => panics += usize::from(ended.is_err()),
            () = tokio::time::sleep(RAMP_EVERY), if changes => {
                crew.fill(model);
                changes = !stop.is_stopping() && !crew.is_over();
            }
            () = &mut cut_off => {
                crew.cut_off().await;
                changes = false;
            }
        }
    }
    panics
}

impl Crew {
    /// Has as many users as there are to be now.
    fn fill(&mut self, model: &Closed) {
        let (post, elapsed) = (&self.post, Duration::from_nanos(self.post.group.elapsed_ns()));
        let wanted = post.running.share(model.users.users(elapsed), post.worker);
        self.wanted.set(wanted);
        post.counters().users.set(wanted.into());
        for number in 0..wanted {
            if self.seats.len() <= number as usize {
                let user = RefCell::new(post.new_user());
                self.seats.push(Rc::new(Seat { number, user, taken: Cell::new(false) }));
            }
            let seat = &self.seats[number as usize];
            if !seat.taken.replace(true) {
                let (wanted, local) = (Rc::clone(&self.wanted), Rc::clone(&self.local));
                self.tasks.spawn_local(live(Rc::clone(post), Rc::clone(seat), wanted, local));
            }
        }
    }

    /// True when a ramp has come to its end; in a pause within it there are no users either.
    fn is_over(&self) -> bool {
        let runner = &self.post.running.plan(&self.post.group.load).runner;
        let lasts = runner.duration().unwrap_or_default();
        Duration::from_nanos(self.post.group.elapsed_ns()) >= lasts
    }

    async fn cut_off(&mut self) {
        self.tasks.shutdown().await;
        for seat in &self.seats {
            self.post.cut_off(&mut seat.user.borrow_mut());
        }
    }
}

/// One virtual user's life. Dropping it cuts the iteration off that is under way.
#[expect(clippy::await_holding_refcell_ref, reason = "others borrow the user only once its task has gone")]
async fn live(post: Rc<Post>, seat: Rc<Seat>, wanted: Rc<Cell<u32>>, local: Rc<Cell<u64>>) {
    let mut user = seat.user.borrow_mut();
    while seat.number < wanted.get() && !post.group.load.stop.is_stopping() {
        let now = Instant::now();
        let now_ns = post.group.load.context.clock.offset_ns(now);
        let mut next = local.get();
        let elapsed_ns = now_ns.saturating_sub(post.group.started_ns);
        let claim = post.running.claim(post.worker, &mut next, elapsed_ns);
        local.set(next);
        let Some(claim) = claim else { break };
        post.iterate(&mut user, claim.number, claim.warm_up, now_ns, now).await;
    }
    seat.taken.set(false);
}
