//! Outcomes as people see them: the only place with their words, tones and symbols.

use results::model::{Criterion, Outcome, Severity};

/// A word with a tone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Badge {
    /// Such as `PASS`.
    pub word: &'static str,
    /// How it is coloured.
    pub tone: Tone,
    /// True where a reader must not overlook it.
    pub strong: bool,
    /// The symbol before it in a Markdown table; empty if it has none.
    pub symbol: &'static str,
}

/// The meaning of a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Good,
    /// The run fails because of it.
    Bad,
    /// Uncertain, or not judged.
    Doubt,
    /// Neutral.
    Plain,
}

impl Badge {
    /// The verdict of a run or of a comparison.
    #[must_use]
    pub fn verdict(outcome: Outcome) -> Self {
        let (tone, symbol) = match outcome {
            Outcome::Pass => (Tone::Good, "✅"),
            Outcome::Fail => (Tone::Bad, "❌"),
            Outcome::Inconclusive => (Tone::Doubt, "❔"),
            Outcome::Invalid => (Tone::Doubt, "🚫"),
            Outcome::None => (Tone::Plain, ""),
        };
        Self { word: outcome.word(), tone, strong: outcome != Outcome::None, symbol }
    }

    /// One criterion: what only warns never looks like what the run fails by.
    #[must_use]
    pub fn criterion(criterion: &Criterion) -> Self {
        Self::judged(criterion.outcome, criterion.severity)
    }

    /// The outcome of a criterion of this severity.
    #[must_use]
    pub fn judged(outcome: Outcome, severity: Severity) -> Self {
        let warning = |word| Self { word, tone: Tone::Doubt, strong: false, symbol: "⚠️" };
        match (outcome, severity) {
            (Outcome::Pass, _) => Self { word: "pass", strong: false, ..Self::verdict(Outcome::Pass) },
            (Outcome::Fail, Severity::Warn) => warning("warning"),
            (Outcome::Inconclusive, Severity::Warn) => warning("warning: inconclusive"),
            (Outcome::Invalid | Outcome::None, Severity::Warn) => warning("warning: invalid"),
            (Outcome::None, Severity::Fail) => Self::verdict(Outcome::Invalid),
            (outcome, Severity::Fail) => Self::verdict(outcome),
        }
    }

    /// The verdict of a run that was cut short: the part that ran passed.
    #[must_use]
    pub fn so_far() -> Self {
        Self { word: "PASS so far", ..Self::verdict(Outcome::Pass) }
    }

    /// A run without criteria that is also INVALID.
    #[must_use]
    pub fn invalid_without_gate() -> Self {
        Self { word: "INVALID (no gate)", ..Self::verdict(Outcome::Invalid) }
    }
}

impl Tone {
    /// Its CSS class on a page.
    #[must_use]
    pub fn class(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Bad => "bad",
            Self::Doubt => "doubt",
            Self::Plain => "plain",
        }
    }

    /// The colour of a terminal, as SGR parameters; none leaves the terminal's own.
    #[must_use]
    pub fn sgr(self) -> Option<&'static str> {
        match self {
            Self::Good => Some("32;1"),
            Self::Bad => Some("31;1"),
            Self::Doubt => Some("33;1"),
            Self::Plain => None,
        }
    }

    /// The colour, as shields.io names it.
    #[must_use]
    pub fn shield(self) -> &'static str {
        match self {
            Self::Good => "brightgreen",
            Self::Bad => "red",
            Self::Doubt => "orange",
            Self::Plain => "lightgrey",
        }
    }
}
