//! Tables of samples with rows of fixed size; a worker appends to them, and a block of the log contains them.
//!
//! Nothing here may allocate per sample: both tables rarely grow, and are sent as a whole.

use base::clock::Nanos;

use super::latency::SampleId;
use super::numbers::MeasuredNumber;
use super::sample::{ActionSample, CompletionStatus, IterationSample};
use super::streams::{GAPS_OF_ITERATION_MAX, GapCounts, StreamSample};

/// The most requests of an iteration that are kept.
pub const REQUESTS_OF_ITERATION_MAX: usize = 100_000;

/// What a stream takes in memory, but for its gaps.
const STREAM_BYTES: usize = size_of::<StreamSample>();
/// The most iterations of a block of the log.
pub(super) const BLOCK_ROWS_MAX: usize = 8192;
/// A block with this many requests is full; the last iteration may exceed this.
const BLOCK_REQUESTS: usize = 16 * 1024;
/// The same for different gaps between the messages of streams.
pub(super) const BLOCK_GAPS: usize = 1 << 16;
/// The same for numbers.
pub(super) const BLOCK_NUMBERS: usize = 16 * 1024;
/// The most numbers of an iteration that are kept.
pub(super) const NUMBERS_OF_ITERATION_MAX: usize = 100_000;

/// An iteration without its requests. All offsets count from the run's anchor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IterationHead {
    /// The iteration's number within its workload.
    pub number: u64,
    /// When it was due.
    pub due_ns: Nanos,
    /// When it started.
    pub start_ns: Nanos,
    /// From its start to its end.
    pub duration_ns: Nanos,
    /// The number of its fault in the log's table of errors; 0 for none.
    pub error: u32,
    /// How many requests it has.
    pub actions: u32,
    /// How many of them were answered by a stream.
    pub streams: u32,
    /// How many numbers were taken from their answers.
    pub numbers: u32,
    /// Its virtual user's number plus 1, if that decides which rows of data it got; 0 otherwise.
    pub user: u32,
    /// The workload's index.
    pub workload: u16,
    /// How it ended.
    pub ended: CompletionStatus,
    /// True before the workload's warm-up is over.
    pub warm_up: bool,
    /// True if one of its requests was sent once more.
    pub resent: bool,
}

impl IterationHead {
    /// From the time it was due to its end.
    #[must_use]
    pub fn response_ns(&self) -> Nanos {
        self.queue_time_ns().saturating_add(self.duration_ns)
    }

    /// From the time it was due to its start.
    #[must_use]
    pub fn queue_time_ns(&self) -> Nanos {
        self.start_ns.saturating_sub(self.due_ns)
    }

    /// False for one that was due and never ran: it was dropped, or it waited for a user until the run was cut off. Its
    /// start is then when that was given up, and its duration means nothing.
    #[must_use]
    pub fn has_started(&self) -> bool {
        let is_unstarted = self.duration_ns == 0 && self.actions == 0;
        !(self.ended == CompletionStatus::Dropped || self.ended == CompletionStatus::Aborted && is_unstarted)
    }
}

impl From<(u16, u64)> for SampleId {
    fn from((workload, number): (u16, u64)) -> Self {
        Self { workload, number }
    }
}

impl From<&IterationHead> for SampleId {
    fn from(head: &IterationHead) -> Self {
        Self { workload: head.workload, number: head.number }
    }
}

impl From<&IterationSample> for SampleId {
    fn from(sample: &IterationSample) -> Self {
        Self { workload: sample.workload, number: sample.number }
    }
}

impl IterationSample {
    /// The sample without its requests.
    #[inline]
    #[must_use]
    pub fn head(&self) -> IterationHead {
        IterationHead {
            number: self.number,
            due_ns: self.due_ns,
            start_ns: self.start_ns,
            duration_ns: self.duration_ns,
            error: self.error,
            actions: self.actions.len() as u32,
            streams: self.streams.len() as u32,
            numbers: self.numbers.len() as u32,
            user: self.user,
            workload: self.workload,
            ended: self.ended,
            warm_up: self.warm_up,
            resent: self.actions.iter().any(|action| action.phases.resent),
        }
    }
}

/// An iteration in [`Rows`], with its requests.
#[derive(Clone, Copy, Debug)]
pub struct SampleRow<'a> {
    pub head: &'a IterationHead,
    /// Its requests, in order.
    pub actions: &'a [ActionSample],
    /// Their streams, in no order.
    pub streams: &'a [StreamSample],
    /// The numbers that were taken from their answers, in no order.
    pub numbers: &'a [MeasuredNumber],
}

impl SampleRow<'_> {
    /// The stream that answered an action, if one did.
    #[must_use]
    pub fn stream_of(&self, action: &ActionSample) -> Option<&StreamSample> {
        self.streams.iter().find(|stream| stream.point == action.point)
    }

    /// The same as a sample that owns its requests.
    #[must_use]
    pub fn to_sample(&self) -> IterationSample {
        IterationSample {
            workload: self.head.workload,
            number: self.head.number,
            warm_up: self.head.warm_up,
            due_ns: self.head.due_ns,
            start_ns: self.head.start_ns,
            duration_ns: self.head.duration_ns,
            ended: self.head.ended,
            error: self.head.error,
            user: self.head.user,
            actions: self.actions.to_vec(),
            streams: self.streams.to_vec(),
            numbers: self.numbers.to_vec(),
        }
    }
}

