//! Keystone's catalog: which services a cloud has, and where (Identity API v3, "Get service catalog").
//!
//! The catalog comes with a token. What stands in it is the cloud's, so everything is checked before it is used.
//! Nothing here sends requests.

use std::collections::BTreeSet;

use serde_json::Value;

use base::complaint::Complaint;

use client::url::{BaseUrl, Origin};
use plan::catalog::{EndpointCatalog, EndpointQuery, Interface, is_version};
use plan::service_types::ServiceType;

/// More services or endpoints than this are ignored.
const ENTRIES_MAX: usize = 1000;

/// The services of a cloud.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    services: Vec<Service>,
}

#[derive(Clone, Debug)]
struct Service {
    kind: String,
    name: String,
    endpoints: Vec<Endpoint>,
}

#[derive(Clone, Debug)]
struct Endpoint {
    interface: Interface,
    /// Keystone gives null for an endpoint that was made without one.
    region: Option<String>,
    url: String,
}

impl Endpoint {
    /// True if it is in this region, or if none is wanted.
    fn is_in(&self, region: Option<&str>) -> bool {
        region.is_none_or(|region| self.region.as_deref() == Some(region))
    }
}

impl Catalog {
    /// The catalog in the answer to a login: `{"token": {"catalog": […]}}`. What cannot be understood is left out.
    #[must_use]
    pub fn of_token(answer: &Value) -> Self {
        let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
        let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let services = list(answer.pointer("/token/catalog")).into_iter().take(ENTRIES_MAX);
        let services = services.filter_map(|service| {
            let endpoints = list(service.get("endpoints")).into_iter().take(ENTRIES_MAX);
            let endpoints = endpoints.filter_map(|endpoint| {
                Some(Endpoint {
                    interface: Interface::named(&text(&endpoint, "interface")?)?,
                    region: text(&endpoint, "region_id").or_else(|| text(&endpoint, "region")),
                    url: text(&endpoint, "url")?,
                })
            });
            Some(Service {
                kind: text(&service, "type")?,
                name: text(&service, "name").unwrap_or_default(),
                endpoints: endpoints.collect(),
            })
        });
        Self { services: services.collect() }
    }

    /// The services that a name may mean. They have exactly this type; or else the first of the service's types that
    /// the catalog has; or else this name.
    fn candidates(&self, name: &str) -> Vec<&Service> {
        let of_type = |kind: &str| self.services.iter().filter(|s| s.kind == kind).collect::<Vec<_>>();
        let mut known = ServiceType::named(name).into_iter().flat_map(ServiceType::types);
        let exact = Some(of_type(name)).filter(|found| !found.is_empty());
        let found =
            exact.or_else(|| known.find_map(|kind| Some(of_type(kind)).filter(|found| !found.is_empty())));
        found.unwrap_or_else(|| self.services.iter().filter(|service| service.name == name).collect())
    }

    fn without_service(&self, service: &str) -> Complaint {
        let what = format!("the cloud's catalog has no service `{service}`");
        let mut types: Vec<String> = self.services.iter().map(|service| shown(&service.kind)).collect();
        types.sort_unstable();
        types.dedup();
        types.truncate(50);
        Complaint::new(
            what,
            match types.is_empty() {
                true => "the token has no catalog: scope it to a project with `project_name`".to_owned(),
                false => format!("it has {}; or give the target a `url`", types.join(", ")),
            },
        )
    }
}

impl EndpointCatalog for Catalog {
    fn find(&self, wanted: &EndpointQuery) -> Result<BaseUrl, Complaint> {
        let EndpointQuery { service, interface, .. } = wanted;
        let candidates = self.candidates(service);
        let Some(first) = candidates.first() else { return Err(self.without_service(service)) };
        let endpoints = || candidates.iter().flat_map(|service| &service.endpoints);
        let here = |endpoint: &&Endpoint| {
            endpoint.interface == *interface && endpoint.is_in(wanted.region.as_deref())
        };
        // One without a region is for all of them.
        let of_all = endpoints().filter(here).find(|endpoint| endpoint.region.is_none());
        let Some(found) = of_all.or_else(|| endpoints().find(here)) else {
            return Err(without_endpoint(wanted, &endpoints().collect::<Vec<_>>()));
        };
        let regions: BTreeSet<&str> = endpoints().filter(here).filter_map(|e| e.region.as_deref()).collect();
        if found.region.is_some() && regions.len() > 1 {
            return Err(several_regions(service, regions));
        }
        let url = BaseUrl::parse(&found.url).map_err(|complaint| {
            Complaint::new(
                format!("the URL of `{service}` in the cloud's catalog cannot be used: {}", complaint.what),
                "mend the endpoint in Keystone, or give the target a `url`",
            )
        })?;
        let usual = ServiceType::named(&first.kind).or_else(|| ServiceType::named(service));
        Ok(with_version(url, wanted.version.as_deref(), usual.map_or("", |usual| usual.version)))
    }

