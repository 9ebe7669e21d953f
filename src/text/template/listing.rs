//! The texts among variables, for showing a single iteration.

use minijinja::value::ValueKind;

use super::{Value, Variables};

/// A list of texts has at most this many.
const TEXTS_MAX: usize = 1000;

impl Variables {
    /// The variables that are texts, and texts in maps as `name_key`.
    #[must_use]
    pub fn texts(&self) -> Vec<(String, String)> {
        let mut texts = Vec::new();
        let shared = self.scope.shared.iter().map(|(name, value)| (&**name, value));
        let own = self.scope.own.iter().map(|(name, value)| (&**name, value));
        for (name, value) in own.chain(shared) {
            push(name, value, &mut texts);
        }
        texts
    }
}

fn push(name: &str, value: &Value, texts: &mut Vec<(String, String)>) {
    if texts.len() >= TEXTS_MAX {
        return;
    }
    if let Some(text) = value.as_str() {
        texts.push((name.to_owned(), text.to_owned()));
    } else if value.kind() == ValueKind::Map
        && let Ok(keys) = value.try_iter()
    {
        for key in keys {
            if let (Some(key_name), Ok(found)) = (key.as_str(), value.get_item(&key))
                && let Some(text) = found.as_str()
            {
                texts.push((format!("{name}_{key_name}"), text.to_owned()));
            }
        }
    }
}
