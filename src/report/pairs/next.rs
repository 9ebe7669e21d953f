//! What would decide a comparison that is undecided: how many pairs, or how long rounds. Nothing here computes a
//! statistic.

use super::{Pair, PairDocument};
use results::model::Outcome;
use verdict::paired::{PAIRS_MOST, PercentileSeriesRow};

/// What to do next; `None` if the verdict is clear, or something else than times is undecided.
pub(super) fn step(paired: &PairDocument) -> Option<String> {
    if paired.decision.outcome != Outcome::Inconclusive || !paired.finished {
        return None;
    }
    let undecided = || paired.rows.iter().filter(|row| row.outcome == Outcome::Inconclusive);
    undecided().next()?;
    if undecided().any(|row| row.samples < row.series.samples_min()) {
        return None;
    }
    let counting: Vec<&Pair> = paired.pairs.iter().filter(|pair| pair.left_out.is_none()).collect();
    let needed = undecided().map(|row| row.needed).collect::<Option<Vec<_>>>();
    let Some(needed) = needed.and_then(|all| all.into_iter().max()) else {
        return Some(too_close(undecided(), paired.margin_percent));
    };
    let of_pair_s = mean(counting.iter().map(|pair| pair.a.duration_s + pair.b.duration_s));
    let factor = needed as f64 / counting.len().max(1) as f64;
    if factor <= 1.0 {
        let minutes = minutes(of_pair_s * counting.len() as f64);
        return Some(format!(
            "As many pairs would decide such differences more often than not: run it again ({minutes} of load), on a \
             quieter machine if you can."
        ));
    }
    Some(format!(
        "To decide such differences, take --pairs {needed} ({} of load), or --round {}s with as many pairs as now.",
        minutes(of_pair_s * needed as f64),
        (of_pair_s / 2.0 * factor).ceil().max(1.0)
    ))
}

/// No number of pairs decides what is at the margin.
fn too_close<'a>(undecided: impl Iterator<Item = &'a PercentileSeriesRow>, margin: f64) -> String {
    let bounds = undecided.filter_map(|row| Some((row.low?, row.high?)));
    let (low, high) =
        bounds.fold((f64::INFINITY, 0.0_f64), |(low, high), one| (low.min(one.0), high.max(one.1)));
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    let below = match percent(low) {
        below if below >= 1.0 => format!("below {below:.0} % or "),
        _ => String::new(),
    };
    format!(
        "B/A is so close to the margin of {margin} % that more than {PAIRS_MOST} pairs would be needed: take a margin \
         {below}above {:.0} % (--margin), or longer rounds (--round).",
        percent(high).ceil()
    )
}

/// `12 min`.
fn minutes(seconds: f64) -> String {
    match seconds {
        ..60.0 => "less than a minute".to_owned(),
        _ => format!("{:.0} min", (seconds / 60.0).ceil()),
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    if count > 0.0 { sum / count } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::super::{RoundInfo, Side};
    use super::*;
    use results::model::ScenarioInfo;
    use verdict::paired::{Decision, PercentileSeries, WorkloadNames, series};

    fn row(
        outcome: Outcome,
        (low, high): (f64, f64),
        needed: Option<usize>,
        samples: u64,
    ) -> PercentileSeriesRow {
        let names = [WorkloadNames { workload: "w".into(), actions: Vec::new() }];
        let series: Vec<PercentileSeries> = series(&names, &["p50".parse().unwrap()]).unwrap();
        PercentileSeriesRow {
            series: series.into_iter().find(|series| series.gated).unwrap(),
            a_ms: Some(10.0),
            b_ms: Some(11.2),
            ratio: Some(1.12),
            low: Some(low),
            high: Some(high),
            alpha: 0.0025,
            sd: Some(0.1),
            detectable: Some(1.2),
            needed,
            wilcoxon_p: None,
            outcome,
            samples,
            pairs: Vec::new(),
        }
    }

    fn paired(outcome: Outcome, rows: Vec<PercentileSeriesRow>) -> PairDocument {
        let side = || Side { name: "s".into(), deployment: "d".into(), target: None, command: None };
        let round = || RoundInfo { duration_s: 15.0, ..RoundInfo::default() };
        let pair = || Pair { b_first: false, left_out: None, a: round(), b: round(), further: Vec::new() };
        PairDocument {
            format: String::new(),
            version: 1,
            bench_version: String::new(),
            decision: Decision { outcome, reasons: Vec::new() },
            finished: true,
            scenario: ScenarioInfo {
                title: "t".into(),
                file: String::new(),
                sha256: String::new(),
                set: std::collections::BTreeMap::new(),
                options: Vec::new(),
                text: None,
            },
            a: side(),
            b: side(),
            margin_percent: 10.0,
            looks: [10, 20],
            alpha: 0.0025,
            order_seed: 0,
            seed: None,
            pairs: (0..20).map(|_| pair()).collect(),
            workloads: Vec::new(),
            rows,
            counts: Vec::new(),
            sla: Vec::new(),
            failures: Vec::new(),
            points: Vec::new(),
            functions: Vec::new(),
            calls: Vec::new(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn an_undecided_comparison_says_what_would_decide_it() {
        let open = Outcome::Inconclusive;
        let at = (1.05, 1.2);
        let more = "To decide such differences, take --pairs 34 (17 min of load), or --round 26s with as many pairs as now.";
        let close =
            "B/A is so close to the margin of 10 % that more than 200 pairs would be needed: take a margin ";
        for (what, outcome, rows, expected) in [
            ("clear", Outcome::Fail, vec![row(Outcome::Fail, at, None, 900)], None),
            ("failures alone", open, vec![row(Outcome::Pass, at, None, 900)], None),
            ("too few samples", open, vec![row(open, at, Some(34), 3)], None),
            ("more pairs", open, vec![row(open, at, Some(34), 900)], Some(more.to_owned())),
            (
                "the worst counts",
                open,
                vec![row(open, at, Some(21), 900), row(open, at, Some(34), 900)],
                Some(more.to_owned()),
            ),
            (
                "bad luck",
                open,
                vec![row(open, at, Some(18), 900)],
                Some(
                    "As many pairs would decide such differences more often than not: run it again (10 min of load), on a \
                     quieter machine if you can."
                        .to_owned(),
                ),
            ),
            (
                "at the margin",
                open,
                vec![row(open, at, None, 900)],
                Some(format!("{close}below 5 % or above 20 % (--margin), or longer rounds (--round).")),
            ),
            (
                "at the margin, and perhaps not slower",
                open,
                vec![row(open, (0.9, 1.295), None, 900)],
                Some(format!("{close}above 30 % (--margin), or longer rounds (--round).")),
            ),
        ] {
            assert_eq!(step(&paired(outcome, rows)), expected, "{what}");
        }
    }
}
