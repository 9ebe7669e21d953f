//! How to reach MySQL and MariaDB.
//!
//! Options after the `?`, under the names of the `mysql` client, SQLAlchemy's drivers or sqlx:
//! `ssl-mode` (`DISABLED`, `PREFERRED` (default), `REQUIRED`, `VERIFY_CA`, `VERIFY_IDENTITY`),
//! `ssl-ca`, `ssl-cert`, `ssl-key` (PEM files), `ssl-verify-cert`, `ssl-verify-identity`, `socket`.
//! Dashes and underscores are alike. Others are ignored, except those that ask for TLS in a way that is
//! unknown here.

use sqlx::MySql;
use sqlx::mysql::{MySqlConnectOptions, MySqlSslMode};
use url::Url;

use super::super::Cause;
use super::dialect::MYSQL;
use super::engine::{self, EngineFuture};
use super::{file, with_host};

const FORM: &str = "write it as mysql://user:password@host[:port]/database, special characters as %XX";
const SSL_MODE: &str = "ssl-mode must be DISABLED, PREFERRED, REQUIRED, VERIFY_CA or VERIFY_IDENTITY";
const UNKNOWN_SSL: &str = "an unsupported TLS option; only ssl-mode, ssl-ca, ssl-cert, ssl-key, ssl-verify-cert=true and \
     ssl-verify-identity=true are supported";

/// Opens what is described by `rest`, which follows `mysql://`.
pub(super) fn open(rest: &str) -> Result<EngineFuture, &'static str> {
    let options = options(rest)?;
    Ok(Box::pin(async move { engine::open::<MySql>(options, &MYSQL).await.map_err(explained) }))
}

fn options(rest: &str) -> Result<MySqlConnectOptions, &'static str> {
    let url = Url::parse(&format!("mysql://{}", with_host(rest))).map_err(|_| FORM)?;
    if url.path().trim_matches('/').is_empty() {
        return Err(FORM);
    }
    let mut bare = url.clone();
    bare.set_query(None);
    bare.set_fragment(None);
    let mut options: MySqlConnectOptions = bare.as_str().parse().map_err(|_| FORM)?;
    let (mut mode, mut ca) = (None, false);
    for (name, value) in url.query_pairs() {
        match name.replace('_', "-").as_str() {
            "ssl-mode" | "sslmode" => mode = Some(value.parse().map_err(|_| SSL_MODE)?),
            "ssl-ca" | "sslca" => {
                ca = true;
                options = options.ssl_ca(file(&value)?);
            }
            "ssl-cert" | "sslcert" => options = options.ssl_client_cert(file(&value)?),
            "ssl-key" | "sslkey" => options = options.ssl_client_key(file(&value)?),
            // As PyMySQL has it.
            "ssl-verify-cert" if is_true(&value) => mode = mode.or(Some(MySqlSslMode::VerifyCa)),
            "ssl-verify-identity" if is_true(&value) => mode = Some(MySqlSslMode::VerifyIdentity),
            "socket" | "unix-socket" => options = options.socket(&*value),
            name if name.starts_with("ssl") => return Err(UNKNOWN_SSL),
            _ => {}
        }
    }
    // A CA that is named must be looked at: by default, it would not be.
    let mode = mode.or(ca.then_some(MySqlSslMode::VerifyCa));
    Ok(mode.into_iter().fold(options, MySqlConnectOptions::ssl_mode))
}

fn is_true(value: &str) -> bool {
    matches!(value.to_ascii_lowercase().as_str(), "true" | "1")
}

/// Adds a remedy to errors in which the library refers to its own build.
fn explained(error: Cause) -> Cause {
    let is_about_rsa = error.downcast_ref::<sqlx::Error>().is_some_and(
        |error| matches!(error, sqlx::Error::Configuration(cause) if cause.to_string().contains("RSA")),
    );
    if !is_about_rsa {
        return error;
    }
    "the server wants the password by caching_sha2_password or sha256_password, which goes over TLS only; \
     switch TLS on in the server and append ?ssl-mode=REQUIRED, or give the account mysql_native_password"
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn connection_strings_are_read() {
        for (rest, expected) in [
            ("u:p%40%2Fw@h/d", "h:3306 u Some(\"d\") Preferred"),
            ("u@h:1/d?charset=utf8&ssl_ca=/dev/null", "h:1 u Some(\"d\") VerifyCa"),
            ("u@h/d?ssl-mode=VERIFY_IDENTITY&ssl-ca=/dev/null", "h:3306 u Some(\"d\") VerifyIdentity"),
            ("u@h/d?ssl_verify_identity=true", "h:3306 u Some(\"d\") VerifyIdentity"),
            ("u@/d?sslmode=disabled&unix_socket=/s", "localhost:3306 u Some(\"d\") Disabled"),
            ("u@h/d?ssl_mode=some", SSL_MODE),
            ("u@h/d?ssl_cipher=x", UNKNOWN_SSL),
            ("u@h", FORM),
            ("u@h/", FORM),
            ("u@h:x/d", FORM),
            ("u:%ff@h/d", FORM),
        ] {
            let shown = match options(rest) {
                Ok(read) => format!(
                    "{}:{} {} {:?} {:?}",
                    read.get_host(),
                    read.get_port(),
                    read.get_username(),
                    read.get_database(),
                    read.get_ssl_mode()
                ),
                Err(reason) => reason.to_owned(),
            };
            assert_eq!(shown, expected, "{rest}");
        }
    }

    #[test]
    fn a_password_that_needs_tls_is_explained() {
        let error = sqlx::Error::Configuration("RSA auth backend disabled; enable feature".into());
        assert!(explained(error.into()).to_string().contains("?ssl-mode=REQUIRED"));
        assert!(explained(sqlx::Error::PoolClosed.into()).to_string().contains("closed"));
    }

    proptest! {
        #[test]
        fn no_connection_string_makes_it_panic(rest in ".{0,40}") {
            let _ = options(&rest);
        }
    }
}
