//! A comparison by paired rounds for people: at a terminal, and in Markdown.

use super::{PairDocument, Side, counts, next, sla};
use crate::document::{
    Badge, Block, Cell, Column, DocumentTable, Interval, ReportDocument, Scale, StyledLine, Tone,
    markdown as md, terminal as tty,
};
use crate::kind_names;
use crate::words::{bounds, calls_of_both, duration, known_ratio, ratio, share_of_failures, signed};
use analysis::points::PointRow;
use results::model::{Criterion, Outcome, Severity};
use verdict::paired::{CountRow, Failures, PercentileSeries, PercentileSeriesRow, WorkloadNames};

/// The largest number of kinds of trace points shown in a table.
const POINTS_SHOWN: usize = 6;
/// What the figures of trace points mean.
const POINTS_HINT: &str =
    "Own time per trace, how much longer it is in B, and calls; they do not affect the verdict";
/// What the figures of functions mean.
const FUNCTIONS_HINT: &str =
    "Processor time per trace and how much longer it is in B, of sampled functions; calls are samples";
/// Bounds of a ratio beyond these are not shown while a comparison runs.
const BOUND_MIN: f64 = 0.1;
const BOUND_MAX: f64 = 10.0;
/// With few pairs, what would be detected is beyond any figure.
const TOO_LITTLE: &str = "Not even twice the time would be detected for certain: take more pairs (--pairs) or longer rounds (--round).";
/// From this ratio on, what would be detected says nothing but that there are too few pairs.
const DETECTABLE_MAX: f64 = 2.0;
/// The largest number of percentiles shown that are not judged.
const ROWS_SHOWN: usize = 60;

/// For a terminal, without notes that the reader has `heard`.
#[must_use]
pub fn terminal(paired: &PairDocument, heard: &[String], style: tty::TerminalStyle) -> String {
    let mut document = parts(paired);
    let unheard = paired.notes.iter().filter(|note| !heard.contains(note));
    document.notes(&unheard.cloned().collect::<Vec<_>>());
    tty::text(&document, style)
}

/// For a step summary or a comment, as Markdown.
#[must_use]
pub fn markdown(paired: &PairDocument) -> String {
    md::text(&document(paired))
}

/// The whole report: verdict, reasons, figures and trace points.
#[must_use]
pub fn document(paired: &PairDocument) -> ReportDocument {
    let mut document = parts(paired);
    document.notes(&paired.notes);
    document
}

/// The functions that certainly take more processor time in B.
fn functions(paired: &PairDocument) -> DocumentTable {
    let more = paired.functions.iter().filter(|row| row.low_ms > 0.0);
    points(more.take(POINTS_SHOWN))
}

/// The report without its notes.
fn parts(paired: &PairDocument) -> ReportDocument {
    let mut document = ReportDocument::new(3, "ab.json");
    document.push(Block::Title(headline(paired)));
    document.push(Block::List(explanation(paired)));
    document.titled("Response times", None, ratios(paired));
    document.titled("Counts of trace points", None, counts::table(paired));
    document.titled("The scenario's criteria", Some(sla::HINT.into()), sla::table(paired));
    document.titled(crate::compare::text::NOT_SERVED, None, failures(paired));
    document.titled("Calls that changed", Some(counts::CHANGES_HINT.into()), counts::changes(paired));
    for (title, hint, table) in point_tables(paired) {
        document.titled(title, Some(hint.into()), table);
    }
    document
}

/// The progress line after a pair.
#[must_use]
pub fn progress(
    pairs: usize,
    most: usize,
    rows: &[PercentileSeriesRow],
    counted: &[CountRow],
    names: &[WorkloadNames],
) -> String {
    let gated = rows.iter().filter(|row| row.series.gated);
    let mut shown: Vec<String> =
        gated.map(|row| format!("B/A {} {}", subject(&row.series, names), seen(row))).collect();
    shown.extend(counts::progress(counted));
    format!("pair {pairs} (of {most} at most): {}", shown.join(", "))
}

fn seen(row: &PercentileSeriesRow) -> String {
    match (row.ratio, row.low, row.high) {
        // Bounds that say nothing yet are left out.
        (Some(seen), Some(low), Some(high)) if low < BOUND_MIN || high > BOUND_MAX => ratio(seen),
        (Some(seen), Some(low), Some(high)) => format!("{} ({} to {})", ratio(seen), ratio(low), ratio(high)),
        _ => match row.pairs.last() {
            Some((Some(a), Some(b))) => {
                format!("{}: {} against {}", ratio(b / a), duration(*b), duration(*a))
            }
            Some((a, b)) => format!("{} against {}", time(*b), time(*a)),
            None => "not known".to_owned(),
        },
    }
}

