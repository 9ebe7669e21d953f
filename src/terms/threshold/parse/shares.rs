//! Reads metrics in percent that have no requests: `share(function "NAME")` and `overhead(p50)`.

use std::ops::Range;

use super::{Mistake, Piece, alone, mistake, name, percentile, statistic};
use crate::threshold::{Metric, Statistic};

/// `share(function "NAME")`.
pub(super) fn share(at: Range<usize>, pieces: Vec<(Range<usize>, Piece)>) -> Result<Metric, Mistake> {
    let mut pieces = pieces.into_iter();
    match pieces.next() {
        Some((at, Piece::Word(word))) if word == "function" => {
            let function = name(&word, at, &mut pieces)?;
            alone(Metric::Share(function), &pieces.collect::<Vec<_>>())
        }
        _ => Err(mistake(at, "`share` of what?", "write share(function \"NAME\")")),
    }
}

pub(super) fn overhead(at: Range<usize>, mut pieces: Vec<(Range<usize>, Piece)>) -> Result<Metric, Mistake> {
    let piece = if pieces.is_empty() { None } else { Some(pieces.remove(0)) };
    let statistic = match piece {
        Some((at, Piece::Number(percent))) => percentile(percent, at)?,
        Some((at, Piece::Word(word))) => statistic(&word, at, &mut pieces)?,
        _ => return Err(mistake(at, "`overhead` without its percentile", "write overhead(p50)")),
    };
    match statistic {
        Statistic::Percentile(percent) => alone(Metric::Overhead(percent), &pieces),
        _ => Err(mistake(
            at,
            "the overhead of profiling is measured only at percentiles",
            "write overhead(p50)",
        )),
    }
}
