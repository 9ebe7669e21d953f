//! The resolved criteria of a workload: Rally's criteria and thresholds.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use super::tags::ActionNames;
use super::threshold::{self, MetricSubject, Threshold, usual_delay_ns};
use ::config::sla as config;
use base::clock::saturating_nanos;
use text::diagnostics::Fault;
use text::similar::did_you_mean;
use text::yaml::{YamlNode, YamlValue};
use text::yaml_place::{at, item, key_span};

/// The shortest window. A shorter one would contain too few samples to judge.
const WINDOW_MIN: Duration = Duration::from_millis(100);

/// The criteria of a workload. As in Rally, rates are in percent and durations in seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sla {
    /// The lowest allowed share of failed iterations, in percent.
    pub failure_rate_min: Option<f64>,
    /// The highest allowed share of failed iterations, in percent.
    pub failure_rate_max: Option<f64>,
    /// The longest that any iteration may take, in seconds.
    pub max_seconds_per_iteration: Option<f64>,
    /// The longest mean duration, in seconds.
    pub max_avg_duration: Option<f64>,
    /// The longest mean duration of actions, in seconds, by action name.
    pub max_avg_duration_per_atomic: BTreeMap<String, f64>,
    /// How many iterations may be much longer than the mean.
    pub outliers: Option<Outliers>,
    /// How much longer the longest iteration may be than the shortest, in percent.
    pub max_degradation: Option<f64>,
    /// Conditions on what was measured.
    pub thresholds: Vec<Threshold>,
}

/// Iterations that take several standard deviations longer than the mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outliers {
    /// The largest allowed number of outliers.
    pub max: u32,
    /// With fewer iterations, the verdict is INVALID.
    pub min_iterations: u32,
    /// How many standard deviations above the mean an outlier is.
    pub sigmas: f64,
}

impl Sla {
    /// True if there are no criteria.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// True if a criterion needs fetched traces.
    #[must_use]
    pub fn needs_traces(&self) -> bool {
        self.thresholds.iter().any(|threshold| threshold.condition.metric.needs_traces())
    }

    /// The criteria without those for actions and tags that are not among the names.
    #[must_use]
    pub fn of_names(&self, names: &ActionNames) -> Self {
        let mut sla = self.clone();
        sla.thresholds.retain(|threshold| {
            let metric = &threshold.condition.metric;
            let is_measured =
                metric.measure().is_none_or(|name| names.measures.iter().any(|known| known == name));
            is_measured && metric.subject().is_none_or(|subject| !names.members(subject).is_empty())
        });
        sla.max_avg_duration_per_atomic.retain(|action, _| names.actions.contains(action));
        sla
    }

    /// Resolves the criteria of a scenario; there are none without an `sla`. `node` is the place of the `sla`.
    /// `names` are the names that it may use, or `None` if they are unknown.
    ///
    /// # Errors
    /// Criteria that cannot be met or read, or that name something unknown.
    pub fn resolve(
        config: Option<&config::Sla>,
        node: &YamlNode,
        names: Option<&ActionNames>,
    ) -> Result<Self, Vec<Fault>> {
        let Some(config) = config else { return Ok(Self::default()) };
        let mut faults = Vec::new();
        let rate = config.failure_rate;
        let (min, max) = (rate.and_then(|rate| rate.min), rate.and_then(|rate| rate.max));
        if let (Some(min), Some(max)) = (min, max)
            && min > max
        {
            let message =
                format!("failure_rate requires at least {min} % and at most {max} %, which is impossible");
            let fault = Fault::error(at(node, &["failure_rate"]).span.clone(), message);
            faults.push(fault.help("make `min` the smaller one, or remove it"));
        }
        let per_atomic = config.max_avg_duration_per_atomic.iter().flatten();
        for (action, _) in per_atomic.clone() {
            let span = key_span(at(node, &["max_avg_duration_per_atomic"]), action);
            faults.extend(unknown(&MetricSubject::Action(action.clone()), names, span));
        }
        let thresholds =
            resolve_thresholds(config.thresholds.as_deref().unwrap_or_default(), node, names, &mut faults);
        if !faults.is_empty() {
            return Err(faults);
        }
        Ok(Self {
            failure_rate_min: min,
            failure_rate_max: max,
            max_seconds_per_iteration: config.max_seconds_per_iteration,
            max_avg_duration: config.max_avg_duration,
            max_avg_duration_per_atomic: per_atomic.map(|(name, limit)| (name.clone(), limit.0)).collect(),
            outliers: config.outliers.map(|outliers| Outliers {
                max: outliers.max.unwrap_or(0),
                min_iterations: outliers.min_iterations.unwrap_or(3),
                sigmas: outliers.sigmas.unwrap_or(3.0),
            }),
            max_degradation: config.performance_degradation.map(|allowed| allowed.max_degradation),
            thresholds,
        })
    }
}

