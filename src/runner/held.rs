//! What the process holds, over the whole load: memory, descriptors, threads.
//!
//! A load of hours must not grow with the time it takes; these readings show whether it does.

use base::clock::Nanos;
use measure::intervals::Intervals;

use measure::generator::ProcessSeries;

const NS_PER_S: f64 = 1e9;

/// One reading; a number is 0 if the system does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ProcessUsage {
    /// Resident memory.
    pub(super) memory_bytes: u64,
    /// Open descriptors.
    pub(super) descriptors: u64,
    pub(super) threads: u64,
}

impl ProcessUsage {
    /// Reads all three.
    pub(super) fn now() -> Self {
        // Since Linux 6.2 the size of this directory is the number of descriptors; reading its entries would cost many
        // system calls.
        let descriptors = std::fs::metadata("/proc/self/fd").map_or(0, |folder| folder.len());
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        Self { descriptors, ..Self::from_stat(&stat, page_bytes()) }
    }

    /// The memory and the threads in `/proc/self/stat`, as proc(5) describes it.
    fn from_stat(stat: &str, page_bytes: u64) -> Self {
        // The second field is the program's name, in brackets, and may hold anything; the third follows the last of them.
        let fields: Vec<&str> =
            stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
        let field =
            |number: usize| fields.get(number - 3).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        Self { memory_bytes: field(24).saturating_mul(page_bytes), descriptors: 0, threads: field(20) }
    }

    fn merge(&mut self, other: Self) {
        self.memory_bytes = self.memory_bytes.max(other.memory_bytes);
        self.descriptors = self.descriptors.max(other.descriptors);
        self.threads = self.threads.max(other.threads);
    }
}

/// All readings, in bounded memory.
#[derive(Debug, Default)]
pub(super) struct OverTime(Intervals<ProcessUsage>);

impl OverTime {
    /// Adds a reading, taken this long after the run's anchor.
    pub(super) fn add(&mut self, at_ns: Nanos, held: ProcessUsage) {
        self.0.at(at_ns, ProcessUsage::merge).merge(held);
    }

    /// The readings, which were taken this often; `None` if there are none, or the system says nothing.
    pub(super) fn finish(mut self, every_ns: Nanos) -> Option<ProcessSeries> {
        // Nearly each interval gets a reading of its own; the others keep what was seen before.
        while self.0.step_ns() < every_ns.saturating_mul(2) {
            self.0.double(ProcessUsage::merge);
        }
        let mut series = ProcessSeries {
            start_s: self.0.start_ns() as f64 / NS_PER_S,
            step_s: self.0.step_ns() as f64 / NS_PER_S,
            ..ProcessSeries::default()
        };
        let mut before = ProcessUsage::default();
        for held in self.0.iter() {
            before = if *held == ProcessUsage::default() { before } else { *held };
            series.memory_bytes.push(before.memory_bytes);
            series.descriptors.push(before.descriptors);
            series.threads.push(before.threads);
        }
        (before != ProcessUsage::default()).then_some(series)
    }
}

#[cfg(unix)]
fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

#[cfg(not(unix))]
fn page_bytes() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_and_threads_are_read_whatever_the_program_is_called() {
        let of = |name: &str| {
            format!(
                "4711 ({name}) S 1 1 1 0 -1 4194304 90 0 0 0 3 4 0 0 20 0 7 0 12345 999424 321 18446744073709551615 1"
            )
        };
        let expected = ProcessUsage { memory_bytes: 321 * 4096, descriptors: 0, threads: 7 };
        for (stat, expected) in [
            (of("bench"), expected),
            (of("a b) S 9 (c"), expected),
            (String::new(), ProcessUsage::default()),
            ("4711 (bench".to_owned(), ProcessUsage::default()),
            ("4711 (bench) S 1".to_owned(), ProcessUsage::default()),
        ] {
            assert_eq!(ProcessUsage::from_stat(&stat, 4096), expected, "{stat}");
        }
        if cfg!(target_os = "linux") {
            let now = ProcessUsage::now();
            assert!(now.memory_bytes > 100_000 && now.threads >= 1, "{now:?}");
        }
    }

    #[test]
    fn hours_of_readings_are_few_and_none_is_empty() {
        const EVERY_NS: u64 = 100_000_000;
        // How many readings, one every tenth of a second; the readings that are left out while the process is stopped.
        for (readings, stopped) in [(1_u64, 0..0), (30, 0..0), (36_000, 0..0), (36_000, 9_000..20_000)] {
            let mut all = OverTime::default();
            for n in (0..readings).filter(|n| !stopped.contains(n)) {
                all.add(n * EVERY_NS, ProcessUsage { memory_bytes: 1_000 + n, descriptors: 9, threads: 3 });
            }
            let series = all.finish(EVERY_NS).unwrap();
            let covered_s = series.step_s * series.memory_bytes.len() as f64;
            assert!(series.start_s.abs() < 1e-9, "{series:?}");
            assert!(
                covered_s >= readings as f64 * 0.1 && covered_s < readings as f64 * 0.1 + 2.0 * series.step_s,
                "{series:?}"
            );
            let most = series.memory_bytes.iter().max().copied();
            assert_eq!(most, Some(1_000 + readings - 1), "{readings}");
            assert!(series.memory_bytes.len() <= 120 && series.memory_bytes.is_sorted(), "{series:?}");
            assert!(series.memory_bytes.iter().all(|bytes| *bytes >= 1_000), "{series:?}");
            assert!(series.descriptors.iter().all(|n| *n == 9) && series.threads.iter().all(|n| *n == 3));
        }
        // The first reading comes with the load, which may begin late.
        let mut late = OverTime::default();
        (0..30).for_each(|n| {
            late.add(
                90_000_000_000 + n * EVERY_NS,
                ProcessUsage { memory_bytes: 1, descriptors: 9, threads: 3 },
            )
        });
        let start_s = late.finish(EVERY_NS).unwrap().start_s;
        assert!((88.0..=90.0).contains(&start_s), "{start_s}");
        let mut nothing = OverTime::default();
        nothing.add(0, ProcessUsage::default());
        assert_eq!(nothing.finish(EVERY_NS), None);
        assert_eq!(OverTime::default().finish(EVERY_NS), None);
    }
}
