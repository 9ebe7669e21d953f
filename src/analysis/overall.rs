//! Slow iterations that are slow as a whole: everything in them is slower, or they come at the same moments.
//!
//! This is asked only if no kind of point explains the gap. Everything is slower if, in most slow traces, the kinds grew by
//! about the same factor: of the time outside the kind that grew most, most belongs to kinds that grew too. A stop of
//! everything falls into one kind of each trace, whichever runs, and holds up all that is under way. Nothing here may fetch
//! or print.

use std::collections::HashMap;

use super::attribution::{Attribution, Breakdown};
use super::breakdown::Kind;
use super::proportion::is_of_service;
use results::model::{Overall, SlowMoments, WholePattern};

/// Services explain at least this share of the gap.
const SERVICES_MIN: f64 = 0.6;
/// They take at least this many times as long.
const FACTOR_MIN: f64 = 1.3;
/// Kinds that take less of the services' time in typical traces are too noisy to have a factor.
const KIND_MIN: f64 = 0.02;
/// One kind that takes more of it leaves nothing to compare it with.
const KIND_MAX: f64 = 0.97;
/// A kind grew too if its growth is at least this part of that of its trace.
const GROWTH_MIN: f64 = 0.4;
/// Of the time outside the kind that grew most, kinds that grew too take at least this share, on average.
const COVERED_MIN: f64 = 0.6;

/// How slow traces are slow as a whole, if they are; `moments` are the moments at which they come.
pub(super) fn overall(
    found: &Attribution,
    kinds: &[Kind],
    (slow, typical): (&[Breakdown], &[Breakdown]),
    moments: Option<SlowMoments>,
) -> Option<Overall> {
    if found.unsupported.is_some() {
        return None;
    }
    let usual = means(typical, kinds);
    let usual_us: f64 = usual.values().sum();
    let slow_us: f64 = means(slow, kinds).values().sum();
    if usual_us <= 0.0 || slow_us - usual_us < SERVICES_MIN * (found.slow_us - found.fast_us) {
        return None;
    }
    let factor = slow_us / usual_us;
    let of_weight: HashMap<usize, f64> = usual
        .iter()
        .map(|(kind, us)| (*kind, us / usual_us))
        .filter(|(_, share)| *share >= KIND_MIN)
        .collect();
    let is_one = of_weight.values().any(|share| *share > KIND_MAX);
    if factor < FACTOR_MIN {
        return None;
    }
    let covered: Vec<f64> =
        slow.iter().filter_map(|trace| covered(trace, kinds, &usual, &of_weight)).collect();
    let mean = covered.iter().sum::<f64>() / (covered.len().max(1)) as f64;
    let pattern = match moments {
        _ if of_weight.len() > 1 && !is_one && mean >= COVERED_MIN => WholePattern::SameFactor,
        Some(_) => WholePattern::SameMoments,
        None => return None,
    };
    Some(Overall { pattern, factor, moments })
}

/// The mean time of each kind of the services.
fn means(traces: &[Breakdown], kinds: &[Kind]) -> HashMap<usize, f64> {
    let mut means: HashMap<usize, f64> = HashMap::new();
    for part in traces.iter().flat_map(|trace| &trace.parts).filter(|part| is_of_service(&kinds[part.kind])) {
        *means.entry(part.kind).or_default() += part.exclusive_us / traces.len() as f64;
    }
    means
}

/// Of the typical time outside the kind that grew most in a trace, the share of kinds that grew too; `None` if the trace is
/// not slower.
fn covered(
    trace: &Breakdown,
    kinds: &[Kind],
    usual: &HashMap<usize, f64>,
    of_weight: &HashMap<usize, f64>,
) -> Option<f64> {
    let usual_us: f64 = usual.values().sum();
    let mut here: HashMap<usize, f64> = HashMap::new();
    for part in trace.parts.iter().filter(|part| is_of_service(&kinds[part.kind])) {
        *here.entry(part.kind).or_default() += part.exclusive_us;
    }
    let growth = here.values().sum::<f64>() / usual_us - 1.0;
    if growth <= 0.0 {
        return None;
    }
    let longer = |kind: usize| here.get(&kind).copied().unwrap_or(0.0) - usual[&kind];
    let most = of_weight.keys().copied().max_by(|&one, &other| longer(one).total_cmp(&longer(other)))?;
    let rest = || of_weight.iter().filter(|(kind, _)| **kind != most);
    let all: f64 = rest().map(|(_, share)| share).sum();
    let grew = |kind: usize| longer(kind) / usual[&kind] >= GROWTH_MIN * growth;
    let too: f64 = rest().filter(|(kind, _)| grew(**kind)).map(|(_, share)| share).sum();
    (all > 0.0).then(|| too / all)
}
