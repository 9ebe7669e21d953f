//! The cookies of a virtual user (RFC 6265).
//!
//! A jar is empty until an answer sets a cookie; until then it costs a look at its length. Everything is bounded, and
//! the oldest cookie makes room. Nothing here may send a cookie to another host, to a path above its own, or in clear
//! if it is `Secure`. There is no list of public suffixes. A cookie for a name without a dot is kept for the host that
//! set it, and the deployment lists the hosts that requests may reach.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use http::HeaderMap;
use http::header::{DATE, SET_COOKIE};

use base::clock::now;
use text::charset;

use super::url::Origin;

/// The most bytes of a cookie's name and value.
const COOKIE_BYTES_MAX: usize = 4096;
/// The most cookies of a domain.
const DOMAIN_COOKIES_MAX: usize = 50;
/// The most cookies of a jar.
const COOKIES_MAX: usize = 300;
/// The longest lifetime that is counted.
const LIFETIME_MAX: Duration = Duration::from_secs(400 * 24 * 3600);

/// Which requests share cookies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CookieMode {
    /// The requests of an iteration, which begins without cookies.
    #[default]
    Iteration,
    /// The requests of a virtual user, in all of its iterations.
    User,
    /// None: cookies are neither kept nor sent.
    Off,
}

/// Cookies, for one thread.
#[derive(Debug, Default)]
pub struct Jar {
    cookies: RefCell<Vec<Cookie>>,
    filled: Cell<bool>,
}

#[derive(Clone, Debug)]
struct Cookie {
    name: Box<[u8]>,
    value: Box<[u8]>,
    domain: String,
    /// True if only the host that set it gets it.
    host_only: bool,
    path: String,
    secure: bool,
    ends: Option<Instant>,
}

impl Jar {
    /// True before the first cookie.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.filled.get()
    }

    /// Removes all cookies.
    pub fn clear(&self) {
        if self.filled.replace(false) {
            self.cookies.borrow_mut().clear();
        }
    }

    /// Takes the cookies of another jar in place of its own.
    pub fn copy_from(&self, other: &Self) {
        self.cookies.borrow_mut().clone_from(&other.cookies.borrow());
        self.filled.set(other.filled.get());
    }

    /// The value of the cookie with this name that was set last, whatever its host and path.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<String> {
        let now = now();
        let cookies = self.cookies.borrow();
        let mut alive = cookies.iter().rev().filter(|cookie| cookie.is_alive(now));
        let cookie = alive.find(|cookie| *cookie.name == *name.as_bytes())?;
        Some(charset::of_field(&cookie.value).into_owned())
    }

    /// All values, for masking.
    #[must_use]
    pub fn secrets(&self) -> Vec<String> {
        let cookies = self.cookies.borrow();
        cookies.iter().map(|cookie| charset::of_field(&cookie.value).into_owned()).collect()
    }

    /// The header `Cookie` of a request to this path; `None` if no cookie belongs to it.
    #[must_use]
    pub fn header(&self, origin: &Origin, path: &str) -> Option<Vec<u8>> {
        let (host, now) = (host(origin), now());
        let path = path.split('?').next().unwrap_or_default();
        let cookies = self.cookies.borrow();
        let fits = |cookie: &&Cookie| {
            cookie.is_alive(now)
                && (!cookie.secure || is_trustworthy(origin, &host))
                && cookie.belongs_to(&host)
                && is_below(path, &cookie.path)
        };
        let mut chosen: Vec<&Cookie> = cookies.iter().filter(fits).collect();
        // Longer paths first; the sort keeps the order of equal ones, which is that of their creation.
        chosen.sort_by_key(|cookie| std::cmp::Reverse(cookie.path.len()));
        let mut text = Vec::new();
        for cookie in chosen {
            if !text.is_empty() {
                text.extend_from_slice(b"; ");
            }
            text.extend_from_slice(&cookie.name);
            text.push(b'=');
            text.extend_from_slice(&cookie.value);
        }
        (!text.is_empty()).then_some(text)
    }

    /// Keeps the cookies that an answer sets.
    pub(super) fn keep(&self, origin: &Origin, path: &str, headers: &HeaderMap) {
        let now = now();
        // The server's own time, so that clocks need not agree.
        let date = headers.get(DATE).and_then(|date| unix_seconds(date.as_bytes()));
        for text in headers.get_all(SET_COOKIE) {
            if let Some((cookie, lifetime)) = parsed(text.as_bytes(), origin, path, date) {
                self.put(cookie, lifetime, now);
            }
        }
    }

    fn put(&self, mut cookie: Cookie, lifetime: Option<Duration>, now: Instant) {
        let mut cookies = self.cookies.borrow_mut();
        let same = |other: &Cookie| {
            (&other.name, &other.domain, other.host_only, &other.path)
                == (&cookie.name, &cookie.domain, cookie.host_only, &cookie.path)
        };
        let known = cookies.iter().position(same);
        if lifetime == Some(Duration::ZERO) {
            known.map(|at| cookies.remove(at));
        } else {
            cookie.ends = lifetime.and_then(|lifetime| now.checked_add(lifetime.min(LIFETIME_MAX)));
            match known {
                Some(at) => cookies[at] = cookie,
                None => {
                    make_room(&mut cookies, &cookie.domain, now);
                    cookies.push(cookie);
                }
            }
        }
        self.filled.set(!cookies.is_empty());
    }
}

