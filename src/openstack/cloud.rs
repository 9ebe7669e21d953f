//! Requests to a cloud's services, as the administrator or as a user: outside the load, with the service's own words when
//! it refuses.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::Value;

use client::plain::{PlainAnswer, PlainClient, PlainError};
use client::tls;
use client::url::BaseUrl;
use config::RejectedFile;
use iteration::credentials::CurrentCredentials;
use iteration::refusal;
use plan::deployment::{Auth, Lookup, ResolvedDeployment};
use plan::keystone;
use plan::service_types::microversion_headers;

use super::keystone::{KeystoneIssuer, issue_token};

/// The version that lets an administrator see the key pairs of other users.
const KEY_PAIRS_VERSION: &str = "2.10";

/// Names of the role that lets users work in a project, the usual one first.
const ROLES: [&str; 3] = ["member", "Member", "_member_"];

/// A service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CloudService {
    Keystone,
    Nova,
    Neutron,
    Glance,
    Cinder,
    Mistral,
}

impl CloudService {
    /// Its official type.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Keystone => "identity",
            Self::Nova => "compute",
            Self::Neutron => "network",
            Self::Glance => "image",
            Self::Cinder => "block-storage",
            Self::Mistral => "workflow",
        }
    }
}

/// Why a request brought nothing.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    /// The status, if there was an answer.
    pub(super) status: Option<u16>,
    /// What happened, with the service's own words.
    pub(super) text: String,
}

impl Problem {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self { status: None, text: text.into() }
    }

    /// True if the thing is not there (any more), or the service does not know such things.
    pub(super) fn is_absence(&self) -> bool {
        self.status == Some(404)
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.text)
    }
}

/// Why bench cannot log in to a cloud.
pub enum ConnectError {
    /// The deployment cannot be used.
    Input(String),
    /// The cloud does not answer, or refuses.
    Unreachable(String),
    /// What the deployment wants and the catalog does not have.
    Faults(RejectedFile),
}

fn unreachable(error: PlainError) -> ConnectError {
    ConnectError::Unreachable(error.to_string())
}

/// Who asks.
#[derive(Clone)]
pub(super) struct Caller {
    pub(super) credentials: Arc<CurrentCredentials>,
    /// The project of its token.
    pub(super) project_id: Option<String>,
}

/// A cloud.
#[derive(Clone)]
pub struct Cloud {
    client: PlainClient,
    login: keystone::Credentials,
    lookup: Lookup,
    headers: HeaderMap,
    /// The deployment's own credentials.
    pub(super) admin: Caller,
    /// The id of their user.
    pub(super) user_id: Option<String>,
}

impl Cloud {
    /// The cloud of a run that has logged in. `None` if the deployment is none.
    pub fn of(
        (deployment, headers): (&ResolvedDeployment, HeaderMap),
        client: PlainClient,
        credentials: Arc<CurrentCredentials>,
        (project_id, user_id): (Option<String>, Option<String>),
    ) -> Option<Self> {
        let Auth::Keystone(login) = &deployment.auth else { return None };
        Some(Self {
            client,
            login: login.clone(),
            lookup: deployment.lookup.clone(),
            headers,
            admin: Caller { credentials, project_id },
            user_id,
        })
    }

    /// Logs in to the cloud of a deployment. `headers`: of every request.
    ///
    /// # Errors
    /// A deployment that is no cloud, a cloud that does not answer, and what the catalog lacks.
    pub async fn connect(
        mut deployment: ResolvedDeployment,
        headers: HeaderMap,
    ) -> Result<Self, ConnectError> {
        let Auth::Keystone(login) = &deployment.auth else {
            let text = format!("{} is no cloud: it has no Keystone", deployment.file.display());
            return Err(ConnectError::Input(text));
        };
        // The catalog may lead to services with TLS even if Keystone is without.
        let tls =
            tls::config(&deployment.tls, true).map_err(|error| ConnectError::Input(error.to_string()))?;
        let client = PlainClient::through(&tls, &deployment.dns, &deployment.proxies)
            .map_err(|error| ConnectError::Unreachable(error.to_string()))?;
        let token = issue_token(&client, login).await.map_err(unreachable)?;
        let ids = (token.project_id.clone(), token.user_id.clone());
        deployment.look_up(Arc::clone(&token.catalog)).map_err(ConnectError::Faults)?;
        let (credentials, _) =
            CurrentCredentials::establish(&deployment.auth, &client, &KeystoneIssuer, Some(token))
                .await
                .map_err(unreachable)?;
        let none = || ConnectError::Input("only Keystone has a catalog of services".to_owned());
        Self::of((&deployment, headers), client, Arc::new(credentials), ids).ok_or_else(none)
    }

    /// The id of the role that lets users work in a project.
    pub(super) async fn member_role(&self) -> Result<String, Problem> {
        let answer = self.call(&self.admin, Method::GET, (CloudService::Keystone, "/roles"), None).await?;
        let roles = answer["roles"].as_array().cloned().unwrap_or_default();
        let named = |name: &&str| roles.iter().find(|role| role["name"] == **name).cloned();
        let role = ROLES.iter().find_map(named);
        let none = || Problem::new(format!("the cloud has no role {}", ROLES.join(" or ")));
        text(&role.ok_or_else(none)?, "/id")
    }

