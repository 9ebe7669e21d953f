//! What receivers kept of a run: its own receiver, or the receivers of the shards that it was merged from.

use std::path::{Path, PathBuf};

use uuid::Uuid;

use collect::mask_record;
use measure::log::{Header, RunLog};
use osprofiler::record::TraceRecord;
use receive::spool::stored::{StoredError, StoredSpans};
use results::directory::RunDirectory;
use results::head;
use results::model::ReceivedSpans;

/// The kept traces of a run.
pub(super) struct RunSpools {
    spools: Vec<StoredSpans>,
}

impl RunSpools {
    /// The kept traces of the run in this directory; none if nothing was received. The run directories of shards are
    /// looked for under their names, and beside the merged run.
    pub(super) fn of(run_dir: &Path) -> std::io::Result<Self> {
        let mut spools: Vec<StoredSpans> = StoredSpans::open(run_dir)?.into_iter().collect();
        if let Ok(log) = RunLog::open(&RunDirectory::open(run_dir).log()) {
            for directory in shards(run_dir, &log.header) {
                spools.extend(StoredSpans::open(&directory)?);
            }
        }
        Ok(Self { spools })
    }

    /// True if nothing was received.
    pub(super) fn is_empty(&self) -> bool {
        self.spools.is_empty()
    }

    /// The ids of all traces, in no particular order.
    pub(super) fn trace_ids(&self) -> impl Iterator<Item = Uuid> + '_ {
        self.spools.iter().flat_map(StoredSpans::trace_ids).map(Uuid::from_u128)
    }

    /// True if spans of this trace are here.
    pub(super) fn has(&self, trace_id: Uuid) -> bool {
        self.spools.iter().any(|spool| spool.has(trace_id.as_u128()))
    }

    /// The masked records of a trace, oldest first; none if it is not here.
    pub(super) fn records(&self, trace_id: Uuid) -> Result<Vec<TraceRecord>, StoredError> {
        let mut all = Vec::new();
        for spool in &self.spools {
            all.extend(spool.records(trace_id)?);
        }
        all.sort_by(|one, other| one.timestamp.cmp(&other.timestamp));
        all.iter_mut().for_each(mask_record);
        Ok(all)
    }
}

/// The run directories of a run's shards that are there.
fn shards(run_dir: &Path, header: &Header) -> Vec<PathBuf> {
    let beside = |named: &Path| Some(run_dir.parent()?.join(named.file_name()?));
    let found = |named: &str| {
        let named = Path::new(named);
        Some(named.to_path_buf()).filter(|path| path.is_dir()).or_else(|| beside(named))
    };
    header.shards.iter().filter_map(|shard| found(&shard.directory)).collect()
}

/// What the receivers of a merged run's shards received, together; `None` if they had none.
pub(super) fn received(run_dir: &Path, header: &Header) -> Option<ReceivedSpans> {
    let of = |directory: PathBuf| {
        // Without a receiver there is nothing to learn from a file that may be large.
        StoredSpans::is_in(&directory).then_some(())?;
        let results = head::read(&RunDirectory::open(&directory).results()).ok()?;
        results.profiling.received
    };
    shards(run_dir, header).into_iter().filter_map(of).reduce(ReceivedSpans::and)
}
