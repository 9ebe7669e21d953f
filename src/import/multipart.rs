//! Fields of multipart/form-data, and the key `multipart` that sends them again.
//!
//! The content of a file never becomes part of a scenario: a field with a file names the file.

use serde_json::{Map, Value, json};

use super::replace::{Replace, escaped};
use super::sniff;

/// The most fields that a scenario's `multipart` may have.
const FIELDS_MAX: usize = 100;
/// The folder of stand-ins for files that are not there.
const FOLDER: &str = "files";

/// A field of a form.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FormField {
    pub(super) name: String,
    pub(super) content: FormFieldContent,
}

/// What a field has.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum FormFieldContent {
    Text(String),
    File {
        /// Its path from the scenario.
        path: String,
        /// The name that the service gets.
        filename: Option<String>,
        content_type: Option<String>,
    },
}

impl FormField {
    pub(super) fn text(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { name: name.into(), content: FormFieldContent::Text(text.into()) }
    }

    /// A file that the input only mentions: a stand-in of this name takes its place.
    pub(super) fn stand_in(name: &str, filename: &str, content_type: &str) -> Self {
        let content_type = is_content_type(content_type).then(|| content_type.to_owned());
        let content = FormFieldContent::File {
            path: stand_in(filename),
            filename: Some(filename.to_owned()),
            content_type,
        };
        Self { name: name.to_owned(), content }
    }
}

/// The path of a stand-in for a file that the input only mentions.
pub(super) fn stand_in(filename: &str) -> String {
    let last = filename.rsplit(['/', '\\']).next().unwrap_or_default();
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = last.chars().map(plain).take(80).collect();
    let name = name.trim_matches(['.', '-']);
    format!("{FOLDER}/{}", if name.is_empty() { "upload.bin" } else { name })
}

/// The stand-ins among these fields.
pub(super) fn stand_ins(fields: &[FormField]) -> impl Iterator<Item = &str> {
    fields.iter().filter_map(|field| match &field.content {
        FormFieldContent::File { path, .. } => Some(path.as_str()),
        FormFieldContent::Text(_) => None,
    })
}

/// True if a scenario can hold these fields.
pub(super) fn fits(fields: &[FormField]) -> bool {
    fields.len() <= FIELDS_MAX && fields.iter().all(|field| field.name != "<<")
}

/// True for a content type that a scenario can name.
pub(super) fn is_content_type(text: &str) -> bool {
    text.len() <= 200 && text.contains('/') && text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

/// The value of the key `multipart`. A name that occurs several times has a list.
pub(super) fn written(fields: &[FormField], replace: &mut dyn Replace) -> Map<String, Value> {
    let mut map: Map<String, Value> = Map::new();
    for field in fields {
        let value = match &field.content {
            FormFieldContent::Text(text) => {
                let template = replace.whole(&field.name, text);
                Value::from(template.unwrap_or_else(|| sniff::replaced(text, replace)))
            }
            FormFieldContent::File { path, filename, content_type } => {
                let mut file = json!({ "file": path });
                if let Some(filename) = filename {
                    file["filename"] = escaped(filename).into();
                }
                if let Some(content_type) = content_type {
                    file["type"] = content_type.as_str().into();
                }
                file
            }
        };
        match map.get_mut(&field.name) {
            None => drop(map.insert(field.name.clone(), value)),
            Some(Value::Array(values)) => values.push(value),
            Some(first) => *first = json!([first.take(), value]),
        }
    }
    map
}

/// The fields of a body as it was sent (RFC 7578, RFC 2046 section 5.1). `None` if it is not such a body, or if a
/// scenario cannot hold its fields.
pub(super) fn read(text: &str, content_type: &str) -> Option<Vec<FormField>> {
    let start = content_type.get(..19)?;
    if !start.eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let boundary = content_type.split(';').find_map(|part| {
        let (name, value) = part.trim().split_once('=')?;
        name.trim().eq_ignore_ascii_case("boundary").then(|| value.trim().trim_matches('"'))
    })?;
    let line = format!("--{}", Some(boundary).filter(|boundary| !boundary.is_empty())?);
    let mut fields = Vec::new();
    for part in text.split(line.as_str()).skip(1).take(FIELDS_MAX + 2) {
        if part.starts_with("--") {
            return fits(&fields).then_some(fields);
        }
        let part = without_line_break(part, true);
        let (head, content) = part.split_once("\r\n\r\n").or_else(|| part.split_once("\n\n"))?;
        fields.push(field(head, without_line_break(content, false))?);
    }
    None
}

fn without_line_break(text: &str, at_start: bool) -> &str {
    let stripped = |end: &str| if at_start { text.strip_prefix(end) } else { text.strip_suffix(end) };
    stripped("\r\n").or_else(|| stripped("\n")).unwrap_or(text)
}

fn field(head: &str, content: &str) -> Option<FormField> {
    let header = |wanted: &str| {
        head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.trim().eq_ignore_ascii_case(wanted).then(|| value.trim())
        })
    };
    let disposition = header("content-disposition")?;
    let name = parameter(disposition, "name")?;
    Some(match parameter(disposition, "filename") {
        Some(filename) => FormField::stand_in(&name, &filename, header("content-type").unwrap_or_default()),
        None => FormField::text(name, content),
    })
}

/// A parameter in quotes, as browsers write it.
fn parameter(disposition: &str, name: &str) -> Option<String> {
    let start = format!(" {name}=\"");
    let at = disposition.find(&start)? + start.len();
    let value = disposition[at..].split('"').next()?;
    Some(value.replace("%22", "\"").replace("%0D", "\r").replace("%0A", "\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_as_browsers_send_them_become_fields_without_the_contents_of_files() {
        let text = "--B\r\nContent-Disposition: form-data; name=\"a%22\"\r\n\r\none\r\ntwo\r\n\
            --B\r\nContent-Disposition: form-data; name=\"f\"; filename=\"../c d.pem\"\r\nContent-Type: text/plain\r\n\r\n\
            PRIVATE\r\n--B--\r\n";
        let fields = read(text, "multipart/form-data; boundary=\"B\"").unwrap();
        assert_eq!(
            fields,
            [FormField::text("a\"", "one\r\ntwo"), FormField::stand_in("f", "../c d.pem", "text/plain")]
        );
        assert_eq!(stand_ins(&fields).collect::<Vec<_>>(), ["files/c-d.pem"]);
        for (text, content_type) in [
            (text, "text/plain; boundary=B"),
            (text, "multipart/form-data"),
            (text, "multipart/form-data; boundary="),
            (text.trim_end_matches("--B--\r\n"), "multipart/form-data; boundary=B"),
            (
                "--B\r\nContent-Disposition: form-data; name=\"<<\"\r\n\r\nx\r\n--B--",
                "multipart/form-data; boundary=B",
            ),
            ("--B\r\nno head--B--", "multipart/form-data; boundary=B"),
            ("", "multipart/form-data; boundary=B"),
            ("é", "é"),
        ] {
            assert_eq!(read(text, content_type), None, "{text:?} {content_type}");
        }
        let many = "--B\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nx\r\n".repeat(101) + "--B--";
        assert_eq!(read(&many, "multipart/form-data; boundary=B"), None);
    }

    #[test]
    fn stand_ins_stay_in_their_folder() {
        for (filename, expected) in [
            ("photo.png", "files/photo.png"),
            ("/etc/passwd", "files/passwd"),
            ("..", "files/upload.bin"),
            ("a\\..\\.b c", "files/b-c"),
            ("{{ x }}", "files/x"),
        ] {
            assert_eq!(stand_in(filename), expected);
        }
    }
}