/// A percentile of a round; without a time when it falls among the failed iterations.
pub(crate) fn time(ms: Option<f64>) -> String {
    ms.map_or_else(|| "failed".to_owned(), duration)
}

/// The verdict in one line.
#[must_use]
pub fn headline(paired: &PairDocument) -> StyledLine {
    let mut line = StyledLine::from(Badge::verdict(paired.decision.outcome));
    line.text(" · ").line(subject_of(paired)).done()
}

/// What was compared.
pub(crate) fn subject_of(paired: &PairDocument) -> StyledLine {
    let Side { name: a, .. } = &paired.a;
    let Side { name: b, .. } = &paired.b;
    let cut_short = if paired.finished { "" } else { " · interrupted" };
    format!("{}: B ({b}) against A ({a}){cut_short}", paired.scenario.title).into()
}

fn counted(pairs: usize) -> String {
    format!("{pairs} pair{}", if pairs == 1 { "" } else { "s" })
}

/// The reasons for the verdict, one sentence each, and what it is based on.
pub(crate) fn explanation(paired: &PairDocument) -> Vec<StyledLine> {
    let counting = paired.pairs.iter().filter(|pair| pair.left_out.is_none()).count();
    let left_out = match paired.pairs.len() - counting {
        0 => String::new(),
        some => format!(" ({} more left out)", counted(some)),
    };
    let margin = paired.margin_percent;
    let mut sentences: Vec<String> =
        paired.decision.reasons.iter().map(|reason| format!("{reason}.")).collect();
    let of_counts = counts::explanation(paired);
    let judged = || paired.rows.iter().filter(|row| row.series.gated);
    sentences.extend(judged().map(|row| sentence(row, &paired.workloads, margin, false)));
    if judged().any(|row| row.detectable.is_some_and(|least| least >= DETECTABLE_MAX)) {
        sentences.push(TOO_LITTLE.to_owned());
    } else {
        sentences.extend(next::step(paired));
    }
    for failures in paired.failures.iter().filter(|failures| failures.outcome != Outcome::Pass) {
        sentences.push(failures_sentence(failures));
    }
    let often = if paired.counts.is_empty() { "" } else { " (counts after every pair from the third)" };
    sentences.push(format!(
        "Judged by {}{left_out} of rounds{}, in random order within each pair; checked after {} and {} pairs{often}; each \
         bound is wrong with a probability of {} %.",
        counted(counting),
        further(paired),
        paired.looks[0],
        paired.looks[1],
        significant(paired.alpha * 100.0)
    ));
    // What decided stands first, what it is based on last.
    let basis = sentences.pop();
    let lines = sentences.into_iter().map(StyledLine::from).chain(of_counts).chain(sla::explanation(paired));
    lines.chain(basis.map(StyledLine::from)).collect()
}

/// ` (12 rounds of each side: 2 that were too short were followed by longer ones)`.
fn further(paired: &PairDocument) -> String {
    let counting = || paired.pairs.iter().filter(|pair| pair.left_out.is_none());
    let further: usize = counting().map(|pair| pair.further.len()).sum();
    match further {
        0 => String::new(),
        1 => format!(
            " ({} rounds of each side: one was too short, and a longer one followed)",
            counting().count() + 1
        ),
        further => format!(
            " ({} rounds of each side: {further} were too short, and longer ones followed)",
            counting().count() + further
        ),
    }
}

