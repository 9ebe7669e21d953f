//! The only module that reads arguments and the terminal, and that prints.
//!
//! Each command turns its arguments into options, calls the harness, and prints the result. There is no logic here.

mod ab;
mod capacity;
mod check;
mod cleanup;
mod collect;
mod comment;
mod compare;
mod demo;
pub mod exit;
mod export;
mod gate;
mod generate;
mod help;
mod hints;
mod import;
mod init;
mod launch;
mod merge;
mod once;
mod output;
mod process;
mod profiles;
mod progress;
mod receive;
mod run;
mod runs;
mod screen;
mod shards;
mod signals;
mod spelled;
mod standard_input;
mod trace;
mod trend;
mod url;
mod validate;
mod variables;
mod what_if;

use std::ffi::OsString;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};
use exit::Exit;
use output::{Stream, say};
use progress::ProgressDisplay;

use base::masking;
use harness::{HarnessError, stored};

const EXAMPLES: &str = "\
Examples:
  bench run demo                                     a first run: needs no server and no settings
  bench run http://127.0.0.1:8080/orders -c 20 -z 30s  a load on a URL, without any file
  bench run scenarios/keystone.yaml --out results    a cloud that the OS_* variables describe
  bench validate order.yaml                          all faults of its files, before the load
  bench ab -d old.yaml -d new.yaml order.yaml        whether a build is slower, in alternating rounds
  bench compare runs/ONE runs/OTHER                  two stored runs, side by side
  bench runs                                         stored runs: verdict, p99 and cause of each
  bench open                                         the report of the newest one, in a browser
  bench report latest                                the report of a run again, also after a crash
  bench trace show latest 1a2b3c4d                   one of its traces, as a tree";

