//! The options of a caller, as plain values without a command line.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use collect::profiles::ProfileSource;
use iteration::observe::ObservationLog;
use plan::given::CommandLineValue;
use plan::overrides::LoadShape;
use plan::scenario;
use text::named_secrets::without_secrets;

pub use super::environment::Environment;
pub use super::live_feed::LiveFeed;
pub use super::push_options::{InfluxUrl, PushHeader, StatsdAddress};
pub use super::shard_options::ShardOptions;

/// A scenario or deployment: a file, or a text instead of one.
#[derive(Clone, Debug)]
pub struct YamlFile {
    path: PathBuf,
    text: Option<String>,
}

impl YamlFile {
    /// A text instead of this file, which need not exist: messages use this path, and files that the text names are
    /// looked up beside it.
    #[must_use]
    pub fn text(path: impl Into<PathBuf>, text: impl Into<String>) -> Self {
        Self { path: path.into(), text: Some(text.into()) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn given_text(&self) -> Option<&str> {
        self.text.as_deref()
    }
}

impl<P: Into<PathBuf>> From<P> for YamlFile {
    fn from(path: P) -> Self {
        Self { path: path.into(), text: None }
    }
}

/// The arguments of a task's template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskArguments {
    /// YAML, JSON, or `NAME=VALUE,NAME=VALUE`; these win over the file's.
    pub text: Option<String>,
    /// A file: YAML or JSON.
    pub file: Option<PathBuf>,
}

impl TaskArguments {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Changes to a load that need no change to its scenario.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// Other values for variables that the scenario declares.
    pub set: BTreeMap<String, CommandLineValue>,
    /// The seed of rows and of generated values, instead of the scenario's or a random one.
    pub seed: Option<u64>,
    /// Switch profiling off: initialise no profiler and send no trace headers.
    pub no_profile: bool,
    /// Run no traced iteration before the load.
    pub no_probe: bool,
    /// How many threads make the load; if absent, one for each core.
    pub workers: Option<u32>,
    /// The arguments of a Rally task's template.
    pub task_arguments: TaskArguments,
    /// Where the variables of the environment are looked up.
    pub environment: Environment,
}

impl LoadOptions {
    /// The options of the command line that change a load and are in no variable and no seed.
    fn words(&self) -> Vec<String> {
        let given = |name: &str, value: String| vec![name.to_owned(), value];
        let arguments = self.task_arguments.text.iter();
        let file = self.task_arguments.file.iter();
        let flags = [(self.no_profile, "--no-profile"), (self.no_probe, "--no-probe")];
        let flags = flags.into_iter().filter(|(given, _)| *given).map(|(_, name)| vec![name.to_owned()]);
        flags
            .chain(self.workers.map(|workers| given("--workers", workers.to_string())))
            .chain(arguments.map(|text| given("--task-args", without_secrets(text, &[]))))
            .chain(file.map(|path| given("--task-args-file", path.display().to_string())))
            .flatten()
            .collect()
    }

    pub(super) fn of_plan(&self) -> scenario::PlanOptions {
        scenario::PlanOptions {
            set: self.set.clone(),
            seed: self.seed,
            no_profile: self.no_profile,
            no_probe: self.no_probe,
            requests_optional: false,
        }
    }
}

/// How a report shows the stored traces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TracesMode {
    /// Their ids only.
    Text,
    /// Their waterfalls inside the report.
    #[default]
    Embed,
    /// A page for each trace in this directory; the report links to them.
    Pages(PathBuf),
}

/// What to write of a judged run, in addition to the files in its directory.
#[derive(Clone, Debug, Default)]
pub struct ReportOptions {
    /// How report.html shows traces.
    pub traces: TracesMode,
    /// Write the criteria as JUnit XML to this file.
    pub junit: Option<PathBuf>,
    /// Write figures for the pages of CI systems to these files.
    pub figures: FigureFiles,
    /// Write the run as Rally reports tasks to these files.
    pub rally: RallyReports,
    /// Add the report in Markdown to this file: GitHub Actions' summary of a step.
    pub step_summary: Option<PathBuf>,
}