/// Iterations and, in the same order, their requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    pub(super) heads: Vec<IterationHead>,
    pub(super) actions: Vec<ActionSample>,
    pub(super) streams: Vec<StreamSample>,
    pub(super) numbers: Vec<MeasuredNumber>,
    /// How many different gaps the streams have.
    gaps: usize,
}

impl Rows {
    /// Empty rows with the capacity for the contents of `other`.
    #[must_use]
    pub fn as_large_as(other: &Self) -> Self {
        Self {
            heads: Vec::with_capacity(other.heads.len()),
            actions: Vec::with_capacity(other.actions.len()),
            ..Self::default()
        }
    }

    /// Appends a sample.
    #[inline]
    pub fn push(&mut self, sample: &IterationSample) {
        let actions = &sample.actions[..sample.actions.len().min(REQUESTS_OF_ITERATION_MAX)];
        let numbers = &sample.numbers[..sample.numbers.len().min(NUMBERS_OF_ITERATION_MAX)];
        let (actions_kept, numbers_kept) = (actions.len() as u32, numbers.len() as u32);
        self.heads.push(IterationHead { actions: actions_kept, numbers: numbers_kept, ..sample.head() });
        self.actions.extend_from_slice(actions);
        self.numbers.extend_from_slice(numbers);
        if !sample.streams.is_empty() {
            self.push_streams(&sample.streams);
        }
    }

    pub(super) fn push_streams(&mut self, streams: &[StreamSample]) {
        let before = self.gaps;
        for stream in streams {
            let mut stream = stream.clone();
            if self.gaps - before + stream.gaps.len() > GAPS_OF_ITERATION_MAX {
                stream.gaps = GapCounts::default();
            }
            self.gaps += stream.gaps.len();
            self.streams.push(stream);
        }
    }

    /// Appends a row of another table.
    pub fn push_row(&mut self, row: SampleRow<'_>) {
        self.heads.push(*row.head);
        self.actions.extend_from_slice(row.actions);
        self.push_streams(row.streams);
        self.numbers.extend_from_slice(row.numbers);
    }

    /// Appends all rows of another table.
    pub fn extend(&mut self, other: &Self) {
        self.heads.extend_from_slice(&other.heads);
        self.actions.extend_from_slice(&other.actions);
        self.streams.extend_from_slice(&other.streams);
        self.numbers.extend_from_slice(&other.numbers);
        self.gaps += other.gaps;
    }

    /// Moves all times by this much; none is before the anchor.
    pub fn shift(&mut self, by_ns: i64) {
        for head in &mut self.heads {
            head.due_ns = head.due_ns.saturating_add_signed(by_ns);
            head.start_ns = head.start_ns.saturating_add_signed(by_ns);
        }
    }

    /// Removes all rows but keeps the memory.
    pub fn clear(&mut self) {
        self.heads.clear();
        self.actions.clear();
        self.streams.clear();
        self.numbers.clear();
        self.gaps = 0;
    }

    /// The number of iterations.
    #[must_use]
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// True if there are no iterations.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// The number of requests.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.actions.len()
    }

    /// True if they fill a block of the log.
    #[must_use]
    pub fn fill_a_block(&self) -> bool {
        self.heads.len() >= BLOCK_ROWS_MAX
            || self.actions.len() >= BLOCK_REQUESTS
            || self.gaps >= BLOCK_GAPS
            || self.numbers.len() >= BLOCK_NUMBERS
    }

    /// True if these and `more` fit into a block.
    #[must_use]
    pub fn share_a_block(&self, more: &Self) -> bool {
        self.heads.len() + more.heads.len() <= BLOCK_ROWS_MAX
            && self.actions.len() + more.actions.len() <= BLOCK_REQUESTS
            && self.gaps + more.gaps <= BLOCK_GAPS
            && self.numbers.len() + more.numbers.len() <= BLOCK_NUMBERS
    }

    /// The memory that the rows use, in bytes.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.heads.len() * size_of::<IterationHead>()
            + self.actions.len() * size_of::<ActionSample>()
            + self.streams.len() * STREAM_BYTES
            + self.numbers.len() * size_of::<MeasuredNumber>()
            + self.gaps * size_of::<(u16, u32)>()
    }

    /// The iterations without their requests, in order.
    #[must_use]
    pub fn heads(&self) -> &[IterationHead] {
        &self.heads
    }

    /// The iterations, in order.
    pub fn iter(&self) -> impl Iterator<Item = SampleRow<'_>> {
        let (mut rest, mut rest_of_streams) = (self.actions.as_slice(), self.streams.as_slice());
        let mut rest_of_numbers = self.numbers.as_slice();
        self.heads.iter().map(move |head| {
            let (actions, after) = rest.split_at((head.actions as usize).min(rest.len()));
            rest = after;
            let (streams, after) =
                rest_of_streams.split_at((head.streams as usize).min(rest_of_streams.len()));
            rest_of_streams = after;
            let (numbers, after) =
                rest_of_numbers.split_at((head.numbers as usize).min(rest_of_numbers.len()));
            rest_of_numbers = after;
            SampleRow { head, actions, streams, numbers }
        })
    }
}
