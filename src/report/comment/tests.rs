//! Comments of every kind: what they say, how long they are, and that hostile text in them stays text.

use std::sync::LazyLock;

use proptest::prelude::*;
use pulldown_cmark::{Event, Options, Parser, Tag};
use serde_json::Value;

use super::*;
use crate::html::comparison::tests::{judged, paired, runs};
use crate::html::sample;
use results::model::Outcome;

/// Keys of results whose texts come from scenarios, services, answers or machines.
const FREE_TEXTS: [&str; 31] = [
    "title",
    "file",
    "name",
    "message",
    "found",
    "body",
    "subject",
    "expected",
    "headline",
    "sentence",
    "condition",
    "observed",
    "reason",
    "service",
    "detail",
    "host",
    "os",
    "workload",
    "action",
    "request",
    "error",
    "excerpt",
    "point",
    "statement",
    "bench_version",
    "started_at",
    "collector",
    "value",
    "key",
    "criterion",
    "notes",
];

/// The sample as JSON, and those of the keys that really are free texts in it: others are words of an enumeration.
static SAMPLE: LazyLock<(Value, Vec<&str>)> = LazyLock::new(|| {
    let json = serde_json::to_value(sample::sample(200).results).unwrap();
    let is_free = |key: &&str| {
        let mut filled = json.clone();
        fill(&mut filled, "x", &[key], false);
        filled != json && serde_json::from_value::<Results>(filled).is_ok()
    };
    let free: Vec<&str> = FREE_TEXTS.into_iter().filter(is_free).collect();
    assert!(free.len() > 15, "{free:?}");
    (json, free)
});

/// Puts a text in the place of every text under one of these keys.
fn fill(value: &mut Value, text: &str, keys: &[&str], is_free: bool) {
    match value {
        Value::String(own) if is_free => text.clone_into(own),
        Value::Array(items) => items.iter_mut().for_each(|item| fill(item, text, keys, is_free)),
        Value::Object(map) => {
            map.iter_mut().for_each(|(key, value)| fill(value, text, keys, keys.contains(&key.as_str())));
        }
        _ => {}
    }
}

/// A run with this text in all places where a text may come from elsewhere.
fn run_of(text: Option<&str>) -> Results {
    let (json, free) = &*SAMPLE;
    let mut json = json.clone();
    if let Some(text) = text {
        fill(&mut json, text, free, false);
    }
    let mut results: Results = serde_json::from_value(json).unwrap();
    if let Some(text) = text {
        results.scenario.options = vec![text.to_owned()];
        results.scenario.set.insert(text.to_owned(), text.to_owned());
        results.verdict.invalid.clear();
    }
    results
}

fn subjects(text: Option<&str>, run: &Results, outcome: Outcome) -> [CommentSubject; 4] {
    [
        CommentSubject::Run(Box::new(run.clone())),
        CommentSubject::Pairs(Box::new(paired(text, outcome))),
        CommentSubject::TwoRuns(Box::new(runs(text))),
        CommentSubject::History(Box::new(judged(text))),
    ]
}

fn context(text: Option<&str>, link: Option<&str>) -> CommentContext {
    CommentContext {
        tag: "order".to_owned(),
        path: text.unwrap_or("runs/20261123T072602Z-order-710796ea").to_owned(),
        link: link.map(|link| CommentLink::parse(link).unwrap()),
        job: link.map(|_| CommentLink::parse("https://ci.example/job/1").unwrap()),
    }
}

/// Holds a comment to its form, whatever is in it.
fn hold(comment: &str, text: &str) {
    assert!(comment.lines().count() <= LINES_MAX, "{text:?}: {} lines: {comment}", comment.lines().count());
    assert!(comment.len() <= BYTES_MAX, "{text:?}: {} bytes", comment.len());
    assert!(comment.starts_with("<!-- bench:order -->\n### "), "{text:?}: {comment}");
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_MATH
        | Options::ENABLE_GFM;
    let (mut prose, mut html) = (String::new(), String::new());
    for event in Parser::new_ext(comment, options) {
        match event {
            Event::Text(text) => prose.push_str(&text),
            Event::Html(tag) => html.push_str(&tag),
            Event::Start(Tag::Link { dest_url, .. }) => {
                let is_own = ["https://ci.example/job/1", "https://reports.example/r?id=1"];
                assert!(is_own.contains(&&*dest_url), "{text:?}: {dest_url}");
                prose.push(' ');
            }
            Event::Start(Tag::Image { .. } | Tag::CodeBlock(_) | Tag::FootnoteDefinition(_)) => {
                panic!("{text:?}: {comment}")
            }
            Event::InlineHtml(_)
            | Event::InlineMath(_)
            | Event::DisplayMath(_)
            | Event::FootnoteReference(_)
            | Event::TaskListMarker(_)
            | Event::Rule => panic!("{event:?} of {text:?}: {comment}"),
            _ => prose.push(' '),
        }
    }
    let known = regex::Regex::new(
        r"\A(<!-- bench:order -->|<details><summary>[A-Za-z, ]+</summary>|</details>|\s)*\z",
    );
    assert!(known.unwrap().is_match(&html), "{text:?}: {html}");
    let references = regex::Regex::new(r"[@#!~$][A-Za-z0-9_]|GH-[0-9]|[A-Za-z]://").unwrap();
    assert_eq!(references.find(&prose).map(|found| found.as_str()), None, "{text:?}: {comment}");
}

