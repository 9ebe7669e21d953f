//! What a run makes in a cloud before its load and deletes after it: users, networks, images and so on.
//!
//! Everything has a name that carries the run, and `contexts.json` in the run's directory is written before anything is
//! made. So what a killed run has left can be found, and nothing that bench has not made is ever deleted. Nothing here
//! runs during the load but the renewal of the users' tokens.

mod cleanup;
mod cloud;
mod kinds;
mod make;
mod maker;
mod names;
mod record;
mod resources;
mod sweep;

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use self::make::{ProvisionedCrowd, RenewableToken};
use self::maker::Maker;
use self::names::SweepScope;
use self::record::Record;
use self::sweep::SweepOutcome;
use super::event::{Event, Sink};
use super::run_name;
use base::masking;
use base::secret::Secret;
use iteration::crowd::{Crowd, Crowds};
use plan::Plan;
use plan::contexts::Contexts;
use text::shell;

pub use self::cleanup::{CleanupOptions, CleanupOutcome, cleanup};
pub(super) use self::cloud::Cloud;
pub use self::sweep::LeftoverResource;

/// How long deleting may take after a load.
const DELETED_WITHIN: Duration = Duration::from_secs(120);
/// How long a service may take to make what was asked for last.
const UNANSWERED: Duration = Duration::from_secs(2);
/// How many things that could not be deleted are named one by one.
const NAMED_MAX: usize = 20;

/// The contexts of a run.
pub(super) struct RunContexts {
    cloud: Cloud,
    prefix: String,
    /// The run's directory.
    directory: PathBuf,
    deployment: PathBuf,
    events: Sink,
    /// False if the run's directory is removed after the run.
    stays: bool,
    /// The tokens of the users that were made; `None` until everything is made.
    tokens: RefCell<Option<Arc<Tokens>>>,
}

/// What was made before a load.
pub(super) struct Ready {
    /// The users that iterations are.
    pub(super) crowds: Crowds,
    /// The users' tokens.
    pub(super) tokens: Arc<Tokens>,
}

/// The tokens of all users, which are renewed while the load runs.
pub(super) struct Tokens {
    cloud: Cloud,
    renewed: Vec<RenewableToken>,
}

/// True if a plan has anything made in a cloud.
pub(super) fn are_wanted(plan: &Plan) -> bool {
    plan.workloads.iter().any(|workload| workload.contexts.is_some())
}

impl RunContexts {
    /// The contexts of a run that began at this time. `directory`: the run's, and whether it stays.
    pub(super) fn new(
        cloud: Cloud,
        plan: &Plan,
        (began_unix_ns, run_id): (u64, Uuid),
        (directory, stays): (&Path, bool),
        events: &Sink,
    ) -> Self {
        Self {
            cloud,
            prefix: run_name::of_run(began_unix_ns, run_id),
            directory: directory.to_path_buf(),
            deployment: plan.deployment.file.clone(),
            events: Arc::clone(events),
            stays,
            tokens: RefCell::default(),
        }
    }

    /// True if nothing is left of what was made.
    pub(super) fn is_clean(&self) -> bool {
        !self.directory.join(record::FILE_NAME).exists()
    }

    fn record(&self) -> Record {
        Record::new(self.prefix.clone(), &self.deployment)
    }

    /// Makes everything.
    ///
    /// # Errors
    /// The first thing that cannot be made. What was made before is still there.
    pub(super) async fn make(&self, plan: &Plan) -> Result<Ready, String> {
        self.record()
            .write(&self.directory)
            .map_err(|error| format!("{} cannot be written: {error}", self.directory.display()))?;
        self.say(&format!("making contexts in the cloud, with names that begin with {}", self.prefix));
        // 32 hexadecimal digits, and all kinds of characters that policies want.
        let password = Secret::new(format!("Aa1-{}", Uuid::new_v4().simple()));
        masking::hide(password.expose());
        let maker = Maker::new(&self.cloud, &self.prefix, &password);
        let mut made: Vec<(&Arc<Contexts>, Arc<Crowd>)> = Vec::new();
        let (mut first, mut renewed) = (1, Vec::new());
        for contexts in plan.workloads.iter().filter_map(|workload| workload.contexts.as_ref()) {
            if made.iter().any(|(known, _)| Arc::ptr_eq(known, contexts)) {
                continue;
            }
            let ProvisionedCrowd { crowd, renewed: further } =
                maker.make(contexts, first).await.map_err(|problem| problem.to_string())?;
            first += u32::try_from(crowd.members.len()).unwrap_or(u32::MAX);
            renewed.extend(further);
            made.push((contexts, Arc::new(crowd)));
        }
        self.say(&format!("contexts made: {} users", first - 1));
        let by_workload = plan.workloads.iter().map(|workload| {
            let of = |contexts: &Arc<Contexts>| made.iter().find(|(known, _)| Arc::ptr_eq(known, contexts));
            let crowd = workload.contexts.as_ref().and_then(of).map(|(_, crowd)| Arc::clone(crowd));
            (Arc::from(workload.name.as_str()), crowd)
        });
        let crowds = Crowds::new(by_workload.collect(), self.cloud.admin.project_id.as_deref());
        let tokens = Arc::new(Tokens { cloud: self.cloud.clone(), renewed });
        self.tokens.replace(Some(Arc::clone(&tokens)));
        Ok(Ready { crowds, tokens })
    }

