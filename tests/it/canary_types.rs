//! Secrets are recognised by their types, whatever their names: in lines shown with faults, and in values of `--set`.

use std::path::Path;

use bench::config::schema;
use bench::plan::references::Env;
use serde_json::{Value, json};

use crate::canary_schema::{
    CanaryDeployment, Peers, assert_folder_hidden, assert_hidden, canary, kinds_of_auth, resolve,
};
use crate::server::ScriptedServer;
use crate::support::Bench;

/// The places of a deployment where a secret may be written out, and of a scenario what goes into requests: by their
/// types, whatever they are called.
#[test]
fn a_fault_on_its_line_shows_nothing_that_may_be_a_secret() {
    let connection = || Box::new(|_: &str| "file://profile.log".to_owned());
    let mut shown = 0;
    let mut check = |name: &str, text: &str| {
        let said = said_of(name, text);
        assert!(!said.contains("c4n4r"), "{text}\n{said}");
        shown += usize::from(said.contains("error"));
    };
    for auth in kinds_of_auth() {
        let peers = Peers { service: "http://127.0.0.1:1".to_owned(), connection: connection() };
        let mut made = CanaryDeployment::new(&auth, &peers);
        written_out(&schema::DEPLOYMENT, &schema::DEPLOYMENT, &mut made.document);
        for name in ["X-Api-Key", "client_secret", "refresh_token", "X-Anything"] {
            made.document["headers"][name] = "c4n4ry".into();
        }
        made.document["oops"] = 1.into();
        let text = made.document.to_string();
        assert!(text.matches("c4n4ry").count() > 6, "{text}");
        check("d.yaml", &text);
        // If it breaks off, nothing is known of what is there.
        for length in (1..text.len()).filter(|length| text.is_char_boundary(*length)).step_by(7) {
            check("d.yaml", &text[..length]);
        }
    }
    for step in [
        r#"{"get": "/", "headers": {"X-Api-Key": "c4n4ry", "b": "x c4n4ry {{ user }}"}, "oops": 1}"#,
        r#"{"get": "/", "headers": {"X-Api-Key": ["c4n4ry"], "refresh_token": "c4n4ry"}}"#,
        r#"{"post": "/{{ no }}", "json": {"client_secret": "c4n4ry", "a": [{"b": "{{ 'c4n4ry' }}"}]}}"#,
        r#"{"post": "/{{ no }}", "form": {"x": "c4n4ry"}, "query": {"y": "c4n4ry"}}"#,
        r#"{"post": "/{{ no }}", "body": "c4n4ry"}"#,
        r#"{"get": "/{{ no }}", "expect": {"headers": {"X-Subject-Token": "c4n4ry"}}}"#,
        r#"{"get": "/{{ no }}", "headrs": {"X": "c4n4ry"}, "something_else": "c4n4ry"}"#,
    ] {
        check(
            "s.yaml",
            &format!(
                r#"{{"title": "t", "variables": {{"user": "c4n4ry"}}, "runner": {{"serial": {{"times": 1}}}}, "iteration": [{step}]}}"#
            ),
        );
    }
    assert!(shown > 100, "{shown}");
}

/// The message about a file, as the program prints it.
fn said_of(name: &str, text: &str) -> String {
    use bench::text::diagnostics::render;
    use bench::text::yaml;
    let (path, env) = (Path::new(name), |_: &str| None);
    let source = yaml::source(name, text.as_bytes()).unwrap();
    let rejected = if name == "d.yaml" {
        let Err(rejected) = bench::plan::deployment::load(path, source, Env::new(&env)) else {
            return String::new();
        };
        rejected
    } else {
        match bench::plan::scenario::read(source) {
            Err(mut rejected) => {
                let options = bench::plan::scenario::PlanOptions::default();
                bench::plan::scenario::find_further(path, &mut rejected, None, &options, Env::new(&env));
                rejected
            }
            Ok(document) => {
                let options = bench::plan::scenario::PlanOptions::default();
                let faults = bench::plan::scenario::faults_without_deployment(
                    path,
                    &document,
                    None,
                    &options,
                    Env::new(&env),
                );
                bench::config::RejectedFile { source: document.source, faults }
            }
        }
    };
    render(&rejected.source, &rejected.faults, false)
}

