//! The iterations for the report's script, packed: a hundred thousand of them must fit into a small file.
//!
//! Rows are sorted by their start. Each number is split into its bytes: the first bytes of all rows come first, then
//! the second ones. What changes little from row to row is then next to itself, where gzip finds it.

use std::io::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;

use results::IterationColumns;

/// The bits of an `f32` that are kept: 16 of its 23 digits, a relative error below 1 in 100,000.
const KEPT_BITS: u32 = !0x7f;

/// The iterations in base64 of gzip, little-endian. First come the number of rows and the unit of starts in µs (u32
/// each). Then for every row the difference of its start from the one before (u32), its duration and its queue time in
/// ms (f32), each as four planes of bytes. Then workloads (two planes), outcomes (u8) and ids (16 bytes each).
pub(super) fn iterations(columns: &IterationColumns) -> io::Result<String> {
    let mut order: Vec<usize> = (0..columns.len()).collect();
    order.sort_by_key(|row| columns.start_us[*row]);
    let rows = u32::try_from(order.len()).map_err(io::Error::other)?;
    // Differences of more than 71 minutes do not fit into µs.
    let last_us = order.last().map_or(0, |row| columns.start_us[*row]);
    let unit_us = u32::try_from(last_us / u64::from(u32::MAX) + 1).unwrap_or(u32::MAX);
    let mut before = 0;
    let steps = order.iter().map(|row| {
        let at = columns.start_us[*row] / u64::from(unit_us);
        let step = u32::try_from(at - before).unwrap_or(u32::MAX);
        before = at;
        step
    });
    let steps: Vec<[u8; 4]> = steps.map(u32::to_le_bytes).collect();
    let rounded = |ms: f32| ((ms.to_bits().saturating_add(0x40)) & KEPT_BITS).to_le_bytes();
    let durations: Vec<[u8; 4]> = order.iter().map(|row| rounded(columns.duration_ms[*row])).collect();
    let waited = |row: &usize| rounded(columns.waited_ms.get(*row).copied().unwrap_or(0.0));
    let waited: Vec<[u8; 4]> = order.iter().map(waited).collect();
    let workloads: Vec<[u8; 2]> = order.iter().map(|row| columns.workload[*row].to_le_bytes()).collect();
    // Most bytes are ids, which nothing can compress: trying harder takes four times as long for 1 % less.
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(&rows.to_le_bytes())?;
    gzip.write_all(&unit_us.to_le_bytes())?;
    planes(&mut gzip, &steps)?;
    planes(&mut gzip, &durations)?;
    planes(&mut gzip, &waited)?;
    planes(&mut gzip, &workloads)?;
    gzip.write_all(&order.iter().map(|row| columns.outcome[*row]).collect::<Vec<u8>>())?;
    gzip.write_all(&order.iter().flat_map(|row| columns.trace_id[*row]).collect::<Vec<u8>>())?;
    Ok(STANDARD.encode(gzip.finish()?))
}

fn planes<const N: usize>(out: &mut impl Write, values: &[[u8; N]]) -> io::Result<()> {
    (0..N).try_for_each(|place| out.write_all(&values.iter().map(|value| value[place]).collect::<Vec<u8>>()))
}
