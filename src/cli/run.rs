//! `bench run`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::CommandFactory as _;

use harness::options::{
    Environment, InfluxUrl, LiveFeed, PushHeader, StatsdAddress, TaskArguments, WatchOptions,
};
use harness::push_options::{otlp_url, remote_write_url};
use harness::url_run::UrlRun;
use harness::{Event, HarnessError, Interrupt, LoadOptions, PreparedRun, RunOptions, Sink};
use plan::SEED_MAX;
use plan::overrides::LoadShape;
use plan::references::Env;

use base::complaint::Complaint;
use plan::given::CommandLineValue;

use super::exit::Exit;
use super::gate::{GateArguments, TracesArgument};
use super::once::{self, OnceArguments};
use super::output;
use super::profiles::ProfilesArgument;
use super::progress::ProgressDisplay;
use super::screen::{self, LiveScreen};
use super::shards::ShardArguments;
use super::signals::interrupt_by_signals;
use super::standard_input;
use super::url::{SaveArgument, ShapeArguments, UrlArguments, rate, receive_address};
use super::variables::EnvFileArgument;

const NOTHING: &str = "name a scenario, as in `bench run order.yaml`, a URL, as in \
    `bench run http://127.0.0.1:8080/orders -c 20 -z 30s`, or try `bench run demo`; `bench run --help` has more examples";

/// Where runs are made.
const OUT: &str = "runs";

const EXAMPLES: &str = "\
Examples:
  bench run demo                                            the built-in demo, without any file
  bench run order.yaml                                      a scenario, with the deployment that it names
  bench run order.yaml -d staging.yaml --set customer=c-2   with another deployment and variable
  bench run http://127.0.0.1:8080/orders                    a URL, without any file: 200 GETs, 50 at a time
  bench run http://127.0.0.1:8080/orders -c 20 -z 30s       20 at a time for 30 seconds
  bench run http://127.0.0.1:8080/orders -q 100 -z 30s      100 per second, however long each takes
  bench run http://127.0.0.1:8080/orders -T application/json --data '{\"n\": 1}'   a POST
  bench run http://127.0.0.1:8080/orders --save mine.yaml   the same, written as a scenario to build on";

const VARIABLES: &str = "Every option has a variable, too, such as BENCH_RATE for --rate and BENCH_ENV_FILE for --env-file; a \
    switch is on if its variable is 1, true or yes. The command line wins.";

/// Run a scenario and report what it found.
///
/// Checks the files, then whether targets and collector answer, then makes the load. Each run has a
/// separate directory with results.json, report.html, the run log and the fetched traces. Ctrl-C stops
/// the run gracefully and reports what ran; a second Ctrl-C ends it at once, and `bench report`
/// recovers what was recorded.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\n{VARIABLES}"))]
pub(super) struct RunArguments {
    /// The scenario file (`-` for standard input), the URL to load, or `demo`.
    ///
    /// `demo` is a scenario and a service built into bench, for a first run. A file of that name comes first.
    /// `bench init demo` writes its files.
    #[arg(value_name = "SCENARIO|URL|demo")]
    scenario: Option<PathBuf>,
    /// The deployment file, instead of the one that the scenario names.
    #[arg(short, long, value_name = "FILE")]
    deployment: Option<PathBuf>,
    /// The directory in which to make the run's directory.
    #[arg(short, long, alias = "output", value_name = "DIR", default_value = OUT)]
    out: PathBuf,
    #[command(flatten)]
    shape: ShapeArguments,
    #[command(flatten)]
    url: UrlArguments,
    #[command(flatten)]
    save: SaveArgument,
    #[command(flatten)]
    once: OnceArguments,
    #[command(flatten)]
    load: LoadArguments,
    /// After the load, also write the client's own points of the fetched traces to the collector: its other readers
    /// then show iteration, actions and phases above the services' points.
    #[arg(long)]
    publish: bool,
    /// Receive OpenTelemetry's spans at this address while the load runs (default 127.0.0.1:4318).
    ///
    /// By OTLP over HTTP and gRPC, at one port. The services need no other backend: set
    /// OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 for them.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, require_equals = true, default_missing_value = "127.0.0.1:4318", value_parser = receive_address)]
    receive: Option<SocketAddr>,
    /// Print only the verdict and the run's directory: no progress and no tables.
    #[arg(long)]
    quiet: bool,
    /// Print the run's results.json on standard output, and nothing else there (`bench schema results`).
    #[arg(long, conflicts_with = "once")]
    json: bool,
    /// With a URL: the rate, as --rate. With a scenario: --quiet.
    #[arg(short, value_name = "N", num_args = 0..=1)]
    q: Option<Option<String>>,
    #[command(flatten)]
    gate: GateArguments,
    #[command(flatten)]
    traces: TracesArgument,
    #[command(flatten)]
    profiles: ProfilesArgument,
    #[command(flatten)]
    watch: WatchArguments,
    #[command(flatten)]
    shards: ShardArguments,
}