/// Removes what has expired, then the oldest of the domain or of all.
fn make_room(cookies: &mut Vec<Cookie>, domain: &str, now: Instant) {
    let of_domain = |cookies: &[Cookie]| cookies.iter().filter(|other| other.domain == domain).count();
    if cookies.len() >= COOKIES_MAX || of_domain(cookies) >= DOMAIN_COOKIES_MAX {
        cookies.retain(|cookie| cookie.is_alive(now));
    }
    if of_domain(cookies) >= DOMAIN_COOKIES_MAX
        && let Some(oldest) = cookies.iter().position(|other| other.domain == domain)
    {
        cookies.remove(oldest);
    }
    if cookies.len() >= COOKIES_MAX {
        cookies.remove(0);
    }
}

impl Cookie {
    fn is_alive(&self, now: Instant) -> bool {
        self.ends.is_none_or(|ends| now < ends)
    }

    fn belongs_to(&self, host: &str) -> bool {
        host == self.domain || !self.host_only && is_subdomain(host, &self.domain)
    }
}

/// A cookie and its lifetime, `None` for as long as the jar; zero removes it. `None` if the cookie is refused.
fn parsed(text: &[u8], origin: &Origin, path: &str, date: Option<i64>) -> Option<(Cookie, Option<Duration>)> {
    let mut parts = text.split(|byte| *byte == b';');
    let pair = parts.next()?;
    let equals = pair.iter().position(|byte| *byte == b'=')?;
    let (name, value) = (pair[..equals].trim_ascii(), pair[equals + 1..].trim_ascii());
    let clean = |part: &[u8]| part.iter().all(|byte| *byte >= b' ' && *byte != 0x7f);
    if name.is_empty() || name.len() + value.len() > COOKIE_BYTES_MAX || !clean(name) || !clean(value) {
        return None;
    }
    let attributes = Attributes::read(parts);
    let host = host(origin);
    let domain = attributes.domain.filter(|domain| *domain != host);
    let domain = match domain {
        // An address has no subdomains, and a whole top-level domain belongs to no host.
        Some(domain) if domain.contains('.') && is_subdomain(&host, &domain) && !is_address(&host) => {
            Some(domain)
        }
        Some(_) => return None,
        None => None,
    };
    let secure = attributes.secure;
    let trustworthy = is_trustworthy(origin, &host);
    let prefixed =
        |prefix: &[u8]| name.len() >= prefix.len() && name[..prefix.len()].eq_ignore_ascii_case(prefix);
    let for_host = secure && domain.is_none() && attributes.path.as_deref() == Some("/");
    if secure && !trustworthy || prefixed(b"__secure-") && !secure || prefixed(b"__host-") && !for_host {
        return None;
    }
    let cookie = Cookie {
        name: name.into(),
        value: value.into(),
        host_only: domain.is_none(),
        domain: domain.unwrap_or(host),
        path: attributes.path.unwrap_or_else(|| default_path(path)),
        secure,
        ends: None,
    };
    let lifetime = attributes.max_age.or_else(|| attributes.expires.map(|expires| left(expires, date)));
    Some((cookie, lifetime))
}

