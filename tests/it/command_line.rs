//! The commands around a run: trace headers, help, completions, manual pages.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::{Bench, CommandOutput};

const DEPLOYMENT: &str = "targets: { default: http://h }\nprofiler: { hmac_keys: [first, second] }\n";

/// A folder with deployments: `d.yaml` and one with another key.
fn folder() -> Bench {
    let bench = Bench::new();
    bench.write("d.yaml", DEPLOYMENT);
    bench.write("other.yaml", DEPLOYMENT.replace("first, second", "third"));
    bench.write("rotated.yaml", DEPLOYMENT.replace("first, second", "new, first"));
    bench
}

fn verify(bench: &Bench, deployment: &str, input: &str) -> CommandOutput {
    let mut command = bench.command(&["trace", "verify", "-d", deployment]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    CommandOutput::from(child.wait_with_output().unwrap())
}

const ID: &str = "0123e456-0123-4123-8123-0123456789ab";
const PARENT: &str = "9993e456-0123-4123-8123-0123456789ab";

#[test]
fn headers_made_by_hand_are_accepted_until_somebody_changes_them() {
    let bench = folder();
    let made = bench
        .run(&[
            "trace",
            "headers",
            "-d",
            "d.yaml",
            "--format",
            "json",
            "--base-id",
            ID,
            "--parent-id",
            PARENT,
        ])
        .expect_code(0);
    assert!(made.stderr.contains(&format!("trace id {ID}")), "{}", made.stderr);
    let headers: Value = serde_json::from_str(&made.stdout).unwrap();
    for deployment in ["d.yaml", "rotated.yaml"] {
        let ended = verify(&bench, deployment, &made.stdout).expect_code(0);
        assert_eq!(ended.stdout, format!("accepted: trace {ID}, below point {PARENT}\n"));
    }
    let rejected = |deployment: &str, headers: &Value| {
        let ended = verify(&bench, deployment, &headers.to_string()).expect_code(1);
        assert!(ended.stdout.starts_with("rejected: failed to "), "{}", ended.stdout);
        assert!(ended.stdout.contains("; "), "no remedy: {}", ended.stdout);
    };
    rejected("other.yaml", &headers);
    let (info, hmac) = (headers["X-Trace-Info"].as_str().unwrap(), headers["X-Trace-HMAC"].as_str().unwrap());
    let flipped = |text: &str| {
        let last = if text.ends_with('0') { '1' } else { '0' };
        format!("{}{last}", &text[..text.len() - 1])
    };
    let first_changed =
        |text: &str| format!("{}{}", if text.starts_with('f') { 'e' } else { 'f' }, &text[1..]);
    for (info, hmac) in [
        (info.to_owned(), flipped(hmac)),
        (info.to_owned(), first_changed(hmac)),
        (first_changed(info), hmac.to_owned()),
        (info.to_owned(), String::new()),
        (info.to_owned(), hmac[..39].to_owned()),
        (String::new(), hmac.to_owned()),
        ("x".repeat(100_000), hmac.to_owned()),
        ("é".to_owned(), hmac.to_owned()),
        (info.to_owned(), "é".repeat(20)),
    ] {
        rejected("d.yaml", &json!({ "X-Trace-Info": info, "X-Trace-HMAC": hmac }));
    }
    rejected("d.yaml", &json!({}));
    let lower_case = json!({ "x-trace-info": info, "x-trace-hmac": hmac, "other": "x" });
    verify(&bench, "d.yaml", &lower_case.to_string()).expect_code(0);
}

#[test]
fn what_is_no_object_of_headers_is_bad_input() {
    let bench = folder();
    for input in ["", "X-Trace-Info: a", "[1]", "{\"X-Trace-Info\": 5}", "null"] {
        let ended = verify(&bench, "d.yaml", input).expect_code(65);
        assert!(ended.stderr.contains("give it {\"X-Trace-Info\""), "{input}: {}", ended.stderr);
    }
}

/// As the help says: `eval curl $(…)`; a function replaces curl here.
#[cfg(unix)]
#[test]
fn the_shell_makes_arguments_for_curl_of_the_headers() {
    let bench = folder();
    let script = format!(
        "curl() {{ for a in \"$@\"; do echo \"<$a>\"; done; }}; eval curl $('{}' trace headers -d d.yaml --base-id {ID}) http://h/p",
        env!("CARGO_BIN_EXE_bench")
    );
    let output = Command::new("sh").current_dir(bench.path()).args(["-c", &script]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let arguments: Vec<&str> = text.lines().collect();
    assert_eq!(arguments.len(), 7, "{text}");
    assert_eq!(
        [arguments[0], arguments[2], arguments[4], arguments[6]],
        ["<-H>", "<-H>", "<-H>", "<http://h/p>"]
    );
    let value = |at: usize, name: &str| {
        let header = arguments[at].strip_prefix(&format!("<{name}: ")).unwrap_or_else(|| panic!("{text}"));
        header.trim_end_matches('>').to_owned()
    };
    assert_eq!(value(5, "traceparent").len(), 55);
    let headers =
        json!({ "X-Trace-Info": value(1, "X-Trace-Info"), "X-Trace-HMAC": value(3, "X-Trace-HMAC") });
    verify(&bench, "d.yaml", &headers.to_string()).expect_code(0);
}

#[test]
fn every_trace_has_an_id_of_its_own() {
    let bench = folder();
    let ids: std::collections::BTreeSet<String> =
        (0..5).map(|_| bench.run(&["trace", "headers", "-d", "d.yaml"]).expect_code(0).stderr).collect();
    assert_eq!(ids.len(), 5);
    bench.run(&["trace", "headers", "-d", "d.yaml", "--base-id", "7"]).expect_code(64);
}

const COMMANDS: [&[&str]; 11] = [
    &[],
    &["run"],
    &["validate"],
    &["schema"],
    &["report"],
    &["comment"],
    &["demo"],
    &["trace"],
    &["trace", "headers"],
    &["trace", "verify"],
    &["man"],
];

#[test]
fn help_describes_every_command_and_argument() {
    let bench = Bench::new();
    for command in COMMANDS {
        let arguments: Vec<&str> = command.iter().copied().chain(["--help"]).collect();
        let help = bench.run(&arguments).expect_code(0).stdout;
        assert!(help.contains("Usage: bench"), "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
        // An option or argument is followed by its description, beside it or below.
        let lines: Vec<&str> = help.lines().collect();
        for (at, line) in
            lines.iter().enumerate().filter(|(_, line)| line.trim_start().starts_with(['-', '<']))
        {
            let beside = line.trim().contains("  ");
            let below = lines.get(at + 1).is_some_and(|next| next.starts_with("          "));
            let choice = line.trim_start().starts_with("- ");
            assert!(beside || below || choice, "{arguments:?}: `{line}` has no description");
        }
    }
    let help = bench.run(&["--help"]).expect_code(0).stdout;
    for part in ["bench run demo ", "65   a bad input file", "105  interrupted"] {
        assert!(help.contains(part), "{help}");
    }
}

/// A version says what the program was built from, where that is known. (`.ci/run` looks at the release build's, too.)
#[test]
fn the_version_names_the_commit() {
    let version = env!("BENCH_VERSION").strip_prefix(env!("CARGO_PKG_VERSION")).unwrap();
    if cfg!(debug_assertions) {
        assert_eq!(version, " (debug build)");
    } else if Path::new(env!("CARGO_MANIFEST_DIR")).join(".git").exists() {
        let commit = version.strip_prefix(" (").and_then(|rest| rest.strip_suffix(')')).unwrap();
        assert!(commit.len() >= 10 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()), "{version}");
    } else {
        assert_eq!(version, "");
    }
    let bench = Bench::new();
    let short = bench.run(&["-V"]).expect_code(0).stdout;
    assert_eq!(short, concat!("bench ", env!("BENCH_VERSION"), "\n"));
    let long = bench.run(&["--version"]).expect_code(0).stdout;
    let build = long
        .strip_prefix(&short)
        .and_then(|rest| rest.strip_suffix('\n'))
        .unwrap_or_else(|| panic!("{long}"));
    let (profile, target) = build.split_once(" for ").unwrap();
    let ends = [std::env::consts::ARCH, " by rustc 1.", "; features: "];
    assert!(!profile.contains(['/', ' ']) && ends.iter().all(|part| target.contains(part)), "{build}");
    assert_eq!(build.contains("openstack"), cfg!(feature = "openstack"), "{build}");
}

#[test]
fn completions_and_manual_pages_are_made() {
    let bench = Bench::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let text = bench.run(&["completions", shell]).expect_code(0).stdout;
        assert!(text.contains("no-profile") && text.contains("validate"), "{shell}");
        // What `bench help` can be asked for; the others complete no arguments without a flag.
        assert_eq!(text.contains("glossary"), ["bash", "zsh"].contains(&shell), "{shell}");
    }
    bench.write("completions", bench.run(&["completions", "bash"]).stdout);
    let checked = Command::new("bash").args(["-n", "completions"]).current_dir(bench.path()).status();
    assert!(checked.is_ok_and(|status| status.success()), "bash does not take its completions");
    bench.run(&["completions", "tcsh"]).expect_code(64);

    bench.run(&["man", "share/man1"]).expect_code(0);
    let page = |name: &str| std::fs::read_to_string(bench.path().join("share/man1").join(name)).unwrap();
    assert!(page("bench.1").contains("Exit codes"));
    assert!(page("bench-run.1").contains("no\\-profile"));
    assert!(page("bench-trace-headers.1").contains("base\\-id"));
    bench.write("file", "");
    let ended = bench.run(&["man", "file/below"]).expect_code(1);
    assert!(ended.stderr.starts_with("error: cannot write manual pages to file/below"), "{}", ended.stderr);
}

#[test]
fn help_shows_commands_topics_and_where_a_word_stands() {
    let bench = Bench::new();
    for (arguments, code, said) in [
        (&["help"][..], 0, "Topics ("),
        (&["help", "run"], 0, "Usage: bench run [OPTIONS]"),
        (&["help", "trace", "show"], 0, "Usage: bench trace show [OPTIONS]"),
        (&["help", "gates"], 0, "# Gates"),
        // Its links lead to files that are not here.
        (&["help", "reference"], 0, "| `runner` | map |"),
        (&["help", "-k", "Abort_On_Fail"], 0, "gates: "),
        (&["help", "gatse"], 64, "no command and no topic `gatse`; did you mean `gates`?"),
        (&["help", "run", "gates"], 64, "`bench run` has no command `gates`\n"),
        (&["help", "-k", "qqzx"], 64, "no topic has `qqzx`"),
        (&["help", "-k", ""], 64, "a value is required"),
    ] {
        let ended = bench.run(arguments).expect_code(code);
        let output = if code == 0 { ended.stdout } else { ended.stderr };
        assert!(output.contains(said), "{arguments:?}: {output}");
    }
}
