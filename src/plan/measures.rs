//! The numbers that actions take from their answers, compiled.

use std::sync::Arc;

use config::step;
use text::diagnostics::Fault;
use text::yaml::YamlNode;
use text::yaml_place::{at, key_span};

use super::compiler::Compiler;
use super::condition::{Extract, ResponseLocation};

/// The most metrics of a workload.
const MEASURES_MAX: usize = 100;
/// The longest name of a metric, in characters.
const CHARS_MAX: usize = 100;

/// A number to take from an answer.
pub struct AnswerMeasure {
    /// The number of its name within the workload.
    pub index: u16,
    /// The name of its metric.
    pub name: Arc<str>,
    /// The number's place in the answer.
    pub place: ResponseLocation,
}

impl Compiler<'_> {
    pub(super) fn measures(&mut self, step: &step::Step, node: &YamlNode) -> Vec<AnswerMeasure> {
        let mut measures = Vec::new();
        for (name, config) in step.measure.iter().flatten() {
            let (named_at, place) = (key_span(at(node, &["measure"]), name), at(node, &["measure", name]));
            if let Some(fault) = faulty_name(name) {
                self.texts.faults.push(Fault { span: Some(named_at), ..fault });
                continue;
            }
            let known = self.nesting.measures.iter().position(|known| **known == **name);
            let number = known.unwrap_or_else(|| {
                self.nesting.measures.push(Arc::from(name.as_str()));
                self.nesting.measures.len() - 1
            });
            if known.is_none() && number == MEASURES_MAX {
                let fault = Fault::error(named_at, format!("more than {MEASURES_MAX} metrics"));
                self.texts.faults.push(fault.help("remove some: actions may share a metric by its name"));
            }
            let extract = self.texts.extract(name, &config.as_extract(), place);
            let Some(Extract { variable, place, .. }) = extract else { continue };
            let index = u16::try_from(number).unwrap_or(u16::MAX);
            measures.push(AnswerMeasure { index, name: variable, place });
        }
        measures
    }

    /// Reports numbers that actions outside an iteration take: nothing would record them.
    pub(super) fn without_measures(&mut self, part: &str, node: &YamlNode) {
        if let Some(name) = self.nesting.measures.first() {
            let fault = Fault::error(node.span.clone(), format!("`measure: {{{name}: …}}` in `{part}`"));
            self.texts
                .faults
                .push(fault.help(format!("move it to an action of `iteration`: `{part}` is not measured")));
        }
    }
}

fn faulty_name(name: &str) -> Option<Fault> {
    let known = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-');
    if !name.is_empty() && name.chars().count() <= CHARS_MAX && name.chars().all(known) {
        return None;
    }
    let fault = Fault::file(format!("`{name}` is not a name for a metric"));
    Some(fault.help(format!("write letters, digits, `_`, `.` and `-`, at most {CHARS_MAX}")))
}
