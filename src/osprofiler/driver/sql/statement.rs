//! A statement and what comes back, for every database alike: texts in and texts out.

/// A value that goes into a statement.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Text(Option<String>),
    Int(i64),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(Some(text.to_owned()))
    }
}

/// A statement, made of this program's own words and placeholders only.
pub(super) struct Statement {
    pub(super) text: String,
    pub(super) values: Vec<Value>,
    /// Worth keeping prepared.
    pub(super) repeated: bool,
}

/// A row, as texts. A value that is not text, or is NULL, is `None`.
pub(super) type Cells = Vec<Option<String>>;
