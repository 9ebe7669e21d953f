//! Writes values as YAML text in the usual style: blocks, and quotes only if needed.
//!
//! [`super::yaml`] reads the same value back. It quotes more than YAML libraries do: words that YAML 1.1 parsers read
//! as booleans are quoted, as keys too.

use std::fmt::Write as _;

use serde_yaml::Value;

use super::yaml::is_plain_text;

/// A value as a YAML document.
#[must_use]
pub fn to_text(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Mapping(_) | Value::Sequence(_) if !is_empty(value) => push_block(value, 0, &mut text),
        _ => {
            push_scalar(value, 0, &mut text);
            text.push('\n');
        }
    }
    text
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Mapping(map) => map.is_empty(),
        Value::Sequence(items) => items.is_empty(),
        _ => false,
    }
}

/// The lines of a map or a list, whose first line is begun already.
fn push_block(value: &Value, indent: usize, text: &mut String) {
    let mut first = true;
    let mut begin_line = |text: &mut String| {
        if !std::mem::take(&mut first) {
            text.extend(std::iter::repeat_n(' ', indent));
        }
    };
    match value {
        Value::Mapping(map) => {
            for (key, value) in map {
                begin_line(text);
                text.push_str(&on_one_line(key.as_str().unwrap_or_default()));
                text.push(':');
                push_value(value, indent, text);
            }
        }
        Value::Sequence(items) => {
            for item in items {
                begin_line(text);
                text.push('-');
                if is_block(item) {
                    text.push(' ');
                    push_block(item, indent + 2, text);
                } else {
                    text.push(' ');
                    push_scalar(item, indent + 2, text);
                    text.push('\n');
                }
            }
        }
        _ => {}
    }
}

fn is_block(value: &Value) -> bool {
    matches!(value, Value::Mapping(_) | Value::Sequence(_)) && !is_empty(value)
}

/// The value of a key.
fn push_value(value: &Value, indent: usize, text: &mut String) {
    if is_block(value) {
        text.push('\n');
        text.extend(std::iter::repeat_n(' ', indent + 2));
        push_block(value, indent + 2, text);
    } else {
        text.push(' ');
        push_scalar(value, indent + 2, text);
        text.push('\n');
    }
}

fn push_scalar(value: &Value, indent: usize, text: &mut String) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => text.push_str(&number.to_string()),
        Value::String(string) if is_for_lines(string) => push_lines(string, indent, text),
        Value::String(string) => text.push_str(&on_one_line(string)),
        Value::Sequence(_) => text.push_str("[]"),
        Value::Mapping(_) => text.push_str("{}"),
        Value::Tagged(tagged) => push_scalar(&tagged.value, indent, text),
    }
}

/// Several lines that a block shows as they are.
fn is_for_lines(string: &str) -> bool {
    let body = string.strip_suffix('\n').unwrap_or(string);
    body.contains('\n')
        && body.lines().all(|line| !line.is_empty() && line.trim() == line)
        && body.split('\n').all(|line| !line.is_empty())
        && body.chars().all(|c| c == '\n' || is_printable(c))
}

fn push_lines(string: &str, indent: usize, text: &mut String) {
    text.push_str(if string.ends_with('\n') { "|" } else { "|-" });
    for line in string.lines() {
        text.push('\n');
        text.extend(std::iter::repeat_n(' ', indent));
        text.push_str(line);
    }
}

fn on_one_line(string: &str) -> String {
    if is_plain(string) {
        return string.to_owned();
    }
    if string.chars().all(is_printable) && !string.contains('\'') {
        return format!("'{string}'");
    }
    let mut quoted = String::from("\"");
    for c in string.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c if is_printable(c) => quoted.push(c),
            c => {
                let _ = write!(quoted, "\\U{:08x}", u32::from(c));
            }
        }
    }
    quoted.push('"');
    quoted
}

/// Characters that a file may hold as they are, and that are visible.
fn is_printable(c: char) -> bool {
    !c.is_control() && !super::visible::is_deceptive(c) && c != '\u{feff}'
}

fn is_plain(string: &str) -> bool {
    let first = |c: char| c.is_alphanumeric() || matches!(c, '/' | '_' | '$' | '.' | '(' | '+' | '<');
    let digits = string.trim_start_matches("0x").trim_start_matches("0o");
    let like_a_number = digits.chars().all(|c| c.is_ascii_digit() || "+-_.:eE".contains(c));
    string.starts_with(first)
        && !string.ends_with([' ', ':'])
        && !string.contains(": ")
        && !string.contains(" #")
        && string.chars().all(is_printable)
        && !like_a_number
        && is_plain_text(string)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::diagnostics::Source;
    use crate::base::yaml;
    use proptest::prelude::*;

    fn read_again(value: &Value) -> Value {
        let text = to_text(value);
        let read = yaml::parse(&Source::new("t", text.as_str()));
        read.unwrap_or_else(|faults| panic!("{text}\n{faults:?}")).to_value()
    }

    #[test]
    fn values_are_written_as_a_person_writes_them() {
        let json = r#"{"a":[1,true,null,"x: y",{"b":"yes","c":[]},[["2xx"]]],"on":{},"t":"one\ntwo\n","u":"12:30","v":"it's","w":""}"#;
        let value: Value = serde_yaml::from_str(json).unwrap();
        let expected = "\
a:
  - 1
  - true
  - null
  - 'x: y'
  - b: 'yes'
    c: []
  - - - 2xx
'on': {}
t: |
  one
  two
u: '12:30'
v: it's
w: ''
";
        assert_eq!(to_text(&value), expected);
        assert_eq!(read_again(&value), value);
    }

    fn values() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            "[-a-z0-9:{}\\[\\],&*!|>'\"#%@`$. \t\n<~=\\\\é\u{1F600}\u{202e}\u{85}\r]{0,20}",
            "(yes|no|on|off|y|n|true|null|~|0x1f|1e3|\\.5|012|\\.inf|[0-9:_.-]{1,6})"
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_filter("finite", |number| number.is_finite()).prop_map(Value::from),
            text.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 5, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::Sequence),
                proptest::collection::btree_map(
                    text.clone().prop_filter("merges", |key| key != "<<"),
                    inner,
                    0..5
                )
                .prop_map(|map| Value::Mapping(map.into_iter().map(|(k, v)| (Value::from(k), v)).collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_value_that_was_written_is_read_as_it_was(value in values()) {
            prop_assert_eq!(read_again(&value), value);
        }
    }
}
