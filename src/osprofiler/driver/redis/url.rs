//! Connection strings of redis: `redis://`, `rediss://` (TLS) and `redissentinel://`.
//!
//! What redis-py takes after the `?` is taken here too where it bears on safety (`ssl_*`) or on which
//! data is meant (`db`, `username`, `password`); its tuning knobs are ignored. No message may quote a
//! connection string.

use std::path::Path;

use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{
    Client, ClientTlsConfig, ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo, TlsCertificates,
};
use url::{Host, Url};

use base::percent;

const REDIS_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;
/// What the Python driver's option `sentinel_service_name` is unless set.
const SERVICE_DEFAULT: &str = "mymaster";
/// More of them are a mistake, and each costs time when it is down.
const SENTINELS_MAX: usize = 16;
/// Larger files are not certificates.
const PEM_BYTES_MAX: u64 = 1 << 20;

const FORM: &str = "write it as redis://[user:password@]host[:port][/db], special characters as %XX";
const SENTINEL_FORM: &str = "write it as redissentinel://[:password@]host:port[,host:port]/service[?db=N], \
     special characters as %XX";
const DB: &str = "the database must be a number, as in redis://host:6379/0";
const CERT_REQS: &str = "ssl_cert_reqs must be `required` or `none`";
const PEM: &str =
    "ssl_ca_certs, ssl_certfile and ssl_keyfile must name readable PEM files; the last two need each other";
const UNKNOWN_SSL: &str = "an unsupported TLS option; only ssl_ca_certs, ssl_certfile, ssl_keyfile, ssl_cert_reqs and \
     ssl_check_hostname are supported";
const TLS_ONLY: &str = "TLS options need rediss://";

/// How to reach a redis, and what to store there.
pub(super) struct Target {
    pub(super) source: ConnectionSource,
    /// Failed traces get a separate key, as with the Python driver's `filter_error_trace`.
    pub(super) filter_error_trace: bool,
    /// Look for every trace under the keys of old releases too.
    pub(super) legacy: bool,
}

/// Who gives connections.
pub(super) enum ConnectionSource {
    /// The redis itself.
    Direct(Box<Client>),
    /// Sentinels, which know the redis that is the master at the moment.
    Sentinel(Box<tokio::sync::Mutex<SentinelClient>>),
}

/// Reads a connection string; the error is the reason, without the string.
pub(super) fn parse(connection: &str) -> Result<Target, &'static str> {
    let (scheme, rest) = connection.split_once("://").ok_or(FORM)?;
    if scheme == "redissentinel" {
        let (builder, filter_error_trace, legacy) = sentinels(rest)?;
        let client = builder.build().map_err(|_| SENTINEL_FORM)?;
        let source = ConnectionSource::Sentinel(Box::new(tokio::sync::Mutex::new(client)));
        return Ok(Target { source, filter_error_trace, legacy });
    }
    let url = Url::parse(connection).map_err(|_| FORM)?;
    let options = RedisOptions::read(&url, FORM)?;
    let (host, port) = address(&url, REDIS_PORT).ok_or(FORM)?;
    let db = match (options.db, url.path().trim_matches('/')) {
        (Some(db), _) => db,
        (None, "") => 0,
        (None, path) => path.parse().map_err(|_| DB)?,
    };
    let mut settings = RedisConnectionInfo::default().set_db(db);
    if let Some(user) = &options.user {
        settings = settings.set_username(user);
    }
    if let Some(password) = &options.password {
        settings = settings.set_password(password);
    }
    let client = match scheme {
        "rediss" => {
            let mut address =
                ConnectionAddr::TcpTls { host, port, insecure: options.insecure, tls_params: None };
            if options.any_host {
                address.set_danger_accept_invalid_hostnames(true);
            }
            open_tls(address, settings, options.certificates, options.any_host)?
        }
        _ if options.tls_named => return Err(TLS_ONLY),
        _ => {
            let info = ConnectionAddr::Tcp(host, port).into_connection_info().map_err(|_| FORM)?;
            Client::open(info.set_redis_settings(settings)).map_err(|_| FORM)?
        }
    };
    let source = ConnectionSource::Direct(Box::new(client));
    Ok(Target { source, filter_error_trace: options.filter_error_trace, legacy: options.legacy })
}

fn open_tls(
    address: ConnectionAddr,
    settings: RedisConnectionInfo,
    certificates: Option<TlsCertificates>,
    any_host: bool,
) -> Result<Client, &'static str> {
    let info = address.into_connection_info().map_err(|_| FORM)?.set_redis_settings(settings);
    let Some(certificates) = certificates else { return Client::open(info).map_err(|_| FORM) };
    let client = Client::build_with_tls(info, certificates).map_err(|_| PEM)?;
    if !any_host {
        return Ok(client);
    }
    // Certificates replace what was set before them.
    let info = client.get_connection_info().clone();
    let mut address = info.addr().clone();
    address.set_danger_accept_invalid_hostnames(true);
    Client::open(info.set_addr(address)).map_err(|_| FORM)
}

