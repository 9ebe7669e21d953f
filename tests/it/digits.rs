//! Values go through a scenario as they came: the digits of numbers, truth values, nothing, lists.

use std::collections::HashMap;

use crate::server::{ScriptedRequest, ScriptedServer};
use crate::support::Bench;

/// Numbers that a double, or 64 bits, would change; and some that it would not.
const NUMBERS: [&str; 14] = [
    "17",
    "9007199254740993",
    "2733382000000000049",
    "18446744073709551615",
    "18446744073709551616",
    "-9223372036854775809",
    "123456789012345678901234567890",
    "123456789012345678901234567890123456789012345",
    "1.5",
    "1.50",
    "0.1234567890123456789",
    "1e2",
    "1E400",
    "-0",
];

/// Answers `/n/3` with the fourth number, and all else with nothing.
fn server() -> ScriptedServer {
    ScriptedServer::start(|seen, wire| {
        let index = seen.path.strip_prefix("/n/").and_then(|index| index.parse::<usize>().ok());
        let body = index.map_or("{}".to_owned(), |index| {
            let number = NUMBERS[index];
            format!("{{\"id\": {number}, \"list\": [true, null, {number}, {{\"a\": \"b\"}}], \"x\": 1E400}}")
        });
        wire.answer("200 OK", "application/json", body)
    })
}

/// The values of the query or a form, decoded.
fn pairs(text: &str) -> HashMap<String, String> {
    url::form_urlencoded::parse(text.as_bytes()).into_owned().collect()
}

fn body(seen: &ScriptedRequest) -> String {
    String::from_utf8(seen.body.clone()).unwrap()
}

