//! Whether the causes explain enough of the gap to be called its cause.
//!
//! Where a machine is busy, slow traces are slower everywhere, and the kind that happens to be first explains little.
//! But a service that stalls (a blocked event loop, garbage collection) is slower everywhere too. Then its kinds
//! explain the gap together, with the time that its callers wait for it to begin, and far beyond its part of a typical
//! trace. And a kind that explains far more than any other, and than it takes of a typical trace, is the cause even if
//! all else is a little slower too.

use super::attribution::{Breakdown, KindContribution};

/// Causes explain at least this share of the gap together; or one service's share of the gap exceeds its share of a
/// typical trace by this much.
const EXPLAINED_MIN: f64 = 0.5;
/// A kind leads if it explains at least this many times as much as any other that is no cause.
const LEADS_BY: f64 = 3.0;
/// And if its share exceeds its share of a typical trace by this much.
const LEADS_MIN: f64 = 0.2;

/// Whether the causes of these explain enough. `services` has for each kind the service that its own time belongs
/// to; `typical` are the typical traces.
#[must_use]
pub fn is_explained(causes: &[KindContribution], services: &[Option<String>], typical: &[Breakdown]) -> bool {
    let together: f64 = causes.iter().filter(|cause| cause.is_cause).map(|cause| cause.share).sum();
    together >= EXPLAINED_MIN || stands_out(causes, services, typical) || leads(causes, typical)
}

/// Whether a cause explains far more than all that are no causes, even at its lower bound.
fn leads(causes: &[KindContribution], typical: &[Breakdown]) -> bool {
    let next = causes.iter().filter(|cause| !cause.is_cause).map(|cause| cause.share).fold(0.0, f64::max);
    causes.iter().filter(|cause| cause.is_cause).any(|cause| {
        let usual = share_of(typical, |kind| kind == cause.kind);
        cause.share_low >= LEADS_BY * next && cause.share_low - usual >= LEADS_MIN
    })
}

/// Whether the service of a cause explains that much more of the gap than it takes of a typical trace.
#[must_use]
pub fn stands_out(causes: &[KindContribution], services: &[Option<String>], typical: &[Breakdown]) -> bool {
    causes.iter().filter(|cause| cause.is_cause).any(|cause| {
        let service = services.get(cause.kind).and_then(Option::as_ref);
        let is_its =
            |kind: usize| service.is_some() && services.get(kind).and_then(Option::as_ref) == service;
        let of_gap: f64 = causes.iter().filter(|cause| is_its(cause.kind)).map(|cause| cause.share).sum();
        of_gap - share_of(typical, is_its) >= EXPLAINED_MIN
    })
}

/// Whether a cause explains half of the gap even at its lower bound. That all of a service is slower, which many
/// things on a busy machine are, is worth saying only then.
#[must_use]
pub fn is_certain(causes: &[KindContribution]) -> bool {
    causes.iter().any(|cause| cause.is_cause && cause.share_low >= EXPLAINED_MIN)
}

/// The share of the traces' time that these kinds take.
fn share_of(traces: &[Breakdown], is_counted: impl Fn(usize) -> bool) -> f64 {
    let parts = || traces.iter().flat_map(|trace| &trace.parts);
    let all_us: f64 = parts().map(|part| part.exclusive_us).sum();
    let counted_us: f64 = parts().filter(|part| is_counted(part.kind)).map(|part| part.exclusive_us).sum();
    if all_us > 0.0 { counted_us / all_us } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::super::attribution::{Part, compare};
    use super::*;

    /// Traces whose kinds take these times, more or less.
    fn traces(number: usize, means_us: &[f64]) -> Vec<Breakdown> {
        let mut random = fastrand::Rng::with_seed(number as u64);
        let mut part = |(kind, us): (usize, &f64)| {
            let us = us * (0.5 + random.f64());
            Part { kind, exclusive_us: us, self_us: us, calls: 1.0, ..Part::default() }
        };
        (0..number)
            .map(|_| Breakdown { parts: means_us.iter().enumerate().map(&mut part).collect() })
            .collect()
    }

    #[test]
    fn causes_or_their_service_explain_half_of_the_gap() {
        let rows = [
            ("one kind", "a a b b c c", [900.0, 180.0, 180.0, 180.0, 180.0, 180.0], true),
            ("everything, one kind most", "a a b b c c", [330.0, 180.0, 180.0, 180.0, 180.0, 180.0], false),
            (
                "the same of one service alone",
                "a a a a a a",
                [330.0, 180.0, 180.0, 180.0, 180.0, 180.0],
                false,
            ),
            ("two kinds of one service", "a a b b c c", [660.0, 600.0, 130.0, 130.0, 130.0, 130.0], true),
            ("two kinds of two services", "a b b c c c", [660.0, 600.0, 130.0, 130.0, 130.0, 130.0], false),
            (
                "one kind far more than others",
                "a b c d e f",
                [370.0, 160.0, 160.0, 160.0, 160.0, 160.0],
                true,
            ),
            ("kinds of no service", "- - b b c c", [660.0, 600.0, 130.0, 130.0, 130.0, 130.0], false),
        ];
        let typical = traces(80, &[100.0; 6]);
        for (what, services, slow, expected) in rows {
            let service = |name: &str| (name != "-").then(|| name.to_owned());
            let services: Vec<Option<String>> = services.split(' ').map(service).collect();
            let mut causes = compare(&traces(40, &slow), &typical, 6, 0.0, 7).causes;
            // Only the first is clear enough by itself.
            assert!(causes[0].kind == 0 && causes[0].is_cause, "{what}: {:?}", causes[0]);
            causes[1..].iter_mut().for_each(|cause| cause.is_cause = false);
            assert_eq!(is_explained(&causes, &services, &typical), expected, "{what}: {causes:?}");
        }
    }
}
