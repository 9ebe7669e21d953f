//! The types of OpenStack's services, with their old names and their projects.
//!
//! From the list of the service-types-authority (<https://service-types.openstack.org>). A catalog may use any of the
//! names of a service. Nothing here reads a catalog.

/// A kind of service.
#[derive(Debug, PartialEq, Eq)]
pub struct ServiceType {
    /// Its official type, such as `block-storage`.
    pub name: &'static str,
    /// The project that makes it, such as `cinder`.
    pub project: &'static str,
    /// Other types under which catalogs have it, the newest first.
    pub aliases: &'static [&'static str],
    /// The major version that clients use. Some catalogs leave it out of the URL; empty if the API has none.
    pub version: &'static str,
}

const fn service(
    name: &'static str,
    project: &'static str,
    aliases: &'static [&'static str],
    version: &'static str,
) -> ServiceType {
    ServiceType { name, project, aliases, version }
}

/// All services.
pub const ALL: [ServiceType; 39] = [
    service("identity", "keystone", &[], "v3"),
    service("compute", "nova", &[], "v2.1"),
    service("image", "glance", &[], "v2"),
    service("network", "neutron", &[], "v2.0"),
    service("block-storage", "cinder", &["volumev3", "volumev2", "volume", "block-store"], "v3"),
    service("placement", "placement", &[], ""),
    service("workflow", "mistral", &["workflowv2"], "v2"),
    service("orchestration", "heat", &[], ""),
    service("object-store", "swift", &[], ""),
    service("load-balancer", "octavia", &[], "v2"),
    service("dns", "designate", &[], "v2"),
    service("key-manager", "barbican", &[], "v1"),
    service("baremetal", "ironic", &["bare-metal"], "v1"),
    service("baremetal-introspection", "ironic-inspector", &[], ""),
    service(
        "container-infrastructure-management",
        "magnum",
        &["container-infrastructure", "container-infra"],
        "v1",
    ),
    service("shared-file-system", "manila", &["sharev2", "share"], "v2"),
    service("accelerator", "cyborg", &[], ""),
    service("admin-logic", "adjutant", &["registration"], ""),
    service("alarm", "aodh", &["alarming"], ""),
    service("application-catalog", "murano", &[], ""),
    service("application-container", "zun", &["container"], ""),
    service("application-deployment", "solum", &["application_deployment"], ""),
    service("backup", "freezer-api", &[], ""),
    service("clustering", "senlin", &["resource-cluster", "cluster"], ""),
    service("data-processing", "sahara", &[], ""),
    service("database", "trove", &[], ""),
    service("event", "panko", &["events"], ""),
    service("function-engine", "qinling", &[], ""),
    service("instance-ha", "masakari", &["ha"], ""),
    service("log-management", "venus", &[], ""),
    service("message", "zaqar", &["messaging"], ""),
    service("meter", "ceilometer", &["metering", "telemetry"], ""),
    service("monitoring", "monasca-api", &[], ""),
    service("nfv-orchestration", "tacker", &[], ""),
    service("operator-policy", "congress", &["policy"], ""),
    service("rating", "cloudkitty", &[], ""),
    service("reservation", "blazar", &[], ""),
    service("resource-optimization", "watcher", &["infra-optim"], ""),
    service("root-cause-analysis", "vitrage", &["rca"], ""),
];

impl ServiceType {
    /// The service of this type, alias or project; `None` if it is none of OpenStack's.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        ALL.iter()
            .find(|known| known.name == name || known.aliases.contains(&name))
            .or_else(|| ALL.iter().find(|known| known.project == name))
    }

    /// The types that a catalog may use for it, the official one first.
    pub fn types(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }
}

/// Every name of every service, to find what was probably meant.
pub fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().flat_map(|known| known.types().chain([known.project]))
}

/// The headers that ask a service for a microversion (API-SIG, "Microversion Specification"): the general one, and
/// the service's own from before there was a general one. `service` is a type, an alias or a project.
#[must_use]
pub fn microversion_headers(service: &str, microversion: &str) -> Vec<(&'static str, String)> {
    let official = ServiceType::named(service).map_or(service, |known| known.name);
    // The header's names for these services are not their types.
    let (word, own) = match official {
        "block-storage" => ("volume", None),
        "compute" => (official, Some("x-openstack-nova-api-version")),
        "baremetal" => (official, Some("x-openstack-ironic-api-version")),
        "baremetal-introspection" => (official, Some("x-openstack-ironic-inspector-api-version")),
        "shared-file-system" => (official, Some("x-openstack-manila-api-version")),
        "container-infrastructure-management" => ("container-infra", None),
        _ => (official, None),
    };
    let general = ("openstack-api-version", format!("{word} {microversion}"));
    std::iter::once(general).chain(own.map(|name| (name, microversion.to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_found_by_all_their_names() {
        for (name, expected) in [
            ("compute", Some("compute")),
            ("nova", Some("compute")),
            ("volumev3", Some("block-storage")),
            ("volume", Some("block-storage")),
            ("cinder", Some("block-storage")),
            ("placement", Some("placement")),
            ("container-infra", Some("container-infrastructure-management")),
            ("workflowv2", Some("workflow")),
            ("Nova", None),
            ("", None),
            ("default", None),
        ] {
            assert_eq!(ServiceType::named(name).map(|known| known.name), expected, "{name}");
        }
    }

    #[test]
    fn no_name_stands_for_two_services() {
        let mut all: Vec<(&str, &str)> = Vec::new();
        for known in &ALL {
            for name in known.types().chain([known.project]) {
                let other = all.iter().find(|(other, of)| *other == name && *of != known.name);
                assert_eq!(other, None, "{name} of {}", known.name);
                all.push((name, known.name));
            }
        }
    }

    #[test]
    fn microversions_are_asked_for_in_the_headers_of_each_service() {
        for (service, expected) in [
            ("compute", &["openstack-api-version: compute 2.95", "x-openstack-nova-api-version: 2.95"][..]),
            ("nova", &["openstack-api-version: compute 2.95", "x-openstack-nova-api-version: 2.95"]),
            ("volumev3", &["openstack-api-version: volume 2.95"]),
            ("placement", &["openstack-api-version: placement 2.95"]),
            (
                "share",
                &["openstack-api-version: shared-file-system 2.95", "x-openstack-manila-api-version: 2.95"],
            ),
            ("own-service", &["openstack-api-version: own-service 2.95"]),
        ] {
            let headers = microversion_headers(service, "2.95");
            let lines: Vec<String> = headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
            assert_eq!(lines, expected, "{service}");
        }
    }
}
