//! Setup, load and teardown.

use std::sync::Arc;

use super::RunExecution;
use crate::error::HarnessError;
use crate::event::Event;
use base::masking;
use client::options::ResendCounts;
use iteration::user::VirtualUser;
use iteration::{Context, ONCE};
use measure::errors::Failure;
use measure::log::{End, IterationCounts, LogWriter, Status};
use plan::scenario::BUILT_IN;
use report::probe as words;
use runner::observers::Observers;
use runner::stop::{Stop, StopReason};
use runner::{self, LoadInput};

/// The result of setup and load.
pub(super) struct LoadOutcome {
    /// How the run ended.
    pub(super) end: End,
    /// True if setup failed.
    pub(super) setup_failed: bool,
    /// Why the load did not begin, if the probe was not good enough for a strict run.
    pub(super) refused: Option<HarnessError>,
}

impl RunExecution {
    /// Contexts, setup, load, teardown.
    pub(super) fn load(
        &self,
        mut context: Context,
        stop: &Stop,
        log: &mut LogWriter,
        observers: Observers<'_>,
    ) -> LoadOutcome {
        let (mut notes, mut generator) = (Vec::new(), None);
        let planned = self.plan.workloads.iter().map(|workload| self.plan.planned(workload));
        let mut issued: Vec<IterationCounts> = planned.map(IterationCounts::none_of).collect();
        let made = self.make_contexts(&mut context, stop);
        let setup = made.and_then(|()| self.setup(&mut context, stop));
        if let Err(failure) = &setup {
            stop.stop(StopReason::Failed(format!("setup failed: {}", describe(failure))));
        }
        let probe = if stop.is_stopping() { None } else { self.probe(&context, stop) };
        let warning = probe.as_ref().and_then(words::warning);
        let refused = probe.as_ref().and_then(|probe| self.refused(probe));
        if let Some(warning) = warning.as_ref().filter(|_| refused.is_none()) {
            self.events.event(&Event::ProbeWarning(warning));
        } else if let Some(probe) = probe.as_ref().filter(|_| refused.is_none()) {
            self.events.event(&Event::Probed(&words::line(&probe.clone().into())));
        }
        notes.extend(warning);
        if refused.is_none() && !stop.is_stopping() {
            notes.extend(self.begin(stop, log));
        }
        let context = Arc::new(context);
        if refused.is_none() && !stop.is_stopping() {
            let (plan, context) = (Arc::clone(&self.plan), Arc::clone(&context));
            let (workers, users_max) = (self.share.workers, self.share.users_max);
            let load = Arc::new(LoadInput { plan, context, stop: stop.clone(), workers, users_max });
            let seen = runner::run(&load, log, observers);
            notes.extend(seen.notes);
            generator = Some(seen.generator);
            issued = seen.issued;
            if let Some(error) = seen.failed {
                stop.stop(StopReason::Failed(format!("the run log cannot be written: {error}")));
            }
        }
        // Teardown always runs, even after a stop.
        let failures = self.teardown(&context);
        notes.extend(resent(context.http.resent()));
        notes.extend(failures.iter().map(|failure| format!("teardown failed: {}", describe(failure))));
        notes.extend(self.delete_contexts());
        let (status, error) = match stop.reason() {
            None => (Status::Finished, None),
            Some(StopReason::Interrupted) => (Status::Interrupted, None),
            Some(StopReason::Threshold) => (Status::Aborted, None),
            Some(StopReason::TimedOut) => (Status::TimedOut, None),
            Some(StopReason::Failed(error)) => (Status::Failed, Some(error)),
        };
        let end = End {
            status,
            error,
            notes,
            aborted_by: None,
            generator,
            rows: None,
            issued,
            probe,
            hooks: Vec::new(),
        };
        LoadOutcome { end, setup_failed: setup.is_err(), refused }
    }

