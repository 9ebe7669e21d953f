//! A cloud of `clouds.yaml`, as OpenStack's own clients read it (openstacksdk, "Configuring OpenStack SDK
//! Applications"), with the secrets of `secure.yaml`.
//!
//! The files are looked for where those clients do. Keys that do not matter to a load are ignored, as they do. A fault in
//! such a file is reported where the deployment names the cloud, with the file and the line.

use std::io::Read as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::catalog::Interface;
use crate::service_types;
use base::masking;
use base::secret::Secret;
use client::tls::TlsOptions;
use client::url::BaseUrl;
use config::reference::Reference;
use text::diagnostics::{Fault, SourceText};
use text::similar::did_you_mean;
use text::yaml::{self, YamlNode, YamlValue};
use text::yaml_place::{at, first_key, key_span};

use super::keystone::{self, Login};
use super::network;
use super::openrc;
use super::targets::{Lookup, ServiceTypeOverride};
use super::{Auth, CloudParts, ReferenceReader, ResolvedDeployment};

/// Keys of `auth` that are secrets.
const SECRETS: [&str; 3] = ["password", "token", "application_credential_secret"];
/// Keys of `auth` that are not.
const WORDS: [&str; 14] = [
    "auth_url",
    "username",
    "user_id",
    "user_domain_name",
    "user_domain_id",
    "application_credential_id",
    "application_credential_name",
    "project_name",
    "project_id",
    "project_domain_name",
    "project_domain_id",
    "domain_name",
    "domain_id",
    "system_scope",
];
/// Other names of keys of `auth`.
const OLD_NAMES: [(&str, &str); 4] = [
    ("tenant_name", "project_name"),
    ("tenant_id", "project_id"),
    ("user_name", "username"),
    ("url", "auth_url"),
];
/// Ways to log in that bench knows, without `v3` in front.
const AUTH_TYPES: [&str; 3] = ["password", "token", "applicationcredential"];

/// What a cloud gives a deployment.
pub(super) struct Cloud {
    pub(super) auth: Auth,
    pub(super) lookup: Lookup,
    pub(super) tls: TlsOptions,
}

/// A file of clouds.
struct CloudsFile {
    path: PathBuf,
    source: SourceText,
    root: YamlNode,
}

/// A cloud's own settings, and the settings of the file of secrets, which replace them.
struct CloudSettings<'n> {
    source: &'n SourceText,
    cloud: &'n YamlNode,
    secure: Option<(&'n SourceText, &'n YamlNode)>,
}

impl CloudSettings<'_> {
    /// A text, number or switch, as it is written, and its place in the file of clouds.
    fn get(&self, path: &[&str]) -> Option<(String, Range<usize>)> {
        let place = at(self.cloud, path).span.clone();
        if let Some((source, secure)) = self.secure
            && let Some(text) = scalar(source, secure, path)
        {
            return Some((text, place));
        }
        scalar(self.source, self.cloud, path).map(|text| (text, place))
    }

    fn is(&self, key: &str) -> Option<bool> {
        match self.get(&[key])?.0.to_ascii_lowercase().as_str() {
            "true" | "yes" | "1" | "on" => Some(true),
            "false" | "no" | "0" | "off" => Some(false),
            _ => None,
        }
    }
}

fn scalar(source: &SourceText, root: &YamlNode, path: &[&str]) -> Option<String> {
    let mut node = root;
    for key in path {
        node = node.get(key)?;
    }
    match &node.kind {
        YamlValue::Text { text, .. } => Some(text.clone()),
        // A project's id may look like a number.
        YamlValue::Int(_) | YamlValue::Float(_) | YamlValue::Bool(_) => {
            source.text.get(node.span.clone()).map(str::to_owned)
        }
        YamlValue::Null | YamlValue::List(_) | YamlValue::Map(_) => None,
    }
    .filter(|text| !text.is_empty())
}

