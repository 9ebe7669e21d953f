//! The comments of a pull request: the one with a mark is changed, or a new one is added.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::api::{ApiClient, ApiFault};
use super::place::{CommentPlace, CommentPlatform};
use report::comment::is_marked;

/// Comments asked for at a time; both APIs give no more.
const PAGE: usize = 100;
/// More pages than these are not looked at.
const PAGES_MAX: usize = 100;
/// The wait before a comment that failed is posted once more.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// A comment that stands on its pull request.
pub(super) struct PostedComment {
    pub(super) url: String,
    pub(super) is_new: bool,
}

/// Who the token speaks for.
enum TokenOwner {
    /// A user or a bot with this name or number.
    Known(Value),
    /// A job or an app, which may not ask for its name.
    SomeBot,
}

/// Changes the earlier comment with this tag, or adds one. A request that failed may have had its effect: what stands
/// there is looked up again before a second attempt.
pub(super) async fn put(
    client: &ApiClient,
    place: &CommentPlace,
    tag: &str,
    text: &str,
) -> Result<PostedComment, ApiFault> {
    match put_once(client, place, tag, text).await {
        Err(fault) if fault.is_passing() => {
            tokio::time::sleep(AGAIN_AFTER).await;
            put_once(client, place, tag, text).await
        }
        other => other,
    }
}

async fn put_once(
    client: &ApiClient,
    place: &CommentPlace,
    tag: &str,
    text: &str,
) -> Result<PostedComment, ApiFault> {
    let body = json!({ "body": text });
    if let Some(id) = earlier(client, place, tag).await? {
        let (method, path) = match place.platform {
            CommentPlatform::Github => {
                (Method::PATCH, format!("/repos/{}/issues/comments/{id}", place.repository))
            }
            CommentPlatform::Gitlab => (Method::PUT, format!("{}/{id}", place.comments())),
        };
        match client.put(method, &path, &body).await {
            // Somebody has just deleted it.
            Err(fault) if fault.status == Some(404) => {}
            changed => return Ok(PostedComment { url: place.url_of(&changed?), is_new: false }),
        }
    }
    let added = client.put(Method::POST, &place.comments(), &body).await?;
    Ok(PostedComment { url: place.url_of(&added), is_new: true })
}

/// The number of the first comment with the mark that the token's owner wrote. Anybody may write the mark, and could change
/// what stands in a comment of their own later.
async fn earlier(client: &ApiClient, place: &CommentPlace, tag: &str) -> Result<Option<u64>, ApiFault> {
    let mut owner = None;
    for page in 1..=PAGES_MAX {
        let (comments, more) = client.get(&place.page(page)).await?;
        let comments = comments.as_array().ok_or_else(|| ApiFault::strange("no list of comments"))?;
        for comment in comments.iter().filter(|comment| {
            comment["system"] != true && is_marked(comment["body"].as_str().unwrap_or_default(), tag)
        }) {
            if owner.is_none() {
                owner = Some(token_owner(client).await?);
            }
            let author = match place.platform {
                CommentPlatform::Github => &comment["user"],
                CommentPlatform::Gitlab => &comment["author"],
            };
            let is_own = match &owner {
                Some(TokenOwner::Known(id)) => author["id"] == *id,
                _ => author["type"] == "Bot" || author["bot"] == true,
            };
            if let Some(id) = comment["id"].as_u64().filter(|_| is_own) {
                return Ok(Some(id));
            }
        }
        if !more {
            return Ok(None);
        }
    }
    Ok(None)
}

async fn token_owner(client: &ApiClient) -> Result<TokenOwner, ApiFault> {
    match client.get("/user").await {
        Ok((user, _)) if user["id"].is_u64() => Ok(TokenOwner::Known(user["id"].clone())),
        Ok(_) => Err(ApiFault::strange("no user")),
        Err(fault) if fault.is_forbidden() => Ok(TokenOwner::SomeBot),
        Err(fault) => Err(fault),
    }
}

impl CommentPlace {
    /// The path of all comments.
    fn comments(&self) -> String {
        let Self { repository, number, .. } = self;
        match self.platform {
            CommentPlatform::Github => format!("/repos/{repository}/issues/{number}/comments"),
            CommentPlatform::Gitlab => format!("/projects/{repository}/merge_requests/{number}/notes"),
        }
    }

    /// A page of them, the oldest first.
    fn page(&self, page: usize) -> String {
        let order = match self.platform {
            CommentPlatform::Github => "",
            CommentPlatform::Gitlab => "&order_by=created_at&sort=asc",
        };
        format!("{}?per_page={PAGE}&page={page}{order}", self.comments())
    }

    /// Where a comment is read.
    fn url_of(&self, comment: &Value) -> String {
        let id = comment["id"].as_u64().unwrap_or_default();
        match (comment["html_url"].as_str(), &self.page) {
            (Some(url), _) => url.to_owned(),
            (None, Some(page)) => format!("{page}/-/merge_requests/{}#note_{id}", self.number),
            (None, None) => format!("{}{}/{id}", self.api, self.comments()),
        }
    }
}