/// `rest` is what follows `redissentinel://`. As with the Python driver, the password is that of the
/// redis behind the sentinels; theirs is the option `sentinel_password`.
fn sentinels(rest: &str) -> Result<(SentinelClientBuilder, bool, bool), &'static str> {
    let authority_len = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(authority_len);
    let (user_info, hosts) =
        authority.rsplit_once('@').map_or(("", authority), |(user, hosts)| (user, hosts));
    let mut sentinels = Vec::new();
    for host in hosts.split(',') {
        let url = Url::parse(&format!("redis://{host}")).map_err(|_| SENTINEL_FORM)?;
        let (host, port) = address(&url, SENTINEL_PORT).ok_or(SENTINEL_FORM)?;
        sentinels.push(ConnectionAddr::Tcp(host, port));
    }
    if sentinels.len() > SENTINELS_MAX {
        return Err(SENTINEL_FORM);
    }
    let url = Url::parse(&format!("redis://{user_info}@h{tail}")).map_err(|_| SENTINEL_FORM)?;
    let options = RedisOptions::read(&url, SENTINEL_FORM)?;
    if options.tls_named {
        return Err(TLS_ONLY);
    }
    let service = decode(url.path().trim_matches('/')).ok_or(SENTINEL_FORM)?;
    let service = if service.is_empty() { SERVICE_DEFAULT.to_owned() } else { service };
    let mut builder = SentinelClientBuilder::new(sentinels, service, SentinelServerType::Master)
        .map_err(|_| SENTINEL_FORM)?
        .set_client_to_redis_db(options.db.unwrap_or(0));
    if let Some(user) = &options.user {
        builder = builder.set_client_to_redis_username(user);
    }
    if let Some(password) = &options.password {
        builder = builder.set_client_to_redis_password(password);
    }
    if let Some(user) = &options.sentinel_user {
        builder = builder.set_client_to_sentinel_username(user);
    }
    if let Some(password) = &options.sentinel_password {
        builder = builder.set_client_to_sentinel_password(password);
    }
    Ok((builder, options.filter_error_trace, options.legacy))
}

#[derive(Default)]
struct RedisOptions {
    user: Option<String>,
    password: Option<String>,
    sentinel_user: Option<String>,
    sentinel_password: Option<String>,
    db: Option<i64>,
    filter_error_trace: bool,
    legacy: bool,
    /// Do not verify the server's certificate.
    insecure: bool,
    /// Verify the certificate, but not whose it is.
    any_host: bool,
    certificates: Option<TlsCertificates>,
    tls_named: bool,
}

impl RedisOptions {
    fn read(url: &Url, form: &'static str) -> Result<Self, &'static str> {
        let mut options = Self::default();
        let given = |text: &str| -> Result<Option<String>, &'static str> {
            Ok(Some(decode(text).ok_or(form)?).filter(|text| !text.is_empty()))
        };
        options.user = given(url.username())?;
        options.password = given(url.password().unwrap_or_default())?;
        options.insecure = url.fragment() == Some("insecure");
        options.tls_named = options.insecure;
        let (mut ca, mut cert, mut key) = (None, None, None);
        for (name, value) in url.query_pairs() {
            let value = value.into_owned();
            match &*name {
                "username" => options.user = Some(value),
                "password" => options.password = Some(value),
                "sentinel_username" => options.sentinel_user = Some(value),
                "sentinel_password" => options.sentinel_password = Some(value),
                "db" => options.db = Some(value.parse().map_err(|_| DB)?),
                "filter_error_trace" => options.filter_error_trace = is_true(&value),
                "legacy" => options.legacy = is_true(&value),
                "ssl_ca_certs" => ca = Some(value),
                "ssl_certfile" => cert = Some(value),
                "ssl_keyfile" => key = Some(value),
                "ssl_check_hostname" => options.any_host = !is_true(&value),
                // Python's `optional` verifies what a server shows, and a server always shows one.
                "ssl_cert_reqs" => match value.trim_start_matches("CERT_").to_ascii_lowercase().as_str() {
                    "none" => options.insecure = true,
                    "required" | "optional" => {}
                    _ => return Err(CERT_REQS),
                },
                name if name.starts_with("ssl_") => return Err(UNKNOWN_SSL),
                _ => {}
            }
            options.tls_named |= name.starts_with("ssl_");
        }
        let client_tls = match (cert, key) {
            (None, None) => None,
            (Some(cert), Some(key)) => {
                Some(ClientTlsConfig { client_cert: read_pem(&cert)?, client_key: read_pem(&key)? })
            }
            _ => return Err(PEM),
        };
        let root_cert = ca.map(|path| read_pem(&path)).transpose()?;
        if client_tls.is_some() || root_cert.is_some() {
            options.certificates = Some(TlsCertificates { client_tls, root_cert });
        }
        Ok(options)
    }
}

