//! Every request of a `reqwest` client as a point: `let client = traced(client);`, and nothing else.
//!
//! As [`super::http_client`] does it for tower: the request carries the trace, the point is named by the
//! URL's scheme, its stop has the status or the error. Where no profiler is initialised a request passes
//! untouched. Redirects belong to the request that they answer; they go on with its headers, as reqwest has
//! it, also to other hosts: a client that may meet strangers should not follow them.

use std::fmt::Display;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method, Version};
use reqwest::{Body, Client, Error, IntoUrl, Request, RequestBuilder, Response};
use serde::Serialize;

use super::http_client::{RequestStart, add_headers, status};
use super::record::Info;
use super::trace::current;
use super::trace::failure;
use super::traced::TracedFuture;

/// Makes every request of `client` a point.
#[must_use]
pub fn traced(client: Client) -> TracedClient {
    TracedClient { client }
}

/// A client whose requests are points; made by [`traced`]. Clones share its connections.
#[derive(Clone, Debug)]
pub struct TracedClient {
    client: Client,
}

macro_rules! methods {
    ($($name:ident $method:ident),+) => {
        $(
            #[doc = concat!("As [`Client::", stringify!($name), "`].")]
            pub fn $name(&self, url: impl IntoUrl) -> TracedRequest {
                self.request(Method::$method, url)
            }
        )+
    };
}

impl TracedClient {
    methods!(delete DELETE, get GET, head HEAD, patch PATCH, post POST, put PUT);

    /// As [`Client::request`].
    pub fn request(&self, method: Method, url: impl IntoUrl) -> TracedRequest {
        TracedRequest { request: self.client.request(method, url) }
    }

    /// As [`Client::execute`].
    ///
    /// # Errors
    /// As there.
    pub async fn execute(&self, mut request: Request) -> Result<Response, Error> {
        let Some(parent) = current::current() else { return self.client.execute(request).await };
        let RequestStart { name, info } = requested(&request);
        let scope = parent.enter(&name, Some(info));
        add_headers(request.headers_mut(), scope.trace());
        let call = self.client.execute(request);
        TracedFuture::running(call, Some(current::Flow::of_point(scope)), Some(answered)).await
    }

    /// The wrapped client. Its requests do not become points.
    #[must_use]
    pub fn untraced(&self) -> &Client {
        &self.client
    }
}

/// A request about to be sent; made by [`TracedClient`].
#[derive(Debug)]
#[must_use = "nothing is sent until `send` is awaited"]
pub struct TracedRequest {
    request: RequestBuilder,
}

impl TracedRequest {
    /// Changes the request by a method of reqwest's builder that is not here.
    pub fn with(self, change: impl FnOnce(RequestBuilder) -> RequestBuilder) -> Self {
        Self { request: change(self.request) }
    }

    /// As [`RequestBuilder::header`].
    pub fn header<K, V>(self, key: K, value: V) -> Self
    where
        HeaderName: TryFrom<K>,
        <HeaderName as TryFrom<K>>::Error: Into<http::Error>,
        HeaderValue: TryFrom<V>,
        <HeaderValue as TryFrom<V>>::Error: Into<http::Error>,
    {
        self.with(|request| request.header(key, value))
    }

    /// As [`RequestBuilder::headers`].
    pub fn headers(self, headers: HeaderMap) -> Self {
        self.with(|request| request.headers(headers))
    }

    /// As [`RequestBuilder::basic_auth`].
    pub fn basic_auth(self, user: impl Display, password: Option<impl Display>) -> Self {
        self.with(|request| request.basic_auth(user, password))
    }

    /// As [`RequestBuilder::bearer_auth`].
    pub fn bearer_auth(self, token: impl Display) -> Self {
        self.with(|request| request.bearer_auth(token))
    }

    /// As [`RequestBuilder::body`].
    pub fn body(self, body: impl Into<Body>) -> Self {
        self.with(|request| request.body(body))
    }

    /// As [`RequestBuilder::json`].
    pub fn json(self, json: &(impl Serialize + ?Sized)) -> Self {
        self.with(|request| request.json(json))
    }

    /// As [`RequestBuilder::timeout`].
    pub fn timeout(self, timeout: Duration) -> Self {
        self.with(|request| request.timeout(timeout))
    }

    /// As [`RequestBuilder::version`].
    pub fn version(self, version: Version) -> Self {
        self.with(|request| request.version(version))
    }

    /// As [`RequestBuilder::build`].
    ///
    /// # Errors
    /// As there.
    pub fn build(self) -> Result<Request, Error> {
        self.request.build()
    }

    /// As [`RequestBuilder::send`], as a point.
    ///
    /// # Errors
    /// As there.
    pub async fn send(self) -> Result<Response, Error> {
        let (client, request) = self.request.build_split();
        TracedClient { client }.execute(request?).await
    }
}

fn requested(request: &Request) -> RequestStart {
    let url = request.url();
    RequestStart::of(
        request.method(),
        url.scheme(),
        url.host_str(),
        url.port_or_known_default(),
        url.path(),
        url.query(),
    )
}

fn answered(result: &Result<Response, Error>) -> Option<Info> {
    Some(match result {
        Ok(response) => status(response.status()),
        // The URL may hold a secret.
        Err(error) => failure(std::any::type_name::<Error>(), &chain(error)),
    })
}

/// The error and its causes, without the URL.
fn chain(error: &Error) -> String {
    use std::error::Error as _;
    let kind = match error {
        error if error.is_timeout() => "the request took too long",
        error if error.is_connect() => "no connection",
        error if error.is_redirect() => "a redirect that is not followed",
        _ => "the request failed",
    };
    let mut text = kind.to_owned();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
