//! `bench import`.

use std::path::PathBuf;

use harness::HarnessError;
use harness::import::{ImportOptions, ImportedFiles, Source, import};
use import::{har, openapi};

use super::exit::Exit;
use super::output;

/// Write a scenario and its deployment from a curl command, an HTTP archive, an OpenAPI document or a Postman collection.
///
/// Both files are commented and pass `bench validate`. Secrets are never written: they become variables
/// that are read from the environment, and the command prints which to set.
#[derive(Clone, Debug, clap::Subcommand)]
pub(super) enum ImportCommand {
    /// From a curl command, as the developer tools of browsers copy it.
    ///
    /// For example `bench import curl -- curl -H 'Accept: text/html' http://127.0.0.1:8080/`, or the command in a
    /// file, or piped in: `bench import curl -`. Commands for POSIX shells and for Windows' cmd are understood.
    Curl {
        /// A file with the command, or `-` for standard input, or the command itself in quotes.
        #[arg(required_unless_present = "words", value_name = "FILE|COMMAND")]
        file: Option<PathBuf>,
        /// The command itself.
        #[arg(last = true, value_name = "curl ARGUMENTS")]
        words: Vec<String>,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// From an HTTP archive (HAR 1.2), which browsers save from the network tab of their developer tools.
    ///
    /// Values of responses that a later request sends again become extractions. Cookies are left to each
    /// virtual user.
    Har {
        /// The archive, or `-` for standard input.
        file: PathBuf,
        /// Also take images, fonts, scripts and style sheets.
        #[arg(long)]
        all: bool,
        /// Whether to keep the pauses between requests (over 100 ms, at most 10 s).
        #[arg(long, value_name = "yes|no", default_value = "yes", value_parser = yes_or_no, action = clap::ArgAction::Set)]
        think: bool,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// From an OpenAPI 3 document (JSON or YAML), or Swagger 2.
    ///
    /// Each operation becomes an action with sample values. Only operations that change nothing are taken,
    /// unless --unsafe is given.
    Openapi {
        /// The document, or `-` for standard input.
        file: PathBuf,
        /// Only this operation, by its operationId (may be repeated).
        #[arg(long, value_name = "ID")]
        operation: Vec<String>,
        /// Only operations with this tag (may be repeated).
        #[arg(long, value_name = "TAG")]
        tag: Vec<String>,
        /// Only paths that begin with this (may be repeated).
        #[arg(long, value_name = "PATH")]
        path: Vec<String>,
        /// Also take operations that change something: POST, PUT, PATCH, DELETE.
        #[arg(long = "unsafe")]
        all_methods: bool,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// From a collection of Postman (format 2.1 or 2.0).
    ///
    /// Each request becomes an action. Variables stay variables; a value that a test keeps from an answer becomes an
    /// extraction, and a status that it asks for a check. Other scripts are counted and left out.
    Postman {
        /// The exported collection, or `-` for standard input.
        file: PathBuf,
        #[command(flatten)]
        output: OutputArguments,
    },
}

/// Where to write.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct OutputArguments {
    /// The scenario's file (NAME.yaml), or a directory for it; the deployment is written beside it.
    #[arg(short, long, value_name = "FILE|DIR")]
    pub(super) output: Option<PathBuf>,
    /// Replace files that exist.
    #[arg(long)]
    pub(super) force: bool,
}

fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("write yes or no".to_owned()),
    }
}

pub(super) fn run(command: &ImportCommand) -> Result<Exit, HarnessError> {
    let (source, output) = match command.clone() {
        ImportCommand::Curl { file: Some(file), words, output } if words.is_empty() => {
            (curl_source(file), output)
        }
        ImportCommand::Curl { words, output, .. } => (Source::CurlWords(words), output),
        ImportCommand::Har { file, all, think, output } => {
            (Source::Har(file, har::Options { all, think }), output)
        }
        ImportCommand::Openapi { file, operation, tag, path, all_methods, output } => {
            let chosen = openapi::Options { operations: operation, tags: tag, paths: path, all_methods };
            (Source::OpenApi(file, chosen), output)
        }
        ImportCommand::Postman { file, output } => (Source::Postman(file), output),
    };
    if output.output.as_deref().is_some_and(|path| path == std::path::Path::new("-")) {
        return Err(HarnessError::usage("an import makes two files, which do not fit into standard output")
            .remedy("name a file or a directory, as in -o order.yaml"));
    }
    let options = ImportOptions { source, output: output.output, force: output.force };
    say(&import(&options)?);
    Ok(Exit::Ok)
}

/// What was written, and what to do next.
pub(super) fn say(imported: &ImportedFiles) {
    output::print(&imported.summary());
}

/// A curl command that stands on the command line, or the file with one.
fn curl_source(given: PathBuf) -> Source {
    let is_command = |text: &&str| {
        let mut words = text.split_whitespace();
        matches!(words.next(), Some("curl" | "curl.exe")) && words.next().is_some()
    };
    match given.to_str().filter(is_command).map(str::to_owned) {
        Some(command) => Source::CurlText(command),
        None => Source::CurlFile(given),
    }
}
