//! `bench demo`.

use std::path::Path;

use harness::HarnessError;
use harness::demo::StandaloneDemo;

use super::exit::Exit;
use super::output;
use super::signals::Wait;

/// Serves the demo until it is interrupted.
pub(super) fn serve(deployment: Option<&Path>, dir: Option<&Path>) -> Result<Exit, HarnessError> {
    // From here on a signal ends the demo in order: its temporary directory goes too.
    let signal = Wait::listen()?;
    let served = StandaloneDemo::start(dir, deployment)?;
    let demo = served.demo();
    output::print(&format!(
        "{}\n\nurl        {}\nhmac key   {}\ncollector  {}",
        demo.describe().join("\n"),
        demo.url(),
        demo.hmac_key().expose(),
        demo.connection_string().expose()
    ));
    if let Some(path) = deployment {
        output::print(&format!("deployment {}", path.display()));
    }
    output::print("\nCtrl-C ends it.");
    signal.wait();
    let summary = served.stop();
    output::print(&format!(
        "served {} requests, {} of them traced, {} with a wrong signature; {} records stored, {} dropped",
        summary.requests,
        summary.traced,
        summary.rejected_signatures,
        summary.records_written,
        summary.records_dropped
    ));
    Ok(Exit::Ok)
}