    fn origins(&self, interface: Interface, region: Option<&str>) -> Vec<Origin> {
        let mut origins = Vec::new();
        for endpoint in self.services.iter().flat_map(|service| &service.endpoints) {
            let is_wanted = endpoint.interface == interface && endpoint.is_in(region);
            if let (true, Ok(url)) = (is_wanted, BaseUrl::parse(&endpoint.url))
                && !origins.contains(&url.origin)
            {
                origins.push(url.origin);
            }
        }
        origins
    }

    fn has_origin(&self, origin: &Origin) -> bool {
        let mut endpoints = self.services.iter().flat_map(|service| &service.endpoints);
        endpoints.any(|endpoint| BaseUrl::parse(&endpoint.url).is_ok_and(|url| url.origin == *origin))
    }
}

fn several_regions(service: &str, regions: BTreeSet<&str>) -> Complaint {
    let regions: Vec<String> = regions.into_iter().take(2).map(shown).collect();
    let one = regions.first().cloned().unwrap_or_default();
    let both = regions.join(" and ");
    Complaint::new(
        format!("the cloud has `{service}` in several regions, such as {both}, and no region is named"),
        format!(
            "add `region: {one}` to the target or the `catalog` of the deployment; in Rally's and in clouds.yaml it is \
             `region_name`, in the environment OS_REGION_NAME"
        ),
    )
}

/// Why there is no endpoint, and which there are.
fn without_endpoint(wanted: &EndpointQuery, endpoints: &[&Endpoint]) -> Complaint {
    let EndpointQuery { service, interface, region, .. } = wanted;
    let listed = |mut names: Vec<String>| {
        names.sort_unstable();
        names.dedup();
        names.truncate(50);
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    let here = |endpoint: &&&Endpoint| endpoint.is_in(region.as_deref());
    let of_region = |endpoint: &&Endpoint| match &endpoint.region {
        Some(region) => shown(region),
        None => "one without a name (name no region to use it)".to_owned(),
    };
    match region {
        Some(region) if !endpoints.iter().any(|endpoint| endpoint.is_in(Some(region))) => Complaint::new(
            format!("the cloud has no `{service}` in the region `{region}`"),
            format!(
                "its regions: {}; change that of the deployment, or OS_REGION_NAME",
                listed(endpoints.iter().map(of_region).collect())
            ),
        ),
        _ => Complaint::new(
            format!("the cloud has no {} endpoint of `{service}`", interface.name()),
            format!(
                "its interfaces: {}; choose one with `interface`",
                listed(endpoints.iter().filter(here).map(|e| e.interface.name().to_owned()).collect())
            ),
        ),
    }
}

/// A name from the catalog, short and on one line.
fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(80).collect()
}

