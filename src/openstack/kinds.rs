//! The kinds of things that iterations and contexts leave in a project: how they are listed and deleted.

use serde_json::Value as Json;

use super::cloud::CloudService;

/// A kind of thing.
pub(super) struct ResourceKind {
    /// What it is called.
    pub(super) what: &'static str,
    pub(super) service: CloudService,
    /// The path that lists the things of `{owner}`, a project or a user.
    pub(super) list: &'static str,
    /// The key of the list in the answer.
    pub(super) key: &'static str,
    /// The key of the thing within an item of the list.
    pub(super) within: Option<&'static str>,
    /// The key that names its project. A service may pass over the filter in the path, so this is checked, too.
    pub(super) owner: &'static str,
    /// The path that deletes it, without its id.
    pub(super) delete: &'static str,
    /// What comes behind its id.
    pub(super) options: &'static str,
    /// True if it is deleted by its name.
    pub(super) is_by_name: bool,
    /// True if its owner is a user.
    pub(super) is_of_user: bool,
    /// True if only members of its project see it.
    pub(super) is_for_members: bool,
    /// False for what goes with something else.
    pub(super) is_deletable: fn(&Json) -> bool,
}

const fn kind(
    what: &'static str,
    service: CloudService,
    (list, key): (&'static str, &'static str),
    delete: &'static str,
    owner: &'static str,
) -> ResourceKind {
    ResourceKind {
        what,
        service,
        list,
        key,
        within: None,
        owner,
        delete,
        options: "",
        is_by_name: false,
        is_of_user: false,
        is_for_members: false,
        is_deletable: |_| true,
    }
}

const fn of_neutron(
    what: &'static str,
    list: &'static str,
    key: &'static str,
    delete: &'static str,
) -> ResourceKind {
    kind(what, CloudService::Neutron, (list, key), delete, "project_id")
}

const fn of_mistral(
    what: &'static str,
    list: &'static str,
    key: &'static str,
    delete: &'static str,
) -> ResourceKind {
    ResourceKind {
        is_for_members: true,
        ..kind(what, CloudService::Mistral, (list, key), delete, "project_id")
    }
}

/// Security groups. Neutron makes the one called [`DEFAULT_GROUP`] anew whenever the groups of a project are listed, so
/// it can only be deleted as the last thing of a project.
pub(super) const SECURITY_GROUP: ResourceKind = of_neutron(
    "security group",
    "/security-groups?project_id={owner}",
    "security_groups",
    "/security-groups",
);
/// The name of the security group that every project has.
pub(super) const DEFAULT_GROUP: &str = "default";

/// What a path has so that it lists things of other projects.
pub(super) const OF_OTHERS: &str = "all_tenants=1&project_id={owner}";

/// All kinds, in the order in which they are deleted.
pub(super) static ALL: [ResourceKind; 14] = [
    ResourceKind {
        options: "?force=true",
        ..of_mistral("execution", "/executions?limit=1000", "executions", "/executions")
    },
    of_mistral("workflow", "/workflows?limit=1000", "workflows", "/workflows"),
    ResourceKind {
        is_by_name: true,
        ..of_mistral("workbook", "/workbooks?limit=1000", "workbooks", "/workbooks")
    },
    kind(
        "server",
        CloudService::Nova,
        ("/servers/detail?all_tenants=1&project_id={owner}", "servers"),
        "/servers",
        "tenant_id",
    ),
    ResourceKind {
        within: Some("keypair"),
        is_of_user: true,
        is_deletable: is_of_asked_user,
        ..kind(
            "key pair",
            CloudService::Nova,
            ("/os-keypairs?user_id={owner}", "keypairs"),
            "/os-keypairs",
            "",
        )
    },
    kind(
        "snapshot",
        CloudService::Cinder,
        ("/snapshots/detail?all_tenants=1&project_id={owner}", "snapshots"),
        "/snapshots",
        "os-extended-snapshot-attributes:project_id",
    ),
    kind(
        "volume",
        CloudService::Cinder,
        ("/volumes/detail?all_tenants=1&project_id={owner}", "volumes"),
        "/volumes",
        "os-vol-tenant-attr:tenant_id",
    ),
    kind("image", CloudService::Glance, ("/images?owner={owner}&limit=1000", "images"), "/images", "owner"),
    of_neutron("floating IP", "/floatingips?project_id={owner}", "floatingips", "/floatingips"),
    of_neutron("router", "/routers?project_id={owner}", "routers", "/routers"),
    ResourceKind {
        is_deletable: is_own_port,
        ..of_neutron("port", "/ports?project_id={owner}", "ports", "/ports")
    },
    of_neutron("subnet", "/subnets?project_id={owner}", "subnets", "/subnets"),
    of_neutron("network", "/networks?project_id={owner}", "networks", "/networks"),
    ResourceKind { is_deletable: |group| group["name"] != DEFAULT_GROUP, ..SECURITY_GROUP },
];

/// False if Nova has passed over the microversion that lets an administrator ask for a user's key pairs: then the list is
/// that of the administrator.
fn is_of_asked_user(item: &Json) -> bool {
    item["keypair"]["type"].is_string()
}

/// Ports of servers, routers and networks go with these.
fn is_own_port(port: &Json) -> bool {
    let owner = port["device_owner"].as_str().unwrap_or_default();
    !owner.starts_with("network:") && !owner.starts_with("compute:")
}
