//! What to do when the API of GitHub or GitLab does not take a comment.

use super::api::ApiFault;
use super::place::{CommentPlace, CommentPlatform};
use crate::error::{HarnessError, HarnessErrorKind};

/// The error for an API that does not take the comment.
pub(super) fn refused(place: &CommentPlace, fault: &ApiFault) -> HarnessError {
    let remedy = match (fault.status, place.platform) {
        (None | Some(500..), _) => {
            return HarnessError::new(HarnessErrorKind::Unreachable, fault).remedy("try again later");
        }
        _ if fault.is_by_rate => "try again later, or comment less often",
        (Some(300..=399), CommentPlatform::Github) => {
            "the repository was renamed or moved: write its new name with --repository"
        }
        (Some(300..=399), CommentPlatform::Gitlab) => "write the new address with --url or --repository",
        (_, CommentPlatform::Gitlab) if place.token.as_ref().is_some_and(|token| token.is_of_job) => {
            "a job token (CI_JOB_TOKEN) may not comment: set GITLAB_TOKEN to a project access token with the scope \
             `api` and the role Reporter"
        }
        (Some(401), _) => "the token is wrong or has expired",
        (Some(403), CommentPlatform::Github) => {
            "the token may not comment: give the job `permissions: { pull-requests: write }`"
        }
        (Some(403), CommentPlatform::Gitlab) => {
            "the token may not comment: it needs the scope `api` and the role Reporter"
        }
        (Some(404), _) => {
            "there is no such pull request, or the token may not see it: check --repository and --pull-request"
        }
        (Some(422), _) => "the API refuses the comment: is the pull request locked?",
        _ => "check --url, --repository and --pull-request",
    };
    HarnessError::failed(fault).remedy(remedy)
}