fn address(url: &Url, default_port: u16) -> Option<(String, u16)> {
    let host = match url.host() {
        None => "127.0.0.1".to_owned(),
        Some(Host::Domain(name)) => decode(name)?,
        Some(Host::Ipv4(address)) => address.to_string(),
        Some(Host::Ipv6(address)) => address.to_string(),
    };
    Some((host, url.port().unwrap_or(default_port)))
}

/// `%XX` undone. `None` if that is not UTF-8.
fn decode(text: &str) -> Option<String> {
    String::from_utf8(percent::decode(text)).ok()
}

fn is_true(value: &str) -> bool {
    matches!(value.to_ascii_lowercase().as_str(), "true" | "1" | "yes" | "on")
}

fn read_pem(path: &str) -> Result<Vec<u8>, &'static str> {
    let path = Path::new(path);
    let found = std::fs::metadata(path).map_err(|_| PEM)?;
    if !found.is_file() || found.len() > PEM_BYTES_MAX {
        return Err(PEM);
    }
    std::fs::read(path).map_err(|_| PEM)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(connection: &str) -> String {
        match parse(connection) {
            Err(reason) => format!("no: {reason}"),
            Ok(Target { source: ConnectionSource::Direct(client), filter_error_trace, legacy }) => {
                let info = client.get_connection_info();
                let redis = info.redis_settings();
                let (user, password) = (redis.username().unwrap_or("-"), redis.password().unwrap_or("-"));
                let tls = match info.addr() {
                    ConnectionAddr::TcpTls { insecure: true, .. } => " insecure",
                    ConnectionAddr::TcpTls { .. } => " tls",
                    _ => "",
                };
                let errors = if filter_error_trace { " errors" } else { "" };
                let legacy = if legacy { " legacy" } else { "" };
                format!("{} db {} {user} {password}{tls}{errors}{legacy}", info.addr(), redis.db())
            }
            Ok(Target { source: ConnectionSource::Sentinel(_), .. }) => "sentinels".to_owned(),
        }
    }

    #[test]
    fn connection_strings_are_read_as_redis_py_reads_them() {
        for (connection, expected) in [
            ("redis://h", "h:6379 db 0 - -"),
            ("redis://", "127.0.0.1:6379 db 0 - -"),
            ("redis://[::1]:7/3", "::1:7 db 3 - -"),
            ("redis://:p%40s%3A%2Fs%25@h:7/", "h:7 db 0 - p@s:/s%"),
            ("redis://u:p@h?db=4&filter_error_trace=true", "h:6379 db 4 u p errors"),
            ("redis://h?legacy=true", "h:6379 db 0 - - legacy"),
            ("redis://h?username=u&password=p%26&socket_timeout=3", "h:6379 db 0 u p&"),
            ("rediss://h:1/0", "h:1 db 0 - - tls"),
            ("rediss://h?ssl_cert_reqs=none", "h:6379 db 0 - - insecure"),
            ("rediss://h/#insecure", "h:6379 db 0 - - insecure"),
            ("rediss://h?ssl_cert_reqs=required&ssl_check_hostname=false", "h:6379 db 0 - - tls"),
            ("rediss://h?ssl_cert_reqs=perhaps", "no: ssl_cert_reqs must be"),
            ("rediss://h?ssl_ciphers=NULL", "no: an unsupported TLS option"),
            ("rediss://h?ssl_ca_certs=/no/such/file", "no: ssl_ca_certs"),
            ("rediss://h?ssl_certfile=/dev/null", "no: ssl_ca_certs"),
            ("redis://h?ssl_cert_reqs=none", "no: TLS options need rediss"),
            ("redis://h/x", "no: the database must be a number"),
            ("redis://h?db=x", "no: the database must be a number"),
            ("redis://h:x", "no: write it as redis://"),
            ("redis://:%ff@h", "no: write it as redis://"),
            ("redissentinel://h:x/m", "no: write it as redissentinel://"),
        ] {
            let shown = shown(connection);
            assert!(shown.starts_with(expected), "{connection}: {shown}");
            assert!(expected.starts_with("no:") || shown == expected, "{connection}: {shown}");
        }
    }

    #[test]
    fn sentinels_are_several_hosts_and_a_service() {
        for (connection, parts) in [
            ("redissentinel://h", &["\"h\", 26379", "mymaster"][..]),
            ("redissentinel://:p@a:1,[::1]:2,c/%C3%A9?db=5", &["\"a\", 1", "::1\", 2", "c\", 26379", "é"]),
        ] {
            assert_eq!(shown(connection), "sentinels");
            let (_, rest) = connection.split_once("://").unwrap();
            let shown = format!("{:?}", sentinels(rest).map(|(builder, ..)| builder));
            for part in parts {
                assert!(shown.contains(part), "{connection}: no {part} in {shown}");
            }
        }
    }

    proptest! {
        #[test]
        fn no_connection_string_makes_it_panic(text in "(redis|rediss|redissentinel)://.{0,40}") {
            let _ = parse(&text);
        }
    }
}
