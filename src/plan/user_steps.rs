//! What a virtual user does around its iterations, compiled.

use std::sync::Arc;

use config::data::Per;
use config::step;
use text::diagnostics::Fault;
use text::yaml::YamlNode;

use super::compiler::Compiler;
use super::data::Feeder;
use super::step::PlanStep;

/// What a virtual user does around its iterations, as written, with the places of the lists.
#[derive(Clone, Copy)]
pub(super) struct WrittenUser<'a> {
    pub(super) setup: (&'a [step::Step], &'a YamlNode),
    pub(super) teardown: (&'a [step::Step], &'a YamlNode),
}

impl Compiler<'_> {
    /// Compiles `user_setup` or `user_teardown`. Later steps can use what they extract.
    pub(super) fn user_steps(
        &mut self,
        part: &str,
        (steps, node): (&[step::Step], &YamlNode),
        data: &[Arc<Feeder>],
    ) -> Vec<PlanStep> {
        if steps.is_empty() {
            return Vec::new();
        }
        let before = self.texts.names.data_used.clone();
        let compiled = self.steps(steps, node);
        self.without_measures(part, node);
        for feeder in data.iter().filter(|feeder| feeder.per() != Per::User) {
            let name = &**feeder.name();
            if self.texts.names.data_used.contains(name) && !before.contains(name) {
                let message = format!("`{part}` uses `{name}`, whose rows are for iterations");
                let fault = Fault::error(node.span.clone(), message);
                self.texts
                    .faults
                    .push(fault.help(format!("add `per: user` to `{name}`: then each user has a row")));
            }
        }
        compiled
    }
}
