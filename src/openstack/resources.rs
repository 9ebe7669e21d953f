//! Makes what is in a project: images, networks and volumes.

use std::io::Read as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value as Json, json};

use super::cloud::{Caller, CloudService, Problem, text};
use super::maker::{Maker, Tenant, each};
use client::plain::PlainClient;
use plan::contexts::{Contexts, ImageSource, Images, NetworkContext, Volumes};
use text::files::open_regular;

/// The largest image, which is held in memory while it is uploaded.
const IMAGE_BYTES_MAX: usize = 1 << 30;
const ZEROS: usize = 1024;
/// How long a volume may take to become available.
const VOLUME_WITHIN: Duration = Duration::from_secs(120);
const ASK_EVERY: Duration = Duration::from_millis(500);

/// The content of images.
pub(super) async fn content(source: &ImageSource, client: &PlainClient) -> Result<bytes::Bytes, Problem> {
    let too_large = |what: &str| Problem::new(format!("{what} is larger than {IMAGE_BYTES_MAX} bytes"));
    match source {
        ImageSource::Zeros => Ok(vec![0; ZEROS].into()),
        ImageSource::Url(url) => {
            let read = client.download(url, IMAGE_BYTES_MAX).await;
            read.map(Into::into).map_err(|error| Problem::new(error.to_string()))
        }
        ImageSource::File(path) => {
            let mut bytes = Vec::new();
            let read = open_regular(path)
                .and_then(|file| file.take(IMAGE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes));
            read.map_err(|error| Problem::new(format!("cannot read {}: {error}", path.display())))?;
            if bytes.len() > IMAGE_BYTES_MAX {
                return Err(too_large(&path.display().to_string()));
            }
            Ok(bytes.into())
        }
    }
}

impl Maker<'_> {
    /// Everything in a project, as `context.tenant`. `ranges` counts the ranges of addresses that are used.
    pub(super) async fn resources(
        &self,
        contexts: &Contexts,
        tenant: &Tenant,
        content: &bytes::Bytes,
        ranges: &AtomicU32,
    ) -> Result<Json, Problem> {
        let (mut images, mut networks, mut volumes) = (Vec::new(), Vec::new(), Vec::new());
        if let Some(wanted) = &contexts.images {
            for _ in 0..wanted.per_tenant {
                images.push(self.image(wanted, &tenant.caller, content).await?);
            }
        }
        if let Some(wanted) = &contexts.network {
            for _ in 0..wanted.networks {
                networks.push(self.network(wanted, &tenant.caller, ranges).await?);
            }
        }
        if let Some(wanted) = &contexts.volumes {
            let numbers = 0..wanted.per_tenant;
            volumes = each(numbers, contexts.workers, |_| self.volume(wanted, &tenant.caller)).await?;
        }
        Ok(
            json!({ "id": tenant.id, "name": tenant.name, "images": images, "networks": networks, "volumes": volumes }),
        )
    }

    async fn post(&self, caller: &Caller, to: (CloudService, &str), body: &Json) -> Result<Json, Problem> {
        self.cloud.call(caller, Method::POST, to, Some(body)).await
    }

    async fn image(&self, wanted: &Images, caller: &Caller, content: &bytes::Bytes) -> Result<Json, Problem> {
        let name = self.name("image");
        let body = json!({ "name": name, "disk_format": wanted.disk_format, "container_format": wanted.container_format,
            "visibility": wanted.visibility, "min_ram": wanted.min_ram, "min_disk": wanted.min_disk });
        let id = text(&self.post(caller, (CloudService::Glance, "/images"), &body).await?, "/id")?;
        self.cloud.upload(caller, &format!("/images/{id}/file"), content.clone()).await?;
        Ok(json!({ "id": id, "name": name }))
    }

    async fn network(
        &self,
        wanted: &NetworkContext,
        caller: &Caller,
        ranges: &AtomicU32,
    ) -> Result<Json, Problem> {
        let name = self.name("network");
        let mut attributes = wanted.attributes.clone();
        attributes.insert("name".to_owned(), name.clone().into());
        let body = json!({ "network": attributes });
        let made = self.post(caller, (CloudService::Neutron, "/networks"), &body).await?;
        let id = text(&made, "/network/id")?;
        let router = self.router(wanted, caller).await?;
        let mut subnets = Vec::new();
        for _ in 0..wanted.subnets {
            let range = wanted.start.nth(ranges.fetch_add(1, Ordering::Relaxed));
            let none =
                || Problem::new(format!("there are no more ranges of addresses after {}", wanted.start));
            let range = range.ok_or_else(none)?.to_string();
            let mut subnet =
                json!({ "name": self.name("subnet"), "network_id": id, "ip_version": 4, "cidr": range });
            if !wanted.name_servers.is_empty() {
                subnet["dns_nameservers"] = json!(wanted.name_servers);
            }
            let made =
                self.post(caller, (CloudService::Neutron, "/subnets"), &json!({ "subnet": subnet })).await?;
            let subnet = text(&made, "/subnet/id")?;
            if let Some(router) = &router {
                let (path, body) =
                    (format!("/routers/{router}/add_router_interface"), json!({ "subnet_id": subnet }));
                self.cloud.call(caller, Method::PUT, (CloudService::Neutron, &path), Some(&body)).await?;
            }
            subnets.push(json!({ "id": subnet, "cidr": range }));
        }
        Ok(json!({ "id": id, "name": name, "router_id": router, "subnets": subnets }))
    }

    /// The router of a network; `None` if the cloud has no routers.
    async fn router(&self, wanted: &NetworkContext, caller: &Caller) -> Result<Option<String>, Problem> {
        let mut router = json!({ "name": self.name("router") });
        if let Some(gateway) = &wanted.gateway {
            router["external_gateway_info"] = json!(gateway);
        } else if wanted.external {
            let path = (CloudService::Neutron, "/networks?router:external=true");
            let external = self.cloud.call(caller, Method::GET, path, None).await?;
            if let Some(id) = external.pointer("/networks/0/id") {
                router["external_gateway_info"] = json!({ "network_id": id });
            }
        }
        match self.post(caller, (CloudService::Neutron, "/routers"), &json!({ "router": router })).await {
            Ok(made) => text(&made, "/router/id").map(Some),
            Err(problem) if problem.is_absence() => Ok(None),
            Err(problem) => Err(problem),
        }
    }

    async fn volume(&self, wanted: &Volumes, caller: &Caller) -> Result<Json, Problem> {
        let name = self.name("volume");
        let mut volume = json!({ "name": name, "size": wanted.size });
        if let Some(kind) = &wanted.kind {
            volume["volume_type"] = json!(kind);
        }
        let made =
            self.post(caller, (CloudService::Cinder, "/volumes"), &json!({ "volume": volume })).await?;
        let id = text(&made, "/volume/id")?;
        let (path, began) = (format!("/volumes/{id}"), Instant::now());
        loop {
            let answer = self.cloud.call(caller, Method::GET, (CloudService::Cinder, &path), None).await?;
            match answer.pointer("/volume/status").and_then(Json::as_str) {
                Some("available") => return Ok(json!({ "id": id, "name": name })),
                Some(status) if status.starts_with("error") => {
                    return Err(Problem::new(format!("the volume {name} ended in the status {status}")));
                }
                _ if began.elapsed() > VOLUME_WITHIN => {
                    let seconds = VOLUME_WITHIN.as_secs();
                    return Err(Problem::new(format!(
                        "the volume {name} was not available after {seconds} s"
                    )));
                }
                _ => tokio::time::sleep(ASK_EVERY).await,
            }
        }
    }
}
