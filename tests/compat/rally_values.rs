//! What `bench` reads in Rally's task files, for `tests/compat/imports.py --rally`, which compares it with Jinja2 and PyYAML.
//! Each line of the input is `{"path": …, "arguments": {…}}`, and each line of the output has the value of that file, or why
//! it cannot be read.

#![expect(clippy::print_stdout, reason = "a peer's answer")]

use std::path::Path;

use bench::rally::args::Arguments;
use bench::rally::template::render;
use bench::text::diagnostics::SourceText;
use bench::text::yaml::{self, Schema};
use serde_json::{Value, json};

fn main() {
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let asked: Value = serde_json::from_str(&line).expect("a line of JSON");
        let path = asked["path"].as_str().expect("a path");
        let answer = match value(Path::new(path), &asked["arguments"].to_string()) {
            Ok(value) => json!({"path": path, "value": value}),
            Err(why) => json!({"path": path, "error": why}),
        };
        println!("{answer}");
    }
}

fn value(path: &Path, given: &str) -> Result<Value, String> {
    let mut arguments = Arguments::default();
    arguments.add_text(given).map_err(|complaint| complaint.to_string())?;
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let beside = |name: &str| {
        let file = path.parent().unwrap_or(path).join(name);
        std::fs::read_to_string(file).map_err(|error| format!("{name}: {error}"))
    };
    let said = |faults: Vec<bench::text::diagnostics::Fault>| {
        faults.into_iter().map(|fault| fault.message).collect::<Vec<_>>().join("; ")
    };
    let source = SourceText::new("task", text.strip_prefix('\u{feff}').unwrap_or(&text));
    let rendered = render(source, &arguments, &beside).map_err(|rejected| said(rejected.faults))?;
    let (root, faults) = yaml::parse_all_as(&rendered.source, Schema::Python);
    let Some(root) = root.filter(|_| faults.is_empty()) else { return Err(said(faults)) };
    serde_json::to_value(root.to_value()).map_err(|error| error.to_string())
}
