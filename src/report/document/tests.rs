//! Hostile text in every place of a document, through every writer: it stays text, and the document keeps its form.

use proptest::prelude::*;
use pulldown_cmark::{Event, Options, Parser, Tag};

use super::markdown::{self, BYTES_MAX, escaped};
use super::terminal::{self, TerminalStyle};
use super::*;
use crate::html;
use base::visible::{for_terminal, is_deceptive, on_one_line};
use results::model::Outcome;

/// A text fills one of this number of places.
const PLACES_APART: usize = 11;

/// What a text must never be taken for, as `tests/vectors/hostile.json` has it for pages, and as Markdown, terminals and
/// CI systems have it.
fn corpus() -> Vec<String> {
    let pages: Vec<String> =
        serde_json::from_str(include_str!("../../../tests/vectors/hostile.json")).unwrap();
    let others = [
        "| a | b |\n|---|---|\n| c | d |",
        "a\\|b\\",
        "\\",
        "`",
        "``` x",
        "`|://x`",
        "~~~",
        "# h",
        "- [ ] task",
        "1. one",
        "1) one",
        "> quote",
        "---",
        "===",
        "    code",
        "\tcode",
        "[x](javascript:alert(1))",
        "![x](https://e.example/x.png)",
        "[x]: https://e.example",
        "[^1]",
        "<https://e.example>",
        "https://e.example",
        "www.e.example",
        "a@e.example",
        "@somebody #12 GH-12 :rocket:",
        "$x$ $$x$$ $`x`$",
        "**b** __b__ *i* _i_ ~~s~~ ^u^",
        "&amp;&lt;b&gt;&nbsp;",
        "a  \nb",
        "::error::x",
        " ::set-output name=a::b",
        "##[error]x",
        "##vso[task.complete]x",
        "\u{1b}[2J\u{1b}]52;c;eA==\u{7}\u{9b}31m",
        "\u{1b}[31mred\u{1b}[0m",
        "over\rprinted\u{8}\u{202e}txt\u{200b}\u{feff}",
        "::",
        "://e.example",
        ".e.example",
        "https:",
        "www",
    ];
    pages.into_iter().chain(others.map(str::to_owned)).collect()
}

/// A document with every kind of part; each of its texts is the next that `text` gives.
fn document(text: &mut dyn FnMut() -> String) -> ReportDocument {
    let line = |text: &mut dyn FnMut() -> String| {
        let mut line = StyledLine::from(text());
        line.code(text()).text(text()).done()
    };
    let mut document = ReportDocument::new(2, "there");
    let mut title = StyledLine::from(Badge::verdict(Outcome::Fail));
    document.push(Block::Title(title.text(" · ").line(line(text)).done()));
    document.push(Block::Invalid(text().into()));
    document.push(Block::Paragraph(line(text)));
    document.push(Block::List(vec![line(text), text().into()]));
    let mut table = DocumentTable::new(vec![
        Column::name("a name"),
        Column::words("words"),
        Column::message("a message"),
        Column::figure("n"),
        Column::drawing("drawn"),
        Column::words(""),
    ]);
    for part in [RowRole::Whole, RowRole::Further, RowRole::Step, RowRole::FurtherOfStep] {
        let interval = Interval::of_difference(1.0, Some((0.5, 1.5)));
        let cells = vec![
            text().into(),
            Cell::code(text()),
            line(text).into(),
            text().into(),
            interval.into(),
            Badge::verdict(Outcome::Pass).into(),
        ];
        table.part(part, cells);
    }
    document.titled(line(text), Some(text().into()), table);
    document.push(Block::Criteria(vec![JudgedCriterion {
        badge: Badge::verdict(Outcome::Inconclusive),
        condition: line(text),
        observed: text().into(),
        reason: Some(text().into()),
        // A terminal shows each once.
        trace_ids: vec![text(), format!("{} 2", text())],
    }]));
    document.push(Block::Facts(vec![("load", line(text)), ("traces", text().into())]));
    document.notes(&[text(), text()]);
    document
}

