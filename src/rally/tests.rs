//! Which texts are tasks, what becomes of them, and that no text does harm.

use proptest::prelude::*;

use super::*;

fn read_text(text: &str) -> Result<Task, RejectedFile> {
    let files = ArgumentFiles { read: &|name| Err(format!("no file {name}")), find: &|name| name.to_owned() };
    read(RenderedTask::plain(SourceText::new("task.yaml", text)), "fallback", &files)
}

#[test]
fn tasks_are_told_from_other_files() {
    for (text, expected) in [
        ("version: 2\ntitle: t\nsubtasks:\n- title: x", true),
        ("---\n  Dummy.dummy:\n    -\n      args: {}", true),
        ("{\"Dummy.dummy\": [{\"args\": {}}]}", true),
        ("{\n    \"Dummy.dummy\": [\n        {}\n    ]\n}", true),
        (
            "{% set x = 1 %}\nNovaServers.list_servers:\n{% for i in range(x) %}\n- args: {}\n{% endfor %}",
            true,
        ),
        // A main file that only chooses and includes.
        (
            "{%- from 'm.yaml' import run -%}\n---\n{% if x %}\n{%- include 'var/web.yaml' -%}\n{% endif %}\n",
            true,
        ),
        ("{%- from 'm.yaml' import run -%}\n---\n", false),
        // With a template, JSON on a line of its own is no YAML.
        (
            "{\"version\": 2, \"title\": \"t\", \"subtasks\": [{\"title\": \"s\", \"times\": {{ n|default(1) }}}]}",
            true,
        ),
        ("{% set n = 1 %}{\"Dummy.dummy\": [{\"times\": {{ n }}}]}", true),
        ("{\"title\": \"t\", \"times\": {{ n }}}", false),
        ("title: t\ndeployment: d.yaml\nrunner: { serial: { times: 1 } }\niteration: [{ get: / }]", false),
        ("title: t\nrunner: {}\niteration:\n- post: /\n  json:\n    A.b:\n    - 1", false),
        ("openstack: { auth_url: http://k }", false),
        ("targets: { default: http://h }", false),
        ("", false),
        ("title: only", false),
    ] {
        assert_eq!(is_task(text), expected, "{text}");
    }
}

#[test]
fn a_task_becomes_a_scenario_and_a_record() {
    let text = "version: 2\ntitle: ' the   title '\ntags: [a]\nsubtasks:\n- title: s\n  description: d\n  scenario:\n    \
        HttpRequests.check_request: { url: 'http://h:1/{{', method: PURGE, status_code: 204, headers: { X-Auth-Token: abc } }\n\
        - title: u\n  scenario: { Dummy.dummy: {} }\n  runner: { constant_for_duration: { duration: 3 } }\n";
    let task = read_text(text).unwrap_or_else(|rejected| panic!("{:?}", rejected.faults));
    let scenario = serde_json::to_value(&task.document.value).unwrap();
    let expected = serde_json::json!({ "title": "the title", "workloads": [
        {
            "name": "HttpRequests.check_request",
            "runner": { "serial": { "times": 1 } },
            "iteration": [{
                "action": "requests.check_request", "request": "PURGE http://h:1/{{ '{{' }}", "timeout": "10m",
                "redirects": 30, "auth": false, "expect": { "status": 204 }, "headers": { "X-Auth-Token": "abc" },
            }],
            "sla": { "failure_rate": { "max": 0.0 } },
        },
        {
            "name": "Dummy.dummy",
            "runner": { "constant_for_duration": { "duration": 3.0, "concurrency": 1 } },
            "iteration": [{ "group": "foo", "steps": [{ "group": "bar", "steps": [{ "think": "0s" }] }] }],
            "sla": { "failure_rate": { "max": 0.0 } },
        },
    ] });
    assert_eq!(scenario["workloads"][0], expected["workloads"][0], "{scenario}");
    assert_eq!(scenario["workloads"][1]["iteration"], expected["workloads"][1]["iteration"], "{scenario}");
    assert_eq!(scenario["title"], expected["title"]);
    assert_eq!(task.origins, ["http://h:1"]);
    let workload = &task.record.subtasks[0].workloads[0];
    assert_eq!(workload.args["headers"]["X-Auth-Token"], "***");
    assert_eq!((&*task.record.tags[0], &*task.record.subtasks[0].description), ("a", "d"));
    assert_eq!(task.record.subtasks[1].workloads[0].sla["failure_rate"]["max"], 0);
}