/// Changes to a load that need no change to its scenario.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct LoadArguments {
    /// Set a variable that the scenario declares to another value, as text (may be repeated).
    ///
    /// Other users of the machine can read a command line. For a secret, write NAME=@FILE (the first line of a file)
    /// or NAME=env:VARIABLE: neither is in any output, nor is the value of a variable that the scenario declares as a
    /// reference. NAME==VALUE takes the rest as it is, also if it begins with `@`, `env:` or `=`.
    #[arg(long, value_name = "NAME=VALUE", value_parser = name_and_value)]
    set: Vec<(String, CommandLineValue)>,
    /// The seed of rows and of random values in requests (default: the scenario's, or a random one).
    ///
    /// With the same seed, a run sends the same requests again. The results name the seed. Trace ids do not follow it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=SEED_MAX))]
    seed: Option<u64>,
    /// Switch profiling off: initialise no profiler and send no trace headers.
    #[arg(long)]
    no_profile: bool,
    /// Run no traced iteration before the load.
    #[arg(long)]
    no_probe: bool,
    /// How many threads make the load (default: one for each core).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    workers: Option<u32>,
    #[command(flatten)]
    task: TaskArgs,
    #[command(flatten)]
    env_file: EnvFileArgument,
}

/// The arguments of a Rally task's template.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct TaskArgs {
    /// For a task file of Rally: the arguments of its template, in YAML or JSON.
    #[arg(long, value_name = "ARGS")]
    task_args: Option<String>,
    /// The same from a file; --task-args wins.
    #[arg(long, value_name = "FILE")]
    task_args_file: Option<PathBuf>,
}

impl TaskArgs {
    pub(super) fn options(&self) -> TaskArguments {
        TaskArguments { text: self.task_args.clone(), file: self.task_args_file.clone() }
    }
}

impl LoadArguments {
    /// The options of a load of this scenario; of a URL, if it is absent.
    ///
    /// # Errors
    /// A file of variables cannot be read.
    pub(super) fn options_of(&self, scenario: Option<&PathBuf>) -> Result<LoadOptions, HarnessError> {
        Ok(LoadOptions {
            environment: self.env_file.environment(scenario.map(PathBuf::as_path))?,
            ..self.options()
        })
    }

    fn options(&self) -> LoadOptions {
        LoadOptions {
            set: self.set.iter().cloned().collect(),
            seed: self.seed,
            no_profile: self.no_profile,
            no_probe: self.no_probe,
            workers: self.workers,
            task_arguments: self.task.options(),
            environment: Environment::default(),
        }
    }
}

