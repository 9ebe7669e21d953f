//! The open model: iterations are due by the clock, whatever became of those before them.
//!
//! Arrival k belongs to worker k % n, so that workers share nothing. It is started by the virtual user
//! of that worker who was idle last (few connections stay in use), else by a new one while there may
//! be more, else it waits in a bounded queue and starts late; beyond a full queue it is dropped, as a
//! sample that says so. A due time never moves.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Instant;

use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::base::clock::Nanos;
use crate::iteration::user::VirtualUser;
use crate::measure::sample::Ended;
use crate::plan::runner::Open;

use super::one::Post;
use super::pacer::Pacer;
use super::vitals::Pulse;

/// After so many arrivals at a time, others have their turn.
const AT_A_TIME: u32 = 64;

/// An iteration that is due.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    number: u64,
    due_ns: Nanos,
}

/// A virtual user with its place to wait in.
struct Seat {
    user: RefCell<VirtualUser>,
    /// What it is to do next.
    next: Cell<Option<Arrival>>,
    /// There while it waits, and so is the seat among the idle ones.
    waiting: Cell<Option<Waker>>,
}

/// One worker's users of one workload.
struct Crew {
    post: Rc<Post>,
    warm_up: u64,
    users_max: usize,
    queue_max: usize,
    seats: RefCell<Vec<Rc<Seat>>>,
    tasks: RefCell<Vec<AbortHandle>>,
    idle: RefCell<Vec<Rc<Seat>>>,
    queue: RefCell<VecDeque<Arrival>>,
    /// No more arrivals: who is idle leaves.
    closing: Cell<bool>,
    at_work: Cell<usize>,
    panics: Cell<usize>,
    all_gone: Notify,
}

/// Drives a worker's share of a workload to its end; gives the number of users that panicked.
///
/// # Errors
/// There is no timer.
pub(super) async fn drive(post: Rc<Post>, model: &Open, pulse: Rc<Pulse>) -> io::Result<usize> {
    let stop = post.group.load.stop.clone();
    let pacer = Pacer::new(model.precise)?;
    let grace = post.group.load.plan.graceful_stop;
    let crew = Rc::new(Crew::new(post, model));
    let mut pace = tokio::task::spawn_local(pace(Rc::clone(&crew), pacer, pulse));
    let paced = tokio::select! {
        paced = &mut pace => paced.is_ok(),
        () = stop.stopping() => {
            pace.abort();
            crew.give_up();
            true
        }
    };
    crew.close();
    let stopping = stop.stopping();
    let cut_off = stop.cut_off_token().cancelled();
    // What waits at the end of a timed load has as long as what is under way at a stop. A load by
    // number runs all of them.
    let too_late = tokio::time::sleep(grace);
    tokio::pin!(stopping, cut_off, too_late);
    let (mut may_wait, mut may_run) = (true, true);
    while crew.at_work.get() > 0 {
        tokio::select! {
            () = crew.all_gone.notified() => {}
            () = &mut stopping, if may_wait => {
                crew.give_up();
                may_wait = false;
            }
            () = &mut too_late, if may_wait && model.timed => {
                crew.give_up();
                may_wait = false;
            }
            () = &mut cut_off, if may_run => {
                crew.tasks.borrow().iter().for_each(AbortHandle::abort);
                may_run = false;
            }
        }
    }
    crew.give_up();
    for seat in crew.seats.borrow().iter() {
        crew.post.cut_off(&mut seat.user.borrow_mut());
        // What was handed to a user who was stopped before taking it up.
        if let Some(arrival) = seat.next.take() {
            crew.give_up_one(arrival);
        }
    }
    Ok(crew.panics.get() + usize::from(!paced))
}

