//! Where a comment goes: the pull request, the API and its token, from options and from the variables of CI systems.

use std::io::Read as _;
use std::path::Path;

use serde_json::Value;

use super::PostOptions;
use crate::environment::Environment;
use crate::error::HarnessError;
use base::masking;
use base::percent;
use base::secret::{Secret, redacted_url};
use report::comment::CommentLink;
use text::files::open_named;

/// The largest event and the largest file of a token, in bytes.
const EVENT_BYTES_MAX: u64 = 64 << 20;
const TOKEN_BYTES_MAX: u64 = 64 << 10;

/// Whose API takes the comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommentPlatform {
    /// GitHub, also GitHub Enterprise.
    Github,
    /// GitLab, also one that runs on its own.
    Gitlab,
}

/// A token, and whether it is that of a job of GitLab.
pub(super) struct ApiToken {
    pub(super) secret: Secret,
    pub(super) is_of_job: bool,
}

/// A pull request and the API that reaches it.
pub(super) struct CommentPlace {
    pub(super) platform: CommentPlatform,
    /// Without a slash at its end.
    pub(super) api: String,
    /// As it stands in paths of the API.
    pub(super) repository: String,
    pub(super) number: u64,
    /// The web page of the project, for GitLab, whose notes have no URL.
    pub(super) page: Option<String>,
    pub(super) token: Option<ApiToken>,
    /// Whether the pull request comes from a fork, or from Dependabot: then the job has no token that may write.
    pub(super) is_foreign: bool,
}

/// The variables of a CI system that are not empty.
struct JobVariables<'a>(&'a Environment);

impl JobVariables<'_> {
    fn get(&self, name: &str) -> Option<String> {
        self.0.get(name).filter(|value| !value.is_empty())
    }

    fn first(&self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| self.get(name))
    }

    fn is_true(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value == "true")
    }
}

/// The page of the job that runs, for a link.
pub(super) fn job(environment: &Environment) -> Option<CommentLink> {
    let variables = JobVariables(environment);
    let github = || {
        let server = variables.get("GITHUB_SERVER_URL")?;
        let (repository, run) = (variables.get("GITHUB_REPOSITORY")?, variables.get("GITHUB_RUN_ID")?);
        Some(format!("{server}/{repository}/actions/runs/{run}"))
    };
    let url = variables.get("CI_JOB_URL").or_else(github)?;
    CommentLink::parse(&url).ok()
}

fn usage(what: impl std::fmt::Display, remedy: &str) -> HarnessError {
    HarnessError::usage(what).remedy(remedy)
}

