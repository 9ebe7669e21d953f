//! The scheme of a command's URL, which curl guesses where it is missing.
//!
//! Sources: curl's URL-SYNTAX.md and `--proto-default`; for the names of hosts, libcurl's `lib/urlapi.c`.

use crate::ImportError;
use crate::request::split_url;

/// A host whose name begins so speaks that protocol.
const GUESSED: [&str; 6] = ["ftp", "dict", "ldap", "imap", "smtp", "pop3"];

/// The URL with its scheme and two slashes: curl takes one to three.
pub(super) fn complete(url: &str, usual: Option<&str>) -> String {
    if let Some((scheme, rest)) = url.split_once(":/")
        && is_scheme(scheme)
    {
        let rest = rest.strip_prefix('/').unwrap_or(rest);
        return format!("{scheme}://{}", rest.strip_prefix('/').unwrap_or(rest));
    }
    let authority = url.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host).to_ascii_lowercase();
    let first = host.split_once('.').map_or("", |(first, _)| first);
    let guessed = GUESSED.into_iter().find(|guessed| *guessed == first);
    format!("{}://{url}", usual.or(guessed).unwrap_or("http"))
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
}

/// The origin and the path of a complete URL.
///
/// # Errors
/// It is none of HTTP.
pub(super) fn split(url: &str) -> Result<(String, String), ImportError> {
    if url.contains(' ') {
        return Err(ImportError::new("a URL has a blank, which curl refuses", "write it as %20"));
    }
    split_url(url).ok_or_else(|| {
        const WHAT: &str = "an argument is not a URL of http or https";
        match url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase()) {
            Some(scheme) if is_scheme(&scheme) && !scheme.starts_with("http") => {
                ImportError::new(format!("{WHAT}, but of {scheme}"), "leave it out: bench sends HTTP only")
            }
            _ => ImportError::new(WHAT, "quote the URL"),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_are_those_that_curl_takes() {
        for (url, usual, expected) in [
            ("a.example/x", None, "http://a.example/x"),
            ("a.example:80/x?u=http://b", None, "http://a.example:80/x?u=http://b"),
            ("a.example", Some("https"), "https://a.example"),
            ("ftp.example.com", None, "ftp://ftp.example.com"),
            ("FTP.example.com/a", None, "ftp://FTP.example.com/a"),
            ("u:p@pop3.example.com", None, "pop3://u:p@pop3.example.com"),
            ("ftp.example.com", Some("http"), "http://ftp.example.com"),
            ("ftpx.example.com", None, "http://ftpx.example.com"),
            ("ftp", None, "http://ftp"),
            ("http:/a/x", None, "http://a/x"),
            ("https:///a/x?y", None, "https://a/x?y"),
            ("HTTP://a", None, "HTTP://a"),
            ("http:////a", None, "http:///a"),
        ] {
            assert_eq!(complete(url, usual), expected, "{url}");
        }
        assert_eq!(split("HTTPS://A:1/x").unwrap(), ("https://a:1".to_owned(), "/x".to_owned()));
        for (url, part) in
            [("ftp://a", "but of ftp"), ("http:///a", "of http or https"), ("http://a/b c", "blank")]
        {
            assert!(split(url).unwrap_err().what.ends_with(part) || part == "blank", "{url}");
        }
    }
}
