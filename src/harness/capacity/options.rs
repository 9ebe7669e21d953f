//! What a search is asked for, and the verdict on what it found.

use std::path::PathBuf;
use std::time::Duration;

use ::capacity::search::CapacityBounds;
use config::capacity::{Capacity, SearchTime};
use config::runner::RateText;
use results::model::Outcome;

use crate::options::{LoadOptions, YamlFile};

/// How far to search.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SearchSettings {
    /// The rate that the service must bear, in iterations per second: that is the verdict.
    pub at_least_per_s: Option<f64>,
    /// No higher rate is tried (default 1000).
    pub highest_per_s: Option<f64>,
    /// The rate to begin with (default: half of what one user gets).
    pub first_per_s: Option<f64>,
    /// How long the search may take (default 5 minutes).
    pub budget: Option<Duration>,
    /// How long a level lasts at least (default 10 s); one at a low rate lasts longer, for enough iterations.
    pub level: Option<Duration>,
}

impl SearchSettings {
    /// These, and where one is not set, what the scenario says.
    #[must_use]
    pub fn or(self, scenario: Capacity) -> Self {
        let rate = |rate: RateText| rate.0;
        let time = |time: SearchTime| time.0;
        Self {
            at_least_per_s: self.at_least_per_s.or(scenario.at_least.map(rate)),
            highest_per_s: self.highest_per_s.or(scenario.max_rate.map(rate)),
            first_per_s: self.first_per_s.or(scenario.start.map(rate)),
            budget: self.budget.or(scenario.budget.map(time)),
            level: self.level.or(scenario.level.map(time)),
        }
    }
}

/// What to search, and how far.
#[derive(Clone, Debug)]
pub struct CapacityOptions {
    /// The scenario.
    pub scenario: YamlFile,
    /// Its deployment, instead of the one that it names.
    pub deployment: Option<YamlFile>,
    /// The target of the deployment to use instead of `default`.
    pub target: Option<String>,
    /// Conditions that each level must meet besides the scenario's, such as `p99 < 500ms`.
    pub thresholds: Vec<String>,
    /// How far to search; the scenario says what is not set here.
    pub settings: SearchSettings,
    /// Changes to the load.
    pub load: LoadOptions,
    /// The directory in which the directory of the search is made.
    pub out: PathBuf,
    /// Write the verdict as JUnit XML to this file.
    pub junit: Option<PathBuf>,
    /// Add the report in Markdown to this file: GitHub Actions' summary of a step.
    pub step_summary: Option<PathBuf>,
}

impl CapacityOptions {
    /// Searches with the defaults of `bench capacity`.
    pub fn new(scenario: impl Into<YamlFile>) -> Self {
        Self {
            scenario: scenario.into(),
            deployment: None,
            target: None,
            thresholds: Vec::new(),
            settings: SearchSettings::default(),
            load: LoadOptions::default(),
            out: "runs".into(),
            junit: None,
            step_summary: None,
        }
    }
}

impl CapacityOptions {
    pub(super) fn budget(&self) -> Duration {
        self.settings.budget.unwrap_or(Duration::from_secs(300))
    }

    pub(super) fn level(&self) -> Duration {
        self.settings.level.unwrap_or(Duration::from_secs(10))
    }

    pub(super) fn highest_per_s(&self) -> f64 {
        self.settings.highest_per_s.unwrap_or(1_000.0)
    }
}

/// The verdict, and why. `is_invalid`: the load generator was the limit; `cut_short`: why the search ended before the answer.
pub(super) fn verdict(
    at_least_per_s: Option<f64>,
    bounds: &CapacityBounds,
    is_invalid: bool,
    cut_short: Option<String>,
) -> (Outcome, Vec<String>) {
    let mut reasons: Vec<String> = cut_short.into_iter().collect();
    let holds = |least: f64| bounds.holds_per_s.is_some_and(|holds| holds >= least);
    let breaks = |least: f64| bounds.breaks_per_s.is_some_and(|breaks| breaks <= least);
    let outcome = match at_least_per_s {
        Some(least) if holds(least) => Outcome::Pass,
        Some(least) if breaks(least) => {
            reasons.insert(0, format!("It must bear {least}/s."));
            Outcome::Fail
        }
        _ if is_invalid => Outcome::Invalid,
        Some(least) => {
            reasons.insert(0, format!("It must bear {least}/s, which is between the two."));
            Outcome::Inconclusive
        }
        None => Outcome::None,
    };
    (outcome, reasons)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_come_before_the_scenario() {
        let scenario = Capacity {
            at_least: Some(RateText(400.0)),
            max_rate: Some(RateText(900.0)),
            start: Some(RateText(50.0)),
            budget: Some(SearchTime(Duration::from_secs(60))),
            level: Some(SearchTime(Duration::from_secs(5))),
        };
        let given = SearchSettings { highest_per_s: Some(2_000.0), ..SearchSettings::default() };
        let expected = SearchSettings {
            at_least_per_s: Some(400.0),
            highest_per_s: Some(2_000.0),
            first_per_s: Some(50.0),
            budget: Some(Duration::from_secs(60)),
            level: Some(Duration::from_secs(5)),
        };
        assert_eq!(given.or(scenario), expected);
    }

    #[test]
    fn the_rate_that_must_hold_decides() {
        let bounds =
            |holds, breaks| CapacityBounds { holds_per_s: holds, breaks_per_s: breaks, settled: true };
        for (least, bounds, generator, expected) in [
            (None, bounds(Some(400.0), Some(420.0)), None, Outcome::None),
            (Some(400.0), bounds(Some(400.0), Some(420.0)), None, Outcome::Pass),
            (Some(410.0), bounds(Some(400.0), Some(420.0)), None, Outcome::Inconclusive),
            (Some(420.0), bounds(Some(400.0), Some(420.0)), None, Outcome::Fail),
            (Some(1.0), bounds(None, Some(1.0)), None, Outcome::Fail),
            (Some(500.0), bounds(Some(400.0), None), Some("ports"), Outcome::Invalid),
            (Some(300.0), bounds(Some(400.0), None), Some("ports"), Outcome::Pass),
            (None, bounds(Some(400.0), None), Some("ports"), Outcome::Invalid),
        ] {
            let cut_short = generator.map(str::to_owned);
            let (outcome, reasons) = verdict(least, &bounds, generator.is_some(), cut_short);
            assert_eq!(outcome, expected, "{least:?} {bounds:?}");
            assert_eq!(reasons.iter().any(|reason| reason.contains("ports")), generator.is_some());
        }
    }
}
