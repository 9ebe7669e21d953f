//! A plan in words, before it runs: what `bench validate --explain` prints.

use base::masking::masked;
use base::units::write_duration;
use client::url::BaseUrl;
use config::Document as Read;
use config::scenario::Scenario;
use plan::Plan;
use plan::deployment::is_awaited;
use plan::explain::{self, Requests, Shape, StepLine, WorkloadExplanation};
use report::document::terminal::{self, TerminalStyle};
use report::document::{Block, Cell, Column, DocumentTable, ReportDocument, StyledLine};

/// The plan of a scenario as text, without a line break at its end. `programs` are those that the load starts.
#[must_use]
pub(super) fn text(
    plan: &Plan,
    scenario: &Read<Scenario>,
    programs: &[String],
    style: TerminalStyle,
) -> String {
    terminal::text(&document(plan, scenario, programs), style)
}

fn document(plan: &Plan, scenario: &Read<Scenario>, programs: &[String]) -> ReportDocument {
    let mut document = ReportDocument::new(2, "");
    // The demo's address is not known before it starts.
    let stand_in = plan.deployment.targets.first().filter(|_| plan.deployment.demo.is_some());
    let unknown = stand_in.map(|(_, url)| url.to_string()).unwrap_or_default();
    document.push(Block::Title(StyledLine::default().text(&plan.title).done()));
    document.push(Block::Facts(facts(plan)));
    steps_of("setup, once", &explain::steps(&plan.setup), &unknown, &mut document);
    for workload in &plan.workloads {
        let explained = explain::workload(workload);
        let alone = plan.workloads.len() == 1;
        let name = if alone { "iteration" } else { workload.name.as_str() };
        let each = |part: &str| match alone {
            true => format!("{part}, once for each user"),
            false => format!("{name}: {part}, once for each user"),
        };
        steps_of(&each("user_setup"), &explain::steps(&workload.user_setup), &unknown, &mut document);
        steps_of(name, &explained.steps, &unknown, &mut document);
        steps_of(&each("user_teardown"), &explain::steps(&workload.user_teardown), &unknown, &mut document);
        let mut facts = load_facts(&explained);
        let contexts = workload.contexts.as_ref().map(|contexts| StyledLine::from(contexts.to_string()));
        facts.extend(contexts.map(|contexts| ("contexts", contexts)));
        document.push(Block::Facts(facts));
        if let Some(shape) = &explained.shape {
            document.push(Block::List(chart(shape).into_iter().map(StyledLine::from).collect()));
        }
        let mut table = DocumentTable::new(vec![Column::name("criterion"), Column::words("needs at least")]);
        for (condition, needs) in &explained.criteria {
            table.row([Cell::Line(condition.as_str().into()), Cell::Line(needs.as_str().into())]);
        }
        if !table.rows.is_empty() {
            document.push(Block::Table(table));
        }
    }
    steps_of("teardown, once", &explain::steps(&plan.teardown), &unknown, &mut document);
    if !programs.is_empty() {
        document.push(Block::Paragraph("programs that the load starts on this machine".into()));
        let masked = programs.iter().map(|program| masked(program).into_owned());
        document.push(Block::List(masked.map(StyledLine::from).collect()));
    }
    let mut table = DocumentTable::new(vec![Column::name("variable"), Column::words("comes from")]);
    for (name, from) in explain::variables(plan, scenario) {
        table.row([Cell::Line(name.into()), Cell::Line(from.into())]);
    }
    if !table.rows.is_empty() {
        document.push(Block::Table(table));
    }
    document
}

fn facts(plan: &Plan) -> Vec<(&'static str, StyledLine)> {
    let deployment = &plan.deployment;
    let mut facts = vec![("deployment", StyledLine::from(deployment.name.as_str()))];
    if deployment.demo.is_some() {
        facts.push(("targets", StyledLine::from("the embedded demo, which starts with the run")));
    } else {
        let targets: Vec<String> =
            deployment.targets.iter().map(|(name, url)| shown_target(name, url)).collect();
        facts.push(("targets", StyledLine::from(targets.join(", "))));
    }
    facts.push(("auth", StyledLine::from(deployment.auth.kind())));
    let headers: Vec<&str> = deployment.headers.iter().map(|(name, _)| name.as_str()).collect();
    if !headers.is_empty() {
        facts.push(("headers", StyledLine::from(headers.join(", "))));
    }
    let profiling = plan.profiling_off.clone().unwrap_or_else(|| "on".to_owned());
    facts.push(("profiling", StyledLine::from(profiling)));
    if plan.workloads.len() > 1 {
        let order = if plan.parallel { "at the same time" } else { "one after another" };
        facts.push(("workloads", StyledLine::from(format!("{}, {order}", plan.workloads.len()))));
    }
    if let Some(limit) = plan.timeout {
        facts.push(("timeout", StyledLine::from(write_duration(limit))));
    }
    facts
}

