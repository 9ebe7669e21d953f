//! What is made in a cloud before the load, resolved: Rally's defaults filled in, files found, contradictions reported.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::service_types::ServiceType;
use ::config::contexts as config;
use ::config::scenario::Scenario;
use text::diagnostics::Fault;
use text::similar::did_you_mean;
use text::yaml::YamlNode;
use text::yaml_place::{at, item, key_span};

use super::cidr::Cidr;
use super::compiler::Compiler;
use super::deployment::Auth;

pub use ::config::contexts::{Flavor, UserChoice};

/// The variables that iterations have if contexts are made: everything that was made, and who the iteration is.
pub const CONTEXT: &str = "context";
/// As [`CONTEXT`]; only if users are made.
pub const USER: &str = "user";

/// How many users all projects may have together.
const USERS_MAX: u32 = 10_000;
const WORKERS: u32 = 8;
const START_CIDR: &str = "10.2.0.0/24";
/// The services that have quotas here.
const WITH_QUOTAS: [&str; 3] = ["nova", "neutron", "cinder"];

/// What is made before the load and deleted after it.
#[derive(Clone, Debug)]
pub struct Contexts {
    /// Projects with users; without, everything is made in the deployment's own project.
    pub users: Option<Users>,
    /// Quotas of these projects, by official type of the service.
    pub quotas: Vec<(&'static str, BTreeMap<String, i64>)>,
    pub flavors: Vec<Flavor>,
    /// Networks of each project.
    pub network: Option<NetworkContext>,
    /// Images of each project.
    pub images: Option<Images>,
    /// Volumes of each project.
    pub volumes: Option<Volumes>,
    /// How many requests make things at the same time.
    pub workers: usize,
}

/// Projects and users.
#[derive(Clone, Debug)]
pub struct Users {
    /// How many projects.
    pub tenants: u32,
    /// How many users each has.
    pub users_per_tenant: u32,
    /// Which user an iteration is.
    pub choice: UserChoice,
    /// The id or name of the projects' domain.
    pub project_domain: String,
    /// The id or name of the users' domain.
    pub user_domain: String,
}

#[derive(Clone, Debug)]
pub struct NetworkContext {
    /// The addresses of the first subnet.
    pub start: Cidr,
    /// How many networks each project has.
    pub networks: u32,
    /// How many subnets each network has.
    pub subnets: u32,
    /// Further attributes of the networks.
    pub attributes: Map<String, Value>,
    /// Name servers of the subnets.
    pub name_servers: Vec<String>,
    /// Whether routers lead to the first external network.
    pub external: bool,
    /// The routers' gateway, instead of that.
    pub gateway: Option<Map<String, Value>>,
}

/// Where the content of images comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageSource {
    /// 1 KiB of zeros.
    Zeros,
    File(PathBuf),
    Url(String),
}

#[derive(Clone, Debug)]
pub struct Images {
    /// Their content.
    pub source: ImageSource,
    /// The disk's format.
    pub disk_format: String,
    /// The container's format.
    pub container_format: String,
    /// How many each project has.
    pub per_tenant: u32,
    /// Who may use them.
    pub visibility: String,
    /// The least memory of a server, in MiB.
    pub min_ram: u64,
    /// The least disk of a server, in GiB.
    pub min_disk: u64,
}

#[derive(Clone, Debug)]
pub struct Volumes {
    /// Their size, in GiB.
    pub size: u64,
    /// How many each project has.
    pub per_tenant: u32,
    /// Their type; `None` for the cloud's usual one.
    pub kind: Option<String>,
}

