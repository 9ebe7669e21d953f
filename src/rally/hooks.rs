//! Hooks: programs that a task starts in the middle of its load, such as faults in the service.

use config::check::check;
use text::diagnostics::Fault;
use text::shell;
use text::yaml::{YamlNode, YamlValue};

use super::nodes::{as_text, without_nulls};
use super::schema::TRIGGERS;
use super::task::{self, known};

/// The most hooks of a workload.
const HOOKS_MAX: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// What it is for; may be empty.
    pub description: String,
    /// The program and its arguments.
    pub program: Vec<String>,
    /// When it is started.
    pub trigger: Trigger,
}

/// What a trigger counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Iterations that have started, from 1.
    Iteration,
    /// Seconds since the workload's start, from 0.
    Time,
}

impl Unit {
    /// Rally's word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Iteration => "iteration",
            Self::Time => "time",
        }
    }
}

/// When a hook is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// What it counts.
    pub unit: Unit,
    values: TriggerSchedule,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum TriggerSchedule {
    /// In order, each once.
    These(Vec<u64>),
    Every {
        start: u64,
        step: u64,
        end: u64,
    },
}

impl std::fmt::Display for Hook {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words: Vec<String> = self.program.iter().map(|word| shell::word(word)).collect();
        write!(formatter, "{} {}", self.trigger, words.join(" "))
    }
}

impl std::fmt::Display for Trigger {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const NAMED_MAX: usize = 5;
        let (before, after) = match self.unit {
            Unit::Iteration => ("at iteration ", ""),
            Unit::Time => ("after ", " s"),
        };
        match &self.values {
            TriggerSchedule::These(values) => {
                let named: Vec<String> = values.iter().take(NAMED_MAX).map(u64::to_string).collect();
                let more = if values.len() > NAMED_MAX { " …" } else { "" };
                write!(formatter, "{before}{}{more}{after}:", named.join(", "))
            }
            TriggerSchedule::Every { start, step, end: u64::MAX } => {
                write!(formatter, "{before}{start}{after} and every {step}{after} from there:")
            }
            TriggerSchedule::Every { start, step, end } => {
                write!(formatter, "{before}{start}{after} and every {step}{after} up to {end}{after}:")
            }
        }
    }
}

impl Trigger {
    /// The first value from `least` on at which the hook is started.
    #[must_use]
    pub fn next(&self, least: u64) -> Option<u64> {
        match &self.values {
            TriggerSchedule::These(values) => values.iter().copied().find(|value| *value >= least),
            TriggerSchedule::Every { start, step, end } => {
                let steps = least.saturating_sub(*start).div_ceil(*step);
                let value = start.checked_add(steps.checked_mul(*step)?)?;
                (value <= *end).then_some(value)
            }
        }
    }
}

/// The hooks of a workload; adds the faults of those that cannot be used.
pub(super) fn read(hooks: &[task::TaskHook], faults: &mut Vec<Fault>) -> Vec<Hook> {
    if let Some(first) = hooks.get(HOOKS_MAX) {
        let message = format!("more than {HOOKS_MAX} hooks in one workload");
        faults.push(Fault::error(first.action.key.span.clone(), message).help("remove some"));
    }
    hooks.iter().filter_map(|hook| one(hook, faults)).collect()
}

fn one(hook: &task::TaskHook, faults: &mut Vec<Fault>) -> Option<Hook> {
    let program = known(&hook.action, "the hook", [("sys_call", ())].into_iter(), faults)
        .and_then(|()| program(&hook.action.settings, faults));
    let trigger =
        known(&hook.trigger, "the trigger", TRIGGERS.iter().map(|(name, s)| (*name, (*name, s))), faults)
            .and_then(|(name, schema)| trigger(name, &hook.trigger.settings, schema, faults));
    Some(Hook { description: hook.description.clone(), program: program?, trigger: trigger? })
}

fn program(node: &YamlNode, faults: &mut Vec<Fault>) -> Option<Vec<String>> {
    let words = match &node.kind {
        YamlValue::Text { text, .. } => split(text),
        _ => Err("`sys_call` needs a command as text"),
    };
    match words {
        Ok(words) if !words.is_empty() => Some(words),
        Ok(_) => {
            let fault = Fault::error(node.span.clone(), "`sys_call` has no command");
            faults.push(fault.help("write the program and its arguments"));
            None
        }
        Err(message) => {
            faults.push(
                Fault::error(node.span.clone(), message)
                    .help("write it as for a shell, such as \"sh -c 'exit 1'\""),
            );
            None
        }
    }
}