/// The verdict on a percentile; perhaps with the bounds of its ratio, which a table has anyway.
fn sentence(row: &PercentileSeriesRow, names: &[WorkloadNames], margin: f64, with_bounds: bool) -> String {
    let subject = subject(&row.series, names);
    let (Some(seen), Some(low), Some(high)) = (row.ratio, row.low, row.high) else {
        let among = row.pairs.iter().filter(|(a, b)| a.is_none() || b.is_none()).count();
        return match among {
            0 => format!("{subject}: too few rounds or samples for a ratio."),
            some => format!(
                "{subject}: no ratio, because in {} it falls among the failed iterations; fix the failures, or judge a \
                 lower percentile (--metric).",
                counted(some)
            ),
        };
    };
    let judged = match row.outcome {
        Outcome::Fail => format!("B is slower by more than the margin of {margin} %"),
        Outcome::Pass => format!("B is less than {margin} % slower"),
        _ => format!("inconclusive at a margin of {margin} %{}", certain(low, high)),
    };
    let judged = match row.series.samples_min() {
        needed if row.samples < needed => {
            format!("{judged} (a round had {} samples, and a PASS needs {needed})", row.samples)
        }
        _ => judged,
    };
    // What would have been found says nothing of what was found.
    let least = row.detectable.filter(|least| row.outcome != Outcome::Fail && *least < DETECTABLE_MAX);
    let power = least.map_or_else(String::new, detectable);
    let bounds = if with_bounds { format!(" ({} to {})", ratio(low), ratio(high)) } else { String::new() };
    format!("{subject}: {judged}: B/A is {}{bounds}{power}.", ratio(seen))
}

/// What is certain although the verdict is not: `, but B is certainly slower, by 2.1 % to 14 %`.
fn certain(low: f64, high: f64) -> String {
    let percent = |ratio: f64| {
        let percent = (ratio - 1.0).abs() * 100.0;
        if percent < 10.0 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
    };
    match (low > 1.0, high < 1.0) {
        _ if !(BOUND_MIN..=BOUND_MAX).contains(&low) || high > BOUND_MAX => String::new(),
        (true, _) => format!(", but B is certainly slower, by {} to {}", percent(low), percent(high)),
        (_, true) => format!(", but B is certainly faster, by {} to {}", percent(high), percent(low)),
        _ => format!(
            "; what is certain: B is at most {} slower, and at most {} faster",
            percent(high),
            percent(low)
        ),
    }
}

/// `99.5 %`: how certain both bounds of a ratio are together.
pub(crate) fn level(paired: &PairDocument) -> String {
    let alpha = paired.rows.iter().find(|row| row.series.gated).map_or(paired.alpha, |row| row.alpha);
    format!("{} %", significant(100.0 - 200.0 * alpha))
}

/// The smallest slowdown that would have been found.
fn detectable(least: f64) -> String {
    format!("; a slowdown of {:.1} % would be detected with 80 % power", (least - 1.0) * 100.0)
}

/// Each judged row, and any other reason why the comparison ended, as criteria.
#[must_use]
pub fn criteria(paired: &PairDocument) -> Vec<Criterion> {
    let of =
        |workload: usize, condition: String, observed: String, outcome: Outcome, samples: u64| Criterion {
            workload: paired.workloads.get(workload).map_or_else(String::new, |names| names.workload.clone()),
            criterion: "ab".to_owned(),
            condition,
            trace_ids: Vec::new(),
            observed,
            outcome,
            severity: Severity::Fail,
            reason: None,
            measured: None,
            aborted: false,
            samples,
        };
    let margin = paired.margin_percent;
    let rows = paired.rows.iter().filter(|row| row.series.gated).map(|row| {
        let condition = format!("{}: B is not {margin} % slower", subject(&row.series, &paired.workloads));
        let observed = sentence(row, &paired.workloads, margin, true);
        of(row.series.workload, condition, observed, row.outcome, row.samples)
    });
    let failures = paired.failures.iter().map(|row| {
        let observed = format!(
            "{} of B failed, {} of A",
            share_of_failures(row.b_share),
            share_of_failures(row.a_share)
        );
        of(row.workload, "B fails no more often".to_owned(), observed, row.outcome, row.b)
    });
    let reasons = paired.decision.reasons.iter().map(|reason| {
        of(0, "the comparison finished".to_owned(), reason.clone(), paired.decision.outcome, 0)
    });
    rows.chain(counts::criteria(paired)).chain(sla::criteria(paired)).chain(failures).chain(reasons).collect()
}

fn failures_sentence(failures: &Failures) -> String {
    let claim = match failures.outcome {
        Outcome::Fail => "B fails significantly more often than A",
        _ => "B fails more often than A, perhaps by chance",
    };
    format!(
        "{claim}: {} of iterations against {}.",
        share_of_failures(failures.b_share),
        share_of_failures(failures.a_share)
    )
}