/// How to watch a load while it runs.
#[derive(Debug, clap::Args)]
struct WatchArguments {
    /// Show the load on a live screen while it runs: rates, percentiles, a heat map, steps, errors, criteria and the
    /// slowest iterations.
    ///
    /// This is usual on a terminal of at least 80 columns and 24 rows, unless CI is set. `q` stops the load, `p` hides the
    /// screen, `?` shows all keys.
    ///
    /// --live=ADDRESS, such as --live=127.0.0.1:9100, also serves a page with the same for browsers, which becomes the report
    /// at the end. Port 0 chooses a free port; the URL is printed.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, require_equals = true, overrides_with = "no_live")]
    live: Option<Option<SocketAddr>>,
    /// Show no live screen, but lines.
    #[arg(long)]
    no_live: bool,
    /// Serve OpenMetrics at http://ADDRESS/metrics while the load runs, with trace ids as exemplars.
    ///
    /// Port 0 chooses a free port, which is printed.
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    /// Push metrics with OTLP over HTTP, with trace ids as exemplars, every five seconds and at the end.
    ///
    /// The base URL of the receiver, such as http://127.0.0.1:4318; `v1/metrics` is added if it is missing.
    #[arg(long, value_name = "URL", value_parser = otlp_url)]
    otlp: Option<String>,
    /// A header of these pushes, such as the key of a hosted receiver; @FILE reads the value from a file. May be repeated.
    ///
    /// OTEL_EXPORTER_OTLP_HEADERS and OTEL_EXPORTER_OTLP_METRICS_HEADERS give headers, too (NAME=VALUE,NAME=VALUE).
    #[arg(long, value_name = "NAME=@FILE", requires = "otlp", value_parser = PushHeader::parse)]
    otlp_header: Vec<PushHeader>,
    /// Push metrics with Prometheus remote write, with trace ids as exemplars, as --otlp does.
    ///
    /// The whole URL, such as http://127.0.0.1:9090/api/v1/write (Prometheus with --web.enable-remote-write-receiver) or
    /// …/api/v1/push (Mimir, Grafana Cloud). Series have the names that --metrics serves, job="bench" and the run's id as
    /// instance, and end with the run. deployments/grafana has a dashboard for them.
    #[arg(long, value_name = "URL", value_parser = remote_write_url)]
    remote_write: Option<String>,
    /// A header of these pushes, such as X-Scope-OrgID of Mimir; @FILE reads the value from a file. May be repeated.
    ///
    /// BENCH_REMOTE_WRITE_HEADERS gives headers, too (NAME=VALUE,NAME=VALUE).
    #[arg(long, value_name = "NAME=@FILE", requires = "remote_write", value_parser = PushHeader::parse)]
    remote_write_header: Vec<PushHeader>,
    /// Push metrics as lines of InfluxDB, as --otlp does; INFLUX_TOKEN logs in.
    ///
    /// The whole URL: http://HOST:8086/write?db=NAME for version 1, http://HOST:8086/api/v2/write?org=ORG&bucket=NAME for
    /// versions 2 and 3. Instead of the token, user:password@ may be before the host.
    #[arg(long, value_name = "URL", value_parser = InfluxUrl::parse)]
    influx: Option<InfluxUrl>,
    /// Send metrics to StatsD in datagrams, as --otlp does; dogstatsd://HOST:PORT sends tags.
    ///
    /// Counters, gauges, and of each kind of time at most 500 single ones with their share. Without tags, the names of
    /// workloads and actions are parts of the metrics' names: bench.WORKLOAD.response_time.
    #[arg(long, value_name = "HOST:PORT", value_parser = StatsdAddress::parse)]
    statsd: Option<StatsdAddress>,
}

impl WatchArguments {
    fn options(&self) -> WatchOptions {
        WatchOptions {
            metrics: self.metrics,
            otlp: self.otlp.clone(),
            otlp_headers: self.otlp_header.clone(),
            remote_write: self.remote_write.clone(),
            remote_write_headers: self.remote_write_header.clone(),
            influx: self.influx.clone(),
            influx_headers: Vec::new(),
            statsd: self.statsd.clone(),
            page: self.live.flatten(),
            viewers: None,
        }
    }