fn resolve_thresholds(
    written: &[config::Threshold],
    node: &YamlNode,
    names: Option<&ActionNames>,
    faults: &mut Vec<Fault>,
) -> Vec<Threshold> {
    let list = at(node, &["thresholds"]);
    let mut thresholds = Vec::with_capacity(written.len());
    let mut places = Vec::with_capacity(written.len());
    for (index, config::Threshold { written, .. }) in written.iter().enumerate() {
        let place = item(list, index);
        let text = at(place, &["threshold"]);
        faults.extend(faults_of_options(written, place));
        match threshold::parse(&written.threshold) {
            Ok(condition) => {
                let subject = condition.metric.subject();
                let unknown = subject.and_then(|subject| unknown(subject, names, text.span.clone()));
                let known = unknown.is_none().then_some(names).flatten();
                faults.extend(unknown);
                faults.extend(
                    known.and_then(|names| without_stream(&condition.metric, names, text.span.clone())),
                );
                faults
                    .extend(names.and_then(|names| unmeasured(&condition.metric, names, text.span.clone())));
                places.push(text.span.clone());
                thresholds.push(resolved(condition, written));
            }
            Err(mistake) => {
                let fault = Fault::error(within(text, &written.threshold, &mistake.at), mistake.message);
                faults.push(fault.help(mistake.help));
            }
        }
    }
    let conditions: Vec<_> = thresholds.iter().map(|threshold| &threshold.condition).collect();
    for (asks, forbids) in threshold::contradictions(&conditions) {
        let (asked, forbidden) = (conditions[asks], conditions[forbids]);
        let message = format!("`{asked}` contradicts `{forbidden}`: no run can meet both");
        faults.push(Fault::error(places[asks].clone(), message).help("change or remove one of them"));
    }
    thresholds
}

fn resolved(condition: threshold::MetricCondition, written: &config::ThresholdMap) -> Threshold {
    let aborts = written.abort_on_fail == Some(true);
    let delay_ns = written.delay.map_or_else(usual_delay_ns, |delay| saturating_nanos(delay.0));
    Threshold {
        condition,
        window_ns: written.window.map(|window| saturating_nanos(window.0)),
        min_samples: written.min_samples,
        abort_after_ns: aborts.then_some(delay_ns),
        warn: written.severity == Some(config::SeverityText::Warn),
    }
}

/// Faults of options that contradict each other or have no effect.
fn faults_of_options(written: &config::ThresholdMap, place: &YamlNode) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut fault = |key: &str, message: &str, help: &str| {
        faults.push(Fault::error(key_span(place, key), message).help(help));
    };
    if written.delay.is_some() && written.abort_on_fail != Some(true) {
        fault("delay", "`delay` without `abort_on_fail: true`", "add abort_on_fail: true, or remove delay");
    }
    if written.severity == Some(config::SeverityText::Warn) && written.abort_on_fail == Some(true) {
        fault(
            "abort_on_fail",
            "`abort_on_fail` for a threshold that only warns",
            "remove severity: warn, or abort_on_fail",
        );
    }
    if written.window.is_some_and(|window| window.0 < WINDOW_MIN) {
        fault("window", "the window is shorter than 100 ms", "write a longer one, such as 30s");
    }
    let Ok(condition) = threshold::parse(&written.threshold) else { return faults };
    let after = condition.metric.is_known_late();
    if after && written.abort_on_fail == Some(true) {
        let message = format!("{} is known only after the load", condition.metric);
        fault("abort_on_fail", &message, "remove abort_on_fail");
    }
    if after && written.window.is_some() {
        let message = format!("{} is judged only over the whole run", condition.metric);
        fault("window", &message, "remove window");
    }
    faults
}

fn unknown(subject: &MetricSubject, names: Option<&ActionNames>, span: Range<usize>) -> Option<Fault> {
    let names = names?;
    if !names.members(subject).is_empty() {
        return None;
    }
    let (message, known) = match subject {
        MetricSubject::Action(name) => (format!("no action is named `{name}`"), names.actions.clone()),
        MetricSubject::Tag(tag) => {
            (format!("no action has the tag `{tag}`"), names.all_tags().into_iter().collect())
        }
    };
    let fault = Fault::error(span, message);
    Some(fault.help(match did_you_mean(subject.name(), known.iter().map(String::as_str)) {
        Some(known) => format!("did you mean `{known}`?"),
        None if known.is_empty() => "give actions `tags`, such as `tags: {team: identity}`".to_owned(),
        None => format!("the workload's {}s are: {}", subject.word(), known.join(", ")),
    }))
}

/// A time of streams where there are none.
fn without_stream(metric: &threshold::Metric, names: &ActionNames, span: Range<usize>) -> Option<Fault> {
    if !metric.is_of_streams() || !names.streaming_members(metric.subject()).is_empty() {
        return None;
    }
    let fault = Fault::error(span, format!("no action that `{metric}` is about is answered by a stream"));
    Some(fault.help("name an action with `stream: events`, `lines` or `chunks`, or with a `receive` that has `count` or `for`"))
}

/// A number that no action takes.
fn unmeasured(metric: &threshold::Metric, names: &ActionNames, span: Range<usize>) -> Option<Fault> {
    let name = metric.measure().filter(|name| !names.measures.iter().any(|known| known == name))?;
    let fault = Fault::error(span, format!("no action measures `{name}`"));
    Some(fault.help(match did_you_mean(name, names.measures.iter().map(String::as_str)) {
        Some(known) => format!("did you mean `{known}`?"),
        None if names.measures.is_empty() => {
            format!("take it from an answer: `measure: {{{name}: {{json: $.{name}}}}}` in an action")
        }
        None => format!("the workload measures: {}", names.measures.join(", ")),
    }))
}

/// The place of a part of a text in its file, or of the whole text if quoting changes its length.
fn within(node: &YamlNode, text: &str, part: &Range<usize>) -> Range<usize> {
    let YamlValue::Text { quoted, .. } = &node.kind else { return node.span.clone() };
    let before = usize::from(*quoted);
    if node.span.len() != text.len() + 2 * before {
        return node.span.clone();
    }
    let start = node.span.start + before;
    start + part.start..(start + part.end).max(start + part.start)
}
