//! `bench run --once`.

use std::path::Path;

use harness::single::single;
use harness::watch::FolderWatch;
use harness::{HarnessError, Interrupt, RunOptions};
use report::once::{self, Detail, curl};
use report::trace;

use super::exit::{self, Exit};
use super::output::{self, Stream};
use super::progress::ProgressDisplay;
use super::signals::interrupt_by_signals;

/// How to look at a single iteration.
#[derive(Debug, clap::Args)]
pub(super) struct OnceArguments {
    /// Run one iteration of each workload, with setup and teardown, and show what happened. Nothing is judged, and no
    /// run directory stays.
    #[arg(long, conflicts_with_all = ["concurrency", "times", "duration", "rate", "publish", "junit", "metrics", "otlp", "remote_write", "influx", "statsd", "save"], help_heading = ONCE)]
    pub(super) once: bool,
    /// With --once: every request and answer, what was extracted, every check, and the trace.
    #[arg(short, long, requires = "once", help_heading = ONCE)]
    verbose: bool,
    /// With --once: each request as a command for curl, with shell variables for secrets; `reveal` writes the secrets
    /// themselves, to a terminal only.
    #[arg(long, value_name = "reveal", num_args = 0..=1, require_equals = true, default_missing_value = "", value_parser = ["", "reveal"], hide_possible_values = true, requires = "once", conflicts_with = "verbose", help_heading = ONCE)]
    curl: Option<String>,
    /// With --once: again whenever a file in the folder of the scenario or of its deployment changes, until Ctrl-C.
    #[arg(long, requires = "once", help_heading = ONCE)]
    pub(super) watch: bool,
}

const ONCE: &str = "One iteration, to look at";

pub(super) fn run(arguments: &OnceArguments, options: RunOptions) -> Result<Exit, HarnessError> {
    let interrupt = Interrupt::new();
    let _listening = interrupt_by_signals(&interrupt, || output::last_words("ended at once"))?;
    show(arguments, options, &interrupt)
}

/// Runs it again whenever a file changes that is beside one of `files`. A fault is shown and waits for the next change, too.
pub(super) fn watch(
    arguments: &OnceArguments,
    files: &[&Path],
    options: impl Fn() -> Result<RunOptions, HarnessError>,
) -> Result<Exit, HarnessError> {
    let interrupt = Interrupt::new();
    let _listening = interrupt_by_signals(&interrupt, || output::last_words("ended at once"))?;
    let mut watch = FolderWatch::new(files.iter().copied());
    loop {
        let shown = options().and_then(|options| show(arguments, options, &interrupt));
        if interrupt.is_interrupted() {
            return Ok(Exit::Ok);
        }
        if let Err(error) = shown {
            output::complain(&exit::words(&error, output::colours(Stream::Error)));
        }
        output::say(&format!("\nwatching {} files; Ctrl-C ends", watch.files()));
        let Some(changed) = watch.wait(&interrupt) else { return Ok(Exit::Ok) };
        let names: Vec<String> =
            changed.iter().take(NAMED_MAX).map(|path| path.display().to_string()).collect();
        output::say(&format!("changed: {}\n", names.join(", ")));
    }
}

/// How many files that changed are named.
const NAMED_MAX: usize = 5;

fn show(arguments: &OnceArguments, options: RunOptions, interrupt: &Interrupt) -> Result<Exit, HarnessError> {
    let reveal = arguments.curl.as_deref() == Some("reveal");
    if reveal && !output::is_terminal(Stream::Output) {
        return Err(HarnessError::usage(
            "--curl=reveal writes secrets, and standard output is not a terminal",
        )
        .remedy("write --curl, and set the variables that it names"));
    }
    let single = single(options, interrupt, &ProgressDisplay::new(false).sink())?;
    if arguments.curl.is_some() {
        output::deliver(&curl::commands(&single.observations, &single.connecting, reveal))?;
    } else {
        let style = output::style();
        let detail = if arguments.verbose { Detail::Verbose } else { Detail::Brief };
        let tree = |id: uuid::Uuid| {
            let found = single.traces.iter().find(|trace| trace.trace_id == id && arguments.verbose)?;
            let mut text = Vec::new();
            let functions = &found.functions;
            trace::text::write(&id.to_string(), &found.tree, false, None, functions, style, &mut text)
                .ok()?;
            String::from_utf8(text).ok()
        };
        let mut text = once::text(&single.observations, single.missing, detail, style, tree);
        if !single.results.deployment.tls_verified {
            text.push_str("\nTLS NOT VERIFIED: the deployment has `tls: { verify: false }`\n");
        }
        output::show(&text)?;
    }
    single.fault().map_or(Ok(Exit::Ok), Err)
}
