//! Finds faults in a collector's connection string before anything connects.

use osprofiler::driver::{Collector, DriverError, schemes};
use text::diagnostics::Fault;
use text::similar::did_you_mean;
use text::yaml::YamlNode;

/// The fault of a collector's connection string, if any. It does not show values from the environment or other files.
pub(super) fn fault(connection: &str, written: bool, node: &YamlNode) -> Option<Fault> {
    match Collector::check(connection) {
        Err(DriverError::Invalid { reason, .. }) => {
            let message = "the connection string of the collector cannot be read";
            Some(Fault::error(node.span.clone(), message).help(reason))
        }
        Err(DriverError::Unsupported { scheme }) => {
            let message = match written {
                true => format!("unknown collector `{scheme}`"),
                false => "the connection string names an unknown collector".to_owned(),
            };
            let help = match did_you_mean(scheme.trim_end_matches("://"), schemes()) {
                Some(known) => format!("did you mean `{known}://`?"),
                None => format!(
                    "known schemes: {}",
                    schemes().iter().map(|scheme| format!("{scheme}://")).collect::<Vec<_>>().join(", ")
                ),
            };
            Some(Fault::error(node.span.clone(), message).help(help))
        }
        // A collector that this build leaves out causes a warning elsewhere; an unreachable one is found by the run.
        _ => None,
    }
}
