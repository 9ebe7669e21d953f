//! How response times are spread, in a few lines.

use results::model::{Distribution, Workload};

use super::document::{Column, DocumentTable, RowRole};
use super::words::duration;

/// How many lines there are.
const LINES: usize = 8;
/// With fewer iterations, every line is a single one.
const COUNT_MIN: u64 = 20;
/// The longest bar, in characters.
const BAR_CHARS: u64 = 30;

/// The table; `None` if there are too few iterations, or all took about the same time.
pub(super) fn table(workload: &Workload) -> Option<DocumentTable> {
    let Distribution { count, min_ms, max_ms, buckets, .. } = &workload.response_time;
    if *count < COUNT_MIN || *min_ms <= 0.0 || *max_ms < min_ms * 1.5 {
        return None;
    }
    // Each line ends at the same multiple of its beginning.
    let ratio = (max_ms / min_ms).powf(1.0 / LINES as f64);
    let line_of = |ms: f64| ((ms / min_ms).ln() / ratio.ln()).floor().clamp(0.0, LINES as f64 - 1.0) as usize;
    let mut counts = [0_u64; LINES];
    for bucket in buckets {
        counts[line_of((bucket.from_ms * bucket.to_ms).sqrt())] += bucket.count;
    }
    let most = counts.iter().max().copied().unwrap_or(0).max(1);
    let mut table =
        DocumentTable::new(vec![Column::figure("up to"), Column::figure("iterations"), Column::words("")]);
    for (line, count) in (1_i32..).zip(counts) {
        // One iteration is seen, too.
        let bar = (count * BAR_CHARS).div_ceil(most);
        let bar = "\u{2587}".repeat(usize::try_from(bar).unwrap_or(0));
        let end = if line as usize == LINES { *max_ms } else { min_ms * ratio.powi(line) };
        table.part(RowRole::Whole, vec![duration(end).into(), count.to_string().into(), bar.into()]);
    }
    Some(table)
}
