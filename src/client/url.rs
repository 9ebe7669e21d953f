//! Target URLs and request paths.

use url::Url;

use base::complaint::Complaint;
use base::percent;

/// Where requests go: scheme, host and port, or a Unix socket.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// True for https.
    pub tls: bool,
    /// Host name or address, without brackets; or the absolute path of a Unix socket, which no URL of http has here.
    pub host: String,
    /// Port; the scheme's default if the URL has none.
    pub port: u16,
    /// The value of the header `Host`.
    pub authority: String,
}

/// The name of a host as requests use it: in lower case, with letters outside ASCII encoded (IDNA).
#[must_use]
pub fn host_name(name: &str) -> String {
    let name = name.trim_end_matches('.');
    let parsed = (!name.is_ascii()).then(|| BaseUrl::parse(&format!("http://{name}")).ok()).flatten();
    parsed.map_or_else(|| name.to_ascii_lowercase(), |url| url.origin.host)
}

/// A base URL: an origin and a path prefix without a trailing slash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl {
    /// The origin.
    pub origin: Origin,
    /// Empty, or a path such as `/identity`.
    pub prefix: String,
}

impl BaseUrl {
    /// Parses a base URL. `grpc` and `ws` (of WebSocket) stand for http, `grpcs` and `wss` for https. A Unix socket is
    /// `unix:/run/app.sock`, `unix:///run/app.sock`, either with `:/path` behind it, or
    /// `http+unix://%2Frun%2Fapp.sock/path`.
    ///
    /// # Errors
    /// Not a URL, a scheme other than http and https, or a URL with credentials, a query or a fragment.
    pub fn parse(text: &str) -> Result<Self, Complaint> {
        if let Some(socket) = text.trim().strip_prefix("unix:") {
            let path = socket.strip_prefix("//").unwrap_or(socket);
            let (path, prefix) = path.split_once(":/").unwrap_or((path, ""));
            return Self::of_socket(path, prefix);
        }
        if let Some(rest) = text.trim().strip_prefix("http+unix://") {
            let (host, prefix) = rest.split_once('/').unwrap_or((rest, ""));
            let path = String::from_utf8(percent::decode(host)).unwrap_or_default();
            return Self::of_socket(&path, prefix);
        }
        let text = text.trim();
        let other = ["grpc", "ws"].iter().find_map(|scheme| text.strip_prefix(scheme));
        let other = other.filter(|rest| rest.starts_with("://") || rest.starts_with("s://"));
        let text = other.map_or_else(|| text.to_owned(), |rest| format!("http{rest}"));
        let url = Url::parse(&text)
            .map_err(|error| Complaint::new(format!("not a URL: {error}"), "write it as http://host:port"))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Complaint::new("a URL must not contain credentials", "put them under `auth`"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(Complaint::new(
                "a base URL has no query and no fragment",
                "put the query into the action",
            ));
        }
        let prefix = url.path().trim_end_matches('/').to_owned();
        Ok(Self { origin: Origin::of(&url)?, prefix })
    }

    fn of_socket(path: &str, prefix: &str) -> Result<Self, Complaint> {
        // Of `sockaddr_un`, without the final NUL.
        const PATH_BYTES_MAX: usize = 107;
        let wrong =
            |what: &str| Err(Complaint::new(what, "write unix:/run/app.sock, or unix:/run/app.sock:/path"));
        if !path.starts_with('/') || path.ends_with('/') {
            return wrong("a Unix socket needs its absolute path");
        }
        if path.len() > PATH_BYTES_MAX || path.contains('\0') {
            return wrong("the path of a Unix socket is too long");
        }
        if prefix.contains(['?', '#']) {
            return wrong("a base URL has no query and no fragment");
        }
        let mut escaped = String::new();
        push_escaped_path(prefix.trim_end_matches('/'), &mut escaped);
        let prefix = if escaped.is_empty() { escaped } else { format!("/{escaped}") };
        let origin = Origin { tls: false, host: path.to_owned(), port: 0, authority: "localhost".to_owned() };
        Ok(Self { origin, prefix })
    }

    /// The same origin without the path.
    #[must_use]
    pub fn root(&self) -> Self {
        Self { origin: self.origin.clone(), prefix: String::new() }
    }
}

impl std::fmt::Display for BaseUrl {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}", self.origin.shown())?;
        if self.origin.socket().is_some() && !self.prefix.is_empty() {
            formatter.write_str(":")?;
        }
        formatter.write_str(&self.prefix)
    }
}

impl Origin {
    /// The path of the Unix socket, if it is one.
    #[must_use]
    pub fn socket(&self) -> Option<&std::path::Path> {
        self.host.starts_with('/').then(|| std::path::Path::new(&self.host))
    }