/// How many texts it has.
fn slots() -> usize {
    let mut count = 0;
    document(&mut || {
        count += 1;
        String::new()
    });
    count
}

/// With this text in one place, and something harmless in the others; in all of them without a place.
fn with(hostile: &str, place: Option<usize>) -> ReportDocument {
    let mut at = 0;
    document(&mut || {
        at += 1;
        if place.is_none_or(|place| place + 1 == at) { hostile.to_owned() } else { "x".to_owned() }
    })
}

/// What a reader of Markdown makes of it: its structure, and its text as it is shown.
fn read_markdown(text: &str) -> (Vec<String>, String) {
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_MATH
        | Options::ENABLE_GFM;
    let (mut structure, mut shown, mut prose) = (Vec::<String>::new(), String::new(), String::new());
    for event in Parser::new_ext(text, options) {
        let what = match event {
            Event::Text(text) => {
                shown.push_str(&text);
                prose.push_str(&text);
                "text".to_owned()
            }
            Event::Code(code) => {
                shown.push_str(&code);
                prose.push(' ');
                // In a table, text with a border has no backquotes.
                "text".to_owned()
            }
            Event::Start(tag) => {
                assert!(
                    !matches!(tag, Tag::Link { .. } | Tag::Image { .. } | Tag::HtmlBlock | Tag::CodeBlock(_)),
                    "{tag:?} in {text}"
                );
                prose.push(' ');
                format!("{tag:?}")
            }
            Event::End(tag) => {
                prose.push(' ');
                format!("end {tag:?}")
            }
            other => panic!("{other:?} in {text}"),
        };
        if what != "text" || structure.last().is_none_or(|last| last != "text") {
            structure.push(what);
        }
    }
    // What GitHub and GitLab look for in the page, where no escape is left.
    let references = regex::Regex::new(r"[@#!~$][A-Za-z0-9_]|GH-[0-9]|[A-Za-z]://").unwrap();
    assert_eq!(references.find(&prose).map(|found| found.as_str()), None, "{text}");
    (structure, shown.replace('\u{200b}', ""))
}

/// Holds a document of hostile text to one of harmless text, in every writer.
fn hold(hostile: &ReportDocument, text: &str) {
    let harmless = with("x", None);
    let (shown, plain) = (markdown::text(hostile), markdown::text(&harmless));
    let (structure, read) = read_markdown(&shown);
    if !text.trim().is_empty() && text.chars().count() < 100 {
        assert_eq!(structure, read_markdown(&plain).0, "{text:?}: {shown}");
        let expected = on_one_line(text);
        let expected = expected.trim();
        assert!(read.contains(expected) || read.contains(&expected.replace('`', "\"")), "{text:?}: {shown}");
    }
    for obeyed in ["://", "www.", "##[", "##vso["] {
        let mut found = shown.match_indices(obeyed).map(|(at, _)| &shown[..at]);
        let at = found.find(|before| before.matches('`').count() % 2 == 0 && !before.ends_with('\\'));
        assert_eq!(at, None, "{text:?}: {shown}");
    }
    assert!(shown.lines().all(|line| !line.trim_start().starts_with("::")), "{text:?}: {shown}");
    assert!(!shown.contains(is_deceptive) && shown.len() <= BYTES_MAX, "{text:?}: {shown}");

    for style in
        [TerminalStyle { columns: None, colour: false }, TerminalStyle { columns: Some(60), colour: true }]
    {
        let (shown, plain) = (terminal::text(hostile, style), terminal::text(&harmless, style));
        // At a terminal's edge, text goes on below.
        if style.columns.is_none() {
            assert_eq!(shown.lines().count(), plain.lines().count(), "{text:?}: {shown}");
        }
        let uncoloured = ["\u{1b}[31;1m", "\u{1b}[32;1m", "\u{1b}[33;1m", "\u{1b}[0m"]
            .iter()
            .fold(shown.clone(), |shown, code| shown.replace(code, ""));
        assert!(!uncoloured.contains(is_deceptive), "{text:?}: {shown:?}");
        let count = |text: &str| text.matches('\u{1b}').count();
        assert_eq!(count(&shown), count(&plain), "{text:?}: {shown:?}");
        // Nothing is left for the last gate on the way to a terminal but commands to a CI system.
        assert_eq!(for_terminal(&shown, true).contains('‹'), shown.contains('‹'), "{text:?}");
    }

    let (shown, plain) = (html::fragment(hostile), html::fragment(&harmless));
    assert_eq!(tags(&shown), tags(&plain), "{text:?}: {shown}");
    assert!(!shown.contains(is_deceptive), "{text:?}: {shown}");
}