/// Writes a canary in place of every reference to a secret.
fn written_out(root: &Value, schema: &Value, node: &mut Value) {
    let (name, schema) = resolve(root, schema);
    if name == Some("SecretReference") {
        *node = "c4n4ry".into();
        return;
    }
    for key in ["anyOf", "allOf"] {
        schema[key].as_array().into_iter().flatten().for_each(|part| written_out(root, part, node));
    }
    if let Some(map) = node.as_object_mut() {
        for (key, node) in map {
            let known = schema["properties"].get(key).unwrap_or(&schema["additionalProperties"]);
            written_out(root, known, node);
        }
    } else if let Some(items) = node.as_array_mut() {
        items.iter_mut().for_each(|item| written_out(root, &schema["items"], item));
    }
}

/// A value of `--set` that is referred to, or whose variable is declared as a reference, is in nothing that is written.
#[test]
fn a_value_of_set_that_is_a_secret_is_in_no_output() {
    const WARNING: &str = "other users of this machine can see";
    let service = ScriptedServer::start(|seen, wire| {
        wire.answer("200 OK", "text/plain", format!("no {}", String::from_utf8_lossy(&seen.body)))
    });
    let bench = Bench::new();
    bench.write("d.yaml", format!("targets: {{ default: {} }}\n", service.url()));
    bench.write("secret.txt", format!("{}\nnot this\n", canary(1)));
    let scenario = json!({"title": "t", "deployment": "d.yaml", "variables": {"plain": "x", "declared": {"env": "NOT_SET"}},
        "runner": {"constant": {"times": 2}},
        "iteration": [{"post": "/a", "body": "{{ plain }} {{ declared }}",
            "expect": {"body": {"equals": "{{ plain }}+{{ declared }}"}}}]});
    bench.write("s.yaml", scenario.to_string());
    for (plain, declared, warns) in [
        ("plain=@secret.txt".to_owned(), "declared=env:V_2".to_owned(), false),
        ("plain=env:V_3".to_owned(), "declared=@secret.txt".to_owned(), false),
        ("plain=public".to_owned(), format!("declared={}", canary(4)), true),
        ("plain==@public".to_owned(), format!("declared=={}", canary(5)), true),
    ] {
        let mut command = bench.command(&["run", "s.yaml", "--set", &plain, "--set", &declared]);
        command.envs((0..9).map(|number| (format!("V_{number}"), canary(number))));
        let ended = Bench::end(&mut command);
        assert_hidden("standard output", ended.stdout.as_bytes());
        assert_hidden("standard error", ended.stderr.as_bytes());
        assert_folder_hidden(&bench.path().join("runs"));
        let results = bench.results();
        assert_eq!(results["workloads"][0]["iterations"]["failed"], 2, "{results:#}");
        assert_eq!(results["scenario"]["set"]["declared"], "***");
        let literal = plain.strip_prefix("plain==").or(plain.strip_prefix("plain=pub").map(|_| "public"));
        assert_eq!(results["scenario"]["set"]["plain"], literal.unwrap_or("***"));
        assert_eq!(ended.stderr.contains(WARNING), warns, "{}", ended.stderr);
        std::fs::remove_dir_all(bench.path().join("runs")).unwrap();
    }
    for (given, problem) in [
        ("plain=@no/such/file", "cannot read no/such/file"),
        ("plain=env:NOT_SET_ANYWHERE", "export NOT_SET_ANYWHERE="),
        ("plain=@", "write plain==@ if"),
    ] {
        let ended = bench.run(&["run", "s.yaml", "--set", given]).expect_code(64);
        assert!(ended.stderr.contains(problem), "{}", ended.stderr);
    }
}
