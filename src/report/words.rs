//! Text that several reports share: sentences, durations, and outside text made safe to display.

use super::differences;
use super::document::Line;
use crate::analysis::culprit::OUTSIDE;
use crate::base::units::format_ns;
pub use crate::base::visible::{code_point, is_deceptive, visible};
use crate::results::client_points::{ITERATION, REPORTER};
use crate::results::model::{
    ComparedKind, Comparison, Finding, NoFinding, Profiling, Received, Results, TraceState, Workload,
};
use crate::runner::generator::Generator;

/// Milliseconds in three significant digits with the unit that fits.
#[must_use]
pub fn duration(ms: f64) -> String {
    if ms <= 0.0 || ms.is_nan() { "0 ms".to_owned() } else { format_ns((ms * 1e6).round() as u64) }
}

/// Microseconds in three significant digits with the unit that fits.
#[must_use]
pub fn duration_us(us: u64) -> String {
    if us == 0 { "0 ms".to_owned() } else { format_ns(us.saturating_mul(1_000)) }
}

/// True when iterations waited before they started, so that response and service times differ.
#[must_use]
pub fn waited(workload: &Workload) -> bool {
    match (workload.start_lag.at(99.0), workload.response_time.at(99.0)) {
        // A lag below a hundredth is noise of the scheduler.
        (Some(lag_ms), Some(total_ms)) => lag_ms > total_ms / 100.0,
        _ => false,
    }
}

/// `90 % profiled`: for a workload that left some iterations unprofiled for comparison.
#[must_use]
pub fn share_profiled(workload: &Workload) -> String {
    let total = workload.iterations.total.max(1);
    let share = total.saturating_sub(workload.unprofiled) as f64 / total as f64;
    format!("{:.0} % profiled", share * 100.0)
}

/// ` (traceparent only)`: for a run that did not send OSProfiler's headers.
#[must_use]
pub fn without_osprofiler(profiling: &Profiling) -> &'static str {
    let headers = &profiling.headers;
    if headers.is_empty() || headers.iter().any(|name| name == "osprofiler") {
        ""
    } else {
        " (traceparent only)"
    }
}

/// The rest of a workload's counts: warm-up iterations and dropped arrivals.
#[must_use]
pub fn aside(workload: &Workload) -> String {
    let dropped = match workload.iterations.dropped {
        0 => String::new(),
        dropped => format!(", {dropped} dropped: never started"),
    };
    let failed = match workload.warm_up.failed {
        0 => String::new(),
        failed => format!(" ({failed} failed)"),
    };
    match workload.warm_up.total {
        0 => dropped,
        total => format!("{dropped}, {total} warm-up iterations not counted{failed}"),
    }
}

/// How the load generator performed, in one line.
#[must_use]
pub fn generator(seen: &Generator) -> String {
    let most = |value: fn(&crate::runner::generator::WorkerVitals) -> f64| {
        seen.workers.iter().map(value).fold(0.0, f64::max)
    };
    let count = seen.workers.iter().map(|worker| worker.worker + 1).max().unwrap_or(0);
    let mut parts = vec![
        format!("{count} worker{}", if count == 1 { "" } else { "s" }),
        format!("the busiest at {:.0} % of a core", most(|worker| worker.cpu_share_max) * 100.0),
    ];
    if seen.workers.iter().any(|worker| worker.arrivals > 0) {
        parts.push(format!(
            "schedule kept within {} (p99) and {} (worst)",
            duration(most(|worker| worker.late_p99_ms)),
            duration(most(|worker| worker.late_max_ms))
        ));
    }
    match (seen.descriptors_max, seen.descriptors_limit) {
        (0, _) => {}
        (most, Some(limit)) => parts.push(format!("{most} of {limit} descriptors")),
        (most, None) => parts.push(format!("{most} descriptors")),
    }
    parts.join(", ")
}

