//! `bench comment`: what it says of runs and comparisons, where it posts it, and what it does when that fails.

use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use crate::forge::{Forge, ForgeAnswer, OWNER, TOKEN};
use crate::server::{ScriptedRequest, ScriptedServer};
use crate::support::{Bench, CommandOutput};

const SCENARIO: &str = r#"
title: "Checkout @team #12 | <script> ![](http://tracker.test/x.png)"
deployment: demo.yaml
runner: { constant: { times: 40, concurrency: 2 } }
iteration:
  - { action: look, get: /, expect: { status: 200 } }
sla:
  thresholds: [ p(50) < 1ns ]
"#;

/// The variables of CI systems, none of which the machine of the tests may add to.
const VARIABLES: [&str; 27] = [
    "GITHUB_ACTIONS",
    "GITHUB_ACTOR",
    "GITHUB_API_URL",
    "GITHUB_EVENT_NAME",
    "GITHUB_EVENT_PATH",
    "GITHUB_REF",
    "GITHUB_REPOSITORY",
    "GITHUB_RUN_ID",
    "GITHUB_SERVER_URL",
    "GITHUB_STEP_SUMMARY",
    "GITHUB_TOKEN",
    "GH_TOKEN",
    "GITLAB_CI",
    "GITLAB_TOKEN",
    "CI_API_V4_URL",
    "CI_JOB_TOKEN",
    "CI_JOB_URL",
    "CI_MERGE_REQUEST_IID",
    "CI_MERGE_REQUEST_PROJECT_ID",
    "CI_MERGE_REQUEST_PROJECT_URL",
    "CI_MERGE_REQUEST_SOURCE_PROJECT_ID",
    "CI_PROJECT_ID",
    "CI_PROJECT_URL",
    "http_proxy",
    "https_proxy",
    "HTTPS_PROXY",
    "all_proxy",
];

/// The files of a run that fails its gate: its log makes the rest.
fn stored() -> &'static [(String, Vec<u8>)] {
    static RUN: OnceLock<Vec<(String, Vec<u8>)>> = OnceLock::new();
    RUN.get_or_init(|| {
        let bench = Bench::new();
        bench.write("demo.yaml", "demo: {}\n");
        bench.write("scenario.yaml", SCENARIO);
        Bench::end(&mut without_ci(bench.command(&["run", "scenario.yaml", "--quiet"]))).expect_code(2);
        let files = std::fs::read_dir(bench.run_directory()).unwrap().map(|entry| entry.unwrap().path());
        let files = files.filter(|path| path.is_file());
        files
            .map(|path| {
                (path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read(path).unwrap())
            })
            .collect()
    })
}

/// A folder with such a run in `run`.
fn folder() -> Bench {
    let bench = Bench::new();
    std::fs::create_dir(bench.path().join("run")).unwrap();
    for (name, content) in stored() {
        bench.write(&format!("run/{name}"), content);
    }
    bench
}

fn without_ci(mut command: Command) -> Command {
    for name in VARIABLES {
        command.env_remove(name);
    }
    command
}

/// A job of GitHub Actions for pull request 12.
fn on_github(bench: &Bench, api: &str, arguments: &[&str]) -> Command {
    let mut command = without_ci(bench.command(&[&["comment", "run"], arguments].concat()));
    command.env("GITHUB_ACTIONS", "true").env("GITHUB_API_URL", api).env("GITHUB_TOKEN", TOKEN);
    command.env("GITHUB_REPOSITORY", "me/shop").env("GITHUB_REF", "refs/pull/12/merge");
    command.env("GITHUB_SERVER_URL", "https://github.test").env("GITHUB_RUN_ID", "99");
    command
}

/// A job of GitLab for merge request 12.
fn on_gitlab(bench: &Bench, api: &str, arguments: &[&str]) -> Command {
    let mut command = without_ci(bench.command(&[&["comment", "run"], arguments].concat()));
    command.env("GITLAB_CI", "true").env("CI_API_V4_URL", format!("{api}/api/v4")).env("GITLAB_TOKEN", TOKEN);
    command.env("CI_PROJECT_ID", "me/shop").env("CI_MERGE_REQUEST_IID", "12");
    command
        .env("CI_PROJECT_URL", "https://gitlab.test/me/shop")
        .env("CI_JOB_URL", "https://gitlab.test/job/9");
    command
}

type OnPlatform = fn(&Bench, &str, &[&str]) -> Command;
const PLATFORMS: [(&str, OnPlatform); 2] = [("github", on_github), ("gitlab", on_gitlab)];

