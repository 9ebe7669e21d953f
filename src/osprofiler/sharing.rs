//! Makes what is equal in the records of many traces one in memory.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::{Hash, Hasher};

use crate::info::SharedInfo;
use crate::text::Text;

/// Makes equal texts one, and equal infos that came as text.
#[derive(Default)]
pub struct TextInterner {
    infos: HashSet<InfoTextKey>,
    texts: HashSet<Text>,
}

impl TextInterner {
    /// Puts an equal info that came before in the place of this one.
    pub fn share(&mut self, info: &mut SharedInfo) {
        let Some(text) = info.text() else { return };
        match self.infos.get(text) {
            Some(same) => *info = same.0.clone(),
            None => {
                self.infos.insert(InfoTextKey(info.clone()));
            }
        }
    }

    /// The same for a text.
    pub fn share_text(&mut self, text: &mut Text) {
        match self.texts.get(text) {
            Some(same) => text.clone_from(same),
            None => {
                self.texts.insert(text.clone());
            }
        }
    }
}

/// An info as a key: its text.
struct InfoTextKey(SharedInfo);

impl InfoTextKey {
    fn text(&self) -> &str {
        self.0.text().unwrap_or_default()
    }
}

impl Borrow<str> for InfoTextKey {
    fn borrow(&self) -> &str {
        self.text()
    }
}

impl Hash for InfoTextKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text().hash(state);
    }
}

impl PartialEq for InfoTextKey {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for InfoTextKey {}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::record::{TraceRecord, share_with};

    fn trace(base_id: &str) -> Vec<TraceRecord> {
        let record = |name: &str| {
            let record = json!({"name": name, "base_id": base_id, "trace_id": format!("{base_id}-1"), "parent_id": base_id,
                "timestamp": "2026-11-20T22:52:01.123456", "info": {"host": "h"}, "project": "p", "service": "s"});
            TraceRecord::decode(record.to_string().as_bytes()).unwrap()
        };
        vec![record("wsgi-start"), record("wsgi-stop")]
    }

    #[test]
    fn what_traces_have_in_common_is_one_in_memory() {
        let (mut one, mut other) = (trace("a"), trace("b"));
        let before = (one.clone(), other.clone());
        let mut sharing = TextInterner::default();
        share_with(&mut one, &mut sharing);
        share_with(&mut other, &mut sharing);
        assert_eq!((&one, &other), (&before.0, &before.1));
        let ([start, stop], [there, _]) = (&one[..], &other[..]) else { panic!("two records each") };
        assert!(start.trace_id.is_same(&stop.trace_id) && start.base_id.is_same(&stop.parent_id));
        assert!(start.name.is_same(&there.name) && !start.name.is_same(&stop.name));
        assert!(start.info.is_same(&there.info));
        let same = |of: fn(&TraceRecord) -> Option<&Text>| of(start).unwrap().is_same(of(there).unwrap());
        assert!(same(|record| record.project.as_ref()) && same(|record| record.service.as_ref()));
    }
}
