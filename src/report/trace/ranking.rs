//! Mistral's ranking as its script prints it, to the byte.

use std::io::{self, Write};

use crate::analysis::ranking::Ranking;

/// Writes the table.
///
/// # Errors
/// When `out` cannot be written.
pub fn write(ranking: &Ranking, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "Total time | Max time | Avg time | Occurrences | Trace name")?;
    writeln!(out, "{}", "-".repeat(91))?;
    for row in ranking.rows() {
        let (total, max, average) =
            (format!("{:.3}", row.total_s), format!("{:.3}", row.max_s), format!("{:.3}", row.average_s()));
        writeln!(out, "{total:<12} {max:<10} {average:<10} {:<13} {}", row.occurrences, row.name)?;
    }
    Ok(())
}
