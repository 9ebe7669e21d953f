//! What a change would have brought to a stored run.

use std::path::PathBuf;
use std::time::Duration;

use ::capacity::what_if::{LoadChange, NoPrediction};
use judging::what_if::{LoadSources, ReplayableLoad, RowTrace, trees, with_trees};
use measure::sample::IterationSample;
use osprofiler::record::TraceRecord;
use results::aggregate::Aggregate;
use results::choice;
use results::model::{CallPool, Fix, Results, WhatIf};
use text::similar::did_you_mean;

use crate::error::{HarnessError, HarnessErrorKind};
use crate::kept::RunSpools;
use crate::read_again;

/// Of the iterations in a row, this share must have spans.
const TRACED_MIN: f64 = 0.98;

/// What is different.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WantedChange {
    /// The work takes so many times as long.
    Times(f64),
    /// It takes at most so long in an iteration.
    AtMost(Duration),
    /// At most so many calls are made in an iteration.
    Calls(u32),
    /// So many run at a time.
    Servers(u32),
    /// So many times as many run at a time.
    MoreServers(f64),
}

/// What to predict of which run.
#[derive(Clone, Debug)]
pub struct WhatIfOptions {
    /// The run's directory.
    pub run_dir: PathBuf,
    /// The workload, if there are several.
    pub workload: Option<String>,
    /// The kind of point that is changed.
    pub kind: Option<String>,
    /// What is different; without it, only what may be changed is said.
    pub change: Option<WantedChange>,
}

/// Predicts the response times of a run after a change. Nothing in its directory is changed.
///
/// # Errors
/// When something cannot be read, is not there, or cannot be predicted.
pub fn what_if(options: &WhatIfOptions) -> Result<WhatIf, HarnessError> {
    let (_, aggregate, results, traces) = read_again::read_again(&options.run_dir, |_| Ok(()))?;
    let number = workload(options, &results)?;
    let row = if number == 0 { in_a_row(options, &aggregate)? } else { Vec::new() };
    let chosen = choice::choose(&aggregate);
    let seen = &results.workloads[number];
    let load = ReplayableLoad::of(&LoadSources {
        aggregate: &aggregate,
        number,
        row: &row,
        chosen: &with_trees(&aggregate, &chosen, &traces),
        is_open: seen.offered.as_ref().is_some_and(|offered| offered.asked_per_s.is_some()),
        users_max: u32::MAX,
    })
    .map_err(HarnessError::of_log)?;
    let mut answer = WhatIf {
        run: results.run.id.to_string(),
        workload: seen.name.clone(),
        prediction: None,
        none_because: None,
        kinds: load.kinds(),
        pools: load.pools(),
    };
    if answer.kinds.is_empty() {
        let remedy =
            "predictions need traces: run with a key and a collector, or receive the spans of OpenTelemetry";
        return Err(HarnessError::input("the run has no whole traces of services").remedy(remedy));
    }
    let Some(change) = options.change else {
        answer.prediction = load.without_cause(seen);
        return Ok(answer);
    };
    let (change, fix) = resolved(options, change, &load, &answer)?;
    match load.predict(&change, fix) {
        Ok(prediction) => answer.prediction = Some(prediction),
        Err(why) => answer.none_because = Some(sentence(why)),
    }
    Ok(answer)
}

fn workload(options: &WhatIfOptions, results: &Results) -> Result<usize, HarnessError> {
    let names = || results.workloads.iter().map(|workload| workload.name.as_str());
    let Some(wanted) = &options.workload else {
        return match results.workloads.len() {
            0 => Err(HarnessError::input("the run has no iterations")),
            1 => Ok(0),
            _ => Err(HarnessError::usage("the run has several workloads")
                .remedy(format!("choose one with --workload: {}", names().collect::<Vec<_>>().join(", ")))),
        };
    };
    names().position(|name| name == wanted).ok_or_else(|| {
        let remedy = match did_you_mean(wanted, names()) {
            Some(known) => format!("did you mean `{known}`?"),
            None => format!("it has: {}", names().collect::<Vec<_>>().join(", ")),
        };
        HarnessError::usage(format!("the run has no workload named `{wanted}`")).remedy(remedy)
    })
}

/// The iterations in a row whose spans the run's receiver kept; none if some are missing.
fn in_a_row(options: &WhatIfOptions, aggregate: &Aggregate) -> Result<Vec<RowTrace>, HarnessError> {
    let row = aggregate.in_a_row();
    if row.is_empty() {
        return Ok(Vec::new());
    }
    let cannot = |error: &dyn std::fmt::Display| {
        let what = format!("cannot read the kept spans in {}: {error}", options.run_dir.display());
        HarnessError::new(HarnessErrorKind::Input, std::io::Error::other(what))
    };
    let spools = RunSpools::of(&options.run_dir).map_err(|error| cannot(&error))?;
    let mut traced: Vec<(IterationSample, Vec<TraceRecord>)> = Vec::with_capacity(row.len());
    for sample in row {
        let records = spools.records(aggregate.trace_id(sample)).map_err(|error| cannot(&error))?;
        if !records.is_empty() {
            traced.push((sample.clone(), records));
        }
    }
    let is_whole = traced.len() as f64 >= TRACED_MIN * row.len() as f64;
    Ok(if is_whole { trees(traced, aggregate) } else { Vec::new() })
}

