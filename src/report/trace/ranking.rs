//! Mistral's ranking as its script prints it, to the byte. Control characters in names are written out, so that a name
//! makes no rows of its own.

use std::io::{self, Write};

use analysis::ranking::Ranking;
use base::visible::on_one_line;

/// Writes the table. `min` adds the shortest duration, which the script leaves out.
///
/// # Errors
/// When `out` cannot be written.
pub fn write(ranking: &Ranking, min: bool, out: &mut dyn Write) -> io::Result<()> {
    let title = if min { "Min time | " } else { "" };
    writeln!(out, "Total time | {title}Max time | Avg time | Occurrences | Trace name")?;
    writeln!(out, "{}", "-".repeat(91 + title.len()))?;
    for row in ranking.rows() {
        let (total, max, average) =
            (format!("{:.3}", row.total_s), format!("{:.3}", row.max_s), format!("{:.3}", row.average_s()));
        let min = if min { format!("{:<10.3} ", row.min_s) } else { String::new() };
        let name = on_one_line(&row.name);
        writeln!(out, "{total:<12} {min}{max:<10} {average:<10} {:<13} {name}", row.occurrences)?;
    }
    Ok(())
}
