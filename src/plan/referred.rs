//! Resolves the references that stand in place of a step's texts.

use std::path::Path;
use std::sync::Arc;

use base::complaint::Complaint;
use base::masking;
use config::reference::Reference;
use config::referred::TextReference;
use text::diagnostics::Fault;
use text::template::Value;

use super::compiler::Compiler;
use super::references::resolve;

impl Compiler<'_> {
    /// Resolves the references that stand in place of texts. A reference that cannot be resolved is a fault, and the
    /// rest is checked as if it could.
    pub(super) fn refer(&mut self, referred: &[TextReference], folder: &Path) {
        for TextReference { variable, reference, span } in referred {
            if !self.texts.names.known.insert(variable.clone()) {
                continue;
            }
            match resolve(reference, folder, self.env) {
                Ok(secret) => {
                    if !self.env.is_offline() {
                        masking::hide(secret.expose());
                    }
                    self.referred.push((Arc::from(variable.as_str()), Value::from(secret.expose())));
                }
                Err(complaint) => {
                    let key = if matches!(reference, Reference::File(_)) { "file" } else { "env" };
                    let own = format!("if you mean the map itself, write {{{key}: \"{{{{ '…' }}}}\"}}");
                    let remedy = format!("{}; {own}", complaint.remedy);
                    self.texts.faults.push(Fault::of(span.clone(), Complaint::new(complaint.what, remedy)));
                }
            }
        }
    }
}
