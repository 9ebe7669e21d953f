//! The slowest iterations of a run under what explains them: each cause stands once, above its iterations.
//!
//! An iteration that nothing explains by itself, or that has no trace, stands under the reason. Nothing here may compute
//! a statistic.

use super::document::{Block, Cell, Column, DocumentTable, RowRole, StyledLine};
use super::explanation::PointLabel;
use super::texts::{calls, duration};
use results::model::{ActionTiming, Basis, Explanation, Results, SlowIteration, TraceState};

/// Slowest iterations with the same explanation.
#[derive(Clone, Debug)]
pub struct SlowGroup<'a> {
    /// What explains them, with how many they are.
    pub title: StyledLine,
    /// Slowest first, each with its explanation if it has one.
    pub iterations: Vec<(&'a SlowIteration, Option<&'a Explanation>)>,
}

/// Rows of iterations without a trace, which all say the same; and if their actions differ.
const ROWS_WITHOUT_TRACE: (usize, usize) = (3, 5);

impl SlowGroup<'_> {
    /// How many of its iterations say something.
    #[must_use]
    pub fn rows_shown(&self) -> usize {
        if self.iterations.iter().any(|(_, seen)| seen.is_some()) {
            return self.iterations.len();
        }
        let (same, different) = ROWS_WITHOUT_TRACE;
        let mut names = self.iterations.iter().map(|(slow, _)| longest(slow).map(|action| &action.name));
        let first = names.next();
        if names.all(|name| Some(name) == first) { same } else { different }
    }
}

/// The slowest iterations by what explains them, the largest group first; what nothing explains comes last.
#[must_use]
pub fn groups(results: &Results) -> Vec<SlowGroup<'_>> {
    let of = results.slowest.len();
    let mut groups: Vec<SlowGroup<'_>> = results
        .findings
        .iter()
        .map(|finding| {
            let is_in = |slow: &&SlowIteration| finding.trace_ids.contains(&slow.iteration.trace_id);
            let iterations: Vec<_> =
                results.slowest.iter().filter(is_in).map(|slow| with(slow, results)).collect();
            let word = if finding.basis == Basis::OwnTime { "most time by itself in " } else { "" };
            let mut title = StyledLine::from(format!("{}: {word}", number(iterations.len(), of)));
            title.line(PointLabel::from(finding).whole());
            SlowGroup { title, iterations }
        })
        .collect();
    let mut others: Vec<(String, Vec<_>)> = Vec::new();
    let known = |slow: &SlowIteration| {
        results.findings.iter().any(|finding| finding.trace_ids.contains(&slow.iteration.trace_id))
    };
    for slow in results.slowest.iter().filter(|slow| !known(slow)) {
        let seen = with(slow, results);
        let reason = reason(slow, seen.1, results);
        match others.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, group)) => group.push(seen),
            None => others.push((reason, vec![seen])),
        }
    }
    groups.extend(others.into_iter().map(|(reason, iterations)| SlowGroup {
        title: format!("{}: {reason}", number(iterations.len(), of)).into(),
        iterations,
    }));
    groups.retain(|group| !group.iterations.is_empty());
    groups
}

fn with<'a>(slow: &'a SlowIteration, results: &'a Results) -> (&'a SlowIteration, Option<&'a Explanation>) {
    (slow, results.explanation(slow.iteration.trace_id))
}

fn number(count: usize, of: usize) -> String {
    match (count, of) {
        (1, 1) => "the slowest".to_owned(),
        (n, of) if n == of => format!("all of the {of} slowest"),
        (n, of) => format!("{n} of the {of} slowest"),
    }
}

/// Why nothing explains an iteration.
fn reason(slow: &SlowIteration, seen: Option<&Explanation>, results: &Results) -> String {
    let why = match slow.trace {
        _ if seen.is_some() => "nothing stands out",
        TraceState::Absent => "the collector has no point of the trace",
        _ if slow.lacks_spans => "spans that other traces have did not come",
        TraceState::Partial | TraceState::Complete => "the trace holds no time",
        TraceState::NotFetched if !slow.iteration.profiled => "left unprofiled for comparison",
        TraceState::NotFetched => match (results.profiling.enabled, &results.profiling.collector) {
            (false, _) => "no traces: not profiled",
            (true, None) if results.profiling.received.is_none() => {
                "no traces: the deployment names no collector and receives none (profiler: {receive: …})"
            }
            (true, _) => "trace not fetched",
        },
    };
    why.to_owned()
}