/// The URL with this version in the place of its own; without a version of its own, with that or the usual one at its
/// end.
fn with_version(mut url: BaseUrl, wanted: Option<&str>, usual: &str) -> BaseUrl {
    let segments: Vec<&str> = url.prefix.split('/').collect();
    let own = segments.iter().position(|segment| is_version(segment));
    url.prefix = match (own, wanted) {
        (Some(_), None) => return url,
        (Some(at), Some(wanted)) => {
            let changed = segments.iter().enumerate();
            let changed = changed.map(|(index, segment)| if index == at { wanted } else { segment });
            changed.collect::<Vec<_>>().join("/")
        }
        (None, wanted) => match wanted.unwrap_or(usual) {
            "" => return url,
            version => format!("{}/{version}", url.prefix),
        },
    };
    url
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn endpoint(interface: &str, region: &str, url: &str) -> Value {
        json!({ "interface": interface, "region": region, "region_id": region, "url": url })
    }

    fn catalog() -> Catalog {
        let one = |url: &str| json!([endpoint("public", "One", url)]);
        Catalog::of_token(&json!({ "token": { "catalog": [
            { "type": "identity", "name": "keystone", "endpoints": one("http://k:5000") },
            { "type": "compute", "name": "nova", "endpoints": [
                endpoint("public", "One", "http://n1:8774/v2.1"), endpoint("public", "Two", "http://n2:8774/v2.1"),
                endpoint("internal", "One", "http://n1.internal:8774/v2.1/"),
            ] },
            { "type": "image", "name": "glance", "endpoints": one("http://g/image") },
            { "type": "network", "name": "neutron", "endpoints": one("http://q:9696/v2.0") },
            { "type": "volumev2", "name": "cinderv2", "endpoints": one("http://c/volume/v2/p1") },
            { "type": "volumev3", "name": "cinderv3", "endpoints": one("http://c/volume/v3/p1") },
            { "type": "placement", "name": "placement", "endpoints": one("http://p:8778") },
            { "type": "own-thing", "name": "mine", "endpoints": one("http://o") },
            { "type": "dns", "name": "bad", "endpoints": one("http://u:p@d") },
            { "type": "key-manager", "name": "none", "endpoints": [] },
            { "type": 5, "endpoints": "x" }, 7,
            { "type": "rating", "endpoints": [ { "url": "http://r" }, { "interface": "odd", "region": "One", "url": "http://r" } ] },
        ] } }))
    }

    #[test]
    fn endpoints_are_found_by_type_alias_project_or_name() {
        for (service, region, interface, version, expected) in [
            ("identity", None, "public", None, Ok("http://k:5000/v3")),
            ("compute", Some("Two"), "public", None, Ok("http://n2:8774/v2.1")),
            ("nova", None, "internal", None, Ok("http://n1.internal:8774/v2.1")),
            ("nova", Some("One"), "internalURL", None, Ok("http://n1.internal:8774/v2.1")),
            ("glance", None, "public", None, Ok("http://g/image/v2")),
            ("image", None, "public", Some("v1"), Ok("http://g/image/v1")),
            ("neutron", None, "public", None, Ok("http://q:9696/v2.0")),
            ("block-storage", None, "public", None, Ok("http://c/volume/v3/p1")),
            ("cinder", None, "public", None, Ok("http://c/volume/v3/p1")),
            ("volumev2", None, "public", None, Ok("http://c/volume/v2/p1")),
            ("volumev2", None, "public", Some("v3"), Ok("http://c/volume/v3/p1")),
            ("volume", None, "public", None, Ok("http://c/volume/v3/p1")),
            ("placement", None, "public", None, Ok("http://p:8778")),
            ("own-thing", None, "public", None, Ok("http://o")),
            ("mine", None, "public", None, Ok("http://o")),
            (
                "compute",
                None,
                "public",
                None,
                Err("several regions, such as One and Two; add `region: One`; `region_name`"),
            ),
            (
                "compute",
                Some("Three"),
                "public",
                None,
                Err("in the region `Three`; its regions: One, Two; OS_REGION_NAME"),
            ),
            (
                "compute",
                Some("Two"),
                "internal",
                None,
                Err("no internal endpoint of `compute`; its interfaces: public;"),
            ),
            ("compute", None, "admin", None, Err("its interfaces: internal, public; choose one")),
            ("key-manager", None, "public", None, Err("its interfaces: none")),
            ("rating", None, "public", None, Err("its interfaces: none")),
            ("dns", None, "public", None, Err("must not contain credentials")),
            ("baremetal", None, "public", None, Err("no service `baremetal`; it has compute, dns, identity")),
        ] {
            let wanted = EndpointQuery {
                service: service.to_owned(),
                interface: Interface::named(interface).unwrap(),
                region: region.map(str::to_owned),
                version: version.map(str::to_owned),
            };
            match (catalog().find(&wanted), expected) {
                (Ok(url), Ok(expected)) => assert_eq!(url.to_string(), expected, "{service}"),
                (Err(complaint), Err(parts)) => {
                    let said = complaint.to_string();
                    let mut parts = parts.split("; ");
                    assert!(parts.all(|part| said.contains(part)), "{service}: {said}");
                }
                (found, _) => panic!("{service}: {found:?}"),
            }
        }
        let unscoped = Catalog::of_token(&json!({ "token": {} }));
        let said =
            unscoped.find(&EndpointQuery { service: "compute".to_owned(), ..EndpointQuery::default() });
        assert!(said.unwrap_err().remedy.contains("scope it to a project"));
    }

    #[test]
    fn an_endpoint_without_a_region_is_for_all_of_them() {
        let endpoints = |list: Value| {
            Catalog::of_token(&json!({ "token": { "catalog": [{ "type": "metric", "endpoints": list }] } }))
        };
        let none = json!({ "interface": "public", "region": null, "region_id": null, "url": "http://m" });
        let (one, two) = (endpoint("public", "One", "http://m1"), endpoint("public", "Two", "http://m2"));
        for (list, region, expected) in [
            (json!([none]), None, Ok("http://m")),
            (json!([one, none, two]), None, Ok("http://m")),
            (json!([one, none, two]), Some("Two"), Ok("http://m2")),
            (
                json!([none]),
                Some("One"),
                Err("no `metric` in the region `One`; its regions: one without a name"),
            ),
            (json!([one, two]), None, Err("several regions, such as One and Two")),
        ] {
            let region = region.map(str::to_owned);
            let wanted = EndpointQuery { service: "metric".to_owned(), region, ..EndpointQuery::default() };
            match (endpoints(list.clone()).find(&wanted), expected) {
                (Ok(url), Ok(expected)) => assert_eq!(url.to_string(), expected, "{list}"),
                (Err(complaint), Err(part)) => {
                    let said = complaint.to_string();
                    assert!(said.contains(part), "{list}: {said}");
                }
                (found, _) => panic!("{list}: {found:?}"),
            }
        }
    }

    #[test]
    fn the_origins_of_a_region_are_those_that_links_may_lead_to() {
        let shown = |interface, region| -> Vec<String> {
            catalog().origins(interface, region).iter().map(Origin::shown).collect()
        };
        assert_eq!(shown(Interface::Internal, None), ["http://n1.internal:8774"]);
        assert_eq!(shown(Interface::Public, Some("Two")), ["http://n2:8774"]);
        // Each once.
        assert_eq!(
            shown(Interface::Public, Some("One")).iter().filter(|shown| *shown == "http://c").count(),
            1
        );
    }
}
