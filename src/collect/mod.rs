//! Rank 8: from trace ids to trace trees, after the load.
//!
//! Nothing here may run while the load does. A collector that is down, slow or wrong costs a note,
//! never the run and never the ids.

pub mod files;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use uuid::Uuid;

use crate::base::secret::Secret;
use crate::osprofiler::driver::{Collector, DriverError};
use crate::results::model::TraceState;
use crate::results::trace::StoredTrace;

/// How long services may take to write the last points of a trace.
const SETTLE_MAX: Duration = Duration::from_secs(5);
const POLL_EVERY: Duration = Duration::from_millis(250);

/// What the collector gave.
#[derive(Debug, Default)]
pub struct Fetched {
    /// One entry for each id that was asked for, absent ones included.
    pub traces: Vec<StoredTrace>,
    /// The collector's last error, if it cost a trace.
    pub error: Option<String>,
}

/// Asks the collector whether it answers.
///
/// # Errors
/// Why not, with the host but without its password.
pub async fn probe(connection: &Secret) -> Result<(), String> {
    let collector = Collector::connect(connection).await.map_err(|error| error.chain())?;
    collector.probe().await.map_err(|error| error.chain())
}

/// Fetches the traces of `ids`. A trace is settled when it is complete and two looks in a row find
/// the same number of points; the others are taken as they are when the time is up.
pub async fn fetch(connection: &Secret, ids: &[Uuid]) -> Fetched {
    let mut fetched = Fetched::default();
    let collector = match Collector::connect(connection).await {
        Ok(collector) => collector,
        Err(error) => return Fetched { error: Some(error.chain()), ..fetched },
    };
    let started = Instant::now();
    let mut latest: HashMap<Uuid, StoredTrace> = HashMap::new();
    let mut waiting: Vec<Uuid> = ids.to_vec();
    loop {
        let mut unsettled = Vec::new();
        let mut asking = waiting.into_iter();
        while let Some(id) = asking.next() {
            match collector.records(&id.to_string()).await {
                Ok(records) => {
                    let trace = StoredTrace::new(id, records);
                    let points = trace.points.len();
                    let before = latest.insert(id, trace);
                    let stable = before.is_some_and(|before| before.points.len() == points);
                    if !(stable && latest[&id].state == TraceState::Complete) {
                        unsettled.push(id);
                    }
                }
                Err(error) => {
                    if error.is_transient() {
                        unsettled.push(id);
                    }
                    // What does not answer at all would cost the same wait for each of the others.
                    if matches!(error, DriverError::Connect { .. } | DriverError::Timeout { .. }) {
                        unsettled.extend(asking.by_ref());
                    }
                    fetched.error = Some(error.chain());
                }
            }
        }
        waiting = unsettled;
        if waiting.is_empty() || started.elapsed() >= SETTLE_MAX {
            break;
        }
        tokio::time::sleep(POLL_EVERY).await;
    }
    fetched.traces = ids.iter().filter_map(|id| latest.remove(id)).collect();
    if fetched.traces.len() == ids.len() {
        fetched.error = None;
    }
    fetched
}
