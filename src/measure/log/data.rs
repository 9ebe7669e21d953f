//! Who got which row of a workload's data, as written in the header of the run log. Never the rows themselves: they may
//! hold passwords.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use config::data::{OnEnd, Order, Per};
use terms::allocation::Allocation;

const ORDERS: [(&str, Order); 3] =
    [("sequential", Order::Sequential), ("shuffled", Order::Shuffled), ("random", Order::Random)];
const PERS: [(&str, Per); 2] = [("iteration", Per::Iteration), ("user", Per::User)];
const ENDS: [(&str, OnEnd); 3] = [("repeat", OnEnd::Repeat), ("stop", OnEnd::Stop), ("error", OnEnd::Error)];

#[derive(Deserialize, Serialize)]
struct StoredData {
    name: String,
    rows: u64,
    order: String,
    per: String,
    on_end: String,
}

pub(super) fn serialize<S: Serializer>(data: &[Allocation], serializer: S) -> Result<S::Ok, S::Error> {
    let stored = data.iter().filter_map(|one| {
        Some(StoredData {
            name: one.name().to_string(),
            rows: one.rows(),
            order: word(&ORDERS, one.order())?,
            per: word(&PERS, one.per())?,
            on_end: word(&ENDS, one.on_end())?,
        })
    });
    serializer.collect_seq(stored)
}

/// Words of a later build are passed over, with the data that they stand at.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Allocation>, D::Error> {
    let stored = Vec::<StoredData>::deserialize(deserializer)?;
    let allocation = |one: StoredData| {
        let (order, per) = (value(&ORDERS, &one.order)?, value(&PERS, &one.per)?);
        Some(Allocation::new(&one.name, one.rows, order, per, value(&ENDS, &one.on_end)?))
    };
    Ok(stored.into_iter().filter_map(allocation).collect())
}

fn word<T: PartialEq>(words: &[(&str, T)], value: T) -> Option<String> {
    words.iter().find(|(_, other)| *other == value).map(|(word, _)| (*word).to_owned())
}

fn value<T: Copy>(words: &[(&str, T)], word: &str) -> Option<T> {
    words.iter().find(|(other, _)| *other == word).map(|(_, value)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::WorkloadHeader;
    use serde_json::json;

    #[test]
    fn what_is_written_is_read_and_unknown_words_are_passed_over() {
        let mut data = Vec::new();
        for (_, order) in ORDERS {
            for (_, per) in PERS {
                data.extend(ENDS.map(|(_, on_end)| Allocation::new("users", 20, order, per, on_end)));
            }
        }
        assert_eq!(data.len(), 18);
        let header = WorkloadHeader { data, ..WorkloadHeader::default() };
        let mut written = serde_json::to_value(&header).unwrap();
        assert_eq!(serde_json::from_value::<WorkloadHeader>(written.clone()).unwrap(), header);
        let first = json!({ "name": "users", "rows": 20, "order": "sequential", "per": "iteration", "on_end": "repeat" });
        assert_eq!(written["data"][0], first);
        for key in ["order", "per", "on_end"] {
            let mut later = written.clone();
            later["data"][0][key] = "of a later build".into();
            let read: WorkloadHeader = serde_json::from_value(later).unwrap();
            assert_eq!(read.data, header.data[1..], "{key}");
        }
        written.as_object_mut().unwrap().remove("data");
        assert!(serde_json::from_value::<WorkloadHeader>(written).unwrap().data.is_empty());
        let empty = serde_json::to_value(WorkloadHeader::default()).unwrap();
        assert!(empty.get("data").is_none(), "{empty}");
    }
}