    /// Deletes everything that the run has made, by its contexts and by its iterations. Gives what to say about the rest,
    /// and about users' tokens.
    pub(super) async fn delete(&self) -> Vec<String> {
        self.say("deleting what the run has made in the cloud");
        let tokens = self.tokens.take();
        if tokens.is_none() {
            // Services may still make what they were asked for when making ended early.
            tokio::time::sleep(UNANSWERED).await;
        }
        let swept = sweep::sweep(&self.cloud, &SweepScope::Run(self.prefix.clone()), DELETED_WITHIN).await;
        let record = self.record().deleted(&swept.left);
        let written = match swept.left.is_empty() && swept.unknown.is_empty() {
            true => std::fs::remove_file(self.directory.join(record::FILE_NAME)),
            false => record.write(&self.directory),
        };
        let mut said = self.words(&swept);
        said.extend(written.err().map(|error| format!("{} cannot be written: {error}", record::FILE_NAME)));
        if said.is_empty() {
            self.say(&format!("deleted {} things; nothing is left", swept.deleted));
        }
        for text in &said {
            self.events.event(&Event::ContextsLeft(text));
        }
        said.extend(tokens.and_then(|tokens| tokens.note()));
        said
    }

    /// What could not be deleted, and what to do.
    fn words(&self, swept: &SweepOutcome) -> Vec<String> {
        let mut said: Vec<String> = Vec::new();
        let count = swept.left.len();
        said.extend(swept.left.iter().take(NAMED_MAX).map(|thing| format!("not deleted: {thing}")));
        if count > NAMED_MAX {
            said.push(format!("not deleted: {} more things", count - NAMED_MAX));
        }
        said.extend(swept.unknown.iter().take(NAMED_MAX).map(|why| format!("perhaps not deleted: {why}")));
        if !said.is_empty() {
            let command = match self.stays {
                true => format!("bench cleanup {} --yes", shell::path(&self.directory)),
                false => format!("bench cleanup -d {} --older-than 1m --yes", shell::path(&self.deployment)),
            };
            said.push(format!(
                "things of this run are left in the cloud, with names that begin with {}: `{command}` tries again to delete them",
                self.prefix
            ));
        }
        said
    }

    fn say(&self, text: &str) {
        self.events.event(&Event::Contexts(text));
    }
}

impl Tokens {
    /// Renews all tokens, for as long as this future is polled. Logins are spread over time: all tokens are of the same
    /// age, and must not all be renewed at once.
    pub(super) async fn keep_fresh(&self) {
        let count = self.renewed.len().max(1) as f64;
        let running = self.renewed.iter().enumerate().map(|(number, renewed)| {
            let earlier = 1.0 - SPREAD * number as f64 / count;
            let valid_for = renewed.valid_for.map(|valid_for| valid_for.mul_f64(earlier));
            renewed.credentials.keep_fresh(&renewed.auth, self.cloud.client(), valid_for)
        });
        futures_util::future::join_all(running.collect::<Vec<_>>()).await;
    }

    /// What to say about the tokens after the load, if services refused some or some could not be renewed.
    pub(super) fn note(&self) -> Option<String> {
        let all = self.renewed.iter();
        let notes: Vec<String> = all.filter_map(|renewed| renewed.credentials.note_of_user()).collect();
        let first = notes.first()?;
        Some(match notes.len() - 1 {
            0 => first.clone(),
            more => format!("{first} (and tokens of {more} more users, in the same way or another)"),
        })
    }
}

/// Over which part of their lifetime the first renewals are spread.
const SPREAD: f64 = 0.4;
