//! Signed trace headers by hand, and whether they would be accepted.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use serde_json::json;
use uuid::Uuid;

use crate::osprofiler::signing::{Signer, X_TRACE_HMAC, X_TRACE_INFO, traceparent};
use crate::osprofiler::verifying::ServerKeys;
use crate::plan::deployment::Deployment;

use super::HeaderFormat;
use crate::cli::exit::{Exit, Stopped};
use crate::cli::{files, output, say};

const STDIN_BYTES_MAX: u64 = 1 << 20;

pub(super) fn headers(
    path: &Path,
    base_id: Option<Uuid>,
    parent_id: Option<Uuid>,
    format: HeaderFormat,
) -> Result<Exit, Stopped> {
    let deployment = deployment_with_key(path)?;
    let base_id = base_id.unwrap_or_else(Uuid::new_v4);
    let parent_id = parent_id.unwrap_or(base_id);
    let signer = deployment.hmac_key.as_ref().and_then(Signer::new).ok_or_else(|| no_key(path))?;
    let signed = signer.for_base(base_id).sign(parent_id);
    let parent = traceparent(base_id, parent_id);
    let text = match format {
        HeaderFormat::Curl => {
            format!(
                "-H '{X_TRACE_INFO}: {}' -H '{X_TRACE_HMAC}: {}' -H 'traceparent: {}'",
                signed.trace_info(),
                signed.hmac(),
                parent.as_str()
            )
        }
        HeaderFormat::Json => format!(
            "{:#}",
            json!({ X_TRACE_INFO: signed.trace_info(), X_TRACE_HMAC: signed.hmac(), "traceparent": parent.as_str() })
        ),
    };
    say(&format!("trace id {base_id}"));
    output::deliver(&text)?;
    Ok(Exit::Ok)
}

pub(super) fn verify(path: &Path) -> Result<Exit, Stopped> {
    let deployment = deployment_with_key(path)?;
    let mut text = String::new();
    std::io::stdin().take(STDIN_BYTES_MAX).read_to_string(&mut text).map_err(|error| {
        Stopped::new(Exit::Input, format!("error: standard input cannot be read: {error}"))
    })?;
    let headers: BTreeMap<String, String> = serde_json::from_str(&text).map_err(|error| {
        let example = r#"{"X-Trace-Info": "…", "X-Trace-HMAC": "…"}"#;
        Stopped::new(
            Exit::Input,
            format!("error: standard input is no JSON object of headers: {error}; give it {example}"),
        )
    })?;
    let find = |wanted: &str| {
        headers
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(wanted))
            .map_or("", |(_, value)| value.as_str())
    };
    let keys: Vec<&str> = deployment.hmac_keys.iter().map(crate::base::secret::Secret::expose).collect();
    let keys = ServerKeys::parse(&keys.join(","));
    match keys.verify(find(X_TRACE_INFO).as_bytes(), find(X_TRACE_HMAC).as_bytes()) {
        Ok(context) => {
            output::print(&format!("accepted: trace {}, below point {}", context.base_id, context.parent_id));
            Ok(Exit::Ok)
        }
        Err(rejection) => {
            output::print(&format!("rejected: failed to {rejection}"));
            Ok(Exit::Failed)
        }
    }
}

fn deployment_with_key(path: &Path) -> Result<Deployment, Stopped> {
    let deployment = files::deployment(path)?;
    files::warn(&deployment.warnings);
    if deployment.hmac_key.is_none() {
        return Err(no_key(path));
    }
    Ok(deployment)
}

fn no_key(path: &Path) -> Stopped {
    let help = "add it under `profiler.hmac_key` (for the demo: `bench demo --deployment FILE` writes a deployment with its key)";
    Stopped::new(Exit::Input, format!("error: {} has no HMAC key; {help}", path.display()))
}
