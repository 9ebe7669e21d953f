//! Makes one log of the logs of shards.
//!
//! The iterations keep their numbers, which are their numbers in the whole load. Their times are moved to one clock,
//! and the numbers of their faults and addresses to one table. Blocks are taken in the order of their ends, as one
//! process would have written them; no more than one block of each shard is in memory.

use std::collections::HashMap;
use std::io::{self, Read};
use std::net::IpAddr;

use super::reader::{Flaws, LogReader};
use super::run_log::header;
use super::{End, Frame, Header, LogError, LogFile, LogWriter, ShardStart};
use crate::errors::{Failure, NumberedFailure};
use crate::rows::Rows;
use base::clock::Nanos;

/// The log of a shard: the part that says what is in it.
pub struct ShardLog {
    file: LogFile,
    /// What ran.
    pub header: Header,
    /// When its load began; absent if it never did.
    pub began: Option<ShardStart>,
}

/// What was read of a shard's log.
#[derive(Clone, Debug, Default)]
pub struct ShardEnding {
    /// How it ended; absent if the log does not say.
    pub end: Option<End>,
    /// What the log has beside whole frames.
    pub flaws: Flaws,
    /// Its iterations.
    pub rows: u64,
    /// When the first of them was due and when the last one ended, on the clock of the merged log.
    pub from_ns: Nanos,
    /// See `from_ns`.
    pub to_ns: Nanos,
    /// The iterations of each workload.
    pub rows_of: Vec<u64>,
}

impl ShardLog {
    /// The log in this file.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn open(file: LogFile) -> Result<Self, LogError> {
        let mut reader = file.open()?;
        let header = header(&mut reader, &file)?;
        let mut began = None;
        for frame in reader {
            match frame? {
                Frame::Began(found) => began = Some(found),
                Frame::Samples(_) | Frame::Users(_) | Frame::End(_) => break,
                Frame::Header(_) | Frame::Failures(_) | Frame::Addresses(_) => {}
            }
        }
        Ok(Self { file, header, began })
    }

    /// Its file's name, for messages.
    #[must_use]
    pub fn path(&self) -> &std::path::Path {
        self.file.path()
    }

    /// How it ended, and what is in it.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn ending(&self) -> Result<ShardEnding, LogError> {
        let mut part = MergeInput::new(self, 0)?;
        while part.advance(&mut Tables::default(), &mut NullSink)? {}
        Ok(part.ending)
    }
}

/// Takes what comes before the samples that refer to it.
trait ReferenceSink {
    fn failures(&mut self, failures: &[NumberedFailure]) -> io::Result<()>;
    fn addresses(&mut self, addresses: &[(u16, IpAddr)]) -> io::Result<()>;
    fn users(&mut self, rows: &Rows) -> io::Result<()>;
}

impl ReferenceSink for LogWriter {
    fn failures(&mut self, failures: &[NumberedFailure]) -> io::Result<()> {
        Self::failures(self, failures)
    }

    fn addresses(&mut self, addresses: &[(u16, IpAddr)]) -> io::Result<()> {
        Self::addresses(self, addresses)
    }

    fn users(&mut self, rows: &Rows) -> io::Result<()> {
        Self::users(self, rows)
    }
}

struct NullSink;

impl ReferenceSink for NullSink {
    fn failures(&mut self, _: &[NumberedFailure]) -> io::Result<()> {
        Ok(())
    }

    fn addresses(&mut self, _: &[(u16, IpAddr)]) -> io::Result<()> {
        Ok(())
    }

    fn users(&mut self, _: &Rows) -> io::Result<()> {
        Ok(())
    }
}

/// Writes the iterations of all these logs, each with how far its times are moved. `told` hears now and then how many
/// were written.
///
/// # Errors
/// One cannot be read, or the new one cannot be written.
pub fn merge(
    logs: &[(ShardLog, Nanos)],
    writer: &mut LogWriter,
    told: &mut dyn FnMut(u64),
) -> Result<Vec<ShardEnding>, LogError> {
    let mut tables = Tables::default();
    let mut parts = Vec::with_capacity(logs.len());
    for (log, shift_ns) in logs {
        let mut part = MergeInput::new(log, *shift_ns)?;
        part.advance(&mut tables, writer)?;
        parts.push(part);
    }
    while let Some(next) = earliest(&parts) {
        let part = &mut parts[next];
        writer.samples(&part.rows).map_err(LogError::Visitor)?;
        part.advance(&mut tables, writer)?;
        told(writer.rows());
    }
    writer.seal().map_err(LogError::Visitor)?;
    Ok(parts.into_iter().map(|part| part.ending).collect())
}

/// The part whose block ends first.
fn earliest(parts: &[MergeInput]) -> Option<usize> {
    let ends = parts.iter().enumerate().filter_map(|(index, part)| Some((part.block_end_ns?, index)));
    ends.min().map(|(_, index)| index)
}

