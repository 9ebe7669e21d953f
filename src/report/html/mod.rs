//! The HTML report of a run, the page of a trace and that of a comparison: each is a single file that needs no network
//! and runs only its own script.
//!
//! The template writes the verdict and every table, which can be read without JavaScript; the
//! script draws charts and waterfalls. All text from scenarios, services and traces is data: the
//! template escapes it, the islands carry it as JSON or packed, and the script inserts it as text only.
//! The content security policy allows only the embedded style and script, by hash.
//!
//! Nothing here may compute a statistic: it draws what the results hold.

mod badge;
mod calls;
pub mod capacity;
mod causes;
pub mod comparison;
mod criteria;
mod document;
mod environment;
mod first;
mod flames;
mod gzip;
mod island;
pub mod live;
mod marks;
mod packed;
mod points;
mod refs;
mod text;
pub mod trace;
mod view;
mod workloads;

#[cfg(test)]
pub(crate) mod sample;
#[cfg(test)]
mod tests;

use std::io::{self, Write};
use std::thread;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use minijinja::{Environment, Value, context};
use sha2::{Digest, Sha256};

use results::IterationColumns;
use results::model::{Results, Workload};

pub use refs::{ReportTraces, TraceDisplay, relative_url, shown};

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("style.css");
const COMMON: &str = include_str!("common.js");
const WATERFALL: &str = include_str!("waterfall.js");
/// The script of a run's report, in the order in which its parts build on each other.
const SCRIPT: [(&str, &str); 6] = [
    ("charts.js", include_str!("charts.js")),
    ("viewer.js", include_str!("viewer.js")),
    ("flame.js", include_str!("flame.js")),
    ("scatter.js", include_str!("scatter.js")),
    ("load.js", include_str!("load.js")),
    ("app.js", include_str!("app.js")),
];

/// Writes the report of a run.
///
/// `iterations` is what the timeline draws, at most about 100,000. `traces` are shown as they say; if they are in the
/// file, at most 500 of them.
///
/// # Errors
/// When `out` cannot be written.
pub fn render(
    results: &Results,
    iterations: &IterationColumns,
    traces: ReportTraces<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let script = script(&SCRIPT.map(|(_, part)| part).join("\n"));
    let safe = Value::from_safe_string;
    let seen = refs::LinkableTraces::of(results, traces);
    // The points of all traces are by far the largest part.
    let (of_traces, others) = thread::scope(|scope| {
        let of_traces = scope.spawn(|| points::traces(results, &seen));
        let charts = island::charts(results, iterations, &seen);
        let rows = packed::iterations(iterations);
        let page = view::page(results, iterations, &seen);
        let of_traces = of_traces.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (of_traces, (charts, rows, page))
    });
    let (charts, rows, page) = others;
    let values = context! {
        policy => safe(content_policy(&script)),
        style => safe(STYLE.to_owned()),
        script => safe(script),
        charts => safe(charts?),
        iterations => safe(rows?),
        traces => safe(of_traces?),
        functions => results.workloads.iter().map(|one| safe(function_flames(one))).collect::<Vec<_>>(),
        page,
    };
    fill(&format!("{}{PAGE}", document::MACROS), values, out)
}

/// The functions of slow iterations against the functions of typical ones; empty without any.
fn function_flames(workload: &Workload) -> String {
    let functions = workload.comparison.as_ref().and_then(|seen| seen.functions.as_ref());
    functions.map(flames::of_difference).unwrap_or_default()
}

/// How much of a text from outside a page shows: a browser takes most of a minute to lay out a name of a mebibyte.
const TEXT_CHARS_MAX: usize = 1_000;

/// Fills a template; what is not marked safe is shortened and escaped, deceptive characters are written out, and figures
/// stay with their units. The filter `exact` leaves texts that are copied as they are.
fn fill(template: &str, values: Value, out: &mut dyn Write) -> io::Result<()> {
    let mut environment = Environment::new();
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_formatter(|out, state, value| match value.as_str() {
        Some(text) if !value.is_safe() => {
            let shown = text::shortened(text, TEXT_CHARS_MAX);
            let shown = text::typeset(&shown);
            minijinja::escape_formatter(out, state, &Value::from(text::visible(&shown).as_ref()))
        }
        _ => minijinja::escape_formatter(out, state, value),
    });
    environment.add_filter("exact", |text: &str| {
        let shown = text::shortened(text, TEXT_CHARS_MAX);
        Value::from_safe_string(minijinja::HtmlEscape(&text::visible(&shown)).to_string())
    });
    environment.add_template("page.html", template).map_err(io::Error::other)?;
    let page = environment.get_template("page.html").map_err(io::Error::other)?;
    page.render_captured_to(values, out).map(drop).map_err(cause)
}

/// The error of the disk or the reader, which the template engine hides.
fn cause(error: minijinja::Error) -> io::Error {
    let cause = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<io::Error>());
    match cause.map(|cause| (cause.raw_os_error(), cause.kind(), cause.to_string())) {
        Some((Some(number), ..)) => io::Error::from_raw_os_error(number),
        Some((None, kind, words)) => io::Error::new(kind, words),
        None => io::Error::other(error),
    }
}

/// A document as a part of a page, without the page around it.
#[cfg(test)]
pub(super) fn fragment(document: &crate::document::ReportDocument) -> String {
    let template = format!("{}{{% for b in blocks %}}{{{{ block(b) }}}}{{% endfor %}}", document::MACROS);
    let mut fragment = Vec::new();
    fill(&template, context! { blocks => document::blocks(document) }, &mut fragment).unwrap();
    String::from_utf8(fragment).unwrap()
}

/// A page's script, with what both pages use.
fn script(own: &str) -> String {
    format!("\"use strict\";\n(() => {{\n{COMMON}\n{WATERFALL}\n{own}\n}})();\n")
}

/// Admits the embedded style and script and nothing else.
fn content_policy(script: &str) -> String {
    format!("{}; script-src '{}'", style_policy(), source_hash(script))
}

/// Admits the embedded style and nothing else.
fn style_policy() -> String {
    let style = source_hash(STYLE);
    format!("default-src 'none'; style-src '{style}'; img-src data:; base-uri 'none'; form-action 'none'")
}

fn source_hash(source: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(source)))
}
