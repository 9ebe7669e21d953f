//! Signs trace headers for manual requests, and verifies them.

use std::collections::BTreeMap;
use std::path::Path;

use uuid::Uuid;

use crate::error::HarnessError;
use crate::event::{Sink, warn};
use crate::files;
use crate::options::{Environment, YamlFile};
use base::secret::Secret;
use osprofiler::signing::{Signer, X_TRACE_HMAC, X_TRACE_INFO, traceparent};
use osprofiler::verifying::ServerKeys;
use plan::deployment::ResolvedDeployment;

/// The headers of a request that is traced.
pub struct SignedHeaders {
    /// The trace's id.
    pub base_id: Uuid,
    /// Names and values.
    pub headers: Vec<(&'static str, String)>,
}

/// Signs headers with a deployment's key. Without an id the trace gets a new one; without a parent point the request is
/// its root.
///
/// # Errors
/// What is wrong with the deployment, or that it has no key.
pub fn sign(
    deployment: &YamlFile,
    base_id: Option<Uuid>,
    parent_id: Option<Uuid>,
    events: &Sink,
) -> Result<SignedHeaders, HarnessError> {
    let path = deployment.path();
    let deployment = deployment_with_key(deployment, events)?;
    let base_id = base_id.unwrap_or_else(Uuid::new_v4);
    let parent_id = parent_id.unwrap_or(base_id);
    let signer = deployment.hmac_key().and_then(Signer::new).ok_or_else(|| no_key(path))?;
    let signed = signer.for_base(base_id).sign(parent_id);
    let headers = vec![
        (X_TRACE_INFO, signed.trace_info().to_owned()),
        (X_TRACE_HMAC, signed.hmac().to_owned()),
        ("traceparent", traceparent(base_id, parent_id).as_str().to_owned()),
    ];
    Ok(SignedHeaders { base_id, headers })
}

/// Checks whether a deployment's services accept headers.
pub struct Verifier(ServerKeys);

impl Verifier {
    /// Uses the keys of this deployment.
    ///
    /// # Errors
    /// What is wrong with the deployment, or that it has no key.
    pub fn new(deployment: &YamlFile, events: &Sink) -> Result<Self, HarnessError> {
        let deployment = deployment_with_key(deployment, events)?;
        let keys: Vec<&str> = deployment.hmac_keys.iter().map(Secret::expose).collect();
        Ok(Self(ServerKeys::parse(&keys.join(","))))
    }

    /// Reads headers from a JSON object; returns the trace and the parent point, or why the headers are rejected.
    ///
    /// # Errors
    /// What is wrong with the JSON.
    pub fn verify(&self, json: &str) -> Result<Result<[String; 2], String>, HarnessError> {
        let headers: BTreeMap<String, String> = serde_json::from_str(json).map_err(|error| {
            let example = r#"{"X-Trace-Info": "…", "X-Trace-HMAC": "…"}"#;
            HarnessError::input(format!("standard input is not a JSON object of headers: {error}"))
                .remedy(format!("give it {example}"))
        })?;
        let find = |wanted: &str| {
            let found = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
            found.map_or(&b""[..], |(_, value)| value.as_bytes())
        };
        Ok(match self.0.verify(find(X_TRACE_INFO), find(X_TRACE_HMAC)) {
            Ok(context) => Ok([context.base_id, context.parent_id]),
            Err(rejection) => Err(rejection.to_string()),
        })
    }
}

fn deployment_with_key(file: &YamlFile, events: &Sink) -> Result<ResolvedDeployment, HarnessError> {
    let deployment = files::deployment(file, &Environment::default())?;
    warn(events, &deployment.warnings);
    if deployment.hmac_keys.is_empty() {
        return Err(no_key(file.path()));
    }
    Ok(deployment)
}

fn no_key(path: &Path) -> HarnessError {
    HarnessError::input(format!("{} has no HMAC key", path.display())).remedy(
        "add it under `profiler.hmac_key` (for the demo: `bench demo --deployment FILE` writes a deployment with its key)",
    )
}
