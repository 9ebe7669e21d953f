//! The options of a command that are about what is sent: data, forms and files.
//!
//! The content of a file never becomes part of a draft; steps name the file.

use crate::ImportError;
use crate::multipart::{FormField, FormFieldContent, is_content_type};
use crate::request::Body;
use base::percent;

use super::{CurlCommand, NameFile};

/// A piece of the data of a command.
pub(super) enum Data {
    Text(String),
    /// A file's path from the scenario, and whether curl removes its line breaks.
    File(String, bool),
}

impl CurlCommand {
    /// `--data`, whose value begins with `@` for a file.
    pub(super) fn data(&mut self, text: &str, strips: bool, file: &NameFile<'_>) -> Result<(), ImportError> {
        let data = match (text.strip_prefix('@'), &self.input) {
            (Some("-"), Some(input)) => Data::Text(match strips {
                true => input.replace(['\r', '\n'], ""),
                false => input.clone(),
            }),
            (Some(path), _) => Data::File(file(path)?, strips),
            (None, _) => Data::Text(text.to_owned()),
        };
        self.piece(data, false);
        Ok(())
    }

    /// A piece of the data, and whether it is joined to what is before it without `&`.
    pub(super) fn piece(&mut self, data: Data, joined: bool) {
        self.data.push(data);
        self.joined.push(joined);
    }

    pub(super) fn urlencoded(&mut self, text: &str) -> Result<(), ImportError> {
        self.piece(Data::Text(encoded("--data-urlencode", text)?), false);
        Ok(())
    }

    /// `--url-query`: as `--data-urlencode`, or `+` and text that is already encoded.
    pub(super) fn url_query(&mut self, text: &str) -> Result<(), ImportError> {
        self.query.push(match text.strip_prefix('+') {
            Some(text) => text.to_owned(),
            None => encoded("--url-query", text)?,
        });
        Ok(())
    }

