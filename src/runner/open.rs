//! The open model: iterations are due by the clock, independent of earlier iterations.
//!
//! Every arrival belongs to a worker by its number, so workers share nothing, and each gets as large a part of them as it
//! has of the users. The worker's virtual user that became idle last starts it, so that few connections stay in use. Without an idle user, a new user starts
//! it, up to the limit. Otherwise it waits in a bounded queue and starts late. If the queue is full, the
//! arrival is dropped and recorded as dropped. A due time never moves.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::task::{Poll, Waker};

use tokio::sync::Notify;
use tokio::task::AbortHandle;

use base::clock::{Nanos, now};
use iteration::user::VirtualUser;
use measure::sample::CompletionStatus;
use terms::runner::OpenModel;
use terms::shape::Cursor;

use super::pacer::Pacer;
use super::share::WorkerShare;
use super::vitals::WorkerMonitor;

/// After this many arrivals in a row, other tasks get a turn.
const AT_A_TIME: u32 = 64;

/// An iteration that is due.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    number: u64,
    due_ns: Nanos,
}

/// A virtual user and its next arrival.
struct UserSlot {
    user: RefCell<VirtualUser>,
    /// The next arrival to run.
    next: Cell<Option<Arrival>>,
    /// Set while the user waits; the slot is in `idle` then.
    waiting: Cell<Option<Waker>>,
}

/// One worker's users of one workload.
struct OpenModelUsers {
    share: Rc<WorkerShare>,
    warm_up: u64,
    users_max: usize,
    queue_max: usize,
    slots: RefCell<Vec<Rc<UserSlot>>>,
    tasks: RefCell<Vec<AbortHandle>>,
    idle: RefCell<Vec<Rc<UserSlot>>>,
    queue: RefCell<VecDeque<Arrival>>,
    /// No more arrivals: idle users end.
    closing: Cell<bool>,
    active: Cell<usize>,
    panics: Cell<usize>,
    all_ended: Notify,
}

/// Drives a worker's share of a workload to its end. Returns the number of users that panicked.
///
/// # Errors
/// Fails without a timer.
pub(super) async fn drive(
    share: Rc<WorkerShare>,
    model: &OpenModel,
    monitor: Rc<WorkerMonitor>,
) -> io::Result<usize> {
    let stop = share.group.load.stop.clone();
    let pacer = Pacer::new(model.precise)?;
    let grace = share.group.load.plan.graceful_stop;
    let users = Rc::new(OpenModelUsers::new(share, model));
    let mut pace = tokio::task::spawn_local(pace(Rc::clone(&users), pacer, monitor));
    let paced = tokio::select! {
            biased;
        paced = &mut pace => paced.is_ok(),
        () = stop.stopping() => {
            pace.abort();
            users.give_up();
            true
        }
    };
    users.close();
    let stopping = stop.stopping();
    let cut_off = stop.cut_off_token().cancelled();
    // At the end of a timed load, waiting arrivals have the same grace as running iterations at a
    // stop. A load with a fixed number of iterations runs all of them.
    let too_late = tokio::time::sleep(grace);
    tokio::pin!(stopping, cut_off, too_late);
    let (mut may_wait, mut may_run) = (true, true);
    while users.active.get() > 0 {
        tokio::select! {
            biased;
            () = users.all_ended.notified() => {}
            () = &mut stopping, if may_wait => {
                users.give_up();
                may_wait = false;
            }
            () = &mut too_late, if may_wait && model.timed => {
                users.give_up();
                may_wait = false;
            }
            () = &mut cut_off, if may_run => {
                users.tasks.borrow().iter().for_each(AbortHandle::abort);
                may_run = false;
            }
        }
    }
    users.give_up();
    for slot in users.slots.borrow().iter() {
        users.share.cut_off(&mut slot.user.borrow_mut());
        // The user was stopped before it started this arrival.
        if let Some(arrival) = slot.next.take() {
            users.give_up_one(arrival);
        }
    }
    Ok(users.panics.get() + usize::from(!paced))
}

/// Handles every arrival of this worker when it is due.
async fn pace(users: Rc<OpenModelUsers>, pacer: Pacer, monitor: Rc<WorkerMonitor>) {
    let share = &users.share;
    let (load, running) = (&share.group.load, &share.running);
    let terms::runner::Model::Open(model) = &running.plan(load).runner.model else { return };
    let clock = load.context.clock;
    let started_ns = running.started_ns(&share.group);
    let mut cursor = Cursor::default();
    let mut arrival = |own: u64| {
        let number = running.number(own);
        Arrival { number, due_ns: started_ns + model.arrivals.due_next_ns(number, &mut cursor) }
    };
    let mut number = u64::from(share.worker);
    let total = running.arrivals(model);
    let last = || {
        if total < running.arrivals_wanted(model) {
            running.set_used_up();
        }
    };
    if number >= total {
        return last();
    }
    let mut next = arrival(number);
    loop {
        monitor.idled(pacer.until(clock.instant_at(next.due_ns)).await);
        let (mut now_ns, mut at_a_time) = (clock.now_ns(), 0);
        while next.due_ns <= now_ns {
            monitor.arrival_handled(now_ns - next.due_ns);
            users.arrive(next);
            number = running.next_arrival(number);
            if number >= total {
                return last();
            }
            next = arrival(number);
            at_a_time += 1;
            if at_a_time % AT_A_TIME == 0 {
                tokio::task::yield_now().await;
                now_ns = clock.now_ns();
            }
        }
    }
}