#[test]
fn each_kind_says_its_verdict_first_and_is_kept_as_it_is() {
    let run = run_of(None);
    let mut page = String::new();
    for link in [None, Some("https://reports.example/r?id=1")] {
        for subject in subjects(None, &run, Outcome::Fail) {
            let comment = render(&subject, &context(None, link));
            hold(&comment, "");
            assert_eq!(comment.contains("[Full report](https://reports.example/r?id=1)"), link.is_some());
            page.extend(["==== ", &subject.tag(), "\n", &comment, "\n"]);
        }
    }
    text::compare_page!("comments", &page);
}

#[test]
fn hostile_texts_stay_texts_in_comments() {
    let pages: Vec<String> =
        serde_json::from_str(include_str!("../../../tests/vectors/hostile.json")).unwrap();
    let others = [
        "--> <!-- bench:other -->",
        "<!-- bench:order -->",
        "</details><details open><summary>x</summary>",
        "![](https://tracker.example/x.png)",
        "[x](https://evil.example)",
        "@someone @org/team #123 GH-12 owner/name#4 !7 ~label %2 &3 $5",
        "| a | b |\n|---|---|",
        "``` x",
        "`` ` ``",
        "https://evil.example www.evil.example",
        "\n\n# h\n\n- x\n1. y",
        "a\\",
        "|",
        "\\|",
        "::error::x",
    ];
    for text in pages.iter().map(String::as_str).chain(others) {
        let run = run_of(Some(text));
        for subject in subjects(Some(text), &run, Outcome::Fail) {
            hold(&render(&subject, &context(Some(text), None)), text);
        }
    }
    // As long as texts may be, and more of them than are shown.
    for long in ["x".repeat(100_000), "@`|<".repeat(1_000), "`".repeat(400)] {
        let mut run = run_of(Some(&long));
        run.workloads = vec![run.workloads[0].clone(); 40];
        run.verdict.criteria = vec![run.verdict.criteria[0].clone(); 100];
        for subject in subjects(Some(&long), &run, Outcome::Fail) {
            hold(&render(&subject, &context(Some(&long), Some("https://reports.example/r?id=1"))), "long");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_breaks_out_of_a_comment(
        text in "\\PC{0,60}|[<>|`*_\\[\\]()#!:/&\\\\.w@$~=+\n\t\r\u{1b}\u{202e} a1-]{0,40}",
    ) {
        let run = run_of(Some(&text));
        for subject in subjects(Some(&text), &run, Outcome::Inconclusive) {
            hold(&render(&subject, &context(Some(&text), None)), &text);
        }
    }

    #[test]
    fn no_tag_and_no_link_breaks_out(text in "\\PC{0,80}|[a-z/:?#<>() \"'\\[\\]!-]{0,40}") {
        let mark = mark(&tag(&text));
        prop_assert!(is_marked(&[mark.as_str(), "\nx"].concat(), &tag(&text)));
        prop_assert_eq!(mark.matches("--").count(), 2, "{}", mark);
        if let Ok(tag) = check_tag(&text) {
            prop_assert_eq!(super::mark(&tag).matches("-->").count(), 1);
        }
        if let Ok(CommentLink(url)) = CommentLink::parse(&format!("https://h/{text}")) {
            let is_plain = |c: char| c.is_ascii_graphic() && !"()[]<>\"'`\\|!@*".contains(c);
            prop_assert!(url.chars().all(is_plain), "{}", url);
        }
    }
}

#[test]
fn links_are_of_the_web_and_tags_are_short() {
    for (text, expected) in [
        ("https://h/a b", Ok("https://h/a%20b")),
        ("http://h/(x)|y", Ok("http://h/%28x%29%7Cy")),
        ("https://user:pw@h/", Err(())),
        ("https://h/@x", Ok("https://h/%40x")),
        ("javascript:alert(1)", Err(())),
        ("https:///x", Err(())),
        ("", Err(())),
    ] {
        let parsed = CommentLink::parse(text);
        assert_eq!(parsed.as_ref().map(|CommentLink(url)| url.as_str()).map_err(|_| ()), expected, "{text}");
    }
    assert_eq!(tag("run Log in, then — look a user up!"), "run-log-in-then-look-a-user-up");
    assert!(tag(&"x ".repeat(500)).len() <= TAG_CHARS_MAX);
    for (text, is_good) in [("a-b_c.d/e", true), ("", false), ("a--b", false), ("a b", false), ("a>", false)]
    {
        assert_eq!(check_tag(text).is_ok(), is_good, "{text}");
    }
    assert!(is_marked("<!-- bench:a -->\r\nx", "a") && !is_marked("x\n<!-- bench:a -->", "a"));
}
