//! The part of a deployment about logging in to Keystone. bench's deployments, Rally's and `clouds.yaml` have the same
//! keys, so all of them are read here.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::keystone::{Application, Credentials, Domain, Identity, KeystoneReference, Scope};
use base::complaint::Complaint;
use base::secret::Secret;
use client::url::BaseUrl;
use config::keystone::Keystone;
use config::rally;
use config::reference::{Reference, SecretReference};
use text::diagnostics::Fault;
use text::yaml::YamlNode;
use text::yaml_place::{at, first_key, key_span};

use super::{Auth, ReferenceReader};

/// The domain of users and projects for which none is given.
const DEFAULT_DOMAIN: &str = "Default";

/// What a document says about a login: texts by their keys, with their places.
pub(super) struct Login {
    values: BTreeMap<&'static str, (Secret, Range<usize>)>,
    /// Where something that is missing is reported.
    pub(super) place: Range<usize>,
    /// True if contradictions are faults. Other programs' documents may have more than is used.
    pub(super) strict: bool,
}

impl Login {
    pub(super) fn new(place: Range<usize>, strict: bool) -> Self {
        Self { values: BTreeMap::new(), place, strict }
    }

    /// Adds a text. An empty one counts as absent.
    pub(super) fn add(&mut self, key: &'static str, value: Option<Secret>, place: Range<usize>) {
        if let Some(value) = value.filter(|value| !value.expose().is_empty()) {
            self.values.insert(key, (value, place));
        }
    }