/// Files with figures that CI systems compare with those of another branch.
#[derive(Clone, Debug, Default)]
pub struct FigureFiles {
    /// What GitLab shows as a load performance report.
    pub gitlab_performance: Option<PathBuf>,
    /// OpenMetrics text.
    pub metrics: Option<PathBuf>,
}

/// Files in the formats of Rally's reports.
#[derive(Clone, Debug, Default)]
pub struct RallyReports {
    /// JSON, with every iteration.
    pub json: Option<PathBuf>,
    /// JUnit XML, with a case for each workload.
    pub junit: Option<PathBuf>,
}

/// How a load is watched while it runs.
#[derive(Clone, Debug, Default)]
pub struct WatchOptions {
    /// Serve OpenMetrics at this address; port 0 takes a free one.
    pub metrics: Option<SocketAddr>,
    /// Push metrics with OTLP over HTTP to this URL, which ends in `v1/metrics`.
    pub otlp: Option<String>,
    /// Headers to send with each push, besides those from OpenTelemetry's variables.
    pub otlp_headers: Vec<PushHeader>,
    /// Push metrics with Prometheus remote write to this URL.
    pub remote_write: Option<String>,
    /// Headers to send with each of these pushes, besides those from `BENCH_REMOTE_WRITE_HEADERS`.
    pub remote_write_headers: Vec<PushHeader>,
    /// Push metrics as lines of InfluxDB to this URL.
    pub influx: Option<InfluxUrl>,
    /// Headers to send with each of these pushes: a run adds the one for `INFLUX_TOKEN`.
    pub influx_headers: Vec<PushHeader>,
    /// Send metrics to this StatsD.
    pub statsd: Option<StatsdAddress>,
    /// Serve the live page at this address; port 0 takes a free one.
    pub page: Option<SocketAddr>,
    /// Who looks at the load while it runs.
    pub viewers: Option<Arc<LiveFeed>>,
}

/// What to run, and what to write.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The scenario.
    pub scenario: YamlFile,
    /// The deployment, instead of the one that the scenario names.
    pub deployment: Option<YamlFile>,
    /// A base URL that replaces the deployment's default target.
    pub target: Option<String>,
    /// Receive spans at this address, instead of where the deployment says.
    pub receive: Option<SocketAddr>,
    /// Another load than the scenario's.
    pub shape: LoadShape,
    /// Changes to the load.
    pub load: LoadOptions,
    /// The directory in which the run's directory is made.
    pub out: PathBuf,
    /// Write the client's own points of the fetched traces to the collector too, after the load.
    pub publish: bool,
    /// Where services leave profiles of the traces, or of their points.
    pub profiles: Option<ProfileSource>,
    /// What to write of the result.
    pub report: ReportOptions,
    /// How the load is watched.
    pub watch: WatchOptions,
    /// End before the load if the probe fails, or if its trace does not arrive.
    pub strict: bool,
    /// Which part of the load to make, if other processes make the rest.
    pub shards: ShardOptions,
    /// Run one iteration of each workload, unjudged, and record here what happens in it.
    pub once: Option<Arc<ObservationLog>>,
}

impl RunOptions {
    /// The options of the command line that made this load of the scenario, beside its variables and its seed, without
    /// secrets.
    pub(super) fn words(&self) -> Vec<String> {
        let receive = self.receive.map(|address| format!("--receive={address}"));
        self.shape.words().into_iter().chain(self.load.words()).chain(receive).collect()
    }

    /// Runs this scenario with the defaults of `bench run`, its directory below `runs`.
    pub fn new(scenario: impl Into<YamlFile>) -> Self {
        Self {
            scenario: scenario.into(),
            deployment: None,
            target: None,
            receive: None,
            shape: LoadShape::default(),
            load: LoadOptions::default(),
            out: "runs".into(),
            publish: false,
            profiles: None,
            report: ReportOptions::default(),
            watch: WatchOptions::default(),
            strict: false,
            shards: ShardOptions::default(),
            once: None,
        }
    }
}
