//! Bad input files: each is refused with exit code 65, with the place of every fault and what to do about it.

use std::fmt::Write as _;

use bench::harness::options::Environment;
use bench::harness::{HarnessErrorKind, YamlFile, files};

use crate::support::Bench;

/// A deployment without faults.
const DEPLOYMENT: &str =
    "name: dev\ntargets:\n  default: http://127.0.0.1:1\n  placement: http://127.0.0.1:2\n";

/// A folder with a good deployment.
fn folder() -> Bench {
    let bench = Bench::new();
    bench.write("d.yaml", DEPLOYMENT);
    bench
}

/// What `validate` says about a file beside a good deployment, by the function that the program calls.
fn validate(name: &str, content: impl AsRef<[u8]>) -> (Option<i32>, String) {
    let bench = folder();
    bench.write(name, content);
    validated(&bench, name, Environment::default())
}

/// The same in a folder that is there: the exit code, and what the program would print.
fn validated(bench: &Bench, name: &str, environment: Environment) -> (Option<i32>, String) {
    let file = YamlFile::from(bench.path().join(name));
    match files::validate_with(&file, None, &environment, &bench::harness::event::silent()) {
        Ok(_) => (Some(0), String::new()),
        Err(error) => {
            let code = if error.kind() == HarnessErrorKind::Input { Some(65) } else { None };
            let said: Vec<String> = error.reports(false).map(|report| report.text).collect();
            // The program is started in the folder.
            (code, format!("{}\n", said.join("\n\n")).replace(&format!("{}/", bench.path().display()), ""))
        }
    }
}

/// The same for a file that must be refused.
#[track_caller]
fn refused(name: &str, content: impl AsRef<[u8]>) -> String {
    let (code, said) = validate(name, content);
    assert_eq!(code, Some(65), "{said}");
    said
}

/// A scenario with `runner` and `steps` in place of good ones.
fn scenario(runner: &str, steps: &str, rest: &str) -> String {
    format!("title: t\ndeployment: d.yaml\nrunner: {runner}\niteration:\n{steps}\n{rest}")
}

const RUNNER: &str = "{ constant: { times: 1 } }";
const STEPS: &str = "  - get: /";

#[test]
fn runners() {
    let rows = [
        ("constant", "3:9|`runner` must be a map, but is the text `constant`", "such as `constant: …`"),
        ("{ constant: 5 }", "3:21|`constant` must be a map, but is the number 5", "times"),
        ("{ constant: { times: \"10\" } }", "3:30|`times` must be a whole number", "remove the quotes: 10"),
        ("{ constant: { times: 0 } }", "3:30|`times` must be at least 1, but is 0", "write 1 or more"),
        ("{ constant: { times: 1.5 } }", "3:30|whole number, but is the number 1.5", "write 2"),
        ("{ constant: { times: ten } }", "3:30|whole number, but is the text `ten`", "such as 10"),
        ("{ constant: { times: 99999999999999999999 } }", "3:30|`times` must be a whole number", "smaller"),
        ("{ constant: { concurrency: -1 } }", "3:36|at least 1, but is -1", "write 1 to 100000"),
        ("{ constant: { concurrency: 1000000 } }", "3:36|at most 100000", "write 1 to 100000"),
        ("{ constant: { time: 1 } }", "3:23|unknown key `time` in `constant`", "did you mean `times`?"),
        ("{ constnt: { times: 1 } }", "3:11|unknown key `constnt` in `runner`", "did you mean `constant`?"),
        ("{ constant: { vus: 1 } }", "3:23|unknown key `vus` in `constant`", "did you mean `concurrency`?"),
        ("{ constant: { times: 1, timeout: 0 } }", "3:42|`timeout` is zero", "such as 5s"),
        ("{ constant: { times: 1, timeout: \"5\" } }", "3:42|`5` has no unit", "number with a unit"),
        ("{ constant: {}, serial: { times: 1 } }", "3:25|takes only one key, but has 2", "keep one of"),
        ("{}", "3:9|`runner` is empty", "add one of: serial, constant, constant_for_duration"),
        ("", "3:7|`runner` has no value", "give it a value"),
        ("{ serial: {} }", "3:19|`serial` lacks the key `times`", "add `times:`"),
        ("{ constant_for_duration: { duration: 0s, concurrency: 1 } }", "3:46|`duration` is zero", "5s"),
        (
            "{ constant_for_duration: { duration: -5, concurrency: 1 } }",
            "3:46|at least 0",
            "write 0 to 2592000",
        ),
        (
            "{ constant_for_duration: { duration: 31d, concurrency: 1 } }",
            "3:46|`d` is not a unit of time",
            "use ns, us, ms, s, m or h",
        ),
    ];
    check_all(rows.map(|(runner, message, help)| (scenario(runner, STEPS, ""), message, help)));
}

#[expect(clippy::too_many_lines, reason = "a table")]
#[test]
fn runners_by_the_clock() {
    let rows = [
        ("{ rps: { rps: 5 } }", "3:18|neither `times` nor `duration`", "add one of them"),
        ("{ rps: { times: 1 } }", "3:18|`rps` lacks the key `rps`", "add `rps:`"),
        ("{ rps: { times: 0, rps: 5 } }", "3:25|`times` must be at least 1", "write 1 or more"),
        ("{ rps: { times: 1, rps: 0 } }", "3:33|`rps` must be above 0", "such as 10"),
        ("{ rps: { times: 1, rps: -1 } }", "3:33|`rps` must be at least 0, but is -1", "write 0 to 1000000"),
        ("{ rps: { times: 1, rps: 2000000 } }", "3:33|at most 1000000", "write 0 to 1000000"),
        ("{ rps: { times: 1, rps: .nan } }", "3:33|`.nan` is no number that JSON has", "write a number"),
        ("{ rps: { times: 1, rps: fast } }", "3:33|`rps` must be a number or a map", "such as 10"),
        ("{ rps: { duration: 0, rps: 1 } }", "3:28|`duration` is zero", "such as 5s"),
        ("{ rps: { times: 1, rps: 1, timeout: 0 } }", "3:45|`timeout` is zero", "such as 5s"),
        (
            "{ rps: { times: 1, rps: 1, max_concurrency: 0 } }",
            "3:53|`max_concurrency` must be at least 1",
            "write 1 to 100000",
        ),
        (
            "{ rps: { times: 1, rps: 1, max_concurrency: 1000000 } }",
            "3:53|`max_concurrency` must be at most 100000",
            "write 1 to 100000",
        ),
        ("{ rps: { times: 1, rps: 1, max_queue: -1 } }", "3:47|`max_queue` must be at least 0", "write 0 to"),
        ("{ rps: { times: 1, rps: 1, pacing: exact } }", "3:44|cannot be `exact`", "one of: timer, precise"),
        ("{ rps: { times: 1, rps: { start: 1, end: 5 } } }", "3:35|lacks the key `step`", "add `step:`"),
        (
            "{ rps: { times: 1, rps: { start: 5, end: 1, step: 1 } } }",
            "3:50|`end` is below `start`",
            "use `ramping` to go down",
        ),
        (
            "{ rps: { times: 1, rps: { start: 1, end: 5, step: 0 } } }",
            "3:59|`step` must be above 0",
            "write a number",
        ),
        (
            "{ rps: { times: 1, rps: { start: 0, end: 5, step: 1 } } }",
            "3:42|`start` must be above 0",
            "write a number",
        ),
        (
            "{ rps: { times: 1, rps: { start: 1, end: 1000000, step: 1 } } }",
            "3:65|more than 10000 steps",
            "a larger `step`",
        ),
        (
            "{ rps: { times: 1, rps: { start: 1, end: 5, step: 1, duration: 0 } } }",
            "3:72|`duration` is zero",
            "such as 5s",
        ),
        ("{ ramping: {} }", "3:20|`ramping` lacks the key `stages`", "add `stages:`"),
        ("{ ramping: { stages: [] } }", "3:30|`stages` is empty", "add an item"),
        (
            "{ ramping: { stages: [ { duration: 1 } ] } }",
            "3:34|a stage without `concurrency` and `rps`",
            "add one of them",
        ),
        (
            "{ ramping: { stages: [ { duration: 1, rps: 1 }, { duration: 1, concurrency: 5 } ] } }",
            "3:85|`concurrency` among stages of `rps`",
            "one of the two in all stages",
        ),
        (
            "{ ramping: { stages: [ { duration: 1, rps: 1, concurrency: 5 } ] } }",
            "3:68|`concurrency` among stages of `rps`",
            "one of the two in all stages",
        ),
        (
            "{ ramping: { stages: [ { duration: 1, rps: 0 } ] } }",
            "3:30|no iteration would ever start",
            "a rate above 0",
        ),
        (
            "{ ramping: { stages: [ { duration: 1, concurrency: 0 } ] } }",
            "3:30|never be any virtual users",
            "a concurrency above 0",
        ),
        (
            "{ ramping: { stages: [ { duration: 1, concurrency: 1000000 } ] } }",
            "3:60|`concurrency` must be at most 100000",
            "write 0 to 100000",
        ),
        (
            "{ ramping: { start: 1.5, stages: [ { duration: 1, concurrency: 2 } ] } }",
            "3:29|`start` is not a number of virtual users",
            "a whole number",
        ),
        (
            "{ ramping: { stages: [ { duration: 1, concurrency: 2 } ], max_queue: 5 } }",
            "3:78|`max_queue` has no meaning for stages of `concurrency`",
            "remove it",
        ),
    ];
    check_all(rows.map(|(runner, message, help)| (scenario(runner, STEPS, ""), message, help)));
}

