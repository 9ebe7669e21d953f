//! Requests to the API of GitHub or GitLab: with the token, and once more where that helps.

use std::fmt;
use std::time::Duration;

use http::Method;
use http::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT};
use serde_json::Value;

use super::place::{ApiToken, CommentPlace, CommentPlatform};
use crate::environment::Environment;
use crate::error::HarnessError;
use base::clock::RunClock;
use base::visible::on_one_line;
use client::options::DnsOptions;
use client::plain::{PlainAnswer, PlainClient};
use client::proxy::{Exception, Proxies, Proxy};
use client::tls::{self, TlsOptions};

/// A page of comments may be this large, in bytes.
const ANSWER_BYTES_MAX: usize = 128 << 20;
/// How long a busy API is waited for in all.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// The wait if a busy API names none.
const BUSY_WAIT: Duration = Duration::from_secs(10);
/// The wait before a request that failed is sent once more.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// An explanation of the API is cut after this number of characters.
const MESSAGE_CHARS_MAX: usize = 300;

/// Why the API did not do what it was asked for.
#[derive(Debug)]
pub(super) struct ApiFault {
    /// The status it answered; none without an answer.
    pub(super) status: Option<u16>,
    /// Whether there were too many requests.
    pub(super) is_by_rate: bool,
    /// What happened, in words.
    what: String,
}

impl fmt::Display for ApiFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&base::masking::masked(&self.what))
    }
}

impl ApiFault {
    /// Whether the token may not do it.
    pub(super) fn is_forbidden(&self) -> bool {
        matches!(self.status, Some(401 | 403 | 404)) && !self.is_by_rate
    }

    /// Whether the same request may succeed, or has had its effect.
    pub(super) fn is_passing(&self) -> bool {
        self.status.is_none_or(|status| status >= 500)
    }

    /// An answer that is not what its documentation says.
    pub(super) fn strange(what: &str) -> Self {
        Self { status: Some(200), is_by_rate: false, what: format!("the API answered {what}") }
    }
}

/// A client of one API.
pub(super) struct ApiClient {
    client: PlainClient,
    headers: HeaderMap,
    base: String,
}

impl ApiClient {
    /// A client that sends this token.
    pub(super) fn new(
        place: &CommentPlace,
        token: &ApiToken,
        environment: &Environment,
    ) -> Result<Self, HarnessError> {
        let options = TlsOptions { verify: true, ca: None, identity: None };
        let tls = tls::config(&options, place.api.starts_with("https:")).map_err(HarnessError::failed)?;
        let client = PlainClient::through(&tls, &DnsOptions::default(), &proxies(environment)?)
            .map_err(HarnessError::failed)?;
        let secret = token.secret.expose();
        let mut headers = HeaderMap::new();
        let (name, value) = match place.platform {
            CommentPlatform::Github => (AUTHORIZATION, format!("Bearer {secret}")),
            CommentPlatform::Gitlab if token.is_of_job => {
                (HeaderName::from_static("job-token"), secret.to_owned())
            }
            CommentPlatform::Gitlab => (HeaderName::from_static("private-token"), secret.to_owned()),
        };
        let mut value = HeaderValue::try_from(value).map_err(|_| {
            HarnessError::usage("the token has characters that no header may have").remedy("copy it again")
        })?;
        value.set_sensitive(true);
        headers.insert(name, value);
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("bench/", env!("CARGO_PKG_VERSION"))));
        if place.platform == CommentPlatform::Github {
            headers.insert(ACCEPT, HeaderValue::from_static("application/vnd.github+json"));
            let version = HeaderName::from_static("x-github-api-version");
            headers.insert(version, HeaderValue::from_static("2022-11-28"));
        }
        Ok(Self { client, headers, base: place.api.clone() })
    }

    /// Gets JSON, and whether there is a further page of it.
    pub(super) async fn get(&self, path: &str) -> Result<(Value, bool), ApiFault> {
        let answer = match self.send(Method::GET, path, None).await {
            Err(fault) if fault.is_passing() => {
                tokio::time::sleep(AGAIN_AFTER).await;
                self.send(Method::GET, path, None).await?
            }
            other => other?,
        };
        let is_next = |header: &str| answer.headers.get(header).and_then(|value| value.to_str().ok());
        let more = is_next("link").is_some_and(|links| links.contains("rel=\"next\""))
            || is_next("x-next-page").is_some_and(|page| !page.trim().is_empty());
        Ok((json(&answer)?, more))
    }

    /// Sends JSON, and gets JSON.
    pub(super) async fn put(&self, method: Method, path: &str, body: &Value) -> Result<Value, ApiFault> {
        json(&self.send(method, path, Some(body)).await?)
    }

    /// Waits for an API that is busy, but not for long.
    async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<PlainAnswer, ApiFault> {
        let (url, mut waited) = (format!("{}{path}", self.base), Duration::ZERO);
        loop {
            let sent =
                self.client.send_within(method.clone(), &url, self.headers.clone(), body, ANSWER_BYTES_MAX);
            let answer = sent.await.map_err(|error| ApiFault {
                status: None,
                is_by_rate: false,
                what: error.to_string(),
            })?;
            if (200..300).contains(&answer.status) {
                return Ok(answer);
            }
            let wait = busy_for(&answer);
            match wait {
                Some(wait) if waited + wait <= WAIT_MAX => {
                    tokio::time::sleep(wait).await;
                    // A wait of no length must not go on for ever.
                    waited += wait.max(AGAIN_AFTER);
                }
                _ => return Err(fault(&method, &url, &answer, wait)),
            }
        }
    }
}

