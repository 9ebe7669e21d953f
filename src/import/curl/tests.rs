//! Tests: curl commands and the steps that they become.

use serde_json::Value;

use super::*;

fn read(path: &str) -> Result<String, ImportError> {
    match path {
        "data.txt" => Ok("one\ntwo\n".to_owned()),
        _ => Err(ImportError::new("no such file", "check the path")),
    }
}

/// The first step without its name and its checks, the deployment's further keys, and the notes.
fn imported(command: &str) -> (Value, Value, Vec<String>) {
    let draft = from_text(command, &read).unwrap_or_else(|error| panic!("{command}: {error}"));
    let mut step = draft.steps[0].keys.clone();
    step.retain(|key, _| key != "action" && key != "expect");
    (Value::Object(step), Value::Object(draft.deployment), draft.notes)
}

#[test]
fn options_become_the_keys_of_a_step() {
    for (command, expected) in [
        ("curl http://h/a", json!({ "get": "/a" })),
        ("curl 'http://h/a?b=c' --compressed -s", json!({ "get": "/a", "query": { "b": "c" } })),
        ("/usr/bin/curl h:1/a", json!({ "get": "/a" })),
        ("curl -XDELETE http://h/a", json!({ "delete": "/a" })),
        ("curl -I http://h/a", json!({ "head": "/a" })),
        ("curl --url http://h -H 'X-A: b'", json!({ "get": "/", "headers": { "X-A": "b" } })),
        ("curl http://h -d a=1 -d b=2", json!({ "post": "/", "form": { "a": "1", "b": "2" } })),
        (
            "curl http://h -G -d a=1 --data-urlencode 'q=x y'",
            json!({ "get": "/", "query": { "a": "1", "q": "x y" } }),
        ),
        (
            "curl http://h --json '{\"a\":1}'",
            json!({ "post": "/", "headers": { "Accept": "application/json" }, "json": { "a": 1 } }),
        ),
        (
            "curl http://h -H 'content-type: application/json' --data-raw $'{\"a\":\"it\\'s\"}'",
            json!({ "post": "/", "json": { "a": "it's" } }),
        ),
        (
            "curl http://h --data-binary @data.txt -H 'Content-Type: text/plain'",
            json!({ "post": "/", "headers": { "Content-Type": "text/plain" }, "body": "one\ntwo\n" }),
        ),
        ("curl http://h -m 2.5", json!({ "get": "/", "timeout": "2.5s" })),
        (
            "curl http://h -H 'X-Api-Key: s3cr3t'",
            json!({ "get": "/", "headers": { "X-Api-Key": "{{ x_api_key }}" } }),
        ),
        ("curl http://h -b 'sid=s3cr3t'", json!({ "get": "/", "headers": { "Cookie": "{{ cookie }}" } })),
        ("curl http://h/{{a}} -H 'Host: x' -H 'X-Empty;'", json!({ "get": "/{{ '{{' }}a}}" })),
        ("curl ^\"http://h/a^\" ^\n  -H ^\"X-A: 1^\"", json!({ "get": "/a", "headers": { "X-A": "1" } })),
    ] {
        let (step, ..) = imported(command);
        assert_eq!(step, expected, "{command}");
    }
}

#[test]
fn credentials_and_connections_become_keys_of_the_deployment_and_are_never_written() {
    let bearer = json!({ "auth": { "bearer": { "token": { "env": "API_TOKEN" } } } });
    let basic = json!({ "auth": { "basic": { "username": "me", "password": { "env": "PASSWORD" } } } });
    for (command, expected) in [
        ("curl -u me:s3cr3t http://h", basic.clone()),
        ("curl http://me:s3cr3t@h/", basic.clone()),
        ("curl http://h -H 'Authorization: Basic bWU6czNjcjN0'", basic),
        ("curl http://h -H 'Authorization: Bearer s3cr3t'", bearer.clone()),
        ("curl http://h --oauth2-bearer s3cr3t", bearer),
        (
            "curl -k --cacert ca.pem --http2 http://h",
            json!({ "tls": { "verify": false, "ca": "ca.pem" }, "http": { "version": "2" } }),
        ),
    ] {
        assert_eq!(imported(command).1, expected, "{command}");
        let written = from_text(command, &read).unwrap().write("d.yaml").unwrap();
        let all = format!("{written:?}");
        assert!(!all.contains("s3cr3t") && !all.contains("czNjcjN0"), "{all}");
    }
}

#[test]
fn what_cannot_be_imported_is_said() {
    let (_, _, notes) = imported("curl http://h --proxy http://p:1 --tr-encoding -Z -sS -o x");
    assert_eq!(notes, ["these options were ignored: --proxy, --tr-encoding, -Z"]);
    for (command, part) in [
        ("wget http://h", "not a curl command"),
        ("curl", "has no URL"),
        ("curl -H", "--header lacks its value"),
        ("curl ftp://h/", "not a URL of http"),
        ("curl http://h -d @none", "no such file"),
        ("curl http://h -X PURGE", "cannot send the method"),
        ("curl http://h -d a -F b=c", "both --data and --form"),
    ] {
        let error = from_text(command, &read).err().map(|error| error.what).unwrap_or_default();
        assert!(error.contains(part), "{command}: {error}");
    }
}

#[test]
fn several_urls_become_several_steps_with_targets() {
    let draft = from_text("curl http://a/x http://b:1/x http://a/x", &read).unwrap();
    let names: Vec<_> = draft.steps.iter().map(|step| step.keys["action"].as_str().unwrap()).collect();
    assert_eq!(names, ["GET /x", "GET /x (2)", "GET /x (3)"]);
    let targets: Vec<_> =
        draft.steps.iter().map(|step| step.keys.get("target").and_then(Value::as_str)).collect();
    assert_eq!(targets, [None, Some("b-1"), None]);
    assert_eq!(
        draft.targets,
        [("default".into(), "http://a".into()), ("b-1".into(), "http://b:1".to_owned())]
    );
}
