//! HTTP requests that are not load: logging in, probing, collectors. Uses reqwest, with short time limits.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;

use super::options::DnsOptions;
use super::proxy::Proxies;
use super::redirect::location_text;
use super::resolve::Lookup;
use super::url::Origin;

/// The time limit of a request.
pub const TIMEOUT: Duration = Duration::from_secs(20);
/// The largest answer that is read.
pub const BODY_BYTES_MAX: usize = 4 << 20;

/// The time limit of a file.
const FILE_TIMEOUT: Duration = Duration::from_secs(600);
const REDIRECTS_MAX: usize = 5;

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
#[error("{}", base::masking::masked(.0))]
pub struct PlainError(pub String);

/// Resolves names in the same way as the load.
struct LoadResolver(Arc<Lookup>);

impl reqwest::dns::Resolve for LoadResolver {
    fn resolve(&self, name: reqwest::dns::Name) -> reqwest::dns::Resolving {
        let lookup = Arc::clone(&self.0);
        Box::pin(async move {
            let found = lookup.find(name.as_str()).await.map_err(|missed| PlainError(missed.to_string()))?;
            let addresses = found.addresses.into_iter().chain(found.spare);
            let addresses = addresses.map(|address| SocketAddr::new(address, 0));
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
            .dns_resolver(Arc::new(LoadResolver(Arc::new(Lookup::new(dns)))))
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

    /// Sends a request of any method with these headers, and with JSON if there is a body.
    ///
    /// # Errors
    /// No answer, or one that is too large.
    pub async fn send(
        &self,
        method: http::Method,
        url: &str,
        headers: http::HeaderMap,
        json: Option<&serde_json::Value>,
    ) -> Result<PlainAnswer, PlainError> {
        self.send_within(method, url, headers, json, BODY_BYTES_MAX).await
    }

    /// The same, with an answer of at most `most` bytes.
    ///
    /// # Errors
    /// No answer, or one that is too large.
    pub async fn send_within(
        &self,
        method: http::Method,
        url: &str,
        headers: http::HeaderMap,
        json: Option<&serde_json::Value>,
        most: usize,
    ) -> Result<PlainAnswer, PlainError> {
        let request = self.client.request(method, url).headers(headers);
        let request = json.into_iter().fold(request, |request, json| request.json(json));
        Self::finish_within(url, request, most).await
    }

    /// Puts a large body with these headers.
    ///
    /// # Errors
    /// No answer, or one that is too large.
    pub async fn upload(
        &self,
        url: &str,
        headers: http::HeaderMap,
        body: bytes::Bytes,
    ) -> Result<PlainAnswer, PlainError> {
        let request = self.client.put(url).headers(headers).body(body).timeout(FILE_TIMEOUT);
        Self::finish(url, request).await
    }

    /// Gets a file, also where a redirect leads.
    ///
    /// # Errors
    /// No answer, another status than 200, or more bytes than `most`.
    pub async fn download(&self, url: &str, most: usize) -> Result<Vec<u8>, PlainError> {
        let mut url = url.to_owned();
        for _ in 0..=REDIRECTS_MAX {
            let request = self.client.get(&url).timeout(FILE_TIMEOUT);
            let answer = Self::finish_within(&url, request, most).await?;
            let mut locations = answer.headers.get_all(http::header::LOCATION).iter();
            let location = locations.next().filter(|first| locations.all(|other| other == *first));
            let location = location.map(|value| location_text(value.as_bytes()));
            match (answer.status, location) {
                (200, _) => return Ok(answer.body),
                (300..400, Some(location)) => {
                    let next = url::Url::parse(&url).and_then(|url| url.join(&location));
                    url = next.map_err(|error| PlainError(format!("{url}: {error}")))?.into();
                }
                (status, _) => return Err(PlainError(format!("{url} answered {status}"))),
            }
        }
        Err(PlainError(format!("{url}: more than {REDIRECTS_MAX} redirects")))
    }

    async fn finish(url: &str, request: reqwest::RequestBuilder) -> Result<PlainAnswer, PlainError> {
        Self::finish_within(url, request, BODY_BYTES_MAX).await
    }

    async fn finish_within(
        url: &str,
        request: reqwest::RequestBuilder,
        most: usize,
    ) -> Result<PlainAnswer, PlainError> {
        let failed = |error: reqwest::Error| {
            PlainError(format!("{url}: {}", super::error::chain(&error.without_url())))
        };
        let mut response = request.send().await.map_err(failed)?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            if body.len() + chunk.len() > most {
                return Err(PlainError(format!("{url}: the answer is larger than {most} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(PlainAnswer { status, headers, body })
    }
}