impl OpenModelUsers {
    fn new(share: Rc<WorkerShare>, model: &OpenModel) -> Self {
        let part = |of: u32| share.running.share(of, share.worker) as usize;
        Self {
            warm_up: model.arrivals.warm_up(),
            users_max: part(share.running.users_max).max(1),
            queue_max: part(share.running.part_of_users(model.queue_max)),
            slots: RefCell::default(),
            tasks: RefCell::default(),
            idle: RefCell::default(),
            queue: RefCell::default(),
            closing: Cell::new(false),
            active: Cell::new(0),
            panics: Cell::new(0),
            all_ended: Notify::new(),
            share,
        }
    }

    fn arrive(self: &Rc<Self>, arrival: Arrival) {
        self.share.counters().arrived.bump();
        let idle = self.idle.borrow_mut().pop();
        if let Some(slot) = idle {
            slot.next.set(Some(arrival));
            if let Some(waker) = slot.waiting.take() {
                waker.wake();
            }
        } else if self.slots.borrow().len() < self.users_max {
            self.start_user(arrival);
        } else if self.queue.borrow().len() < self.queue_max {
            self.queue.borrow_mut().push_back(arrival);
            self.count_queue();
        } else {
            self.share.counters().dropped.bump();
            let sample = self.unstarted(arrival, CompletionStatus::Dropped);
            self.share.recorder.borrow_mut().record(&sample);
        }
    }

    fn start_user(self: &Rc<Self>, arrival: Arrival) {
        let number = self.slots.borrow().len() as u64;
        let slot = Rc::new(UserSlot {
            user: RefCell::new(self.share.new_user(number)),
            next: Cell::new(Some(arrival)),
            waiting: Cell::new(None),
        });
        let mut slots = self.slots.borrow_mut();
        slots.push(Rc::clone(&slot));
        self.share.counters().users.set(slots.len() as u64);
        self.active.set(self.active.get() + 1);
        let task = tokio::task::spawn_local(run_user(CountEndOnDrop(Rc::clone(self)), slot));
        self.tasks.borrow_mut().push(task.abort_handle());
    }

    /// Ends idle users now, and the others once the queue is empty.
    fn close(&self) {
        self.closing.set(true);
        for slot in self.idle.take() {
            if let Some(waker) = slot.waiting.take() {
                waker.wake();
            }
        }
    }

    /// Gives up all waiting arrivals: the run is over.
    fn give_up(&self) {
        for arrival in self.queue.take() {
            self.give_up_one(arrival);
        }
        self.count_queue();
    }

    fn give_up_one(&self, arrival: Arrival) {
        self.share.counters().given_up.bump();
        let mut sample = self.unstarted(arrival, CompletionStatus::Aborted);
        sample.start_ns = self.share.now_ns().max(arrival.due_ns);
        self.share.recorder.borrow_mut().record(&sample);
    }

    fn unstarted(&self, arrival: Arrival, ended: CompletionStatus) -> measure::sample::IterationSample {
        self.share.unstarted(arrival.number, arrival.number < self.warm_up, arrival.due_ns, ended)
    }

    fn count_queue(&self) {
        let (length, counters) = (self.queue.borrow().len() as u64, self.share.counters());
        counters.queued.set(length);
        counters.queued_max.set(counters.queued_max.get().max(length));
    }

    /// Waits for the next arrival; `None` when there will be no more.
    async fn next(&self, slot: &Rc<UserSlot>) -> Option<Arrival> {
        std::future::poll_fn(|cx| {
            if let Some(arrival) = slot.next.take() {
                return Poll::Ready(Some(arrival));
            }
            let queued = self.queue.borrow_mut().pop_front();
            if queued.is_some() {
                self.count_queue();
                return Poll::Ready(queued);
            }
            if self.closing.get() {
                return Poll::Ready(None);
            }
            // After a spurious wake-up the slot is already in `idle`.
            if slot.waiting.replace(Some(cx.waker().clone())).is_none() {
                self.idle.borrow_mut().push(Rc::clone(slot));
            }
            Poll::Pending
        })
        .await
    }
}

/// Counts a user's end when dropped, also after a panic.
struct CountEndOnDrop(Rc<OpenModelUsers>);

impl Drop for CountEndOnDrop {
    fn drop(&mut self) {
        let users = &self.0;
        users.active.set(users.active.get() - 1);
        users.panics.set(users.panics.get() + usize::from(std::thread::panicking()));
        if users.active.get() == 0 {
            users.all_ended.notify_one();
        }
    }
}

/// Runs a virtual user until no arrivals are left. Dropping the future cuts off the current iteration.
#[expect(clippy::await_holding_refcell_ref, reason = "others borrow the user only after its task has ended")]
async fn run_user(users: CountEndOnDrop, slot: Rc<UserSlot>) {
    let users = &users.0;
    let mut user = slot.user.borrow_mut();
    while let Some(Arrival { number, due_ns }) = users.next(&slot).await {
        users.share.iterate(&mut user, number, number < users.warm_up, due_ns, now()).await;
    }
    users.share.tear_down(&mut user).await;
    user.leave();
}
