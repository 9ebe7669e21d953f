//! Which trace points a metric looks at: `"db SELECT" where service = "orders" and attr("db.system") = "postgresql"`.
//!
//! A selector is text in files and in the run log; reading it back gives the same selector. This module must not look
//! at traces: `results::selection` does.

use std::fmt;

use super::{Operator, quoted};

/// A selector may have at most this many conditions.
pub const CONDITIONS_MAX: usize = 16;

/// A selection of trace points: the points of a name that meet every condition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selector {
    /// A name, or a name and the beginning of a statement or path; all points if it is absent.
    pub name: Option<String>,
    /// The conditions, all of which must hold.
    pub conditions: Vec<PointCondition>,
}

/// A condition on one trace point.
#[derive(Clone, Debug, PartialEq)]
pub enum PointCondition {
    /// The point failed.
    Error,
    /// A text compares with a value. A point without the text never meets it.
    Text(PointField, TextTest, String),
    /// A number compares with a value. A point without the number never meets it.
    Number(PointField, NumberTest, f64),
}

/// What a condition looks at.
#[derive(Clone, Debug, PartialEq)]
pub enum PointField {
    /// The service that reported the point, with or without its project.
    Service,
    /// The point's name.
    Name,
    /// Its statement or path.
    Detail,
    /// The host that reported it.
    Host,
    /// How many services' points are around it, and itself: 1 for the outermost.
    Depth,
    /// An attribute of the point, or of the resource that reported it.
    Attribute(String),
}

/// How texts compare.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TextTest {
    /// `=`
    Is,
    /// `!=`
    IsNot,
    /// `~`: the text contains the value.
    Contains,
}

/// How numbers compare.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NumberTest {
    /// As in a threshold.
    Is(Operator),
    /// `!=`
    IsNot,
}

impl TextTest {
    /// Compares.
    #[must_use]
    pub fn holds(self, text: &str, value: &str) -> bool {
        match self {
            Self::Is => text == value,
            Self::IsNot => text != value,
            Self::Contains => text.contains(value),
        }
    }
}

impl NumberTest {
    /// Compares exactly.
    #[must_use]
    pub fn holds(self, number: f64, value: f64) -> bool {
        match self {
            Self::Is(operator) => operator.holds(number, value),
            Self::IsNot => !Operator::Equal.holds(number, value),
        }
    }
}

impl Selector {
    /// All points of a name.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self { name: Some(name.to_owned()), conditions: Vec::new() }
    }

    /// True if it selects every point.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.name.is_none() && self.conditions.is_empty()
    }
}

/// `"NAME" where CONDITIONS`; empty for all points.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.name {
            f.write_str(&quoted(name))?;
        }
        for (number, condition) in self.conditions.iter().enumerate() {
            let blank = if number == 0 && self.name.is_none() { "" } else { " " };
            let word = if number == 0 { "where" } else { "and" };
            write!(f, "{blank}{word} {condition}")?;
        }
        Ok(())
    }
}

impl fmt::Display for PointCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error => f.write_str("error"),
            Self::Text(field, test, value) => {
                let test = match test {
                    TextTest::Is => "=",
                    TextTest::IsNot => "!=",
                    TextTest::Contains => "~",
                };
                write!(f, "{field} {test} {}", quoted(value))
            }
            Self::Number(field, test, value) => {
                let test = match test {
                    NumberTest::Is(Operator::Equal) => "=",
                    NumberTest::Is(operator) => operator.text(),
                    NumberTest::IsNot => "!=",
                };
                write!(f, "{field} {test} {value}")
            }
        }
    }
}

impl fmt::Display for PointField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service => f.write_str("service"),
            Self::Name => f.write_str("name"),
            Self::Detail => f.write_str("detail"),
            Self::Host => f.write_str("host"),
            Self::Depth => f.write_str("depth"),
            Self::Attribute(key) => write!(f, "attr({})", quoted(key)),
        }
    }
}