impl CommentPlace {
    /// The place that options and variables name.
    pub(super) fn find(options: &PostOptions, environment: &Environment) -> Result<Self, HarnessError> {
        let variables = JobVariables(environment);
        let found = match (variables.is_true("GITHUB_ACTIONS"), variables.is_true("GITLAB_CI")) {
            (true, _) => Some(CommentPlatform::Github),
            (false, true) => Some(CommentPlatform::Gitlab),
            (false, false) => None,
        };
        let platform = options.platform.or(found).ok_or_else(|| {
            usage("neither GitHub Actions nor GitLab CI runs this", "write --post=github or --post=gitlab")
        })?;
        let given = options.token.as_deref().map(|given| given_token(given, &variables)).transpose()?;
        let place = match platform {
            CommentPlatform::Github => Self::on_github(options, &variables, given)?,
            CommentPlatform::Gitlab => Self::on_gitlab(options, &variables, given)?,
        };
        let is_web = url::Url::parse(&place.api)
            .is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.host().is_some());
        if !is_web {
            let shown = redacted_url(&place.api);
            return Err(usage(
                format!("{shown} is no URL of an API"),
                "write --url https://HOST, as in https://api.github.com or https://gitlab.example/api/v4",
            ));
        }
        Ok(place)
    }

    fn on_github(
        options: &PostOptions,
        variables: &JobVariables<'_>,
        given: Option<ApiToken>,
    ) -> Result<Self, HarnessError> {
        let event = event(variables)?;
        let repository =
            options.repository.clone().or_else(|| variables.get("GITHUB_REPOSITORY")).ok_or_else(|| {
                usage(
                    "the repository is not known: GITHUB_REPOSITORY is not set",
                    "write --repository OWNER/NAME",
                )
            })?;
        let is_part = |part: &str| {
            let is_good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            !part.is_empty() && part != "." && part != ".." && part.chars().all(is_good)
        };
        if repository.split('/').count() != 2 || !repository.split('/').all(is_part) {
            return Err(usage(
                format!("`{repository}` is no repository of GitHub"),
                "write --repository OWNER/NAME",
            ));
        }
        let number = options.number.or_else(|| github_number(&event, variables)).ok_or_else(|| {
            usage(
                "this job belongs to no pull request: neither the event nor GITHUB_REF names one",
                "run it `on: pull_request`, or write --pull-request N",
            )
        })?;
        let environment_token = || {
            let secret = Secret::new(variables.first(&["GITHUB_TOKEN", "GH_TOKEN"])?);
            Some(ApiToken { secret, is_of_job: false })
        };
        let url = options.url.clone().or_else(|| variables.get("GITHUB_API_URL"));
        let is_of_dependabot = variables.get("GITHUB_ACTOR").is_some_and(|actor| actor == "dependabot[bot]");
        let place = Self {
            platform: CommentPlatform::Github,
            api: url.unwrap_or_else(|| "https://api.github.com".to_owned()),
            repository,
            number,
            page: None,
            token: given.or_else(environment_token),
            is_foreign: is_of_dependabot || is_from_fork(&event),
        };
        Ok(place.ready())
    }

    fn on_gitlab(
        options: &PostOptions,
        variables: &JobVariables<'_>,
        given: Option<ApiToken>,
    ) -> Result<Self, HarnessError> {
        let project = ["CI_MERGE_REQUEST_PROJECT_ID", "CI_PROJECT_ID"];
        let repository =
            options.repository.clone().or_else(|| variables.first(&project)).ok_or_else(|| {
                usage("the project is not known: CI_PROJECT_ID is not set", "write --repository GROUP/NAME")
            })?;
        let own = || variables.get("CI_MERGE_REQUEST_IID")?.parse().ok();
        let number = options.number.or_else(own).ok_or_else(|| {
            usage(
                "this job belongs to no merge request: CI_MERGE_REQUEST_IID is not set",
                "run it in a merge request pipeline (rules: - if: $CI_PIPELINE_SOURCE == \"merge_request_event\"), or \
                 write --pull-request N",
            )
        })?;
        let environment_token = || {
            let of = |name: &str, is_of_job: bool| {
                variables.get(name).map(|token| ApiToken { secret: Secret::new(token), is_of_job })
            };
            of("GITLAB_TOKEN", false).or_else(|| of("CI_JOB_TOKEN", true))
        };
        let (source, target) = ("CI_MERGE_REQUEST_SOURCE_PROJECT_ID", "CI_MERGE_REQUEST_PROJECT_ID");
        let both = variables.get(source).zip(variables.get(target));
        let url = options.url.clone().or_else(|| variables.get("CI_API_V4_URL"));
        let place = Self {
            platform: CommentPlatform::Gitlab,
            api: url.unwrap_or_else(|| "https://gitlab.com/api/v4".to_owned()),
            repository: percent::encode(&repository),
            number,
            page: variables.first(&["CI_MERGE_REQUEST_PROJECT_URL", "CI_PROJECT_URL"]),
            token: given.or_else(environment_token),
            is_foreign: both.is_some_and(|(source, target)| source != target),
        };
        Ok(place.ready())
    }

    /// With its secrets known, so that no output shows them.
    fn ready(self) -> Self {
        self.token.iter().for_each(|token| masking::hide(token.secret.expose()));
        masking::hide_url(&self.api);
        Self { api: self.api.trim_end_matches('/').to_owned(), ..self }
    }

    /// Why a job of a fork does not comment.
    pub(super) fn without_token(&self) -> String {
        "the pull request comes from a fork, whose jobs may not comment".to_owned()
    }

    /// The error for a job that has no token and should have one.
    pub(super) fn missing_token(&self) -> HarnessError {
        match self.platform {
            CommentPlatform::Github => usage(
                "there is no token: GITHUB_TOKEN is not set",
                "give the step `env: { GITHUB_TOKEN: \"${{ github.token }}\" }` and the job `permissions: { \
                 pull-requests: write }`",
            ),
            CommentPlatform::Gitlab => usage(
                "there is no token: GITLAB_TOKEN is not set",
                "make a project access token with the scope `api` and the role Reporter, and set it as the masked \
                 variable GITLAB_TOKEN",
            ),
        }
    }
}

