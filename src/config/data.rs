//! Rows of data for iterations, as written: `data: { users: users.csv }`.

use crate::notation::{schema, written_as_its_value};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use text::digits;

/// Rows for iterations: a file, or a map with options.
#[derive(Clone, Debug)]
pub enum Data {
    /// The file, with every option at its default.
    File(String),
    /// A file or a list of rows, with options.
    Map(Box<DataMap>),
}

/// Rows for iterations, with options. Either `file` or `rows` is required.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DataMap {
    /// A file of CSV, JSON or JSON Lines, relative to this file.
    #[schemars(length(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The rows themselves, instead of a file: maps or single values.
    #[schemars(length(min = 1), extend("writeOnly" = true))]
    #[serde(default, deserialize_with = "digits::list", skip_serializing_if = "Option::is_none")]
    pub rows: Option<Vec<Value>>,
    /// The format of the file: `csv`, `json` or `jsonl` (default: by the file's extension).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<Format>,
    /// The character between the columns of CSV (default: a tab for `.tsv`; what a first line `sep=;` says; `,`; in a
    /// header without a comma, the most frequent of `;`, tab and `|`).
    #[schemars(length(min = 1, max = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delimiter: Option<String>,
    /// `sequential` (the default): iteration after iteration takes the next row. `shuffled`: every row once, in random
    /// order, then again in another order. `random`: any row at any time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
    /// `iteration` (the default): each iteration takes a row. `user`: each virtual user keeps one row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per: Option<Per>,
    /// When every row was taken: `repeat` (the default) starts again, `stop` ends the workload, `error` fails the
    /// iterations that get no row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_end: Option<OnEnd>,
}

impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        match digits::value(deserializer)? {
            Value::String(file) => Ok(Self::File(file)),
            map @ Value::Object(_) => {
                DataMap::deserialize(map).map(|map| Self::Map(Box::new(map))).map_err(D::Error::custom)
            }
            _ => Err(D::Error::custom("expected a file or a map")),
        }
    }
}

written_as_its_value!(Data: File, Map);

schema!(Data, "Data", |generator| {
    let map = generator.subschema_for::<DataMap>();
    json_schema!({
        "description": "A file of CSV, JSON or JSON Lines, or a map with options.",
        "anyOf": [{ "type": "string", "minLength": 1 }, map]
    })
});

/// Defines an enum of words, with its schema.
macro_rules! words {
    ($(#[doc = $doc:literal])+ $name:ident { $($(#[doc = $about:literal])+ $variant:ident = $word:literal,)+ }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
        pub enum $name {
            $($(#[doc = $about])+ #[serde(rename = $word)] $variant,)+
        }

        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                concat!("Data", stringify!($name)).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "enum": [$($word),+] })
            }
        }
    };
}

words! {
    /// How a file holds rows.
    Format {
        /// Comma-separated values (RFC 4180) with a header line.
        Csv = "csv",
        /// A JSON list.
        Json = "json",
        /// JSON Lines: a value on each line.
        Jsonl = "jsonl",
    }
}

words! {
    /// In which order rows are taken.
    Order {
        /// One after another.
        Sequential = "sequential",
        /// Every row once in random order, then again in another.
        Shuffled = "shuffled",
        /// Any row at any time.
        Random = "random",
    }
}

words! {
    /// Who takes a row.
    Per {
        /// Each iteration.
        Iteration = "iteration",
        /// Each virtual user, for all its iterations.
        User = "user",
    }
}

words! {
    /// What happens when every row was taken.
    OnEnd {
        /// The workload ends.
        Stop = "stop",
        /// The rows are taken again.
        Repeat = "repeat",
        /// The iterations without a row fail.
        Error = "error",
    }
}
