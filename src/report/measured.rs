//! The numbers that actions took from their answers, as a table for every kind of report.

use base::units::format_number;
use results::model::{MeasuredNumbers, Workload};

use super::document::{Cell, Column, DocumentTable, RowRole};

const PERCENTILES: [(&str, f64); 4] = [("p50", 50.0), ("p90", 90.0), ("p95", 95.0), ("p99", 99.0)];

/// The table; `None` if no action takes a number. `is_profiled`: whether its iterations have traces.
pub(super) fn table(workload: &Workload, is_profiled: bool) -> Option<DocumentTable> {
    if workload.measured.is_empty() {
        return None;
    }
    let is_lacking = workload.measured.iter().any(|of| of.without_number > 0);
    let mut columns = vec![Column::name("measured"), Column::figure("count")];
    columns.extend(is_lacking.then(|| Column::figure("no number")));
    columns.extend([Column::figure("min").left_out(2), Column::figure("mean").left_out(2)]);
    columns.extend(PERCENTILES.iter().map(|(title, _)| Column::figure(title)));
    columns.push(Column::figure("max"));
    columns.extend(is_profiled.then(|| Column::words("trace of the largest").left_out(1)));
    let mut table = DocumentTable::new(columns);
    for of in &workload.measured {
        let mut cells = vec![Cell::from(of.name.as_str()), Cell::from(of.count.to_string())];
        cells.extend(is_lacking.then(|| Cell::from(of.without_number.to_string())));
        cells.extend([of.min, of.mean].map(figure));
        cells.extend(PERCENTILES.iter().map(|(_, wanted)| figure(percentile(of, *wanted))));
        cells.push(figure(of.max));
        let largest = of.percentiles.last().map(|last| Cell::code(last.trace_id.to_string()));
        cells.extend(is_profiled.then(|| largest.unwrap_or_else(Cell::empty)));
        table.part(RowRole::Whole, cells);
    }
    Some(table)
}

fn figure(value: Option<f64>) -> Cell {
    Cell::from(value.map_or_else(|| "-".to_owned(), format_number))
}

fn percentile(of: &MeasuredNumbers, wanted: f64) -> Option<f64> {
    let found = of.percentiles.iter().find(|at| (at.percentile - wanted).abs() < 1e-9);
    found.map(|at| at.value)
}
