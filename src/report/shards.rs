//! The processes that made a load together, in words.

use base::units::format_ns;
use results::model::{MergedShard, Results, RunStatus};

/// How many shards a run was merged from, and how far apart they began; `None` if it was not merged.
pub(super) fn sentence(results: &Results) -> Option<String> {
    let shards = &results.shards;
    let began = || shards.iter().map(|shard| shard.began_s);
    let apart_s = began().fold(f64::MIN, f64::max) - began().fold(f64::MAX, f64::min);
    let mut hosts: Vec<&str> = shards.iter().map(|shard| shard.environment.host.as_str()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let plural = |count: usize, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
    let open = shards.iter().filter(|shard| shard.status == RunStatus::Recovered).count();
    let open = if open == 0 { String::new() } else { format!(", {open} without an end") };
    let counts =
        |pick: fn(u64, u64) -> u64, from: u64| shards.iter().map(|shard| shard.iterations).fold(from, pick);
    (!shards.is_empty()).then(|| {
        let (least, most) = (counts(u64::min, u64::MAX), counts(u64::max, 0));
        let each = if least == most { format!("{most}") } else { format!("{least} to {most}") };
        format!(
            "{} on {}, begun within {}; {each} iterations each{}{open}",
            plural(shards.len(), "shard"),
            plural(hosts.len(), "machine"),
            format_ns((apart_s.max(0.0) * 1e9) as u64),
            corrected(shards)
        )
    })
}

/// How far a machine's clock was off, if one was.
fn corrected(shards: &[MergedShard]) -> String {
    let off = shards.iter().filter_map(|shard| Some((shard.clock_correction_s?, shard.index)));
    let most = off.max_by(|one, other| one.0.abs().total_cmp(&other.0.abs()));
    match most.filter(|(off_s, _)| *off_s != 0.0) {
        None => String::new(),
        Some((off_s, index)) => {
            format!(
                "; the clock of shard {index} was off by {}, which is corrected",
                format_ns((off_s.abs() * 1e9) as u64)
            )
        }
    }
}
