//! How requests use HTTP, as written.

use crate::notation::schema;
use schemars::{JsonSchema, json_schema};
use serde::{Deserialize, Serialize};

use super::reference::SizeText;

/// How requests use HTTP: connections, redirects, compression and size limits.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Http {
    /// `user` (the default): each virtual user keeps its connections until its last iteration. `iteration`: each
    /// iteration opens new connections. `shared`: the users of a worker share connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<Connections>,
    /// With `connections: shared`, the largest number of connections per worker to one origin (default 256).
    #[schemars(range(min = 1, max = 100_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_connections: Option<u32>,
    /// Which requests share cookies. `iteration` (the default): those of an iteration, which begins without cookies.
    /// `user`: those of a virtual user, in all of its iterations; for runners with a fixed number of users. `off`:
    /// cookies are neither kept nor sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cookies: Option<Cookies>,
    /// The largest number of redirects that an action follows (default 0: the redirect itself is checked).
    #[schemars(range(min = 0, max = 50))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirects: Option<u32>,
    /// `true` requests compressed responses. By default, `bench` does not request compression, but decompresses what it
    /// receives if a check or an extraction needs the body; this is not part of the service time. `false` never
    /// decompresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decompress: Option<bool>,
    /// Which requests are sent once more if their connection ends. `safe` (default): a request that an HTTP/2 server
    /// says it did not process. Also GET, HEAD, OPTIONS, PUT and DELETE on a connection that was idle for half a second
    /// or longer, as browsers and other clients do. `never` counts each as a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resend: Option<Resend>,
    /// The largest response body, both before and after decompression (default 64MiB).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_body: Option<SizeText>,
    /// The largest response head: the status line and all headers (default 256KiB).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_head: Option<SizeText>,
    /// The largest number of headers in a response (default 256).
    #[schemars(range(min = 1, max = 10_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_headers: Option<u32>,
    /// The largest size of the trailers after a chunked body (default 64KiB).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_trailers: Option<SizeText>,
}

/// Which requests are sent once more if their connection ends.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Resend {
    /// Those that an HTTP/2 server did not process, and GET, HEAD, OPTIONS, PUT and DELETE on a connection that was idle.
    Safe,
    /// None.
    Never,
}

schema!(Resend, "Resend", |_| json_schema!({ "type": "string", "enum": ["safe", "never"] }));

/// Which requests share cookies.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cookies {
    /// The requests of an iteration.
    Iteration,
    /// The requests of a virtual user.
    User,
    /// None.
    Off,
}

schema!(Cookies, "Cookies", |_| json_schema!({ "type": "string", "enum": ["iteration", "user", "off"] }));

/// Which iterations share connections.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Connections {
    /// Each virtual user keeps its connections.
    User,
    /// Each iteration opens new connections.
    Iteration,
    /// The users of a worker share connections.
    Shared,
}

schema!(
    Connections,
    "Connections",
    |_| json_schema!({ "type": "string", "enum": ["user", "iteration", "shared"] })
);