fn significant(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// `p95`, `log in p95` or `log in wait p95`; with the workload if there are several.
pub(crate) fn subject(series: &PercentileSeries, names: &[WorkloadNames]) -> String {
    let workload = names.get(series.workload);
    let action = series.action.and_then(|action| workload.and_then(|workload| workload.actions.get(action)));
    let mut parts = Vec::new();
    if let (Some(workload), true) = (workload, names.len() > 1) {
        parts.push(workload.workload.clone());
    }
    parts.extend(action.cloned());
    parts.extend(series.phase.map(|phase| phase.word().to_owned()));
    parts.push(format!("p{}", series.percentile));
    parts.join(" ")
}

/// The trace points that differ most, of typical and of slow iterations, and functions; each with what its figures mean.
pub(crate) fn point_tables(paired: &PairDocument) -> [(&'static str, &'static str, DocumentTable); 3] {
    let of = |slow: bool| paired.points.iter().filter(move |row| row.slow == slow).take(POINTS_SHOWN);
    [
        ("Trace points of typical iterations", POINTS_HINT, points(of(false))),
        ("Trace points of slow iterations", POINTS_HINT, points(of(true))),
        ("Functions that take more in B", FUNCTIONS_HINT, functions(paired)),
    ]
}

/// One row for each percentile: the judged ones first.
pub(crate) fn ratios(paired: &PairDocument) -> DocumentTable {
    let mut table = DocumentTable::new(vec![
        Column::name(""),
        Column::drawing("between its bounds"),
        Column::figure("A"),
        Column::figure("B"),
        Column::figure("B/A"),
        Column::figure("confidence bounds"),
        Column::figure("Wilcoxon p").left_out(1),
        Column::words(""),
    ]);
    let limit = Some(1.0 + paired.margin_percent / 100.0);
    table.scale = Scale { neutral: 1.0, limit, ratio: true };
    let judged = paired.rows.iter().filter(|row| row.series.gated);
    let others = paired.rows.iter().filter(|row| !row.series.gated && row.ratio.is_some());
    for row in judged.chain(others.take(ROWS_SHOWN)) {
        let p = row.wilcoxon_p.filter(|_| row.series.gated);
        let badge = row.series.gated.then(|| Badge::verdict(row.outcome));
        table.row([
            subject(&row.series, &paired.workloads).into(),
            row.ratio.map_or_else(Cell::empty, |value| {
                let [low, high] = [row.low, row.high].map(|bound| bound.unwrap_or(f64::NAN));
                Interval { value, low, high, tone: badge.map_or(Tone::Plain, |badge| badge.tone) }.into()
            }),
            time(row.a_ms).into(),
            time(row.b_ms).into(),
            known_ratio(row.ratio).into(),
            bounds(row.low, row.high, ratio).into(),
            p.map_or_else(Cell::empty, |p| from_margin(p, row.ratio, paired.margin_percent).into()),
            badge.map_or_else(Cell::empty, Cell::from),
        ]);
    }
    table
}

/// `< 0.0001 (under +5 %)`: the chance of such rounds if B were slower by just the margin; without the margin, a small one
/// beside PASS reads as a difference.
fn from_margin(p: f64, ratio: Option<f64>, margin_percent: f64) -> String {
    let is_over = ratio.is_some_and(|ratio| ratio > 1.0 + margin_percent / 100.0);
    let side = if is_over { "over" } else { "under" };
    format!("{} ({side} +{margin_percent} %)", p_value(p))
}

/// A probability in four decimals, and never as 0.
fn p_value(p: f64) -> String {
    if p < 0.0001 { "< 0.0001".to_owned() } else { format!("{p:.4}") }
}

/// Failure rates, one row for each workload.
pub(crate) fn failures(paired: &PairDocument) -> DocumentTable {
    let mut table = DocumentTable::new(vec![
        Column::name(""),
        Column::figure("A"),
        Column::figure("B"),
        Column::figure("Wilcoxon p"),
        Column::words(""),
    ]);
    for row in &paired.failures {
        let name = paired.workloads.get(row.workload).map_or("", |names| names.workload.as_str());
        let [a, b] = [(row.a_share, row.a), (row.b_share, row.b)]
            .map(|(share, count)| format!("{} ({count})", share_of_failures(share)));
        table.row([
            name.into(),
            a.into(),
            b.into(),
            row.p_greater.map_or_else(Cell::empty, |p| format!("{} (more in B)", p_value(p)).into()),
            Badge::verdict(row.outcome).into(),
        ]);
    }
    table
}

fn points<'a>(rows: impl Iterator<Item = &'a PointRow>) -> DocumentTable {
    let mut table = DocumentTable::new(vec![
        Column::name(""),
        Column::drawing("longer in B"),
        Column::name("of").left_out(2),
        Column::figure("A"),
        Column::figure("B"),
        Column::figure("longer by, 95 % bounds"),
        Column::figure("calls A → B").left_out(1),
    ]);
    let rows: Vec<&PointRow> = rows.collect();
    let kinds: Vec<(&str, &str)> = rows.iter().map(|row| (row.service.as_str(), row.name.as_str())).collect();
    for (row, name) in rows.iter().zip(kind_names::distinct(&kinds)) {
        table.row([
            name.into(),
            Interval::of_difference(row.difference_ms, Some((row.low_ms, row.high_ms))).into(),
            row.service.as_str().into(),
            duration(row.a_self_ms).into(),
            duration(row.b_self_ms).into(),
            bounds(Some(row.low_ms), Some(row.high_ms), signed).into(),
            calls_of_both(row.a_calls, row.b_calls).into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::model::ScenarioInfo;
    use verdict::paired::Decision;

    const HOSTILE: &str = "</td><script>alert(1)</script> | [x](javascript:1) `c` **b** @all https://e.example \u{1b}[2J\u{202e}\n# h";

    /// A comparison in which every name is hostile, also of trace points.
    fn hostile() -> PairDocument {
        let side = || Side { name: HOSTILE.into(), deployment: HOSTILE.into(), target: None, command: None };
        let point = |slow| PointRow {
            slow,
            service: HOSTILE.into(),
            name: HOSTILE.into(),
            a_self_ms: 1.0,
            b_self_ms: 2.0,
            a_calls: 1.0,
            b_calls: 1.0,
            difference_ms: 1.0,
            low_ms: 0.5,
            high_ms: 1.5,
        };
        let scenario = ScenarioInfo {
            title: HOSTILE.into(),
            file: String::new(),
            sha256: String::new(),
            set: std::collections::BTreeMap::new(),
            options: Vec::new(),
            text: None,
        };
        PairDocument {
            format: String::new(),
            version: 1,
            bench_version: String::new(),
            decision: Decision { outcome: Outcome::Fail, reasons: vec![HOSTILE.into()] },
            finished: true,
            scenario,
            a: side(),
            b: side(),
            margin_percent: 5.0,
            looks: [8, 16],
            alpha: 0.01,
            order_seed: 0,
            seed: Some(1),
            pairs: Vec::new(),
            workloads: vec![WorkloadNames { workload: HOSTILE.into(), actions: vec![HOSTILE.into()] }],
            rows: Vec::new(),
            counts: Vec::new(),
            sla: Vec::new(),
            failures: Vec::new(),
            points: vec![point(false), point(true)],
            functions: Vec::new(),
            calls: Vec::new(),
            notes: vec![HOSTILE.into()],
        }
    }

    #[test]
    fn a_chance_says_from_which_margin_and_is_never_0() {
        for (p, ratio, margin, expected) in [
            (0.000_000_9, Some(0.99), 5.0, "< 0.0001 (under +5 %)"),
            (0.0012, Some(1.2), 5.0, "0.0012 (over +5 %)"),
            (0.0001, Some(1.02), 2.5, "0.0001 (under +2.5 %)"),
            (1.0, None, 5.0, "1.0000 (under +5 %)"),
        ] {
            assert_eq!(from_margin(p, ratio, margin), expected);
        }
    }

    #[test]
    fn names_are_only_text_in_markdown() {
        let markdown = markdown(&hostile());
        assert!(markdown.starts_with("### FAIL · &lt;/td&gt;&lt;script&gt;"), "{markdown}");
        for obeyed in
            ["<", " [x]", " | [", " `c`", " **b", " @all", "https://", "\u{1b}", "\u{202e}", "\n# h"]
        {
            assert!(!markdown.contains(obeyed), "{obeyed:?}: {markdown}");
        }
        let rows: Vec<&str> = markdown.lines().filter(|line| line.starts_with("| &lt;")).collect();
        let borders = |row: &&str| row.replace("\\|", "").matches('|').count();
        let found: Vec<usize> = rows.iter().map(borders).collect();
        assert_eq!(found, [7, 7], "{markdown}");
    }
}
