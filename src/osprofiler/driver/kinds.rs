//! The kinds of collectors: one row for each, with its schemes, what it can do and how it is reached.
//!
//! A kind that this build leaves out has a row all the same, so that its scheme is known and the error
//! names the cargo feature.

use std::pin::Pin;
use std::sync::Arc;

use super::one_way::{JAEGER_NOT_WRITTEN, TEMPO_NOT_WRITTEN};
use super::{Driver, DriverError};
use base::secret::redacted_url;

type ConnectFuture<'a> = Pin<Box<dyn Future<Output = Result<Arc<dyn Driver>, DriverError>> + Send + 'a>>;

/// One kind of collector.
struct CollectorKind {
    /// The part before `://`.
    schemes: &'static [&'static str],
    /// Schemes that are only there to be refused with a reason.
    refused_schemes: &'static [&'static str],
    /// A scheme may name a Python library after a `+`, which is ignored.
    names_library: bool,
    /// The cargo feature that brings it; empty if every build has it.
    feature: &'static str,
    /// Why traces cannot be read from it, and what to name instead.
    not_read: Option<&'static str>,
    /// Why traces cannot be written to it, and what to name instead.
    not_written: Option<&'static str>,
    /// It stores OpenTelemetry's spans, so services need not speak OSProfiler.
    stores_spans: bool,
    /// What follows the scheme may be a path instead of hosts with ports.
    is_path: bool,
    /// `None` if this build leaves it out.
    access: Option<Access>,
}

/// How a kind is reached, by connection string and redacted URL.
struct Access {
    check: fn(&str, String) -> Result<(), DriverError>,
    connect: for<'a> fn(&'a str, String) -> ConnectFuture<'a>,
}

/// What most kinds have in common: they are read and written, and reached by host and port.
const PLAIN: CollectorKind = CollectorKind {
    schemes: &[],
    refused_schemes: &[],
    names_library: false,
    feature: "",
    not_read: None,
    not_written: None,
    stores_spans: false,
    is_path: false,
    access: None,
};

/// The row's access, if the feature is on: from a type with `check` and `connect`.
macro_rules! access {
    ($feature:literal, $collector:ty) => {{
        #[cfg(feature = $feature)]
        let access = access!($collector);
        #[cfg(not(feature = $feature))]
        let access = None;
        access
    }};
    ($collector:ty) => {
        Some(Access {
            check: |url, target| <$collector>::check(url, target),
            connect: |url, target| {
                Box::pin(async move {
                    let collector = <$collector>::connect(url, target).await?;
                    Ok(Arc::new(collector) as Arc<dyn Driver>)
                })
            },
        })
    };
}

const KINDS: [CollectorKind; 11] = [
    CollectorKind {
        schemes: &["elasticsearch", "elasticsearch+http", "elasticsearch+https"],
        feature: "elasticsearch",
        access: access!("elasticsearch", super::elasticsearch::ElasticsearchCollector),
        ..PLAIN
    },
    CollectorKind { schemes: &["file"], is_path: true, access: access!(super::file::FileCollector), ..PLAIN },
    CollectorKind {
        schemes: &["jaeger", "jaeger+https"],
        feature: "jaeger",
        not_written: Some(JAEGER_NOT_WRITTEN),
        stores_spans: true,
        access: access!("jaeger", super::jaeger::JaegerCollector),
        ..PLAIN
    },
    CollectorKind {
        schemes: &["messaging", "messaging+amqps"],
        feature: "messaging",
        access: access!("messaging", super::messaging::MessagingCollector),
        ..PLAIN
    },
    CollectorKind {
        schemes: &["mongodb"],
        refused_schemes: &["mongodb+srv"],
        feature: "mongodb",
        access: access!("mongodb", super::mongodb::MongoCollector),
        ..PLAIN
    },
    CollectorKind {
        schemes: &["mariadb", "mysql"],
        names_library: true,
        feature: "mysql",
        access: access!("mysql", super::sql::SqlCollector),
        ..PLAIN
    },
    CollectorKind {
        schemes: &["otlp", "otlps"],
        feature: "otlp",
        not_read: Some(
            "OTLP only takes spans in; name the query API of what stores them: jaeger://HOST or tempo://HOST",
        ),
        stores_spans: true,
        access: access!("otlp", super::otlp::OtlpCollector),
        ..PLAIN
    },
    CollectorKind {
        schemes: &["postgres", "postgresql"],
        names_library: true,
        feature: "postgres",
        access: access!("postgres", super::sql::SqlCollector),
        ..PLAIN
    },
    CollectorKind {
        schemes: &["redis", "rediss", "redissentinel"],
        feature: "redis",
        access: access!("redis", super::redis::RedisCollector),
        ..PLAIN
    },
    CollectorKind {
        schemes: &["sqlite"],
        names_library: true,
        feature: "sqlite",
        is_path: true,
        access: access!("sqlite", super::sql::SqlCollector),
        ..PLAIN
    },
    CollectorKind {
        schemes: &["tempo", "tempo+https"],
        feature: "tempo",
        not_written: Some(TEMPO_NOT_WRITTEN),
        stores_spans: true,
        access: access!("tempo", super::tempo::TempoCollector),
        ..PLAIN
    },
];