/// The fetched traces in one line: `400 asked for in 1.20 s: 396 complete, 3 partial, 1 absent`; `None` if none were
/// requested.
#[must_use]
pub fn fetched(profiling: &Profiling) -> Option<String> {
    let total: u64 = profiling.fetched.values().sum();
    if total == 0 {
        return None;
    }
    let took = profiling.fetch_s.map_or_else(String::new, |s| format!(" in {}", duration(s * 1e3)));
    let states = profiling.fetched.iter().map(|(state, count)| {
        let word = match state {
            TraceState::Complete => "complete",
            TraceState::Partial => "partial",
            TraceState::Absent => "absent",
            TraceState::NotFetched => "without an answer",
        };
        format!("{count} {word}")
    });
    let published = match profiling.published {
        0 => String::new(),
        records => format!("; {records} records of the client's own points published"),
    };
    Some(format!("{total} asked for{took}: {}{published}", states.collect::<Vec<_>>().join(", ")))
}

/// What the receiver of spans received, in one line: `2408 received for this run, all kept: 400 traces; 17 of other
/// traces`.
#[must_use]
pub fn received(seen: &Received) -> String {
    let kept = match seen.kept_spans == seen.spans + seen.linked_spans {
        true => "all".to_owned(),
        false => seen.kept_spans.to_string(),
    };
    let mut parts =
        vec![format!("{} received for this run, {kept} kept: {} traces", seen.spans, seen.kept_traces)];
    let others = [
        (seen.linked_spans, "of linked traces"),
        (seen.lost_spans, "lost for want of memory or disk space"),
        (seen.other_traces, "of other traces"),
        (seen.invalid_spans, "without valid ids"),
        (seen.refused_requests, "requests refused"),
        (seen.forwarded, "passed on"),
        (seen.forward_dropped, "not passed on"),
    ];
    let others = others.into_iter().filter(|(number, _)| *number > 0);
    parts.extend(others.map(|(number, what)| format!("{number} {what}")));
    if seen.sample_halved > 0 {
        let share = 0.5_f64.powi(i32::try_from(seen.sample_halved).unwrap_or(i32::MAX));
        parts.push(format!("typical traces are a sample of {:.3} % for want of space", share * 100.0));
    }
    parts.join("; ")
}

/// `1.234`, or `–` for NaN. A very wide bound gets no digits.
#[must_use]
pub fn ratio(value: f64) -> String {
    match value {
        _ if value.is_nan() => "–".to_owned(),
        _ if value >= 100.0 => "over 100".to_owned(),
        _ if value < 0.01 => "under 0.01".to_owned(),
        _ => format!("{value:.3}"),
    }
}

/// [`ratio`] for a value that may be unknown.
#[must_use]
pub fn known_ratio(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), ratio)
}

/// A share as `+12.3 %`.
#[must_use]
pub fn percent(share: f64) -> String {
    format!("{:+.1} %", share * 100.0)
}

/// A failure rate as `1.234 %`.
#[must_use]
pub fn share_of_failures(share: f64) -> String {
    format!("{:.3} %", share * 100.0)
}

/// The beginning and the end of a long text: a statement ends with its table and condition.
#[must_use]
pub fn without_middle(text: &str, chars_max: usize) -> String {
    let length = text.chars().count();
    if length <= chars_max {
        return text.to_owned();
    }
    let half = chars_max / 2;
    text.chars().take(half).chain(['…']).chain(text.chars().skip(length - half)).collect()
}

/// The largest number of findings reported.
const FINDINGS_MAX: usize = 2;