/// The tags of a part of a page, with their attributes.
fn tags(html: &str) -> Vec<&str> {
    html.split('<').skip(1).map(|rest| rest.split('>').next().unwrap_or(rest)).collect()
}

#[test]
fn hostile_text_stays_text_in_every_place_of_every_writer() {
    assert!(slots() > 30);
    // In all places at once, and in some of them alone, which are others for each text.
    for (nth, text) in corpus().iter().enumerate() {
        hold(&with(text, None), text);
        for place in (nth % PLACES_APART..slots()).step_by(PLACES_APART) {
            hold(&with(text, Some(place)), text);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn no_text_breaks_out_of_any_writer(
        text in "\\PC{0,60}|[<>|`*_\\[\\]()#!:/&\\\\.w@$~=+\n\t\r\u{1b}\u{202e} a1-]{0,40}",
        place in 0..slots(),
        everywhere: bool,
    ) {
        let place = (!everywhere).then_some(place);
        hold(&with(&text, place), &text);
    }
}

#[test]
fn text_in_markdown_is_only_text() {
    for (given, expected) in [
        ("db SELECT a FROM b WHERE c = ?", "db SELECT a FROM b WHERE c = ?"),
        ("<img src=x onerror=alert(1)>", "&lt;img src=x onerror=alert(1)&gt;"),
        ("a|b\nc", "a\\|b c"),
        ("[x](javascript:alert(1))", "\\[x\\](javascript\\:alert(1))"),
        ("see https://evil.example", "see https\\:&#8203;//evil.example"),
        ("www.evil.example", "www\\.evil.example"),
        ("@somebody", "\\@&#8203;somebody"),
        ("a #12 GH-12 !12 %12 &12", "a \\#&#8203;12 GH-&#8203;12 \\!&#8203;12 %&#8203;12 &amp;&#8203;12"),
        ("# ! 5 % & high-12", "\\# \\! 5 % &amp; high-12"),
        (":rocket: $x$ ~~x~~", "\\:rocket: \\$&#8203;x\\$ \\~\\~&#8203;x\\~\\~&#8203;"),
        ("1. one", "1\\. one"),
        ("1) one", "1\\) one"),
        ("1.", "1\\."),
        ("0.000 % (0 of 2000)", "0.000 % (0 of 2000)"),
        ("- one", "\\- one"),
        ("# one", "\\# one"),
        ("::error::x", "\\:\\:error:\\:x"),
        ("a\\|b `c`", "a\\\\\\|b &#96;c&#96;"),
        ("\u{1b}[31mred\u{202e}", "‹U+001B›\\[31mred‹U+202E›"),
    ] {
        assert_eq!(escaped(given), expected, "{given}");
    }
    assert_eq!(escaped(&"x".repeat(10_000)).chars().count(), 401);
}

/// What a table is cut to, in each writer.
#[test]
fn long_tables_and_long_cells_are_cut() {
    let mut table =
        DocumentTable::new(vec![Column::name("name"), Column::message("message"), Column::figure("n")]);
    (table.rows_shown, table.others) = (2, "others");
    for n in 0..30 {
        let name = format!("SELECT {} FROM t{n}", "a, ".repeat(40));
        table.row([name.into(), format!("{n}: {}", "y".repeat(300)).into(), n.to_string().into()]);
    }
    let mut document = ReportDocument::new(2, "there.html");
    document.push(Block::Table(table));
    let text = terminal::text(&document, TerminalStyle::default());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines.len(), lines[3]), (4, "… and 28 others"), "{text}");
    assert!(lines[1].starts_with(" SELECT a, a,") && lines[1].contains("a…  0: yyy"), "{text}");
    let narrow = terminal::text(&document, TerminalStyle { columns: Some(80), colour: false });
    assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
    // A message goes on below, and its row has one name and one number.
    assert!(narrow.lines().filter(|line| line.trim_start().starts_with("yyy")).count() > 4, "{narrow}");
    assert_eq!(narrow.matches(" SELECT a, a,").count(), 2, "{narrow}");
    let markdown = markdown::text(&document);
    assert!(markdown.ends_with("\n… and 10 others.\n"), "{markdown}");

    let block = document.blocks.remove(0);
    document.blocks = vec![block; 100];
    let markdown = markdown::text(&document);
    assert!(
        markdown.len() <= BYTES_MAX && markdown.ends_with("\n\n… and more: see there.html.\n"),
        "{}",
        markdown.len()
    );
}

