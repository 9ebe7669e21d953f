//! How to reach PostgreSQL.
//!
//! Options after the `?`, under the names of libpq: `sslmode` (`disable`, `allow`, `prefer` (default),
//! `require`, `verify-ca`, `verify-full`), `sslrootcert`, `sslcert`, `sslkey` (PEM files), `host` (also a
//! directory with a socket), `port`, `user`, `password`, `dbname`, `application_name`. Others are
//! ignored, except those that ask for TLS in a way that is unknown here.

use sqlx::Postgres;
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use url::Url;

use super::dialect::POSTGRES;
use super::engine::{self, EngineFuture};
use super::{file, with_host};

const FORM: &str = "write it as postgresql://user:password@host[:port]/database, special characters as %XX";
const SSL_MODE: &str = "sslmode must be disable, allow, prefer, require, verify-ca or verify-full";
const UNKNOWN_SSL: &str =
    "an unsupported TLS option; only sslmode, sslrootcert, sslcert and sslkey are supported";

/// Opens what is described by `rest`, which follows `postgresql://`.
pub(super) fn open(rest: &str) -> Result<EngineFuture, &'static str> {
    Ok(engine::open::<Postgres>(options(rest)?, &POSTGRES))
}

fn options(rest: &str) -> Result<PgConnectOptions, &'static str> {
    let url = Url::parse(&format!("postgresql://{}", with_host(rest))).map_err(|_| FORM)?;
    let mut bare = url.clone();
    bare.set_query(None);
    bare.set_fragment(None);
    // The library would log unknown parameters, including their values.
    let mut options: PgConnectOptions = bare.as_str().parse().map_err(|_| FORM)?;
    let (mut mode, mut ca) = (None, false);
    for (name, value) in url.query_pairs() {
        match &*name {
            "sslmode" | "ssl-mode" => mode = Some(value.parse().map_err(|_| SSL_MODE)?),
            "sslrootcert" | "ssl-root-cert" | "ssl-ca" => {
                ca = true;
                options = options.ssl_root_cert(file(&value)?);
            }
            "sslcert" | "ssl-cert" => options = options.ssl_client_cert(file(&value)?),
            "sslkey" | "ssl-key" => options = options.ssl_client_key(file(&value)?),
            "host" if value.starts_with('/') => options = options.socket(&*value),
            "host" | "hostaddr" => options = options.host(&value),
            "port" => options = options.port(value.parse().map_err(|_| FORM)?),
            "user" => options = options.username(&value),
            "password" => options = options.password(&value),
            "dbname" => options = options.database(&value),
            "application_name" => options = options.application_name(&value),
            "sslcompression" | "sslsni" => {}
            name if name.starts_with("ssl") => return Err(UNKNOWN_SSL),
            _ => {}
        }
    }
    if options.get_database().is_none_or(str::is_empty) {
        return Err(FORM);
    }
    // A CA that is named must be looked at: by default, it would not be.
    let mode = mode.or(ca.then_some(PgSslMode::VerifyCa));
    Ok(mode.into_iter().fold(options, PgConnectOptions::ssl_mode))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn connection_strings_are_read() {
        for (rest, expected) in [
            ("u:p%40%2Fw@h/d", "h:5432 u Some(\"d\") Prefer None"),
            ("u@h:1/d?sslmode=verify-full&sslrootcert=/dev/null", "h:1 u Some(\"d\") VerifyFull None"),
            ("u@h/d?sslrootcert=/dev/null&connect_timeout=3", "h:5432 u Some(\"d\") VerifyCa None"),
            ("u@/d?host=/run/pg&port=7", "x:7 u Some(\"d\") Prefer Some(\"/run/pg\")"),
            ("u@h?dbname=d", "h:5432 u Some(\"d\") Prefer None"),
            ("u@h/d?sslmode=some", SSL_MODE),
            ("u@h/d?sslcrl=x", UNKNOWN_SSL),
            ("u@h", FORM),
            ("u@h:x/d", FORM),
            ("u:%ff@h/d", FORM),
        ] {
            let shown = match options(rest) {
                Ok(read) => format!(
                    "{}:{} {} {:?} {:?} {:?}",
                    read.get_socket().map_or(read.get_host(), |_| "x"),
                    read.get_port(),
                    read.get_username(),
                    read.get_database(),
                    read.get_ssl_mode(),
                    read.get_socket(),
                ),
                Err(reason) => reason.to_owned(),
            };
            assert_eq!(shown, expected, "{rest}");
        }
    }

    proptest! {
        #[test]
        fn no_connection_string_makes_it_panic(rest in ".{0,40}") {
            let _ = options(&rest);
        }
    }
}
