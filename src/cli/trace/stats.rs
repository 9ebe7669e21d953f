//! `bench trace stats`: trace points as Python's profiler shows functions.

use std::path::PathBuf;

use clap::ValueEnum;

use crate::exit::Exit;
use crate::say;
use ::report::document::terminal;
use ::report::trace::{functions as report, stats};
use analysis::call_stats::SortKey;
use harness::HarnessError;
use harness::traces::StatsProfiles;

use super::sources::SourceArguments;
use super::{Grouping, words};

/// Count calls of trace points as Python's pstats does, and write its profiles.
///
/// ncalls (all calls, and those not within another call of their kind), tottime (own time), cumtime (own time and that
/// of the points below), and both per call, in seconds. --prof writes the same for `python3 -m pstats` and SnakeViz.
#[derive(Debug, clap::Args)]
pub(crate) struct StatsArguments {
    #[command(flatten)]
    source: SourceArguments,
    /// The sort key: largest first, names from A to Z.
    #[arg(long, value_enum, default_value_t = Sort::Cumtime)]
    sort: Sort,
    /// Count the functions that services sampled and reported with their traces, instead of trace points. ncalls are
    /// samples.
    #[arg(long, conflicts_with_all = ["by", "unweighted", "prof_dir"])]
    functions: bool,
    /// What makes a row.
    #[arg(long, value_enum, default_value_t = Grouping::Detail)]
    by: Grouping,
    /// How many rows to print.
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
    /// Count each trace of a run once. By default each counts for the iterations like it: half are slow ones.
    #[arg(long)]
    unweighted: bool,
    /// Write a profile of all traces together instead of the table.
    #[arg(long, value_name = "FILE")]
    prof: Option<PathBuf>,
    /// Write a profile of each trace to a directory, named after its id: `DIR/ID.prof`.
    #[arg(long, value_name = "DIR", conflicts_with = "prof")]
    prof_dir: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Sort {
    /// Time including the points below.
    Cumtime,
    /// Own time.
    Tottime,
    /// Number of calls.
    Ncalls,
    /// Name.
    Name,
}

impl Sort {
    fn key(self) -> SortKey {
        match self {
            Self::Cumtime => SortKey::Cumulative,
            Self::Tottime => SortKey::Own,
            Self::Ncalls => SortKey::Calls,
            Self::Name => SortKey::Name,
        }
    }
}

fn functions(arguments: &StatsArguments) -> Result<Exit, HarnessError> {
    let found = arguments.source.source().functions(arguments.prof.as_deref())?;
    if let Some(path) = &arguments.prof {
        say(&format!("read it with: python3 -m pstats {}", path.display()));
        return Ok(Exit::Ok);
    }
    let document = report::document(&found, arguments.sort.key(), arguments.limit);
    words(None, |out| writeln!(out, "{}", terminal::text(&document, crate::output::style())))?;
    Ok(Exit::Ok)
}

pub(super) fn stats(arguments: &StatsArguments) -> Result<Exit, HarnessError> {
    if arguments.functions {
        return functions(arguments);
    }
    let profiles = StatsProfiles { all: arguments.prof.clone(), each: arguments.prof_dir.clone() };
    let (all, weighted) =
        arguments.source.source().stats(arguments.by.into(), &profiles, !arguments.unweighted)?;
    if let Some(path) = &arguments.prof {
        say(&format!("read it with: python3 -m pstats {}", path.display()));
    } else if let Some(directory) = &arguments.prof_dir {
        say(&format!("{} profiles in {}", all.traces, directory.display()));
    } else {
        let document = stats::document(&all, weighted.as_ref(), arguments.sort.key(), arguments.limit);
        words(None, |out| writeln!(out, "{}", terminal::text(&document, crate::output::style())))?;
    }
    Ok(Exit::Ok)
}
