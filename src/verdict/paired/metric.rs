//! The metrics that pairs are judged by, as written on the command line.

use std::fmt;
use std::str::FromStr;

use terms::threshold::RequestPhase;

/// A percentile of iterations or of one action, or of a phase of requests: `p95`, `p99(action "log in")`,
/// `p95(wait action "log in")`.
#[derive(Clone, Debug, PartialEq)]
pub struct PercentileMetric {
    /// Such as 95.
    pub percentile: f64,
    /// The action; absent for iterations, or for the requests of all actions.
    pub action: Option<String>,
    /// The phase of requests; absent for whole iterations or requests.
    pub phase: Option<RequestPhase>,
}

impl FromStr for PercentileMetric {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{text}` is not a percentile: write p95, p(99.9) p95(action \"NAME\") or p95(wait)");
        let rest = text.trim().strip_prefix('p').ok_or_else(wrong)?;
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (mut number, mut rest) = rest.split_at(digits);
        if number.is_empty() {
            (number, rest) =
                rest.strip_prefix('(').and_then(|rest| rest.split_once(')')).ok_or_else(wrong)?;
        }
        let percentile: f64 = number.trim().parse().map_err(|_| wrong())?;
        if !(percentile > 0.0 && percentile < 100.0) {
            return Err(format!("`{text}`: a percentile must be between 0 and 100; write p95"));
        }
        if rest.trim().is_empty() {
            return Ok(Self { percentile, action: None, phase: None });
        }
        let inner =
            rest.trim().strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).ok_or_else(wrong)?;
        let (first, rest) = inner.trim().split_once(char::is_whitespace).unwrap_or((inner.trim(), ""));
        let phase = RequestPhase::named(first);
        let inner = if phase.is_some() { rest } else { inner };
        if phase.is_some() && inner.trim().is_empty() {
            return Ok(Self { percentile, action: None, phase });
        }
        let name = inner.trim().strip_prefix("action").ok_or_else(wrong)?.trim();
        let name =
            name.strip_prefix(['"', '\'']).and_then(|name| name.strip_suffix(['"', '\''])).unwrap_or(name);
        if name.is_empty() {
            return Err(wrong());
        }
        Ok(Self { percentile, action: Some(name.to_owned()), phase })
    }
}

impl fmt::Display for PercentileMetric {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "p{}", self.percentile)?;
        match (self.phase.map(RequestPhase::word), &self.action) {
            (Some(phase), Some(action)) => write!(formatter, "({phase} action \"{action}\")"),
            (Some(phase), None) => write!(formatter, "({phase})"),
            (None, Some(action)) => write!(formatter, "(action \"{action}\")"),
            (None, None) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_read_and_written() {
        for (text, shown) in [
            ("p95", "p95"),
            ("p(99.9)", "p99.9"),
            (" p50 ", "p50"),
            ("p95(action \"log in\")", "p95(action \"log in\")"),
            ("p(95)(action 'log in')", "p95(action \"log in\")"),
            ("p99.5(action list)", "p99.5(action \"list\")"),
            ("p95(wait)", "p95(wait)"),
            ("p(95)( connect  action 'log in' )", "p95(connect action \"log in\")"),
        ] {
            assert_eq!(text.parse::<PercentileMetric>().unwrap().to_string(), shown, "{text}");
        }
        for text in [
            "",
            "95",
            "p",
            "p0",
            "p100",
            "p-1",
            "pNaN",
            "p95(",
            "p95()",
            "p95(action)",
            "p95(lag)",
            "p95(wait connect)",
            "p95 x",
            "p1.2.3",
            "p(",
        ] {
            assert!(text.parse::<PercentileMetric>().is_err(), "{text}");
        }
    }
}