    /// Waits until the load of a shard begins, and writes that to its log. Returns what a reader must know.
    fn begin(&self, stop: &Stop, log: &mut LogWriter) -> Option<String> {
        let part = self.share.part.as_ref()?;
        let failed = |error: String| stop.stop(StopReason::Failed(error));
        let start = self.options.shards.start(part);
        if let Some(what) = start.words() {
            self.events.event(&Event::Awaiting(&what));
        }
        let began = self.runtime.block_on(async {
            tokio::select! {
                began = start.wait(part.shard, &self.identity.clock) => Some(began),
                () = stop.stopping() => None,
            }
        })?;
        let began = began.map_err(|error| failed(error.to_string())).ok()?;
        let _ = self.share.began.set(began);
        if let Err(error) = log.began(&began) {
            failed(format!("the run log cannot be written: {error}"));
        }
        let late = self.options.shards.late(&began);
        late.unwrap_or_else(|error| {
            failed(error);
            None
        })
    }

    /// Runs setup to its end, to its first failure or until the run is stopped. What it extracted
    /// until then is visible to all iterations and to teardown.
    fn setup(&self, context: &mut Context, stop: &Stop) -> Result<(), Failure> {
        let name = Arc::from("setup");
        let mut variables = context.variables((ONCE, &name), 0, context.ids.trace_id((ONCE, 0)));
        let mut user = VirtualUser::new(context, 0);
        let ended = self.runtime.block_on(async {
            tokio::select! {
                ended = user.once(context, &self.plan.setup, &name, &mut variables) => ended,
                () = stop.stopping() => Ok(()),
            }
        });
        let mut shared = (*context.variables).clone();
        for secret in variables.secrets() {
            masking::hide_learned(&secret);
        }
        for (name, value) in variables.own().iter().filter(|(name, _)| !BUILT_IN.contains(&&**name)) {
            match shared.iter_mut().find(|(other, _)| other == name) {
                Some((_, declared)) => declared.clone_from(value),
                None => shared.push((Arc::clone(name), value.clone())),
            }
        }
        context.variables = Arc::new(shared);
        ended
    }

    /// Runs every step of teardown, even after a failed one; returns the failures.
    fn teardown(&self, context: &Context) -> Vec<Failure> {
        let name = Arc::from("teardown");
        let mut variables = context.variables((ONCE, &name), 0, context.ids.trace_id((ONCE, 0)));
        // Other values than in setup.
        variables.draw_from(context.data_seed, ONCE.into(), 1);
        let mut user = VirtualUser::new(context, 0);
        let steps = self.plan.teardown.iter();
        steps
            .filter_map(|step| {
                let step = std::slice::from_ref(step);
                self.runtime.block_on(user.once(context, step, &name, &mut variables)).err()
            })
            .collect()
    }
}

/// Notes on requests that were sent once more.
fn resent(resent: ResendCounts) -> impl Iterator<Item = String> {
    let why = [
        (
            resent.unprocessed,
            "the server had said that it did not process such a request (HTTP/2: REFUSED_STREAM or GOAWAY)",
        ),
        (
            resent.after_idleness,
            "a connection that had been idle for half a second or longer ended before the answer; \
             `http: { resend: never }` counts that as a failure",
        ),
    ];
    why.into_iter().filter(|(count, _)| *count > 0).map(|(count, why)| {
        let requests = if count == 1 { "1 request was".to_owned() } else { format!("{count} requests were") };
        format!("{requests} sent once more, because {why}; the time of both attempts counts")
    })
}

fn describe(failure: &Failure) -> String {
    let what = match &failure.action {
        Some(action) => format!("{action}: {}", failure.message),
        None => failure.message.clone(),
    };
    let seen = failure.seen.as_deref();
    let found = seen.and_then(|seen| seen.found.as_ref()).map(|found| format!(", found {found}"));
    let body = seen.and_then(|seen| seen.body.as_ref()).map(|body| format!("; the body: {body}"));
    [Some(what), found, body].into_iter().flatten().collect()
}