#[expect(clippy::too_many_lines, reason = "a table")]
#[test]
fn steps_that_decide_what_comes_next() {
    let deep = format!("  - {}{{ get: / }}{}", "{ repeat: 1, steps: [ ".repeat(21), " ] }".repeat(21));
    let rows = [
        (
            "  - get: /\n  - { think: 1s, headers: {} }",
            "6:18|`headers` does not belong beside `think`",
            "make it a step of its own: `- think: …`",
        ),
        ("  - get: /\n  - think: { min: 3s, max: 1s }", "6:19|`min` is more than `max`", "exchange them"),
        (
            "  - get: /\n  - think: { mean: 0s }",
            "6:20|`mean` is zero",
            "give it a length, such as 5s, or remove `mean`",
        ),
        ("  - get: /\n  - think: { min: 1s }", "6:14|`think` lacks the key `max`", "add `max:`"),
        ("  - get: /\n  - pace: 0s", "6:11|`pace` is zero", "give it a length, such as 5s, or remove `pace`"),
        (
            "  - if: { gt: 3 }\n    then: [ { get: / } ]",
            "5:9|`if` must be text or true or false, but is a map",
            "write text or true or false here",
        ),
        ("  - if: 1 > 0\n    else: []", "6:11|`else` is empty", "add a step"),
        (
            "  - if: a b\n    then: [ { get: / } ]",
            "5:9|the template does not compile: syntax error: unexpected input after expression",
            "templates are Jinja2: {{ name }}, {{ a.b }}, {% if … %}",
        ),
        (
            "  - if: x{{ 1 }}\n    then: [ { get: / } ]",
            "5:9|a condition is a single expression",
            "write it without text around it: \"{{ status == 'ACTIVE' }}\"",
        ),
        ("  - get: /\n  - if: true", "6:5|`if` without `then`", "add `then:` with a list of steps"),
        ("  - get: /\n    then: []", "6:5|`then` does not belong beside `get`", "it belongs beside if"),
        (
            "  - repeat: three\n    steps: [ { get: / } ]",
            "5:13|`three` is not a number of rounds",
            "write a whole number, or a template such as \"{{ pages }}\"",
        ),
        ("  - repeat: 3", "5:5|`repeat` without `steps`", "add `steps:` with a list of steps"),
        (
            "  - repeat: -1\n    steps: [ { get: / } ]",
            "5:13|`repeat` must be at least 0, but is -1",
            "write 0 to 100000",
        ),
        (
            "  - for_each: items\n    steps: [ { get: / } ]",
            "5:15|`for_each` needs a list",
            "write [a, b], or a template such as \"{{ items }}\"",
        ),
        (
            "  - for_each: [1]\n    as: 1x\n    steps: [ { get: / } ]",
            "6:9|`1x` is not a name that templates can use",
            "use letters, digits and underscores, a letter first",
        ),
        (
            "  - for_each: 5\n    steps: [ { get: / } ]",
            "5:15|`for_each` must be a list or text, but is a number",
            "put it in quotes to make it text",
        ),
        (
            "  - while: true\n    max: 0\n    steps: [ { get: / } ]",
            "6:10|`max` must be at least 1, but is 0",
            "write 1 to 100000",
        ),
        (
            "  - choice: [ { weight: 0, steps: [ { get: / } ] } ]",
            "5:13|all weights of this choice are zero",
            "give at least one of them a weight above 0",
        ),
        ("  - choice: [ { weight: 1 } ]", "5:17|an item of `choice` lacks the key `steps`", "add `steps:`"),
        ("  - choice: []", "5:13|`choice` is empty", "add an item"),
        ("  - group: g\n    steps: []", "6:12|`steps` is empty", "add a step"),
        ("  - group: \"\"\n    steps: [ { get: / } ]", "5:12|`group` is empty", "give it a value"),
        (
            "  - group: g\n    steps: [ { action: g, get: / } ]",
            "6:24|a second action named `g`",
            "give each action its own name: it identifies the action in e",
        ),
        (
            "  - together: g\n    steps: [ { get: /a, extract: { x: { json: $.x } } }, { get: \"/{{ x }}\" } ]",
            "6:65|unknown variable `x`",
            "set it under `variables`, extract it in an earlier action, o",
        ),
        (
            "  - group: g\n    together: h\n    steps: [ { get: / } ]",
            "6:5|a step with both `group` and `together`",
            "make one step of each",
        ),
        (
            "  - get: /\n  - set: { iteration: 5 }",
            "6:12|`iteration` is a built-in variable of bench",
            "choose another name",
        ),
        ("  - get: /\n  - set: 5", "6:10|`set` must be a map, but is a number", "write a map here"),
        ("  - get: /\n  - fail: \"\"", "6:11|`fail` is empty", "give it a value"),
        (
            "  - get: /\n  - log: \"{{ nobody }}\"",
            "6:10|unknown variable `nobody`",
            "set it under `variables`, extract it in an earlier action, o",
        ),
        (
            "  - get: /\n  - stop_iteration: false",
            "6:21|`stop_iteration: false` does nothing",
            "write true, or remove the step",
        ),
        (
            "  - get: /\n  - stop_iteration: yes",
            "6:21|`stop_iteration` must be true or false, but is the text `yes`",
            "write true",
        ),
        (
            "  - include: nowhere.yaml",
            "5:14|cannot read nowhere.yaml: No such file or directory (os error 2)",
            "name a file relative to this one",
        ),
        (
            "  - get: /\n    poll: { interval: 0s }",
            "6:23|`interval` is zero",
            "give it a length, such as 5s, or remove `interval`",
        ),
        (
            "  - get: /\n    poll: { untill: x }",
            "6:13|unknown key `untill` in `poll`",
            "did you mean `until`?",
        ),
        (
            "  - get: /\n    poll: 5s",
            "6:11|`poll` must be a map, but is the text `5s`",
            "write keys below it, such as `until: …`; known keys: until, ",
        ),
        (
            "  - get: /\n    poll: { until: nobody }",
            "6:20|unknown variable `nobody`",
            "set it under `variables`, extract it in an earlier action, o",
        ),
        (
            "  - get: /\n  - poll: { until: true }",
            "6:5|a step without a request",
            "add one of get, head, post, put, patch, delete, options, req",
        ),
        (
            "  - get: /\n    steps: [ { get: /b } ]",
            "6:5|`steps` does not belong beside `get`",
            "it belongs beside repeat, for_each, while, group, together",
        ),
        ("  - get: /\n  - think: 5", "6:12|`think` must be", "write it with its unit: 5s"),
        (&deep, "5:443|steps are nested more than 20 deep", "nest them less deeply"),
    ];
    check_all(rows.map(|(steps, message, help)| (scenario(RUNNER, steps, ""), message, help)));
}

#[test]
fn warm_ups() {
    let ramp = "{ ramping: { stages: [ { duration: 1, rps: 1 } ] } }";
    let users = "{ ramping: { start: 1, stages: [ { duration: 1, concurrency: 5 } ] } }";
    let rows = [
        (RUNNER, "warm_up: 0s", "6:10|`warm_up` is zero", "such as 5s"),
        (RUNNER, "warm_up: { times: 0 }", "6:19|`times` must be at least 1", "write 1 or more"),
        (RUNNER, "warm_up: { time: 5 }", "6:12|unknown key `time`", "did you mean `times`?"),
        (RUNNER, "thresholds: [ p95 < 1s ]", "6:1|unknown key `thresholds`", "did you mean `sla`?"),
        (RUNNER, "steps: [ { get: / } ]", "6:1|unknown key `steps`", "did you mean `iteration`?"),
        (RUNNER, "warm_up: 5 minutes", "6:10|`minutes` is not a unit of time", "use ns, us, ms, s, m or h"),
        (
            ramp,
            "warm_up: 5s",
            "6:10|a warm-up has the load of the start, which is zero here",
            "give the ramp a `start`",
        ),
        (users, "warm_up: { times: 5 }", "6:12|before a ramp of users", "write how long it lasts"),
    ];
    check_all(rows.map(|(runner, rest, message, help)| (scenario(runner, STEPS, rest), message, help)));
}