    /// Whether there is a live screen.
    fn has_screen(&self, quiet: bool) -> bool {
        if self.no_live || quiet {
            return false;
        }
        match self.live {
            Some(None) if !output::is_interactive() => {
                output::say(screen::NO_TERMINAL);
                false
            }
            Some(None) => true,
            Some(Some(_)) | None => screen::is_usual(),
        }
    }
}

impl RunArguments {
    /// What means something else to users of other programs.
    fn refuse_slips(&self) -> Result<(), HarnessError> {
        let begins = |path: Option<&PathBuf>, with: &str| {
            path.and_then(|path| path.to_str()).is_some_and(|text| text.trim_start().starts_with(with))
        };
        if begins(self.deployment.as_ref(), "{") {
            return Err(HarnessError::usage("-d names the deployment's file, and this is a request's body")
                .remedy("write --data for the body"));
        }
        if ["json=", "csv=", "influxdb="].iter().any(|output| begins(Some(&self.out), output)) {
            return Err(HarnessError::usage("-o, --out names the directory for the run's directory").remedy(
                "results.json is in it; --json prints it, and `bench export latest --csv` writes rows",
            ));
        }
        let run = super::Arguments::command();
        let strange = run.find_subcommand("run").map(super::variables::strange).unwrap_or_default();
        let shown = ProgressDisplay::new(false).sink();
        strange.iter().for_each(|text| shown.event(&Event::Warning(text)));
        Ok(())
    }
}

fn name_and_value(text: &str) -> Result<(String, CommandLineValue), Complaint> {
    CommandLineValue::parse(text, Env::new(&|name| Environment::default().get(name)))
}

/// A screen, and a feed for it in the options of its run.
fn screen_for(options: &mut RunOptions, interrupt: &Interrupt, shown: &ProgressDisplay) -> Arc<LiveScreen> {
    let feed = Arc::new(LiveFeed::default());
    options.watch.viewers = Some(Arc::clone(&feed));
    LiveScreen::new(feed, interrupt, shown.sink())
}

pub(super) fn run(arguments: &RunArguments) -> Result<Exit, HarnessError> {
    arguments.refuse_slips()?;
    let subject = arguments.subject()?;
    let (once, name) = (&arguments.once, &subject.name);
    if once.watch {
        if name == Path::new("-") || name.to_str().is_some_and(UrlRun::is_url) {
            return Err(HarnessError::usage("--watch needs a file to watch").remedy("name a scenario"));
        }
        let files: Vec<&Path> =
            [name].into_iter().chain(&arguments.deployment).map(PathBuf::as_path).collect();
        return once::watch(once, &files, || arguments.options(&subject));
    }
    let mut options = arguments.options(&subject)?;
    if once.once {
        return once::run(once, options);
    }
    let shown = ProgressDisplay::new(subject.quiet);
    let interrupt = Interrupt::new();
    let has_screen = arguments.watch.has_screen(subject.quiet);
    let screen = has_screen.then(|| screen_for(&mut options, &interrupt, &shown));
    let sink: Sink = match &screen {
        Some(screen) => screen.clone(),
        None => shown.sink(),
    };
    let run = PreparedRun::new(options, &sink)?;
    let listening = interrupt_by_signals(&interrupt, move || output::last_words(&shown.last_words()))?;
    let finished = run.run(&interrupt);
    if let Some(screen) = screen {
        screen.close();
    }
    let finished = finished?;
    drop(listening);
    let gate = &arguments.gate;
    if arguments.json { gate.print_document(finished) } else { gate.print(finished, subject.quiet) }
}

/// What to run, once it is known what `-q` means.
struct Subject {
    name: PathBuf,
    rate_per_s: Option<f64>,
    quiet: bool,
}

