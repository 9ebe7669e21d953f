//! Rally's runners as runners of a scenario, which have the same names and keys.

use config::check::check;
use text::diagnostics::{Fault, SourceVisibility};
use text::yaml::{YamlKey, YamlNode, YamlValue};

use super::nodes::{NodeFactory, as_number, without_nulls};
use super::schema::RUNNERS;
use super::task::{NamedSettings, known};

/// The runner of a scenario; without one, a single iteration. Adds faults.
pub(super) fn runner(
    named: Option<&NamedSettings>,
    at: &NodeFactory,
    shown: &SourceVisibility,
    faults: &mut Vec<Fault>,
) -> Option<YamlNode> {
    let Some(named) = named else { return Some(at.map([("serial", at.map([("times", at.int(1))]))])) };
    let at = NodeFactory(named.key.span.clone());
    let settings = without_nulls(&named.settings);
    let runners = RUNNERS.iter().map(|(name, schema)| (*name, (*name, schema)));
    let (name, schema) = known(named, "the runner", runners, faults)?;
    let found = check(&settings, schema, shown);
    if !found.is_empty() {
        faults.extend(found.into_iter().map(|fault| Fault {
            message: fault.message.replace("the document", &format!("`{name}`")),
            span: fault.span.filter(|span| *span != settings.span).or(Some(named.key.span.clone())),
            ..fault
        }));
        return None;
    }
    let number = |key: &str| settings.get(key).and_then(as_number);
    let mut entries = Entries { at: at.clone(), settings: settings.clone() };
    if number("timeout") == Some(0.0) {
        // Rally: no limit; here, the usual one.
        entries.remove("timeout");
    }
    const WORKERS_MAX: f64 = 1024.0;
    if number("max_cpu_count").is_some_and(|count| count > WORKERS_MAX) {
        entries.remove("max_cpu_count");
    }
    let mut kind = name;
    match name {
        "serial" => entries.default("times", 1),
        "constant" if number("concurrency").unwrap_or(1.0) > number("times").unwrap_or(1.0) => {
            let place = settings.get("concurrency").map_or(named.key.span.clone(), |node| node.span.clone());
            let fault = Fault::error(place, "more iterations at the same time than there are");
            faults.push(fault.help("raise `times`, or lower `concurrency`; Rally refuses this, too"));
            return None;
        }
        "constant_for_duration" => {
            entries.default("concurrency", 1);
            if number("duration") == Some(0.0) {
                // As in Rally: one iteration for each user.
                let users = settings.get("concurrency").cloned().unwrap_or_else(|| at.int(1));
                entries.remove("duration");
                entries.add("times", users);
                kind = "constant";
            }
        }
        _ => {}
    }
    if let Some(steps) = settings.get("rps")
        && let (Some(start), Some(end)) =
            (steps.get("start").and_then(as_number), steps.get("end").and_then(as_number))
        && end < start
    {
        let fault = Fault::error(steps.span.clone(), "`end` of the rate is less than its `start`");
        faults.push(fault.help("a rate only rises; exchange the two"));
        return None;
    }
    Some(at.map([(kind, entries.settings)]))
}

/// The entries of a map that are being changed.
struct Entries {
    at: NodeFactory,
    settings: YamlNode,
}

impl Entries {
    fn default(&mut self, name: &str, value: i64) {
        if self.settings.get(name).is_none() {
            let node = self.at.int(value);
            self.add(name, node);
        }
    }

    fn add(&mut self, name: &str, node: YamlNode) {
        if let YamlValue::Map(entries) = &mut self.settings.kind {
            entries.push((YamlKey { name: name.to_owned(), span: node.span.clone() }, node));
        }
    }

    fn remove(&mut self, name: &str) {
        if let YamlValue::Map(entries) = &mut self.settings.kind {
            entries.retain(|(key, _)| key.name != name);
        }
    }
}