/// Sees to every arrival of this worker when it is due.
async fn pace(crew: Rc<Crew>, pacer: Pacer, pulse: Rc<Pulse>) {
    let post = &crew.post;
    let (load, running) = (&post.group.load, &post.running);
    let crate::plan::runner::Model::Open(model) = &running.plan(load).runner.model else { return };
    let clock = load.context.clock;
    let arrival =
        |number: u64| Arrival { number, due_ns: post.group.started_ns + model.arrivals.due_ns(number) };
    let mut number = u64::from(post.worker);
    if number >= model.arrivals.total() {
        return;
    }
    let mut next = arrival(number);
    loop {
        pulse.idled(pacer.until(clock.instant_at(next.due_ns)).await);
        let (mut now_ns, mut at_a_time) = (clock.now_ns(), 0);
        while next.due_ns <= now_ns {
            pulse.saw_to(now_ns - next.due_ns);
            crew.arrive(next);
            number += u64::from(running.workers);
            if number >= model.arrivals.total() {
                return;
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

impl Crew {
    fn new(post: Rc<Post>, model: &Open) -> Self {
        let share = |of: u32| post.running.share(of, post.worker) as usize;
        Self {
            warm_up: model.arrivals.warm_up(),
            users_max: share(post.running.users_max).max(1),
            queue_max: share(model.queue_max),
            seats: RefCell::default(),
            tasks: RefCell::default(),
            idle: RefCell::default(),
            queue: RefCell::default(),
            closing: Cell::new(false),
            at_work: Cell::new(0),
            panics: Cell::new(0),
            all_gone: Notify::new(),
            post,
        }
    }

    fn arrive(self: &Rc<Self>, arrival: Arrival) {
        self.post.counters().arrived.bump();
        let idle = self.idle.borrow_mut().pop();
        if let Some(seat) = idle {
            seat.next.set(Some(arrival));
            if let Some(waker) = seat.waiting.take() {
                waker.wake();
            }
        } else if self.seats.borrow().len() < self.users_max {
            self.hire(arrival);
        } else if self.queue.borrow().len() < self.queue_max {
            self.queue.borrow_mut().push_back(arrival);
            self.count_queue();
        } else {
            self.post.counters().dropped.bump();
            let sample = self.unstarted(arrival, Ended::Dropped);
            self.post.recorder.borrow_mut().record(&sample);
        }
    }

    fn hire(self: &Rc<Self>, arrival: Arrival) {
        let seat = Rc::new(Seat {
            user: RefCell::new(self.post.new_user()),
            next: Cell::new(Some(arrival)),
            waiting: Cell::new(None),
        });
        let mut seats = self.seats.borrow_mut();
        seats.push(Rc::clone(&seat));
        self.post.counters().users.set(seats.len() as u64);
        self.at_work.set(self.at_work.get() + 1);
        let task = tokio::task::spawn_local(live(Leaving(Rc::clone(self)), seat));
        self.tasks.borrow_mut().push(task.abort_handle());
    }

    /// Lets idle users leave, and the others when nothing waits any more.
    fn close(&self) {
        self.closing.set(true);
        for seat in self.idle.take() {
            if let Some(waker) = seat.waiting.take() {
                waker.wake();
            }
        }
    }

    /// What waits will not be started: the run is over.
    fn give_up(&self) {
        for arrival in self.queue.take() {
            self.give_up_one(arrival);
        }
        self.count_queue();
    }

    fn give_up_one(&self, arrival: Arrival) {
        self.post.counters().given_up.bump();
        let mut sample = self.unstarted(arrival, Ended::Aborted);
        sample.start_ns = self.post.now_ns().max(arrival.due_ns);
        self.post.recorder.borrow_mut().record(&sample);
    }

    fn unstarted(&self, arrival: Arrival, ended: Ended) -> crate::measure::sample::IterationSample {
        self.post.unstarted(arrival.number, arrival.number < self.warm_up, arrival.due_ns, ended)
    }

    fn count_queue(&self) {
        let (length, counters) = (self.queue.borrow().len() as u64, self.post.counters());
        counters.queued.set(length);
        counters.queued_max.set(counters.queued_max.get().max(length));
    }

    /// Waits for something to do; `None` when there will be nothing more.
    async fn next(&self, seat: &Rc<Seat>) -> Option<Arrival> {
        std::future::poll_fn(|cx| {
            if let Some(arrival) = seat.next.take() {
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
            // Woken for no reason, it is among the idle ones already.
            if seat.waiting.replace(Some(cx.waker().clone())).is_none() {
                self.idle.borrow_mut().push(Rc::clone(seat));
            }
            Poll::Pending
        })
        .await
    }
}

/// Says that a user has gone, however it went.
struct Leaving(Rc<Crew>);

impl Drop for Leaving {
    fn drop(&mut self) {
        let crew = &self.0;
        crew.at_work.set(crew.at_work.get() - 1);
        crew.panics.set(crew.panics.get() + usize::from(std::thread::panicking()));
        if crew.at_work.get() == 0 {
            crew.all_gone.notify_one();
        }
    }
}

/// One virtual user's life. Dropping it cuts the iteration off that is under way.
#[expect(clippy::await_holding_refcell_ref, reason = "others borrow the user only once its task has gone")]
async fn live(crew: Leaving, seat: Rc<Seat>) {
    let crew = &crew.0;
    let mut user = seat.user.borrow_mut();
    while let Some(Arrival { number, due_ns }) = crew.next(&seat).await {
        crew.post.iterate(&mut user, number, number < crew.warm_up, due_ns, Instant::now()).await;
    }
}
