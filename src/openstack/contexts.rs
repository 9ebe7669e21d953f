//! What a run makes in a cloud before its load and deletes after it: users, networks, images and so on.
//!
//! Everything has a name that carries the run, and `contexts.json` in the run's directory is written before anything is
//! made. So what a killed run has left can be found, and nothing that bench has not made is ever deleted. Nothing here
//! runs during the load but the renewal of the users' tokens.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::cloud::Cloud;
use super::make::{ProvisionedCrowd, RenewableToken};
use super::maker::Maker;
use super::names::SweepScope;
use super::record::{self, Record};
use super::sweep::{self, SweepOutcome};
use base::masking;
use base::secret::Secret;
use iteration::crowd::{Crowd, Crowds};
use plan::Plan;
use plan::contexts::Contexts;
use text::shell;

/// How long deleting may take after a load.
const DELETED_WITHIN: Duration = Duration::from_secs(120);
/// How long a service may take to make what was asked for last.
const UNANSWERED: Duration = Duration::from_secs(2);
/// How many things that could not be deleted are named one by one.
const NAMED_MAX: usize = 20;

/// What contexts have to say while they are made and deleted.
#[derive(Clone, Copy, Debug)]
pub enum ContextsMessage<'a> {
    /// What is being done.
    Progress(&'a str),
    /// What is left, and what to do.
    Left(&'a str),
}

/// Receives messages.
pub type ContextsSink = Box<dyn Fn(ContextsMessage<'_>)>;

/// The contexts of a run.
pub struct RunContexts {
    cloud: Cloud,
    prefix: String,
    /// The run's directory.
    directory: PathBuf,
    deployment: PathBuf,
    messages: ContextsSink,
    /// False if the run's directory is removed after the run.
    stays: bool,
    /// The tokens of the users that were made; `None` until everything is made.
    tokens: RefCell<Option<Arc<UserTokens>>>,
}

/// What was made before a load.
pub struct ProvisionedCloud {
    /// The users that iterations are.
    pub crowds: Crowds,
    /// The users' tokens.
    pub tokens: Arc<UserTokens>,
}

/// The tokens of all users, which are renewed while the load runs.
pub struct UserTokens {
    cloud: Cloud,
    renewed: Vec<RenewableToken>,
}

impl RunContexts {
    /// The contexts of a run. `prefix`: what all names begin with; `directory`: the run's, and whether it stays.
    pub fn new(
        cloud: Cloud,
        plan: &Plan,
        prefix: String,
        (directory, stays): (&Path, bool),
        messages: ContextsSink,
    ) -> Self {
        Self {
            cloud,
            prefix,
            directory: directory.to_path_buf(),
            deployment: plan.deployment.file.clone(),
            messages,
            stays,
            tokens: RefCell::default(),
        }
    }

    /// True if nothing is left of what was made.
    pub fn is_clean(&self) -> bool {
        !self.directory.join(record::FILE_NAME).exists()
    }

    fn record(&self) -> Record {
        Record::new(self.prefix.clone(), &self.deployment)
    }

    /// Makes everything.
    ///
    /// # Errors
    /// The first thing that cannot be made. What was made before is still there.
    pub async fn make(&self, plan: &Plan) -> Result<ProvisionedCloud, String> {
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
        let tokens = Arc::new(UserTokens { cloud: self.cloud.clone(), renewed });
        self.tokens.replace(Some(Arc::clone(&tokens)));
        Ok(ProvisionedCloud { crowds, tokens })
    }

    /// Deletes everything that the run has made, by its contexts and by its iterations. Gives what to say about the rest,
    /// and about users' tokens.
    pub async fn delete(&self) -> Vec<String> {
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
            (self.messages)(ContextsMessage::Left(text));
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
        (self.messages)(ContextsMessage::Progress(text));
    }
}

impl UserTokens {
    /// Renews all tokens, for as long as this future is polled. Logins are spread over time: all tokens are of the same
    /// age, and must not all be renewed at once.
    pub async fn keep_fresh(&self) {
        let count = self.renewed.len().max(1) as f64;
        let running = self.renewed.iter().enumerate().map(|(number, renewed)| {
            let earlier = 1.0 - SPREAD * number as f64 / count;
            let valid_for = renewed.valid_for.map(|valid_for| valid_for.mul_f64(earlier));
            renewed.credentials.keep_fresh(&renewed.auth, self.cloud.client(), valid_for)
        });
        futures_util::future::join_all(running.collect::<Vec<_>>()).await;
    }

    /// What to say about the tokens after the load, if services refused some or some could not be renewed.
    pub fn note(&self) -> Option<String> {
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