    /// `--form`: `name=text`, `name=@file` or `name=<file`, with `;type=` and `;filename=`.
    pub(super) fn field(&mut self, text: &str, file: &NameFile<'_>) -> Result<(), ImportError> {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        if value.starts_with('@') && has_separate(&value[1..]) {
            return Err(ImportError::new(
                format!("the field `{name}` has several files, which a step cannot send"),
                "write --form once for each file",
            ));
        }
        let is_text = value.strip_prefix('<').is_some();
        let (first, mut rest) = quoted_or_until_semicolon(value.strip_prefix(['@', '<']).unwrap_or(value));
        let (mut content_type, mut filename) = (None, None);
        while let Some(parameter) = rest.strip_prefix(';') {
            let (key, after) = parameter.split_once('=').unwrap_or((parameter, ""));
            let (value, after) = quoted_or_until_semicolon(after);
            match key.trim() {
                "type" if is_content_type(&value) => content_type = Some(value),
                "filename" => filename = Some(value),
                other => {
                    self.notes.push(format!("`;{other}` of the field `{name}` was ignored"));
                }
            }
            rest = after;
        }
        let content = if value.starts_with(['@', '<']) {
            if is_text {
                self.notes.push(format!("the field `{name}` is sent as a file, with a file name"));
            }
            FormFieldContent::File { path: file(&first)?, filename, content_type }
        } else {
            if content_type.is_some() || filename.is_some() {
                self.notes.push(format!("the field `{name}` is sent as text, without a content type"));
            }
            FormFieldContent::Text(first)
        };
        self.fields.push(FormField { name: name.to_owned(), content });
        Ok(())
    }

    pub(super) fn check_content(&self) -> Result<(), ImportError> {
        let both = |options: &str| {
            Err(ImportError::new(format!("the command has both {options}"), "remove one of them"))
        };
        let (has_data, has_form) = (!self.data.is_empty(), !self.fields.is_empty());
        if has_data && has_form {
            return both("--data and --form");
        }
        if !self.uploads.is_empty() && (has_data || has_form) {
            return both("--upload-file and --data or --form");
        }
        if !super::multipart::fits(&self.fields) {
            return Err(ImportError::new(
                "the form has more than 100 fields, or one that is called `<<`",
                "leave some out",
            ));
        }
        let has_file = self.data.iter().any(|data| matches!(data, Data::File(..)));
        if has_file && (self.data.len() > 1 || self.in_query) {
            return Err(ImportError::new(
                "the command joins the content of a file with other text",
                "write the whole body into one file, and name it with -d @FILE alone",
            ));
        }
        Ok(())
    }

    /// The text of `--data`, joined as curl does.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for (at, (data, joined)) in self.data.iter().zip(&self.joined).enumerate() {
            let Data::Text(piece) = data else { continue };
            if at > 0 && !joined {
                text.push('&');
            }
            text.push_str(piece);
        }
        text
    }

    /// The body, if `stated` is the content type that the command states.
    pub(super) fn body(&self, stated: Option<String>) -> Body {
        let usual = if self.json { "application/json" } else { "application/x-www-form-urlencoded" };
        let of_data = |stated: Option<String>| Some(stated.unwrap_or_else(|| usual.to_owned()));
        if let Some((path, _)) = &self.upload {
            return Body::File(path.clone(), stated);
        }
        if !self.fields.is_empty() {
            return Body::Multipart(self.fields.clone());
        }
        match self.data.first() {
            Some(Data::File(path, _)) => Body::File(path.clone(), of_data(stated)),
            Some(Data::Text(_)) if !self.in_query => Body::of_text(self.text(), of_data(stated)),
            _ => Body::Empty,
        }
    }

    /// What differs from what curl sends.
    pub(super) fn note_content(&mut self) {
        if let Some(Data::File(path, true)) = self.data.first() {
            self.notes.push(format!(
                "curl removes the line breaks of {path}, and bench sends it as it is (like --data-binary)"
            ));
        }
        let stated = self.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        if stated.is_none() {
            self.notes.extend(self.uploads.iter().map(|(path, _)| {
                format!(
                    "{path} is sent with the content type of its name; curl sends none (-H 'Content-Type: …' sets it)"
                )
            }));
        }
        if self.fields.iter().any(|field| field.name.is_empty()) {
            self.notes.push("a field without a name is sent with an empty one".to_owned());
        }
    }
}

/// As in a form, where a space is a plus.
fn as_form(text: &str) -> String {
    percent::encode(text).replace("%20", "+")
}

/// A text of `--data-urlencode`: `CONTENT`, `=CONTENT` or `NAME=CONTENT`.
fn encoded(option: &str, text: &str) -> Result<String, ImportError> {
    let at = text.find(['=', '@']);
    Ok(match at.map(|at| (&text[..at], &text[at..=at], &text[at + 1..])) {
        Some((_, "@", path)) => {
            return Err(ImportError::new(
                format!("{option} encodes the file {path}, which a step cannot do"),
                match option {
                    "--url-query" => "write the encoded text into the command",
                    _ => "encode it into another file, and name that one with -d @FILE",
                },
            ));
        }
        Some(("", _, content)) => as_form(content),
        Some((name, _, content)) => format!("{name}={}", as_form(content)),
        None => as_form(text),
    })
}

/// Whether there is a comma outside quotes: curl takes what follows for another file.
fn has_separate(text: &str) -> bool {
    let (mut in_quotes, mut is_escaped) = (false, false);
    text.chars().any(|c| {
        in_quotes ^= c == '"' && !is_escaped;
        is_escaped = in_quotes && c == '\\' && !is_escaped;
        c == ',' && !in_quotes
    })
}

/// A value in quotes or up to the next semicolon, and what follows.
fn quoted_or_until_semicolon(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(';').unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, &quoted[at + 1..]),
            '\\' => value.extend(chars.next().map(|(_, c)| c)),
            c => value.push(c),
        }
    }
    (value, "")
}
