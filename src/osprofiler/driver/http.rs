//! HTTP for the collectors that speak it: bounded answers, no redirects, no proxies.
//!
//! `user:password@` becomes basic authentication, `?tenant=NAME` the header `X-Scope-OrgID`. With
//! `?ssl_ca_certs=PATH` a server by TLS is trusted by the certificates in that PEM file instead of the
//! system's, as with redis. No option is sent. Errors never hold the URL, which may hold the password.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use rustls::{ClientConfig, RootCertStore};
use thiserror::Error;
use url::Url;

use super::{CONNECT_TIMEOUT, DriverError, RESPONSE_TIMEOUT, TRACE_BYTES_MAX};
use base::certificates;

/// The characters of a refusal that an error shows.
const REASON_LEN_MAX: usize = 300;
/// Larger files are not certificates.
const PEM_BYTES_MAX: u64 = 1 << 20;
const PEM: &str = "ssl_ca_certs must name a readable PEM file with certificates";
const TLS_ONLY: &str = "ssl_ca_certs needs TLS: otlps://, elasticsearch+https://, jaeger+https:// or \
    tempo+https://";
const UNKNOWN_SSL: &str = "an unsupported TLS option; only ssl_ca_certs is supported";
const TENANT_HEADER: &str = "x-scope-orgid";

/// A client of one collector.
#[derive(Clone)]
pub(super) struct CollectorHttpClient {
    client: reqwest::Client,
    base: Url,
    target: String,
}

/// An answer in full.
#[derive(Debug)]
pub(super) struct HttpAnswer {
    pub(super) status: u16,
    pub(super) content_type: String,
    pub(super) body: Vec<u8>,
}

/// An answer that is not read to its end.
#[derive(Debug, Error)]
#[error("the answer is larger than {TRACE_BYTES_MAX} bytes")]
struct AnswerTooLarge;

/// Whether the answer was larger than one may be.
pub(super) fn is_too_large(error: &DriverError) -> bool {
    matches!(error, DriverError::Request { source, .. } if source.is::<AnswerTooLarge>())
}