#[test]
fn the_digits_of_an_answer_go_out_as_they_came() {
    let (server, bench) = (server(), Bench::new());
    let steps: Vec<String> = (0..NUMBERS.len())
        .map(|index| {
            format!(
                "
  - get: /n/{index}
    extract: {{ id: {{ json: $.id }}, same: {{ pointer: /id }}, list: {{ json: $.list }} }}
    expect: {{ json: {{ $.id: {number}, $.list: {{ contains: {number} }} }}, variables: {{ id: {number} }} }}
  - action: json {index}
    post: /json/{{{{ id }}}}
    query: {{ q: '{{{{ id }}}}', e: '{{{{ id | urlencode }}}}', own: {number} }}
    headers: {{ X-Id: 'n={{{{ id }}}}' }}
    json: {{ id: '{{{{ id }}}}', same: '{{{{ same }}}}', text: 'n={{{{ id }}}}', list: '{{{{ list }}}}', own: {number} }}
  - for_each: '{{{{ list }}}}'
    as: item
    steps: [ {{ action: item {index}, post: /item, form: {{ item: '{{{{ item }}}}', joined: \"{{{{ [id, id] | join('+') }}}}\" }} }} ]
  - set: {{ copy: '{{{{ id }}}}', own: [{number}] }}
  - action: text {index}
    post: /text
    body: '{{{{ copy }}}} {{{{ own | tojson }}}} {{{{ \"n\" ~ copy }}}} {{{{ copy | string }}}} {{{{ own }}}}'",
                number = NUMBERS[index]
            )
        })
        .collect();
    let scenario = format!("runner: {{ serial: {{ times: 1 }} }}\niteration:{}", steps.concat());
    bench.load(&server.url(), "", &scenario);
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let seen = server.seen();
    let of = |start: &str| seen.iter().filter(|seen| seen.path.starts_with(start)).collect::<Vec<_>>();
    let (posted, texts, items) = (of("/json/"), of("/text"), of("/item"));
    assert_eq!((posted.len(), texts.len(), items.len()), (NUMBERS.len(), NUMBERS.len(), 4 * NUMBERS.len()));
    for (index, number) in NUMBERS.into_iter().enumerate() {
        let (path, query) = posted[index].path.split_once('?').unwrap();
        assert_eq!(path, format!("/json/{number}"));
        let query = pairs(query);
        for name in ["q", "e", "own"] {
            assert_eq!(query[name], number, "{name}");
        }
        assert_eq!(posted[index].headers["x-id"], format!("n={number}"));
        let json = format!(
            "{{\"id\":{number},\"same\":{number},\"text\":\"n={number}\",\"list\":[true,null,{number},{{\"a\":\"b\"}}],\"own\":{number}}}"
        );
        assert_eq!(body(posted[index]), json);
        assert_eq!(body(texts[index]), format!("{number} [{number}] n{number} {number} [{number}]"));
        for (item, expected) in items[4 * index..].iter().zip(["true", "null", number, "{\"a\":\"b\"}"]) {
            let form = pairs(&body(item));
            assert_eq!((form["item"].as_str(), &form["joined"]), (expected, &format!("{number}+{number}")));
        }
    }
}

#[test]
fn truth_values_nothing_and_lists_show_as_json() {
    let answer = r#"{"flag": true, "down": false, "nothing": null, "list": [true, null, "a"]}"#;
    let server = ScriptedServer::start(move |_, wire| wire.answer("200 OK", "application/json", answer));
    let bench = Bench::new();
    bench.write(
        "rows.jsonl",
        "{\"on\": true, \"off\": null, \"id\": 18446744073709551616, \"price\": 1.50}\n",
    );
    let scenario = "
variables: { setting: true, big: 123456789012345678901234567890, map: { a: [false] } }
data: { row: rows.jsonl }
runner: { serial: { times: 1 } }
iteration:
  - get: /get
    extract: { flag: { json: $.flag }, down: { json: $.down }, nothing: { json: $.nothing }, list: { json: $.list } }
  - post: '/p/{{ flag }}/{{ nothing }}'
    query: { q: '{{ flag }}', l: '{{ list }}', same: true }
    headers: { X-F: '{{ down }}', X-G: '{{ flag and not down }}' }
    form: { f: '{{ down }}', v: '{{ setting }}', m: '{{ map }}', none: 'x{{ none }}' }
  - post: /b
    body: '{\"a\": {{ flag }}, \"b\": {{ nothing }}, \"l\": {{ list }}, \"m\": {{ map }}, \"c\": {{ 1 < 2 }}, \"big\": {{ big }}}'
  - post: /rows/{{ row.on }}/{{ row.off }}/{{ row.id }}/{{ row.on ~ setting }}/{{ [flag, none] | join('-') }}/{{ flag | string }}
  - if: flag and not down and nothing is none and row.id == 18446744073709551616 and row.price == 1.5 and 1.5 in [row.price]
    then: [ { post: /same } ]";
    bench.load(&server.url(), "", scenario);
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let seen = server.seen();
    let (path, query) = seen[1].path.split_once('?').unwrap();
    assert_eq!(path, "/p/true/null");
    let query = pairs(query);
    assert_eq!(
        (query["q"].as_str(), query["l"].as_str(), query["same"].as_str()),
        ("true", "[true,null,\"a\"]", "true")
    );
    assert_eq!((seen[1].headers["x-f"].as_str(), seen[1].headers["x-g"].as_str()), ("false", "true"));
    let form = pairs(&body(&seen[1]));
    assert_eq!((form["f"].as_str(), form["v"].as_str()), ("false", "true"));
    assert_eq!((form["m"].as_str(), form["none"].as_str()), ("{\"a\":[false]}", "xnull"));
    let json = r#"{"a": true, "b": null, "l": [true,null,"a"], "m": {"a":[false]}, "c": true, "big": 123456789012345678901234567890}"#;
    assert_eq!(body(&seen[2]), json);
    assert_eq!(seen[3].path, "/rows/true/null/18446744073709551616/truetrue/true-null/true");
    assert_eq!(seen[4].path, "/same");
}

#[test]
fn what_cannot_be_kept_is_an_error_with_its_name() {
    let server = server();
    let bench = Bench::new();
    for (template, part) in [
        ("{{ id + 1 }}", "templates cannot calculate with 12345"),
        ("{{ id + 1 }}", "{{ id + 1 }}"),
        ("{{ 2 * id }}", "cannot calculate"),
        ("{{ id | int }}", ""),
        ("{{ id | float }}", "more digits than 64 bits can keep"),
        ("{{ '9007199254740993' | float }}", "more digits than 64 bits can keep"),
        ("{{ id | round }}", "{{ id | round }}"),
        ("{{ [id] | sum }}", "cannot calculate"),
    ] {
        let scenario = format!(
            "runner: {{ serial: {{ times: 1 }} }}\niteration:\n  - {{ get: /n/7, extract: {{ id: {{ json: $.id }} }} }}\n  - post: /x\n    json: {{ a: \"{template}\" }}"
        );
        bench.load(&server.url(), "", &scenario);
        let ended = bench.run(&["run", "--once", "scenario.yaml"]);
        let said =
            format!("{}{}", ended.stdout, ended.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(part) && server.count("/x") == 0, "{template}: {said}");
    }
    // What 64 or 128 bits hold is calculated exactly.
    let scenario = "
runner: { serial: { times: 1 } }
iteration:
  - { get: /n/6, extract: { big: { json: $.id } } }
  - { get: /n/9, extract: { price: { json: $.id } } }
  - post: /x
    json: { a: '{{ big + 1 }}', b: '{{ price * 2 }}', c: '{{ price == 1.5 and price < 1.6 and price is float }}', d: '{{ 0.1 + 0.2 }}' }";
    bench.load(&server.url(), "", scenario);
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let sent = server.seen().into_iter().find(|seen| seen.path == "/x").unwrap();
    assert_eq!(
        body(&sent),
        r#"{"a":123456789012345678901234567891,"b":3.0,"c":true,"d":0.30000000000000004}"#
    );
}

#[test]
fn numbers_of_a_scenario_are_those_of_yaml_1_2() {
    let server = server();
    let bench = Bench::new();
    let scenario = "
runner: { serial: { times: 1 } }
iteration:
  - post: /x
    json: { hex: 0x1F, octal: 0o17, exp: 1e3, text: \"0x1F\", under: 1_000, price: 1.50, plus: +2.50, half: .5, 1.50: x }
    query: { hex: 0x1F, price: 1.50, big: 18446744073709551616 }
  - post: /multipart
    multipart: { price: 1.50, big: [18446744073709551616] }";
    bench.load(&server.url(), "", scenario);
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let seen = server.seen();
    let json = r#"{"hex":31,"octal":15,"exp":1e3,"text":"0x1F","under":"1_000","price":1.50,"plus":2.50,"half":0.5,"1.50":"x"}"#;
    assert_eq!(body(&seen[0]), json);
    let query = pairs(seen[0].path.split_once('?').unwrap().1);
    assert_eq!((query["hex"].as_str(), query["price"].as_str()), ("31", "1.50"));
    assert_eq!(query["big"], "18446744073709551616");
    let parts = body(&seen[1]);
    assert!(parts.contains("\r\n1.50\r\n") && parts.contains("\r\n18446744073709551616\r\n"), "{parts}");
    for (line, part) in [
        ("json: { v: .inf }", "`.inf` is no number that JSON has"),
        ("json: [ -.INF ]", "`-.INF` is no number that JSON has"),
        ("expect: { json: { $.a: .nan } }", "`.nan` is no number that JSON has"),
        ("json: { a: '{{ 1 is notest }}' }", "unknown test `notest`"),
        ("json: { a: '{{ 1.5 | nofilter }}' }", "unknown filter `nofilter`"),
        ("json: { a: '{{ 4 is divisibleby }}' }", "the test `divisibleby` needs an argument"),
        ("json: { a: 'x{{ 4 | replace(1) }}' }", "the filter `replace` needs two arguments"),
        ("if: 1 is notest\n    then: [ { get: / } ]", "unknown test `notest`"),
        (
            "expect: { json: { \"$[?@.id == 9007199254740993]\": { exists: true } } }",
            "is read as a double, which does not tell",
        ),
    ] {
        let first = if line.starts_with("if") { "" } else { "post: /x\n    " };
        bench.load(
            &server.url(),
            "",
            &format!("runner: {{ serial: {{ times: 1 }} }}\niteration:\n  - {first}{line}"),
        );
        let ended = bench.run(&["validate", "scenario.yaml"]);
        let said = format!("{}{}", ended.stdout, ended.stderr);
        assert!(ended.code == Some(65) && said.contains(part), "{line}: {said}");
        let place = if first.is_empty() { "scenario.yaml:5" } else { "scenario.yaml:6" };
        assert!(said.contains(place), "{line}: {said}");
    }
}

#[test]
fn filters_of_a_json_path_compare_all_digits() {
    let answer = r#"{"want": 9007199254740993, "most": 0.3, "orders": [{"id": 9007199254740992, "n": "a", "p": 0.3},
        {"id": 9007199254740993, "n": "b", "p": 0.3000000000000000000001}, {"id": 1E400, "n": "c", "p": 7}]}"#;
    let server = ScriptedServer::start(move |_, wire| wire.answer("200 OK", "application/json", answer));
    let bench = Bench::new();
    let scenario = "
runner: { serial: { times: 1 } }
iteration:
  - get: /a
    extract: { id: { json: '$.orders[?@.id == $.want].id' } }
    expect: { json: { '$.orders[?@.id == $.want].n': b, '$.orders[?@.id < $.want].n': a,
                      '$.orders[?@.id > $.want].n': c, '$.orders[?@.id != $.want && @.p >= 7].n': c,
                      '$.orders[?@.p > 0.3].n': b, '$.orders[?@.p <= 0.3 && @.p >= $.most].n': a,
                      '$.orders[?@.p == 0.3000000000000001].n': { exists: false } } }
  - get: '/{{ id }}'";
    bench.load(&server.url(), "", scenario);
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    assert_eq!(server.seen()[1].path, "/9007199254740993");
}

#[test]
fn a_group_that_takes_no_part_in_the_match_is_no_value() {
    let server = ScriptedServer::start(|_, wire| wire.answer("200 OK", "text/plain", "id=\nname=b"));
    let bench = Bench::new();
    for (extract, code, part) in [
        ("{ regex: 'id=([0-9]+)?' }", 1, "its group takes no part in the match"),
        ("{ regex: 'id=([0-9]+)?', default: none }", 0, ""),
        ("{ regex: 'id=([0-9]*)' }", 0, ""),
        ("{ regex: 'name=.' }", 0, ""),
    ] {
        let scenario = format!(
            "runner: {{ serial: {{ times: 1 }} }}\niteration:\n  - {{ get: /a, extract: {{ id: {extract} }} }}\n  - post: '/[{{{{ id | urlencode }}}}]'"
        );
        bench.load(&server.url(), "", &scenario);
        let ended = bench.run(&["run", "--once", "scenario.yaml"]);
        let said =
            format!("{}{}", ended.stdout, ended.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(ended.code == Some(code) && said.contains(part), "{extract}: {:?} {said}", ended.code);
    }
    let paths: Vec<String> =
        server.seen().into_iter().map(|seen| seen.path).filter(|path| path != "/a").collect();
    assert_eq!(paths, ["/[none]", "/[]", "/[name%3Db]"]);
}

#[test]
fn imports_keep_digits() {
    let bench = Bench::new();
    let data = r#"{"id": 123456789012345678901234567890, "price": 1.50, "x": [1E400, 2733382000000000049]}"#;
    bench.write("c.sh", format!("curl http://127.0.0.1:1/x -H 'Content-Type: application/json' -d '{data}'"));
    let written = |words: &[&str], file: &str| {
        bench.run(&[&["import"], words, &["-o", file]].concat()).expect_code(0);
        std::fs::read_to_string(bench.path().join(file)).unwrap()
    };
    let curl = written(&["curl", "c.sh"], "one.yaml");
    for part in ["id: 123456789012345678901234567890", "price: 1.50", "- 1E400", "- 2733382000000000049"] {
        assert!(curl.contains(part), "{curl}");
    }
    let schema = r#"{"type": "object", "properties": {
        "a": {"type": "integer", "minimum": 2733382000000000049},
        "b": {"type": "number", "example": 1.50}, "c": {"type": "integer", "default": 18446744073709551616}}}"#;
    let document = format!(
        r#"{{"openapi": "3.0.3", "info": {{"title": "t", "version": "1"}}, "servers": [{{"url": "http://127.0.0.1:1"}}],
        "paths": {{"/x/{{id}}": {{"post": {{"parameters": [{{"name": "id", "in": "path", "required": true, "example": 123456789012345678901234567890}}],
        "requestBody": {{"content": {{"application/json": {{"schema": {schema}}}}}}}, "responses": {{"200": {{"description": "ok"}}}}}}}}}}}}"#
    );
    bench.write("o.json", &document);
    let openapi = written(&["openapi", "o.json", "--unsafe"], "two.yaml");
    for part in
        ["2733382000000000049", "b: 1.50", "c: 18446744073709551616", "123456789012345678901234567890"]
    {
        assert!(openapi.contains(part), "{part}: {openapi}");
    }
    assert!(!openapi.contains("digits-") && !curl.contains("digits-"), "{openapi}");
}

#[test]
fn json_as_python_writes_it_is_a_scenario() {
    let (server, bench) = (server(), Bench::new());
    let scenario = r#"{"title": "t", "deployment": "deployment.yaml", "runner": {"serial": {"times": 1}}, "iteration": [
        {"post": "/x", "json": {"a": "\ud83d\ude00 \\ud83d", "b": ["\ud83d\ude01", "\u00fc\uD83D\uDE02"]}}, {"get": "/{{ nobody }}"}]}"#;
    bench.load(&server.url(), "", "");
    bench.write("scenario.yaml", scenario);
    let ended = bench.run(&["validate", "scenario.yaml"]);
    let said = format!("{}{}", ended.stdout, ended.stderr);
    // A fault behind the pairs has its right place.
    assert!(said.contains("scenario.yaml:2:117") && said.contains("nobody"), "{said}");
    bench.write("scenario.yaml", scenario.replace(", {\"get\": \"/{{ nobody }}\"}", ""));
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    assert_eq!(
        body(&server.seen()[0]),
        "{\"a\":\"\u{1F600} \\\\ud83d\",\"b\":[\"\u{1F601}\",\"\u{fc}\u{1F602}\"]}"
    );
    // The same in the middle of YAML.
    let yaml = "runner: { serial: { times: 1 } }\niteration:\n  - post: /y\n    json: {\"a\": \"\\ud83d\\ude00\", \"b\": [\"x\", \"\\ud83d\\ude01\"]}\n    query: { raw: '\\ud83d\\ude00' }";
    bench.load(&server.url(), "", yaml);
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let seen = &server.seen()[1];
    assert_eq!(body(seen), "{\"a\":\"\u{1F600}\",\"b\":[\"x\",\"\u{1F601}\"]}");
    assert_eq!(pairs(seen.path.split_once('?').unwrap().1)["raw"], "\\ud83d\\ude00");
}
