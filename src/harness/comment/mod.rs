//! A stored run or comparison as a comment on a pull request: its text, and where it is posted.
//!
//! A comment is found again by the mark in its first line, so that each push updates it. Its token is only ever sent to the
//! API: no redirect is followed, and no output has it.

mod api;
mod place;
mod refusal;
mod store;
mod subject;

use std::path::PathBuf;

use base::masking;
use report::comment::{self, CommentContext, CommentLink};

use self::api::ApiClient;
use self::place::CommentPlace;
pub use self::place::CommentPlatform;
use super::environment::Environment;
use super::error::HarnessError;
use super::event::Sink;
use super::runs;
use super::writing;

/// The variable with the file of a step's summary in GitHub Actions.
const STEP_SUMMARY: &str = "GITHUB_STEP_SUMMARY";

/// What a comment is about, and what becomes of it.
#[derive(Clone, Debug, Default)]
pub struct CommentOptions {
    /// A run or a comparison: its directory, its file, or `latest`.
    pub path: PathBuf,
    /// The comment's name; if absent, it is made of the scenario's title.
    pub tag: Option<String>,
    /// Where the full report is.
    pub link: Option<CommentLink>,
    /// Where to post it; if absent, the text is only made.
    pub post: Option<PostOptions>,
    /// Where the variables of the CI system are looked up.
    pub environment: Environment,
}

/// Where a comment is posted. What is absent is taken from the variables of the CI system.
#[derive(Clone, Debug, Default)]
pub struct PostOptions {
    /// Whose API it is.
    pub platform: Option<CommentPlatform>,
    /// `OWNER/NAME`, or the number or the path of GitLab's project.
    pub repository: Option<String>,
    /// The number of the pull request or merge request.
    pub number: Option<u64>,
    /// The base URL of the API.
    pub url: Option<String>,
    /// Where the token is: `env:NAME` or `@FILE`.
    pub token: Option<String>,
    /// Whether it is an error that a fork's job may not comment.
    pub is_required: bool,
}

/// What became of a comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommentOutcome {
    /// Nothing but its text was asked for.
    Text(String),
    /// It stands on the pull request.
    Posted {
        /// Where.
        url: String,
        /// False if an earlier one was changed.
        is_new: bool,
    },
    /// The job may not comment.
    Kept {
        /// The comment.
        text: String,
        /// Why it was not posted.
        why: String,
        /// Whether it was added to the step's summary instead.
        is_in_summary: bool,
    },
}

/// Makes a comment, and posts it if that is asked for.
///
/// # Errors
/// The run cannot be read, something is missing, or the API does not take the comment.
pub fn comment(options: &CommentOptions, events: &Sink) -> Result<CommentOutcome, HarnessError> {
    let environment = &options.environment;
    let path = runs::newest_of_all(&options.path)?;
    // Before anything is read: what a run says may quote the token.
    let place = options.post.as_ref().map(|post| CommentPlace::find(post, environment)).transpose()?;
    let subject = subject::read(&path)?;
    let tag = options.tag.clone().unwrap_or_else(|| subject.tag());
    let context = CommentContext {
        tag: tag.clone(),
        path: path.display().to_string(),
        link: options.link.clone(),
        job: place::job(environment),
    };
    let text = masking::masked(&comment::render(&subject, &context)).into_owned();
    let Some((place, post)) = place.zip(options.post.as_ref()) else { return Ok(CommentOutcome::Text(text)) };
    let kept = |why: String| -> Result<CommentOutcome, HarnessError> {
        if post.is_required {
            return Err(HarnessError::failed(why).remedy("leave out --must-post to let forks pass"));
        }
        Ok(keep(&text, why, environment, events))
    };
    let Some(token) = &place.token else {
        let why = place.without_token();
        return if place.is_foreign { kept(why) } else { Err(place.missing_token()) };
    };
    let client = ApiClient::new(&place, token, environment)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(HarnessError::cannot("start the client"))?;
    match runtime.block_on(store::put(&client, &place, &tag, &text)) {
        Ok(posted) => Ok(CommentOutcome::Posted { url: posted.url, is_new: posted.is_new }),
        Err(fault) if place.is_foreign && fault.is_forbidden() => {
            kept(format!("{} (its token may only read)", place.without_token()))
        }
        Err(fault) => Err(refusal::refused(&place, &fault)),
    }
}

/// Adds the comment to the step's summary, if there is one.
fn keep(text: &str, why: String, environment: &Environment, events: &Sink) -> CommentOutcome {
    let summary = environment.get(STEP_SUMMARY).filter(|path| !path.is_empty());
    if let Some(path) = &summary {
        writing::add_to(path.as_ref(), &|output| output.write_all(text.as_bytes()), events);
    }
    CommentOutcome::Kept { text: text.to_owned(), why, is_in_summary: summary.is_some() }
}
