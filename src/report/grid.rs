//! A table that is shown at a terminal and in Markdown alike, and how ratios are written.

use super::markdown;

/// Longer first cells are cut in their middle: a statement's table and condition stand at its end.
const FIRST_CHARS: usize = 72;

/// Rows of cells; the first column is text, the others are figures.
#[derive(Clone, Debug)]
pub struct Grid {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Grid {
    /// Without rows yet.
    #[must_use]
    pub fn new(header: &[&str]) -> Self {
        Self { header: header.iter().map(|&text| text.to_owned()).collect(), rows: Vec::new() }
    }

    /// Adds a row. Its cells must be free of control characters.
    pub fn add(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }

    /// True without rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// With blanks between columns.
    #[must_use]
    pub fn plain(&self) -> String {
        let all: Vec<Vec<String>> = std::iter::once(&self.header)
            .chain(&self.rows)
            .map(|row| {
                row.iter()
                    .enumerate()
                    .map(|(at, cell)| if at == 0 { shortened(cell) } else { cell.clone() })
                    .collect()
            })
            .collect();
        let width = |column: usize| {
            all.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.header.len()).map(width).collect();
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| match column {
                0 => format!(" {cell:<width$}"),
                _ => format!("  {cell:>width$}"),
            });
            cells.collect::<String>().trim_end().to_owned()
        };
        all.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// As GitHub and GitLab read it.
    #[must_use]
    pub fn markdown(&self) -> String {
        let line = |row: &Vec<String>| {
            let cells: Vec<String> = row.iter().map(|cell| markdown::text(cell)).collect();
            format!("| {} |", cells.join(" | "))
        };
        let rule: Vec<&str> =
            (0..self.header.len()).map(|column| if column == 0 { "---" } else { "---:" }).collect();
        let mut lines = vec![line(&self.header), format!("| {} |", rule.join(" | "))];
        lines.extend(self.rows.iter().map(line));
        lines.join("\n")
    }
}

fn shortened(text: &str) -> String {
    let length = text.chars().count();
    if length <= FIRST_CHARS {
        return text.to_owned();
    }
    let half = FIRST_CHARS / 2;
    text.chars().take(half).chain(['…']).chain(text.chars().skip(length - half)).collect()
}

/// `1.234`; `–` for what is no number. A bound that says nothing needs no digits.
#[must_use]
pub fn ratio(value: f64) -> String {
    match value {
        _ if value.is_nan() => "–".to_owned(),
        _ if value >= 100.0 => "over 100".to_owned(),
        _ if value < 0.01 => "under 0.01".to_owned(),
        _ => format!("{value:.3}"),
    }
}

/// `+12.3 %` of a share.
#[must_use]
pub fn percent(share: f64) -> String {
    format!("{:+.1} %", share * 100.0)
}