/// What a reader should know first: why slow iterations are slow, and what several of the slowest have in common.
#[must_use]
pub fn sentences(results: &Results) -> Vec<Line> {
    let several = results.workloads.len() > 1;
    let compared = results.workloads.iter().flat_map(|workload| {
        let lines = workload
            .comparison
            .iter()
            .flat_map(|seen| std::iter::once(comparison(seen)).chain(differences::sentences(seen)));
        let of_workload = |line: Line| match several {
            true => Line::from(format!("{}: ", workload.name)).line(line).done(),
            false => line,
        };
        lines.map(of_workload).collect::<Vec<Line>>()
    });
    // Where a single iteration spent its time is in that iteration's row.
    let common = |(number, finding): &(usize, &Finding)| *number == 0 || finding.iterations > 1;
    let found = results.findings.iter().enumerate().filter(common).take(FINDINGS_MAX);
    compared.chain(found.map(|(_, one)| finding(one))).collect()
}

/// What makes slow iterations slower than typical ones.
#[must_use]
pub fn comparison(comparison: &Comparison) -> Line {
    if comparison.no_finding == Some(NoFinding::Incomplete) && comparison.slow.min(comparison.typical) == 0 {
        let text = format!(
            "Slow and typical iterations cannot be compared: {} of their traces lack points.",
            comparison.left_out
        );
        return text.into();
    }
    if comparison.typical == 0 {
        let text = format!(
            "The slow iterations have {} traces, but there is no typical one to compare them with.",
            comparison.slow
        );
        return text.into();
    }
    let gap_ms = comparison.slow_ms - comparison.typical_ms;
    let mut line = Line::default();
    let percentile = 100_u32.saturating_sub(comparison.slow_percent);
    line.text(format!(
        "p{percentile} iterations take {} longer than typical ones ({} instead of {}, on average); ",
        duration(gap_ms),
        duration(comparison.slow_ms),
        duration(comparison.typical_ms)
    ));
    let guilty: Vec<&ComparedKind> = comparison.kinds.iter().filter(|kind| kind.guilty).collect();
    if let Some(first) = guilty.first() {
        line.line(kind_name(first));
        let (share_percent, low_percent) = (first.share * 100.0, first.share_low * 100.0);
        line.text(format!(
            " explains {share_percent:.0} % of it (at least {low_percent:.0} %), because {}",
            why(first)
        ));
        if let Some(second) = guilty.get(1) {
            line.text("; ").line(kind_name(second));
            line.text(format!(" explains {}", share(second)));
        }
        if guilty.len() > 2 {
            line.text(format!(", and {} more", guilty.len() - 2));
        }
        return line.text(".").done();
    }
    let reason = match comparison.no_finding {
        Some(NoFinding::NoGap) => {
            let text = "The slow iterations that were traced are not slower than typical ones.";
            return text.into();
        }
        Some(NoFinding::FewTraces) => {
            format!(
                "too few traces to be certain why ({} slow, {} typical)",
                comparison.slow, comparison.typical
            )
        }
        Some(NoFinding::Incomplete) => "too many traces lack points to be certain why".to_owned(),
        _ => "nothing stands out".to_owned(),
    };
    line.text(reason).text(".");
    if let Some(first) = comparison.kinds.first() {
        line.text(" The largest part is in ").line(kind_name(first));
        line.text(format!(" ({}).", share(first)));
    }
    line.done()
}

/// Sentences shorten code; tables show all of it.
const CODE_CHARS_MAX: usize = 100;

fn in_short(code: &str) -> String {
    let cut = code.char_indices().nth(CODE_CHARS_MAX).map(|(at, _)| format!("{}…", code[..at].trim_end()));
    cut.unwrap_or_else(|| code.to_owned())
}

/// The kind of point, with its service and its parent.
#[must_use]
pub fn kind_name(kind: &ComparedKind) -> Line {
    let mut line = Line::default();
    if kind.outside {
        return line
            .text("the time outside the traced services in action ")
            .code(in_short(&kind.detail))
            .done();
    }
    line.code(in_short(&point_name(&kind.name, &kind.detail)));
    if !kind.service.is_empty() && kind.service != REPORTER {
        line.text(format!(" in {}", kind.service));
    }
    if !kind.parent.is_empty() && !kind.parent.starts_with(ITERATION) {
        let (name, detail) = kind.parent.split_once(' ').unwrap_or((&kind.parent, ""));
        // A request is named by its method and path, as usual.
        let parent = match statement_in_short(detail) {
            Some(short) => format!("{name} · {short}"),
            None => kind.parent.clone(),
        };
        line.text(" under ").code(in_short(&parent));
    }
    line.done()
}

