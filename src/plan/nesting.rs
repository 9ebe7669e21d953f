//! Where a step stands among those that are being compiled.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use client::url::BaseUrl;
use grpc::schema::Method;
use measure::protocol::Protocol;
use terms::tags::Tags;

/// The state of compiling one list of steps with those within it.
#[derive(Default)]
pub(super) struct Nesting {
    /// The names of actions and groups so far.
    pub(super) names: BTreeSet<Arc<str>>,
    /// How many of them there are.
    pub(super) count: u16,
    /// The names of the numbers that are taken from answers so far.
    pub(super) measures: Vec<Arc<str>>,
    /// How many steps are around it.
    pub(super) depth: usize,
    /// What the names of an included file begin with.
    pub(super) prefix: Option<String>,
    /// The tags of the groups around.
    pub(super) tags: Tags,
    /// The dialogue that is open.
    pub(super) dialogue: Option<NestedDialogue>,
}

/// A WebSocket or a gRPC call that is open.
#[derive(Clone)]
pub(super) struct NestedDialogue {
    /// Where it leads.
    pub(super) base: BaseUrl,
    pub(super) protocol: Protocol,
    /// What is called; `None` until its service has been asked for its types.
    pub(super) method: Option<Method>,
    /// Whether its messages are compressed.
    pub(super) gzip: bool,
}

impl NestedDialogue {
    /// The key that opens it.
    pub(super) fn key(&self) -> &'static str {
        match self.protocol {
            Protocol::Grpc => "grpc",
            _ => "websocket",
        }
    }
}

/// The files that steps are in.
pub(super) struct StepFiles {
    /// The scenario's folder.
    scenario_folder: PathBuf,
    /// The included files that are being read, outermost first.
    pub(super) open: Vec<PathBuf>,
    /// The texts of all included files so far.
    pub(super) included: Vec<String>,
}

impl StepFiles {
    pub(super) fn new(scenario_folder: PathBuf) -> Self {
        Self { scenario_folder, open: Vec::new(), included: Vec::new() }
    }

    /// The folder of the file that names the steps: the scenario, or one that it includes.
    pub(super) fn folder(&self) -> &Path {
        self.open.last().and_then(|file| file.parent()).unwrap_or(&self.scenario_folder)
    }
}
