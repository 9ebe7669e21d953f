//! Sampling that the load decides: which iterations' traces to keep, before it is known which will be looked at.
//!
//! After the load, [`results::choice`] chooses slow, typical and failed iterations from the log. It draws from
//! all iterations up to a response time that is known only at the end. But which iterations it *can* still choose is
//! known at any time, by the same code ([`measure::candidates`]), and only ever becomes less: about
//! `n · ln(N / n)` of `N`. These are kept, with the slowest and with the first ones of every fault. So the choice after
//! the load, which needs nothing but the log, has the spans of each iteration that it names, and a threshold need not
//! be guessed.
//!
//! Should there be too much to keep, [`IterationSampler::halve`] makes the largest sample half as large.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ops::Range;

use base::clock::Nanos;
use measure::candidates::{Group, groups};
use measure::rows::IterationHead;
use measure::sample::CompletionStatus;

/// How many iterations of each fault are kept, besides a random sample of the failed ones.
const FIRST_OF_FAULT: u8 = 3;
/// How many of these first iterations there are at most in a workload.
const FIRSTS_MAX: usize = 600;

/// How many traces are wanted.
#[derive(Clone, Copy, Debug)]
pub struct SamplingQuota {
    /// As in the header of the run log: how many slow iterations, and how many others.
    pub traces: (u32, u32),
    /// How many of the slowest iterations of each workload to keep without exception.
    pub slowest: usize,
    /// The numbers of iterations of the first workload to keep, all of them: from the first up to and without the last.
    pub in_a_row: (u64, u64),
}

/// Says which iterations to keep.
#[derive(Debug)]
pub struct IterationSampler {
    workloads: Vec<WorkloadSampler>,
    in_a_row: Range<u64>,
    halved: u32,
}

#[derive(Debug)]
struct WorkloadSampler {
    group: Group<u64>,
    slowest: Slowest,
    firsts: FaultExamples,
}

impl IterationSampler {
    /// Of a run with this number of workloads.
    #[must_use]
    pub fn new(wanted: SamplingQuota, workloads: usize) -> Self {
        let of_workload = |group| WorkloadSampler {
            group,
            slowest: Slowest::new(wanted.slowest),
            firsts: FaultExamples::default(),
        };
        let workloads = groups(wanted.traces, workloads).into_iter().map(of_workload).collect();
        Self { workloads, in_a_row: wanted.in_a_row.0..wanted.in_a_row.1, halved: 0 }
    }

    /// Adds an ended iteration, with the number that it drew ([`measure::ids::RunIds::draw`]). Returns the number
    /// of samples that it is in. `gone` gets the numbers of iterations of the same workload, once for each sample that
    /// they are no longer in; this iteration may be among them.
    #[inline]
    pub fn offer(&mut self, head: &IterationHead, draw: u64, gone: &mut Vec<u64>) -> u8 {
        let Some(workload) = self.workloads.get_mut(usize::from(head.workload)) else { return 0 };
        if head.warm_up || !head.ended.is_measured() {
            return 0;
        }
        let mut samples = 0;
        let mut number = || {
            samples += 1;
            head.number
        };
        let mut gone = |number| gone.push(number);
        workload.group.offer(head, draw, &mut number, &mut gone);
        workload.slowest.offer(head.response_ns(), &mut number, &mut gone);
        if head.ended == CompletionStatus::Failed {
            workload.firsts.offer(head.error, &mut number);
        }
        samples + u8::from(head.workload == 0 && self.in_a_row.contains(&head.number))
    }

    /// Makes the largest sample half as large. Returns the workload that it belongs to, or `None` if nothing is kept;
    /// `gone` is as in [`IterationSampler::offer`].
    pub fn halve(&mut self, gone: &mut Vec<u64>) -> Option<u16> {
        let sizes = self.workloads.iter().map(WorkloadSampler::largest);
        let (index, largest) =
            sizes.enumerate().max_by_key(|(_, size)| *size).filter(|(_, size)| *size > 0)?;
        let WorkloadSampler { group, slowest, firsts } = &mut self.workloads[index];
        let mut gone = |number| gone.push(number);
        if group.largest() == largest {
            group.halve_largest(&mut gone);
        } else if firsts.numbers.len() == largest {
            firsts.halve(&mut gone);
        } else {
            slowest.halve(&mut gone);
        }
        self.halved += 1;
        u16::try_from(index).ok()
    }

    /// How often a sample was made half as large.
    #[must_use]
    pub fn halved(&self) -> u32 {
        self.halved
    }

    /// How many of the slowest iterations of each workload are kept now.
    #[must_use]
    pub fn slowest_kept(&self) -> Vec<usize> {
        self.workloads.iter().map(|workload| workload.slowest.kept.len()).collect()
    }
}

impl WorkloadSampler {
    fn largest(&self) -> usize {
        self.group.largest().max(self.slowest.kept.len()).max(self.firsts.numbers.len())
    }
}

/// The slowest iterations; of equally slow ones, those that came first.
#[derive(Debug)]
struct Slowest {
    max: usize,
    /// The least slow on top.
    kept: BinaryHeap<Reverse<(Nanos, Reverse<u64>, u64)>>,
    came: u64,
}

impl Slowest {
    fn new(max: usize) -> Self {
        Self { max, kept: BinaryHeap::new(), came: 0 }
    }

    #[inline]
    fn offer(&mut self, response_ns: Nanos, number: impl FnOnce() -> u64, gone: &mut impl FnMut(u64)) {
        self.came += 1;
        if self.kept.len() >= self.max {
            match self.kept.peek() {
                Some(Reverse((least_ns, ..))) if *least_ns < response_ns => self.pop(gone),
                _ => return,
            }
        }
        self.kept.push(Reverse((response_ns, Reverse(self.came), number())));
    }

    fn pop(&mut self, gone: &mut impl FnMut(u64)) {
        if let Some(Reverse((_, _, number))) = self.kept.pop() {
            gone(number);
        }
    }

    fn halve(&mut self, gone: &mut impl FnMut(u64)) {
        self.max = self.max.min(self.kept.len()) / 2;
        while self.kept.len() > self.max {
            self.pop(gone);
        }
    }
}

/// The first iterations of every fault.
#[derive(Debug, Default)]
struct FaultExamples {
    of_fault: HashMap<u32, u8>,
    numbers: Vec<u64>,
    is_full: bool,
}

impl FaultExamples {
    fn offer(&mut self, fault: u32, number: impl FnOnce() -> u64) {
        if self.is_full {
            return;
        }
        let count = self.of_fault.entry(fault).or_default();
        if *count < FIRST_OF_FAULT {
            *count += 1;
            self.numbers.push(number());
            self.is_full = self.numbers.len() >= FIRSTS_MAX;
        }
    }

    fn halve(&mut self, gone: &mut impl FnMut(u64)) {
        self.is_full = true;
        self.numbers.drain(self.numbers.len() / 2..).for_each(gone);
    }
}
