//! What ended in a slice of a run's time.

use base::clock::Nanos;
use measure::latency::SampleId;
use statistics::mean::Powers;

/// What ended in a slice of time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slice {
    /// Without fault.
    pub ok: u64,
    /// With a fault.
    pub failed: u64,
    /// Due and never started.
    pub dropped: u64,
    /// Cut off.
    pub aborted: u64,
    /// Those that came to their end, and sent a request once more.
    pub resent: u64,
    /// The times of those without fault.
    pub ok_sum_ns: u128,
    /// The sum of its numbers, in a series of numbers from answers. The other values are then the ranks of numbers
    /// ([`measure::numbers::rank_of`]) in place of times.
    pub ok_sum: f64,
    /// The powers of their distances from the series' first one.
    pub ok_powers: Powers,
    /// The shortest of those without fault.
    pub min_ns: Option<Nanos>,
    /// The longest of those without fault.
    pub ok_max_ns: Option<Nanos>,
    /// The shortest and the longest time after which one was cut off.
    pub cut_ns: Option<(Nanos, Nanos)>,
    /// The longest of those that came to their end.
    pub max_ns: Nanos,
    /// The longest of them.
    pub longest: Option<SampleId>,
    /// One with a fault.
    pub failing: Option<SampleId>,
}

impl Slice {
    /// Puts another slice into this one.
    pub fn add(&mut self, other: &Self) {
        self.ok += other.ok;
        self.failed += other.failed;
        self.dropped += other.dropped;
        self.aborted += other.aborted;
        self.resent += other.resent;
        self.ok_sum_ns += other.ok_sum_ns;
        self.ok_sum += other.ok_sum;
        self.ok_powers.merge(&other.ok_powers);
        self.min_ns = [self.min_ns, other.min_ns].into_iter().flatten().min();
        self.ok_max_ns = self.ok_max_ns.max(other.ok_max_ns);
        self.cut_ns = match (self.cut_ns, other.cut_ns) {
            (Some((low, high)), Some((other_low, other_high))) => {
                Some((low.min(other_low), high.max(other_high)))
            }
            (one, other) => one.or(other),
        };
        if other.longest.is_some() && other.max_ns >= self.max_ns {
            (self.max_ns, self.longest) = (other.max_ns, other.longest);
        }
        self.failing = self.failing.or(other.failing);
    }

    /// All that came to their end.
    #[must_use]
    pub fn completed(&self) -> u64 {
        self.ok + self.failed
    }

    /// All that were due.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.ok + self.failed + self.dropped + self.aborted
    }
}
