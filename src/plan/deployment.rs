//! The resolved deployment: targets, credentials and keys.

mod auth;
mod cloud;
mod keystone;
mod network;
mod openrc;
mod reader;
mod spans;
mod targets;

use std::path::{Path, PathBuf};
use std::time::Duration;

use ::config::body::Lines;
use ::config::reference::SecretReference;
use ::config::{Document, RejectedFile, deployment as config, rally, schema};
use base::masking;
use base::secret::{Secret, redacted_url};
use grpc::schema::ServiceSchema;
use osprofiler::driver::Collector;
use text::diagnostics::{Fault, SourceText};
use text::yaml::{self, YamlNode};
use text::yaml_place::{at, first_key, item, key_span};

use super::connection;
use super::headers::{holds_secret, request_header, request_header_line};
use super::references::Env;
use crate::keystone::Credentials;
use client::client_credentials::Grant;
use client::guard::HostPattern;
use client::options::{DnsOptions, Version};
use client::proxy::Proxies;
use client::tls::TlsOptions;
use client::url::{BaseUrl, Origin, endpoint_uses_tls};

use reader::{ReferenceReader, WELL_KNOWN_KEY, written};

pub use auth::TokenCommand;
pub use spans::Spans;
pub use targets::{Lookup, is_awaited};

/// The name of the target for actions that name none.
pub const DEFAULT_TARGET: &str = "default";

#[derive(Clone)]
pub struct ResolvedDeployment {
    /// The deployment's name.
    pub name: String,
    /// The path of its file, as given.
    pub file: PathBuf,
    /// Base URLs by name.
    pub targets: Vec<(String, BaseUrl)>,
    /// How services are looked up in the cloud's catalog.
    pub lookup: Lookup,
    /// The types of the messages of gRPC services, as far as they were asked for them.
    pub schemas: Vec<(Origin, ServiceSchema)>,
    /// Other hosts that templates, responses and redirects may name.
    pub targets_allowed: Vec<HostPattern>,
    pub tls: TlsOptions,
    pub http_version: Version,
    /// How the targets' host names are resolved.
    pub dns: DnsOptions,
    /// The names of targets in TLS that are not their hosts' names.
    pub server_names: Vec<(Origin, String)>,
    pub proxies: Proxies,
    /// Headers for every request.
    pub headers: Vec<(http::HeaderName, http::HeaderValue)>,
    /// How requests authenticate.
    pub auth: Auth,
    /// False if the deployment turns profiling off.
    pub profiler_enabled: bool,
    /// The keys that the deployment's services accept. The first one signs trace headers, see [`Self::hmac_key`].
    pub hmac_keys: Vec<Secret>,
    /// Trace headers, and where spans are received.
    pub spans: Spans,
    /// OSProfiler's connection string for the collector.
    pub connection_string: Option<Secret>,
    /// The embedded demo's options, if the deployment is the demo.
    pub demo: Option<EmbeddedDemoOptions>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

impl ResolvedDeployment {
    /// The types of the messages of a service, if it was asked for them.
    pub(super) fn schema_of(&self, origin: &Origin) -> Option<&ServiceSchema> {
        self.schemas.iter().find(|(of, _)| of == origin).map(|(_, schema)| schema)
    }
}

/// How requests authenticate.
#[derive(Clone)]
pub enum Auth {
    /// No authentication.
    None,
    /// HTTP basic authentication.
    Basic {
        /// The user.
        username: String,
        password: Secret,
    },
    /// A bearer token.
    Bearer { token: Secret },
    /// Keystone v3 with a password.
    Keystone(Credentials),
    /// A bearer token by OAuth 2.0's client credentials.
    OAuth2(Box<Grant>),
    /// A token that a program prints.
    Command(Box<TokenCommand>),
}

impl Auth {
    /// True if logging in needs TLS.
    #[must_use]
    pub fn wants_tls(&self) -> bool {
        match self {
            Self::Keystone(login) => login.auth_url.origin.tls,
            Self::OAuth2(grant) => endpoint_uses_tls(&grant.token_url).unwrap_or(false),
            Self::None | Self::Basic { .. } | Self::Bearer { .. } | Self::Command(_) => false,
        }
    }

