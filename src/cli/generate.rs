//! Output for other programs: schemas, shell completions, manual pages.

use std::io;
use std::path::Path;

use clap::CommandFactory as _;

use config::schema;
use harness::HarnessError;
use harness::validation::ValidationDocument;
use report::{capacity, compare, pairs, prediction, trend};
use results::directory::write_at_once;
use results::json::schema as results_schema;

use super::exit::Exit;
use super::{Arguments, SchemaKind, help, output};

pub(super) fn schema(kind: SchemaKind) -> Result<Exit, HarnessError> {
    let schema = match kind {
        SchemaKind::Scenario => schema::SCENARIO_AS_WRITTEN.clone(),
        SchemaKind::Deployment => schema::DEPLOYMENT.clone(),
        SchemaKind::Results => results_schema(),
        SchemaKind::Ab => pairs::schema(),
        SchemaKind::Capacity => capacity::schema(),
        SchemaKind::Compare => compare::schema(),
        SchemaKind::History => compare::history_schema(),
        SchemaKind::Trend => trend::schema(),
        SchemaKind::WhatIf => prediction::schema(),
        SchemaKind::Validation => ValidationDocument::schema(),
    };
    output::deliver(&format!("{schema:#}"))?;
    Ok(Exit::Ok)
}

pub(super) fn completions(shell: clap_complete::Shell) -> Result<Exit, HarnessError> {
    let mut bytes = Vec::new();
    // `bench help` itself takes any name, to say which one was probably meant.
    let names = clap::builder::PossibleValuesParser::new(help::names());
    let mut command = Arguments::command()
        .mut_subcommand("help", |help| help.mut_arg("names", |argument| argument.value_parser(names)));
    clap_complete::generate(shell, &mut command, "bench", &mut bytes);
    output::deliver(&String::from_utf8_lossy(&bytes))?;
    Ok(Exit::Ok)
}

pub(super) fn man(version: &'static str, dir: &Path) -> Result<Exit, HarnessError> {
    let mut command = Arguments::command().version(version);
    command.build();
    std::fs::create_dir_all(dir).and_then(|()| pages(command, dir)).map_err(|error| {
        let dir = dir.display();
        HarnessError::failed(format!("cannot write manual pages to {dir}: {error}"))
            .remedy("name another directory")
    })?;
    output::print(&format!("manual pages written to {}", dir.display()));
    Ok(Exit::Ok)
}

/// Writes the pages of a command and its subcommands, readable by all users.
fn pages(command: clap::Command, dir: &Path) -> io::Result<()> {
    for subcommand in command.get_subcommands().filter(|command| !command.is_hide_set()).cloned() {
        pages(subcommand, dir)?;
    }
    let page = clap_mangen::Man::new(command);
    let path = dir.join(page.get_filename());
    write_at_once(&path, |mut output| page.render(&mut output))?;
    #[cfg(unix)]
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
    Ok(())
}
