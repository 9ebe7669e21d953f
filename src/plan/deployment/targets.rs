//! The targets of a deployment: base URLs, and services of the cloud's catalog.
//!
//! The catalog comes with the token, so it is not known while files are read. Until then, a service has a placeholder as
//! its URL; [`ResolvedDeployment::look_up`] replaces it.

use std::ops::Range;
use std::sync::Arc;

use ::config::RejectedFile;
use ::config::deployment as config;
use ::config::reference::Reference;
use ::config::target::{CatalogDefaults, Service, Target};
use base::complaint::Complaint;
use base::secret::Secret;
use client::url::{BaseUrl, Origin};
use text::diagnostics::{Fault, SourceText};
use text::similar::did_you_mean;
use text::yaml::YamlNode;
use text::yaml_place::{at, first_key};

use crate::catalog::{EndpointCatalog, EndpointQuery, Interface, is_version};
use crate::service_types::{self, ServiceType, microversion_headers};

use super::{Auth, DEFAULT_TARGET, ReferenceReader, ResolvedDeployment};

/// The domain of the placeholders; no name below it exists (RFC 6761).
const PLACEHOLDERS: &str = ".catalog.invalid";

/// How services are looked up in the cloud's catalog.
#[derive(Clone, Default)]
pub struct Lookup {
    /// Who endpoints are for, unless a target says otherwise.
    pub interface: Interface,
    /// The region, unless a target names one; `None` for the only one.
    pub region: Option<String>,
    /// The targets of the deployment that are services.
    services: Vec<ListedService>,
    /// Headers of every request to a target, by the target's name: a microversion's headers.
    headers: Vec<(String, Vec<(&'static str, String)>)>,
    /// What targets that are not listed have by the types of their services.
    of_types: Vec<ServiceTypeOverride>,
    /// True if a target that is not listed is a service of the catalog.
    is_open: bool,
    /// The deployment's file, to show what is wrong in it.
    source: Option<Arc<SourceText>>,
    /// The catalog, once bench has logged in.
    catalog: Option<Arc<dyn EndpointCatalog>>,
}

/// What a type of service has in place of the catalog's.
#[derive(Clone)]
pub(super) struct ServiceTypeOverride {
    /// Its official type.
    pub(super) official: &'static str,
    /// The endpoint.
    pub(super) url: Option<BaseUrl>,
    pub(super) microversion: Option<String>,
}

#[derive(Clone)]
struct ListedService {
    name: String,
    wanted: EndpointQuery,
    place: Range<usize>,
}

/// A target that is not listed: its URL, or why it has none.
pub(crate) type UnlistedTarget = Result<BaseUrl, Complaint>;

impl Lookup {
    /// The lookup of a document whose every service is a target.
    pub(super) fn open(interface: Interface, region: Option<String>) -> Self {
        Self { interface, region, is_open: true, ..Self::default() }
    }

    /// True if a listed target needs the catalog.
    #[must_use]
    pub fn is_needed(&self) -> bool {
        !self.services.is_empty()
    }

    /// Takes over what the deployment itself says about its cloud.
    pub(super) fn overridden_by(&mut self, own: Self, written: Option<&CatalogDefaults>) {
        if written.is_some_and(|written| written.interface.is_some()) {
            self.interface = own.interface;
        }
        self.region = own.region.or(self.region.take());
    }

    pub(super) fn add_type(&mut self, of_type: ServiceTypeOverride) {
        self.of_types.push(of_type);
    }

    fn of_type(&self, name: &str) -> Option<&ServiceTypeOverride> {
        let official = ServiceType::named(name)?.name;
        self.of_types.iter().find(|of_type| of_type.official == official)
    }

    /// Headers of every request to this target: its microversion's headers.
    #[must_use]
    pub fn headers(&self, target: &str) -> Vec<(&'static str, String)> {
        let listed = self.headers.iter().find(|(name, _)| name == target);
        let of_type = || {
            let of_type = self.of_type(target)?;
            Some(microversion_headers(of_type.official, of_type.microversion.as_ref()?))
        };
        listed.map(|(_, headers)| headers.clone()).or_else(of_type).unwrap_or_default()
    }

    /// True if the catalog names this origin.
    #[must_use]
    pub fn has_origin(&self, origin: &Origin) -> bool {
        self.catalog.as_ref().is_some_and(|catalog| catalog.has_origin(origin))
    }

    /// The origins that answers may lead to: those of the whole catalog.
    #[must_use]
    pub fn origins(&self) -> Vec<Origin> {
        let catalog = self.catalog.as_ref().filter(|_| self.is_open);
        catalog.map(|catalog| catalog.origins(self.interface, self.region.as_deref())).unwrap_or_default()
    }

    /// The base URL of a service, by type, alias or project, once the catalog is known.
    ///
    /// # Errors
    /// What the catalog lacks.
    pub fn endpoint(&self, service: &str) -> Result<BaseUrl, Complaint> {
        let unknown = || Complaint::new("the cloud's catalog is not known", "log in to Keystone");
        if self.catalog.is_none() {
            return Err(unknown());
        }
        self.unlisted(service).unwrap_or_else(|| Err(unknown()))
    }

    /// A target that is not listed; `None` if such targets are not looked up.
    pub(crate) fn unlisted(&self, name: &str) -> Option<UnlistedTarget> {
        if !self.is_open || name == DEFAULT_TARGET {
            return None;
        }
        if let Some(url) = self.of_type(name).and_then(|of_type| of_type.url.clone()) {
            return Some(Ok(url));
        }
        let wanted = EndpointQuery {
            service: name.to_owned(),
            interface: self.interface,
            region: self.region.clone(),
            version: None,
        };
        if let Some(catalog) = &self.catalog {
            return Some(catalog.find(&wanted));
        }
        let known = || service_types::names();
        match did_you_mean(name, known()) {
            Some(meant) if meant != name => {
                let help = format!("did you mean `{meant}`? bench looks it up in the cloud's catalog");
                Some(Err(Complaint::new(format!("no target and no service is named `{name}`"), help)))
            }
            _ => placeholder(name, None).map(Ok),
        }
    }
}

/// The URL that stands for a service until the catalog is known.
///
/// `number`: the number of a listed target, since names may differ by characters that no host's name has.
fn placeholder(target: &str, number: Option<usize>) -> Option<BaseUrl> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let label: String = target.chars().map(|c| if is_name(c) { c } else { '-' }).take(60).collect();
    let number = number.map(|number| format!(".{number}")).unwrap_or_default();
    BaseUrl::parse(&format!("http://{}{number}{PLACEHOLDERS}", label.to_ascii_lowercase())).ok()
}

/// True for a placeholder.
#[must_use]
pub fn is_awaited(origin: &Origin) -> bool {
    origin.host.ends_with(PLACEHOLDERS)
}

impl ResolvedDeployment {
    /// The key that signs trace headers.
    #[must_use]
    pub fn hmac_key(&self) -> Option<&Secret> {
        self.hmac_keys.first()
    }