/// `env:NAME` or `@FILE`. A token written out would be in the list of processes.
fn given_token(given: &str, variables: &JobVariables<'_>) -> Result<ApiToken, HarnessError> {
    let secret = match (given.strip_prefix("env:"), given.strip_prefix('@')) {
        (Some(name), _) => variables.get(name).ok_or_else(|| {
            usage(format!("--token env:{name}: the variable is not set"), "set it to the token")
        })?,
        (None, Some(path)) => {
            let mut text = String::new();
            let read = open_named(Path::new(path))
                .and_then(|file| file.take(TOKEN_BYTES_MAX).read_to_string(&mut text));
            read.map_err(|error| usage(format!("--token @{path}: {error}"), "name a file with the token"))?;
            text.lines().next().unwrap_or_default().trim().to_owned()
        }
        (None, None) => {
            masking::hide(given);
            return Err(usage(
                "--token takes no token, because other users of the machine can read a command line",
                "write --token env:NAME or --token @FILE",
            ));
        }
    };
    if secret.is_empty() {
        return Err(usage(format!("--token {given}: it is empty"), "put the token there"));
    }
    Ok(ApiToken { secret: Secret::new(secret), is_of_job: false })
}

/// What started the workflow, as GitHub describes it; null without a file.
fn event(variables: &JobVariables<'_>) -> Result<Value, HarnessError> {
    let Some(path) = variables.get("GITHUB_EVENT_PATH") else { return Ok(Value::Null) };
    let mut text = Vec::new();
    let failed = |error: &dyn std::fmt::Display| {
        usage(
            format!("GITHUB_EVENT_PATH: {path}: {error}"),
            "write --pull-request N and unset GITHUB_EVENT_PATH",
        )
    };
    let file = text::files::open_regular(Path::new(&path)).map_err(|error| failed(&error))?;
    file.take(EVENT_BYTES_MAX).read_to_end(&mut text).map_err(|error| failed(&error))?;
    serde_json::from_slice(&text).map_err(|error| failed(&error))
}

/// The pull request that an event or `refs/pull/12/merge` names.
fn github_number(event: &Value, variables: &JobVariables<'_>) -> Option<u64> {
    let issue = || event["issue"]["number"].as_u64().filter(|_| event["issue"]["pull_request"].is_object());
    let of_run = || event["workflow_run"]["pull_requests"][0]["number"].as_u64();
    let of_ref = || {
        let reference = variables.get("GITHUB_REF")?;
        reference.strip_prefix("refs/pull/")?.split('/').next()?.parse().ok()
    };
    event["pull_request"]["number"].as_u64().or_else(issue).or_else(of_run).or_else(of_ref)
}

/// A repository that was deleted was a fork, too.
fn is_from_fork(event: &Value) -> bool {
    let side = |side: &str| event["pull_request"][side]["repo"]["full_name"].as_str();
    event["pull_request"].is_object() && side("head") != side("base")
}
