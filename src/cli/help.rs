//! `bench help`: the help of a command, a page of the documents, or where a word stands in them.

use std::fmt::Write as _;
use std::sync::LazyLock;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _};

use harness::HarnessError;
use text::similar::did_you_mean;

use super::exit::Exit;
use super::output::{self, Stream};
use super::{Arguments, help_or_fault};

/// The pages, with what they are about. A command of the same name comes first.
const TOPICS: [(&str, &str, &str); 25] = [
    (
        "writing",
        "how a scenario is written: runners, actions, checks, steps",
        include_str!("../../scenarios/writing.md"),
    ),
    ("grpc", "gRPC calls", include_str!("../../scenarios/grpc.md")),
    (
        "streams",
        "server-sent events, JSON lines, first event and gaps",
        include_str!("../../scenarios/streams.md"),
    ),
    ("websocket", "messages over WebSocket", include_str!("../../scenarios/websocket.md")),
    ("data", "templates, rows from files, the seed", include_str!("../../scenarios/data.md")),
    (
        "begin",
        "scenarios from curl commands, HTTP archives, OpenAPI",
        include_str!("../../scenarios/begin.md"),
    ),
    ("gates", "criteria, exit codes", include_str!("../../scenarios/gates.md")),
    (
        "ci",
        "gates on pull requests: GitHub, GitLab, Jenkins, comments",
        include_str!("../../scenarios/ci.md"),
    ),
    ("comparisons", "whether a build is slower", include_str!("../../scenarios/comparisons.md")),
    (
        "capacity-search",
        "how much load a service takes, and what stops it",
        include_str!("../../scenarios/capacity.md"),
    ),
    (
        "results",
        "what a run leaves; stored runs and their traces",
        include_str!("../../scenarios/results.md"),
    ),
    ("explanations", "why slow iterations were slow", include_str!("../../scenarios/explanations.md")),
    ("asynchronous", "work after the response", include_str!("../../scenarios/asynchronous.md")),
    ("machines", "loads from several machines", include_str!("../../scenarios/machines.md")),
    ("openstack", "scenarios and contexts in a cloud", include_str!("../../scenarios/openstack.md")),
    ("rally", "task files of Rally", include_str!("../../scenarios/rally.md")),
    ("reference", "every key of a scenario", include_str!("../../scenarios/reference.md")),
    ("reference-load", "the keys of runners", include_str!("../../scenarios/reference-load.md")),
    ("reference-steps", "the keys of steps", include_str!("../../scenarios/reference-steps.md")),
    (
        "reference-checks",
        "the keys of checks, extraction and streams",
        include_str!("../../scenarios/reference-checks.md"),
    ),
    ("reference-contexts", "the keys of contexts", include_str!("../../scenarios/reference-contexts.md")),
    ("deployments", "clouds, targets, tokens, collectors", include_str!("../../deployments/README.md")),
    ("reference-deployments", "every key of a deployment", include_str!("../../deployments/reference.md")),
    ("glossary", "what the words mean", include_str!("../../scenarios/glossary.md")),
    ("osprofiler", "trace points in your own service", include_str!("../osprofiler/README.md")),
];

/// Show the help of a command, or a page of the documents.
///
/// Without a name, it lists the commands and the topics. `bench help -k WORD` lists the lines of the topics that have a
/// word.
#[derive(Args, Debug)]
pub(super) struct HelpArguments {
    /// A command, such as `run` or `trace show`, or a topic, such as `gates`.
    #[arg(value_name = "COMMAND|TOPIC", conflicts_with = "word")]
    names: Vec<String>,
    /// Find a word in the topics.
    #[arg(short = 'k', long, value_name = "WORD", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    word: Option<String>,
}

