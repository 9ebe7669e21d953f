//! Rank 10: the only room that reads arguments, environment and terminal, and that prints.
//!
//! Each command is a short list of calls into the other rooms; no logic lives here.

mod demo;
pub mod exit;
mod files;
mod finish;
mod generate;
mod housekeeping;
mod progress;
mod run;
mod trace;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use uuid::Uuid;

use exit::{Exit, Stopped};

/// Load tests that profile every iteration.
///
/// bench makes load as a scenario says, starts a fresh OSProfiler profiler for each iteration, and
/// records each trace id beside the latency; afterwards it fetches the traces of the slowest
/// iterations and says which trace point took the time.
#[derive(Debug, Parser)]
#[command(name = "bench", version, after_help = exit::HELP, max_term_width = 100)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a scenario and report what it found.
    Run(RunArguments),
    /// Check scenario and deployment files; list every fault with its place.
    Validate {
        /// Scenario and deployment files; a scenario is checked together with its deployment.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// The deployment file for the scenarios, instead of the ones that they name.
        #[arg(short, long, value_name = "FILE")]
        deployment: Option<PathBuf>,
    },
    /// Print the JSON Schema (draft-07) of a kind of file, for editors and programs.
    Schema {
        /// The kind of file.
        kind: SchemaKind,
    },
    /// Render the results of a run again from its log, also after a crash.
    ///
    /// Everything up to the log's last whole frame is recovered. Traces that were fetched are used
    /// again; none is fetched.
    Report {
        /// The run's directory.
        run_dir: PathBuf,
        /// Print the verdict and the directory only.
        #[arg(long)]
        quiet: bool,
    },
    /// Serve the embedded demo alone, for other tools to load.
    Demo {
        /// Write a deployment file for it, with its URL, key and collector.
        #[arg(long, value_name = "FILE")]
        deployment: Option<PathBuf>,
        /// Where its collector keeps the traces (default: a temporary directory).
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// Signed trace headers by hand.
    #[command(subcommand)]
    Trace(TraceCommand),
    /// Print shell completions.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Write the manual pages.
    Man {
        /// The directory to write them to.
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
}

/// Run a scenario and report what it found.
#[derive(Debug, clap::Args)]
struct RunArguments {
    /// The scenario file.
    scenario: PathBuf,
    /// The deployment file, instead of the one that the scenario names.
    #[arg(short, long, value_name = "FILE")]
    deployment: Option<PathBuf>,
    /// The directory in which the run's directory is made.
    #[arg(long, value_name = "DIR", default_value = "runs")]
    out: PathBuf,
    /// Give a variable of the scenario another value (may be repeated).
    #[arg(long, value_name = "NAME=VALUE", value_parser = name_and_value)]
    set: Vec<(String, String)>,
    /// Initialise no profiler and send no trace headers.
    #[arg(long)]
    no_profile: bool,
    /// Print no progress and no tables, only the verdict and the run's directory.
    #[arg(short, long)]
    quiet: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SchemaKind {
    /// A scenario file.
    Scenario,
    /// A deployment file.
    Deployment,
    /// results.json.
    Results,
}

#[derive(Debug, Subcommand)]
enum TraceCommand {
    /// Print signed trace headers for a request by hand.
    ///
    /// With curl: `eval curl $(bench trace headers -d dep.yaml) http://host/path`
    Headers {
        /// The deployment whose key signs.
        #[arg(short, long, value_name = "FILE")]
        deployment: PathBuf,
        /// The trace's id (default: a new one).
        #[arg(long, value_name = "UUID")]
        base_id: Option<Uuid>,
        /// The id of the point above the request (default: the trace's id).
        #[arg(long, value_name = "UUID")]
        parent_id: Option<Uuid>,
        /// How to print them.
        #[arg(long, value_enum, default_value_t = HeaderFormat::Curl)]
        format: HeaderFormat,
    },
    /// Say whether a deployment's services would accept trace headers, or why not.
    ///
    /// Reads `{"X-Trace-Info": …, "X-Trace-HMAC": …}` on standard input; exits with 0 or 1.
    Verify {
        /// The deployment whose keys count.
        #[arg(short, long, value_name = "FILE")]
        deployment: PathBuf,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum HeaderFormat {
    /// Arguments for curl.
    Curl,
    /// A JSON object.
    Json,
}

fn name_and_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}

/// Runs the command line and gives the exit code.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version go to standard output and are no error.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage as u8 } else { Exit::Ok as u8 };
        }
    };
    let ended = match arguments.command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Validate { files, deployment } => files::validate(&files, deployment.as_deref()),
        Command::Schema { kind } => generate::schema(kind),
        Command::Report { run_dir, quiet } => finish::report(&run_dir, quiet),
        Command::Demo { deployment, dir } => demo::serve(deployment.as_deref(), dir.as_deref()),
        Command::Trace(command) => trace::trace(&command),
        Command::Completions { shell } => generate::completions(shell),
        Command::Man { dir } => generate::man(&dir),
    };
    match ended {
        Ok(exit) => exit as u8,
        Err(stopped) => {
            say(&stopped.text);
            stopped.exit as u8
        }
    }
}

/// A line on standard error; a closed pipe is no reason to stop.
fn say(text: &str) {
    if !text.is_empty() {
        let _ = writeln!(std::io::stderr(), "{}", text.trim_end());
    }
}

/// A line on standard output.
fn print(text: &str) -> Result<(), Stopped> {
    match writeln!(std::io::stdout(), "{}", text.trim_end()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Whether colours may be used on a stream.
fn colours(stream: &impl std::io::IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
