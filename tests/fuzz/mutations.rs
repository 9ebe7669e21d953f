//! Valid files with random damage: each is accepted, or refused with printable faults; nothing panics.
//!
//! They are read in a process of their own. What stands where a secret belongs is hidden from then on, and a part of an
//! address may come to stand there.

use std::path::Path;

use bench::plan::deployment::{self, ResolvedDeployment};
use bench::plan::references::Env;
use bench::plan::scenario::{self, PlanOptions};
use bench::text::diagnostics::{Fault, SourceText, render};
use bench::text::yaml;
use proptest::prelude::*;

const DEPLOYMENT: &str = include_str!("../vectors/everything/deployment.yaml");
const SCENARIO: &str = include_str!("../vectors/everything/scenario.yaml");

/// One way to damage a text; positions are taken modulo its length.
#[derive(Clone, Debug)]
enum Damage {
    DeleteLine(usize),
    RepeatLine(usize),
    MoveLine(usize, usize),
    ReplaceLine(usize, &'static str),
    Indent(usize, usize),
    DeleteBytes(usize, usize),
    InsertBytes(usize, &'static [u8]),
    FlipByte(usize, u8),
    CutOff(usize),
    ReplaceWord(usize, &'static str),
}

const LINES: [&str; 14] = [
    "runner: constant",
    "variables: &a { b: *a }",
    "  <<: *iteration",
    "  - think: 1s",
    "---",
    "\tx: 1",
    "openstack: {}",
    "  - get: '{{ {{ }}'",
    "  ? [x, y]",
    "sla: *sla",
    "  password: \"open",
    "timeout: 99999999999999999999999999999h",
    "existing@openstack: { admin: ~ }",
    "\u{202e}\u{feff}é\u{1f600}: \u{85}",
];

const WORDS: [&str; 12] = [
    "~",
    "-1",
    "1e400",
    "9223372036854775808",
    "{{ 1 / 0 }}",
    "{% for x in range(9) %}",
    "[]",
    "{}",
    "*iteration",
    "\"\\u0000\"",
    "日本",
    "!!int",
];

const BYTES: [&[u8]; 8] = [b"\0", b"\xff", b"{", b"]", b"\"", b"\r", b"\xef\xbb\xbf", b": "];

fn damage() -> impl Strategy<Value = Damage> {
    let at = any::<usize>();
    prop_oneof![
        at.prop_map(Damage::DeleteLine),
        at.prop_map(Damage::RepeatLine),
        (at, at).prop_map(|(from, to)| Damage::MoveLine(from, to)),
        (at, proptest::sample::select(&LINES[..])).prop_map(|(at, line)| Damage::ReplaceLine(at, line)),
        (at, 0..9_usize).prop_map(|(at, width)| Damage::Indent(at, width)),
        (at, 1..30_usize).prop_map(|(at, length)| Damage::DeleteBytes(at, length)),
        (at, proptest::sample::select(&BYTES[..])).prop_map(|(at, bytes)| Damage::InsertBytes(at, bytes)),
        (at, any::<u8>()).prop_map(|(at, byte)| Damage::FlipByte(at, byte)),
        at.prop_map(Damage::CutOff),
        (at, proptest::sample::select(&WORDS[..])).prop_map(|(at, word)| Damage::ReplaceWord(at, word)),
    ]
}

fn damaged(bytes: &[u8], damage: &Damage) -> Vec<u8> {
    let mut lines: Vec<Vec<u8>> = bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    let (count, mut all) = (lines.len(), bytes.to_vec());
    let length = all.len().max(1);
    match *damage {
        Damage::DeleteLine(at) => drop(lines.remove(at % count)),
        Damage::RepeatLine(at) => lines.insert(at % count, lines[at % count].clone()),
        Damage::MoveLine(from, to) => lines.swap(from % count, to % count),
        Damage::ReplaceLine(at, line) => lines[at % count] = line.as_bytes().to_vec(),
        Damage::Indent(at, width) => {
            let line = &mut lines[at % count];
            let text = line.trim_ascii_start().to_vec();
            *line = [vec![b' '; width], text].concat();
        }
        Damage::DeleteBytes(at, width) => {
            let start = (at % length).min(all.len());
            all.drain(start..(start + width).min(all.len()));
            return all;
        }
        Damage::InsertBytes(at, bytes) => {
            let start = (at % length).min(all.len());
            all.splice(start..start, bytes.iter().copied());
            return all;
        }
        Damage::FlipByte(at, byte) => {
            if let Some(other) = all.get_mut(at % length) {
                *other ^= byte;
            }
            return all;
        }
        Damage::CutOff(at) => {
            all.truncate(at % length);
            return all;
        }
        Damage::ReplaceWord(at, word) => {
            let line = &mut lines[at % count];
            if let Some(colon) = line.iter().position(|byte| *byte == b':') {
                line.truncate(colon + 1);
                line.extend_from_slice(format!(" {word}").as_bytes());
            }
        }
    }
    lines.join(&b'\n')
}

fn env(_: &str) -> Option<String> {
    Some("http://value:1".to_owned())
}

/// Faults can be shown, and there is at least one.
fn show(source: &SourceText, faults: &[Fault]) {
    assert!(!faults.is_empty());
    let text = render(source, faults, false);
    assert!(text.contains("error: "), "{text}");
    assert!(!text.contains(['\u{1b}', '\0', '\u{202e}']), "{text:?}");
}

fn read_deployment(bytes: &[u8]) -> Option<ResolvedDeployment> {
    let source = match yaml::source("d.yaml", bytes) {
        Ok(source) => source,
        Err(faulty) => {
            show(&faulty.0, &[faulty.1]);
            return None;
        }
    };
    match deployment::load(Path::new("d.yaml"), source, Env::new(&env)) {
        Ok(deployment) => Some(deployment),
        Err(rejected) => {
            show(&rejected.source, &rejected.faults);
            None
        }
    }
}

fn read_scenario(bytes: &[u8], deployment: &ResolvedDeployment) {
    let path = Path::new("s.yaml");
    let Ok(source) = yaml::source("s.yaml", bytes) else { return };
    let options = PlanOptions::default();
    match scenario::read(source) {
        Ok(document) => {
            if let Err(faults) =
                scenario::build(path, &document, deployment.clone(), &options, Env::new(&env))
            {
                show(&document.source, &faults);
            }
            // Without its deployment a scenario may have fewer faults, and some that it shares.
            let _ = scenario::faults_without_deployment(path, &document, None, &options, Env::new(&env));
        }
        Err(mut rejected) => {
            let before = rejected.faults.len();
            scenario::find_further(path, &mut rejected, Some(deployment), &options, Env::new(&env));
            assert!(rejected.faults.len() >= before);
            show(&rejected.source, &rejected.faults);
        }
    }
}

fn good_deployment() -> ResolvedDeployment {
    read_deployment(b"targets: { default: 'http://h', other: 'http://o' }").unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn no_damage_to_a_scenario_makes_it_panic(damages in prop::collection::vec(damage(), 1..6)) {
        let bytes = damages.iter().fold(SCENARIO.as_bytes().to_vec(), |bytes, one| damaged(&bytes, one));
        read_scenario(&bytes, &good_deployment());
    }

    #[test]
    fn no_damage_to_a_deployment_makes_it_panic(damages in prop::collection::vec(damage(), 1..6)) {
        let bytes = damages.iter().fold(DEPLOYMENT.as_bytes().to_vec(), |bytes, one| damaged(&bytes, one));
        read_deployment(&bytes);
    }

    #[test]
    fn no_template_makes_it_panic(template in "[{}% a-z0-9()\\[\\].|'\"+*/~,-]{0,60}") {
        let quoted = serde_json::Value::from(format!("{{{{ {template} }}}}"));
        let text = format!("title: t\nrunner: {{ serial: {{ times: 1 }} }}\niteration:\n  - {{ get: /, body: {quoted} }}\n");
        read_scenario(text.as_bytes(), &good_deployment());
    }
}

/// A scenario whose parts nest as deep as they may.
#[test]
fn templates_that_nest_deep_are_refused() {
    for open in ["(", "[", "{'a':", "not ", "-", "a if ", "a.b(", "{% if a %}"] {
        let text = format!("{{{{ {} }}}}", open.repeat(20_000));
        let text = format!(
            "title: t\nrunner: {{ serial: {{ times: 1 }} }}\niteration:\n  - {{ get: /, body: {} }}\n",
            serde_json::Value::from(text)
        );
        read_scenario(text.as_bytes(), &good_deployment());
    }
}