/// In words: `2 projects with 3 users each, 1 flavor; in each project 1 network, 2 images`.
impl std::fmt::Display for Contexts {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let counted = |count: u64, noun: &str| {
            let plural = if count == 1 { "" } else { "s" };
            (count > 0).then(|| format!("{count} {noun}{plural}"))
        };
        let users = self.users.as_ref().and_then(|users| {
            let projects = counted(users.tenants.into(), "project")?;
            Some(format!("{projects} with {} each", counted(users.users_per_tenant.into(), "user")?))
        });
        let of = |count: Option<u32>, noun: &str| counted(count.unwrap_or(0).into(), noun);
        let whole = [users, counted(self.flavors.len() as u64, "flavor")];
        let inside = [
            of(self.network.as_ref().map(|network| network.networks), "network"),
            of(self.images.as_ref().map(|images| images.per_tenant), "image"),
            of(self.volumes.as_ref().map(|volumes| volumes.per_tenant), "volume"),
        ];
        let listed = |all: Vec<Option<String>>| all.into_iter().flatten().collect::<Vec<_>>().join(", ");
        let (whole, inside) = (listed(whole.into()), listed(inside.into()));
        let place = if self.users.is_some() { "in each project" } else { "in the deployment's project" };
        match (whole.is_empty(), inside.is_empty()) {
            (_, true) => formatter.write_str(&whole),
            (true, false) => write!(formatter, "{place} {inside}"),
            (false, false) => write!(formatter, "{whole}; {place} {inside}"),
        }
    }
}

/// The names that no variable of a scenario may have because of its contexts.
pub(super) fn reserved(scenario: &Scenario) -> &'static [&'static str] {
    let own = scenario.workloads.iter().flatten().filter_map(|workload| workload.contexts.as_ref());
    let all: Vec<&config::Contexts> = scenario.contexts.iter().chain(own).collect();
    match (all.is_empty(), all.iter().any(|contexts| contexts.users.is_some())) {
        (true, _) => &[],
        (false, false) => &[CONTEXT],
        (false, true) => &[CONTEXT, USER],
    }
}