/// A point in short: `db · SELECT … FROM assignment`.
#[must_use]
pub fn point_name(name: &str, detail: &str) -> String {
    match statement_in_short(detail) {
        _ if detail.is_empty() => name.to_owned(),
        // OpenTelemetry names a call by its method.
        None if detail.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')) => detail.to_owned(),
        Some(short) => format!("{name} · {short}"),
        None => format!("{name} · {detail}"),
    }
}

/// What a statement does to which table; `None` if it is not a statement.
fn statement_in_short(statement: &str) -> Option<String> {
    let words: Vec<&str> = statement.split_whitespace().collect();
    let is = |word: &str, known: &str| word.eq_ignore_ascii_case(known);
    let table_after = |known: &str| {
        // A FROM within parentheses belongs to a function or to a subquery.
        let mut depth = 0_i64;
        let at = words.iter().position(|word| {
            let found = depth == 0 && is(word, known);
            depth += word.chars().map(|c| i64::from(c == '(') - i64::from(c == ')')).sum::<i64>();
            found
        })?;
        let table = words.get(at + 1)?.trim_end_matches([',', ';', ')']);
        Some(if table.starts_with('(') { "(…)" } else { table.split('(').next().unwrap_or(table) })
    };
    let first = *words.first()?;
    let short = match () {
        () if is(first, "SELECT") && words.len() > 3 => format!("SELECT … FROM {}", table_after("FROM")?),
        () if is(first, "INSERT") => format!("INSERT INTO {}", table_after("INTO")?),
        () if is(first, "REPLACE") => format!("REPLACE INTO {}", table_after("INTO")?),
        () if is(first, "UPDATE") => format!("UPDATE {} …", table_after("UPDATE")?),
        () if is(first, "DELETE") => format!("DELETE FROM {} …", table_after("FROM")?),
        () => return None,
    };
    Some(short)
}

fn share(kind: &ComparedKind) -> String {
    format!("{:.0} %, at least {:.0} %", kind.share * 100.0, (kind.share_low * 100.0).max(0.0))
}

/// A mean number of calls: `40`, `1.2`.
#[must_use]
pub fn calls(calls: f64) -> String {
    if calls >= 9.95 { format!("{calls:.0}") } else { format!("{}", (calls * 10.0).round() / 10.0) }
}

fn why(kind: &ComparedKind) -> String {
    let times = |number: f64| match calls(number).as_str() {
        "0" => "never".to_owned(),
        "1" => "once".to_owned(),
        number => format!("{number} times"),
    };
    let known = calls(kind.slow_calls) != calls(kind.typical_calls);
    if kind.more_calls_ms > kind.slower_calls_ms && known {
        if kind.typical_calls < 0.05 && kind.slow_calls < 0.95 {
            return format!(
                "{:.0} in 100 slow iterations call it and typical ones do not",
                kind.slow_calls * 100.0
            );
        }
        let (slow, typical) = (times(kind.slow_calls), times(kind.typical_calls));
        if typical == "never" {
            return format!("slow iterations call it {slow}, typical ones never");
        }
        // "40 times instead of 2"
        let typical = if slow.ends_with(" times") { typical.trim_end_matches(" times") } else { &typical };
        return format!("it is called {slow} instead of {typical}");
    }
    let aside = match &kind.called_service {
        Some(service) => format!(", apart from the work of {service}: the network, or {service} was busy"),
        None => String::new(),
    };
    let each = |total_ms: f64, calls: f64| if calls > 0.0 { total_ms / calls } else { 0.0 };
    let longer_ms = each(kind.slower_calls_ms, kind.slow_calls);
    if kind.slow_calls > 1.05 {
        let (slow, typical) = (calls(kind.slow_calls), calls(kind.typical_calls));
        let instead = match kind.typical_calls > 0.05 && slow != typical {
            true => format!(" (typical iterations call it {})", times(kind.typical_calls)),
            false => String::new(),
        };
        format!("each of its {slow} calls takes {} longer{instead}{aside}", duration(longer_ms))
    } else {
        format!("it takes {} longer{aside}", duration(longer_ms))
    }
}

