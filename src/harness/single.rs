//! A run of one iteration of each workload, to look at: its directory is temporary, and nothing is judged.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{HarnessError, HarnessErrorKind};
use crate::event::{Event, Sink};
use crate::interrupt::Interrupt;
use crate::options::RunOptions;
use crate::run;
use client::options::Version;
use iteration::observe::ObservationLog;
use measure::observation::Observation;
use plan::Plan;
use report::once::curl::CurlConnection;
use results::model::{Results, RunStatus};
use results::trace::StoredTrace;
use text::files::make_directory;

/// A directory that is removed at the end.
pub(super) struct Temporary(PathBuf);

impl Temporary {
    /// Makes the directory, for its owner only.
    ///
    /// # Errors
    /// The directory of all temporary files is not there: nothing would remove it, so it is not made.
    pub(super) fn make(kind: &str) -> Result<Self, HarnessError> {
        Self::make_within(&std::env::temp_dir(), kind)
    }

    fn make_within(all: &Path, kind: &str) -> Result<Self, HarnessError> {
        let temporary = Self::within(all, kind);
        make_directory(temporary.path()).map_err(|error| {
            HarnessError::failed(format!("cannot make a temporary directory in {}: {error}", all.display()))
                .remedy("set TMPDIR to a directory that exists and that you can write to")
        })?;
        Ok(temporary)
    }

    fn within(all: &Path, kind: &str) -> Self {
        Self(all.join(format!("bench-{kind}-{}", uuid::Uuid::new_v4())))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What happened in one iteration of each workload.
pub struct Single {
    /// Every step, in order.
    pub observations: Vec<Observation>,
    /// How many steps are missing, because there were too many.
    pub missing: usize,
    /// How requests connect, for other programs.
    pub connecting: CurlConnection,
    /// The figures.
    pub results: Results,
    /// The traces that were fetched, with the client's own points.
    pub traces: Vec<StoredTrace>,
}

impl Single {
    /// Why it failed: setup, an iteration, teardown or the run itself.
    #[must_use]
    pub fn fault(&self) -> Option<HarnessError> {
        let results = &self.results;
        if results.run.status == RunStatus::Interrupted {
            return Some(HarnessError::new(HarnessErrorKind::Interrupted, "interrupted before the end"));
        }
        let failed = |workload: &&results::model::Workload| workload.iterations.ok == 0;
        let teardown = results.notes.iter().find(|note| note.starts_with("teardown failed"));
        let workload = results.workloads.iter().find(failed).map(|workload| {
            let message = workload.errors.first().map_or("it did not end", |error| &error.message);
            format!("the iteration failed: {message}")
        });
        let why = results.run.error.clone().or(workload).or_else(|| teardown.cloned());
        why.map(HarnessError::failed)
    }
}

/// Runs one iteration of each workload, with setup and teardown.
///
/// # Errors
/// When nothing ran.
pub fn single(mut options: RunOptions, interrupt: &Interrupt, events: &Sink) -> Result<Single, HarnessError> {
    let (folder, observed) = (Temporary::make("once")?, Arc::new(ObservationLog::default()));
    options.out = folder.path().to_path_buf();
    options.once = Some(Arc::clone(&observed));
    options.load.workers = Some(1);
    let connecting = Arc::new(Mutex::new(CurlConnection::default()));
    let seen = Arc::clone(&connecting);
    let quiet = only_of_the_trace(events);
    let sink: Sink = Arc::new(move |event: &Event<'_>| {
        if let Event::Started { plan, .. } = event {
            *seen.lock().unwrap_or_else(PoisonError::into_inner) = connecting_of(plan);
        }
        quiet.event(event);
    });
    let finished = run(options, interrupt, &sink)?;
    let (observations, missing) = observed.take();
    let connecting = std::mem::take(&mut *connecting.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(Single { observations, missing, connecting, results: finished.results, traces: finished.traces })
}

/// What another program must know to connect as this plan does.
fn connecting_of(plan: &Plan) -> CurlConnection {
    let tls = &plan.deployment.tls;
    let text = |path: &PathBuf| path.to_string_lossy().into_owned();
    CurlConnection {
        insecure: !tls.verify,
        ca: tls.ca.as_ref().map(text),
        identity: tls.identity.as_ref().map(|(certificate, key)| (text(certificate), text(key))),
        http2: plan.http.version == Version::Http2,
        hosts: plan
            .http
            .dns
            .hosts
            .iter()
            .map(|(host, addresses)| (host.clone(), joined(addresses)))
            .collect(),
    }
}

fn joined(addresses: &[std::net::IpAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Only events that say something about the trace, and texts of the scenario: this is not a load.
pub(super) fn only_of_the_trace(events: &Sink) -> Sink {
    let events = Arc::clone(events);
    Arc::new(move |event: &Event<'_>| {
        let is_shown = matches!(
            event,
            Event::Warning(_)
                | Event::Logged(_)
                | Event::Receiving(_)
                | Event::NotProfiling(_)
                | Event::ContextsLeft(_)
                | Event::Stopping { .. }
        );
        if is_shown {
            events.event(event);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_directory_of_temporary_files_is_named_and_not_made() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing");
        let error = Temporary::make_within(&missing, "test").err().unwrap().to_string();
        assert!(error.contains("missing: ") && error.contains("TMPDIR"), "{error}");
        assert!(!missing.exists());
        let made = Temporary::make_within(folder.path(), "test").unwrap();
        let path = made.path().to_path_buf();
        assert!(path.is_dir());
        drop(made);
        assert!(!path.exists());
    }

    #[cfg(unix)]
    #[test]
    fn only_its_owner_sees_what_is_in_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let made = Temporary::make_within(folder.path(), "test").unwrap();
        let mode = std::fs::metadata(made.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}