/// The attributes of a cookie; the last of a kind counts.
#[derive(Default)]
struct Attributes {
    domain: Option<String>,
    path: Option<String>,
    secure: bool,
    max_age: Option<Duration>,
    /// Seconds since 1970.
    expires: Option<i64>,
}

impl Attributes {
    fn read<'a>(parts: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut read = Self::default();
        for part in parts {
            let equals = part.iter().position(|byte| *byte == b'=').unwrap_or(part.len());
            let name = part[..equals].trim_ascii().to_ascii_lowercase();
            let value = part.get(equals + 1..).unwrap_or_default().trim_ascii();
            let text = || std::str::from_utf8(value).ok();
            match name.as_slice() {
                b"secure" => read.secure = true,
                b"domain" => {
                    let domain = text().map(|text| text.trim_start_matches('.').to_ascii_lowercase());
                    read.domain = domain.filter(|domain| !domain.is_empty());
                }
                b"path" => read.path = text().filter(|text| text.starts_with('/')).map(str::to_owned),
                b"max-age" => read.max_age = text().and_then(seconds).or(read.max_age),
                b"expires" => read.expires = unix_seconds(value).or(read.expires),
                _ => {}
            }
        }
        read
    }
}

/// `Max-Age`: digits, perhaps after a dash. Zero or less ends the cookie.
fn seconds(text: &str) -> Option<Duration> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // More digits than fit are a very long time.
    let seconds = if digits.len() < text.len() { 0 } else { digits.parse().unwrap_or(u64::MAX) };
    Some(Duration::from_secs(seconds).min(LIFETIME_MAX))
}

/// The lifetime of a cookie that ends at `expires`. Without the server's date, only the usual way to remove a cookie, a
/// time long ago, is understood; any other cookie lives as long as its jar.
fn left(expires: i64, date: Option<i64>) -> Duration {
    const LONG_AGO: i64 = 1_500_000_000;
    match date {
        Some(date) => Duration::from_secs(u64::try_from(expires.saturating_sub(date)).unwrap_or(0)),
        None if expires < LONG_AGO => Duration::ZERO,
        None => LIFETIME_MAX,
    }
}

/// Reads a cookie's date (RFC 6265, section 5.1.1), which also reads the header `Date`.
fn unix_seconds(text: &[u8]) -> Option<i64> {
    const MONTHS: [&str; 12] =
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let text = std::str::from_utf8(text).ok().filter(|text| text.len() <= 100 && text.is_ascii())?;
    let (mut time, mut day, mut month, mut year) = (None, None, None, None);
    let is_delimiter = |c: char| !(c.is_ascii_alphanumeric() || c == ':');
    for token in text.split(is_delimiter).filter(|token| !token.is_empty()) {
        let mut clock = token.splitn(3, ':').map(|part| part.parse::<i8>().ok());
        if time.is_none()
            && let (Some(Some(hour)), Some(Some(minute)), Some(Some(second))) =
                (clock.next(), clock.next(), clock.next())
        {
            time = Some((hour, minute, second));
            continue;
        }
        let number = token.parse::<i16>().ok();
        match number {
            Some(number) if day.is_none() && token.len() <= 2 => day = i8::try_from(number).ok(),
            Some(number) if year.is_none() && matches!(token.len(), 2 | 4) => {
                year = Some(match number {
                    70..=99 => number + 1900,
                    0..=69 => number + 2000,
                    other => other,
                });
            }
            None if month.is_none() && token.len() >= 3 => {
                let start = token[..3].to_ascii_lowercase();
                month =
                    MONTHS.iter().position(|name| *name == start).and_then(|at| i8::try_from(at + 1).ok());
            }
            _ => {}
        }
    }
    let (hour, minute, second) = time?;
    let moment = jiff::civil::DateTime::new(year?, month?, day?, hour, minute, second.min(59), 0).ok()?;
    Some(moment.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_second())
}

/// The folder of a request's path (RFC 6265, section 5.1.4).
fn default_path(path: &str) -> String {
    let path = path.split('?').next().unwrap_or_default();
    match path.rfind('/') {
        None | Some(0) => "/".to_owned(),
        Some(at) => path[..at].to_owned(),
    }
}

fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder)
        .is_some_and(|rest| rest.is_empty() || folder.ends_with('/') || rest.starts_with('/'))
}

fn is_subdomain(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
}

fn host(origin: &Origin) -> String {
    if origin.socket().is_some() {
        return "localhost".to_owned();
    }
    origin.host.trim_end_matches('.').to_ascii_lowercase()
}

fn is_address(host: &str) -> bool {
    host.parse::<IpAddr>().is_ok()
}

/// True for TLS, and for this machine, as in browsers.
fn is_trustworthy(origin: &Origin, host: &str) -> bool {
    let loopback = || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    origin.tls || host == "localhost" || host.ends_with(".localhost") || loopback()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::url::BaseUrl;
    use http::HeaderValue;
    use proptest::prelude::*;

    fn origin(url: &str) -> Origin {
        BaseUrl::parse(url).unwrap().origin
    }

    fn set(jar: &Jar, url: &str, path: &str, cookies: &[&str]) {
        let mut headers = HeaderMap::new();
        headers.insert(DATE, HeaderValue::from_static("Sun, 06 Nov 2022 08:49:37 GMT"));
        for cookie in cookies {
            headers.append(SET_COOKIE, HeaderValue::from_bytes(cookie.as_bytes()).unwrap());
        }
        jar.keep(&origin(url), path, &headers);
    }

    fn sent(jar: &Jar, url: &str, path: &str) -> String {
        String::from_utf8(jar.header(&origin(url), path).unwrap_or_default()).unwrap()
    }

    #[test]
    fn a_cookie_goes_where_it_belongs() {
        for (from, cookie, to, expected) in [
            ("http://a.example/x/y", "c=1", "http://a.example/x/z", "c=1"),
            ("http://a.example/x/y", "c=1", "http://a.example/x", "c=1"),
            ("http://a.example/x/y", "c=1", "http://a.example/xx", ""),
            ("http://a.example/x/y", "c=1", "http://a.example/", ""),
            ("http://a.example/x/y", "c=1; path=/", "http://a.example/", "c=1"),
            ("http://a.example/x/y", "c=1; Path=rubbish", "http://a.example/x/q?r=/s", "c=1"),
            ("http://a.example:1/", "c=1", "http://a.example:2/", "c=1"),
            ("http://a.example/", "c=1", "http://b.example/", ""),
            ("http://a.example/", "c=1", "http://x.a.example/", ""),
            ("http://a.example/", "c=1; Domain=a.example", "http://x.a.example/", ""),
            ("http://w.a.example/", "c=1; Domain=.A.example", "http://x.a.example/", "c=1"),
            ("http://w.a.example/", "c=1; Domain=a.example", "http://xa.example/", ""),
            ("http://w.a.example/", "c=1; Domain=other.example", "http://other.example/", ""),
            ("http://w.a.example/", "c=1; Domain=example", "http://b.example/", ""),
            ("http://10.0.0.1/", "c=1; Domain=0.0.1", "http://10.0.0.1/", ""),
            ("https://a.example/", "c=1; Secure", "https://a.example/", "c=1"),
            ("https://a.example/", "c=1; Secure", "http://a.example/", ""),
            ("http://a.example/", "c=1; Secure", "https://a.example/", ""),
            ("http://127.0.0.1:80/", "c=1; Secure; HttpOnly", "http://127.0.0.1/", "c=1"),
            ("http://a.example/", "c=1; Max-Age=60", "http://a.example/", "c=1"),
            ("http://a.example/", "c=1; Max-Age=0", "http://a.example/", ""),
            (
                "http://a.example/",
                "c=1; Max-Age=-1; Expires=Mon, 06 Nov 2023 08:49:37 GMT",
                "http://a.example/",
                "",
            ),
            ("http://a.example/", "c=1; Max-Age=99999999999999999999", "http://a.example/", "c=1"),
            ("http://a.example/", "c=1; Expires=Mon, 06 Nov 2023 08:49:37 GMT", "http://a.example/", "c=1"),
            ("http://a.example/", "c=1; Expires=Thu, 01-Jan-1970 00:00:00 GMT", "http://a.example/", ""),
            ("http://a.example/", "c=1; Expires=soon", "http://a.example/", "c=1"),
            ("http://a.example/", "__Secure-c=1", "http://a.example/", ""),
            ("https://a.example/", "__Host-c=1; Secure; Path=/", "https://a.example/", "__Host-c=1"),
            (
                "https://w.a.example/",
                "__Host-c=1; Secure; Path=/; Domain=a.example",
                "https://w.a.example/",
                "",
            ),
            ("http://a.example/", "c = a b=\"d\" ; x", "http://a.example/", "c=a b=\"d\""),
            ("http://a.example/", "c=", "http://a.example/", "c="),
            ("http://a.example/", "=1", "http://a.example/", ""),
            ("http://a.example/", "c", "http://a.example/", ""),
            ("http://a.example/", "c=\t1\t2", "http://a.example/", ""),
        ] {
            let split = |url: &str| {
                let at = url[8..].find('/').unwrap() + 8;
                (url[..at].to_owned(), url[at..].to_owned())
            };
            let ((from, from_path), (to, to_path)) = (split(from), split(to));
            let jar = Jar::default();
            set(&jar, &from, &from_path, &[cookie]);
            assert_eq!(sent(&jar, &to, &to_path), expected, "{cookie} of {from}{from_path} to {to}{to_path}");
        }
    }

    #[test]
    fn a_later_cookie_replaces_one_of_the_same_name_domain_and_path() {
        let jar = Jar::default();
        assert!(jar.is_empty());
        let url = "http://a.example";
        set(&jar, url, "/", &["a=1", "b=2", "a=3", "a=4; path=/x"]);
        assert_eq!(sent(&jar, url, "/x"), "a=4; a=3; b=2");
        assert_eq!(jar.value("a").as_deref(), Some("4"));
        assert_eq!(jar.secrets(), ["3", "2", "4"]);
        set(&jar, url, "/", &["a=; Max-Age=0", "b=; Max-Age=0", "never=1; Max-Age=0"]);
        assert_eq!(sent(&jar, url, "/x"), "a=4");
        jar.clear();
        assert!(jar.is_empty() && sent(&jar, url, "/x").is_empty() && jar.value("a").is_none());
    }

    #[test]
    fn a_jar_is_bounded() {
        let jar = Jar::default();
        for number in 0..60 {
            set(&jar, "http://a.example", "/", &[&format!("c{number}={number}")]);
        }
        let kept = sent(&jar, "http://a.example", "/");
        assert!(kept.starts_with("c10=10; ") && kept.ends_with("c59=59"), "{kept}");
        for host in 0..10 {
            for number in 0..50 {
                set(&jar, &format!("http://h{host}.example"), "/", &[&format!("c{number}=1")]);
            }
        }
        assert_eq!(jar.cookies.borrow().len(), COOKIES_MAX);
        set(&jar, "http://b.example", "/", &[&format!("c={}", "x".repeat(COOKIE_BYTES_MAX))]);
        assert_eq!(sent(&jar, "http://b.example", "/"), "");
    }

    #[test]
    fn dates_are_read_as_they_are_written() {
        for (text, expected) in [
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(784_111_777)),
            ("Sun Nov  6 08:49:37 1994", Some(784_111_777)),
            ("6 nov 94 8:49:37", Some(784_111_777)),
            ("Thu, 31 Feb 2022 00:00:00 GMT", None),
            ("1994-11-06T08:49:37Z", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(unix_seconds(text.as_bytes()), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn nothing_that_a_server_sets_makes_it_panic_or_splits_a_request(
            cookie in proptest::collection::vec(any::<u8>(), 0..60),
            attribute in "[ a-zA-Z=;:,.0-9/-]{0,60}",
        ) {
            let text = [cookie.as_slice(), b";", attribute.as_bytes()].concat();
            let mut headers = HeaderMap::new();
            if let Ok(value) = HeaderValue::from_bytes(&text) {
                headers.insert(SET_COOKIE, value);
            }
            let jar = Jar::default();
            jar.keep(&origin("http://a.example"), "/", &headers);
            let sent = jar.header(&origin("http://a.example"), "/").unwrap_or_default();
            prop_assert!(sent.iter().all(|byte| *byte >= b' ' && *byte != 0x7f));
        }
    }
}