fn json(answer: &PlainAnswer) -> Result<Value, ApiFault> {
    serde_json::from_slice(&answer.body).map_err(|error| ApiFault::strange(&format!("no JSON: {error}")))
}

/// How long the API asks to wait, if there were too many requests.
fn busy_for(answer: &PlainAnswer) -> Option<Duration> {
    let number = |name: &str| answer.headers.get(name)?.to_str().ok()?.trim().parse::<u64>().ok();
    let asked = number(RETRY_AFTER.as_str()).map(Duration::from_secs);
    let is_used_up = number("x-ratelimit-remaining") == Some(0);
    if answer.status != 429 && !(answer.status == 403 && (asked.is_some() || is_used_up)) {
        return None;
    }
    let reset = number("x-ratelimit-reset").filter(|_| is_used_up).map(|at| {
        let now = Duration::from_nanos(RunClock::start().wall_anchor_unix_ns());
        Duration::from_secs(at).saturating_sub(now)
    });
    Some(asked.or(reset).unwrap_or(BUSY_WAIT))
}

/// What the API said to a request that it refused.
fn fault(method: &Method, url: &str, answer: &PlainAnswer, wait: Option<Duration>) -> ApiFault {
    let said: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let said = [&said["message"], &said["error"], &said["error_description"]];
    let said = said.into_iter().find_map(|text| match text {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        // GitLab names fields with their faults.
        other => Some(other.to_string()),
    });
    let said: String = on_one_line(&said.unwrap_or_default()).chars().take(MESSAGE_CHARS_MAX).collect();
    let mut what = format!("{method} {url} answered {}", answer.status);
    if !said.is_empty() {
        what = format!("{what}: {said}");
    }
    if let Some(wait) = wait {
        what = format!("{what} (too many requests; it asks to wait {} s)", wait.as_secs());
    }
    ApiFault { status: Some(answer.status), is_by_rate: wait.is_some(), what }
}

/// The proxies that the environment names, as for other programs of a CI job.
fn proxies(environment: &Environment) -> Result<Proxies, HarnessError> {
    let first = |names: &[&'static str]| {
        names.iter().find_map(|name| Some((*name, environment.get(name).filter(|value| !value.is_empty())?)))
    };
    let parsed = |named: Option<(&str, String)>| {
        let proxy = named.map(|(name, value)| {
            Proxy::parse(&value).map_err(|complaint| {
                HarnessError::usage(format!("the environment variable {name}: {}", complaint.what))
                    .remedy(format!("{}, or unset it", complaint.remedy))
            })
        });
        proxy.transpose()
    };
    let except = first(&["no_proxy", "NO_PROXY"]).map(|(_, value)| value).unwrap_or_default();
    let except = except.split([',', ' ']).filter(|text| !text.trim().is_empty());
    Ok(Proxies {
        http: parsed(first(&["http_proxy", "all_proxy", "ALL_PROXY"]))?,
        https: parsed(first(&["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]))?,
        except: except.filter_map(|text| Exception::parse(text).ok()).collect(),
        ..Proxies::default()
    })
}
