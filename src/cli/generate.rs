//! What other programs read: schemas, shell completions, manual pages.

use std::path::Path;

use clap::CommandFactory as _;

use crate::config::schema;
use crate::results::json::schema as results_schema;

use super::exit::{Exit, Stopped};
use super::{Arguments, SchemaKind};

pub(super) fn schema(kind: SchemaKind) -> Result<Exit, Stopped> {
    let schema = match kind {
        SchemaKind::Scenario => schema::SCENARIO.clone(),
        SchemaKind::Deployment => schema::DEPLOYMENT.clone(),
        SchemaKind::Results => results_schema(),
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
    std::fs::create_dir_all(dir)?;
    clap_mangen::generate_to(Arguments::command(), dir)?;
    super::print(&format!("manual pages written to {}", dir.display()))?;
    Ok(Exit::Ok)
}