    /// As it is written: `http://host:port` or `unix:/run/app.sock`.
    #[must_use]
    pub fn shown(&self) -> String {
        match self.socket() {
            Some(path) => format!("unix:{}", path.display()),
            None => format!("{}://{}", if self.tls { "https" } else { "http" }, self.authority),
        }
    }

    /// The origin of a URL.
    pub(super) fn of(url: &Url) -> Result<Self, Complaint> {
        let tls = match url.scheme() {
            "http" => false,
            "https" => true,
            other => {
                return Err(Complaint::new(
                    format!("the scheme `{other}` is not supported"),
                    "use http or https",
                ));
            }
        };
        let host = url
            .host_str()
            .filter(|host| !host.is_empty())
            .ok_or_else(|| Complaint::new("a URL needs a host", "write it as http://host:port"))?;
        let port = url
            .port_or_known_default()
            .ok_or_else(|| Complaint::new("a URL needs a port", "write it as http://host:port"))?;
        let authority = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Self { tls, host, port, authority })
    }
}

/// Checks the URL of an endpoint, which may have a path and a query; true if it is https.
///
/// # Errors
/// A URL that is invalid or contains credentials.
pub fn endpoint_uses_tls(text: &str) -> Result<bool, Complaint> {
    let url = Url::parse(text)
        .map_err(|error| Complaint::new(format!("not a URL: {error}"), "write it as https://host/token"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Complaint::new("a URL must not contain credentials", "put them under `auth`"));
    }
    Origin::of(&url).map(|origin| origin.tls)
}

/// True if rendering may produce a complete URL: `{{ link }}`, `http://{{ host }}/a`.
#[must_use]
pub fn may_become_whole(text: &str) -> bool {
    let before_path =
        text.find("://").map_or("", |at| text[at + 3..].split(['/', '?']).next().unwrap_or_default());
    text.starts_with("{{") || text.starts_with("{%") || (!text.starts_with('/') && before_path.contains("{{"))
}