/// Runs it to its end; nothing that it says has the token.
#[track_caller]
fn end(command: &mut Command, code: i32) -> CommandOutput {
    let ended = Bench::end(command).expect_code(code);
    for said in [&ended.stdout, &ended.stderr] {
        assert!(!said.contains(TOKEN), "{said}");
    }
    ended
}

/// A pull request of a fork.
fn fork(bench: &Bench) -> std::path::PathBuf {
    let event = json!({ "pull_request": {
        "number": 12,
        "head": { "repo": { "full_name": "you/shop" } },
        "base": { "repo": { "full_name": "me/shop" } },
    } });
    bench.write("event.json", event.to_string())
}

#[test]
fn the_text_says_the_verdict_first_and_is_short_and_inert() {
    let bench = folder();
    let mut command = without_ci(bench.command(&["comment", "run", "--link", "https://reports.test/1"]));
    let text = end(&mut command, 0).stdout;
    let mut lines = text.lines();
    let mark = lines.next().unwrap();
    assert_eq!(mark, "<!-- bench:run-checkout-team-12-script-http-tracker-test-x-png -->");
    assert!(lines.next().unwrap().starts_with("### FAIL · "), "{text}");
    assert!(text.lines().count() <= 60 && text.len() < 60_000, "{text}");
    for part in [
        "\\@&#8203;team",
        "\\#&#8203;12",
        "&lt;script&gt;",
        "[Full report](https://reports.test/1)",
        "p50 &lt; 1ns",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    for part in ["@team", "#12 ", "<script", "![", "](http://tracker"] {
        assert!(!text.contains(part), "{part}: {text}");
    }
    // The same of the newest run, of its results alone, of its log alone, and into a file.
    bench.run(&["comment", "run/results.json", "-o", "file.md"]).expect_code(0);
    let of_file = std::fs::read_to_string(bench.path().join("file.md")).unwrap();
    assert_eq!(of_file.lines().nth(1), text.lines().nth(1));
    std::fs::remove_file(bench.path().join("run/results.json")).unwrap();
    let of_log = bench.run(&["comment", "run"]).expect_code(0).stdout;
    assert!(of_log.lines().nth(1).unwrap().starts_with("### FAIL · "), "{of_log}");
}

#[test]
fn one_comment_stands_for_each_tag_and_is_changed() {
    for (name, job) in PLATFORMS {
        let (bench, forge) = (folder(), Forge::obliging());
        // More than a page, and one whose author only wrote the mark.
        (0..7).for_each(|nth| forge.add(5, &format!("comment {nth}")));
        forge.add(6, "<!-- bench:order -->\nPASS, believe me");
        forge.add(OWNER, "a quote of <!-- bench:order -->");
        let (api, before) = (forge.server.url(), forge.comments().len());
        for (tag, expected, is_new) in [
            ("order", 1, true),
            ("order", 1, false),
            ("search", 2, true),
            ("order", 2, false),
            ("search", 2, false),
        ] {
            let ended = end(&mut job(&bench, &api, &["--post", "--tag", tag]), 0);
            let word = if is_new { "comment added" } else { "comment changed" };
            assert!(ended.stderr.contains(word), "{name} {tag}: {}", ended.stderr);
            assert_eq!(forge.comments().len(), before + expected, "{name} {tag}");
            let id = 1_000 + before + usize::from(tag == "search");
            let url = match name {
                "github" => format!("https://github.test/me/shop/pull/12#issuecomment-{id}\n"),
                _ => format!("https://gitlab.test/me/shop/-/merge_requests/12#note_{id}\n"),
            };
            assert_eq!(ended.stdout, url, "{name}");
        }
        let comments = forge.comments();
        assert!(
            comments[7].body.ends_with("believe me") && comments[8].body.starts_with("a quote"),
            "{comments:?}"
        );
        let posted = &comments[before];
        assert_eq!(posted.author, OWNER);
        assert!(posted.body.starts_with("<!-- bench:order -->\n### FAIL · "), "{}", posted.body);
        let job = if name == "github" {
            "https://github.test/me/shop/actions/runs/99"
        } else {
            "https://gitlab.test/job/9"
        };
        assert!(posted.body.contains(&format!("[Job]({job})")), "{}", posted.body);
    }
}

/// A comment that has just been deleted is added again.
#[test]
fn a_comment_that_is_gone_is_added_again() {
    let gone = |status| {
        move |request: &ScriptedRequest| {
            (request.method == "PATCH").then(|| ForgeAnswer {
                status,
                headers: String::new(),
                body: "{}",
                is_done: false,
            })
        }
    };
    let (bench, forge) = (folder(), Forge::start(gone("404 Not Found")));
    for comments in [1, 2] {
        end(&mut on_github(&bench, &forge.server.url(), &["--post", "--tag", "a"]), 0);
        assert_eq!(forge.comments().len(), comments);
    }
}

/// A request that fails, and what becomes of the comment.
struct FaultRow {
    method: &'static str,
    status: &'static str,
    headers: &'static str,
    body: &'static str,
    /// How many requests fail so.
    times: usize,
    /// The exit code, what is said, and how many comments there are.
    expected: (i32, &'static str, usize),
}

const ALWAYS: usize = usize::MAX;

const fn fails(method: &'static str, status: &'static str, expected: (i32, &'static str, usize)) -> FaultRow {
    FaultRow { method, status, headers: "", body: "{}", times: ALWAYS, expected }
}

const FAULTS: [FaultRow; 13] = [
    fails("GET", "401 Unauthorized", (1, "wrong or has expired", 0)),
    FaultRow {
        body: "{\"message\": \"Resource not accessible by integration\"}",
        ..fails("POST", "403 Forbidden", (1, "not accessible by integration; the token may not comment", 0))
    },
    fails("GET", "404 Not Found", (1, "--pull-request", 0)),
    fails("POST", "422 Unprocessable", (1, "answered 422", 0)),
    FaultRow {
        headers: "Location: ELSEWHERE/x\r\n",
        ..fails("GET", "301 Moved Permanently", (1, "--repository", 0))
    },
    FaultRow {
        headers: "Retry-After: 0\r\n",
        times: 1,
        ..fails("GET", "429 Too Many Requests", (0, "comment added", 1))
    },
    FaultRow {
        headers: "Retry-After: 1\r\n",
        times: 1,
        ..fails("POST", "403 Forbidden", (0, "comment added", 1))
    },
    FaultRow {
        headers: "Retry-After: 3600\r\n",
        ..fails("POST", "429 Too Many Requests", (1, "asks to wait 3600 s", 0))
    },
    FaultRow { times: 1, ..fails("GET", "502 Bad Gateway", (0, "comment added", 1)) },
    fails("GET", "503 Unavailable", (69, "answered 503", 0)),
    fails("POST", "500 Oops", (69, "answered 500", 0)),
    FaultRow { body: "no JSON", ..fails("GET", "200 OK", (1, "no JSON", 0)) },
    fails("GET", "200 OK", (1, "no list of comments", 0)),
];

/// The comment is added, although the answer says otherwise.
static HALF_DONE: FaultRow =
    FaultRow { times: 1, ..fails("POST", "502 Bad Gateway", (0, "comment changed", 1)) };

/// A server whose requests of a method fail so often, perhaps only after they had their effect.
fn failing(row: &'static FaultRow, elsewhere: &str, is_done: bool) -> Forge {
    let (seen, headers) = (AtomicUsize::new(0), row.headers.replace("ELSEWHERE", elsewhere));
    Forge::start(move |request| {
        let is_it = request.method == row.method && !request.path.starts_with("/user");
        (is_it && seen.fetch_add(1, Ordering::SeqCst) < row.times).then(|| ForgeAnswer {
            status: row.status,
            headers: headers.clone(),
            body: row.body,
            is_done,
        })
    })
}

#[test]
fn faults_are_told_with_a_remedy_or_tried_again() {
    let elsewhere = ScriptedServer::start(|_, wire| wire.answer("200 OK", "application/json", "[]"));
    let bench = folder();
    for row in &FAULTS {
        let (code, said, comments) = row.expected;
        let forge = failing(row, &elsewhere.url(), false);
        let ended = end(&mut on_github(&bench, &forge.server.url(), &["--post"]), code);
        assert!(ended.stderr.contains(said), "{} {}: {}", row.method, row.status, ended.stderr);
        assert_eq!(forge.comments().len(), comments, "{} {}", row.method, row.status);
    }
    assert!(elsewhere.seen().is_empty(), "the token went elsewhere");
    let forge = failing(&HALF_DONE, "", true);
    let ended = end(&mut on_github(&bench, &forge.server.url(), &["--post"]), 0);
    assert!(ended.stderr.contains("comment changed"), "{}", ended.stderr);
    assert_eq!(forge.comments().len(), 1);
    // Nobody answers.
    let nobody = format!("http://{}", crate::support::free_address());
    end(&mut on_github(&bench, &nobody, &["--post"]), 69);
}

#[test]
fn a_job_token_of_gitlab_is_told_apart() {
    let forge = Forge::obliging();
    let bench = folder();
    let mut command = on_gitlab(&bench, &forge.server.url(), &["--post"]);
    let ended = end(command.env_remove("GITLAB_TOKEN").env("CI_JOB_TOKEN", TOKEN), 1);
    assert!(ended.stderr.contains("CI_JOB_TOKEN") && ended.stderr.contains("Reporter"), "{}", ended.stderr);
    assert!(forge.server.seen().iter().all(|request| request.headers.contains_key("job-token")));
}

#[test]
fn a_fork_keeps_its_comment_in_the_summary() {
    let read_only = |request: &ScriptedRequest| {
        (request.method == "POST").then(|| ForgeAnswer {
            status: "403 Forbidden",
            headers: String::new(),
            body: "{\"message\": \"Resource not accessible by integration\"}",
            is_done: false,
        })
    };
    let (bench, forge) = (folder(), Forge::start(read_only));
    let (event, summary) = (fork(&bench), bench.path().join("summary.md"));
    for has_token in [true, false] {
        let job = |arguments: &[&str]| {
            let mut command = on_github(&bench, &forge.server.url(), arguments);
            command.env("GITHUB_EVENT_PATH", &event).env_remove("GITHUB_REF");
            if !has_token {
                command.env_remove("GITHUB_TOKEN");
            }
            command
        };
        let _ = std::fs::remove_file(&summary);
        let ended = end(job(&["--post"]).env("GITHUB_STEP_SUMMARY", &summary), 0);
        assert!(ended.stderr.contains("comes from a fork") && ended.stdout.is_empty(), "{}", ended.stderr);
        assert!(std::fs::read_to_string(&summary).unwrap().contains("\n### FAIL · "));
        let ended = end(&mut job(&["--post"]), 0);
        assert!(ended.stdout.contains("### FAIL · "), "{}", ended.stdout);
        let ended = end(&mut job(&["--post", "--must-post"]), 1);
        assert!(ended.stderr.contains("--must-post"), "{}", ended.stderr);
    }
    // Without a fork, a missing token is a mistake.
    let ended = end(on_github(&bench, &forge.server.url(), &["--post"]).env_remove("GITHUB_TOKEN"), 64);
    assert!(ended.stderr.contains("github.token"), "{}", ended.stderr);
    let mut command = on_gitlab(&bench, &forge.server.url(), &["--post"]);
    command.env_remove("GITLAB_TOKEN").env("CI_MERGE_REQUEST_PROJECT_ID", "1");
    let ended = end(command.env("CI_MERGE_REQUEST_SOURCE_PROJECT_ID", "2"), 0);
    assert!(ended.stdout.contains("### FAIL · "), "{}", ended.stdout);
}

/// The place comes from options, then from the event, then from variables.
#[test]
fn the_place_is_found_or_asked_for() {
    let (bench, forge) = (folder(), Forge::obliging());
    let api = forge.server.url();
    let repository = json!({ "repo": { "full_name": "me/shop" } });
    for (event, code) in [
        (json!({ "pull_request": { "number": 12, "head": repository, "base": repository } }).to_string(), 0),
        (json!({ "issue": { "number": 12, "pull_request": {} } }).to_string(), 0),
        (json!({ "workflow_run": { "pull_requests": [{ "number": 12 }] } }).to_string(), 0),
        (json!({ "issue": { "number": 12 } }).to_string(), 64),
        (json!({ "ref": "refs/heads/main" }).to_string(), 64),
        ("{".to_owned(), 64),
        (String::new(), 64),
    ] {
        let path = bench.write("event.json", &event);
        let mut command = on_github(&bench, &api, &["--post"]);
        command.env("GITHUB_EVENT_PATH", &path).env_remove("GITHUB_REF");
        let ended = end(&mut command, code);
        assert!(code == 0 || ended.stderr.contains("--pull-request N"), "{event}: {}", ended.stderr);
    }
    bench.write("token", format!("{TOKEN}\n"));
    let shop = "--repository me/shop --pull-request 12";
    for (arguments, code, said) in [
        ("--post".to_owned(), 64, "--post=github"),
        ("--post=github".to_owned(), 64, "--repository OWNER/NAME"),
        ("--post=github --repository me/shop".to_owned(), 64, "--pull-request N"),
        ("--post=github --repository ../x --pull-request 12".to_owned(), 64, "no repository"),
        (format!("--post=github {shop}"), 64, "GITHUB_TOKEN"),
        (format!("--post=github {shop} --token {TOKEN}"), 64, "env:NAME"),
        (format!("--post=github {shop} --token env:NO"), 64, "not set"),
        (format!("--post=github {shop} --token @token"), 0, "comment"),
        (format!("--post=gitlab {shop} --token env:MINE"), 0, "comment"),
        ("--post=gitlab --repository me/shop".to_owned(), 64, "merge_request_event"),
        ("--post=gitlab".to_owned(), 64, "GROUP/NAME"),
        ("--token env:MINE".to_owned(), 64, "--post"),
        ("--tag a>b".to_owned(), 64, "letters"),
        ("--link javascript:alert(1)".to_owned(), 64, "https://"),
        ("--link https://me:pw@reports.test/".to_owned(), 64, "password"),
    ] {
        let base = if arguments.contains("=gitlab") { "/api/v4" } else { "" };
        let url = format!("--url={api}{base}");
        let words = arguments.split(' ').chain(arguments.contains("--post").then_some(url.as_str()));
        let words: Vec<&str> = ["comment", "run"].into_iter().chain(words).collect();
        let ended = end(without_ci(bench.command(&words)).env("MINE", TOKEN), code);
        assert!(ended.stderr.contains(said), "{arguments}: {}", ended.stderr);
    }
    let ended = end(&mut without_ci(bench.command(&["comment", "nothing"])), 65);
    assert!(ended.stderr.contains("results.json or ab.json"), "{}", ended.stderr);
    bench.write("foreign.json", "{\"format\": \"x\"}");
    end(&mut without_ci(bench.command(&["comment", "foreign.json"])), 65);
}

/// A service that quotes the token does not publish it.
#[test]
fn a_token_that_a_run_quotes_is_hidden() {
    let (bench, forge) = (folder(), Forge::obliging());
    let path = bench.path().join("run/results.json");
    let results =
        std::fs::read_to_string(&path).unwrap().replace("Checkout @team", &format!("Checkout {TOKEN} @team"));
    std::fs::write(&path, results).unwrap();
    end(&mut on_github(&bench, &forge.server.url(), &["--post"]), 0);
    let body = forge.comments()[0].body.clone();
    assert!(body.contains("\\*\\*\\*") || body.contains("***"), "{body}");
    for part in [TOKEN, "Canary7", "canary7"] {
        assert!(!body.contains(part), "{body}");
    }
}

#[test]
fn comparisons_are_commented_too() {
    let bench = Bench::new();
    bench.write("demo.yaml", "demo: {}\n");
    bench.write("slower.yaml", "name: slower\ndemo: { slowdown: 100% }\n");
    bench.write("scenario.yaml", SCENARIO.replace("times: 40", "times: 300"));
    let ab = "ab scenario.yaml -d demo.yaml -d slower.yaml --round 300ms --pairs 10 --quiet";
    let ab: Vec<&str> = ab.split(' ').chain(["--metric", "count(trace \"db\")"]).collect();
    let ended = Bench::end(&mut without_ci(bench.command(&ab)));
    let directory = ended.stdout.lines().last().unwrap().to_owned();
    let text = bench.run(&["comment", "latest"]).expect_code(0).stdout;
    let mut lines = text.lines();
    assert!(lines.next().unwrap().starts_with("<!-- bench:ab-checkout-"), "{text}");
    let verdict = ended.stdout.split(" · ").next().unwrap();
    assert!(lines.next().unwrap().starts_with(&format!("### {verdict} · ")), "{verdict}: {text}");
    assert!(text.contains("count(trace") && text.contains("ab.html") && text.lines().count() <= 60, "{text}");
    assert_eq!(
        bench.run(&["comment", &format!("{directory}/ab.json")]).expect_code(0).stdout.lines().nth(1),
        text.lines().nth(1)
    );
    // Two of its rounds side by side.
    let rounds = std::path::Path::new(&directory);
    let mut rounds: Vec<_> = std::fs::read_dir(bench.path().join(rounds))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("run.log").is_file())
        .collect();
    rounds.sort();
    let [one, other] = [&rounds[0], &rounds[1]].map(|path| path.to_str().unwrap());
    bench.run(&["compare", one, other, "--allow-different", "--json", "-o", "compare.json"]).expect_code(0);
    let text = bench.run(&["comment", "compare.json"]).expect_code(0).stdout;
    assert!(text.contains("### No verdict · Checkout") && text.contains("new/base"), "{text}");
    let damaged = std::fs::read_to_string(bench.path().join("compare.json"))
        .unwrap()
        .replace("\"version\": 1", "\"version\": 9");
    bench.write("compare.json", damaged);
    let ended = bench.run(&["comment", "compare.json"]).expect_code(65);
    assert!(ended.stderr.contains("another version"), "{}", ended.stderr);
}
