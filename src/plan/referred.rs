//! Resolves the references that stand in place of a step's texts.

use std::path::Path;
use std::sync::Arc;

use base::complaint::Complaint;
use base::masking;
use config::reference::Reference;
use config::referred::TextReference;
use text::diagnostics::Fault;
use text::template::Value;

use super::references::{self, Env};
use super::texts::TextCompiler;

/// The variables that stand in place of references.
pub(super) struct ReferredVariables<'a> {
    /// How references are resolved.
    env: Env<'a>,
    /// Their names and values.
    pub(super) values: Vec<(Arc<str>, Value)>,
}

impl<'a> ReferredVariables<'a> {
    pub(super) fn new(env: Env<'a>) -> Self {
        Self { env, values: Vec::new() }
    }

    /// Resolves the references that stand in place of texts. A reference that cannot be resolved is a fault, and the
    /// rest is checked as if it could.
    pub(super) fn resolve(
        &mut self,
        referred: &[TextReference],
        folder: &Path,
        texts: &mut TextCompiler<'_>,
    ) {
        for TextReference { variable, reference, span } in referred {
            if !texts.names.known.insert(variable.clone()) {
                continue;
            }
            match references::resolve(reference, folder, self.env) {
                Ok(secret) => {
                    if !self.env.is_offline() {
                        masking::hide(secret.expose());
                    }
                    self.values.push((Arc::from(variable.as_str()), Value::from(secret.expose())));
                }
                Err(complaint) => {
                    let key = if matches!(reference, Reference::File(_)) { "file" } else { "env" };
                    let own = format!("if you mean the map itself, write {{{key}: \"{{{{ '…' }}}}\"}}");
                    let remedy = format!("{}; {own}", complaint.remedy);
                    texts.faults.push(Fault::of(span.clone(), Complaint::new(complaint.what, remedy)));
                }
            }
        }
    }
}
