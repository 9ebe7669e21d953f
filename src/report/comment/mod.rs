//! A run or a comparison as a comment on a pull request: the verdict and its reason, the cause with traces, what was
//! judged, and the rest folded away.
//!
//! The text is short ([`LINES_MAX`], [`BYTES_MAX`]), and everything that comes from a scenario, a service or an answer is
//! inert in it: see [`super::document::markdown::escaped`]. Nothing here may compute a statistic.

mod compared;
mod pairs;
mod parts;
mod run;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use super::compare::{AgainstHistory, TwoRuns};
use super::document::StyledLine;
use super::pairs::PairDocument;
use parts::inline;
use results::model::Results;

/// A comment has no more lines than this.
pub const LINES_MAX: usize = 60;
/// It has no more bytes than this; GitHub takes 65,536 characters.
pub const BYTES_MAX: usize = 60_000;
/// The largest length of a tag, in characters.
pub const TAG_CHARS_MAX: usize = 64;

/// What a comment is about.
#[derive(Clone, Debug)]
pub enum CommentSubject {
    /// A run.
    Run(Box<Results>),
    /// A comparison of two builds by paired rounds.
    Pairs(Box<PairDocument>),
    /// Two stored runs side by side.
    TwoRuns(Box<TwoRuns>),
    /// A run against past runs.
    History(Box<AgainstHistory>),
}

/// What a comment says besides its subject.
#[derive(Clone, Debug, Default)]
pub struct CommentContext {
    /// Its name among the comments of `bench` on the same pull request, for the mark by which it is found again.
    pub tag: String,
    /// The path of the run or of the comparison, as it was named.
    pub path: String,
    /// Where the full report is; without it, the comment says how to open it.
    pub link: Option<CommentLink>,
    /// The job that made it.
    pub job: Option<CommentLink>,
}

/// A URL that may stand in Markdown as the target of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommentLink(String);

impl CommentLink {
    /// A URL with http or https. What would end the link, or begin markup, is percent-encoded.
    ///
    /// # Errors
    /// Why it is no such URL.
    pub fn parse(text: &str) -> Result<Self, String> {
        let is_web = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        let host = is_web.ok_or("write the whole URL, with https://")?;
        if host.is_empty() || host.starts_with(['/', '?', '#']) {
            return Err("the URL has no host".to_owned());
        }
        if host.split(['/', '?', '#']).next().is_some_and(|authority| authority.contains('@')) {
            return Err("the URL has a user or a password, which everybody would read".to_owned());
        }
        let mut url = String::new();
        for byte in text.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => url.push(char::from(byte)),
                b':' | b'/' | b'.' | b'-' | b'_' | b'?' | b'=' | b'&' | b'%' | b'#' | b'+' | b',' | b'~' => {
                    url.push(char::from(byte));
                }
                // Writing to a String cannot fail.
                other => {
                    let _ = write!(url, "%{other:02X}");
                }
            }
        }
        Ok(Self(url))
    }
}

/// The first line of a comment: hidden, and how it is found again.
#[must_use]
pub fn mark(tag: &str) -> String {
    format!("<!-- bench:{tag} -->")
}

/// Whether a comment is the one with this tag. Only its first line counts: the rest may quote anything.
#[must_use]
pub fn is_marked(body: &str, tag: &str) -> bool {
    body.lines().next().map(str::trim_end) == Some(mark(tag).as_str())
}

/// A text as a tag: small letters, digits and dashes.
#[must_use]
pub fn tag(text: &str) -> String {
    let mut tag = String::new();
    for c in text.chars().flat_map(char::to_lowercase) {
        match c {
            'a'..='z' | '0'..='9' => tag.push(c),
            _ if tag.is_empty() || tag.ends_with('-') => {}
            _ => tag.push('-'),
        }
        if tag.len() >= TAG_CHARS_MAX {
            break;
        }
    }
    tag.trim_end_matches('-').to_owned()
}

/// Whether a text may be a tag as it is: it must not end the mark.
///
/// # Errors
/// What a tag may have.
pub fn check_tag(text: &str) -> Result<String, String> {
    let is_good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    if text.is_empty()
        || text.chars().count() > TAG_CHARS_MAX
        || !text.chars().all(is_good)
        || text.contains("--")
    {
        return Err(format!(
            "a tag has letters, digits and `-_./`, but no `--`, and at most {TAG_CHARS_MAX} characters"
        ));
    }
    Ok(text.to_owned())
}

impl CommentSubject {
    /// The tag of a comment that has no other: its kind, and the title of its scenario.
    #[must_use]
    pub fn tag(&self) -> String {
        let (kind, title) = match self {
            Self::Run(results) => ("run", results.scenario.title.as_str()),
            Self::Pairs(paired) => ("ab", paired.scenario.title.as_str()),
            Self::TwoRuns(compared) => ("compare", compared.new.scenario.as_str()),
            Self::History(judged) => ("history", judged.new.scenario.as_str()),
        };
        tag(&format!("{kind} {title}"))
    }
}

/// The comment as Markdown, with its mark in the first line and a final line feed.
#[must_use]
pub fn render(subject: &CommentSubject, context: &CommentContext) -> String {
    let parts = match subject {
        CommentSubject::Run(results) => run::parts(results, &context.path),
        CommentSubject::Pairs(paired) => pairs::parts(paired, &context.path),
        CommentSubject::TwoRuns(compared) => compared::two_runs(compared),
        CommentSubject::History(judged) => compared::history(judged),
    };
    let mut text = mark(&context.tag);
    text.push('\n');
    text.push_str(&parts.head);
    let footer = footer(context, &parts.open);
    let mut left_out = false;
    let left_out_note = "\nMore is in the full report.\n";
    for section in &parts.sections {
        let lines = text.lines().count() + section.lines().count() + footer.lines().count() + 4;
        if lines > LINES_MAX || text.len() + section.len() + footer.len() + left_out_note.len() > BYTES_MAX {
            left_out = true;
            continue;
        }
        text.push('\n');
        text.push_str(section);
    }
    if left_out {
        text.push_str(left_out_note);
    }
    text.push('\n');
    text.push_str(&footer);
    text
}

/// Where the full report is, and the job.
fn footer(context: &CommentContext, open: &StyledLine) -> String {
    let mut parts = Vec::new();
    match &context.link {
        Some(CommentLink(url)) => parts.push(format!("[Full report]({url})")),
        None => parts.push(inline(open)),
    }
    parts.extend(context.job.as_ref().map(|CommentLink(url)| format!("[Job]({url})")));
    format!("{}\n", parts.join(" · "))
}
