//! What to write instead of words of other programs. A suggestion that is not alike is worse than none: it is left out.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use text::similar::did_you_mean;

use super::variables::variable;

/// Words of other programs, the commands of bench that they are looked for in, and what does it here.
const HINTS: [(&[&str], &[&str], &str); 28] = [
    (
        &["-e", "--env"],
        LOADS,
        "files refer to variables of the environment, or of `.env`, with `{env: NAME}`",
    ),
    (&["--stages", "--stage"], LOADS, "a scenario has stages: `runner: { ramping: { stages: … } }`"),
    (&["--tag"], LOADS, "an action has tags: `tags: { name: value }`"),
    (&["--no-tui"], LOADS, "`--no-live` shows lines instead of the live screen"),
    (&["--latency-correction"], LOADS, "with `--rate`, times always count from when an iteration was due"),
    (
        &["--insecure-skip-tls-verify"],
        LOADS,
        "`--insecure` accepts any certificate of a URL; a deployment says `tls: { verify: false }`",
    ),
    (
        &["--disable-keepalive", "--no-vu-connection-reuse"],
        LOADS,
        "a scenario says `http: { connections: iteration }`",
    ),
    (&["--summary-export", "--summary-trend-stats"], RESULTS, JSON),
    (
        &["--budget"],
        &["ab"],
        "`--pairs` is the most pairs of rounds, and `--round` how long each is; the test may end sooner",
    ),
    (&["--receive"], &["ab"], "write `profiler: { receive: 127.0.0.1:4318 }` in the deployment"),
    (&["--dry-run", "--check"], LOADS, DRY),
    (&["--dry-run"], &["prune", "cleanup"], "without --yes, it only says what it would delete"),
    (&["--format", "--output-format"], RESULTS, JSON),
    (&["--json"], &["report", "export"], JSON),
    (&["--csv"], RESULTS, "`bench export latest --csv` writes a row for each iteration"),
    (&["--html"], RESULTS, "every run writes report.html into its directory; `bench open` shows it"),
    (&["--silent"], LOADS, "`--quiet` prints the verdict and the directory only"),
    (&["--verbose", "-v"], LOADS, "`bench run --once FILE` prints every request and answer of one iteration"),
    (&["list", "ls", "history"], NONE, "`bench runs` lists the stored runs"),
    (&["results"], NONE, "`bench runs` lists the stored runs, and `bench report` shows one"),
    (&["show"], NONE, "`bench report` shows a run, and `bench trace show` a trace"),
    (&["view"], NONE, "`bench open` shows the report of the newest run in a browser"),
    (&["test", "start"], NONE, "`bench run FILE` runs a scenario"),
    (&["task"], NONE, "`bench run FILE` runs a task file of Rally too"),
    (&["lint"], NONE, "`bench validate FILE` finds the faults of a file"),
    (&["diff"], NONE, "`bench compare` compares two runs, and `bench trace diff` two traces"),
    (&["delete", "rm"], NONE, "`bench prune` deletes old runs"),
    (&["version"], NONE, "`bench --version` prints it"),
];
/// Where a command is expected.
const NONE: &[&str] = &["<COMMAND>"];
const LOADS: &[&str] = &["run", "ab"];
const RESULTS: &[&str] = &["run", "ab", "report", "export", "runs", "check", "compare"];
const DRY: &str = "`bench validate --explain FILE` says what a load will do and sends nothing; `bench run --once FILE` does \
                   it once";
const JSON: &str = "results.json in the run's directory has every figure; `bench export latest --jsonl` writes a row for each \
                    iteration";

/// The same error, with what does it here, and without a suggestion that is not alike.
pub(super) fn helped(mut error: clap::Error) -> clap::Error {
    let (given, suggested) = match error.kind() {
        ErrorKind::UnknownArgument => (ContextKind::InvalidArg, ContextKind::SuggestedArg),
        ErrorKind::InvalidSubcommand => (ContextKind::InvalidSubcommand, ContextKind::SuggestedSubcommand),
        ErrorKind::ValueValidation | ErrorKind::InvalidValue => return of_variable(error),
        _ => return error,
    };
    let Some(ContextValue::String(word)) = error.get(given).cloned() else { return error };
    let word = word.split(['=', ' ']).next().unwrap_or_default().to_owned();
    let command = command(&error);
    let fits = |(words, of, _): &&(&[&str], &[&str], _)| {
        words.contains(&word.as_str()) && of.contains(&command.as_str())
    };
    let hint = HINTS.iter().find(fits).map(|(.., hint)| *hint);
    let names: Vec<String> = match error.get(suggested) {
        Some(ContextValue::String(name)) => vec![name.clone()],
        Some(ContextValue::Strings(names)) => names.clone(),
        _ => Vec::new(),
    };
    let name = |text: &str| text.trim_start_matches('-').to_owned();
    let bare: Vec<String> = names.iter().map(|one| name(one)).collect();
    let is_alike = did_you_mean(&name(&word), bare.iter().map(String::as_str)).is_some();
    if hint.is_some() || !names.is_empty() && !is_alike {
        error.remove(suggested);
        // It shows the option that was suggested.
        error.remove(ContextKind::Usage);
    }
    if let Some(hint) = hint {
        error.remove(ContextKind::Suggested);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(hint)]));
    }
    error
}

/// The same error of a value, with the variable that gave it.
fn of_variable(mut error: clap::Error) -> clap::Error {
    let text = |kind| error.get(kind).map(ToString::to_string).unwrap_or_default();
    let (option, value) = (text(ContextKind::InvalidArg), text(ContextKind::InvalidValue));
    let Some(name) = option.strip_prefix("--").and_then(|option| option.split([' ', '=', '[']).next()) else {
        return error;
    };
    let variable = variable(name);
    if std::env::var(&variable).is_ok_and(|given| given == value) {
        let hint =
            StyledStr::from(format!("unless it is on the command line, this is the value of {variable}"));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint]));
    }
    error
}

/// The command that an error is about: the second word of its usage.
fn command(error: &clap::Error) -> String {
    let usage = error.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default();
    usage.split_whitespace().skip_while(|word| *word != "bench").nth(1).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::Arguments;

    #[test]
    fn words_of_other_programs_have_an_answer_and_others_no_wrong_one() {
        for (words, has, lacks) in [
            ("run x --dry-run", "bench validate --explain", "rally-junit"),
            ("report --json", "results.json", "--job"),
            ("export --json=y", "results.json", "--job"),
            ("list", "bench runs", "'validate'"),
            ("export --format", "bench export latest --jsonl", "similar"),
            ("run x --quite", "'--quiet'", "results.json"),
            ("run x --treads", "unexpected argument", "similar"),
            ("prune --dry-run", "without --yes", "validate"),
            ("import openapi x --dry-run", "unexpected argument", "validate"),
            ("trace show --verbose", "unexpected argument", "run --once"),
            ("ab x --verbose", "bench run --once FILE", "similar"),
            ("validat", "'validate'", "bench runs"),
            ("run x -e A=1", "{env: NAME}", "as a value"),
            ("run x --stages 1", "ramping", "as a value"),
            ("run x --no-tui", "--no-live", "as a value"),
            ("run x --summary-export=x", "results.json", "as a value"),
            ("ab x --receive", "profiler: { receive", "as a value"),
            ("qqqqqq", "unrecognized subcommand", "similar"),
        ] {
            let error =
                Arguments::try_parse_from(std::iter::once("bench").chain(words.split(' '))).unwrap_err();
            let text = helped(error).render().to_string();
            assert!(text.contains(has) && !text.contains(lacks), "{words}: {text}");
        }
    }
}