/// The cloud that a deployment names.
pub(super) fn cloud(reader: &mut ReferenceReader<'_>, written: &Reference, node: &YamlNode) -> Option<Cloud> {
    let name = reader.known_text(written, node)?;
    if reader.env.is_offline() {
        return None;
    }
    let span = node.span.clone();
    let (file, is_openrc) = match name.as_str() {
        openrc::NAME => (openrc_file(reader, &span)?, true),
        _ => (clouds_file(reader, &name, &span)?, false),
    };
    let before = reader.faults.len();
    let folder = file.path.parent().unwrap_or(Path::new("")).to_path_buf();
    let folder = std::mem::replace(&mut reader.folder, folder);
    // The warning about secrets in the deployment's file is not about secrets in another file.
    let inline_secret = reader.inline_secret;
    let cloud = cloud_of(reader, &file.source, &file.root, &name);
    reader.inline_secret = inline_secret;
    reader.folder = folder;
    for fault in reader.faults.drain(before..).collect::<Vec<_>>() {
        let fault = if is_openrc { Fault { span: None, ..fault } } else { fault };
        reader.faults.push(fault.named_at(&file.source, &span));
    }
    cloud
}

fn clouds_file(reader: &mut ReferenceReader<'_>, name: &str, span: &Range<usize>) -> Option<CloudsFile> {
    let before = reader.faults.len();
    let file = found(reader, "clouds.yaml", "OS_CLIENT_CONFIG_FILE", span);
    if file.is_none() && reader.faults.len() == before {
        let fault = Fault::error(span.clone(), format!("there is no clouds.yaml with the cloud `{name}`"));
        reader.faults.push(fault.help(
            "write one here, in ~/.config/openstack or in /etc/openstack, or set OS_CLIENT_CONFIG_FILE",
        ));
    }
    file
}

/// The cloud of the variables that an `openrc` file sets.
fn openrc_file(reader: &mut ReferenceReader<'_>, span: &Range<usize>) -> Option<CloudsFile> {
    let keys = WORDS.into_iter().chain(SECRETS).chain(OLD_NAMES.map(|(old, _)| old));
    let source = openrc::clouds(|name| reader.env.variable(name), keys);
    let file = source.and_then(|source| {
        let root = yaml::parse_all(&source).0?;
        Some(CloudsFile { path: reader.folder.join("-"), source, root })
    });
    if file.is_none() {
        let fault = Fault::error(span.clone(), "neither OS_CLOUD nor OS_AUTH_URL says where the cloud is");
        reader.faults.push(
            fault.help(
                "set OS_CLOUD to a cloud of clouds.yaml, or read the cloud's openrc file into the shell",
            ),
        );
    }
    file
}

/// The deployment that a file of clouds is by itself: that of the cloud which `OS_CLOUD` names, or of its only one.
pub(super) fn clouds_document(
    reader: &mut ReferenceReader<'_>,
    source: &SourceText,
    root: &YamlNode,
) -> Option<ResolvedDeployment> {
    let clouds = at(root, &["clouds"]);
    let name = match (reader.env.variable("OS_CLOUD").filter(|name| !name.is_empty()), clouds.entries()) {
        (Some(name), _) => name,
        (None, [(only, _)]) => only.name.clone(),
        (None, several) => {
            let names: Vec<&str> = several.iter().map(|(key, _)| key.name.as_str()).take(50).collect();
            let fault = Fault::error(key_span(root, "clouds"), "nothing says which of these clouds is meant");
            reader.faults.push(fault.help(format!("set OS_CLOUD to one of: {}", names.join(", "))));
            return None;
        }
    };
    let Cloud { auth, lookup, tls } = cloud_of(reader, source, root, &name)?;
    let Auth::Keystone(credentials) = auth else { return None };
    let from_env = |name: &str| reader.env.variable(name).filter(|value| !value.is_empty());
    let (key, connection) = (from_env("OSPROFILER_HMAC_KEY"), from_env("OSPROFILER_CONNECTION_STRING"));
    let keys: Vec<Secret> = key.map(Secret::new).into_iter().collect();
    keys.iter().for_each(|key| masking::hide(key.expose()));
    let connection_string = connection.map(|connection| super::readable(reader, connection));
    let cloud = CloudParts { name, credentials, lookup, tls, keys, connection_string };
    Some(super::only_cloud(reader, cloud, source))
}

