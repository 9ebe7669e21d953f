//! Deletes what runs have left in a cloud: of one run by its directory, or of all that began long enough ago.

use std::path::Path;
use std::time::Duration;

use openstack::cloud::{Cloud, ConnectError};
use openstack::names::SweepScope;
use openstack::record::{FILE_NAME, Record};
use openstack::sweep::{self, SweepOutcome};

use super::{CleanupOptions, CleanupOutcome};
use crate::error::{HarnessError, HarnessErrorKind};
use crate::housekeeping::runtime;
use crate::interrupt::Interrupt;
use crate::options::{Environment, YamlFile};
use crate::{files, runs};
use base::clock::RunClock;

/// How long deleting may take.
const WITHIN: Duration = Duration::from_secs(300);

/// Deletes what the options name, or says what that would be.
///
/// # Errors
/// Contradicting options, a run that cannot be read, a cloud that does not answer, an interrupt.
pub fn cleanup(
    options: &CleanupOptions,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<CleanupOutcome, HarnessError> {
    match (&options.run, &options.deployment, options.older_than) {
        (Some(run), given, None) => {
            of_run(&runs::named(run)?, given.as_ref(), options.delete, environment, interrupt)
        }
        (None, Some(deployment), Some(age)) => {
            let now_s = i64::try_from(RunClock::start().wall_anchor_unix_ns() / 1_000_000_000);
            let age_s = i64::try_from(age.as_secs()).unwrap_or(i64::MAX);
            let which = SweepScope::Before(now_s.unwrap_or(0).saturating_sub(age_s));
            let swept = swept(deployment, &which, options.delete, environment, interrupt)?;
            Ok(cleaned(swept, !options.delete))
        }
        (Some(_), _, Some(_)) => Err(HarnessError::usage("both a run and an age")
            .remedy("name the run's directory, or give -d DEPLOYMENT --older-than AGE")),
        (None, _, _) => Err(HarnessError::usage("what is to be deleted?")
            .remedy("name a run's directory, or give -d DEPLOYMENT --older-than AGE")),
    }
}

fn of_run(
    directory: &Path,
    given: Option<&YamlFile>,
    delete: bool,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<CleanupOutcome, HarnessError> {
    let record = Record::read(directory).map_err(HarnessError::input)?;
    let Some(record) = record else {
        return match directory.is_dir() {
            // Everything was deleted after the run, or it made nothing.
            true => Ok(CleanupOutcome::default()),
            false => Err(HarnessError::input(format!("there is no run in {}", directory.display()))),
        };
    };
    let of_record = YamlFile::from(record.deployment.as_path());
    let which = SweepScope::Run(record.prefix.clone());
    let swept = swept(given.unwrap_or(&of_record), &which, delete, environment, interrupt)?;
    if !delete {
        return Ok(cleaned(swept, true));
    }
    let path = directory.join(FILE_NAME);
    let written = match swept.left.is_empty() && swept.unknown.is_empty() {
        true => std::fs::remove_file(&path),
        false => record.deleted(&swept.left).write(directory),
    };
    written.map_err(HarnessError::cannot(format!("write {}", path.display())))?;
    Ok(cleaned(swept, false))
}

fn swept(
    deployment: &YamlFile,
    which: &SweepScope,
    delete: bool,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<SweepOutcome, HarnessError> {
    let deployment = files::deployment(deployment, environment)?;
    let runtime = runtime()?;
    let work = async {
        let headers = files::default_headers(Some(&deployment));
        let cloud = Cloud::connect(deployment, headers).await.map_err(unconnected)?;
        Ok(match delete {
            true => sweep::sweep(&cloud, which, WITHIN).await,
            false => sweep::find(&cloud, which).await,
        })
    };
    let ended = runtime.block_on(async {
        tokio::select! {
            biased;
            () = interrupt.interrupted() => {
                Err(HarnessError::new(HarnessErrorKind::Interrupted, "interrupted: call it again to delete the rest"))
            }
            ended = work => ended,
        }
    });
    runtime.shutdown_background();
    ended
}

fn cleaned(SweepOutcome { deleted, left, unknown }: SweepOutcome, only_looked: bool) -> CleanupOutcome {
    let left = left.iter().map(ToString::to_string).collect();
    CleanupOutcome { deleted, left, unknown, only_looked }
}

fn unconnected(error: ConnectError) -> HarnessError {
    match error {
        ConnectError::Input(text) => HarnessError::input(text),
        ConnectError::Unreachable(text) => HarnessError::unreachable(text),
        ConnectError::Faults(rejected) => HarnessError::faults(rejected),
    }
}
