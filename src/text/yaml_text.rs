//! Writes values as YAML text in the usual style: blocks, and quotes only if needed.
//!
//! [`super::yaml`] reads the same value back. It quotes more than YAML libraries do: words that YAML 1.1 parsers read
//! as booleans are quoted, as keys too.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_yaml::Value;

use super::digits;
use super::yaml::is_plain_text;

/// Comments above the keys and items of a document, by their JSON pointer (RFC 6901). An empty line in a comment is an
/// empty line in the text.
pub type Comments = BTreeMap<String, String>;

/// A value as a YAML document.
#[must_use]
pub fn to_text(value: &Value) -> String {
    to_commented_text(value, &Comments::new())
}

/// A value as a YAML document with comments. The first key of a map in a list has none: the comment of such an item
/// stands above its dash.
#[must_use]
pub fn to_commented_text(value: &Value, comments: &Comments) -> String {
    let mut writer = YamlWriter { text: String::new(), comments, pointer: String::new() };
    match value {
        _ if is_block(value) => writer.block(value, 0, false),
        _ => {
            push_scalar(value, 0, &mut writer.text);
            writer.text.push('\n');
        }
    }
    writer.text
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Mapping(map) => map.is_empty(),
        Value::Sequence(items) => items.is_empty(),
        _ => false,
    }
}

struct YamlWriter<'c> {
    text: String,
    comments: &'c Comments,
    /// The JSON pointer to what is being written.
    pointer: String,
}

impl YamlWriter<'_> {
    /// The lines of a map or a list. `begun`: the first of them has its indentation already.
    fn block(&mut self, value: &Value, indent: usize, mut begun: bool) {
        match value {
            Value::Mapping(map) => {
                for (key, value) in map {
                    let key = key.as_str().unwrap_or_default();
                    self.below(&key.replace('~', "~0").replace('/', "~1"), |writer| {
                        writer.begin_line(indent, std::mem::take(&mut begun));
                        writer.text.push_str(&on_one_line(key));
                        writer.text.push(':');
                        writer.value(value, indent);
                    });
                }
            }
            Value::Sequence(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.below(&index.to_string(), |writer| {
                        writer.begin_line(indent, std::mem::take(&mut begun));
                        writer.text.push_str("- ");
                        if is_block(item) {
                            writer.block(item, indent + 2, true);
                        } else {
                            push_scalar(item, indent + 2, &mut writer.text);
                            writer.text.push('\n');
                        }
                    });
                }
            }
            _ => {}
        }
    }

    /// The value of a key.
    fn value(&mut self, value: &Value, indent: usize) {
        if is_block(value) {
            self.text.push('\n');
            self.block(value, indent + 2, false);
        } else {
            self.text.push(' ');
            push_scalar(value, indent + 2, &mut self.text);
            self.text.push('\n');
        }
    }

    fn below(&mut self, name: &str, write: impl FnOnce(&mut Self)) {
        let length = self.pointer.len();
        if !self.comments.is_empty() {
            self.pointer.push('/');
            self.pointer.push_str(name);
        }
        write(self);
        self.pointer.truncate(length);
    }

    fn begin_line(&mut self, indent: usize, begun: bool) {
        if begun {
            return;
        }
        let blanks = |text: &mut String| text.extend(std::iter::repeat_n(' ', indent));
        for line in self.comments.get(&self.pointer).into_iter().flat_map(|comment| comment.split('\n')) {
            if !line.is_empty() {
                blanks(&mut self.text);
                self.text.push_str("# ");
                self.text.push_str(&base::visible::on_one_line(line));
            }
            self.text.push('\n');
        }
        blanks(&mut self.text);
    }
}

fn is_block(value: &Value) -> bool {
    match value {
        Value::Mapping(map) => !is_empty(value) && digits::digits_in_yaml(map).is_none(),
        Value::Sequence(_) => !is_empty(value),
        _ => false,
    }
}

/// A number with a fraction as JSON has it, which is read again as the same digits.
fn number_text(number: &serde_yaml::Number) -> String {
    let as_json = number.as_f64().filter(|_| number.is_f64()).and_then(serde_json::Number::from_f64);
    as_json.map_or_else(|| number.to_string(), |number| number.to_string())
}

fn push_scalar(value: &Value, indent: usize, text: &mut String) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => text.push_str(&number_text(number)),
        Value::String(string) if is_for_lines(string) => push_lines(string, indent, text),
        Value::String(string) => text.push_str(&on_one_line(string)),
        Value::Sequence(_) => text.push_str("[]"),
        Value::Mapping(map) => text.push_str(digits::digits_in_yaml(map).unwrap_or("{}")),
        Value::Tagged(tagged) => match digits::digits_of(tagged) {
            Some(digits) => text.push_str(&digits),
            None => push_scalar(&tagged.value, indent, text),
        },
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
    !c.is_control() && !base::visible::is_deceptive(c) && c != '\u{feff}'
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
    use crate::diagnostics::SourceText;
    use crate::yaml;
    use proptest::prelude::*;

    fn read_again(value: &Value) -> Value {
        let text = to_text(value);
        let read = yaml::parse(&SourceText::new("t", text.as_str()));
        let read = read.unwrap_or_else(|faults| panic!("{text}\n{faults:?}")).to_value();
        // A reader that wants ordinary numbers gets them.
        serde_yaml::to_value(digits::rounded(read).unwrap()).unwrap()
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

    #[test]
    fn numbers_are_written_with_their_digits() {
        let json = r#"{"a":[1.50,1E400,18446744073709551616],"b":{"c":-0},"d":1e300,"g":1e16,"f":"1.50"}"#;
        let value = digits::parse(json.as_bytes()).unwrap();
        let text = to_text(&serde_yaml::to_value(&value).unwrap());
        insta::assert_snapshot!(text, @r"
        a:
          - 1.50
          - 1E400
          - 18446744073709551616
        b:
          c: -0
        d: 1e300
        g: 1e16
        f: '1.50'
        ");
        let read = yaml::parse(&SourceText::new("t", text.as_str())).unwrap();
        assert_eq!(digits::to_text(&digits::value(read.to_value()).unwrap()), json);
        assert_eq!(to_text(&read.to_value()), text);
    }

    #[test]
    fn comments_stand_above_keys_and_items() {
        let value: Value = serde_yaml::from_str(r#"{"a":[{"b":1,"c/d":{"g":2}},"x"],"f":3}"#).unwrap();
        let comments = [
            ("/a", "first"),
            ("/a/0", "an\u{1b} item\nof two lines"),
            ("/a/0/b", "not written"),
            ("/a/0/c~1d", "a slash"),
            ("/f", "\nlast"),
        ];
        let comments: Comments = comments.map(|(at, text)| (at.to_owned(), text.to_owned())).into();
        let text = to_commented_text(&value, &comments);
        let expected = "\
# first
a:
  # an‹U+001B› item
  # of two lines
  - b: 1
    # a slash
    c/d:
      g: 2
  - x

# last
f: 3
";
        assert_eq!(text.replace(' ', "·"), expected.replace(' ', "·"));
        assert_eq!(yaml::parse(&SourceText::new("t", text)).unwrap().to_value(), value);
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
