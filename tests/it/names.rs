//! One word for a thing: what types may be called, and the words that the glossary leaves out.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Words that say how a thing is, or stand for its name, and are no name themselves.
const NO_NAMES: &str = "About All Any Around At Before Below Beside By Each Elsewhere Endless Few First Further Get Had Harmless \
    Has Huge In Inner Is Its It Lack Largest Make Next Nothing Nowhere Of Once Other Outer Some Such That Then There \
    Thing This Until Use Valid Way What When Where Which Whole Whose Why Within";

/// Participles that do not end in `-ed`.
const IRREGULAR: &str = "Begun Bound Broken Built Chosen Drawn Found Given Gone Held Hidden Kept Known Left Lent Lost Made Met Put \
    Ran Read Resent Run Said Seen Sent Set Shown Spent Split Stolen Taken Told Went Written";

/// Words that look like participles, and are nouns.
const NOUNS: &str = "Bound Building Ceiling Ending Feed Finding Framing Grouping Housekeeping Listing Meaning Nesting Need \
    Pacing Profiling Ramping Ranking Reading Run Seed Set Setting Speed Split String Thing Weighting";

fn has(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|other| other == word)
}

/// True for a participle or a pronoun.
fn is_no_name(name: &str) -> bool {
    let is_one_word = name.chars().filter(char::is_ascii_uppercase).count() == 1;
    let is_participle = name.ends_with("ed") || name.ends_with("ing") || has(IRREGULAR, name);
    is_one_word && (has(NO_NAMES, name) || (is_participle && !has(NOUNS, name)))
}

fn files(below: &str, endings: &[&str]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join(below)];
    while let Some(folder) = folders.pop() {
        if folder.is_file() {
            files.push(folder);
            continue;
        }
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let ends = |ending: &&str| path.extension().is_some_and(|extension| extension == *ending);
            if path.is_dir() || endings.iter().any(ends) {
                folders.push(path);
            }
        }
    }
    files.sort();
    files
}

/// The name of the type that a line of code declares. Types of an `impl` or a function, which are indented, are not looked at.
fn declared(line: &str) -> Option<&str> {
    let code = line.trim_start();
    let is_indented = code.len() < line.len();
    let code = match code.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.trim_start(),
        None => code,
    };
    let (keyword, rest) = code.split_once(' ')?;
    let declares =
        matches!(keyword, "struct" | "enum" | "trait" | "union") || (keyword == "type" && !is_indented);
    let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(rest.len());
    let name = &rest[..end];
    (declares && name.starts_with(|letter: char| letter.is_ascii_uppercase())).then_some(name)
}

/// The types of the whole tree, with their places.
fn types() -> BTreeMap<String, Vec<String>> {
    let mut types: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in ["src", "tests"].iter().flat_map(|below| files(below, &["rs"])) {
        let text = fs::read_to_string(&path).unwrap();
        for (number, line) in text.lines().enumerate() {
            if let Some(name) = declared(line) {
                let place = format!("{}:{}", path.display(), number + 1);
                types.entry(name.to_owned()).or_default().push(place);
            }
        }
    }
    assert!(types.len() > 1_500, "{}", types.len());
    types
}

#[test]
fn no_type_is_named_by_a_participle_or_a_pronoun() {
    for name in ["Found", "Shared", "Waiting", "Which", "Thing", "Kept"] {
        assert!(is_no_name(name), "{name}");
    }
    for name in ["Ranking", "StoredTrace", "Point", "Speed"] {
        assert!(!is_no_name(name), "{name}");
    }
    let faults: Vec<_> = types().into_iter().filter(|(name, _)| is_no_name(name)).collect();
    assert!(faults.is_empty(), "name them by nouns: {faults:#?}");
}

#[test]
fn a_name_of_a_type_stands_at_most_twice() {
    let faults: Vec<_> = types().into_iter().filter(|(_, places)| places.len() > 2).collect();
    assert!(faults.is_empty(), "{faults:#?}");
}

