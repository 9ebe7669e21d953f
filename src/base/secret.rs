//! The one type that holds HMAC keys, passwords and connection strings.
//!
//! It has no `Debug` that shows it, no `Display` and no `Serialize`: a secret cannot reach a result,
//! a report, a log or an error by accident. Only the code that sends or signs may call
//! [`Secret::expose`]. What a server or a library says may hold a secret all the same; [`super::masking`] hides it there.

use std::fmt;

/// A string that must never be shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes a string into custody.
    #[must_use]
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The secret itself, for signing and sending only.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(***)")
    }
}

/// A URL such as a collector's connection string without user, password and query:
/// `redis://:pw@host:6379/0?password=x` becomes `redis://host:6379/0`.
#[must_use]
pub fn redacted_url(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return "***".to_owned();
    };
    // In a string that is not a URL, the part before :// may be a password, too.
    if !scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '.' | '-')) {
        return "***".to_owned();
    }
    let (rest, query) = rest.find(['?', '#']).map_or((rest, ""), |at| rest.split_at(at));
    // A password with an unescaped question mark would put its end, and the @, into the query.
    if query.contains('@') {
        return format!("{scheme}://***");
    }
    let (authority, path) = rest.split_once('/').map_or((rest, None), |(a, p)| (a, Some(p)));
    // The last @ ends the user info, even where a password holds another one.
    let host = authority.rsplit('@').next().unwrap_or_default();
    path.map_or_else(
        || format!("{scheme}://{host}"),
        |path| {
            // A password with an unescaped slash would put the @ into the path.
            if path.contains('@') { format!("{scheme}://***") } else { format!("{scheme}://{host}/{path}") }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_do_not_show_in_debug() {
        assert_eq!(format!("{:?}", Some(Secret::new("hunter2"))), "Some(Secret(***))");
    }

    #[test]
    fn urls_lose_user_password_and_query() {
        for (url, expected) in [
            ("redis://127.0.0.1:6379", "redis://127.0.0.1:6379"),
            ("redis://:pa@ss@host:6379/0?password=x", "redis://host:6379/0"),
            ("mysql+pymysql://root:pw@db/prof", "mysql+pymysql://db/prof"),
            ("redis://user:pa/ss@host", "redis://***"),
            ("no url at all", "***"),
            ("redis://:top#secret@h", "redis://***"),
            ("mysql://u:top?secret@h/d", "mysql://***"),
            ("redis://h/0?ssl_cert_reqs=none", "redis://h/0"),
            ("foo:secret@h://x", "***"),
        ] {
            assert_eq!(redacted_url(url), expected);
        }
    }
}