impl RunArguments {
    /// The scenario or the URL, and how it is run.
    fn options(&self, subject: &Subject) -> Result<RunOptions, HarnessError> {
        let (name, shape) = (&subject.name, self.shape.shape(subject.rate_per_s));
        let url = name.to_str().filter(|name| UrlRun::is_url(name));
        let mut options = match url {
            Some(text) => self.of_url(text, &shape)?,
            None => {
                let deployment = self.deployment.as_ref().map(Into::into);
                RunOptions { deployment, shape, ..RunOptions::new(standard_input::scenario(name)?) }
            }
        };
        options.load = self.load.options_of(url.is_none().then_some(name))?;
        options.out.clone_from(&self.out);
        options.publish = self.publish;
        options.profiles = self.profiles.source();
        options.receive = self.receive;
        options.report = self.gate.report(&self.traces);
        options.strict = self.gate.strict;
        options.shards = self.shards.options();
        // One iteration cannot be shared, whatever a launcher says.
        options.shards.whole |= self.once.once;
        options.watch = self.watch.options();
        Ok(options)
    }

    fn of_url(&self, text: &str, shape: &LoadShape) -> Result<RunOptions, HarnessError> {
        let save = self.save.save.as_deref();
        let plan = self.url.request(text)?.plan(shape, self.deployment.as_deref(), save)?;
        if let Some(path) = save.filter(|_| !plan.environment.is_empty()) {
            let variables = plan.environment.join(", ");
            output::say(&format!("{} holds no secrets: set {variables} before you run it", path.display()));
        }
        let deployment = Some(plan.deployment);
        Ok(RunOptions { deployment, target: plan.target, ..RunOptions::new(plan.scenario) })
    }

    /// The changes to the load, for a launcher that runs this on other machines.
    ///
    /// # Errors
    /// An option makes no sense there.
    pub(super) fn load_of_shard(&self) -> Result<LoadOptions, HarnessError> {
        let fixed = [
            (self.once.once, "--once"),
            (self.deployment.is_some(), "--deployment"),
            (self.out != Path::new(OUT), "--out"),
            (self.shards.is_given(), "--shard, --job, --together and --start-at"),
        ];
        if let Some(option) = self.url.first_given() {
            return Err(
                HarnessError::usage(format!("{option} is for a URL")).remedy("write it into the scenario")
            );
        }
        match fixed.into_iter().find(|(given, _)| *given) {
            Some((_, option)) => {
                Err(HarnessError::usage(format!("{option}: that is what the launcher's script says"))
                    .remedy("leave it out after `--`"))
            }
            None => Ok(self.load.options()),
        }
    }

    /// `-q` is followed by a rate if there is a URL, and by nothing or by the scenario if there is none.
    fn subject(&self) -> Result<Subject, HarnessError> {
        let usage = |what: String, remedy: &str| Err(HarnessError::usage(what).remedy(remedy));
        let (name, number) = match (&self.scenario, &self.q) {
            (Some(name), q) => (name.clone(), q.as_ref().map(Option::as_deref)),
            (None, Some(Some(name))) => (name.into(), Some(None)),
            (None, _) => return usage("nothing to run".to_owned(), NOTHING),
        };
        let is_url = name.to_str().is_some_and(UrlRun::is_url);
        let rate_per_s = match (is_url, number) {
            (true, Some(None)) => {
                return usage("with a URL, -q is the rate".to_owned(), "write -q 100, or --quiet");
            }
            (true, Some(Some(text))) => match rate(text) {
                Ok(rate) => Some(rate),
                Err(remedy) => return usage(format!("`{text}` is not a rate"), &remedy),
            },
            (false, Some(Some(text))) => {
                return usage(
                    format!("-q {text}: with a scenario, -q takes no value"),
                    "write --rate N, or -q last",
                );
            }
            (true, None) | (false, _) => None,
        };
        let save = self.save.save.as_ref().map(|_| "--save");
        if let Some(option) = self.url.first_given().or(save).filter(|_| !is_url) {
            return usage(format!("{option} is for a URL"), "write it into the scenario");
        }
        Ok(Subject { name, rate_per_s, quiet: self.quiet || !is_url && self.q.is_some() })
    }
}