/// What the slowest iterations have in common.
#[must_use]
pub fn finding(finding: &Finding) -> Line {
    let Finding { iterations, of, .. } = finding;
    let which = match (iterations, of) {
        (1, 1) => "The slowest iteration".to_owned(),
        (n, of) if n == of => format!("All of the {of} slowest iterations"),
        (n, of) => format!("{n} of the {of} slowest iterations"),
    };
    let mut line = Line::default();
    line.text(which).text(" spent most time ");
    if finding.name == OUTSIDE {
        line.text(OUTSIDE);
        if !finding.detail.is_empty() {
            line.text(" ").text(&finding.detail);
        }
    } else {
        line.text("in ").code(in_short(&point_name(&finding.name, &finding.detail)));
    }
    if !finding.service.is_empty() {
        line.text(format!(" in {}", finding.service));
    }
    if !finding.path.is_empty() {
        line.text(" under ").code(in_short(&finding.path.join(" › ")));
    }
    let calls = if finding.median_calls > 1.0 {
        format!(" in {} calls", finding.median_calls)
    } else {
        String::new()
    };
    line.text(format!(
        ": {}{calls}, {:.0} % of the iteration (medians).",
        duration(finding.median_self_ms),
        finding.median_share * 100.0
    ));
    line.done()
}