/// The numbers that faults and addresses have in the new log.
#[derive(Default)]
struct Tables {
    failures: HashMap<Failure, u32>,
    addresses: HashMap<IpAddr, u16>,
}

/// A log that is being read.
struct MergeInput {
    reader: LogReader<Box<dyn Read>>,
    shift_ns: Nanos,
    /// New numbers by old ones.
    failures: HashMap<u32, u32>,
    addresses: HashMap<u16, u16>,
    /// The block that comes next.
    rows: Rows,
    block_end_ns: Option<Nanos>,
    ending: ShardEnding,
}

impl MergeInput {
    fn new(log: &ShardLog, shift_ns: Nanos) -> Result<Self, LogError> {
        Ok(Self {
            reader: log.file.open()?,
            shift_ns,
            failures: HashMap::new(),
            addresses: HashMap::new(),
            rows: Rows::default(),
            block_end_ns: None,
            ending: ShardEnding {
                rows_of: vec![0; log.header.workloads.len()],
                from_ns: Nanos::MAX,
                ..ShardEnding::default()
            },
        })
    }

    /// Reads on to the next block; false at the end of the log.
    fn advance(&mut self, tables: &mut Tables, before: &mut dyn ReferenceSink) -> Result<bool, LogError> {
        self.block_end_ns = None;
        let mut unread_end = 0;
        while let Some(frame) = self.reader.next() {
            match frame? {
                Frame::Samples(mut rows) => {
                    self.take(&mut rows);
                    self.rows = rows;
                    return Ok(true);
                }
                Frame::Users(mut rows) => {
                    self.renumber(&mut rows);
                    before.users(&rows).map_err(LogError::Visitor)?;
                }
                Frame::Failures(failures) => {
                    let new = self.number_failures(failures, tables);
                    if !new.is_empty() {
                        before.failures(&new).map_err(LogError::Visitor)?;
                    }
                }
                Frame::Addresses(addresses) => {
                    let new = self.number_addresses(&addresses, tables);
                    if !new.is_empty() {
                        before.addresses(&new).map_err(LogError::Visitor)?;
                    }
                }
                Frame::End(json) => {
                    self.ending.end = serde_json::from_slice(&json).ok();
                    unread_end = if self.ending.end.is_none() { json.len() as u64 } else { 0 };
                }
                Frame::Header(_) | Frame::Began(_) => {}
            }
        }
        self.ending.flaws = self.reader.flaws();
        self.ending.flaws.damaged += u64::from(unread_end > 0);
        self.ending.flaws.damaged_bytes += unread_end;
        Ok(false)
    }

    /// Moves the times of a block, and numbers what it refers to.
    fn take(&mut self, rows: &mut Rows) {
        let mut last_ns = 0;
        self.renumber(rows);
        for head in &mut rows.heads {
            let end_ns = head.start_ns.saturating_add(head.duration_ns);
            last_ns = last_ns.max(end_ns);
            self.ending.from_ns = self.ending.from_ns.min(head.due_ns);
            if let Some(rows) = self.ending.rows_of.get_mut(usize::from(head.workload)) {
                *rows += 1;
            }
        }
        self.ending.rows += rows.heads.len() as u64;
        self.ending.to_ns = self.ending.to_ns.max(last_ns);
        self.block_end_ns = Some(last_ns);
    }

    fn renumber(&self, rows: &mut Rows) {
        for head in &mut rows.heads {
            head.due_ns = head.due_ns.saturating_add(self.shift_ns);
            head.start_ns = head.start_ns.saturating_add(self.shift_ns);
            if head.error != 0 {
                // A text that is missing in this log must not become another one's.
                head.error = self.failures.get(&head.error).copied().unwrap_or(u32::MAX);
            }
        }
        for action in &mut rows.actions {
            if action.phases.address != 0 {
                action.phases.address = self.addresses.get(&action.phases.address).copied().unwrap_or(0);
            }
        }
    }

    /// Faults that the new log does not have yet.
    fn number_failures(
        &mut self,
        failures: Vec<NumberedFailure>,
        tables: &mut Tables,
    ) -> Vec<NumberedFailure> {
        let mut new = Vec::new();
        for NumberedFailure { number: old, failure } in failures {
            let next = u32::try_from(tables.failures.len() + 1).unwrap_or(u32::MAX);
            let number = *tables.failures.entry(failure.clone()).or_insert_with(|| {
                new.push(NumberedFailure { number: next, failure });
                next
            });
            self.failures.insert(old, number);
        }
        new
    }

    /// Addresses that the new log does not have yet.
    fn number_addresses(&mut self, addresses: &[(u16, IpAddr)], tables: &mut Tables) -> Vec<(u16, IpAddr)> {
        let mut new = Vec::new();
        for (old, address) in addresses {
            let next = u16::try_from(tables.addresses.len() + 1).unwrap_or(0);
            let number = *tables.addresses.entry(*address).or_insert_with(|| {
                new.push((next, *address));
                next
            });
            self.addresses.insert(*old, number);
        }
        new
    }
}