    /// Adds a domain for which the document says nothing else: `key` is `user_domain` or `project_domain`.
    pub(super) fn add_domain(
        &mut self,
        key: [&'static str; 2],
        id: bool,
        value: Option<(String, Range<usize>)>,
    ) {
        if let (false, Some((text, place))) = (key.iter().any(|key| self.has(key)), value) {
            self.add(key[usize::from(!id)], Some(Secret::new(text)), place);
        }
    }

    fn has(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    fn text(&self, key: &str) -> Option<String> {
        self.values.get(key).map(|(value, _)| value.expose().to_owned())
    }

    fn secret(&self, key: &str) -> Option<Secret> {
        self.values.get(key).map(|(value, _)| value.clone())
    }

    fn span(&self, key: &str) -> Range<usize> {
        self.values.get(key).map_or_else(|| self.place.clone(), |(_, place)| place.clone())
    }

    fn domain(&self, [id, name]: [&str; 2]) -> Domain {
        let id = self.text(id).map(Domain::Id);
        id.unwrap_or_else(|| Domain::Name(self.text(name).unwrap_or_else(|| DEFAULT_DOMAIN.to_owned())))
    }

    fn named(&self, [id, name]: [&str; 2], domain: [&str; 2]) -> Option<KeystoneReference> {
        let by_name =
            || Some(KeystoneReference::Name { name: self.text(name)?, domain: self.domain(domain) });
        self.text(id).map(KeystoneReference::Id).or_else(by_name)
    }

    fn user(&self) -> Option<KeystoneReference> {
        self.named(["user_id", "username"], ["user_domain_id", "user_domain_name"])
    }

    fn project(&self) -> Option<KeystoneReference> {
        self.named(["project_id", "project_name"], ["project_domain_id", "project_domain_name"])
    }

    fn has_application_credential(&self) -> bool {
        ["application_credential_id", "application_credential_name", "application_credential_secret"]
            .iter()
            .any(|key| self.has(key))
    }
}

pub(super) fn login_of(
    reader: &mut ReferenceReader<'_>,
    written: &Keystone,
    root: &YamlNode,
) -> Option<Auth> {
    let (node, before) = (at(root, &["auth", "keystone"]), reader.faults.len());
    let mut login = Login::new(key_span(at(root, &["auth"]), "keystone"), true);
    add(reader, &mut login, "auth_url", Some(&written.auth_url), node);
    for (key, reference) in [
        ("username", &written.username),
        ("user_id", &written.user_id),
        ("user_domain_name", &written.user_domain_name),
        ("user_domain_id", &written.user_domain_id),
        ("application_credential_id", &written.application_credential_id),
        ("application_credential_name", &written.application_credential_name),
        ("project_name", &written.project_name),
        ("project_id", &written.project_id),
        ("project_domain_name", &written.project_domain_name),
        ("project_domain_id", &written.project_domain_id),
        ("domain_name", &written.domain_name),
        ("domain_id", &written.domain_id),
        ("system_scope", &written.system_scope),
    ] {
        add(reader, &mut login, key, reference.as_ref(), node);
    }
    for (key, secret) in [
        ("password", &written.password),
        ("token", &written.token),
        ("application_credential_secret", &written.application_credential_secret),
    ] {
        add_secret(reader, &mut login, key, secret.as_ref(), node);
    }
    if reader.partial || reader.faults.len() > before {
        // What is missing may be in the part that could not be read.
        return only_url(reader, &login);
    }
    credentials(reader, &login).map(Auth::Keystone)
}

/// The user of a Rally document.
pub(super) fn rally_user(
    reader: &mut ReferenceReader<'_>,
    auth_url: &Reference,
    cloud: &YamlNode,
    user: &rally::User,
    node: &YamlNode,
) -> Option<Credentials> {
    let before = reader.faults.len();
    let mut login = Login::new(first_key(node), false);
    add(reader, &mut login, "auth_url", Some(auth_url), cloud);
    add(reader, &mut login, "username", Some(&user.username), node);
    add_secret(reader, &mut login, "password", Some(&user.password), node);
    match (&user.project_name, &user.tenant_name) {
        (None, Some(name)) => {
            let name = reader.text(name, at(node, &["tenant_name"])).map(Secret::new);
            login.add("project_name", name, at(node, &["tenant_name"]).span.clone());
        }
        (name, _) => add(reader, &mut login, "project_name", name.as_ref(), node),
    }
    add(reader, &mut login, "user_domain_name", user.user_domain_name.as_ref(), node);
    add(reader, &mut login, "project_domain_name", user.project_domain_name.as_ref(), node);
    if reader.partial {
        return only_url(reader, &login);
    }
    if !login.has("project_name") && reader.faults.len() == before {
        let fault = Fault::error(login.place.clone(), "the user lacks the key `project_name`");
        reader.faults.push(fault.help("add `project_name:`"));
    }
    if reader.faults.len() > before { only_url(reader, &login) } else { credentials(reader, &login) }
}

/// Finds the faults of the URL, if nothing can be made of the rest.
fn only_url<T>(reader: &mut ReferenceReader<'_>, login: &Login) -> Option<T> {
    if login.has("auth_url") {
        auth_url(reader, login);
    }
    None
}

fn add(
    reader: &mut ReferenceReader<'_>,
    login: &mut Login,
    key: &'static str,
    value: Option<&Reference>,
    node: &YamlNode,
) {
    let place = at(node, &[key]);
    let text = value.and_then(|value| reader.text(value, place)).map(Secret::new);
    login.add(key, text, place.span.clone());
}

fn add_secret(
    reader: &mut ReferenceReader<'_>,
    login: &mut Login,
    key: &'static str,
    value: Option<&SecretReference>,
    node: &YamlNode,
) {
    let place = at(node, &[key]);
    let secret = value.and_then(|value| reader.secret(value, place));
    login.add(key, secret, place.span.clone());
}

/// The credentials that a login describes.
pub(super) fn credentials(reader: &mut ReferenceReader<'_>, login: &Login) -> Option<Credentials> {
    let before = reader.faults.len();
    let auth_url = auth_url(reader, login);
    if login.strict {
        contradictions(reader, login);
    }
    let identity = identity(reader, login);
    let scope = scope(reader, login);
    let whole = (auth_url?, identity?, scope?);
    let (auth_url, identity, scope) = whole;
    (reader.faults.len() == before).then_some(Credentials { auth_url, identity, scope })
}

fn auth_url(reader: &mut ReferenceReader<'_>, login: &Login) -> Option<BaseUrl> {
    let Some(text) = login.text("auth_url") else {
        return missing(reader, login, "the URL of Keystone is missing", "add `auth_url:`");
    };
    let span = login.span("auth_url");
    base::masking::hide_url(&text);
    let read = BaseUrl::parse(&text);
    read.map(v3_url).map_err(|complaint| reader.faults.push(Fault::of(span, complaint))).ok()
}

fn identity(reader: &mut ReferenceReader<'_>, login: &Login) -> Option<Identity> {
    if let Some(token) = login.secret("token") {
        return Some(Identity::Token(token));
    }
    if login.has_application_credential() {
        return application_credential(reader, login);
    }
    let user = match login.user() {
        Some(user) => Some(user),
        None => missing(
            reader,
            login,
            "no user to log in as",
            "add `username:` with `password:`, a `token:`, or `application_credential_id:` with its secret",
        ),
    };
    let password = match login.secret("password") {
        Some(password) => Some(password),
        None if user.is_none() => None,
        None => missing(reader, login, "the user's password is missing", "add `password:`"),
    };
    Some(Identity::Password { user: user?, password: password? })
}

fn application_credential(reader: &mut ReferenceReader<'_>, login: &Login) -> Option<Identity> {
    let Some(secret) = login.secret("application_credential_secret") else {
        let help = "add `application_credential_secret:`";
        return missing(reader, login, "the secret of the application credential is missing", help);
    };
    let credential = match (
        login.text("application_credential_id"),
        login.text("application_credential_name"),
    ) {
        (Some(id), _) => Application::Id(id),
        (None, Some(name)) => match login.user() {
            Some(user) => Application::Name { name, user },
            None => {
                let help =
                    "add `username:` or `user_id:`, or name the credential by `application_credential_id`";
                return missing(reader, login, "the name of an application credential needs its user", help);
            }
        },
        (None, None) => {
            let help = "add `application_credential_id:`";
            return missing(reader, login, "the application credential is not named", help);
        }
    };
    Some(Identity::ApplicationCredential { credential, secret })
}

fn scope(reader: &mut ReferenceReader<'_>, login: &Login) -> Option<Scope> {
    if login.has_application_credential() && !login.has("token") {
        return Some(Scope::Own);
    }
    if let Some(project) = login.project() {
        return Some(Scope::Project(project));
    }
    if login.has("domain_id") || login.has("domain_name") {
        return Some(Scope::Domain(login.domain(["domain_id", "domain_name"])));
    }
    match login.text("system_scope").as_deref() {
        Some("all") => Some(Scope::System),
        Some(_) if !reader.env.is_offline() => {
            let complaint = Complaint::new("`system_scope` can only be `all`", "write `system_scope: all`");
            reader.faults.push(Fault::of(login.span("system_scope"), complaint));
            None
        }
        Some(_) => Some(Scope::System),
        None if login.has("token") => Some(Scope::Own),
        None => missing(
            reader,
            login,
            "nothing says what the token is for",
            "add `project_name:` or `project_id:`, `domain_name:` for a domain, or `system_scope: all`",
        ),
    }
}

/// Keys that exclude each other.
fn contradictions(reader: &mut ReferenceReader<'_>, login: &Login) {
    let credential = ["application_credential_id", "application_credential_name"];
    let credential = credential.into_iter().find(|key| login.has(key));
    let project = ["project_id", "project_name"].into_iter().find(|key| login.has(key));
    let domain = ["domain_id", "domain_name"].into_iter().find(|key| login.has(key));
    let there = |key: &'static str| Some(key).filter(|key| login.has(key));
    let (token, password, system) = (there("token"), there("password"), there("system_scope"));
    for (first, second, help) in [
        (token, password, "keep one way to log in"),
        (token, credential, "keep one way to log in"),
        (credential, password, "keep one way to log in"),
        (credential, project, "remove it: an application credential has a project of its own"),
        (credential, domain, "remove it: an application credential has a project of its own"),
        (credential, system, "remove it: an application credential has a project of its own"),
        (project, domain, "keep what the token is for; a project's domain is `project_domain_name`"),
        (project, system, "keep what the token is for"),
        (domain, system, "keep what the token is for"),
        (there("user_id"), there("username"), "keep one of them"),
        (there("project_id"), there("project_name"), "keep one of them"),
        (there("domain_id"), there("domain_name"), "keep one of them"),
    ] {
        if let (Some(first), Some(second)) = (first, second) {
            let fault = Fault::error(login.span(second), format!("`{second}` together with `{first}`"));
            reader.faults.push(fault.help(help));
        }
    }
}

fn missing<T>(reader: &mut ReferenceReader<'_>, login: &Login, what: &str, help: &str) -> Option<T> {
    reader.faults.push(Fault::error(login.place.clone(), what).help(help));
    None
}

/// The URL with `/v3` at its end, even if the document leaves it out.
fn v3_url(mut url: BaseUrl) -> BaseUrl {
    if !url.prefix.ends_with("/v3") {
        let versionless = url.prefix.strip_suffix("/v2.0").unwrap_or(&url.prefix);
        url.prefix = format!("{versionless}/v3");
    }
    url
}