    /// The administrator as a member of a project that bench has made: some services let only members see and delete what
    /// is in it.
    pub(super) async fn inside(&self, project: &str, role: &str) -> Result<Caller, Problem> {
        let none = || Problem::new("the token of the deployment has no user");
        let user = self.user_id.as_ref().ok_or_else(none)?;
        let path = format!("/projects/{project}/users/{user}/roles/{role}");
        self.call(&self.admin, Method::PUT, (CloudService::Keystone, &path), None).await?;
        let scope = keystone::Scope::Project(keystone::KeystoneReference::Id(project.to_owned()));
        let login = Auth::Keystone(keystone::Credentials { scope, ..self.login.clone() });
        let established = CurrentCredentials::establish(&login, &self.client, &KeystoneIssuer, None).await;
        let (credentials, _) = established.map_err(|error| Problem::new(error.to_string()))?;
        Ok(Caller { credentials: Arc::new(credentials), project_id: Some(project.to_owned()) })
    }

    /// For requests that need no token.
    pub(super) fn client(&self) -> &PlainClient {
        &self.client
    }

    /// Where users log in.
    pub(super) fn auth_url(&self) -> &BaseUrl {
        &self.login.auth_url
    }

    /// True if the cloud has the service.
    pub(super) fn has(&self, service: CloudService) -> bool {
        self.base(service).is_ok()
    }

    fn base(&self, service: CloudService) -> Result<BaseUrl, Problem> {
        match service {
            CloudService::Keystone => Ok(self.login.auth_url.clone()),
            other => {
                self.lookup.endpoint(other.kind()).map_err(|complaint| Problem::new(complaint.to_string()))
            }
        }
    }

    fn url(&self, caller: &Caller, service: CloudService, path: &str) -> Result<String, Problem> {
        let mut base = self.base(service)?;
        if let (Some(own), Some(theirs)) = (&self.admin.project_id, &caller.project_id) {
            base.prefix = base.prefix.replace(own.as_str(), theirs);
        }
        Ok(format!("{base}{path}"))
    }

    fn headers(&self, caller: &Caller, service: CloudService, path: &str) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers.extend(caller.credentials.header());
        if service == CloudService::Nova && path.starts_with("/os-keypairs") {
            for (name, value) in microversion_headers(service.kind(), KEY_PAIRS_VERSION) {
                let value = HeaderValue::from_str(&value);
                headers.extend(value.map(|value| (HeaderName::from_static(name), value)));
            }
        }
        headers
    }

    /// Why the deployment's user cannot log in, if that is so.
    pub(super) async fn refused_login(&self) -> Option<String> {
        let answered = issue_token(&self.client, &self.login).await;
        answered.err().map(|error| error.to_string())
    }

    /// Sends a request and gives the answer's JSON, or null if there is none.
    pub(super) async fn call(
        &self,
        caller: &Caller,
        method: Method,
        (service, path): (CloudService, &str),
        body: Option<&Value>,
    ) -> Result<Value, Problem> {
        let url = self.url(caller, service, path)?;
        let headers = self.headers(caller, service, path);
        let answer = self.client.send(method.clone(), &url, headers, body).await;
        let answer = answer.map_err(|error| Problem::new(error.to_string()))?;
        accepted(&method, &url, &answer)?;
        Ok(serde_json::from_slice(&answer.body).unwrap_or_default())
    }

    /// Sends the content of an image.
    pub(super) async fn upload(
        &self,
        caller: &Caller,
        path: &str,
        content: bytes::Bytes,
    ) -> Result<(), Problem> {
        let url = self.url(caller, CloudService::Glance, path)?;
        let mut headers = self.headers(caller, CloudService::Glance, path);
        headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        let answer = self.client.upload(&url, headers, content).await;
        let answer = answer.map_err(|error| Problem::new(error.to_string()))?;
        accepted(&Method::PUT, &url, &answer)
    }
}

fn accepted(method: &Method, url: &str, answer: &PlainAnswer) -> Result<(), Problem> {
    if (200..300).contains(&answer.status) {
        return Ok(());
    }
    let words = refusal::words(&answer.body).map_or_else(String::new, |words| format!(": {words}"));
    let quota = refusal::over_quota(answer.status, &answer.body).map_or("", |_| "quota exceeded: ");
    let text = format!("{quota}{method} {url} answered {}{words}", answer.status);
    Err(Problem { status: Some(answer.status), text })
}

/// The text at a place of an answer.
pub(super) fn text(answer: &Value, pointer: &str) -> Result<String, Problem> {
    let found = answer.pointer(pointer).and_then(Value::as_str);
    found.map(str::to_owned).ok_or_else(|| Problem::new(format!("an answer has nothing at {pointer}")))
}
