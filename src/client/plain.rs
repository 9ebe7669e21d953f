//! HTTP requests that are not load: logging in, probing, collectors. Uses reqwest, with short time limits.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;

use super::options::DnsOptions;
use super::proxy::Proxies;
use super::resolve::Lookup;
use super::url::Origin;

/// The time limit of a request.
pub const TIMEOUT: Duration = Duration::from_secs(20);
/// The largest answer that is read.
pub const BODY_BYTES_MAX: usize = 4 << 20;

/// A complete answer.
pub struct PlainAnswer {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: http::HeaderMap,
    /// The body.
    pub body: Vec<u8>,
}

/// Why there is no answer: one line, shown without secrets.
#[derive(Debug, thiserror::Error)]
#[error("{}", crate::base::masking::masked(.0))]
pub struct PlainError(pub String);

/// Resolves names in the same way as the load.
struct Names(Arc<Lookup>);

impl reqwest::dns::Resolve for Names {
    fn resolve(&self, name: reqwest::dns::Name) -> reqwest::dns::Resolving {
        let lookup = Arc::clone(&self.0);
        Box::pin(async move {
            let found = lookup.find(name.as_str()).await.map_err(|missed| PlainError(missed.to_string()))?;
            let addresses = found.addresses.into_iter().map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(addresses) as reqwest::dns::Addrs)
        })
    }
}

/// A client for requests that are not load.
#[derive(Clone)]
pub struct PlainClient {
    client: reqwest::Client,
}

impl PlainClient {
    /// A client with the deployment's TLS and DNS settings. It does not follow redirects, so that credentials stay with
    /// their target.
    ///
    /// # Errors
    /// If reqwest rejects the settings.
    pub fn new(tls: &Arc<ClientConfig>, dns: &DnsOptions) -> Result<Self, PlainError> {
        Self::through(tls, dns, &Proxies::default())
    }

    /// The same through these proxies.
    ///
    /// # Errors
    /// If reqwest rejects the settings.
    pub fn through(tls: &Arc<ClientConfig>, dns: &DnsOptions, proxies: &Proxies) -> Result<Self, PlainError> {
        let proxies = proxies.clone();
        let of = move |url: &url::Url| {
            let origin = Origin::of(url).ok()?;
            proxies.of(&origin).map(|proxy| proxy.url().to_owned())
        };
        let client = reqwest::Client::builder()
            .dns_resolver(Arc::new(Names(Arc::new(Lookup::new(dns)))))
            .tls_backend_preconfigured(ClientConfig::clone(tls))
            .redirect(reqwest::redirect::Policy::none())
            // Only this one: reqwest would read the environment.
            .no_proxy()
            .proxy(reqwest::Proxy::custom(of))
            .connect_timeout(TIMEOUT / 2)
            .timeout(TIMEOUT)
            .build()
            .map_err(|error| PlainError(super::error::chain(&error)))?;
        Ok(Self { client })
    }

    /// Sends a GET request.
    ///
    /// # Errors
    /// No answer, or one that is too large.
    pub async fn get(&self, url: &str) -> Result<PlainAnswer, PlainError> {
        Self::finish(url, self.client.get(url)).await
    }

    /// Posts JSON.
    ///
    /// # Errors
    /// No answer, or one that is too large.
    pub async fn post_json(&self, url: &str, json: &serde_json::Value) -> Result<PlainAnswer, PlainError> {
        Self::finish(url, self.client.post(url).json(json)).await
    }

    /// Posts a body of this content type.
    ///
    /// # Errors
    /// No answer, or one that is too large.
    pub async fn post_bytes(&self, url: &str, kind: &str, body: Vec<u8>) -> Result<PlainAnswer, PlainError> {
        let request = self.client.post(url).header(http::header::CONTENT_TYPE, kind).body(body);
        Self::finish(url, request).await
    }

    /// Posts a body with these headers.
    ///
    /// # Errors
    /// No answer, or one that is too large.
    pub async fn post_with(
        &self,
        url: &str,
        headers: http::HeaderMap,
        body: bytes::Bytes,
    ) -> Result<PlainAnswer, PlainError> {
        Self::finish(url, self.client.post(url).headers(headers).body(body)).await
    }

    async fn finish(url: &str, request: reqwest::RequestBuilder) -> Result<PlainAnswer, PlainError> {
        let failed = |error: reqwest::Error| {
            PlainError(format!("{url}: {}", super::error::chain(&error.without_url())))
        };
        let mut response = request.send().await.map_err(failed)?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            if body.len() + chunk.len() > BODY_BYTES_MAX {
                return Err(PlainError(format!("{url}: the answer is larger than {BODY_BYTES_MAX} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(PlainAnswer { status, headers, body })
    }
}