    /// The method's name in results.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Basic { .. } => "basic",
            Self::Bearer { .. } => "bearer",
            Self::Keystone(_) => "keystone",
            Self::OAuth2(_) => "oauth2",
            Self::Command(_) => "command",
        }
    }
}

/// Options of the embedded demo.
#[derive(Clone, Copy, Debug)]
pub struct EmbeddedDemoOptions {
    /// The share of slow look-ups, from 0 to 1.
    pub slow_share: f64,
    /// How long the database query of a slow look-up takes.
    pub slow_query: Duration,
    /// How much longer all of the demo's work takes: 0.25 means 25 %.
    pub slowdown: f64,
    /// How many queries run at once; `None` for any number.
    pub pool: Option<u32>,
}

impl std::fmt::Display for EmbeddedDemoOptions {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (slow, slower) = (self.slow_share * 100.0, self.slowdown * 100.0);
        write!(formatter, "slow_percent {slow}, slow_query {:?}, slowdown {slower}%", self.slow_query)?;
        self.pool.map_or(Ok(()), |pool| write!(formatter, ", pool {pool}"))
    }
}

impl Default for EmbeddedDemoOptions {
    fn default() -> Self {
        Self { slow_share: 0.02, slow_query: Duration::from_millis(80), slowdown: 0.0, pool: None }
    }
}

/// Reads and resolves a deployment file, either bench's or Rally's.
///
/// # Errors
/// Every fault found.
pub fn load(path: &Path, source: SourceText, env: Env<'_>) -> Result<ResolvedDeployment, RejectedFile> {
    let (root, faults) = yaml::parse_all(&source);
    let Some(root) = root else { return Err(RejectedFile { source, faults }) };
    let mut reader = ReferenceReader::new(path, env);
    if root.get("clouds").is_some_and(|clouds| !clouds.entries().is_empty()) {
        let deployment =
            if faults.is_empty() { cloud::clouds_document(&mut reader, &source, &root) } else { None };
        reader.faults.splice(..0, faults);
        match deployment {
            Some(deployment) if reader.faults.is_empty() => Ok(deployment),
            _ => Err(RejectedFile { source, faults: reader.faults }),
        }
    } else if rally_cloud(&root).is_some() {
        let root = without_nulls(root);
        let document = ::config::from_node::<rally::RallyDocument>(source, root, faults, &schema::RALLY);
        resolve(document, &schema::RALLY, &mut reader, rally)
    } else {
        let document = ::config::from_node::<config::Deployment>(source, root, faults, &schema::DEPLOYMENT);
        resolve(document, &schema::DEPLOYMENT, &mut reader, ours)
    }
}

/// Resolves a document, or finds further faults in a rejected one.
fn resolve<'a, T: serde::de::DeserializeOwned>(
    document: Result<Document<T>, RejectedFile>,
    schema: &serde_json::Value,
    reader: &mut ReferenceReader<'a>,
    read: fn(&mut ReferenceReader<'_>, &Document<T>) -> Option<ResolvedDeployment>,
) -> Result<ResolvedDeployment, RejectedFile> {
    match document {
        Ok(document) => match read(reader, &document) {
            Some(deployment) if reader.faults.is_empty() => Ok(deployment),
            _ => Err(RejectedFile { source: document.source, faults: std::mem::take(&mut reader.faults) }),
        },
        Err(mut rejected) => {
            if let Some(rest) = ::config::salvage(&rejected, schema) {
                reader.partial = true;
                read(reader, &rest);
                let further = std::mem::take(&mut reader.faults);
                ::config::add_independent(&mut rejected.faults, further);
            }
            Err(rejected)
        }
    }
}

/// The cloud of a Rally document: of a deployment (`openstack`), or of an environment's spec, whose key also names the
/// platform plugin (`existing@openstack`).
fn rally_cloud(root: &YamlNode) -> Option<&YamlNode> {
    rally::KEYS.iter().find_map(|key| root.get(key))
}