/// A difference with its sign.
#[must_use]
pub fn signed(ms: f64) -> String {
    match ms {
        ms if ms < 0.0 => format!("−{}", duration(-ms)),
        ms if ms > 0.0 => format!("+{}", duration(ms)),
        _ => "0 ms".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::document::terminal;

    fn plain(line: &Line) -> String {
        terminal::line(line, terminal::Style::default())
    }

    #[test]
    fn a_finding_is_a_sentence() {
        let mut point = Finding {
            name: "db".into(),
            detail: "SELECT 1".into(),
            service: "keystone/public".into(),
            path: vec!["wsgi GET /".into()],
            iterations: 3,
            of: 10,
            median_self_ms: 80.0,
            median_share: 0.87,
            median_calls: 40.0,
            trace_ids: Vec::new(),
        };
        assert_eq!(
            plain(&finding(&point)),
            "3 of the 10 slowest iterations spent most time in `db · SELECT 1` in keystone/public under \
             `wsgi GET /`: 80.0 ms in 40 calls, 87 % of the iteration (medians)."
        );
        point = Finding {
            name: OUTSIDE.into(),
            detail: "(network)".into(),
            service: String::new(),
            path: Vec::new(),
            iterations: 1,
            of: 1,
            median_calls: 1.0,
            ..point
        };
        assert_eq!(
            plain(&finding(&point)),
            "The slowest iteration spent most time outside the traced services (network): 80.0 ms, \
             87 % of the iteration (medians)."
        );
    }

    fn kind(name: &str, share: f64, guilty: bool) -> ComparedKind {
        ComparedKind {
            service: "keystone/public".into(),
            name: name.into(),
            detail: "SELECT a, b FROM t WHERE x = ?".into(),
            parent: "wsgi GET /v3/users".into(),
            outside: false,
            delta_ms: 812.0 * share,
            share,
            share_low: share - 0.13,
            share_high: share + 0.1,
            slow_calls: 40.0,
            typical_calls: 2.0,
            more_calls_ms: 800.0 * share,
            slower_calls_ms: 12.0 * share,
            effect: 0.9,
            exceeding: 0.9,
            guilty,
            worst_trace_id: None,
            called_service: None,
            contrasts: Vec::new(),
        }
    }

    #[test]
    fn a_comparison_is_a_sentence() {
        let mut seen = Comparison {
            slow_percent: 1,
            slow: 20,
            typical: 40,
            left_out: 0,
            slow_ms: 900.0,
            typical_ms: 88.0,
            no_finding: None,
            kinds: vec![kind("db", 0.71, true), kind("rpc", 0.2, false)],
            clocks_moved: 0,
            clocks_inconsistent: 0,
            tree: Vec::new(),
            differences: None,
        };
        let head =
            "p99 iterations take 812 ms longer than typical ones (900 ms instead of 88.0 ms, on average); ";
        let db = "`db · SELECT … FROM t` in keystone/public under `wsgi GET /v3/users`";
        let line = |seen: &Comparison| plain(&comparison(seen)).replace(head, "… ").replace(db, "DB");
        assert_eq!(
            line(&seen),
            "… DB explains 71 % of it (at least 58 %), because it is called 40 times instead of 2."
        );
        let first = &mut seen.kinds[0];
        (first.slow_calls, first.typical_calls, first.more_calls_ms, first.slower_calls_ms) =
            (1.0, 1.0, 0.0, 576.5);
        assert_eq!(line(&seen), "… DB explains 71 % of it (at least 58 %), because it takes 576 ms longer.");
        let first = &mut seen.kinds[0];
        (first.slow_calls, first.called_service) = (3.0, Some("stock".to_owned()));
        let longer = "each of its 3 calls takes 192 ms longer (typical iterations call it once), apart from the work of \
                      stock: the network, or stock was busy";
        assert_eq!(line(&seen), format!("… DB explains 71 % of it (at least 58 %), because {longer}."));
        seen.kinds[0].guilty = false;
        for (reason, expected) in [
            (NoFinding::Unclear, "… nothing stands out. The largest part is in DB (71 %, at least 58 %)."),
            (
                NoFinding::FewTraces,
                "… too few traces to be certain why (20 slow, 40 typical). The largest part is in DB (71 %, at least 58 %).",
            ),
            (
                NoFinding::Incomplete,
                "… too many traces lack points to be certain why. The largest part is in DB (71 %, at least 58 %).",
            ),
            (NoFinding::NoGap, "The slow iterations that were traced are not slower than typical ones."),
        ] {
            seen.no_finding = Some(reason);
            assert_eq!(line(&seen), expected);
        }
        seen.typical = 0;
        assert_eq!(
            line(&seen),
            "The slow iterations have 20 traces, but there is no typical one to compare them with."
        );
        let mut outside = kind("action", 0.5, true);
        (outside.outside, outside.detail) = (true, "list".into());
        assert_eq!(plain(&kind_name(&outside)), "the time outside the traced services in action `list`");
    }

    #[test]
    fn statements_are_named_by_what_they_do_to_which_table() {
        for (detail, expected) in [
            ("SELECT a.b, c FROM assignment WHERE x = ?", "db · SELECT … FROM assignment"),
            ("select a from `t`;", "db · SELECT … FROM `t`"),
            ("SELECT * FROM (SELECT 1) AS x", "db · SELECT … FROM (…)"),
            ("INSERT INTO t(a) VALUES (?)", "db · INSERT INTO t"),
            ("UPDATE t SET a = ?", "db · UPDATE t …"),
            ("DELETE FROM t WHERE a = ?", "db · DELETE FROM t …"),
            ("SELECT 1", "db · SELECT 1"),
            ("GET /v3/users", "db · GET /v3/users"),
            ("INSERT", "db · INSERT"),
            ("", "db"),
        ] {
            assert_eq!(point_name("db", detail), expected);
        }
        assert_eq!(plain(&Line::from("in ").code("a`b").done()), "in `a\"b`");
    }
}