/// Checks scenarios that have one fault each: `line:column|message`, and a part of the remedy.
#[track_caller]
fn check_all<const N: usize>(rows: [(String, &str, &str); N]) {
    let mut wrong = String::new();
    for (text, message, help) in rows {
        let (place, message) = message.split_once('|').unwrap();
        let (code, said) = validate("s.yaml", &text);
        let one_fault = said.ends_with("s.yaml: 1 fault\n") && said.matches("= help: ").count() == 1;
        let placed = said.contains(&format!("s.yaml:{place}\n"));
        if code != Some(65) || !one_fault || !placed || !said.contains(message) || !said.contains(help) {
            writeln!(wrong, "== {text}\n-- not {place}, {message}, {help}:\n{said}\n").unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[expect(clippy::too_many_lines, reason = "a table")]
#[test]
fn steps() {
    let rows = [
        (
            "  - { get: /, timeout: 5 }",
            "5:24|`timeout` must be text, but is the number 5",
            "write it with its unit: 5s",
        ),
        ("  - { get: /, timeout: 0s }", "5:24|`timeout` is zero", "such as 5s"),
        ("  - { get: /, timeout: 5 parsecs }", "5:24|`parsecs` is not a unit of time", "use ns"),
        ("  - { get: /a, post: /b }", "5:16|a step with two requests, `get` and `post`", "one step of each"),
        ("  - { get: /a, think: 1s }", "5:16|a step with both `think` and a request", "a step of its own"),
        (
            "  - get: /\n  - { think: 1s, headers: {} }",
            "6:18|`headers` does not belong beside `think`",
            "a step of its own",
        ),
        ("  - think: 1s", "5:3|the iteration has no request", "add an action"),
        ("  - action: a", "5:5|a step without a request", "add one of get"),
        ("  - get /", "5:5|must be a map, but is the text `get /`", "`get: …`"),
        ("  []", "5:3|`iteration` is empty", "add an item"),
        ("  get: /", "5:3|`iteration` must be a list, but is a map", "begin each item with a dash"),
        ("  - get: users", "5:10|`users` is neither a path nor a URL", "write /users"),
        ("  - get: ftp://h/", "5:10|the scheme `ftp` is not supported", "use http or https"),
        ("  - get: http://u:p@h/", "5:10|must not contain credentials", "put them under `auth`"),
        ("  - get: 5", "5:10|`get` must be text, but is the number 5", "put it in quotes"),
        (
            "  - { get: /, target: placment }",
            "5:23|the deployment `dev` has no target `placment`",
            "did you mean `placement`?",
        ),
        (
            "  - { get: /, target: nova }",
            "5:23|no target `nova`",
            "name one of its targets: default, placement",
        ),
        (
            "  - { get: 'http://h/', target: default }",
            "5:25|`target` together with a complete URL",
            "remove `target`",
        ),
        ("  - { get: '/{{ usr }}' }", "5:12|unknown variable `usr`", "did you mean `user`?"),
        ("  - { get: '/{{ thing }}' }", "5:12|unknown variable `thing`", "set it under `variables`"),
        ("  - { get: '/{{ user' }", "5:12|the template does not compile", "templates are Jinja2"),
        (
            "  - { get: '/{{ random_itn(1, 2) }}' }",
            "5:12|unknown function `random_itn`",
            "did you mean `random_int`?",
        ),
        (
            "  - { get: '/{{ lookup(1) }}' }",
            "5:12|unknown function `lookup`",
            "known functions: counter, date,",
        ),
        (
            "  - { get: { env: NOT_SET_AT_ALL } }",
            "5:12|NOT_SET_AT_ALL is not set",
            "if you mean the map itself",
        ),
        ("  - { post: /, json: [{ file: no/such }] }", "5:23|cannot read", "if you mean the map itself"),
        ("  - { get: '/{% bad %}' }", "5:12|the template does not compile", "templates are Jinja2"),
        ("  - { get: '/{{ user | nosuch }}' }", "5:12|unknown filter `nosuch`", "known filters: abs, attr"),
        ("  - { get: '/{{ user|lowr }}' }", "5:12|unknown filter `lowr`", "did you mean `lower`?"),
        (
            "  - { get: '/{% if user is nosuch %}{% endif %}' }",
            "5:12|unknown test `nosuch`",
            "known tests: boolean",
        ),
        ("  - { get: '/{{ user is not defind }}' }", "5:12|unknown test `defind`", "did you mean `defined`?"),
        (
            "  - { get: '/{{ [user] | select(\"od\") | list }}' }",
            "5:12|unknown test `od`",
            "did you mean `odd`?",
        ),
        (
            "  - { post: /, json: { a: [{ b: '{{ user | uper }}' }] } }",
            "5:33|unknown filter `uper`",
            "did you mean `upper`?",
        ),
        (
            "  - { get: /, expect: { body: '{{ user | nosuch }}' } }",
            "5:31|unknown filter `nosuch`",
            "known filters",
        ),
        (
            "  - { post: /, json: { a: [{ b: '{{ usr }}' }] } }",
            "5:33|unknown variable `usr`",
            "did you mean `user`?",
        ),
        ("  - { post: /, json: {}, body: x }", "5:26|more than one body", "keep one of json, form, body"),
        ("  - { post: /, file: s.yaml, multipart: { a: 1 } }", "5:30|more than one body", "file, multipart"),
        (
            "  - { post: /, file: none.bin }",
            "5:22|cannot read none.bin: No such file",
            "relative to the scenario",
        ),
        ("  - { post: /, file: . }", "5:22|it is not a file", "relative to the scenario"),
        (
            "  - { post: /, file: '{{ user }}.png' }",
            "5:22|cannot contain templates",
            "one action for each file",
        ),
        ("  - { post: /, multipart: {} }", "5:27|`multipart` is empty", "add"),
        ("  - { post: /, multipart: { a: { fil: x } } }", "5:34|unknown key `fil`", "did you mean `file`?"),
        (
            "  - { post: /, multipart: { a: { file: s.yaml, type: png } } }",
            "5:54|`png` is not a content type",
            "image/png",
        ),
        (
            "  - { post: /, multipart: { a: [ '{{ usr }}' ] } }",
            "5:34|unknown variable `usr`",
            "did you mean `user`?",
        ),
        ("  - { post: /, gzip: true }", "5:16|`gzip` without a body", "add one of"),
        (
            "  - { post: /, body: x, gzip: true, headers: { Content-Encoding: br } }",
            "5:25|together with a header Content-Encoding",
            "keep one",
        ),
        ("  - { request: PURGE }", "5:16|`PURGE` is not a method with a path", "`PURGE /cache`"),
        ("  - { request: 'CONNECT h:1' }", "5:16|CONNECT opens a tunnel", "`proxy`"),
        ("  - { request: 'BAD METHOD /x' }", "5:16|more than one word before its path", "`PURGE /cache`"),
        ("  - get: /\n  - { request: 'CONNECT h:1' }", "6:16|CONNECT opens a tunnel", "`proxy`"),
        ("  - { get: /, query: { a: { b: c } } }", "5:27|`a` must be", "write text or a number or"),
        ("  - { get: /, expect: { status: ok } }", "5:33|cannot be `ok`", "or a number from 100 to 599"),
        ("  - { request: 'P(RGE /x' }", "5:16|`P(RGE` is not a method", "`PURGE /cache`"),
        ("  - { request: PURGE /x, get: / }", "5:26|two requests", "one step of each"),
        ("  - { get: /, cookies: user }", "5:24|`cookies` must be true or false", ""),
        ("  - { get: /, query: { a: [] } }", "5:27|`a` is empty", "add an item"),
        (
            "  - { get: /, extract: { a: { cookie: s, header: H } } }",
            "5:29|exactly one place",
            "cookie, regex",
        ),
        ("  - { post: /, form: { a: { b: 1 } } }", "5:27|", ""),
        (
            "  - { get: /, headers: { 'a b': x } }",
            "5:26|`a b` is not a header name",
            "letters, digits and dashes",
        ),
        (
            "  - { get: /, headers: { a: \"x\\ny\" } }",
            "5:26|contains characters that are not allowed in a header",
            "remove line breaks",
        ),
        (
            "  - { post: /, body: ab, headers: { Content-Length: '99' } }",
            "5:37|`Content-Length` says where the request ends",
            "remove it: bench computes it",
        ),
        (
            "  - { post: /, body: ab, headers: { transfer-encoding: chunked } }",
            "5:37|`transfer-encoding` says where the request ends",
            "remove it",
        ),
        (
            "  - { get: /, headers: { Connection: upgrade, Upgrade: websocket } }",
            "5:26|`Connection` cannot have this value",
            "write `close` or `keep-alive`",
        ),
        (
            "  - { get: /, headers: { a: 5 } }",
            "5:29|`a` must be text or a list, but is a number",
            "put it in quotes",
        ),
        ("  - { get: /, expect: { status: 99 } }", "5:33|`status` must be at least 100", "write 100 to 599"),
        ("  - { get: /, expect: { status: 6xx } }", "5:33|`status` cannot be `6xx`", "one of: 1xx"),
        ("  - { get: /, expect: { status: '200' } }", "5:33|`status` cannot be `200`", "one of: 1xx"),
        ("  - { get: /, expect: { json: { '$.[': 1 } } }", "5:33|is not a JSONPath", "RFC 9535"),
        (
            "  - { get: /, expect: { body: { matches: '(' } } }",
            "5:42|not a regular expression: unclosed group",
            "backslash",
        ),
        (
            "  - { get: /, expect: { body: { matches: '(a{1000}){1000}' } } }",
            "5:42|not a regular expression",
            "backslash",
        ),
        (
            "  - { get: /, expect: { body: {} } }",
            "5:31|`body` is empty",
            "add one of: equals, eq, ne, gt, ge, lt, le, not, length, type, contains, matches, one_of, exists",
        ),
        (
            "  - { get: /, expect: { json: { $.n: { grater: 3 } } } }",
            "5:40|unknown key `grater` in `$.n`",
            "known keys: equals, eq, ne, gt, ge, lt, le, not, length, type, contains, matches, one_of, exists; \
             if the map itself is meant, write { equals: { … } }",
        ),
        (
            "  - { get: /, expect: { json: { $.n: { lenght: 3 } } } }",
            "5:40|unknown key `lenght` in `$.n`",
            "did you mean `length`?; if the map itself is meant",
        ),
        (
            "  - { get: /, expect: { json: { $.n: { gt: [3] } } } }",
            "5:44|`gt` must be a number or text, but is a list",
            "write a number",
        ),
        (
            "  - { get: /, expect: { json: { $.n: { gt: many } } } }",
            "5:44|`gt` compares numbers",
            "write a number, or a template",
        ),
        (
            "  - { get: /, expect: { json: { $.n: { type: text } } } }",
            "5:46|`type` cannot be `text`",
            "one of: string, number, integer",
        ),
        (
            "  - { get: /, expect: { json: { $.n: { length: -1 } } } }",
            "5:48|`length` must be at least 0",
            "write 0 or more",
        ),
        (
            "  - { get: /, expect: { json: { $.n: { one_of: [] } } } }",
            "5:48|`one_of` is empty",
            "add an item",
        ),
        (
            "  - { get: /, expect: { json: { $.n: { one_of: x } } } }",
            "5:48|`one_of` must be a list",
            "write a list",
        ),
        (
            "  - { get: /, expect: { json: { $.n: { not: { exists: no } } } } }",
            "5:55|`exists` must be true or false",
            "write false",
        ),
        (
            "  - { get: /, expect: { json: { $.n: { exists: false, gt: 3 } } } }",
            "5:40|`exists: false` together with another comparison",
            "keep one",
        ),
        (
            "  - { get: /, expect: { variables: { usr: { gt: 3 } } } }",
            "5:38|unknown variable `usr`",
            "did you mean `user`?",
        ),
        ("  - { get: /, expect: { headers: { 'a b': x } } }", "5:36|is not a header name", "letters"),
        ("  - { get: /, extract: { id: { json: id } } }", "5:38|`id` is not a JSONPath", "RFC 9535"),
        (
            "  - { get: /, extract: { id: { pointer: a.b } } }",
            "5:41|a JSON pointer starts with a slash",
            "write /a/b",
        ),
        ("  - { get: /, extract: { id: { header: 'a b' } } }", "5:40|is not a header name", "letters"),
        (
            "  - { get: /, extract: { id: { regex: '[' } } }",
            "5:39|not a regular expression: unclosed character class",
            "backslash",
        ),
        (
            "  - { get: /, extract: { id: { json: $.a, header: b } } }",
            "5:30|exactly one place",
            "write one of",
        ),
        ("  - { get: /, extract: { id: {} } }", "5:30|exactly one place", "write one of"),
        (
            "  - { get: /, extract: { auth: { json: $.a } } }",
            "5:26|`auth` is a built-in variable of bench",
            "another name",
        ),
        (
            "  - { get: /, extract: { a-b: { json: $.a } } }",
            "5:26|`a-b` is not a name that templates can use",
            "underscores",
        ),
        (
            "  - { action: a, get: / }\n  - { action: a, get: /b }",
            "6:15|a second action named `a`",
            "its own name",
        ),
        ("  - get: /\n  - get: /", "6:10|a second action named `GET /`", "its own name"),
        ("  - { action: '', get: / }", "5:15|`action` is empty", "give it a value"),
        ("  - { get: /, retries: 3 }", "5:15|unknown key `retries`", "known keys: action, get"),
        (
            "  - { get: /, auth: no }",
            "5:21|`auth` cannot be `no`",
            "one of: admin, or true or false without quotes",
        ),
    ];
    let rest = "variables: { user: admin }";
    check_all(rows.map(|(steps, message, help)| (scenario(RUNNER, steps, rest), message, help)));
}

#[test]
fn credentials_of_the_deployment_are_not_for_other_hosts() {
    for (step, column) in [
        ("get: 'http://h/{{ auth.token }}'", 12),
        ("request: 'GET http://h/?t={{ auth.token }}'", 16),
        ("post: 'http://h/', json: { a: ['{{ auth.password }}'] }", 38),
        ("post: 'http://h/', form: { a: '{{ auth[\"password\"] }}' }", 37),
        ("post: 'http://h/', body: 'x{% set auth = auth %}{{ auth }}'", 32),
        ("post: 'http://h/', multipart: { a: '{{ auth.password }}' }", 42),
        ("get: 'http://h/', query: { a: [1, '{{ auth | string }}'] }", 41),
        ("get: 'http://127.0.0.1:3/', headers: { A: 'Bearer {{ auth.token }}' }", 49),
    ] {
        let said = refused("s.yaml", scenario(RUNNER, &format!("  - {{ {step} }}"), ""));
        assert!(said.contains(&format!("s.yaml:5:{column}\n")), "{step}: {said}");
        assert!(said.contains("is not a target of the deployment"), "{step}: {said}");
        assert!(said.contains("= help: add the host to `targets` of the deployment"), "{step}: {said}");
        assert!(said.ends_with("s.yaml: 1 fault\n"), "{step}: {said}");
    }
    for step in [
        "post: 'http://127.0.0.1:2/', json: { a: '{{ auth.password }}' }",
        "post: /, body: '{{ auth.token }}'",
        "post: 'http://h/', json: { auth: '{{ user }}' }",
        "post: 'http://h/', body: 'auth {{ user }}'",
    ] {
        let text = scenario(RUNNER, &format!("  - {{ {step} }}"), "variables: { user: admin }");
        let (code, said) = validate("s.yaml", text);
        assert_eq!(code, Some(0), "{step}: {said}");
    }
}

#[expect(clippy::too_many_lines, reason = "a table")]
#[test]
fn documents() {
    let good = scenario(RUNNER, STEPS, "");
    let rows = [
        (
            format!("{good}sla: {{ failure_rate: {{ min: 5, max: 1 }} }}"),
            "6:22|at least 5 % and at most 1 %",
            "make `min` the smaller one",
        ),
        (
            format!("{good}sla: {{ failure_rate: {{ max: 101 }} }}"),
            "6:29|at most 100, but is 101",
            "write 0 to 100",
        ),
        (
            format!("{good}sla: {{ max_seconds_per_iteration: 4s }}"),
            "6:35|must be a number, but is the text `4s`",
            "seconds, as in Rally",
        ),
        (
            format!("{good}sla: {{ max_seconds_per_iteration: 0 }}"),
            "6:35|`max_seconds_per_iteration` must be more than 0, but is 0",
            "write more than 0",
        ),
        (
            format!("{good}sla: {{ outliers: {{ sigmas: 0 }} }}"),
            "6:28|`sigmas` must be more than 0, but is 0",
            "write more than 0",
        ),
        (
            format!("{good}sla: {{ failure_rate: {{}} }}"),
            "6:22|`failure_rate` is empty",
            "add one of: min, max",
        ),
        (
            format!("{good}sla: {{ failure_rate: 10 }}"),
            "6:22|`failure_rate` must be a map, but is the number 10",
            "write `max: 10` below it; known keys: min, max",
        ),
        (
            format!("{good}sla:\n  thresholds:\n    - p95(action log in) < 3ms"),
            "8:18|the name log in is not in quotes",
            "write action \"log in\"",
        ),
        (
            format!("{good}sla:\n  thresholds:\n    - rate(errors, action step 2) < 3%"),
            "8:27|the name step 2 is not in quotes",
            "write action \"step 2\"",
        ),
        (
            format!("{good}cookies: true"),
            "6:1|unknown key `cookies` in the document\n --> s.yaml:6:1\n  |\n6 | cookies: true\n",
            "known keys",
        ),
        (format!("{good}pin: 'secret'"), "6:1|6 | pin: ********\n", "known keys"),
        (format!("{good}sla: {{ thresholds: [] }}"), "6:20|`thresholds` is empty", "add an item"),
        (
            format!("{good}sla:\n  thresholds:\n    - p95 < 300"),
            "8:13|`300` has no unit",
            "write 300ms or 300s",
        ),
        (
            format!("{good}sla:\n  thresholds:\n    - 'rate(eror) < 1%'"),
            "8:13|unknown word `eror`",
            "did you mean `errors`?",
        ),
        (
            format!("{good}sla:\n  thresholds:\n    - p95(action \"nothing\") < 3ms"),
            "8:7|no action is named `nothing`",
            "the workload's actions are",
        ),
        (
            format!("{good}sla:\n  max_avg_duration_per_atomic: {{ nothing: 3 }}"),
            "7:34|no action is named `nothing`",
            "the workload's actions are",
        ),
        (
            format!("{good}sla:\n  thresholds: [p99 < 10ms, p50 > 20ms]"),
            "7:28|`p50 > 20ms` contradicts `p99 < 10ms`",
            "change or remove",
        ),
        (
            format!("{good}sla:\n  thresholds: [{{ threshold: p99 < 10ms, delay: 5s }}]"),
            "7:41|`delay` without `abort_on_fail: true`",
            "add abort_on_fail",
        ),
        (
            format!(
                "{good}sla:\n  thresholds: [{{ threshold: p99 < 10ms, severity: warn, abort_on_fail: true }}]"
            ),
            "7:57|`abort_on_fail` for a threshold that only warns",
            "remove severity: warn",
        ),
        (
            format!("{good}sla:\n  thresholds: [overhead(p50) < 5%]"),
            "1:1|overhead(p50) needs unprofiled iterations",
            "profile: { control: 10% }",
        ),
        (format!("{good}parallel: true"), "6:1|`parallel` without `workloads`", "remove it"),
        (format!("{good}runnr: {{}}"), "6:1|unknown key `runnr` in the document", "did you mean `runner`?"),
        (format!("{good}title: again"), "6:1|duplicate key `title`", "remove one"),
        (format!("{good}variables: {{ a: 1, 'a': 2 }}"), "6:20|duplicate key `a`", "remove one"),
        (format!("{good}on: 1"), "6:1|YAML 1.1 reads the key `on` as a boolean", "quote it: \"on\""),
        (
            format!("{good}variables: {{ no: 1 }}"),
            "6:14|YAML 1.1 reads the key `no` as a boolean",
            "quote it",
        ),
        (format!("{good}variables: {{ true: 1 }}"), "6:14|the key `true` is a boolean", "quote it"),
        (
            format!("{good}profile: no"),
            "6:10|`profile` must be true or false or a map, but is the text `no`",
            "write false",
        ),
        (
            format!("{good}profile: {{ control: 10 }}"),
            "6:21|`control` must be text, but is the number 10",
            "write it with its sign: 10%",
        ),
        (format!("{good}profile: {{ control: 0% }}"), "6:21|`0%` is out of range", "write 0.1% to 90%"),
        (format!("{good}profile: {{ control: ten% }}"), "6:21|`ten%` is not a percentage", "such as 10%"),
        (format!("{good}profile: {{ contrl: 10% }}"), "6:12|unknown key `contrl`", "did you mean `control`?"),
        (format!("{good}profile: {{}}"), "6:10|`profile` lacks the key `control`", "add `control:`"),
        (format!("{good}variables:\n\ta: 1"), "7:1|a tab as indentation", "indent with spaces"),
        ("title: t\n\tdeployment: d.yaml\n".to_owned(), "2:1|a tab as indentation", "indent with spaces"),
        (
            format!("title: t\n\n \tdeployment: d.yaml\n{}", &good[9..]),
            "3:2|a tab as indentation",
            "indent with spaces",
        ),
        (format!("{good}---\ntitle: other"), "6:1|a second document in one file", "a separate file"),
        (format!("{good}variables: {{ a: *nobody }}"), "6:17|not valid YAML", "check the indentation"),
        (
            format!("{good}variables: &v {{ a: [*v] }}"),
            "6:21|an alias inside the value that it refers to",
            "a value cannot contain itself",
        ),
        (
            format!("{good}variables: {{ a: !!python/object:os.system x }}"),
            "6:17|tags such as",
            "remove the tag",
        ),
        (
            format!("{good}variables: {{ <<: 5 }}"),
            "6:14|`<<` can only merge a map or a list of maps",
            "an alias of a map",
        ),
        (format!("{good}variables: {{ [a]: 5 }}"), "6:14|a key must be text", "in quotes"),
        (
            format!("{good}variables: {{ iteration: 5 }}"),
            "6:14|`iteration` is a built-in variable of bench",
            "another name",
        ),
        (
            format!("{good}variables: {{ a: {{ env: NOT_SET_ANYWHERE }} }}"),
            "6:17|the environment variable NOT_SET_ANYWHERE is not set",
            "export NOT_SET_ANYWHERE=",
        ),
        (
            format!("{good}variables: {{ a: {{ file: none.txt }} }}"),
            "6:17|cannot read none.txt: No such file",
            "name a readable file",
        ),
        (
            format!("{good}variables: {{ a: {{ file: . }} }}"),
            "6:17|cannot read .: is a directory",
            "name a readable file",
        ),
        (
            format!("{good}variables: {{ a: {{ file: /dev/zero }} }}"),
            "6:17|cannot read /dev/zero: it is larger than 64 KiB",
            "name a readable file",
        ),
        (
            format!("{good}variables: {{ a: {{ file: /dev/null }} }}"),
            "6:17|cannot read /dev/null: its first line is empty",
            "name a readable file",
        ),
        (format!("{good}timeout: 0s"), "6:10|`timeout` is zero", "such as 5s"),
        (format!("{good}timeout: 1000h"), "6:10|`1000h` is longer than 30 days", "shorter"),
        (format!("{good}workloads: []"), "6:12|`workloads` is empty", "add an item"),
        (format!("{good}variables: {{ a: \u{0} }}"), "6:17|not valid YAML", "check the indentation"),
        (
            "title: t\ndeployment: d.yaml\niteration:\n  - get: /\n".to_owned(),
            "1:1|the scenario lacks the key `runner`",
            "add `runner:`",
        ),
        (
            "title: ''\ndeployment: d.yaml\nrunner: { serial: { times: 1 } }\niteration:\n  - get: /\n"
                .to_owned(),
            "1:8|`title` is empty",
            "give it a value",
        ),
        (
            "deployment: d.yaml\nrunner: { serial: { times: 1 } }\niteration:\n  - get: /\n".to_owned(),
            "1:1|the document lacks the key `title`",
            "add `title:`",
        ),
        (
            good.replace("d.yaml", "none.yaml"),
            "2:13|cannot read the deployment none.yaml: No such file",
            "give another with -d FILE",
        ),
        (
            good.replace("d.yaml", "."),
            "2:13|cannot read the deployment .: is a directory",
            "give another with -d FILE",
        ),
        (
            good.replace("d.yaml", "[a]"),
            "2:13|`deployment` must be text or a map, but is a list",
            "write text or a map here",
        ),
        (
            good.replace("title: t", "title: ütf 日本語 \u{1f600}\nbad: 1"),
            "2:1|unknown key `bad`",
            "known keys",
        ),
    ];
    check_all(rows);
}

/// A column counts characters, whatever their bytes and width; CRLF and a byte order mark change
/// nothing.
#[test]
fn places_are_right_beside_wide_characters_crlf_and_byte_order_mark() {
    let text = scenario(RUNNER, "  - { action: \"日本語 ü\", gett: / }", "").replace('\n', "\r\n");
    insta::assert_snapshot!(refused("s.yaml", format!("\u{feff}{text}")), @r#"
    error: unknown key `gett` in an item of `iteration`
     --> s.yaml:5:24
      |
    5 |   - { action: "日本語 ü", gett: / }
      |                           ^^^^
      |
      = help: did you mean `get`?

    s.yaml: 1 fault
    "#);
}

#[expect(clippy::too_many_lines, reason = "a snapshot")]
#[test]
fn every_fault_of_a_scenario_and_its_deployment_is_reported_at_once() {
    let bench = Bench::new();
    bench.write("deployment.yaml", MANY_FAULTS_DEPLOYMENT);
    bench.write("scenario.yaml", MANY_FAULTS);
    let ended = bench.run(&["validate", "scenario.yaml"]).expect_code(65);
    assert!(!ended.stderr.contains("hunter2"), "{}", ended.stderr);
    insta::assert_snapshot!(ended.stderr, @r#"
    error: duplicate key `title`
     --> scenario.yaml:2:1
      |
    2 | title: **** ****
      | ^^^^^
      |
      = help: remove one of the two

    error: YAML 1.1 reads the key `no` as a boolean
     --> scenario.yaml:4:27
      |
    4 | variables: { user: *****, no: * }
      |                           ^^
      |
      = help: quote it: "no"

    error: `runner` must be a map, but is the text `constant`
     --> scenario.yaml:5:9
      |
    5 | runner: constant
      |         ^^^^^^^^
      |
      = help: write keys below it, such as `constant: …`; known keys: serial, constant, constant_for_duration, rps, ramping

    error: unknown variable `usr`
     --> scenario.yaml:8:10
      |
    8 |     get: /a/{{ usr }}
      |          ^^^^^^^^^^^^
      |
      = help: did you mean `user`?

    error: `timeout` must be text, but is the number 5
     --> scenario.yaml:9:14
      |
    9 |     timeout: 5
      |              ^
      |
      = help: write it with its unit: 5s, 5ms or 5m

    error: `b c` is not a header name
      --> scenario.yaml:10:39
       |
    10 |     headers: { X-Auth-Token: *******, "b c": * }
       |                                       ^^^^^
       |
       = help: use letters, digits and dashes only

    error: `$.[` is not a JSONPath: in dot member name, must start with lowercase alpha or '_'
      --> scenario.yaml:11:28
       |
    11 |     extract: { id: { json: "$.[" }, auth: { header: X-Id } }
       |                            ^^^^^^
       |
       = help: write it as in RFC 9535, such as $.token.user.id or $.users[0].name

    error: `auth` is a built-in variable of bench
      --> scenario.yaml:11:37
       |
    11 |     extract: { id: { json: "$.[" }, auth: { header: X-Id } }
       |                                     ^^^^
       |
       = help: choose another name

    error: a step with two requests, `get` and `post`
      --> scenario.yaml:13:5
       |
    13 |     post: /c
       |     ^^^^
       |
       = help: make one step of each

    error: a second action named `one`
      --> scenario.yaml:14:13
       |
    14 |   - action: one
       |             ^^^
       |
       = help: give each action its own name: it identifies the action in every table

    error: a template does not compile: syntax error: unexpected end of input, expected end of variable block
      --> scenario.yaml:16:11
       |
    16 |     json: { a: "{{ user" }
       |           ^^^^^^^^^^^^^^^^
       |
       = help: templates are Jinja2: {{ name }}, {{ a.b }}, {% if … %}

    error: more than one body
      --> scenario.yaml:17:5
       |
    17 |     body: *
       |     ^^^^
       |
       = help: keep one of json, form, body, file, multipart

    error: `status` must be at least 100, but is 99
      --> scenario.yaml:18:23
       |
    18 |     expect: { status: 99, body: { matches: "(" } }
       |                       ^^
       |
       = help: write 100 to 599

    error: not a regular expression: unclosed group
      --> scenario.yaml:18:44
       |
    18 |     expect: { status: 99, body: { matches: "(" } }
       |                                            ^^^^
       |
       = help: put a backslash before each of . * + ? ( ) [ ] { } | that is meant literally

    error: failure_rate requires at least 5 % and at most 1 %, which is impossible
      --> scenario.yaml:19:22
       |
    19 | sla: { failure_rate: { min: 5, max: 1 } }
       |                      ^^^^^^^^^^^^^^^^^^
       |
       = help: make `min` the smaller one, or remove it

    error: unknown key `paralel` in the document
      --> scenario.yaml:20:1
       |
    20 | paralel: true
       | ^^^^^^^
       |
       = help: did you mean `parallel`?

    scenario.yaml: 16 faults

    error: a URL must not contain credentials
     --> deployment.yaml:2:12
      |
    2 |   default: http://**********@host/
      |            ^^^^^^^^^^^^^^^^^^^^^^^
      |
      = help: put them under `auth`

    error: not a URL: relative URL without a base
     --> deployment.yaml:3:10
      |
    3 |   other: not a url
      |          ^^^^^^^^^
      |
      = help: write it as http://host:port

    error: cannot read none.pem: No such file or directory (os error 2)
     --> deployment.yaml:4:12
      |
    4 | tls: { ca: none.pem, verify: yes }
      |            ^^^^^^^^
      |
      = help: name a PEM file, relative to the deployment file

    error: `verify` must be true or false, but is the text `yes`
     --> deployment.yaml:4:30
      |
    4 | tls: { ca: none.pem, verify: yes }
      |                              ^^^
      |
      = help: write true

    error: unknown key `pasword` in `basic`
     --> deployment.yaml:8:5
      |
    8 |     pasword: *******
      |     ^^^^^^^
      |
      = help: did you mean `password`?

    error: cannot read none.key: No such file or directory (os error 2)
      --> deployment.yaml:10:13
       |
    10 |   hmac_key: { file: none.key }
       |             ^^^^^^^^^^^^^^^^^^
       |
       = help: name a readable file whose first line is the value

    error: unknown key `conection_string` in `profiler`
      --> deployment.yaml:11:3
       |
    11 |   conection_string: *********************
       |   ^^^^^^^^^^^^^^^^
       |
       = help: did you mean `connection_string`?

    deployment.yaml: 7 faults
    "#);
    let run = bench.run(&["run", "scenario.yaml"]).expect_code(65);
    assert_eq!(run.stderr, ended.stderr);
    assert!(!bench.path().join("runs").exists(), "nothing is made before the files are good");
}

const MANY_FAULTS: &str = r#"title: everything at once
title: once more
deployment: deployment.yaml
variables: { user: admin, no: x }
runner: constant
iteration:
  - action: one
    get: /a/{{ usr }}
    timeout: 5
    headers: { X-Auth-Token: hunter2, "b c": d }
    extract: { id: { json: "$.[" }, auth: { header: X-Id } }
  - get: /b
    post: /c
  - action: one
    post: /d
    json: { a: "{{ user" }
    body: x
    expect: { status: 99, body: { matches: "(" } }
sla: { failure_rate: { min: 5, max: 1 } }
paralel: true
"#;

const MANY_FAULTS_DEPLOYMENT: &str = "targets:
  default: http://me:hunter2@host/
  other: not a url
tls: { ca: none.pem, verify: yes }
auth:
  basic:
    username: u
    pasword: hunter2
profiler:
  hmac_key: { file: none.key }
  conection_string: redis://:hunter2@host
";

/// A fault that only follows from another is left out: what `extract` would have set is not unknown.
#[test]
fn consequences_of_a_fault_are_not_reported() {
    let steps = "  - { get: /, extract: { id: { jsn: $.id } } }\n  - { get: '/{{ id }}' }";
    check_all([(scenario(RUNNER, steps, ""), "5:32|unknown key `jsn`", "did you mean `json`?")]);
    let steps = "  - { get: /, extract: id }\n  - { get: '/{{ id }}' }";
    check_all([(scenario(RUNNER, steps, ""), "5:24|`extract` must be a map", "write")]);
}

#[test]
fn files_that_are_no_yaml_text() {
    let big = format!("title: {}", "x".repeat(10_000_000));
    for (content, part) in [
        (&b""[..], "the file is empty"),
        (b"\n# only a comment\n", "the file is empty"),
        (b"\x7fELF\x02\x01\x01\x00\xff\xfe", "is not valid UTF-8"),
        (b"\xff\xfet\0i\0t\0l\0e\0", "is not valid UTF-8"),
        (b"title: a\nrunner: \xe4", "line 2 is not valid UTF-8"),
        (b"\0\0\0\0", "error: "),
        (b"title: \"open", "not valid YAML"),
        (b"just some text", "must be a map"),
        (b"- a\n- b", "must be a map"),
        (b"~", "must be a map"),
        (b"{}", "the deployment has no target"),
        (b"<html><body>502</body></html>", "must be a map"),
        (big.as_bytes(), "larger than 1 MiB"),
    ] {
        let said = refused("s.yaml", content);
        let shown = String::from_utf8_lossy(&content[..content.len().min(40)]);
        assert!(said.contains(part) && said.contains("= help: "), "{shown}: {said}");
        assert!(!said.contains('\0'), "{shown}: {said}");
    }
}

#[test]
fn bombs_are_defused_at_once() {
    let json_path = |what: &str, times| {
        format!("  - {{ get: /, extract: {{ a: {{ json: '$[?{}]' }} }} }}", what.repeat(times))
    };
    let good = scenario(RUNNER, STEPS, "");
    let mut bomb = format!("{good}variables:\n  a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..60 {
        writeln!(bomb, "  a{level}: &a{level} [{}]", format!("*a{},", level - 1).repeat(9)).unwrap();
    }
    let deep_map: String = (0..100).map(|level| format!("{}a:\n", " ".repeat(level))).collect();
    let same = |what: &str, times: usize| format!("variables: [{}]", what.repeat(times));
    let keys: String = (0..90_000).map(|n| format!("k{n}: 1\n")).collect();
    let merges =
        format!("{good}variables:\n  a: &a {{ b: 1 }}\n  c: {{ <<: [{}] }}\n", "*a, ".repeat(60_000));
    for (text, part) in [
        (bomb.as_str(), "more than 100000 values once aliases are expanded"),
        (&"[".repeat(200_000), "nested deeper than 64 levels"),
        (&format!("a: {}", "{a: ".repeat(200_000)), "nested deeper than 64 levels"),
        (&deep_map, "nested deeper than 64 levels"),
        (&format!("{good}variables: {{ a: {} }}", "[".repeat(1000)), "nested deeper than 64 levels"),
        (&keys, "more than 2000 keys in one map"),
        (&merges, "more than 100000 values"),
        (&same("{password: a}, ", 30_000), "`variables` must be a map"),
        (&same("://a", 200_000), "`variables` must be a map"),
        (&format!("title: t\niteration: [{}]", "{gte: x}, ".repeat(30_000)), "… and "),
        (&scenario(RUNNER, &json_path("@[?", 20), ""), "this JSONPath is too complex"),
        (&scenario(RUNNER, &json_path("!(", 20_000), ""), "this JSONPath is too complex"),
        (&scenario(RUNNER, &json_path("@[?", 4), ""), "is not a JSONPath"),
        (&scenario(RUNNER, &json_path("!(", 20), ""), "is not a JSONPath"),
        (&scenario(RUNNER, &format!("  - get: '{{{{ {}1 }}}}'", "-".repeat(90_000)), ""), "does not compile"),
        (&format!("{good}{}: 1", "x".repeat(1000)), "unknown key"),
        (&format!("{good}{}: 1", "x".repeat(900_000)), "error: "),
    ] {
        // A separate process, so that a stack that overflows is seen.
        let bench = folder();
        bench.write("s.yaml", text);
        let said = bench.run(&["validate", "s.yaml"]).expect_code(65).stderr;
        assert!(said.contains(part), "{part}: {}", said.chars().take(3000).collect::<String>());
        assert!(said.len() < 400_000, "{part}: {} bytes are said", said.len());
    }
}

#[test]
fn faults_that_files_share_are_reported_once() {
    let bench = folder();
    bench.write("d.yaml", format!("{DEPLOYMENT}hraders: {{}}\n"));
    bench.write("a.yaml", scenario(RUNNER, STEPS, ""));
    bench.write("b.yaml", scenario(RUNNER, STEPS, ""));
    bench.write("c.yaml", scenario("{ constant: { times: 0 } }", STEPS, ""));
    let said = bench.run(&["validate", "a.yaml", "b.yaml", "c.yaml", "d.yaml"]).expect_code(65).stderr;
    assert_eq!(said.matches("unknown key `hraders`").count(), 1, "{said}");
    for part in
        ["b.yaml: it has only the faults of d.yaml, which are shown above", "`times` must be at least 1"]
    {
        assert_eq!(said.matches(part).count(), 1, "{part}: {said}");
    }
}

#[test]
fn files_that_are_not_there_or_no_files() {
    let bench = folder();
    std::fs::create_dir(bench.path().join("dir")).unwrap();
    let good = scenario(RUNNER, STEPS, "");
    bench.write("good.yaml", &good);
    bench.write("lonely.yaml", good.replace("deployment: d.yaml\n", ""));
    for (arguments, part) in [
        (
            &["validate", "none.yaml"][..],
            "cannot read none.yaml: No such file or directory (os error 2); check the path",
        ),
        (&["validate", "dir"], "cannot read dir: is a directory"),
        (&["run", "localhost:1/a"], "as in `bench run http://localhost:1/a`"),
        (&["run", "www.example.com"], "a URL begins with http://, https://, grpc:// or ws://"),
        (
            &["run", "ftp://h:1/a"],
            "a URL begins with http://, https://, grpc:// or ws://, as in `bench run http://h:1/a`",
        ),
        (&["run", "none.yaml"], "cannot read none.yaml"),
        (&["run", "good.yaml", "-d", "none.yaml"], "cannot read none.yaml"),
        (&["run", "none.yaml", "-d", "nothing.yaml"], "cannot read nothing.yaml"),
        (&["run", "good.yaml", "-d", "dir"], "cannot read dir: is a directory"),
        (&["run", "good.yaml", "-d", "good.yaml"], "unknown key `title`"),
        (&["run", "d.yaml"], "unknown key `targets`"),
        (&["run", "lonely.yaml"], "lonely.yaml: no deployment is named"),
        (&["validate", "lonely.yaml"], "or give -d FILE"),
        (&["validate", "good.yaml", "none.yaml"], "cannot read none.yaml"),
        (&["run", "good.yaml", "--set", "usr=x"], "--set usr=…: the scenario has no such variable"),
        (&["trace", "headers", "-d", "none.yaml"], "cannot read none.yaml"),
        (&["trace", "headers", "-d", "d.yaml"], "d.yaml has no HMAC key"),
        (&["report", "dir"], "dir holds no run.log"),
    ] {
        let ended = bench.run(arguments).expect_code(65);
        assert!(ended.stderr.contains(part), "{arguments:?}: {}", ended.stderr);
    }
    bench.run(&["validate", "lonely.yaml", "-d", "d.yaml"]).expect_code(0);
    for arguments in [
        &["run"][..],
        &["validate"],
        &["runn", "x"],
        &["run", "good.yaml", "--set", "x"],
        &["validate", ""],
        &[],
    ] {
        bench.run(arguments).expect_code(64);
    }
    let ended = bench.run(&["run"]).expect_code(64);
    assert!(ended.stderr.contains("a URL, as in `bench run http://"), "{}", ended.stderr);
    let help = bench.run(&["run", "--help"]).expect_code(0);
    assert!(help.stdout.contains("bench run http://127.0.0.1:8080/orders -q 100 -z 30s"), "{}", help.stdout);
}

#[test]
fn set_names_the_variable_that_was_meant() {
    let bench = folder();
    bench.write("s.yaml", scenario(RUNNER, STEPS, "variables: { user: a }"));
    let ended = bench.run(&["run", "s.yaml", "--set", "usr=x"]).expect_code(65);
    assert!(ended.stderr.contains("did you mean `user`?"), "{}", ended.stderr);
}

#[expect(clippy::too_many_lines, reason = "a table")]
#[test]
fn deployments() {
    let mut wrong = String::new();
    for (text, place, message, help) in [
        (
            "targets: {}",
            "1:1",
            "the deployment has no target",
            "add `targets: { default: http://host:port }`",
        ),
        ("name: x", "1:1", "the deployment has no target", "add `targets:"),
        ("targets: http://h", "1:10", "`targets` must be a map", "write a map"),
        ("targets: { default: h:80 }", "1:21", "the scheme `h` is not supported", "use http or https"),
        ("targets: { default: 'http://h/?a=1' }", "1:21", "a base URL has no query", "into the action"),
        ("targets: { default: 'http://' }", "1:21", "not a URL", "write it as http://host:port"),
        ("targets: { default: { evn: X } }", "1:23", "unknown key `evn`", "did you mean `env`?"),
        ("targets: { default: { env: X, file: y } }", "1:31", "unknown key `file`", "known keys: "),
        ("targets: { default: { default: x } }", "1:23", "lacks the key `env`", "add `env:`"),
        (
            "targets: { default: { env: EMPTY } }",
            "1:21",
            "the environment variable EMPTY is empty",
            "export EMPTY=",
        ),
        ("targets: { default: { env: '' } }", "1:28", "`env` is empty", "give it a value"),
        (
            "targets: { default: { file: none } }",
            "1:21",
            "cannot read none: No such file",
            "name a readable file",
        ),
        (
            "targets: { default: { file: locked } }",
            "1:21",
            "cannot read locked: Permission denied",
            "name a readable file",
        ),
        ("auth: { basic: { username: u } }", "1:18", "`basic` lacks the key `password`", "add `password:`"),
        ("auth: { basic: { username: u, password: 5 } }", "1:41", "but is a number", "in quotes"),
        ("auth: { bearer: hunter2 }", "1:17", "`bearer` must be a map, but is a text", "token: …"),
        ("auth: { none: {}, bearer: { token: x } }", "1:19", "`auth` takes only one key", "keep one of"),
        (
            "auth: keystone",
            "1:7",
            "`auth` must be a map",
            "known keys: none, basic, bearer, keystone, oauth2, command",
        ),
        ("auth: { oauth2: { client_id: a, client_secret: b } }", "1:19", "lacks the key `token_url`", "add"),
        (
            "auth: { oauth2: { token_url: h/t, client_id: a, client_secret: b } }",
            "1:30",
            "not a URL",
            "https://host/token",
        ),
        ("auth: { command: { run: [] } }", "1:25", "`run` is empty", "add an item"),
        ("proxy: { http: 'ftp://h' }", "1:16", "a proxy with `ftp` is not supported", "http://host:port"),
        (
            "dns: { hosts: { a: not-an-address } }",
            "1:20",
            "`not-an-address` is not an IP address",
            "10.0.0.1",
        ),
        ("targets: { default: 'unix:app.sock' }", "1:21", "its absolute path", "unix:/run/app.sock"),
        ("auth: {}", "1:7", "`auth` is empty", "add one of"),
        (
            "auth: { kerberos: {} }",
            "1:9",
            "unknown key `kerberos`",
            "known keys: none, basic, bearer, keystone",
        ),
        (
            "profiler: { hmac_key: 12345 }",
            "1:23",
            "`hmac_key` must be text or a map, but is a number",
            "in quotes",
        ),
        ("profiler: { hmac_key: [hunter2] }", "1:23", "but is a list", "write"),
        ("profiler: { enabled: on }", "1:22", "but is the text `on`", "write true"),
        (
            "profiler: hunter2",
            "1:11",
            "`profiler` must be a map, but is a text",
            "known keys: enabled, hmac_key",
        ),
        ("tls: { cert: d.yaml }", "1:14", "`cert` and `key` need each other", "give both, or neither"),
        ("tls: { ca: none.pem }", "1:12", "cannot read none.pem: No such file", "name a PEM file"),
        ("headers: { Content-Length: '9' }", "1:12", "says where the request ends", "bench computes it"),
        ("proxy: foo", "1:8", "a proxy needs `http://` or a port", "http://host:port"),
        ("headers: { 'a b': c }", "1:12", "`a b` is not a header name", "letters, digits and dashes"),
        ("demo: { slow_percent: 101 }", "1:23", "at most 100", "write 0 to 100"),
        ("demo: { slowdown: 25 }", "1:19", "but is the number 25", "write it with its sign: 25%"),
        ("demo: { slowdown: -1% }", "1:19", "`-1%` is out of range", "write 0% to 1000%"),
        (
            "demo: { slow_query: 80 }",
            "1:21",
            "but is the number 80",
            "write it with its unit: 80s, 80ms or 80m",
        ),
        ("openstack: { auth_url: 'http://h/v3' }", "1:14", "neither `admin` nor `users`", "add `admin:`"),
        (
            "openstack: { auth_url: 'http://h/v3', admin: { username: a, password: hunter2 } }",
            "1:48",
            "lacks the key `project_name`",
            "add `project_name:`",
        ),
        (
            "openstack: { auth_url: 'http://h/v3', admn: {} }",
            "1:39",
            "unknown key `admn`",
            "did you mean `admin`?",
        ),
        ("openstack: [1]", "1:12", "`openstack` must be a map", "auth_url"),
    ] {
        // Each row has one fault: what it leaves out is there.
        let needs_target =
            !text.starts_with("targets") && !text.starts_with("name") && !text.starts_with("openstack");
        let text = if needs_target {
            format!("{text}\ntargets: {{ default: 'http://h' }}\n")
        } else {
            text.to_owned()
        };
        let bench = folder();
        lock(&bench.write("locked", "hunter2"));
        bench.write("bad.yaml", &text);
        let environment = Environment::new(|name| (name == "EMPTY").then(String::new));
        let (code, said) = validated(&bench, "bad.yaml", environment);
        if can_read(&bench.path().join("locked")) && text.contains("locked") {
            continue; // A superuser reads what nobody may.
        }
        let placed = said.contains(&format!("bad.yaml:{place}\n")) && said.ends_with("bad.yaml: 1 fault\n");
        let leaks = said.contains("hunter2") || said.contains("12345");
        if code != Some(65) || !placed || leaks || !said.contains(message) || !said.contains(help) {
            writeln!(wrong, "== {text}\n-- not {place} {message}, {help}\n{said}\n").unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[cfg(unix)]
fn lock(path: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o000)).unwrap();
}

fn can_read(path: &std::path::Path) -> bool {
    std::fs::read(path).is_ok()
}

/// The name of an environment variable is no secret; a default may be one.
#[test]
fn names_of_environment_variables_are_shown() {
    for (value, shown) in [
        ("{ env: THE_NAME }", "env: THE_NAME"),
        ("{ env: THE_NAME, default: hunter2 }", "env: THE_NAME"),
        ("{ default: hunter2, env: THE_NAME }", "env: THE_NAME"),
        ("hunter2", "*******"),
    ] {
        let steps = format!("  - {{ get: /, headers: {{ 'a b': {value} }} }}");
        let said = refused("s.yaml", scenario(RUNNER, &steps, ""));
        assert!(said.contains("is not a header name") && said.contains(shown), "{value}: {said}");
        assert!(!said.contains("hunter2"), "{value}: {said}");
    }
}

/// An amount below an unknown key is no secret, and shows the mistake.
#[test]
fn amounts_below_an_unknown_key_are_shown() {
    for (step, shown) in [
        ("think: { uniform: [100ms, 1.5s, hunter2] }", "{ uniform: [100ms, 1.5s, *******] }"),
        (
            "xyzw: { a: 20/s, b: [0.5, 95%, 1m30s], c: -x, d: 5KiB }",
            "{ a: 20/s, b: [0.5, 95%, 1m30s], c: **, d: 5KiB }",
        ),
        (
            "xyzw: { pin: 12345, api_key: [12345], n: 123456789, v: 5hunter2, token: { x: 5s } }",
            "{ pin: *****, api_key: [*****], n: *********, v: ********, token: { x: ",
        ),
    ] {
        let said = refused("s.yaml", scenario(RUNNER, &format!("  - {{ get: / }}\n  - {step}"), ""));
        assert!(said.contains("unknown key") && said.contains(shown), "{step}: {said}");
        assert!(!said.contains("hunter2") && !said.contains("12345"), "{step}: {said}");
    }
}

/// Faults of data, each with its place. `data.csv` and its kind are beside the scenario.
#[expect(clippy::too_many_lines, reason = "a table")]
#[test]
fn data() {
    let good = "id,name\n1,ada\n";
    let rows: &[(&str, &str, &[u8], &str, &str)] = &[
        ("data: 5", "f.csv", b"", "6:7|`data` must be a map, but is the number 5", "write a map here"),
        (
            "data: { u: 5 }",
            "f.csv",
            b"",
            "6:12|`u` must be text or a map, but is the number 5",
            "put it in quotes",
        ),
        ("data: { u: {} }", "f.csv", b"", "6:12|`u` has neither `file` nor `rows`", "add `file: FILE`"),
        ("data: { u: { fil: f.csv } }", "f.csv", b"", "6:14|unknown key `fil`", "did you mean `file`?"),
        (
            "data: { u: { file: f.csv, rows: [1] } }",
            "f.csv",
            good.as_bytes(),
            "6:27|both `file` and `rows`",
            "keep one",
        ),
        ("data: { u: { rows: [] } }", "f.csv", b"", "6:20|`rows` is empty", "add an item"),
        (
            "data: { u: { rows: [1], delimiter: ; } }",
            "f.csv",
            b"",
            "6:25|`delimiter` without `file`",
            "remove it",
        ),
        (
            "data: { u: { rows: [1], order: any } }",
            "f.csv",
            b"",
            "6:32|`order` cannot be `any`",
            "sequential, shuffled",
        ),
        (
            "data: { u: { rows: [1], per: worker } }",
            "f.csv",
            b"",
            "6:30|`per` cannot be `worker`",
            "iteration, user",
        ),
        (
            "data: { u: { rows: [1], on_end: fail } }",
            "f.csv",
            b"",
            "6:33|`on_end` cannot be `fail`",
            "stop, repeat, error",
        ),
        (
            "data: { u: { rows: [1], per: user, on_end: stop } }",
            "f.csv",
            b"",
            "6:36|`on_end: stop` together with `per: user`",
            "on_end: error",
        ),
        ("data: { u: f.csv }", "g.csv", b"", "6:12|f.csv: cannot be read", "name a readable file"),
        ("data: { u: . }", "g.csv", b"", "6:12|the format of . is unknown", "add `format: csv`"),
        ("data: { u: { file: ., format: csv } }", "g.csv", b"", "6:20|.: cannot be read", "readable file"),
        (
            "data: { u: f.txt }",
            "f.txt",
            good.as_bytes(),
            "6:12|the format of f.txt is unknown",
            "add `format: csv`",
        ),
        (
            "data: { u: { file: f.csv, delimiter: ab } }",
            "f.csv",
            good.as_bytes(),
            "6:38|`delimiter` is 2 characters",
            "1",
        ),
        (
            "data: { u: { file: f.json, delimiter: ; } }",
            "f.json",
            b"[1]",
            "6:28|separates no columns",
            "remove it",
        ),
        (
            "data: { iteration: f.csv }",
            "f.csv",
            good.as_bytes(),
            "6:9|is a built-in variable",
            "another name",
        ),
        (
            "data: { u-v: f.csv }",
            "f.csv",
            good.as_bytes(),
            "6:9|not a name that templates can use",
            "underscores",
        ),
        (
            "variables: { u: 1 }\ndata: { u: f.csv }",
            "f.csv",
            good.as_bytes(),
            "7:9|also the name of a variable",
            "rename",
        ),
        ("data: { u: f.csv }", "f.csv", b"", "6:12|f.csv: the file is empty", "add rows"),
        (
            "data: { u: f.csv }",
            "f.csv",
            b"a,b\n",
            "6:12|f.csv: the file has a header, but no rows",
            "add rows",
        ),
        (
            "data: { u: f.csv }",
            "f.csv",
            b"a,b\n1\n",
            "6:12|f.csv line 2: it has 1 column, but the header has 2",
            "quotes",
        ),
        (
            "data: { u: f.csv }",
            "f.csv",
            b"a,a\n1,2\n",
            "6:12|f.csv line 1: two columns are named `a`",
            "rename one",
        ),
        (
            "data: { u: f.csv }",
            "f.csv",
            b"a,\n1,2\n",
            "6:12|f.csv line 1: column 2 has no name",
            "give it a name",
        ),
        ("data: { u: f.csv }", "f.csv", b"a\n\0\n", "6:12|f.csv line 2: it contains a NUL byte", "UTF-8"),
        ("data: { u: f.csv }", "f.csv", b"a\nx\n\xff\n", "6:12|f.csv line 3: it is not valid UTF-8", "UTF-8"),
        (
            "data: { u: f.csv }",
            "f.csv",
            b"a\n\"x\n\n",
            "6:12|f.csv line 2: a quoted value has no end",
            "closing quote",
        ),
        ("data: { u: f.csv }", "f.csv", b"a\nx\"y\"\n", "6:12|f.csv line 2: a quote inside a value", "twice"),
        ("data: { u: f.csv }", "f.csv", b"\xff\xfea\0", "6:12|f.csv: it is UTF-16", "save it as UTF-8"),
        ("data: { u: f.json }", "f.json", b"{}", "6:12|f.json line 1: it is not a list", "format: jsonl"),
        ("data: { u: f.json }", "f.json", b"[1,\nx]", "6:12|f.json line 2: it is not JSON", "correct it"),
        ("data: { u: f.json }", "f.json", b"[1", "6:12|f.json line 1: the list has no end", "add `]`"),
        ("data: { u: f.jsonl }", "f.jsonl", b"1\n{\n", "6:12|f.jsonl line 2: it is not JSON", "correct it"),
        ("seed: -1", "f.csv", b"", "6:7|`seed` must be at least 0, but is -1", "write 0 to"),
        ("seed: abc", "f.csv", b"", "6:7|`seed` must be a whole number", "such as 10"),
        (
            "data: { u: { rows: [1] } }\nsetup: [{ get: '/{{ u }}' }]",
            "f.csv",
            b"",
            "7:16|unknown variable `u`",
            "only iterations take rows",
        ),
    ];
    let mut wrong = String::new();
    for (keys, name, content, message, help) in rows {
        let (place, message) = message.split_once('|').unwrap();
        let bench = folder();
        bench.write(name, content);
        bench.write("s.yaml", scenario(RUNNER, STEPS, keys));
        let (code, said) = validated(&bench, "s.yaml", Environment::default());
        let placed = said.contains(&format!("s.yaml:{place}\n")) && said.ends_with("s.yaml: 1 fault\n");
        if code != Some(65) || !placed || !said.contains(message) || !said.contains(help) {
            writeln!(wrong, "== {keys}\n-- not {place}, {message}, {help}:\n{said}\n").unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    for (step, place, message, help) in [
        ("  - get: '/{{ u.nme }}'", "5:10", "`u` has no column `nme`", "did you mean `u.name`?"),
        (
            "  - { post: /, json: { a: [ '{{ u[\"zzz\"] }}' ] } }",
            "5:29",
            "no column `zzz`",
            "columns: id, name",
        ),
        (
            "  - { post: /, json: { a: [ '{{ v.zed }}' ] } }",
            "5:29",
            "`v` has no column `zed`",
            "columns: a, b",
        ),
    ] {
        let bench = folder();
        bench.write("f.csv", good);
        let rest = "data: { u: f.csv, v: { rows: [ { a: 1 }, { b: 1 } ] } }";
        bench.write("s.yaml", scenario(RUNNER, step, rest));
        let (_, said) = validated(&bench, "s.yaml", Environment::default());
        assert!(
            said.contains(&format!("s.yaml:{place}")) && said.contains(message) && said.contains(help),
            "{said}"
        );
    }
    let users = "{ constant: { times: 9, concurrency: 3 } }";
    let rest = "data: { u: { rows: [1, 2], per: user, on_end: error } }";
    let said = refused("s.yaml", scenario(users, "  - get: '/{{ u }}'", rest));
    assert!(said.contains("s.yaml:3:1") && said.contains("`u` has 2 rows for 3 virtual users"), "{said}");
    for (times, too_few) in [(9, true), (2, false)] {
        let arrivals = format!("{{ rps: {{ times: {times}, rps: 5, max_concurrency: 10 }} }}");
        let (code, said) = validate("s.yaml", scenario(&arrivals, "  - get: '/{{ u }}'", rest));
        assert_eq!(
            code == Some(65) && said.contains("`u` has 2 rows for up to 9 virtual"),
            too_few,
            "{said}"
        );
    }
}
