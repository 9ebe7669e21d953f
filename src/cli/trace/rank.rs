//! `bench trace rank`: Mistral's ranking of trace points.

use std::io::BufRead;
use std::path::{Path, PathBuf};

use crate::analysis::ranking::Ranking;
use crate::analysis::statement;
use crate::cli::exit::{Exit, Stopped};
use crate::cli::say;
use crate::collect::files::{Kind, TraceRecords};
use crate::osprofiler::profile_log;
use crate::osprofiler::report::TraceTree;
use crate::report::trace::ranking;

use super::sources::{self, SourceArguments};
use super::{Grouping, words};

/// Rank trace points by the time that they took, as Mistral's script does.
///
/// A line for each name, in seconds: total, longest, average, how often. Times are inclusive: a point counts
/// in the points around it too (`bench trace stats` tells them apart). Of a profile log the table equals that
/// of Mistral's rank_profiled_methods.py to the byte, its omissions included; they are told, and --all counts
/// them. Lines that are none of such a log are counted and told.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct RankArguments {
    #[command(flatten)]
    source: SourceArguments,
    /// What makes a row, of traces that are not in a log.
    #[arg(long, value_enum, default_value_t = Grouping::Name)]
    by: Grouping,
    /// Count also what Mistral's script leaves out (1000 s and more), and keep names with blanks whole.
    #[arg(long)]
    all: bool,
    /// The file to write (default: standard output).
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn rank(arguments: &RankArguments) -> Result<Exit, Stopped> {
    let named = arguments.source.named()?;
    let mut ranking = Ranking::default();
    if named.ids.is_empty() && named.runs.is_empty() && !named.files.is_empty() {
        for path in &named.files {
            let opened = sources::open(path)?;
            match opened.kind {
                Kind::Log => rank_log(path, opened.reader, arguments.all, &mut ranking)?,
                Kind::Json => {
                    let traces = sources::read(path, opened, &[])?.traces;
                    traces.iter().for_each(|trace| add(&mut ranking, trace, arguments.by));
                }
            }
        }
    } else {
        let traces = arguments.source.load()?;
        traces.iter().for_each(|trace| add(&mut ranking, trace, arguments.by));
    }
    words(arguments.output.as_deref(), |out| ranking::write(&ranking, out))?;
    tell(&ranking);
    Ok(Exit::Ok)
}

fn add(ranking: &mut Ranking, trace: &TraceRecords, by: Grouping) {
    let tree = TraceTree::build(&trace.records);
    ranking.add_trace(&tree, |index| {
        let point = &tree.points[index];
        match by {
            Grouping::Name => point.name.clone(),
            Grouping::Detail => format!("{} {}", point.name, statement::kind(point)).trim_end().to_owned(),
        }
    });
}

/// A log may be of any size: its lines are counted as they are read.
fn rank_log(path: &Path, log: Box<dyn BufRead>, all: bool, ranking: &mut Ranking) -> Result<(), Stopped> {
    let counted = profile_log::each_line(log, |number, line| ranking.add_line(number, line, all));
    counted
        .map_err(|error| Stopped::new(Exit::Input, format!("error: cannot read {}: {error}", path.display())))
}

fn tell(ranking: &Ranking) {
    if let Some((number, error)) = ranking.first_malformed {
        say(&format!(
            "warning: {} none of a profile log and left out; the first: line {number} {error}",
            match ranking.malformed {
                1 => "1 line is".to_owned(),
                lines => format!("{lines} lines are"),
            }
        ));
    }
    if ranking.too_long > 0 {
        say(&format!(
            "warning: {} points of 1000 s and more were left out, as Mistral's script does; count them with --all",
            ranking.too_long
        ));
    }
    if ranking.incomplete > 0 {
        say(&format!(
            "warning: {} points lack their start or their stop and were left out",
            ranking.incomplete
        ));
    }
}