#[test]
fn wide_characters_keep_columns_apart() {
    let mut table = DocumentTable::new(vec![Column::name(""), Column::figure("n")]);
    table.row(["性能".into(), "1".into()]);
    table.row(["abcd".into(), "22".into()]);
    let mut document = ReportDocument::default();
    document.push(Block::Table(table));
    assert_eq!(terminal::text(&document, TerminalStyle::default()), "        n\n 性能   1\n abcd  22");
}

/// Names are cut at their end; columns are left out before names are short; ids are never cut; messages go on below.
#[test]
fn narrow_terminals_keep_what_names_a_row() {
    let id = "fecc9544-7136-427d-96ce-7b1d5ad3ca53";
    let mut table = DocumentTable::new(vec![
        Column::figure("took").left_out(3),
        Column::words("trace id"),
        Column::words("class").left_out(2),
        Column::name("point"),
        Column::message("why").left_out(1),
    ]);
    let why = "the answer had no value at $.server.status, and a good deal more is to be said of it";
    table.row([
        "116 ms".into(),
        Cell::code(id),
        "status".into(),
        "db SELECT a, b, c FROM assignment".into(),
        why.into(),
    ]);
    let mut document = ReportDocument::default();
    document.push(Block::Table(table));
    for (columns, titles, holds) in [
        (200, &["took", "trace id", "class", "point", "why"][..], vec![id, "FROM assignment", why]),
        (120, &["took", "trace id", "class", "point", "why"], vec![id, "FROM assignment", "\n      "]),
        (110, &["trace id", "class", "point", "why"], vec![id, "status", "FROM as", "\n      "]),
        (105, &["trace id", "point", "why"], vec![id, "FROM as", "deal more is to be said of it"]),
        (80, &["trace id", "point"], vec![id, "db SELECT a, b, c FROM assignment"]),
        (66, &["trace id", "point"], vec![id, "db SELECT a, b, c FROM as"]),
    ] {
        let text = terminal::text(&document, TerminalStyle { columns: Some(columns), colour: false });
        let head: Vec<&str> =
            text.lines().next().unwrap().split("  ").map(str::trim).filter(|t| !t.is_empty()).collect();
        assert_eq!(head, titles, "{columns}: {text}");
        assert!(holds.iter().all(|part| text.contains(part)), "{columns}: {text}");
        assert!(text.lines().all(|line| line.chars().count() <= columns), "{columns}: {text}");
    }
}
