//! What was decided about each iteration, in two bits.
//!
//! Iterations end roughly in the order of their numbers. A page whose iterations are all decided is closed: from then
//! on, an iteration of it is kept if the index of kept traces has it. So the table stays small in a run of any length.

use measure::latency::SampleId;

/// Iterations of a page.
const OF_PAGE: u64 = 1 << 14;
const WORDS: usize = (OF_PAGE / 32) as usize;
/// The largest number of an iteration whose spans are taken.
pub(super) const NUMBER_MAX: u64 = (1 << 34) - 1;

/// An iteration as a single number: the key of every table here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct IterationKey(u64);

impl IterationKey {
    /// `None` for a number over [`NUMBER_MAX`].
    #[inline]
    pub(super) fn of(SampleId { workload, number }: SampleId) -> Option<Self> {
        (number <= NUMBER_MAX).then_some(Self(u64::from(workload) << 48 | number))
    }

    #[inline]
    pub(super) fn sample(self) -> SampleId {
        SampleId { workload: (self.0 >> 48) as u16, number: self.0 & ((1 << 48) - 1) }
    }
}

/// What was decided about an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Decision {
    /// Nothing yet: it is still running, or its batch has not come.
    Undecided = 0,
    /// Its spans are kept, until it is dropped.
    Kept = 1,
    /// Its spans are not wanted.
    Dropped = 2,
    /// Undecided, and spans of it were let go for want of memory.
    LetGo = 3,
}

#[derive(Debug)]
enum Page {
    Absent,
    Open(Box<OpenDecisions>),
    /// What is kept is in the index; all others are dropped.
    Closed,
}

#[derive(Debug)]
struct OpenDecisions {
    words: [u64; WORDS],
    /// Iterations that are kept or dropped.
    decided: u32,
}

/// The decisions of a run.
#[derive(Debug)]
pub(super) struct Decisions {
    workloads: Vec<Vec<Page>>,
    open: usize,
    open_max: usize,
}

impl Decisions {
    /// `open_max`: the most pages of 4 KiB.
    pub(super) fn new(workloads: usize, open_max: usize) -> Self {
        Self { workloads: (0..workloads).map(|_| Vec::new()).collect(), open: 0, open_max }
    }

    fn at(place: IterationKey) -> (usize, usize, usize, u32) {
        let SampleId { workload, number } = place.sample();
        let within = number % OF_PAGE;
        let page = (number / OF_PAGE) as usize;
        (usize::from(workload), page, (within / 32) as usize, (within % 32) as u32 * 2)
    }

    /// The decision; `None` if its page is closed.
    #[inline]
    pub(super) fn get(&self, place: IterationKey) -> Option<Decision> {
        let (workload, page, word, shift) = Self::at(place);
        match self.workloads.get(workload).and_then(|pages| pages.get(page)) {
            None | Some(Page::Absent) => Some(Decision::Undecided),
            Some(Page::Closed) => None,
            Some(Page::Open(open)) => Some(match (open.words[word] >> shift) & 3 {
                0 => Decision::Undecided,
                1 => Decision::Kept,
                2 => Decision::Dropped,
                _ => Decision::LetGo,
            }),
        }
    }

    #[inline]
    pub(super) fn set(&mut self, place: IterationKey, decision: Decision) {
        let (workload, page, word, shift) = Self::at(place);
        let Some(pages) = self.workloads.get_mut(workload) else { return };
        if pages.len() <= page {
            pages.resize_with(page + 1, || Page::Absent);
        }
        if let Page::Absent = pages[page] {
            pages[page] = Page::Open(Box::new(OpenDecisions { words: [0; WORDS], decided: 0 }));
            self.open += 1;
        }
        let Page::Open(open) = &mut pages[page] else { return };
        let is_final = |decision: u64| decision == 1 || decision == 2;
        let before = (open.words[word] >> shift) & 3;
        open.words[word] = (open.words[word] & !(3 << shift)) | (decision as u64) << shift;
        open.decided += u32::from(is_final(decision as u64));
        open.decided -= u32::from(is_final(before));
        if u64::from(open.decided) == OF_PAGE {
            pages[page] = Page::Closed;
            self.open -= 1;
        } else if self.open > self.open_max {
            self.close_first(workload);
        }
    }

    /// Closes the first open page. Iterations of it that are undecided will never be kept.
    fn close_first(&mut self, workload: usize) {
        if let Some(page) = self.workloads[workload].iter_mut().find(|page| matches!(page, Page::Open(_))) {
            *page = Page::Closed;
            self.open -= 1;
        }
    }

    /// Memory in bytes.
    pub(super) fn bytes(&self) -> usize {
        let pages: usize = self.workloads.iter().map(Vec::len).sum();
        pages * size_of::<Page>() + self.open * size_of::<OpenDecisions>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_is_remembered_until_its_page_is_closed() {
        let place = |workload, number| IterationKey::of(SampleId { workload, number }).unwrap();
        let mut decisions = Decisions::new(2, 3);
        let last = [Decision::Kept, Decision::Dropped];
        let before = [Decision::LetGo, Decision::Undecided, Decision::Kept, Decision::Dropped];
        for number in 0..OF_PAGE {
            let (place, other) = (place(1, number), place(0, number));
            // The last decision of a page closes it.
            let before = if number + 1 < OF_PAGE { &before[..] } else { &before[..2] };
            for decision in before {
                decisions.set(place, *decision);
                assert_eq!(decisions.get(place), Some(*decision), "{number}");
            }
            decisions.set(place, last[number as usize % 2]);
            assert_eq!(decisions.get(other), Some(Decision::Undecided));
            let expected = (number + 1 < OF_PAGE).then_some(last[number as usize % 2]);
            assert_eq!(decisions.get(place), expected);
        }
        assert_eq!((decisions.open, decisions.get(place(1, 5))), (0, None));
        // With too many pages, the first is closed.
        (0..4).for_each(|page| decisions.set(place(0, page * OF_PAGE + 3), Decision::Kept));
        assert_eq!((decisions.open, decisions.get(place(0, 3))), (3, None));
        assert_eq!(decisions.get(place(0, OF_PAGE + 3)), Some(Decision::Kept));
        assert!(decisions.bytes() < 5 * 5_000);
        assert_eq!(IterationKey::of(SampleId { workload: 0, number: NUMBER_MAX + 1 }), None);
        assert_eq!(place(7, NUMBER_MAX).sample(), SampleId { workload: 7, number: NUMBER_MAX });
    }
}
