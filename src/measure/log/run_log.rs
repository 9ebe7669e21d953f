//! The log of a run as its users see it: what ran, and one pass over its iterations for any number of visitors.
//!
//! A run may have several logs, one of each part that made load: they share the run's id and seed, and the numbers of
//! their iterations never meet. `bench run` writes one.

use std::cell::Cell;
use std::io::Read;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use super::reader::{Flaws, LogReader};
use super::{End, Frame, Header, LogError, LogFile};
use crate::errors::NumberedFailure;
use crate::ids::RunIds;
use crate::rows::{Rows, SampleRow};
use base::clock::Nanos;
use terms::sla::Sla;

thread_local! {
    static DECODES: Cell<u64> = const { Cell::new(0) };
}

/// How often this thread has decoded a log, for tests: reading one is the larger part of a report.
#[doc(hidden)]
#[must_use]
pub fn decodes() -> u64 {
    DECODES.get()
}

/// Makes something of the iterations of a log, block by block.
pub trait Visitor {
    /// Texts of faults that the following iterations refer to by their numbers.
    fn failures(&mut self, _failures: &[NumberedFailure]) {}

    /// Addresses that the following requests refer to by their numbers.
    fn addresses(&mut self, _addresses: &[(u16, IpAddr)]) {}

    /// False if it does not look at the requests of iterations: then they may be missing.
    fn needs_requests(&self) -> bool {
        true
    }

    /// What virtual users did around their iterations.
    fn users(&mut self, _rows: &Rows) {}

    /// Iterations, in the order of the log.
    ///
    /// # Errors
    /// Why the pass is to end here, such as an output that cannot be written.
    fn rows(&mut self, rows: &Rows) -> std::io::Result<()>;
}

/// Who is told how far a pass is: bytes that were read, and how many there are.
type PassProgress = Arc<dyn Fn(u64, u64) + Send + Sync>;

/// The log of a run.
#[derive(Clone)]
pub struct RunLog {
    /// What ran.
    pub header: Header,
    parts: Vec<LogFile>,
    ids: RunIds,
    criteria_replaced: bool,
    /// Iterations that ended later are left out.
    until_ns: Nanos,
    told: Option<PassProgress>,
}

/// What a pass has met beside iterations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ending {
    /// How the run ended; absent when the log does not say.
    pub end: Option<End>,
    /// What the log has beside whole frames.
    pub flaws: Flaws,
}

impl RunLog {
    /// The log with this name.
    ///
    /// # Errors
    /// No log, another version, another file, or no header that can be read.
    pub fn open(path: &Path) -> Result<Self, LogError> {
        Self::of(LogFile::at(path))
    }

    /// The log in this file.
    ///
    /// # Errors
    /// See [`RunLog::open`].
    pub fn of(part: LogFile) -> Result<Self, LogError> {
        let header = header(&mut part.open()?, &part)?;
        let ids = RunIds::new(header.id_seed, header.control);
        Ok(Self {
            ids,
            header,
            parts: vec![part],
            criteria_replaced: false,
            until_ns: Nanos::MAX,
            told: None,
        })
    }

    /// Its name, for messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.parts[0].path()
    }

    /// The ids of its iterations.
    #[must_use]
    pub fn ids(&self) -> RunIds {
        self.ids
    }

    /// Gives every workload other criteria than those that the run was made with. What ended the load was one of those.
    pub fn replace_criteria(&mut self, criteria: Vec<Sla>) {
        for (workload, sla) in self.header.workloads.iter_mut().zip(criteria) {
            workload.sla = sla;
        }
        self.criteria_replaced = true;
    }

    /// Leaves out iterations that ended later, on the run's clock.
    pub fn leave_out_after(&mut self, until_ns: Nanos) {
        self.until_ns = until_ns;
    }

    /// Says how far each pass is, often: bytes that were read, and how many there are.
    pub fn tell(&mut self, told: impl Fn(u64, u64) + Send + Sync + 'static) {
        self.told = Some(Arc::new(told));
    }

    /// Reads every iteration once, for all these visitors.
    ///
    /// # Errors
    /// The log cannot be read, or what a visitor says.
    pub fn visit(&self, visitors: &mut [&mut dyn Visitor]) -> Result<Ending, LogError> {
        DECODES.set(DECODES.get() + 1);
        let mut ending = Ending::default();
        let of = self.parts.iter().map(LogFile::bytes).sum();
        let mut before = 0;
        for part in &self.parts {
            let mut reader = part.open()?;
            let told = |read| self.told.iter().for_each(|told| told(before + read, of));
            visit_part(&mut reader, (self.until_ns, &told), visitors, &mut ending)?;
            before += reader.next_at();
        }
        self.told.iter().for_each(|told| told(of, of));
        if let Some(end) = ending.end.as_mut().filter(|_| self.criteria_replaced) {
            end.aborted_by = None;
        }
        Ok(ending)
    }
}

fn visit_part<R: Read>(
    reader: &mut LogReader<R>,
    (until_ns, told): (Nanos, &dyn Fn(u64)),
    visitors: &mut [&mut dyn Visitor],
    ending: &mut Ending,
) -> Result<(), LogError> {
    let mut unread_end = 0;
    if !visitors.iter().any(|visitor| visitor.needs_requests()) {
        reader.heads_only();
    }
    while let Some(frame) = reader.next() {
        told(reader.next_at());
        match frame? {
            Frame::Samples(all) => {
                let rows = if until_ns == Nanos::MAX { all } else { ended_by(&all, until_ns) };
                visitors.iter_mut().try_for_each(|visitor| visitor.rows(&rows)).map_err(LogError::Visitor)?;
                reader.reuse(rows);
            }
            Frame::Users(rows) => visitors.iter_mut().for_each(|visitor| visitor.users(&rows)),
            Frame::Failures(failures) => {
                visitors.iter_mut().for_each(|visitor| visitor.failures(&failures));
            }
            Frame::End(json) => {
                ending.end = serde_json::from_slice(&json).ok();
                unread_end = if ending.end.is_none() { json.len() as u64 } else { 0 };
            }
            Frame::Addresses(addresses) => {
                visitors.iter_mut().for_each(|visitor| visitor.addresses(&addresses));
            }
            Frame::Header(_) | Frame::Began(_) => {}
        }
    }
    ending.flaws = reader.flaws();
    // An end that says nothing is not the end of a log that was cut.
    ending.flaws.damaged += u64::from(unread_end > 0);
    ending.flaws.damaged_bytes += unread_end;
    Ok(())
}

fn ended_by(all: &Rows, until_ns: Nanos) -> Rows {
    let mut rows = Rows::default();
    let has_ended = |row: &SampleRow<'_>| row.head.start_ns.saturating_add(row.head.duration_ns) <= until_ns;
    all.iter().filter(has_ended).for_each(|row| rows.push_row(row));
    rows
}

/// What ran, as the log's first frame says.
pub(super) fn header<R: Read>(reader: &mut LogReader<R>, log: &LogFile) -> Result<Header, LogError> {
    let first = reader.next().transpose()?;
    let name = || log.path().display().to_string();
    match first {
        Some(Frame::Header(json)) if reader.flaws().damaged == 0 => {
            serde_json::from_slice(&json).map_err(|_| LogError::DamagedHeader(name()))
        }
        None if reader.flaws().damaged == 0 => Err(LogError::NoHeader(name())),
        _ => Err(LogError::DamagedHeader(name())),
    }
}
