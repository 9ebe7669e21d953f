//! The page of a load under way: it draws what the program sends, with the style and the charts of the report.

use std::io::{self, Write};

use minijinja::{Value, context};

use super::{SCRIPT, STYLE, content_policy, fill, script};

const PAGE: &str = include_str!("live.html");
const OWN: &str = include_str!("live.js");
/// The parts of the report's script that it uses.
const PARTS: [&str; 2] = ["charts.js", "load.js"];

/// Writes the page of a scenario with this title. It reads `events` beside it and goes to `report` at the end.
///
/// # Errors
/// When `out` cannot be written.
pub fn write(title: &str, deployment: &str, out: &mut dyn Write) -> io::Result<()> {
    let parts = SCRIPT.iter().filter(|(name, _)| PARTS.contains(name)).map(|(_, part)| *part);
    let script = script(&parts.chain([OWN]).collect::<Vec<_>>().join("\n"));
    let safe = Value::from_safe_string;
    let values = context! {
        policy => safe(format!("{}; connect-src 'self'", content_policy(&script))),
        style => safe(STYLE.to_owned()),
        script => safe(script),
        title,
        deployment,
    };
    fill(PAGE, values, out)
}