/// A file that is looked for where OpenStack's clients do: the first one found.
fn found(
    reader: &mut ReferenceReader<'_>,
    name: &str,
    variable: &str,
    span: &Range<usize>,
) -> Option<CloudsFile> {
    let home = reader.env.variable("HOME").filter(|home| !home.is_empty());
    let configured = reader.env.variable("XDG_CONFIG_HOME").filter(|folder| !folder.is_empty());
    let configured = configured.or_else(|| home.map(|home| format!("{home}/.config")));
    let folders = [Some(reader.folder.clone()), Some(PathBuf::new())]
        .into_iter()
        .chain([configured.map(|folder| Path::new(&folder).join("openstack")), Some("/etc/openstack".into())])
        .flatten();
    let named = reader.env.variable(variable).filter(|path| !path.is_empty()).map(PathBuf::from);
    let is_named = named.is_some();
    let mut places = named.into_iter().chain(folders.map(|folder| folder.join(name)));
    let path = places.find(|path| path.is_file() || is_named)?;
    let problem = match read(&path) {
        Ok(file) => return Some(file),
        Err(problem) => problem,
    };
    let fault = Fault::error(span.clone(), format!("cannot read {}: {problem}", path.display()));
    reader.faults.push(fault.help("mend the file, or name another with OS_CLIENT_CONFIG_FILE"));
    None
}

/// A cloud of a file. Places are those in this file.
fn cloud_of(
    reader: &mut ReferenceReader<'_>,
    source: &SourceText,
    root: &YamlNode,
    name: &str,
) -> Option<Cloud> {
    let clouds = at(root, &["clouds"]);
    let Some(cloud) = clouds.get(name) else {
        let known = || clouds.entries().iter().map(|(key, _)| key.name.as_str());
        let fault = Fault::error(first_key(root), format!("there is no cloud `{name}`"));
        reader.faults.push(fault.help(match did_you_mean(name, known()) {
            Some(similar) => format!("did you mean `{similar}`?"),
            None => format!("its clouds: {}", known().take(50).collect::<Vec<_>>().join(", ")),
        }));
        return None;
    };
    let place = key_span(clouds, name);
    let secure = found(reader, "secure.yaml", "OS_CLIENT_SECURE_FILE", &place);
    let secure = secure.as_ref().and_then(|file| Some((&file.source, at_cloud(&file.root, name)?)));
    let settings = CloudSettings { source, cloud, secure };
    let login = login(reader, &settings, place)?;
    let credentials = keystone::credentials(reader, &login)?;
    let lookup = lookup_of(reader, &settings)?;
    let text = |key: &str| settings.get(&[key]);
    let verify = settings.is("verify").unwrap_or(true) && !settings.is("insecure").unwrap_or(false);
    let own = |path: &Option<(String, Range<usize>)>, key: &str| {
        (path.as_ref().map(|(path, _)| expanded(reader, path)), at(cloud, &[key]))
    };
    let (ca, cert, key) = (text("cacert"), text("cert"), text("key"));
    let (ca, cert, key) = (own(&ca, "cacert"), own(&cert, "cert"), own(&key, "key"));
    let tls = network::tls(
        reader,
        verify,
        (ca.0.as_deref(), ca.1),
        (cert.0.as_deref(), cert.1),
        (key.0.as_deref(), key.1),
    );
    Some(Cloud { auth: Auth::Keystone(credentials), lookup, tls })
}

fn expanded(reader: &ReferenceReader<'_>, path: &str) -> String {
    match (path.strip_prefix("~/"), reader.env.variable("HOME")) {
        (Some(rest), Some(home)) => format!("{home}/{rest}"),
        _ => path.to_owned(),
    }
}

