//! Faults of a collector's connection string, found before anything connects.

use crate::base::diagnostics::Fault;
use crate::base::yaml::Node;
use crate::config::check::did_you_mean;
use crate::osprofiler::driver::{Collector, DriverError, schemes};

/// Why a collector's connection string cannot be read. What stands in the environment or in another file is not shown.
pub(super) fn fault(connection: &str, written: bool, node: &Node) -> Option<Fault> {
    match Collector::check(connection) {
        Err(DriverError::Invalid { reason, .. }) => {
            let message = "the connection string of the collector cannot be read";
            Some(Fault::error(node.span.clone(), message).help(reason))
        }
        Err(DriverError::Unsupported { scheme }) => {
            let message = match written {
                true => format!("no collector `{scheme}` is known"),
                false => "the connection string names no collector that is known".to_owned(),
            };
            let help = match did_you_mean(scheme.trim_end_matches("://"), schemes()) {
                Some(known) => format!("did you mean `{known}://`?"),
                None => format!(
                    "known are: {}",
                    schemes().iter().map(|scheme| format!("{scheme}://")).collect::<Vec<_>>().join(", ")
                ),
            };
            Some(Fault::error(node.span.clone(), message).help(help))
        }
        // What this build leaves out is warned of, and whether the collector is there is seen by the run.
        _ => None,
    }
}
