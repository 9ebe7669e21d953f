//! Its call, compiled.

use client::url::BaseUrl;
use config::step::Step;
use text::template::CompiledText;
use text::yaml::YamlNode;
use text::yaml_place::at;

use crate::compiler::Compiler;

/// A line to send to the target, which answers with the same line.
pub struct EchoCall {
    /// The target; only its host and port are used.
    pub base: BaseUrl,
    /// The line, without its end.
    pub line: CompiledText,
}

impl EchoCall {
    /// How a plan is explained: what it sends, and nothing more.
    pub(super) fn explained(&self, label: &str) -> (String, Vec<String>) {
        (format!("{label} to {}", self.base), Vec::new())
    }
}

/// The name of an action that has none.
pub(super) fn label(line: &str) -> String {
    format!("echo {line}")
}

impl Compiler<'_> {
    pub(super) fn echo(&mut self, step: &Step, line: &str, node: &YamlNode) -> Option<EchoCall> {
        let place = at(node, &["echo"]);
        Some(EchoCall {
            base: self.targets.named(step, (node, place), &mut self.texts.faults)?,
            line: self.texts.text(line, place)?,
        })
    }
}