impl Compiler<'_> {
    /// The contexts at `node`, the map that has the key.
    pub(super) fn contexts(
        &mut self,
        written: Option<&config::Contexts>,
        node: &YamlNode,
    ) -> Option<Arc<Contexts>> {
        let written = written?;
        let key = key_span(node, "contexts");
        let node = at(node, &["contexts"]);
        if let Some(deployment) = self.targets.deployment()
            && !matches!(deployment.auth, Auth::Keystone(_))
        {
            let fault = Fault::error(key, "`contexts` need a cloud, and the deployment has no Keystone");
            self.texts.faults.push(fault.help("add `auth: { keystone: … }` or `cloud:` to the deployment"));
        }
        let users = written.users.as_ref().map(|users| self.users(users, at(node, &["users"])));
        if written.quotas.is_some() && users.is_none() && self.texts.names.whole.is_none() {
            let fault = Fault::error(key_span(node, "quotas"), "`quotas` without `users`");
            self.texts
                .faults
                .push(fault.help(
                    "add `users: {}`: quotas are those of the projects that bench makes, never others",
                ));
        }
        let workers = written.users.as_ref().and_then(|users| users.resource_management_workers);
        Some(Arc::new(Contexts {
            users,
            quotas: self.quotas(written.quotas.as_ref(), at(node, &["quotas"])),
            flavors: self.flavors(written.flavors.as_deref().unwrap_or_default(), at(node, &["flavors"])),
            network: match &written.network {
                Some(network) => Some(self.network(network, at(node, &["network"]))?),
                None => None,
            },
            images: written.images.as_ref().map(|images| self.images(images, at(node, &["images"]))),
            volumes: written.volumes.as_ref().map(|volumes| Volumes {
                size: volumes.size,
                per_tenant: volumes.volumes_per_tenant.unwrap_or(1),
                kind: volumes.volume_type.clone().filter(|kind| !kind.is_empty()),
            }),
            workers: usize::try_from(workers.unwrap_or(WORKERS)).unwrap_or(1).max(1),
        }))
    }

    fn users(&mut self, written: &config::Users, node: &YamlNode) -> Users {
        let users = Users {
            tenants: written.tenants.unwrap_or(1),
            users_per_tenant: written.users_per_tenant.unwrap_or(1),
            choice: written.user_choice_method.unwrap_or_default(),
            project_domain: written.project_domain.clone().unwrap_or_else(|| "default".to_owned()),
            user_domain: written.user_domain.clone().unwrap_or_else(|| "default".to_owned()),
        };
        let all = users.tenants.saturating_mul(users.users_per_tenant);
        if all > USERS_MAX {
            let fault = Fault::error(node.span.clone(), format!("{all} users are more than {USERS_MAX}"));
            self.texts.faults.push(fault.help("lower `tenants` or `users_per_tenant`"));
        }
        users
    }

    fn quotas(
        &mut self,
        written: Option<&BTreeMap<String, BTreeMap<String, i64>>>,
        node: &YamlNode,
    ) -> Vec<(&'static str, BTreeMap<String, i64>)> {
        let mut quotas = Vec::new();
        for (service, limits) in written.into_iter().flatten() {
            let known = ServiceType::named(service).filter(|known| WITH_QUOTAS.contains(&known.project));
            match known {
                Some(known) => quotas.push((known.name, limits.clone())),
                None => {
                    let fault =
                        Fault::error(key_span(node, service), format!("no quotas of `{service}` can be set"));
                    self.texts.faults.push(fault.help(match did_you_mean(service, WITH_QUOTAS) {
                        Some(meant) => format!("did you mean `{meant}`?"),
                        None => format!("services with quotas: {}", WITH_QUOTAS.join(", ")),
                    }));
                }
            }
        }
        quotas
    }

    fn flavors(&mut self, written: &[Flavor], node: &YamlNode) -> Vec<Flavor> {
        for (index, flavor) in written.iter().enumerate() {
            if written[..index].iter().any(|other| other.name == flavor.name) {
                let span = at(item(node, index), &["name"]).span.clone();
                let fault = Fault::error(span, format!("a second flavor named `{}`", flavor.name));
                self.texts.faults.push(fault.help("rename one"));
            }
        }
        written.to_vec()
    }

    fn network(&mut self, written: &config::Network, node: &YamlNode) -> Option<NetworkContext> {
        let start = written.start_cidr.as_deref().unwrap_or(START_CIDR);
        let Some(start) = Cidr::parse(start) else {
            let message = format!("`{start}` is not a range of IPv4 addresses");
            let fault = Fault::error(at(node, &["start_cidr"]).span.clone(), message);
            self.texts
                .faults
                .push(fault.help("write its first address and its length from 8 to 30: 10.2.0.0/24"));
            return None;
        };
        let router = written.router.clone().unwrap_or_default();
        Some(NetworkContext {
            start,
            networks: written.networks_per_tenant.unwrap_or(1),
            subnets: written.subnets_per_network.unwrap_or(1),
            attributes: written.network_create_args.clone().unwrap_or_default(),
            name_servers: written.dns_nameservers.clone().unwrap_or_default(),
            external: router.external.unwrap_or(true),
            gateway: router.external_gateway_info,
        })
    }

    fn images(&mut self, written: &config::Images, node: &YamlNode) -> Images {
        let source = match written.image_url.as_deref() {
            None => ImageSource::Zeros,
            Some(url) if url.starts_with("http://") || url.starts_with("https://") => {
                ImageSource::Url(url.to_owned())
            }
            Some(path) => {
                let file = self.files.folder().join(path.strip_prefix("file://").unwrap_or(path));
                if let Err(error) = text::files::open_regular(&file) {
                    let span = at(node, &["image_url"]).span.clone();
                    let fault = Fault::error(span, format!("cannot read {}: {error}", file.display()));
                    self.texts.faults.push(fault.help("name a file relative to the scenario, or a URL"));
                }
                ImageSource::File(file)
            }
        };
        let or = |written: &Option<String>, usual: &str| written.clone().unwrap_or_else(|| usual.to_owned());
        Images {
            source,
            disk_format: or(&written.disk_format, "raw"),
            container_format: or(&written.container_format, "bare"),
            per_tenant: written.images_per_tenant.unwrap_or(1),
            visibility: or(&written.visibility, "private"),
            min_ram: written.min_ram.unwrap_or(0),
            min_disk: written.min_disk.unwrap_or(0),
        }
    }

    /// The names that a workload's templates have because of its contexts.
    pub(super) fn know_contexts(&mut self, contexts: Option<&Arc<Contexts>>) {
        let Some(contexts) = contexts else { return };
        self.texts.names.known.insert(CONTEXT.to_owned());
        if contexts.users.is_some() {
            self.texts.names.known.insert(USER.to_owned());
        }
    }
}