const GLOSSARY: &str = include_str!("../../scenarios/glossary.md");

/// The terms of the glossary, each with the words that are said instead of it nowhere.
fn terms() -> Vec<(&'static str, Vec<&'static str>)> {
    let rows = GLOSSARY.lines().filter_map(|line| line.strip_prefix("| "));
    let cells = rows.map(|row| row.trim_end_matches('|').split(" | ").map(str::trim).collect::<Vec<_>>());
    let rows = cells.filter(|cells| cells[0] != "term");
    rows.map(|cells| {
        let [term, _, out] = cells[..] else { panic!("a row of three cells: {cells:?}") };
        (term, out.split(", ").filter(|word| !word.is_empty()).collect())
    })
    .collect()
}

#[test]
fn the_glossary_is_in_order_and_its_terms_are_in_use() {
    let terms = terms();
    assert!(terms.len() >= 40, "{}", terms.len());
    assert!(terms.is_sorted_by_key(|(term, _)| term.to_lowercase()), "{terms:?}");
    let code: String = files("src", &["rs"]).iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let code = words(&code);
    for (term, _) in terms {
        assert!(holds(&code, &words(term)), "{term} is in the glossary, and nowhere in src");
    }
}

/// The words of a text, identifiers taken apart. Where more than a blank or a joint of an identifier is between two words,
/// an empty word is.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for letter in text.chars() {
        if !letter.is_alphanumeric() || (letter.is_uppercase() && before.is_lowercase()) {
            words.push(String::new());
        }
        if letter.is_alphanumeric() {
            words.last_mut().unwrap().extend(letter.to_lowercase());
        } else if !matches!(letter, ' ' | '_' | '-') {
            words.push(String::new());
            words.push(String::new());
        }
        before = letter;
    }
    words.dedup_by(|word, last| word.is_empty() && last.is_empty());
    words
}

/// Whether some words stand there, the last one as a plural, too.
fn holds(words: &[String], phrase: &[String]) -> bool {
    words.windows(phrase.len()).any(|window| {
        let (Some((last, first)), Some((phrase_last, phrase_first))) =
            (window.split_last(), phrase.split_last())
        else {
            return false;
        };
        first == phrase_first && (last == phrase_last || last.strip_suffix('s') == Some(phrase_last))
    })
}

/// Names that stay in files: what is read by programs of other people, or was written by earlier versions.
const FILE_KEYS: [&str; 10] = [
    "start_lag_ns",
    "bench_start_lag_seconds",
    "\"start_lag\"",
    "`start_lag`",
    "\"scheduling delay\"",
    "`scheduling delay`",
    "\"guilty\"",
    "\"culprit\"",
    "\"culprits\"",
    "\"Culprit\"",
];

#[test]
fn words_that_the_glossary_leaves_out_are_nowhere() {
    let out: Vec<(Vec<String>, &str)> = terms()
        .into_iter()
        .flat_map(|(term, out)| out.into_iter().map(move |word| (words(word), term)))
        .collect();
    let folders = ["src", "tests", "scenarios", "deployments", "README.md", ".github"];
    let all = folders.iter().flat_map(|below| files(below, &["rs", "md", "js", "html", "yaml"]));
    let mut faults = Vec::new();
    for path in all.filter(|path| {
        !path.ends_with("glossary.md")
            && !path.ends_with("names.rs")
            && !path.to_string_lossy().contains("/vectors/")
    }) {
        let text = fs::read_to_string(&path).unwrap();
        for (number, line) in text.lines().enumerate() {
            let line = FILE_KEYS.iter().fold(line.to_owned(), |line, key| line.replace(key, " "));
            let words = words(&line);
            for (out, term) in &out {
                if holds(&words, out) {
                    let place = format!("{}:{}", path.display(), number + 1);
                    faults.push(format!("{place}: {}: say {term}", out.join(" ")));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}
