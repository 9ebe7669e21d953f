//! A cause that only some of the slow iterations have: a call that they make and typical ones do not.
//!
//! On a busy machine many iterations are slow for no reason of their own, and the few that run a slow statement are
//! lost among them. But they can be told from the others by what they do. A kind of point that typical iterations
//! hardly ever call splits the slow ones; the ones that call it are compared with typical ones by themselves. That a
//! kind is called says nothing of how long it takes, so chance may not choose it. The iterations that call it must be
//! later in the order of response times than chance explains (the rank-sum test over all traces, corrected for the
//! number of kinds). And of the difference between them and typical iterations, the kind must explain more than any
//! other does.
//!
//! Nothing here may fetch, print or write text for readers.

use super::compared::Traces;
use super::polls::PAUSE;
use statistics::ranks::chance_of_later;

/// At least this many slow iterations must make the call: a finding by fewer would rest on too little.
pub(super) const CALLERS_MIN: usize = 5;
/// The error probability over all kinds.
const ALPHA: f64 = 0.01;
/// At most this share of typical iterations makes the call, too.
const TYPICAL_MAX: f64 = 0.1;
/// A kind that typical iterations call often must be called at least this many times as often.
const TIMES_AS_OFTEN: f64 = 2.0;
/// At most this many kinds are looked at: those that take most time.
const KINDS_MAX: usize = 8;

/// A kind that some slow iterations call, and typical ones do not.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OccasionalCall {
    /// The kind's number.
    pub(super) kind: usize,
    /// The slow iterations that call it, as indices of traces.
    pub(super) by: Vec<usize>,
    /// Whether they are later in the order of response times than chance explains.
    pub(super) is_certain: bool,
}

/// The kinds that some of these slow iterations call and these typical ones do not, those that take most time first. All
/// these traces are complete.
pub(super) fn called_by_some(traces: &Traces<'_>, slow: &[usize], typical: &[usize]) -> Vec<OccasionalCall> {
    let mut order: Vec<(usize, bool)> = slow.iter().map(|&one| (one, true)).collect();
    order.extend(typical.iter().map(|&one| (one, false)));
    order.sort_by_key(|&(one, _)| traces.compared[one].sample.response_ns());
    let kinds = traces.breakdowns.kinds.len();
    let (mut calls, mut us) = (vec![vec![0.0; order.len()]; kinds], vec![0.0; kinds]);
    for (place, &(one, is_slow)) in order.iter().enumerate() {
        for part in traces.breakdowns.traces[one].iter().flat_map(|trace| &trace.parts) {
            calls[part.kind][place] += part.calls;
            us[part.kind] += if is_slow { part.exclusive_us } else { 0.0 };
        }
    }
    let mut found: Vec<(usize, Vec<bool>)> = Vec::new();
    let mut tests = 0_u32;
    for (kind, calls) in calls.iter().enumerate() {
        let of_typical =
            calls.iter().zip(&order).filter(|(_, (_, is_slow))| !is_slow).map(|(calls, _)| *calls);
        let usual = median(of_typical.collect());
        let has: Vec<bool> = calls.iter().map(|&one| one > 0.0 && one >= TIMES_AS_OFTEN * usual).collect();
        let count = has.iter().filter(|has| **has).count();
        if count == 0 || count == has.len() || traces.breakdowns.kinds[kind].name == PAUSE {
            continue;
        }
        tests += 1;
        let by_typical = has.iter().zip(&order).filter(|(has, (_, is_slow))| **has && !is_slow).count();
        if by_typical < count && by_typical as f64 <= TYPICAL_MAX * typical.len() as f64 {
            found.push((kind, has));
        }
    }
    found.sort_by(|(one, _), (other, _)| us[*other].total_cmp(&us[*one]).then(one.cmp(other)));
    found.truncate(KINDS_MAX);
    let called = |(kind, has): (usize, Vec<bool>)| {
        let by = order.iter().zip(&has).filter(|((_, is_slow), has)| **has && *is_slow);
        let by: Vec<usize> = by.map(|((one, _), _)| *one).collect();
        let is_certain = by.len() >= CALLERS_MIN && chance_of_later(&has) * f64::from(tests) <= ALPHA;
        OccasionalCall { kind, by, is_certain }
    };
    found.into_iter().map(called).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