    /// Replaces all placeholders, now that the catalog is known.
    ///
    /// # Errors
    /// What the deployment wants and the catalog does not have, at its places in the deployment.
    pub fn look_up(&mut self, catalog: Arc<dyn EndpointCatalog>) -> Result<(), RejectedFile> {
        let mut faults = Vec::new();
        for (number, service) in std::mem::take(&mut self.lookup.services).into_iter().enumerate() {
            let Some(stand_in) = placeholder(&service.name, Some(number)) else { continue };
            match catalog.find(&service.wanted) {
                Ok(url) => {
                    for (_, target) in self.targets.iter_mut().filter(|(_, target)| *target == stand_in) {
                        target.clone_from(&url);
                    }
                    let names = self.server_names.iter_mut().filter(|(origin, _)| *origin == stand_in.origin);
                    names.for_each(|(origin, _)| origin.clone_from(&url.origin));
                }
                Err(complaint) => faults.push(Fault::of(service.place, complaint)),
            }
        }
        self.lookup.catalog = Some(catalog);
        match &self.lookup.source {
            Some(source) if !faults.is_empty() => {
                Err(RejectedFile { source: SourceText::clone(source), faults })
            }
            _ => Ok(()),
        }
    }
}

/// Without `targets`, Keystone's own origin is the default target.
pub(super) fn targets(
    reader: &mut ReferenceReader<'_>,
    value: &config::Deployment,
    root: &YamlNode,
    (auth, lookup): (Option<&Auth>, &mut Lookup),
) -> Vec<(String, BaseUrl)> {
    let mut targets = Vec::new();
    for (name, target) in value.targets.iter().flatten() {
        let node = at(root, &["targets", name]);
        match target {
            Target::Url(reference) => {
                if let Some(url) = reader.text(reference, node).and_then(|text| reader.url(&text, node)) {
                    targets.push((name.clone(), url));
                }
            }
            Target::Service(service) => {
                let has_catalog = matches!(auth, Some(Auth::Keystone(_)));
                let url =
                    catalog_service(reader, name, service, node, (has_catalog || reader.partial, lookup));
                targets.extend(url.map(|url| (name.clone(), url)));
            }
        }
    }
    if let (true, Some(Auth::Keystone(keystone))) = (value.targets.is_none(), auth) {
        targets.push((DEFAULT_TARGET.to_owned(), keystone.auth_url.root()));
    }
    if targets.is_empty() && value.demo.is_none() && reader.faults.is_empty() && !reader.partial {
        let fault = Fault::error(first_key(root), "the deployment has no target");
        reader.faults.push(fault.help("add `targets: { default: http://host:port }`"));
    }
    targets
}

/// The defaults for all services of the catalog.
pub(super) fn lookup(
    reader: &mut ReferenceReader<'_>,
    written: Option<&CatalogDefaults>,
    root: &YamlNode,
) -> Lookup {
    let node = at(root, &["catalog"]);
    let Some(CatalogDefaults { region, interface }) = written else { return Lookup::default() };
    let region = region.as_ref().and_then(|region| reader.word(region, at(node, &["region"])));
    let interface = interface_of(reader, interface.as_ref(), at(node, &["interface"]));
    Lookup { interface: interface.unwrap_or_default(), region, ..Lookup::default() }
}

/// The interface that a Rally document names.
pub(super) fn rally_interface(
    reader: &mut ReferenceReader<'_>,
    name: &str,
    node: &YamlNode,
) -> Option<Interface> {
    let found = Interface::named(name);
    if found.is_none() {
        let fault = Fault::error(node.span.clone(), format!("`{name}` is not an endpoint type"));
        reader.faults.push(fault.help("write public, internal or admin"));
    }
    found
}

/// Every service of the catalog is a target if bench logs in to Keystone.
pub(super) fn opened(lookup: &mut Lookup, auth: Option<&Auth>, source: &SourceText) {
    lookup.is_open = matches!(auth, Some(Auth::Keystone(_)));
    lookup.source = Some(Arc::new(source.clone()));
}

/// The same for a cloud that is not looked up, because references need not exist: it may have any service.
pub(super) fn opened_unseen(reader: &ReferenceReader<'_>, lookup: &mut Lookup) {
    lookup.is_open |= reader.env.is_offline();
}

fn catalog_service(
    reader: &mut ReferenceReader<'_>,
    target: &str,
    written: &Service,
    node: &YamlNode,
    (has_catalog, lookup): (bool, &mut Lookup),
) -> Option<BaseUrl> {
    let own = |key: &str| at(node, &[key]);
    let service = reader.word(&written.service, own("service"))?;
    let interface = interface_of(reader, written.interface.as_ref(), own("interface"));
    let region = written.region.as_ref().and_then(|region| reader.word(region, own("region")));
    let version = written.version.as_ref().and_then(|version| version_of(reader, version, own("version")));
    if let Some(microversion) = &written.microversion
        && let Some(text) = microversion_of(reader, microversion, own("microversion"))
    {
        lookup.headers.push((target.to_owned(), microversion_headers(&service, &text)));
    }
    if let Some(url) = &written.url {
        return reader.text(url, own("url")).and_then(|text| reader.url(&text, own("url")));
    }
    if !has_catalog {
        let fault = Fault::error(own("service").span.clone(), "only Keystone has a catalog of services");
        reader.faults.push(fault.help("add `auth: { keystone: … }` or `cloud:`, or give the target a `url`"));
        return None;
    }
    let url = placeholder(target, Some(lookup.services.len()));
    lookup.services.push(ListedService {
        name: target.to_owned(),
        wanted: EndpointQuery {
            service,
            interface: interface.unwrap_or(lookup.interface),
            region: region.or_else(|| lookup.region.clone()),
            version,
        },
        place: own("service").span.clone(),
    });
    url
}

fn interface_of(
    reader: &mut ReferenceReader<'_>,
    reference: Option<&Reference>,
    node: &YamlNode,
) -> Option<Interface> {
    let reference = reference?;
    let text = reader.known_word(reference, node)?;
    let found = Interface::named(&text);
    if found.is_none() {
        let complaint =
            Complaint::new(format!("`{text}` is not an interface"), "write public, internal or admin");
        reader.quoting_fault(reference, &text, node, complaint);
    }
    found
}

fn version_of(reader: &mut ReferenceReader<'_>, reference: &Reference, node: &YamlNode) -> Option<String> {
    let text = reader.known_word(reference, node)?;
    if is_version(&text) {
        return Some(text);
    }
    let complaint = Complaint::new(format!("`{text}` is not a version in a URL"), "write it as v3 or v2.1");
    reader.quoting_fault(reference, &text, node, complaint);
    None
}

fn microversion_of(
    reader: &mut ReferenceReader<'_>,
    reference: &Reference,
    node: &YamlNode,
) -> Option<String> {
    let text = reader.known_word(reference, node)?;
    let digits = |part: &str| (1..6).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
    if text == "latest" || text.split_once('.').is_some_and(|(major, minor)| digits(major) && digits(minor)) {
        return Some(text);
    }
    let complaint =
        Complaint::new(format!("`{text}` is not a microversion"), "write it as \"2.95\", or `latest`");
    reader.quoting_fault(reference, &text, node, complaint);
    None
}
