//! The arguments that choose traces.

use std::path::PathBuf;

use crate::profiles::ProfilesArgument;
use crate::progress::ProgressDisplay;
use base::secret::Secret;
use harness::options::Environment;
use harness::traces::TraceSource;

/// The traces for a command.
#[derive(Debug, clap::Args)]
pub(super) struct SourceArguments {
    /// Ids of traces in the collector; run directories (`latest` is the newest); files: a run's `traces/ID.json`, a profile log of
    /// Mistral, the JSON of `trace show`, records. Ids beside directories or files, or the beginnings of
    /// ids, choose among the traces in them.
    #[arg(value_name = "ID|DIR|FILE")]
    traces: Vec<String>,
    /// The deployment whose collector has the traces.
    #[arg(short, long, value_name = "FILE")]
    deployment: Option<PathBuf>,
    /// The collector (default: $OSPROFILER_CONNECTION_STRING, which keeps a password out of the list of
    /// processes).
    #[arg(long, value_name = "URL", conflicts_with = "deployment")]
    connection_string: Option<String>,
    #[command(flatten)]
    profiles: ProfilesArgument,
}

impl SourceArguments {
    /// The first argument, as given.
    pub(super) fn first(&self) -> String {
        self.traces.first().cloned().unwrap_or_default()
    }

    pub(super) fn source(&self) -> TraceSource {
        TraceSource {
            given: self.traces.clone(),
            deployment: self.deployment.clone().map(Into::into),
            connection: self.connection_string.as_deref().map(Secret::new),
            profiles: self.profiles.source(),
            environment: Environment::default(),
            events: ProgressDisplay::new(false).sink(),
        }
    }
}