/// Origin, path and query of a rendered complete URL, path and query escaped; `None` if the text is not a complete URL.
///
/// # Errors
/// A URL that is invalid or contains credentials.
pub fn rendered_whole(text: &str) -> Result<Option<(Origin, String)>, String> {
    let is = |scheme: &str| text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    if !is("http://") && !is("https://") {
        return Ok(None);
    }
    let url = Url::parse(text).map_err(|error| format!("the template produced an invalid URL: {error}"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("the template produced a URL with credentials; put them under `auth`".to_owned());
    }
    let mut path = String::new();
    push_escaped_path(url.path(), &mut path);
    if let Some(query) = url.query() {
        path.push('?');
        push_escaped_path(query, &mut path);
    }
    Ok(Some((Origin::of(&url).map_err(|complaint| complaint.to_string())?, path)))
}

/// A path or a URL as it is written, without its fragment, which is never sent (RFC 3986, section 3.5). A `#` within a
/// template belongs to it; one that a template inserts is part of a value.
#[must_use]
pub fn without_fragment(written: &str) -> &str {
    let mut rest = 0;
    while let Some(found) = written[rest..].find(['#', '{']).map(|at| rest + at) {
        let end = match &written[found..] {
            text if text.starts_with('#') => return &written[..found],
            text if text.starts_with("{{") => "}}",
            text if text.starts_with("{%") => "%}",
            text if text.starts_with("{#") => "#}",
            _ => "{",
        };
        let Some(length) = written[found..].find(end) else { return written };
        rest = found + length + end.len();
    }
    written
}

/// `https://host:port` and the rest of a complete URL; `None` if the text is a path, or
/// [`may_become_whole`].
///
/// # Errors
/// An invalid URL.
pub fn split_absolute(text: &str) -> Result<Option<(BaseUrl, &str)>, Complaint> {
    let Some(after_scheme) = text.find("://").map(|at| at + 3) else { return Ok(None) };
    if text.find(['/', '?', '{']).is_some_and(|at| at + 2 < after_scheme) {
        return Ok(None);
    }
    if may_become_whole(text) {
        return Ok(None);
    }
    let end = text[after_scheme..].find(['/', '?']).map_or(text.len(), |at| after_scheme + at);
    Ok(Some((BaseUrl::parse(&text[..end])?, &text[end..])))
}

/// Appends `path` and escapes every byte that is not allowed in a request line (RFC 3986); existing escapes are kept.
pub fn push_escaped_path(path: &str, output: &mut String) {
    for byte in path.bytes() {
        if byte.is_ascii_graphic()
            && !matches!(byte, b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' | b'#')
        {
            output.push(char::from(byte));
        } else {
            percent::push_byte(byte, output);
        }
    }
}

/// Appends a query or form value, percent-encoded.
pub fn push_query_value(value: &str, output: &mut String) {
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            output.push(char::from(byte));
        } else {
            percent::push_byte(byte, output);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_urls_are_read() {
        for (text, expected) in [
            ("http://127.0.0.1:25000", Ok("http://127.0.0.1:25000")),
            ("https://cloud.example/identity/", Ok("https://cloud.example/identity")),
            ("http://[::1]:80/", Ok("http://[::1]")),
            ("unix:/run/app.sock", Ok("unix:/run/app.sock")),
            ("unix:///run/app.sock:/v1.43/", Ok("unix:/run/app.sock:/v1.43")),
            ("http+unix://%2Frun%2Fapp.sock/v1", Ok("unix:/run/app.sock:/v1")),
            ("http+unix://%2Frun%2Fapp.sock", Ok("unix:/run/app.sock")),
            ("unix:app.sock", Err("absolute path")),
            ("http+unix://app.sock/x", Err("absolute path")),
            ("http://user:pw@h/", Err("must not contain credentials")),
            ("ftp://h/", Err("scheme `ftp`")),
            ("h:80", Err("scheme `h`")),
            ("http://h/?a=b", Err("no query")),
            ("", Err("not a URL")),
        ] {
            match (BaseUrl::parse(text), expected) {
                (Ok(url), Ok(expected)) => assert_eq!(url.to_string(), expected),
                (Err(error), Err(part)) => assert!(error.what.contains(part), "{text}: {error}"),
                (result, _) => panic!("{text}: {result:?}"),
            }
        }
        let ipv6 = BaseUrl::parse("http://[::1]:8080/x").unwrap();
        assert_eq!((ipv6.origin.host.as_str(), ipv6.origin.port), ("::1", 8080));
    }

    #[test]
    fn absolute_urls_are_told_from_paths() {
        for (text, expected) in [
            ("/v3/users?next=http://x/", None),
            ("http://h:1/a?b={{ c }}", Some(("http://h:1", "/a?b={{ c }}"))),
            ("https://h", Some(("https://h", ""))),
        ] {
            let split = split_absolute(text).unwrap().map(|(base, rest)| (base.to_string(), rest));
            assert_eq!(split, expected.map(|(base, rest)| (base.to_owned(), rest)), "{text}");
        }
    }

    #[test]
    fn templates_that_may_be_urls_are_told_from_those_that_are_paths() {
        for (text, expected) in [
            ("{{ link }}", true),
            ("{{ base }}/v3?u=http://x/", true),
            ("{% if a %}http://a{% endif %}", true),
            ("http://{{ host }}/a", true),
            ("{{ scheme }}://{{ host }}", true),
            ("http://h{{ n }}:80?x", true),
            ("/{{ path }}", false),
            ("/a?u=http://{{ host }}/", false),
            ("http://h:1/{{ a }}", false),
            ("http://h?{{ a }}", false),
        ] {
            assert_eq!(may_become_whole(text), expected, "{text}");
            assert!(!expected || split_absolute(text).unwrap().is_none(), "{text}");
        }
    }

    #[test]
    fn rendered_urls_are_read_as_browsers_read_them() {
        for (text, expected) in [
            ("http://h:81/a b?c=d#e", Ok(Some(("h", 81, "/a%20b?c=d")))),
            ("HTTPS://H.Example", Ok(Some(("h.example", 443, "/")))),
            ("http://2130706433/", Ok(Some(("127.0.0.1", 80, "/")))),
            ("http://[::1]:8080/", Ok(Some(("::1", 8080, "/")))),
            ("http://h\\@evil/", Ok(Some(("h", 80, "/@evil/")))),
            ("http://b\u{fc}cher.example/", Ok(Some(("xn--bcher-kva.example", 80, "/")))),
            ("http://good@evil/", Err("a URL with credentials")),
            ("http://good:pw@evil/", Err("a URL with credentials")),
            ("http://", Err("invalid URL")),
            ("http://[::1", Err("invalid URL")),
            ("/v3", Ok(None)),
            ("ftp://h/", Ok(None)),
            ("@evil/", Ok(None)),
            ("", Ok(None)),
        ] {
            let read = rendered_whole(text);
            match (&read, expected) {
                (Ok(found), Ok(expected)) => {
                    let found = found
                        .as_ref()
                        .map(|(origin, path)| (origin.host.as_str(), origin.port, path.as_str()));
                    assert_eq!(found, expected, "{text}");
                }
                (Err(error), Err(part)) => assert!(error.contains(part), "{text}: {error}"),
                _ => panic!("{text}: {read:?}"),
            }
        }
    }

    #[test]
    fn paths_and_query_values_are_escaped() {
        let mut path = String::new();
        push_escaped_path("/a b/%20/ü?x=\"y\"&z={1}\r\n", &mut path);
        assert_eq!(path, "/a%20b/%20/%C3%BC?x=%22y%22&z=%7B1%7D%0D%0A");
        let mut value = String::new();
        push_query_value("a b&c=d/ü", &mut value);
        assert_eq!(value, "a%20b%26c%3Dd%2F%C3%BC");
    }
}
