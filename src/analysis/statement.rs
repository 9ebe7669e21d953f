//! Points by their kind of call: what they did, without the values that differ from call to call.

pub use osprofiler::statement::{path, sql};

use osprofiler::report::Point;

/// The kind of call: its detail with literals and ids replaced; empty for a point without details.
#[must_use]
pub fn kind(point: &Point) -> &str {
    point.info.call()
}

/// A point's name and its kind of call.
#[must_use]
pub fn name_and_kind(point: &Point) -> String {
    joined(&point.name, kind(point))
}

/// A name and a kind of call. Some programs name a call by its method alone, which the kind begins with, too.
#[must_use]
pub fn joined(name: &str, kind: &str) -> String {
    let is_named = !name.is_empty() && kind.strip_prefix(name).is_some_and(|rest| rest.starts_with(' '));
    match (is_named, kind.is_empty()) {
        (true, _) => kind.trim_end().to_owned(),
        (_, true) => name.trim_end().to_owned(),
        _ => format!("{name} {kind}").trim_end().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::joined;

    #[test]
    fn a_method_is_said_once() {
        for (name, kind, expected) in [
            ("GET", "GET 127.0.0.1/stock?i=", "GET 127.0.0.1/stock?i="),
            ("wsgi", "GET /v3", "wsgi GET /v3"),
            ("db", "", "db"),
            ("GE", "GET /x", "GE GET /x"),
            ("", " /x", "  /x"),
        ] {
            assert_eq!(joined(name, kind), expected, "{name}, {kind}");
        }
    }
}
