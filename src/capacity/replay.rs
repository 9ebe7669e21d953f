//! Runs programs again at their due times, with the servers that their steps need: what response times they would have.
//!
//! Whoever waits for a server gets it in the order of asking. Nothing is drawn here, and no clock is read.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::program::Program;

/// An iteration that is due.
#[derive(Clone, Copy, Debug)]
pub struct ReplayArrival<'a> {
    /// When, in microseconds.
    pub due_us: i64,
    /// What it does.
    pub program: &'a LinkedProgram<'a>,
}

/// A program, with what follows what: made once for all the iterations that have it.
#[derive(Debug)]
pub struct LinkedProgram<'a> {
    program: &'a Program,
    /// For each step, which follow its start, and which its end.
    follow: Vec<(Vec<usize>, Vec<usize>)>,
    /// How many steps each one waits for.
    waits_for: Vec<usize>,
}

impl<'a> LinkedProgram<'a> {
    #[must_use]
    pub fn new(program: &'a Program) -> Self {
        let steps = &program.steps;
        let mut follow = vec![(Vec::new(), Vec::new()); steps.len()];
        let mut waits_for = vec![0; steps.len()];
        for (index, step) in steps.iter().enumerate() {
            let Some(parent) = step.parent else { continue };
            match step.after {
                Some(after) => follow[after].1.push(index),
                None => follow[parent].0.push(index),
            }
            waits_for[parent] += usize::from(step.is_awaited);
        }
        Self { program, follow, waits_for }
    }

    /// See [`Program::alone_us()`].
    #[must_use]
    pub fn alone_us(&self) -> i64 {
        self.program.alone_us()
    }
}

/// The response time of each arrival, in microseconds; `servers` is the number of servers of each pool.
#[must_use]
pub fn replay(arrivals: &[ReplayArrival<'_>], servers: &[u32]) -> Vec<i64> {
    let mut replay = Replay {
        arrivals,
        pools: servers.iter().map(|&count| PoolState { free: count, line: VecDeque::new() }).collect(),
        events: BinaryHeap::with_capacity(arrivals.len() * 2),
        under_way: arrivals.iter().map(|_| None).collect(),
        responses_us: vec![0; arrivals.len()],
        number: 0,
    };
    for (iteration, arrival) in arrivals.iter().enumerate() {
        replay.schedule(arrival.due_us, StepRef { iteration, step: 0 }, true);
    }
    while let Some(Reverse((us, _, at, is_ready))) = replay.events.pop() {
        if is_ready { replay.ready(us, at) } else { replay.end(us, at) }
    }
    replay.responses_us
}

/// A step of an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct StepRef {
    iteration: usize,
    step: usize,
}

struct PoolState {
    free: u32,
    line: VecDeque<StepRef>,
}

/// An iteration that has begun.
struct UnderWay {
    /// How many steps each one still waits for.
    waits_for: Vec<usize>,
    /// Steps that have not ended.
    left: usize,
}

struct Replay<'a> {
    arrivals: &'a [ReplayArrival<'a>],
    pools: Vec<PoolState>,
    /// When, in what order of those at one time, which step, and whether it is ready or ends.
    events: BinaryHeap<Reverse<(i64, u64, StepRef, bool)>>,
    under_way: Vec<Option<UnderWay>>,
    responses_us: Vec<i64>,
    number: u64,
}

impl<'a> Replay<'a> {
    fn schedule(&mut self, us: i64, at: StepRef, is_ready: bool) {
        self.number += 1;
        self.events.push(Reverse((us, self.number, at, is_ready)));
    }

    fn program(&self, at: StepRef) -> &'a LinkedProgram<'a> {
        self.arrivals[at.iteration].program
    }

    fn ready(&mut self, us: i64, at: StepRef) {
        let LinkedProgram { program, waits_for, .. } = self.program(at);
        if at.step == 0 {
            if program.steps.is_empty() {
                return;
            }
            let left = program.steps.len();
            self.under_way[at.iteration] = Some(UnderWay { waits_for: waits_for.clone(), left });
        }
        match program.steps[at.step].pool.and_then(|pool| self.pools.get_mut(pool)) {
            Some(pool) if pool.free == 0 => pool.line.push_back(at),
            Some(pool) => {
                pool.free -= 1;
                self.start(us, at);
            }
            None => self.start(us, at),
        }
    }

    fn start(&mut self, us: i64, at: StepRef) {
        let LinkedProgram { program, follow, waits_for } = self.program(at);
        self.follow(us, at, &follow[at.step].0);
        if waits_for[at.step] == 0 {
            self.schedule(us + program.steps[at.step].tail_us, at, false);
        }
    }

    fn follow(&mut self, us: i64, at: StepRef, steps: &[usize]) {
        let program = self.program(at).program;
        for &step in steps {
            self.schedule(us + program.steps[step].gap_us, StepRef { step, ..at }, true);
        }
    }

    fn end(&mut self, us: i64, at: StepRef) {
        let LinkedProgram { program, follow, .. } = self.program(at);
        let step = &program.steps[at.step];
        if let Some(pool) = step.pool.and_then(|pool| self.pools.get_mut(pool)) {
            match pool.line.pop_front() {
                Some(next) => self.start(us, next),
                None => pool.free += 1,
            }
        }
        if at.step == 0 {
            self.responses_us[at.iteration] = us - self.arrivals[at.iteration].due_us;
        }
        let Some(state) = &mut self.under_way[at.iteration] else { return };
        state.left -= 1;
        let parent = step.parent.filter(|_| step.is_awaited);
        let last_of = parent.filter(|&parent| {
            state.waits_for[parent] -= 1;
            state.waits_for[parent] == 0
        });
        if state.left == 0 {
            self.under_way[at.iteration] = None;
        }
        self.follow(us, at, &follow[at.step].1);
        if let Some(parent) = last_of {
            self.schedule(us + program.steps[parent].tail_us, StepRef { step: parent, ..at }, false);
        }
    }
}