/// `unknown` is left out of the requests' URLs.
fn steps_of(name: &str, steps: &[StepLine], unknown: &str, document: &mut ReportDocument) {
    if steps.is_empty() {
        return;
    }
    document.push(Block::Heading(StyledLine::default().text(name).done(), None));
    let lines = steps.iter().map(|step| {
        let mut line = StyledLine::default();
        line.text(format!("{}{}", "  ".repeat(step.depth + 1), step.name));
        let request = step.request.replacen(unknown, "", 1);
        let details = [request.as_str()].into_iter().filter(|text| !text.is_empty() && *text != step.name);
        let details: Vec<&str> = details.chain(step.details.iter().map(String::as_str)).collect();
        if !details.is_empty() {
            line.text(format!(": {}", details.join("; ")));
        }
        line.done()
    });
    document.push(Block::List(lines.collect()));
}

fn load_facts(explained: &WorkloadExplanation) -> Vec<(&'static str, StyledLine)> {
    let Requests { least, most } = explained.requests;
    let an_iteration = range(least, most);
    let mut requests = format!("{an_iteration} an iteration");
    if let Some(iterations) = explained.iterations {
        let all = range(least.saturating_mul(iterations), most.map(|most| most.saturating_mul(iterations)));
        requests = format!("{requests}, {all} in all");
    }
    vec![("load", StyledLine::from(explained.load.as_str())), ("requests", StyledLine::from(requests))]
}

fn range(least: u64, most: Option<u64>) -> String {
    match most {
        Some(most) if most == least => least.to_string(),
        Some(most) => format!("{least} to {most}"),
        None => format!("{least} or more"),
    }
}

const ROWS: usize = 5;

/// The load over time: columns of blocks, with the highest value at the top and the time below.
fn chart(shape: &Shape) -> Vec<String> {
    const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let top = shape.values.iter().copied().fold(0.0, f64::max);
    if top <= 0.0 {
        return Vec::new();
    }
    let label = |value: f64| {
        if value >= 100.0 || value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.1}") }
    };
    let width = label(top).len().max(1);
    let mut lines = vec![format!("{} {}", " ".repeat(width), shape.unit)];
    for row in (0..ROWS).rev() {
        let cells = shape.values.iter().map(|value| {
            let eighths = (value / top * (ROWS * 8) as f64).round() - (row * 8) as f64;
            // A load that is not zero is seen.
            let least = if row == 0 && *value > 0.0 { 1.0 } else { 0.0 };
            EIGHTHS[eighths.clamp(least, 8.0) as usize]
        });
        let mark = if row == ROWS - 1 { label(top) } else { String::new() };
        lines.push(format!("{mark:>width$} │{}", cells.collect::<String>()));
    }
    let end = write_duration(shape.lasts);
    let room = shape.values.len().saturating_sub(end.chars().count() + 1);
    lines.push(format!("{:>width$} └0{}{end}", 0, "─".repeat(room)));
    lines
}

/// A target with its URL, or with where that comes from.
fn shown_target(name: &str, url: &BaseUrl) -> String {
    match is_awaited(&url.origin) {
        true => format!("{name} (in the cloud's catalog)"),
        false => format!("{name} {url}"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_load_is_drawn_over_its_time() {
        let values = (0..12).map(|n| f64::from(n.min(8)) * 10.0).collect();
        let shape = Shape { unit: "users", values, lasts: Duration::from_secs(90) };
        let drawn = chart(&shape);
        assert_eq!(drawn.len(), ROWS + 2);
        assert_eq!(drawn[1], "80 │       ▃████");
        assert_eq!(
            drawn[5],
            "   │ ████▇██████".replace("████▇██████", "█".repeat(11).as_str()).replacen('█', "▅", 1)
        );
        assert!(drawn[6].starts_with(" 0 └0─") && drawn[6].ends_with("90s"), "{}", drawn[6]);
        let nothing = Shape { values: vec![0.0], ..shape };
        assert!(chart(&nothing).is_empty());
    }
}
