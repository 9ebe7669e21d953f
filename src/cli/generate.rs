//! What other programs read: schemas, shell completions, manual pages.

use std::path::Path;

use clap::CommandFactory as _;

use crate::config::schema;
use crate::report::{compare, pairs};
use crate::results::json::schema as results_schema;

use super::exit::{Exit, Stopped};
use super::{Arguments, SchemaKind};

pub(super) fn schema(kind: SchemaKind) -> Result<Exit, Stopped> {
    let schema = match kind {
        SchemaKind::Scenario => schema::SCENARIO.clone(),
        SchemaKind::Deployment => schema::DEPLOYMENT.clone(),
        SchemaKind::Results => results_schema(),
        SchemaKind::Ab => pairs::schema(),
        SchemaKind::Compare => compare::schema(),
        SchemaKind::History => compare::history_schema(),
    };
    super::print(&format!("{schema:#}"))?;
    Ok(Exit::Ok)
}

pub(super) fn completions(shell: clap_complete::Shell) -> Result<Exit, Stopped> {
    let mut bytes = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "bench", &mut bytes);
    super::print(&String::from_utf8_lossy(&bytes))?;
    Ok(Exit::Ok)
}

pub(super) fn man(dir: &Path) -> Result<Exit, Stopped> {
    let written =
        std::fs::create_dir_all(dir).and_then(|()| clap_mangen::generate_to(Arguments::command(), dir));
    written.map_err(|error| {
        let dir = dir.display();
        let text = format!("error: cannot write manual pages to {dir}: {error}; name another directory");
        Stopped::new(Exit::Failed, text)
    })?;
    super::print(&format!("manual pages written to {}", dir.display()))?;
    Ok(Exit::Ok)
}
