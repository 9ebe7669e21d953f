//! `bench comment`.

use std::path::PathBuf;

use harness::HarnessError;
use harness::comment::{CommentOptions, CommentOutcome, CommentPlatform, PostOptions, comment};
use harness::options::Environment;
use report::comment::{CommentLink, check_tag};
use text::files::write_output;

use super::exit::Exit;
use super::output;
use super::progress::ProgressDisplay;

const EXAMPLES: &str = "\
Examples:
  bench comment latest                                the comment of the newest run or comparison, as Markdown
  bench comment latest --post                         in GitHub Actions or GitLab CI: on this pull request
  bench comment runs/ONE --post --tag checkout        beside the comments of other gates
  bench comment ab --post=github --repository me/shop --pull-request 12";

/// Write what a pull request should know of a run or comparison, or post it there.
///
/// Without --post, prints the comment as Markdown. With --post, adds it to the pull request (GitHub) or merge request
/// (GitLab) of the CI job, or changes the one that it added before. Repository, number and API are those of the job's
/// variables, unless options name others.
///
/// GitHub needs GITHUB_TOKEN, whose job has `permissions: { pull-requests: write }`. GitLab needs GITLAB_TOKEN: a project
/// access token with the scope `api` and the role Reporter; the job's own CI_JOB_TOKEN may not comment. A job for a fork
/// has no such token: then the comment is added to the step's summary, or printed, and the exit code is 0.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct CommentArguments {
    /// The directory of a run or comparison (default: the newest in runs/), or a file: results.json, ab.json, or what
    /// `bench compare --json -o FILE` wrote.
    #[arg(value_name = "RUN", default_value = "latest")]
    run: PathBuf,
    /// Post it: on `github` or `gitlab`; without a value, wherever this job runs.
    #[arg(long, value_name = "github|gitlab", num_args = 0..=1, require_equals = true)]
    post: Option<Option<PlatformName>>,
    /// The comment's name: comments with other names stand beside it (default: made of the scenario's title).
    #[arg(long, value_name = "NAME", value_parser = check_tag)]
    tag: Option<String>,
    /// The URL of the full report, such as that of the job's artifacts.
    #[arg(long, value_name = "URL", value_parser = CommentLink::parse)]
    link: Option<CommentLink>,
    #[command(flatten)]
    place: PlaceArguments,
    /// Write to this file instead of standard output.
    #[arg(short, long, value_name = "FILE", conflicts_with = "post")]
    output: Option<PathBuf>,
}

/// Where to post, if not where the job's variables say.
#[derive(Debug, clap::Args)]
struct PlaceArguments {
    /// OWNER/NAME, or the path or number of a project of GitLab.
    #[arg(long, value_name = "REPOSITORY", requires = "post")]
    repository: Option<String>,
    /// The number of the pull request or merge request.
    #[arg(long, value_name = "N", requires = "post", visible_alias = "merge-request")]
    pull_request: Option<u64>,
    /// The base URL of the API, such as `https://gitlab.example/api/v4`.
    #[arg(long, value_name = "URL", requires = "post")]
    url: Option<String>,
    /// Where the token is: a variable, or the first line of a file.
    #[arg(long, value_name = "env:NAME|@FILE", requires = "post")]
    token: Option<String>,
    /// Fail if a fork's job may not comment.
    #[arg(long, requires = "post")]
    must_post: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum PlatformName {
    Github,
    Gitlab,
}

impl PlatformName {
    fn platform(self) -> CommentPlatform {
        match self {
            Self::Github => CommentPlatform::Github,
            Self::Gitlab => CommentPlatform::Gitlab,
        }
    }
}

impl CommentArguments {
    fn options(&self) -> CommentOptions {
        let place = &self.place;
        let post = self.post.map(|platform| PostOptions {
            platform: platform.map(PlatformName::platform),
            repository: place.repository.clone(),
            number: place.pull_request,
            url: place.url.clone(),
            token: place.token.clone(),
            is_required: place.must_post,
        });
        CommentOptions {
            path: self.run.clone(),
            tag: self.tag.clone(),
            link: self.link.clone(),
            post,
            environment: Environment::default(),
        }
    }
}

pub(super) fn run(arguments: &CommentArguments) -> Result<Exit, HarnessError> {
    match comment(&arguments.options(), &ProgressDisplay::new(false).sink())? {
        CommentOutcome::Text(text) => match output::file(arguments.output.as_ref()) {
            Some(path) => write_output(path, |output| output.write_all(text.as_bytes()))
                .map_err(|error| HarnessError::failed(format!("cannot write {}: {error}", path.display())))?,
            None => output::deliver(&text)?,
        },
        CommentOutcome::Posted { url, is_new } => {
            output::say(if is_new { "comment added" } else { "comment changed" });
            output::print(&url);
        }
        CommentOutcome::Kept { why, is_in_summary: true, .. } => {
            output::say(&format!("no comment: {why}; it is in the step's summary instead"));
        }
        CommentOutcome::Kept { text, why, is_in_summary: false } => {
            output::say(&format!("no comment: {why}; here it is instead"));
            output::show(&text)?;
        }
    }
    Ok(Exit::Ok)
}