/// The schemes of connection strings, in order; schemes of SQL databases may name a Python library after a `+`.
#[must_use]
pub fn schemes() -> Vec<&'static str> {
    let mut schemes: Vec<_> = KINDS.iter().flat_map(|kind| kind.schemes).copied().collect();
    schemes.sort_unstable();
    schemes
}

impl CollectorKind {
    fn handles(&self, scheme: &str) -> bool {
        let scheme = if self.names_library { scheme.split('+').next().unwrap_or_default() } else { scheme };
        self.schemes.contains(&scheme) || self.refused_schemes.contains(&scheme)
    }
}

/// The kind that a connection string names, its scheme and what follows that.
fn kind(connection: &str) -> Result<(&'static CollectorKind, &str, &str), DriverError> {
    let found = connection.split_once("://").and_then(|(scheme, rest)| {
        let kind = KINDS.iter().find(|kind| kind.handles(scheme))?;
        Some((kind, scheme, rest))
    });
    found.ok_or_else(|| unsupported(connection))
}

impl CollectorKind {
    fn access(&self, scheme: &str) -> Result<&Access, DriverError> {
        let missing = || DriverError::NotBuilt { scheme: format!("{scheme}://"), feature: self.feature };
        self.access.as_ref().ok_or_else(missing)
    }
}

pub(super) async fn connect(connection: &str) -> Result<Arc<dyn Driver>, DriverError> {
    let (kind, scheme, _) = kind(connection)?;
    (kind.access(scheme)?.connect)(connection, redacted_url(connection)).await
}

/// Like [`connect`], for callers that only read.
pub(super) async fn connect_to_read(connection: &str) -> Result<Arc<dyn Driver>, DriverError> {
    #[cfg(feature = "sqlite")]
    if super::sql::is_file(connection) {
        let target = redacted_url(connection);
        let collector = super::sql::SqlCollector::connect_to_read(connection, target).await?;
        return Ok(Arc::new(collector) as Arc<dyn Driver>);
    }
    connect(connection).await
}

pub(super) fn check(connection: &str) -> Result<(), DriverError> {
    let (kind, scheme, rest) = kind(connection)?;
    let (access, target) = (kind.access(scheme)?, redacted_url(connection));
    if !kind.is_path && !ports_are_numbers(rest) {
        let reason = "the port of a host is a number from 0 to 65535, as in redis://host:6379";
        return Err(DriverError::Invalid { target, reason });
    }
    (access.check)(connection, target)
}

pub(super) fn reads(connection: &str) -> Result<(), DriverError> {
    offers("read from", connection, |kind| kind.not_read)
}

pub(super) fn writes(connection: &str) -> Result<(), DriverError> {
    offers("write to", connection, |kind| kind.not_written)
}

pub(super) fn stores_spans(connection: &str) -> bool {
    kind(connection).is_ok_and(|(kind, ..)| kind.stores_spans)
}

fn offers(
    action: &'static str,
    connection: &str,
    not_offered: fn(&CollectorKind) -> Option<&'static str>,
) -> Result<(), DriverError> {
    let (kind, scheme, _) = kind(connection)?;
    match not_offered(kind) {
        Some(reason) => Err(DriverError::NotOffered { action, target: redacted_url(connection), reason }),
        None => kind.access(scheme).map(drop),
    }
}

/// Whether what follows the host's colon is a port, for each of several hosts.
fn ports_are_numbers(rest: &str) -> bool {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let hosts = authority.rsplit('@').next().unwrap_or_default();
    hosts.split(',').all(|host| {
        // The colons of an IPv6 address are in brackets.
        let after = host.rsplit(']').next().unwrap_or_default();
        after.split_once(':').is_none_or(|(_, port)| port.is_empty() || port.parse::<u16>().is_ok())
    })
}

/// The scheme, if the text there can be one: it may be a misplaced password.
fn unsupported(connection: &str) -> DriverError {
    let shown = redacted_url(connection);
    let scheme =
        shown.split_once("://").map_or("no scheme://".to_owned(), |(scheme, _)| format!("{scheme}://"));
    DriverError::Unsupported { scheme }
}