/// Removes null values: Rally writes `null` for unset keys.
fn without_nulls(mut node: YamlNode) -> YamlNode {
    if let yaml::YamlValue::Map(entries) = &mut node.kind {
        entries.retain(|(_, value)| !matches!(value.kind, yaml::YamlValue::Null));
        for (_, value) in entries.iter_mut() {
            let nothing = YamlNode { kind: yaml::YamlValue::Null, span: value.span.clone() };
            *value = without_nulls(std::mem::replace(value, nothing));
        }
    }
    node
}

/// What the files of a deployment that is a cloud and nothing else say.
struct CloudParts {
    name: String,
    credentials: Credentials,
    lookup: Lookup,
    tls: TlsOptions,
    /// The HMAC keys.
    keys: Vec<Secret>,
    connection_string: Option<Secret>,
}

fn ours(
    reader: &mut ReferenceReader<'_>,
    document: &Document<config::Deployment>,
) -> Option<ResolvedDeployment> {
    let (value, root) = (&document.value, &document.root);
    let mut lookup = targets::lookup(reader, value.catalog.as_ref(), root);
    let (auth, cloud_tls) = auth::auth_or_cloud(reader, value, root, &mut lookup);
    let headers = headers(reader, value, root);
    let tls = value.tls.as_ref();
    let profiler = value.profiler.as_ref();
    let node = at(root, &["profiler"]);
    let mut keys = Vec::new();
    if let Some(key) = profiler.and_then(|profiler| profiler.hmac_key.as_ref()) {
        keys.extend(reader.optional_secret(key, at(node, &["hmac_key"])));
    }
    for (index, key) in profiler.and_then(|p| p.hmac_keys.as_ref()).into_iter().flatten().enumerate() {
        keys.extend(reader.optional_secret(key, item(at(node, &["hmac_keys"]), index)));
    }
    let connection = profiler.and_then(|profiler| profiler.connection_string.as_ref());
    let connection_string =
        connection.and_then(|c| collector_url(reader, c, at(node, &["connection_string"])));
    let spans = spans::spans(reader, profiler, node, !keys.is_empty() || value.demo.is_some());
    let demo = value.demo.as_ref().map(|demo| EmbeddedDemoOptions {
        slow_share: demo
            .slow_percent
            .map_or(EmbeddedDemoOptions::default().slow_share, |percent| percent / 100.0),
        slow_query: demo.slow_query.map_or(EmbeddedDemoOptions::default().slow_query, |query| query.0),
        slowdown: demo.slowdown.map_or(0.0, |slowdown| slowdown.0 / 100.0),
        pool: demo.pool,
    });
    let targets = targets::targets(reader, value, root, (auth.as_ref(), &mut lookup));
    targets::opened(&mut lookup, auth.as_ref(), &document.source);
    if value.cloud.is_some() {
        targets::opened_unseen(reader, &mut lookup);
    }
    let server_names = network::server_names(reader, tls.and_then(|tls| tls.sni.as_ref()), &targets, root);
    let (proxies, notes) = network::proxies(reader, value.proxy.as_ref(), &targets, root);
    Some(ResolvedDeployment {
        name: value.name.clone().unwrap_or_else(|| stem(reader)),
        file: reader.path.to_path_buf(),
        targets,
        lookup,
        schemas: Vec::new(),
        targets_allowed: targets_allowed(reader, value, root),
        tls: match cloud_tls.filter(|_| tls.is_none()) {
            Some(of_cloud) => of_cloud,
            None => network::tls(
                reader,
                tls.and_then(|tls| tls.verify).unwrap_or(true),
                (tls.and_then(|tls| tls.ca.as_deref()), at(root, &["tls", "ca"])),
                (tls.and_then(|tls| tls.cert.as_deref()), at(root, &["tls", "cert"])),
                (tls.and_then(|tls| tls.key.as_deref()), at(root, &["tls", "key"])),
            ),
        },
        http_version: super::http::version(value.http.as_ref().and_then(|http| http.version)),
        dns: network::dns(reader, value.dns.as_ref(), root),
        server_names,
        proxies,
        headers,
        auth: auth?,
        profiler_enabled: profiler.and_then(|profiler| profiler.enabled).unwrap_or(true),
        warnings: [warnings(reader, &keys), notes].concat(),
        hmac_keys: keys,
        spans,
        connection_string,
        demo,
    })
}

