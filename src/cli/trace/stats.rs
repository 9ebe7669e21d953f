//! `bench trace stats`: trace points as Python's profiler shows functions.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use crate::analysis::call_stats::{CallStats, Function, SortKey};
use crate::analysis::statement;
use crate::base::files::write_output;
use crate::cli::exit::{Exit, Stopped};
use crate::cli::say;
use crate::osprofiler::report::TraceTree;
use crate::report::trace::{pstats, stats};

use super::sources::SourceArguments;
use super::{Grouping, words};

/// Count calls of trace points as Python's pstats does, and write its profiles.
///
/// ncalls (all, and those that are not within another of their kind), tottime (without what lies below), cumtime (with
/// it), and both for each call, in seconds. With --prof the same is written for `python3 -m pstats` and SnakeViz.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct StatsArguments {
    #[command(flatten)]
    source: SourceArguments,
    /// By what to sort: the largest first, names from A to Z.
    #[arg(long, value_enum, default_value_t = Sort::Cumtime)]
    sort: Sort,
    /// What makes a row.
    #[arg(long, value_enum, default_value_t = Grouping::Detail)]
    by: Grouping,
    /// How many rows to print.
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
    /// Write a profile of all traces together instead of the table.
    #[arg(long, value_name = "FILE")]
    prof: Option<PathBuf>,
    /// Write a profile for each trace into a directory, named by its id: `DIR/ID.prof`.
    #[arg(long, value_name = "DIR", conflicts_with = "prof")]
    prof_dir: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Sort {
    /// Time with all that lies below.
    Cumtime,
    /// Time without it.
    Tottime,
    /// Number of calls.
    Ncalls,
    /// Name.
    Name,
}

pub(super) fn stats(arguments: &StatsArguments) -> Result<Exit, Stopped> {
    let traces = arguments.source.load()?;
    let mut all = CallStats::default();
    for (number, trace) in traces.iter().enumerate() {
        let tree = TraceTree::build(&trace.records);
        add(&mut all, &tree, arguments.by);
        if let Some(directory) = &arguments.prof_dir {
            let mut one = CallStats::default();
            add(&mut one, &tree, arguments.by);
            write_profile(&directory.join(format!("{}.prof", file_name(&trace.base_id, number))), &one)?;
        }
    }
    if let Some(path) = &arguments.prof {
        write_profile(path, &all)?;
        say(&format!("read it with: python3 -m pstats {}", path.display()));
    } else if let Some(directory) = &arguments.prof_dir {
        say(&format!("{} profiles in {}", traces.len(), directory.display()));
    } else {
        let by = match arguments.sort {
            Sort::Cumtime => SortKey::Cumulative,
            Sort::Tottime => SortKey::Own,
            Sort::Ncalls => SortKey::Calls,
            Sort::Name => SortKey::Name,
        };
        words(None, |out| stats::write(&all, by, arguments.limit, out))?;
    }
    Ok(Exit::Ok)
}

fn add(stats: &mut CallStats, tree: &TraceTree, by: Grouping) {
    stats.add(tree, |index| {
        let point = &tree.points[index];
        let name = match by {
            Grouping::Name => point.name.clone(),
            Grouping::Detail => statement::name_and_kind(point),
        };
        Function { place: point.reporter(), name }
    });
}

fn write_profile(path: &Path, stats: &CallStats) -> Result<(), Stopped> {
    let written = path
        .parent()
        .map_or(Ok(()), std::fs::create_dir_all)
        .and_then(|()| write_output(path, |out| pstats::write(stats, out)));
    written.map_err(|error| {
        Stopped::new(Exit::Failed, format!("error: cannot write {}: {error}", path.display()))
    })
}

/// An id comes from outside: only what is safe in a file's name stays of it.
fn file_name(base_id: &str, number: usize) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let usable = !base_id.is_empty() && base_id.len() <= 100 && base_id.chars().all(safe);
    if usable { base_id.to_owned() } else { format!("trace-{number}") }
}