fn trigger(
    name: &str,
    settings: &YamlNode,
    schema: &serde_json::Value,
    faults: &mut Vec<Fault>,
) -> Option<Trigger> {
    let settings = without_nulls(settings);
    let found = check(&settings, schema, &text::diagnostics::SourceVisibility::default());
    if !found.is_empty() {
        faults.extend(found);
        return None;
    }
    let unit = settings.get("unit").and_then(as_text);
    let unit = if unit.as_deref() == Some("time") { Unit::Time } else { Unit::Iteration };
    let whole = |node: &YamlNode| {
        if let YamlValue::Int(value) = node.kind { u64::try_from(value).ok() } else { None }
    };
    let number = |key: &str| settings.get(key).and_then(whole);
    let least = if unit == Unit::Time { 0 } else { 1 };
    let mut below = |node: &YamlNode| {
        let fault = Fault::error(node.span.clone(), "iterations count from 1");
        faults.push(fault.help("write 1 or more"));
    };
    let values = if name == "event" {
        let list = settings.get("at").map(YamlNode::items).unwrap_or_default();
        list.iter().filter(|node| whole(node).is_some_and(|value| value < least)).for_each(&mut below);
        let mut values: Vec<u64> = list.iter().filter_map(whole).collect();
        values.sort_unstable();
        values.dedup();
        TriggerSchedule::These(values)
    } else {
        settings.get("start").filter(|node| whole(node).is_some_and(|value| value < least)).map(&mut below);
        let start = number("start").unwrap_or(least).max(least);
        TriggerSchedule::Every { start, step: number("step")?.max(1), end: number("end").unwrap_or(u64::MAX) }
    };
    Some(Trigger { unit, values })
}

/// The words of a command, as Python's `shlex.split` gives them: quotes and backslashes, no expansion.
fn split(text: &str) -> Result<Vec<String>, &'static str> {
    let (mut words, mut word, mut rest) = (Vec::new(), None::<String>, text.chars());
    while let Some(c) = rest.next() {
        match c {
            c if c.is_whitespace() => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next() {
                        Some('\'') => break,
                        Some(c) => word.push(c),
                        None => return Err("a quote in the command is not closed"),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next() {
                        Some('"') => break,
                        Some('\\') => match rest.next() {
                            Some(c @ ('"' | '\\')) => word.push(c),
                            Some(c) => word.extend(['\\', c]),
                            None => return Err("a quote in the command is not closed"),
                        },
                        Some(c) => word.push(c),
                        None => return Err("a quote in the command is not closed"),
                    }
                }
            }
            '\\' => match rest.next() {
                Some(c) => word.get_or_insert_default().push(c),
                None => return Err("the command ends in a backslash"),
            },
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    if words.iter().any(|word| word.contains('\0')) {
        return Err("the command has a character that no program can get");
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn commands_are_split_as_python_does() {
        for (text, expected) in [
            ("/bin/echo a  b", Ok("/bin/echo|a|b")),
            ("sh -c 'sleep 1; exit \"3\"'", Ok("sh|-c|sleep 1; exit \"3\"")),
            ("a \"b \\\" c\" d\\ e ''", Ok("a|b \" c|d e|")),
            ("a | b > c", Ok("a|b|>|c").and(Ok("a|||b|>|c"))),
            ("a 'b", Err("not closed")),
            ("a \"b\\", Err("not closed")),
            ("a \\", Err("backslash")),
            ("  ", Ok("")),
        ] {
            match (split(text), expected) {
                (Ok(words), Ok(expected)) => assert_eq!(words.join("|"), expected, "{text}"),
                (Err(message), Err(part)) => assert!(message.contains(part), "{text}: {message}"),
                (words, _) => panic!("{text}: {words:?}"),
            }
        }
    }

    #[test]
    fn triggers_give_their_values_in_order() {
        let every = |start, step, end| TriggerSchedule::Every { start, step, end };
        for (values, expected) in [
            (TriggerSchedule::These(vec![2, 5, 9]), &[2, 5, 9][..]),
            (every(1, 3, 8), &[1, 4, 7]),
            (every(4, 10, u64::MAX), &[4, 14, 24]),
            (every(0, u64::MAX, u64::MAX), &[0, u64::MAX]),
            (every(5, 1, 4), &[]),
        ] {
            let trigger = Trigger { unit: Unit::Iteration, values };
            let mut found = Vec::new();
            let mut next = trigger.next(0);
            while let Some(value) = next.filter(|_| found.len() < 3) {
                found.push(value);
                next = value.checked_add(1).and_then(|least| trigger.next(least));
            }
            assert_eq!(found, expected, "{trigger:?}");
        }
    }

    proptest! {
        #[test]
        fn no_command_makes_it_panic(text in ".{0,60}") {
            let _ = split(&text);
        }
    }
}