/// The deployment of a file that describes a cloud and nothing else. Its only target is Keystone; services are looked
/// up in the catalog.
fn only_cloud(
    reader: &mut ReferenceReader<'_>,
    cloud: CloudParts,
    source: &SourceText,
) -> ResolvedDeployment {
    let CloudParts { name, credentials, mut lookup, tls, keys, connection_string } = cloud;
    let targets = vec![(DEFAULT_TARGET.to_owned(), credentials.auth_url.root())];
    let auth = Auth::Keystone(credentials);
    targets::opened(&mut lookup, Some(&auth), source);
    let (proxies, notes) = network::proxies_of_environment(reader, &targets);
    ResolvedDeployment {
        name,
        file: reader.path.to_path_buf(),
        targets,
        lookup,
        schemas: Vec::new(),
        targets_allowed: Vec::new(),
        tls,
        http_version: Version::default(),
        dns: DnsOptions::default(),
        server_names: Vec::new(),
        proxies,
        headers: Vec::new(),
        auth,
        profiler_enabled: true,
        connection_string,
        warnings: [warnings(reader, &keys), notes].concat(),
        hmac_keys: keys,
        spans: Spans::default(),
        demo: None,
    }
}

fn rally_tls(reader: &mut ReferenceReader<'_>, cloud: &rally::OpenStack, node: &YamlNode) -> TlsOptions {
    let given = |path: &'_ Option<String>| path.clone().filter(|path| !path.is_empty());
    let (ca, cert, key) = (given(&cloud.https_cacert), given(&cloud.https_cert), given(&cloud.https_key));
    network::tls(
        reader,
        !cloud.https_insecure.unwrap_or(false),
        (ca.as_deref(), at(node, &["https_cacert"])),
        (cert.as_deref(), at(node, &["https_cert"])),
        (key.as_deref(), at(node, &["https_key"])),
    )
}

fn rally(
    reader: &mut ReferenceReader<'_>,
    document: &Document<rally::RallyDocument>,
) -> Option<ResolvedDeployment> {
    let (root, clouds) = (&document.root, [&document.value.openstack, &document.value.existing]);
    let cloud = clouds.into_iter().flatten().next()?;
    let node = rally_cloud(root).unwrap_or(root);
    let (user, user_node) = match (&cloud.admin, cloud.users.as_ref().and_then(|users| users.first())) {
        (Some(admin), _) => (admin, at(node, &["admin"])),
        (None, Some(user)) => (user, item(at(node, &["users"]), 0)),
        (None, None) if reader.partial => return None,
        (None, None) => {
            let fault = Fault::error(first_key(node), "neither `admin` nor `users` is present");
            reader.faults.push(fault.help("add `admin:` with username, password and project_name"));
            return None;
        }
    };
    let credentials = keystone::rally_user(reader, &cloud.auth_url, node, user, user_node);
    let key = cloud.profiler_hmac_key.as_ref();
    let keys: Vec<Secret> = key
        .and_then(|key| reader.optional_secret(key, at(node, &["profiler_hmac_key"])))
        .into_iter()
        .collect();
    let connection = cloud.profiler_conn_str.as_ref();
    let connection_string =
        connection.and_then(|c| collector_url(reader, c, at(node, &["profiler_conn_str"])));
    let tls = rally_tls(reader, cloud, node);
    let interface = cloud.endpoint_type.as_deref().filter(|name| !name.is_empty());
    let interface =
        interface.and_then(|name| targets::rally_interface(reader, name, at(node, &["endpoint_type"])));
    let region = cloud.region_name.as_ref().and_then(|name| reader.text(name, at(node, &["region_name"])));
    let cloud = CloudParts {
        name: stem(reader),
        credentials: credentials?,
        lookup: Lookup::open(interface.unwrap_or_default(), region.filter(|name| !name.is_empty())),
        tls,
        keys,
        connection_string,
    };
    Some(only_cloud(reader, cloud, &document.source))
}