impl CollectorHttpClient {
    /// A client of the collector at `url`, whose scheme is replaced by `scheme` (`http`, `https`).
    /// Nothing is sent yet.
    pub(super) fn new(
        url: &str,
        target: String,
        scheme: &str,
        default_port: u16,
    ) -> Result<Self, DriverError> {
        let invalid = || DriverError::Invalid {
            target: target.clone(),
            reason: "write it as scheme://[user:password@]host[:port][/path][?tenant=NAME], special characters as %XX",
        };
        let rest = url.split_once("://").map(|(_, rest)| rest).unwrap_or_default();
        let mut base = Url::parse(&format!("{scheme}://{rest}")).map_err(|_| invalid())?;
        // The parser leaves a scheme's own port out; only a missing one is replaced.
        if base.port().is_none() && !has_port(rest) {
            base.set_port(Some(default_port)).map_err(|()| invalid())?;
        }
        let mut headers = HeaderMap::new();
        if let Some((_, tenant)) = base.query_pairs().find(|(key, _)| key == "tenant") {
            headers.insert(TENANT_HEADER, HeaderValue::from_str(&tenant).map_err(|_| invalid())?);
        }
        let refused = |reason| DriverError::Invalid { target: target.clone(), reason };
        let mut own_roots = None;
        for (key, value) in base.query_pairs().filter(|(key, _)| key.starts_with("ssl_")) {
            match &*key {
                "ssl_ca_certs" if scheme == "https" => {
                    own_roots = Some(read_roots(&value).ok_or_else(|| refused(PEM))?)
                }
                "ssl_ca_certs" => return Err(refused(TLS_ONLY)),
                _ => return Err(refused(UNKNOWN_SSL)),
            }
        }
        let roots = own_roots.unwrap_or_else(|| {
            if scheme == "https" { certificates::of_system() } else { RootCertStore::empty() }
        });
        base.set_query(None);
        base.set_fragment(None);
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls(&target, roots)?)
            .default_headers(headers)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(RESPONSE_TIMEOUT)
            .build()
            .map_err(|error| DriverError::Connect { target: target.clone(), source: error.into() })?;
        Ok(Self { client, base, target })
    }

    pub(super) fn target(&self) -> &str {
        &self.target
    }

    /// Gets a path below the collector's; `query` pairs are encoded here.
    pub(super) async fn get(
        &self,
        path: &str,
        query: &[(&str, &str)],
        accept: &'static str,
    ) -> Result<HttpAnswer, DriverError> {
        let mut url = self.url(path);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        self.finish("read from", self.client.get(url).header(ACCEPT, accept)).await
    }

    /// Posts a body to a path below the collector's.
    pub(super) async fn post(
        &self,
        path: &str,
        content_type: &'static str,
        body: Vec<u8>,
    ) -> Result<HttpAnswer, DriverError> {
        let request = self.client.post(self.url(path)).header(CONTENT_TYPE, content_type).body(body);
        self.finish("write to", request).await
    }

    /// Sends JSON, or nothing, by any method to a path below the collector's. The path may have a query.
    pub(super) async fn exchange(
        &self,
        action: &'static str,
        method: &str,
        path: &str,
        json: Option<&serde_json::Value>,
    ) -> Result<HttpAnswer, DriverError> {
        let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        let mut url = self.url(path);
        url.set_query(query);
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap_or_default();
        let mut request = self.client.request(method, url).header(ACCEPT, "application/json");
        if let Some(json) = json {
            request = request.json(json);
        }
        self.finish(action, request).await
    }

    /// The error of an answer that is none of success.
    pub(super) fn refused(&self, action: &'static str, answer: &HttpAnswer) -> DriverError {
        let said = String::from_utf8_lossy(&answer.body[..answer.body.len().min(4 * REASON_LEN_MAX)]);
        let words = said.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
        let said: String = words.collect::<Vec<_>>().join(" ").chars().take(REASON_LEN_MAX).collect();
        let reason = match answer.status {
            401 | 403 => "; check the user, password and tenant in its connection string".to_owned(),
            _ if said.is_empty() => String::new(),
            _ => format!(": {said}"),
        };
        DriverError::Status { action, target: self.target.clone(), status: answer.status, reason }
    }

    fn url(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        let whole = format!("{}{path}", url.path().trim_end_matches('/'));
        url.set_path(&whole);
        url
    }

    async fn finish(
        &self,
        action: &'static str,
        request: reqwest::RequestBuilder,
    ) -> Result<HttpAnswer, DriverError> {
        let failed = |error: reqwest::Error| self.failed(action, error);
        let mut response = request.send().await.map_err(failed)?;
        let status = response.status().as_u16();
        let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let content_type = content_type.unwrap_or_default().to_ascii_lowercase();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            if body.len() + chunk.len() > TRACE_BYTES_MAX {
                let (target, source) = (self.target.clone(), AnswerTooLarge.into());
                return Err(DriverError::Request { action, target, source });
            }
            body.extend_from_slice(&chunk);
        }
        Ok(HttpAnswer { status, content_type, body })
    }

    fn failed(&self, action: &'static str, error: reqwest::Error) -> DriverError {
        let target = self.target.clone();
        let error = error.without_url();
        if error.is_connect() {
            DriverError::Connect { target, source: error.into() }
        } else if error.is_timeout() {
            DriverError::Timeout { target, limit: RESPONSE_TIMEOUT }
        } else {
            DriverError::Request { action, target, source: error.into() }
        }
    }
}

impl fmt::Debug for CollectorHttpClient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Http({})", self.target)
    }
}

fn has_port(rest: &str) -> bool {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    host.rsplit_once(':')
        .is_some_and(|(_, port)| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The certificates of a PEM file; `None` if it cannot be read or holds what is none.
fn read_roots(path: &str) -> Option<RootCertStore> {
    if std::fs::metadata(path).ok()?.len() > PEM_BYTES_MAX {
        return None;
    }
    let mut roots = RootCertStore::empty();
    for certificate in certificates::of_file(Path::new(path)).ok()? {
        roots.add(certificate).ok()?;
    }
    Some(roots)
}

fn tls(target: &str, roots: RootCertStore) -> Result<ClientConfig, DriverError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder =
        builder.map_err(|error| DriverError::Connect { target: target.to_owned(), source: error.into() })?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
