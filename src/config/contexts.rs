//! What is made in the cloud before the load and deleted after it, as written. Keys and defaults are those of Rally's
//! contexts.

use crate::notation::schema;
use std::collections::BTreeMap;

use schemars::{JsonSchema, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use text::digits;

/// What is made in the cloud before the load, and deleted after it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Contexts {
    /// Projects with users. Each iteration is one of these users, with a token of its own: `{{ user.name }}` and
    /// `{{ user.project_id }}` say which. The deployment must log in as an administrator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub users: Option<Users>,
    /// Quotas of each of these projects, by service (`nova`, `neutron`, `cinder`) and name; -1 for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quotas: Option<BTreeMap<String, BTreeMap<String, i64>>>,
    /// Flavors: `{{ context.flavor.tiny }}` is the id of the one named `tiny`, `{{ context.flavors[0].id }}` of the first.
    #[schemars(length(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flavors: Option<Vec<Flavor>>,
    /// Networks of each project, each with subnets and a router: `{{ context.tenant.networks[0].id }}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// Images of each project: `{{ context.tenant.images[0].id }}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<Images>,
    /// Volumes of each project: `{{ context.tenant.volumes[0].id }}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volumes: Option<Volumes>,
}

/// Projects and users.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Users {
    /// How many projects (default 1).
    #[schemars(range(min = 1, max = 1_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenants: Option<u32>,
    /// How many users each project has (default 1).
    #[schemars(range(min = 1, max = 1_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub users_per_tenant: Option<u32>,
    /// Which user an iteration is: a `random` one (the default), or `round_robin`, one after another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_choice_method: Option<UserChoice>,
    /// The id or name of the projects' domain (default `default`).
    #[schemars(length(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_domain: Option<String>,
    /// The id or name of the users' domain (default `default`).
    #[schemars(length(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_domain: Option<String>,
    /// How many requests make or delete things at the same time (default 8).
    #[schemars(range(min = 1, max = 64))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_management_workers: Option<u32>,
}

/// Which user an iteration is.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UserChoice {
    /// Any.
    #[default]
    Random,
    /// One after another: the first users of all projects, then the second ones.
    RoundRobin,
}

schema!(UserChoice, "UserChoice", |_| json_schema!({ "type": "string", "enum": ["random", "round_robin"] }));

/// A flavor.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Flavor {
    /// Its name in templates: `{{ context.flavor.tiny }}` is its id. In the cloud, the name begins with the run's.
    #[schemars(length(min = 1, max = 100))]
    pub name: String,
    /// Memory, in MiB.
    #[schemars(range(min = 1))]
    pub ram: u64,
    /// Virtual processors (default 1).
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vcpus: Option<u64>,
    /// The disk, in GiB (default 0).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<u64>,
    /// The ephemeral disk, in GiB (default 0).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ephemeral: Option<u64>,
    /// Swap, in MiB (default 0).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap: Option<u64>,
    /// Extra specifications, such as `{"hw:cpu_policy": dedicated}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra_specs: Option<BTreeMap<String, String>>,
}

/// Networks.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// The addresses of the first subnet; the next ones have the next ranges (default 10.2.0.0/24).
    #[schemars(length(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_cidr: Option<String>,
    /// How many networks each project has (default 1).
    #[schemars(range(min = 1, max = 100))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub networks_per_tenant: Option<u32>,
    /// How many subnets each network has (default 1).
    #[schemars(range(min = 1, max = 100))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subnets_per_network: Option<u32>,
    /// Further attributes of the networks as Neutron names them, such as `{mtu: 1400}`.
    #[serde(default, deserialize_with = "digits::rounded_map", skip_serializing_if = "Option::is_none")]
    pub network_create_args: Option<Map<String, Value>>,
    /// The name servers of the subnets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns_nameservers: Option<Vec<String>>,
    /// The router of each network, which connects its subnets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub router: Option<Router>,
}

/// The router of a network.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Router {
    /// Whether the router leads to the cloud's first external network, if there is one (default true).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<bool>,
    /// The gateway as Neutron writes it, such as `{network_id: …}`, instead of the first external network.
    #[serde(default, deserialize_with = "digits::rounded_map", skip_serializing_if = "Option::is_none")]
    pub external_gateway_info: Option<Map<String, Value>>,
}

/// Images.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Images {
    /// The file with the image, relative to the scenario, or its URL (default: 1 KiB of zeros, which no real server
    /// starts from).
    #[schemars(length(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_url: Option<String>,
    /// The disk's format (default `raw`).
    #[schemars(length(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_format: Option<String>,
    /// The container's format (default `bare`).
    #[schemars(length(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_format: Option<String>,
    /// How many images each project has (default 1).
    #[schemars(range(min = 1, max = 100))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images_per_tenant: Option<u32>,
    /// Who may use them: `private` (the default), `shared`, `community` or `public`.
    #[schemars(length(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub visibility: Option<String>,
    /// The least memory of a server, in MiB (default 0).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_ram: Option<u64>,
    /// The least disk of a server, in GiB (default 0).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_disk: Option<u64>,
}

/// Volumes.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Volumes {
    /// Their size, in GiB.
    #[schemars(range(min = 1))]
    pub size: u64,
    /// How many volumes each project has (default 1).
    #[schemars(range(min = 1, max = 1_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volumes_per_tenant: Option<u32>,
    /// Their type (default: the cloud's).
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub volume_type: Option<String>,
}