fn headers(
    reader: &mut ReferenceReader<'_>,
    value: &config::Deployment,
    root: &YamlNode,
) -> Vec<(http::HeaderName, http::HeaderValue)> {
    let mut headers = Vec::new();
    for (name, lines) in value.headers.iter().flatten() {
        for (index, reference) in lines.all().iter().enumerate() {
            let node = at(root, &["headers", name]);
            let node = if matches!(lines, Lines::Several(_)) { item(node, index) } else { node };
            let Some(text) = reader.text(&reference.0, node) else { continue };
            let inline = written(&reference.0).is_some();
            if !inline || holds_secret(name, &text) {
                reader.inline_secret |= inline;
                masking::header_secrets(&text).for_each(masking::hide);
            }
            match request_header_line(name, &text, lines.all().len()) {
                Ok(header) => headers.push(header),
                Err(complaint) => {
                    let span = key_span(at(root, &["headers"]), name);
                    reader.faults.push(Fault::of(span, complaint));
                }
            }
        }
    }
    headers
}

fn targets_allowed(
    reader: &mut ReferenceReader<'_>,
    value: &config::Deployment,
    root: &YamlNode,
) -> Vec<HostPattern> {
    let mut allowed = Vec::new();
    for (index, reference) in value.targets_allowed.iter().flatten().enumerate() {
        let node = item(at(root, &["targets_allowed"]), index);
        let Some(text) = reader.known_text(reference, node) else { continue };
        match HostPattern::parse(&text) {
            Ok(pattern) => allowed.push(pattern),
            Err(complaint) => reader.quoting_fault(reference, &text, node, complaint),
        }
    }
    allowed
}

/// A collector's URL, which is a secret only if it contains a password.
fn collector_url(
    reader: &mut ReferenceReader<'_>,
    SecretReference(reference): &SecretReference,
    node: &YamlNode,
) -> Option<Secret> {
    let connection = reader.known_word(reference, node)?;
    reader.inline_secret |=
        written(reference).is_some_and(|text| !text.is_empty() && text != redacted_url(text));
    if let Some(fault) = connection::fault(&connection, written(reference).is_some(), node) {
        masking::hide_url(&connection);
        reader.faults.push(fault);
        return None;
    }
    Some(readable(reader, connection))
}

/// A collector's URL, with a warning if bench cannot read from it.
fn readable(reader: &mut ReferenceReader<'_>, connection: String) -> Secret {
    masking::hide_url(&connection);
    if let Err(error) = Collector::reads(&connection) {
        reader.unread_collector =
            Some(format!("trace ids are recorded, but no traces are fetched: failed to {}", error.chain()));
    }
    Secret::new(connection)
}

fn stem(reader: &ReferenceReader<'_>) -> String {
    reader
        .path
        .file_stem()
        .map_or_else(|| "deployment".to_owned(), |stem| stem.to_string_lossy().into_owned())
}

fn warnings(reader: &ReferenceReader<'_>, keys: &[Secret]) -> Vec<String> {
    let mut warnings: Vec<String> = reader.unread_collector.iter().cloned().collect();
    if reader.inline_secret && readable_by_others(reader.path) {
        warnings.push(format!(
            "{} contains a secret and others can read it: run chmod 600 on it, or refer to the secret with {{env: NAME}} or {{file: PATH}}",
            reader.path.display()
        ));
    }
    if keys.iter().any(|key| key.expose() == WELL_KNOWN_KEY) {
        warnings.push(
            "the HMAC key is OSProfiler's well-known default SECRET_KEY: anyone can trace this deployment"
                .to_owned(),
        );
    }
    warnings
}

#[cfg(unix)]
fn readable_by_others(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o044 != 0)
}

#[cfg(not(unix))]
fn readable_by_others(_: &Path) -> bool {
    false
}
