//! What a virtual user does around its iterations, compiled.

use std::sync::Arc;

use config::data::Per;
use config::step;
use text::diagnostics::Fault;
use text::yaml::YamlNode;
use text::yaml_place::at;

use super::compiler::Compiler;
use super::data::Feeder;
use super::step::PlanStep;

/// What a virtual user does around its iterations, as written, with the places of the lists.
#[derive(Clone, Copy)]
pub(super) struct WrittenUser<'a> {
    pub(super) setup: (&'a [step::Step], &'a YamlNode),
    pub(super) teardown: (&'a [step::Step], &'a YamlNode),
}

impl<'a> WrittenUser<'a> {
    /// Without any step.
    pub(super) fn none(node: &'a YamlNode) -> Self {
        Self { setup: (&[], node), teardown: (&[], node) }
    }

    /// With the lists that are written at `node` in place of its own.
    pub(super) fn replaced(
        self,
        (setup, teardown): (&'a Option<Vec<step::Step>>, &'a Option<Vec<step::Step>>),
        node: &'a YamlNode,
    ) -> Self {
        let list = |own: &'a Option<Vec<step::Step>>, key: &str, outer| match own {
            Some(own) => (own.as_slice(), at(node, &[key])),
            None => outer,
        };
        Self {
            setup: list(setup, "user_setup", self.setup),
            teardown: list(teardown, "user_teardown", self.teardown),
        }
    }
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