/// Load tests that profile every iteration.
///
/// bench runs the load that a scenario describes, starts a new OSProfiler profiler for each iteration,
/// and records each trace id with the latency. Afterwards it fetches the traces of the slowest
/// iterations and reports which trace point took the time.
#[derive(Debug, Parser)]
#[command(name = "bench", disable_help_subcommand = true, after_help = exit::HELP, max_term_width = 100)]
#[command(after_long_help = format!("{EXAMPLES}\n\n{}", exit::HELP))]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(Box<run::RunArguments>),
    Ab(ab::AbArguments),
    Capacity(capacity::CapacityArguments),
    Compare(compare::CompareArguments),
    Trend(trend::TrendArguments),
    WhatIf(what_if::WhatIfArguments),
    Comment(comment::CommentArguments),
    /// Check scenario and deployment files; list every fault with its place.
    ///
    /// Reads the files as a run does, including Rally's deployment documents, and sends nothing. The
    /// environment variables and the files that they refer to must exist, except with --offline. Exits with 0 when all
    /// files are good, with 65 when one is not.
    Validate {
        /// Scenario and deployment files; a scenario is checked together with its deployment.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// The deployment file for the scenarios, instead of the ones that they name.
        #[arg(short, long, value_name = "FILE")]
        deployment: Option<PathBuf>,
        /// Also print what the scenario will do: steps, requests, the load over time, variables, criteria.
        #[arg(long)]
        explain: bool,
        #[command(flatten)]
        task: run::TaskArgs,
        /// Print one JSON document instead of words, with every fault and its place: `bench schema validation`.
        #[arg(long, conflicts_with = "explain")]
        json: bool,
        #[command(flatten)]
        env_file: variables::EnvFileArgument,
        /// Do not look up environment variables and files with secrets: they need not exist.
        #[arg(long)]
        offline: bool,
    },
    Init(init::InitArguments),
    #[command(subcommand)]
    Import(import::ImportCommand),
    /// Print the JSON Schema (draft-07) of a kind of file, for editors and programs.
    ///
    /// Editors with a YAML language server complete and check a file whose first
    /// line is `# yaml-language-server: $schema=scenario.schema.json`, if that schema is beside it:
    /// `bench schema scenario > scenario.schema.json`
    Schema {
        /// The kind of file.
        kind: SchemaKind,
    },
    /// Render the results of a run again from its log, also after a crash.
    ///
    /// Recovers everything readable in the log, and reports the rest: a log without an end is
    /// INCONCLUSIVE at best, a damaged log is INVALID. Results that contain more than the log are kept.
    /// Stored traces are used again; no traces are fetched.
    Report {
        /// The run's directory (default: the newest in runs/).
        #[arg(default_value = "latest", value_parser = runs::run_path())]
        run_dir: PathBuf,
        /// Print only the verdict and the directory.
        #[arg(short, long)]
        quiet: bool,
        #[command(flatten)]
        gate: gate::GateArguments,
        #[command(flatten)]
        traces: gate::TracesArgument,
    },
    Check(check::CheckArguments),
    Collect(collect::CollectArguments),
    Receive(receive::ReceiveArguments),
    Merge(merge::MergeArguments),
    Slurm(launch::SlurmArguments),
    K8s(launch::KubernetesArguments),
    Export(export::ExportArguments),
    Runs(runs::RunsArguments),
    Open(runs::OpenArguments),
    Prune(runs::PruneArguments),
    Cleanup(cleanup::CleanupArguments),
    /// Serve the embedded demo on its own, as a target for other tools.
    ///
    /// Starts a small identity service on a free port of 127.0.0.1 that reports its trace points to a
    /// collector in a file. Prints its URL, key and collector; Ctrl-C stops it.
    Demo {
        /// Write a deployment file with its URL, key and collector, for `bench run -d FILE`.
        #[arg(long, value_name = "FILE")]
        deployment: Option<PathBuf>,
        /// Where its collector keeps the traces (default: a temporary directory).
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// List, show and rank traces, count calls, and sign trace headers.
    #[command(subcommand)]
    Trace(trace::TraceCommand),
    Help(help::HelpArguments),
    /// Print shell completions.
    ///
    /// For bash: `bench completions bash > ~/.local/share/bash-completion/completions/bench`;
    /// for zsh, into a directory of $fpath: `bench completions zsh > _bench`;
    /// for fish: `bench completions fish > ~/.config/fish/completions/bench.fish`
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Write the manual pages, one for each command.
    ///
    /// Read them with `man -l DIR/bench.1`, or write them to a directory of the manual path, such as
    /// ~/.local/share/man/man1, for `man bench` and `man bench-run`.
    Man {
        /// The directory to write them to; it is created if it does not exist.
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SchemaKind {
    /// A scenario file.
    Scenario,
    /// A deployment file.
    Deployment,
    /// results.json.
    Results,
    /// The ab.json of `bench ab`.
    Ab,
    /// The capacity.json of `bench capacity`.
    Capacity,
    /// What `bench compare --json` writes for two runs.
    Compare,
    /// What it writes for a run and past runs.
    History,
    /// What `bench trend --json` writes.
    Trend,
    /// What `bench validate --json` writes.
    Validation,
    /// What `bench what-if --json` writes.
    WhatIf,
}

/// The exit code of a Rust program that panicked.
const PANICKED: u8 = 101;

/// Which program this is.
#[derive(Clone, Copy, Debug)]
pub struct ProgramVersion {
    /// What `-V` prints: the version with its commit.
    pub short: &'static str,
    /// What `--version` prints: also how it was built.
    pub long: &'static str,
}

/// Runs the command line and gives the exit code.
pub fn main(version: ProgramVersion, arguments: impl IntoIterator<Item = OsString>) -> u8 {
    output::say_panics();
    let arguments = spelled::written_out(arguments.into_iter().collect());
    // A URL on the command line may hold a password, and a fault of that argument quotes it.
    arguments.iter().filter_map(|argument| argument.to_str()).for_each(masking::hide_url);
    process::survive_file_size_limit();
    let ended = std::panic::catch_unwind(AssertUnwindSafe(|| match parsed(version, arguments) {
        Ok(arguments) => run_command(version.short, arguments.command),
        Err(error) => help_or_fault(&hints::helped(error)),
    }));
    output::close(match ended {
        Ok(Ok(exit)) => exit as u8,
        Ok(Err(error)) => {
            output::complain(&exit::words(&error, output::colours(output::Stream::Error)));
            Exit::of_error(&error) as u8
        }
        Err(_) => PANICKED,
    })
}

/// The arguments, if they are valid.
fn parsed(version: ProgramVersion, arguments: Vec<OsString>) -> Result<Arguments, clap::Error> {
    let command = Arguments::command().version(version.short).long_version(version.long);
    let command = command.mut_subcommand("run", variables::with_variables);
    Arguments::from_arg_matches(&command.try_get_matches_from(arguments)?)
}

/// Help and version go to standard output and are not errors.
fn help_or_fault(error: &clap::Error) -> Result<Exit, HarnessError> {
    let stream = if error.use_stderr() { Stream::Error } else { Stream::Output };
    let text = match output::colours(stream) {
        true => error.render().ansi().to_string(),
        false => error.render().to_string(),
    };
    match stream {
        Stream::Output => output::deliver(&text).map(|()| Exit::Ok),
        Stream::Error => {
            output::complain(&text);
            Ok(Exit::Usage)
        }
    }
}

fn run_command(version: &'static str, command: Command) -> Result<Exit, HarnessError> {
    match command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Ab(arguments) => ab::run(&arguments),
        Command::Capacity(arguments) => capacity::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Trend(arguments) => trend::run(&arguments),
        Command::WhatIf(arguments) => what_if::run(&arguments),
        Command::Comment(arguments) => comment::run(&arguments),
        Command::Validate { files, deployment, explain, task, json, env_file, offline } => {
            let variables = (&env_file, offline);
            if json {
                return validate::document(&files, deployment.as_deref(), &task, variables);
            }
            Ok(validate::validate(&files, deployment.as_deref(), &task, variables, explain))
        }
        Command::Init(arguments) => init::run(&arguments),
        Command::Import(command) => import::run(&command),
        Command::Schema { kind } => generate::schema(kind),
        Command::Report { run_dir, quiet, gate, traces } => {
            let finished =
                stored::report(&run_dir, &gate.report(&traces), &ProgressDisplay::new(quiet).sink())?;
            gate.print(finished, quiet)
        }
        Command::Check(arguments) => check::run(&arguments),
        Command::Collect(arguments) => collect::run(&arguments),
        Command::Merge(arguments) => merge::run(&arguments),
        Command::Slurm(arguments) => launch::slurm(&arguments),
        Command::K8s(arguments) => launch::kubernetes(&arguments),
        Command::Receive(arguments) => receive::run(&arguments),
        Command::Export(arguments) => export::run(&arguments),
        Command::Runs(arguments) => runs::list(&arguments),
        Command::Open(arguments) => runs::open(&arguments),
        Command::Prune(arguments) => runs::prune(&arguments),
        Command::Cleanup(arguments) => cleanup::run(&arguments),
        Command::Demo { deployment, dir } => demo::serve(deployment.as_deref(), dir.as_deref()),
        Command::Trace(command) => trace::trace(&command),
        Command::Help(arguments) => help::help(version, &arguments),
        Command::Completions { shell } => generate::completions(shell),
        Command::Man { dir } => generate::man(version, &dir),
    }
}