#[test]
fn a_file_without_a_title_takes_another() {
    let task = read_text("version: 2\ntitle: ' '\nsubtasks:\n- title: s\n  scenario: { Dummy.dummy: {} }\n")
        .ok()
        .unwrap();
    assert_eq!(task.document.value.title, "fallback");
}

/// A task with something unexpected in a place.
fn with_odd_value(place: usize, odd: &str) -> String {
    let mut places =
        ["version: 2", "title: t", "subtasks:", "- title: s", "scenario:", "Dummy.dummy:", "sleep: 1"];
    let values = ["2", "t", "", "s", "", "", "1"];
    let lines: Vec<String> = places
        .iter_mut()
        .zip(values)
        .enumerate()
        .map(|(index, (line, value))| {
            let indent = ["", "", "", "", "  ", "    ", "      "][index];
            let kept = if index == place {
                line.replace(value, "").replace(": ", ":") + " " + odd
            } else {
                (*line).to_owned()
            };
            format!("{indent}{kept}\n")
        })
        .collect();
    lines.concat()
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "[-a-zA-Z0-9:{}\\[\\],.'\"#%@ \n]{0,200}") {
        let _ = is_task(&text);
        let _ = read_text(&text);
        let _ = read_text(&format!("version: 2\ntitle: t\nsubtasks:\n- title: s\n  scenario: {text}"));
    }

    #[test]
    fn odd_values_are_faults_with_a_place_within_the_file(place in 0_usize..7, odd in "(null|\\[\\]|\\{\\}|-1|1e99|'x'|\\[\\{a: 1\\}\\]|\\{a: \\{b: c\\}\\})") {
        let text = with_odd_value(place, &odd);
        if let Err(rejected) = read_text(&text) {
            for fault in &rejected.faults {
                prop_assert!(fault.span.as_ref().is_none_or(|span| rejected.source.text.get(span.clone()).is_some()));
                prop_assert!(!fault.message.is_empty());
            }
        }
    }

    #[test]
    fn literal_values_stay_what_they_are(text in "(.|\\n){0,40}|[{}%# \\r\\n]{0,6}") {
        // What a template of it renders is the text again.
        let compiled = text::template::Engine::new().compile(&nodes::escaped(&text));
        let compiled = match compiled {
            Ok(compiled) => compiled,
            Err(error) => return Err(TestCaseError::fail(format!("{text:?}: {error:?}"))),
        };
        let mut output = String::new();
        let variables = text::template::Variables::new(std::sync::Arc::default());
        compiled.render(&variables, &mut output).unwrap();
        prop_assert_eq!(output, text);
    }
}

/// YAML 1.1, as Rally reads it.
#[test]
fn plain_values_are_those_of_pyyaml() {
    let text = "HttpRequests.check_request:\n- args: { url: 'http://h:1/', method: GET, status_code: 0xC8, allow_redirects: no }\n  \
        runner: { type: constant, times: 010, concurrency: 0b10, timeout: 1:30 }\n";
    let task = read_text(text).unwrap_or_else(|rejected| panic!("{:?}", rejected.faults));
    let scenario = serde_json::to_value(&task.document.value).unwrap();
    let runner = &scenario["workloads"][0]["runner"]["constant"];
    assert_eq!(runner["times"], 8, "{scenario}");
    assert_eq!(runner["concurrency"], 2, "{scenario}");
    assert_eq!(runner["timeout"], "90s", "{scenario}");
    let step = &scenario["workloads"][0]["iteration"][0];
    assert_eq!((&step["expect"]["status"], &step["redirects"]), (&200.into(), &0.into()), "{scenario}");
}
