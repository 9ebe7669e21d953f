//! The figures of answers that came as streams: the first message, and the gaps between messages.

use super::document::{Cell, Column, DocumentTable, RowRole};
use super::tags::{PERCENTILES, times};
use super::words;
use results::model::{StreamedAnswers, Workload};

/// The table; `None` if no action was answered by a stream. `is_profiled`: whether its iterations have traces.
pub(super) fn table(workload: &Workload, is_profiled: bool) -> Option<DocumentTable> {
    let streamed = || {
        let with = workload.actions.iter();
        with.filter_map(|action| Some((action.name.as_str(), action.streams.as_ref()?)))
    };
    streamed().next()?;
    let mut columns = vec![Column::name("streams"), Column::figure("count")];
    columns.extend(PERCENTILES.iter().map(|(title, _)| Column::figure(title)));
    columns.push(Column::figure(words::max_title(streamed().flat_map(|(_, of)| [&of.first, &of.gap]))));
    columns.extend(is_profiled.then(|| Column::words("trace of the longest").left_out(1)));
    let mut table = DocumentTable::new(columns);
    for (name, StreamedAnswers { first, gap, .. }) in streamed() {
        let rows = [(RowRole::Whole, format!("{name}: first message"), first)];
        let gaps = (RowRole::Further, "gap between messages".to_owned(), gap);
        for (part, title, of) in rows.into_iter().chain((gap.count > 0).then_some(gaps)) {
            let cells = [Cell::from(title), Cell::from(of.count.to_string())];
            let slowest = of.buckets.last().map(|bucket| Cell::code(bucket.trace_id.to_string()));
            let slowest = is_profiled.then(|| slowest.unwrap_or_else(Cell::empty));
            table.part(part, cells.into_iter().chain(times(of)).chain(slowest).collect());
        }
    }
    Some(table)
}

/// How many messages came, and how many a second.
pub(super) fn sentence(workload: &Workload) -> Option<String> {
    let several = workload.actions.len() > 1;
    let sentence = |name: &str, of: &StreamedAnswers| {
        let name = if several { format!("{name}: ") } else { String::new() };
        let StreamedAnswers { messages, messages_per_s, tokens, tokens_per_s, .. } = of;
        let tokens = tokens.zip(*tokens_per_s);
        let tokens = tokens
            .map_or_else(String::new, |(tokens, per_s)| format!(", {}", number(tokens, "token", per_s)));
        let streams = if of.streams == 1 { "1 stream" } else { &format!("{} streams", of.streams) };
        let without = match of.without_message {
            0 => String::new(),
            number => format!(", {number} without any"),
        };
        format!("{name}{} in {streams}{without}{tokens}", number(*messages, "message", *messages_per_s))
    };
    let all = workload.actions.iter();
    let all: Vec<String> =
        all.filter_map(|action| Some(sentence(&action.name, action.streams.as_ref()?))).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

fn number(count: u64, what: &str, per_s: f64) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural} ({per_s:.1}/s)")
}
