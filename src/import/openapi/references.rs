//! A document in several files becomes one: references to other files are followed, and lead into the document itself.

use std::collections::BTreeSet;

use serde_json::Value;

use base::percent;

use super::BYTES_MAX;
use super::document::parse;

/// Reads a file that a document names, relative to its folder.
pub type ReadFile<'f> = dyn Fn(&str) -> Result<Vec<u8>, String> + 'f;

/// Where the other files are in the document.
const FILES: &str = "x-bench-files";
const FILES_MAX: usize = 500;
/// The most references that are named one by one in notes.
const NAMED_MAX: usize = 5;

/// The files of a document.
struct Files {
    /// Their paths from the document's folder.
    paths: Vec<String>,
    /// What was not found, and why.
    missing: BTreeSet<String>,
    /// References to other hosts.
    remote: usize,
}

/// Puts the files that a document refers to into it, and says what is missing.
pub(super) fn gather(root: &mut Value, read: &ReadFile<'_>) -> Vec<String> {
    let mut files = Files { paths: Vec::new(), missing: BTreeSet::new(), remote: 0 };
    files.rewrite(root, None);
    let (mut values, mut left) = (Vec::new(), BYTES_MAX);
    while let Some(path) = files.paths.get(values.len()).cloned() {
        let mut value = files.read(&path, read, &mut left);
        files.rewrite(&mut value, Some(values.len()));
        values.push(value);
    }
    if let Some(map) = root.as_object_mut().filter(|_| !values.is_empty()) {
        map.insert(FILES.to_owned(), Value::Array(values));
    }
    files.notes()
}

impl Files {
    fn read(&mut self, path: &str, read: &ReadFile<'_>, left: &mut u64) -> Value {
        let found = read(path).and_then(|bytes| {
            *left = left.checked_sub(bytes.len() as u64).ok_or("the files are larger than 64 MiB")?;
            parse(bytes).map_err(|error| error.what)
        });
        found.unwrap_or_else(|error| {
            self.missing.insert(format!("{path}: {error}"));
            Value::Null
        })
    }

    /// Makes all references of a file lead into the document. `own` is the file's number; the document itself has none.
    fn rewrite(&mut self, value: &mut Value, own: Option<usize>) {
        let mut pending = vec![value];
        while let Some(value) = pending.pop() {
            match value {
                Value::Array(items) => pending.extend(items),
                Value::Object(map) => {
                    if let Some(Value::String(reference)) = map.get_mut("$ref")
                        && let Some(inner) = self.inner(reference, own)
                    {
                        *reference = inner;
                    }
                    pending.extend(map.values_mut());
                }
                _ => {}
            }
        }
    }

    /// The same reference within the document; `None` if it stays as it is.
    fn inner(&mut self, reference: &str, own: Option<usize>) -> Option<String> {
        if let Some(pointer) = reference.strip_prefix('#') {
            return own.map(|own| format!("#/{FILES}/{own}{pointer}"));
        }
        if reference.contains("://") {
            self.remote += 1;
            return None;
        }
        let (file, pointer) = reference.split_once('#').unwrap_or((reference, ""));
        let folder = own.and_then(|own| self.paths[own].rsplit_once('/')).map_or("", |(folder, _)| folder);
        let Some(path) = joined(folder, file) else {
            self.missing.insert(format!("{file}: it is outside the folder of the document"));
            return None;
        };
        let number = match self.paths.iter().position(|known| *known == path) {
            Some(number) => number,
            None if self.paths.len() >= FILES_MAX => {
                self.missing.insert(format!("{path}: there are more than {FILES_MAX} files"));
                return None;
            }
            None => {
                self.paths.push(path);
                self.paths.len() - 1
            }
        };
        Some(format!("#/{FILES}/{number}{pointer}"))
    }

    fn notes(self) -> Vec<String> {
        let mut notes: Vec<String> = self
            .missing
            .iter()
            .take(NAMED_MAX)
            .map(|missing| format!("what the document has in another file is left out: {missing}"))
            .collect();
        let more = self.missing.len().saturating_sub(NAMED_MAX);
        if more > 0 {
            notes.push(format!("{more} more files of the document are left out"));
        }
        if self.remote > 0 {
            notes.push(format!("{} references to other hosts are not followed", self.remote));
        }
        notes
    }
}

/// A path from the document's folder; `None` if it leads out of it.
fn joined(folder: &str, file: &str) -> Option<String> {
    let decoded = String::from_utf8(percent::decode(file)).ok()?;
    if decoded.starts_with(['/', '\\']) || decoded.contains(':') {
        return None;
    }
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in decoded.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            other => parts.push(other),
        }
    }
    Some(parts.join("/")).filter(|path| !path.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn references_lead_into_the_document() {
        let read = |path: &str| match path {
            "paths/a b.yaml" => {
                Ok(b"get: { parameters: [{ $ref: '../p.json#/P' }, { $ref: '#/own' }] }\nown: 1".to_vec())
            }
            "p.json" => Ok(br#"{"P": {"name": "limit"}}"#.to_vec()),
            other => Err(format!("no {other}")),
        };
        let mut root = json!({ "paths": {
            "/a": { "$ref": "./paths/a%20b.yaml" }, "/again": { "$ref": "paths/a%20b.yaml#/get" },
            "/own": { "$ref": "#/x" }, "/gone": { "$ref": "gone.yaml" }, "/up": { "$ref": "../x.yaml" },
            "/root": { "$ref": "/etc/x.yaml" }, "/far": { "$ref": "https://h/x.yaml" }
        } });
        let notes = gather(&mut root, &read);
        let to = |path: &str| root["paths"][path]["$ref"].clone();
        let leads_to = |reference: &Value| root.pointer(reference.as_str()?.strip_prefix('#')?).cloned();
        let item = leads_to(&to("/a")).unwrap();
        assert_eq!(leads_to(&to("/again")).as_ref(), Some(&item["get"]));
        assert_eq!(to("/own"), "#/x");
        let parameters = &item["get"]["parameters"];
        assert_eq!(leads_to(&parameters[0]["$ref"]), Some(json!({ "name": "limit" })));
        assert_eq!(leads_to(&parameters[1]["$ref"]), Some(json!(1)));
        assert_eq!(notes.len(), 4, "{notes:?}");
        for part in [
            "gone.yaml: no gone.yaml",
            "../x.yaml: it is outside",
            "/etc/x.yaml: it is outside",
            "1 references to other hosts",
        ] {
            assert!(notes.iter().any(|note| note.contains(part)), "{part}: {notes:?}");
        }
    }

    #[test]
    fn a_document_in_one_file_stays_as_it_is() {
        let mut root = json!({ "a": { "$ref": "#/b" } });
        assert!(gather(&mut root, &|_| unreachable!()).is_empty());
        assert_eq!(root, json!({ "a": { "$ref": "#/b" } }));
    }
}