fn login(
    reader: &mut ReferenceReader<'_>,
    settings: &CloudSettings<'_>,
    place: Range<usize>,
) -> Option<Login> {
    let mut login = Login::new(place, false);
    let kind = settings.get(&["auth_type"]).map(|(kind, place)| (kind.to_ascii_lowercase(), place));
    let plain = kind.as_ref().map(|(kind, _)| kind.trim_start_matches("v3").replace(['_', '-'], ""));
    if let (Some((kind, place)), Some(plain)) = (&kind, &plain)
        && !AUTH_TYPES.contains(&plain.as_str())
    {
        let fault = Fault::error(place.clone(), format!("bench cannot log in with `auth_type: {kind}`"));
        reader.faults.push(fault.help("use password, token or v3applicationcredential"));
        return None;
    }
    let wanted = |key: &str| match plain.as_deref() {
        Some("password") => key != "token" && !key.starts_with("application_"),
        Some("token") => key != "password" && !key.starts_with("application_"),
        Some("applicationcredential") => key != "password" && key != "token",
        _ => true,
    };
    for key in WORDS.into_iter().filter(|key| wanted(key)) {
        let old = OLD_NAMES.iter().filter(|(_, new)| *new == key).map(|(old, _)| *old);
        let mut names = std::iter::once(key).chain(old);
        if let Some((text, place)) = names.find_map(|name| settings.get(&["auth", name])) {
            login.add(key, Some(Secret::new(text)), place);
        }
    }
    // One domain for both.
    for key in [["user_domain_id", "user_domain_name"], ["project_domain_id", "project_domain_name"]] {
        login.add_domain(key, true, settings.get(&["auth", "default_domain_id"]));
        login.add_domain(key, false, settings.get(&["auth", "default_domain_name"]));
    }
    for key in SECRETS.into_iter().filter(|key| wanted(key)) {
        if let Some((text, place)) = settings.get(&["auth", key]) {
            masking::hide(&text);
            reader.inline_secret |= scalar(settings.source, settings.cloud, &["auth", key]).is_some();
            login.add(key, Some(Secret::new(text)), place);
        }
    }
    Some(login)
}

fn lookup_of(reader: &mut ReferenceReader<'_>, settings: &CloudSettings<'_>) -> Option<Lookup> {
    let named = settings.get(&["interface"]).or_else(|| settings.get(&["endpoint_type"]));
    let interface = match named {
        None => Interface::default(),
        Some((text, place)) => match Interface::named(&text) {
            Some(interface) => interface,
            None => {
                let fault = Fault::error(place, format!("`{text}` is not an interface"));
                reader.faults.push(fault.help("write public, internal or admin"));
                return None;
            }
        },
    };
    let listed = at(settings.cloud, &["regions"]).items().first();
    let listed = listed.and_then(|region| {
        scalar(settings.source, region, &[]).or_else(|| scalar(settings.source, region, &["name"]))
    });
    let region = settings.get(&["region_name"]).map(|(region, _)| region).or(listed);
    let mut lookup = Lookup::open(interface, region);
    for known in &service_types::ALL {
        let own = |what: &str| {
            known.types().find_map(|name| settings.get(&[&format!("{}_{what}", name.replace('-', "_"))]))
        };
        let url = own("endpoint_override").and_then(|(url, place)| override_of(reader, &url, place));
        let microversion = own("default_microversion").map(|(text, _)| text);
        if url.is_some() || microversion.is_some() {
            lookup.add_type(ServiceTypeOverride { official: known.name, url, microversion });
        }
    }
    Some(lookup)
}

fn override_of(reader: &mut ReferenceReader<'_>, url: &str, place: Range<usize>) -> Option<BaseUrl> {
    let read = BaseUrl::parse(url);
    read.map_err(|complaint| reader.faults.push(Fault::of(place, complaint))).ok()
}

fn at_cloud<'n>(root: &'n YamlNode, name: &str) -> Option<&'n YamlNode> {
    root.get("clouds")?.get(name)
}

fn read(path: &Path) -> Result<CloudsFile, String> {
    let mut bytes = Vec::new();
    let limit = yaml::BYTES_MAX as u64 + 1;
    let file = text::files::open_named(path).and_then(|file| file.take(limit).read_to_end(&mut bytes));
    file.map_err(|error| error.to_string())?;
    let name = path.display().to_string();
    let source = yaml::source(&name, &bytes).map_err(|faulty| faulty.1.message)?;
    let (root, faults) = yaml::parse_all(&source);
    match (root, faults.into_iter().next()) {
        (Some(root), None) => Ok(CloudsFile { path: path.to_path_buf(), source, root }),
        (_, Some(fault)) => {
            let place = fault.span.map_or(0, |span| span.start);
            let line = 1 + source.text.get(..place).unwrap_or_default().matches('\n').count();
            Err(format!("line {line}: {}", fault.message))
        }
        (None, None) => Err("it is empty".to_owned()),
    }
}
