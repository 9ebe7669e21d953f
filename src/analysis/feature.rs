//! A value that a trace has: an attribute with its value, and the point or action where it matters.

use std::cmp::Reverse;

use results::model::AttributeValue;

/// The attribute of a point's name and kind of call.
pub(super) const POINT: &str = "point";
/// What the attributes of the client begin with.
pub const CLIENT: &str = "client.";
/// What a bound of a number begins with.
pub const AT_LEAST: &str = "at least ";
/// The same of what is smaller than a bound.
pub const BELOW: &str = "below ";
/// Statements and paths are cut to this many characters.
pub(super) const POINT_CHARS_MAX: usize = 160;

/// A value of an attribute.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) struct Feature {
    pub(super) attribute: String,
    pub(super) value: String,
    /// The kind of point that has it, where that matters; for the client's values, the action, and for a row, its data.
    pub(super) point: Option<String>,
    /// Of several bounds that a number reaches, the highest says most.
    pub(super) level: u32,
}

/// Whether a value is a bound of a number.
pub fn is_bound(value: &str) -> bool {
    [AT_LEAST, BELOW].iter().any(|word| value.starts_with(word))
}

impl Feature {
    pub(super) fn new(attribute: &str, value: String) -> Self {
        Self { attribute: attribute.to_owned(), value, point: None, level: 0 }
    }

    /// What names the value best comes first: attributes before points, short ones before long ones.
    pub(super) fn rank(&self) -> (bool, bool, Reverse<u32>, usize, Self) {
        let is_own = matches!(self.attribute.as_str(), POINT | "service");
        let length = self.attribute.len() + self.value.len();
        (self.point.is_some(), is_own, Reverse(self.level), length, self.clone())
    }

    /// Whether this is another bound of the same number.
    pub(super) fn is_bound_of_same(&self, other: &AttributeValue) -> bool {
        is_bound(&self.value)
            && is_bound(&other.value)
            && self.attribute == other.attribute
            && self.point == other.point
    }

    /// Whether the same value can mean different things at different points.
    pub(super) fn can_be_at_points(&self) -> bool {
        self.point.is_none()
            && !self.attribute.starts_with(CLIENT)
            && !is_bound(&self.value)
            && !matches!(self.attribute.as_str(), POINT | "service" | "host" | "error")
    }
}