/// The section of the slowest iterations.
#[must_use]
pub fn blocks(results: &Results) -> Vec<Block> {
    let groups = groups(results);
    let shown = VisibleColumns::of(&groups, results.profiling.enabled);
    let mut table = DocumentTable::new(shown.columns());
    for group in &groups {
        table.part(RowRole::Group, vec![Cell::Line(group.title.clone())]);
        for (slow, seen) in group.iterations.iter().take(group.rows_shown()) {
            table.part(RowRole::Step, shown.cells(slow, *seen));
        }
    }
    let table = (!table.rows.is_empty()).then_some(Block::Table(table));
    let error = results.profiling.collector_error.as_deref();
    let error = error.map(|error| Block::Note("the collector did not give all traces", error.into()));
    table.into_iter().chain(error).collect()
}

/// Which columns have something to say.
#[derive(Clone, Copy, Debug)]
struct VisibleColumns {
    /// Without profiling, an id names an iteration of the results and no trace.
    profiled: bool,
    work: bool,
    difference: bool,
    own: bool,
    calls: bool,
    largest: bool,
}

impl VisibleColumns {
    fn of(groups: &[SlowGroup<'_>], profiled: bool) -> Self {
        let all = || groups.iter().flat_map(|group| &group.iterations);
        let any = |holds: fn(&Explanation) -> bool| all().filter_map(|(_, seen)| *seen).any(holds);
        Self {
            profiled,
            work: all().any(|(slow, _)| slow.asynchronous_ms.is_some()),
            difference: any(|seen| seen.basis == Basis::Difference),
            own: any(|seen| seen.basis == Basis::OwnTime),
            calls: any(|seen| !of_calls(seen).is_empty()),
            largest: all().any(|(_, seen)| seen.is_none_or(|seen| !seen.explains)),
        }
    }

    fn columns(self) -> Vec<Column> {
        let mut columns = vec![Column::figure("slowest")];
        columns.extend(self.work.then(|| Column::figure("work ended")));
        columns.push(Column::words(if self.profiled { "trace id" } else { "iteration id" }));
        if self.difference {
            columns.extend([Column::figure("above typical"), Column::figure("of it here").left_out(2)]);
        }
        columns.extend(self.own.then(|| Column::figure("by itself").left_out(2)));
        columns.extend(self.calls.then(|| Column::figure("calls").left_out(3)));
        columns.extend(self.largest.then(|| Column::name("largest part").left_out(1)));
        columns
    }

    fn cells(self, slow: &SlowIteration, seen: Option<&Explanation>) -> Vec<Cell> {
        let mut cells = vec![duration(slow.response_ms).into()];
        let work = || slow.asynchronous_ms.map_or_else(|| "-".into(), |ms| Cell::from(duration(ms)));
        cells.extend(self.work.then(work));
        cells.push(Cell::code(slow.iteration.trace_id.to_string()));
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        if self.difference {
            let [above, here] = seen.map(difference).unwrap_or_default();
            cells.extend([above.into(), here.into()]);
        }
        if self.own {
            let own = seen.filter(|seen| seen.basis == Basis::OwnTime);
            let own =
                own.map(|seen| format!("{}, {}", duration(seen.own_ms), percent(seen.share_of_response())));
            cells.push(own.unwrap_or_default().into());
        }
        if self.calls {
            cells.push(seen.map(of_calls).unwrap_or_default().into());
        }
        if self.largest {
            cells.push(match seen {
                Some(seen) if seen.explains => Cell::empty(),
                Some(seen) => PointLabel::from(seen).in_service().into(),
                None => without_trace(slow).into(),
            });
        }
        cells
    }
}

/// How much longer than typical ones, and how much of that the named kind took.
fn difference(seen: &Explanation) -> [String; 2] {
    match (seen.excess_ms, seen.longer_ms, seen.share_of_excess) {
        (Some(excess_ms), Some(longer_ms), Some(share)) => [
            format!("+{}", duration(excess_ms)),
            format!("{}, {:.0} %", duration(longer_ms.min(excess_ms)), share * 100.0),
        ],
        _ => [String::new(), String::new()],
    }
}

/// `40, typically 2`; nothing for a single call, which a title says.
fn of_calls(seen: &Explanation) -> String {
    let here = calls(seen.calls as f64);
    match seen.typical_calls.map(calls) {
        _ if seen.calls <= 1 => String::new(),
        Some(typical) if typical != here => format!("{here}, typically {typical}"),
        _ => here,
    }
}

/// What the client alone knows: queue time if that is most of it, else the longest action.
fn without_trace(slow: &SlowIteration) -> String {
    let queue_ms = slow.response_ms - slow.iteration.ran_ms();
    if queue_ms > slow.response_ms / 2.0 {
        return format!("queue time {}", duration(queue_ms));
    }
    let action = |action: &ActionTiming| format!("action {}, {}", action.name, duration(action.duration_ms));
    longest(slow).map(action).unwrap_or_default()
}

fn longest(slow: &SlowIteration) -> Option<&ActionTiming> {
    slow.actions.iter().max_by(|one, other| one.duration_ms.total_cmp(&other.duration_ms))
}
