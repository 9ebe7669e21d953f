//! How literal values of a recording become templates, or texts in which templates mean nothing.

/// Replaces literal values by templates. What is not replaced is escaped.
pub(super) trait Replace {
    /// The template for a whole value at a place with this name.
    fn whole(&mut self, name: &str, value: &str) -> Option<String>;
    /// The template for a value that is public: where it came from, but never a secret.
    fn public(&mut self, _value: &str) -> Option<String> {
        None
    }
    /// The template for a number of a JSON body.
    fn number(&mut self, _name: &str, _value: &str) -> Option<String> {
        None
    }
}

/// A text in which templates mean nothing.
pub(super) fn escaped(text: &str) -> String {
    if !text.contains('{') {
        return text.to_owned();
    }
    let mut output = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        output.push_str(&rest[..at]);
        match rest[at..].get(..2) {
            Some(mark @ ("{{" | "{%" | "{#")) => {
                output.push_str("{{ '");
                output.push_str(mark);
                output.push_str("' }}");
                rest = &rest[at + 2..];
            }
            _ => {
                output.push('{');
                rest = &rest[at + 1..];
            }
        }
    }
    output + rest
}