pub(super) fn help(version: &'static str, arguments: &HelpArguments) -> Result<Exit, HarnessError> {
    if let Some(word) = &arguments.word {
        return found(word);
    }
    let mut named = Arguments::command().version(version);
    named.build();
    for (at, name) in arguments.names.iter().enumerate() {
        named = match (named.find_subcommand(name).cloned(), topic(name)) {
            (Some(next), _) => next,
            (None, Some(page)) if arguments.names.len() == 1 => {
                return output::deliver(&page).map(|()| Exit::Ok);
            }
            (None, _) => return help_or_fault(&unknown(name, &mut named, at == 0)),
        };
    }
    let help = named.render_long_help();
    let help = if output::colours(Stream::Output) { help.ansi().to_string() } else { help.to_string() };
    let topics = if arguments.names.is_empty() { listed() } else { String::new() };
    output::deliver(&format!("{help}{topics}")).map(|()| Exit::Ok)
}

/// The commands and topics that have a help.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    static COMMAND: LazyLock<clap::Command> = LazyLock::new(Arguments::command);
    let commands = COMMAND.get_subcommands().map(clap::Command::get_name);
    commands.chain(TOPICS.iter().map(|(topic, ..)| *topic))
}

/// The page of a topic, as text.
fn topic(name: &str) -> Option<String> {
    TOPICS.iter().find(|(topic, ..)| *topic == name).map(|(.., page)| plain(page))
}

/// A page without the targets of its links, which lead to files that are not here.
fn plain(page: &str) -> String {
    let mut text = String::with_capacity(page.len());
    let mut rest = page;
    while let Some(at) = rest.find("](") {
        let (before, link) = rest.split_at(at);
        let begin = before.rfind('[').filter(|begin| !before[*begin..].contains('\n'));
        match (begin, link.find(')')) {
            (Some(begin), Some(end)) if !link[..end].contains(['\n', ' ']) => {
                text.push_str(&before[..begin]);
                text.push_str(&before[begin + 1..]);
                rest = &link[end + 1..];
            }
            _ => {
                text.push_str(before);
                text.push_str("](");
                rest = &link[2..];
            }
        }
    }
    text + rest
}

fn listed() -> String {
    let mut text = "\nTopics (`bench help TOPIC`, `bench help -k WORD`):\n".to_owned();
    for (name, about, _) in TOPICS {
        // A `String` takes any text.
        let _ = writeln!(text, "  {name:<23}{about}");
    }
    text
}

/// The lines with a word, each after its topic.
fn found(word: &str) -> Result<Exit, HarnessError> {
    let wanted = word.to_lowercase();
    let mut lines = String::new();
    for (name, _, page) in TOPICS {
        for line in plain(page).lines().filter(|line| line.to_lowercase().contains(&wanted)) {
            let _ = writeln!(lines, "{name}: {}", line.trim());
        }
    }
    if lines.is_empty() {
        output::complain(&format!("no topic has `{word}`; `bench help` lists commands and topics"));
        return Ok(Exit::Usage);
    }
    output::deliver(&lines).map(|()| Exit::Ok)
}

fn unknown(name: &str, command: &mut clap::Command, is_first: bool) -> clap::Error {
    let commands: Vec<String> = command.get_subcommands().map(|one| one.get_name().to_owned()).collect();
    let topics = TOPICS.iter().map(|(topic, ..)| *topic).filter(|_| is_first);
    let meant = did_you_mean(name, commands.iter().map(String::as_str).chain(topics));
    let meant = meant.map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
    let (kind, message) = (
        ErrorKind::InvalidSubcommand,
        match is_first {
            true => format!("there is no command and no topic `{name}`{meant}"),
            false => format!("`bench {}` has no command `{name}`{meant}", command.get_name()),
        },
    );
    command.error(kind, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_shown_by_their_text() {
        for (page, shown) in [
            ("See [gates](gates.md#gitlab), and [x].", "See gates, and [x]."),
            ("`a[0](b c)` [d](e)", "`a[0](b c)` d"),
            ("no link", "no link"),
        ] {
            assert_eq!(plain(page), shown);
        }
    }
}
