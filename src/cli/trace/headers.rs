//! Prints signed trace headers, and checks whether headers would be accepted.

use std::io::Read as _;
use std::path::Path;

use uuid::Uuid;

use super::HeaderFormat;
use crate::exit::Exit;
use crate::progress::ProgressDisplay;
use crate::{output, say};
use harness::HarnessError;
use harness::traces::headers::{Verifier, sign};

const STDIN_BYTES_MAX: u64 = 1 << 20;

pub(super) fn print_signed(
    path: &Path,
    base_id: Option<Uuid>,
    parent_id: Option<Uuid>,
    format: HeaderFormat,
) -> Result<Exit, HarnessError> {
    let signed = sign(&path.into(), base_id, parent_id, &ProgressDisplay::new(false).sink())?;
    let text = match format {
        HeaderFormat::Curl => {
            let arguments = signed.headers.iter().map(|(name, value)| format!("-H '{name}: {value}'"));
            arguments.collect::<Vec<_>>().join(" ")
        }
        HeaderFormat::Json => {
            let pairs = signed.headers.into_iter().map(|(name, value)| (name.to_owned(), value.into()));
            format!("{:#}", serde_json::Value::Object(pairs.collect()))
        }
    };
    say(&format!("trace id {}", signed.base_id));
    output::deliver(&text)?;
    Ok(Exit::Ok)
}

pub(super) fn verify(path: &Path) -> Result<Exit, HarnessError> {
    let verifier = Verifier::new(&path.into(), &ProgressDisplay::new(false).sink())?;
    let mut text = String::new();
    let read = std::io::stdin().take(STDIN_BYTES_MAX).read_to_string(&mut text);
    read.map_err(|error| HarnessError::input(format!("standard input cannot be read: {error}")))?;
    match verifier.verify(&text)? {
        Ok([base_id, parent_id]) => {
            output::print(&format!("accepted: trace {base_id}, below point {parent_id}"));
            Ok(Exit::Ok)
        }
        Err(rejection) => {
            output::print(&format!("rejected: failed to {rejection}"));
            Ok(Exit::Failed)
        }
    }
}