/// The change in numbers, and in words.
fn resolved(
    options: &WhatIfOptions,
    change: WantedChange,
    load: &ReplayableLoad,
    answer: &WhatIf,
) -> Result<(LoadChange, Fix), HarnessError> {
    let servers = match change {
        WantedChange::Servers(count) => Some(Ok(count)),
        WantedChange::MoreServers(times) => Some(Err(times)),
        _ => None,
    };
    if let Some(wanted) = servers {
        let pool = pool(options.kind.as_deref(), &answer.pools)?;
        let CallPool { name, servers: today } = answer.pools[pool].clone();
        let then = wanted.unwrap_or_else(|times| (f64::from(today) * times).round().max(1.0) as u32);
        return Ok((LoadChange::Servers { pool, count: then }, Fix::Servers { name, today, then }));
    }
    let Some(wanted) = &options.kind else {
        return Err(HarnessError::usage("which points should be different?")
            .remedy(format!("name them with --kind, such as --kind '{}'", answer.kinds[0].name)));
    };
    let kinds = load.named(wanted);
    if kinds.is_empty() {
        let names = || answer.kinds.iter().map(|kind| kind.name.as_str());
        let remedy = match did_you_mean(wanted, names()) {
            Some(known) => format!("did you mean `{known}`?"),
            None => "`bench what-if RUN` lists them".to_owned(),
        };
        return Err(HarnessError::usage(format!("no point of a service is named `{wanted}`")).remedy(remedy));
    }
    let kind = load.names(&kinds).join(", ");
    Ok(match change {
        WantedChange::Times(times) => (LoadChange::Work { kinds, times }, Fix::Work { kind, times }),
        WantedChange::AtMost(length) => {
            let us = i64::try_from(length.as_micros()).unwrap_or(i64::MAX);
            (LoadChange::WorkAtMost { kinds, us }, Fix::WorkAtMost { kind, at_most_ms: us as f64 / 1e3 })
        }
        WantedChange::Calls(at_most) => {
            let most = usize::try_from(at_most).unwrap_or(usize::MAX);
            (LoadChange::Calls { kinds, most }, Fix::Calls { kind, at_most })
        }
        WantedChange::Servers(_) | WantedChange::MoreServers(_) => unreachable!("answered above"),
    })
}

fn pool(kind: Option<&str>, pools: &[CallPool]) -> Result<usize, HarnessError> {
    let listed =
        || pools.iter().map(|one| format!("`{}` ({})", one.name, one.servers)).collect::<Vec<_>>().join(", ");
    match (kind, pools) {
        (_, []) => Err(HarnessError::usage("no calls were seen to wait for a number of servers")
            .remedy("that needs received spans and an open load (`rps`, `--rate`) at which calls do wait")),
        (None, [_]) => Ok(0),
        (None, _) => Err(HarnessError::usage("several calls wait for servers")
            .remedy(format!("choose one with --kind: {}", listed()))),
        (Some(kind), pools) => pools.iter().position(|one| one.name == kind).ok_or_else(|| {
            HarnessError::usage(format!("`{kind}` was not seen to wait for servers"))
                .remedy(format!("these were: {}", listed()))
        }),
    }
}

/// Why nothing is predicted, and what to do.
fn sentence(why: NoPrediction) -> String {
    match why {
        NoPrediction::TooFewTraces { traced } => format!(
            "only {traced} iterations that say how others are have whole traces; let the run fetch more: `trace: {{fetch: all}}`, or \
             an open load with received spans"
        ),
        NoPrediction::NothingChanges => "that changes nothing in any traced iteration".to_owned(),
        NoPrediction::DoesNotFit { percentile, measured_ms, replayed_ms } => format!(
            "the model does not give today's response times: p{percentile} was {measured_ms:.1} ms, and it says \
             {replayed_ms:.1} ms; what iterations wait for is not all in their traces"
        ),
        NoPrediction::Waits { by } => format!(
            "these points take {:.0} % longer because other iterations are under way, so some of their time is waiting for \
             something that no trace shows, and nobody knows how much",
            by * 100.0
        ),
        NoPrediction::OnlyLess => "of this run, only upper bounds can be told, and only for less work or more servers: its \
                                   users wait for their own iterations, or iterations share what no trace shows"
            .to_owned(),
    }
}
