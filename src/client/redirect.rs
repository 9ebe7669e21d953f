//! Redirects: where the client is sent, and what it may send there.
//!
//! A function of a request and an answer; [`super::pool`] sends. Secrets stay with the origin to which the
//! scenario sent them. Other origins only get headers that describe the wanted answer, and so does every
//! later request of the chain, even if it returns to the first origin. A body goes to another origin only if
//! that is a target of the deployment.

use std::borrow::Cow;

use http::header::{ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, CONTENT_TYPE, LOCATION, USER_AGENT};
use http::{HeaderMap, HeaderName, Method, StatusCode};

use base::masking::masked;

use super::body::BodyContent;
use super::error::ClientError;
use super::guard::Guard;
use super::headers::HeaderBlock;
use super::url::{Origin, push_escaped_path};

/// The longest URL that is followed.
const LOCATION_BYTES_MAX: usize = 16 * 1024;
/// The headers that other origins may get.
const HARMLESS: [HeaderName; 5] = [ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, CONTENT_TYPE, USER_AGENT];

/// A request after a redirect.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Hop {
    pub(super) method: Method,
    pub(super) origin: Origin,
    pub(super) path: String,
    /// Whether the body is sent again.
    pub(super) with_body: bool,
    /// True once the chain has left its first origin.
    pub(super) foreign: bool,
}

impl Hop {
    pub(super) fn first(method: &Method, origin: &Origin, path: &str) -> Self {
        Self {
            method: method.clone(),
            origin: origin.clone(),
            path: path.to_owned(),
            with_body: true,
            foreign: false,
        }
    }

    /// The next request after this answer; `None` if the answer is not a redirect to follow.
    pub(super) fn next(
        &self,
        status: StatusCode,
        headers: Option<&HeaderMap>,
    ) -> Result<Option<Self>, ClientError> {
        let keeps_method = match status.as_u16() {
            301 | 302 => self.method != Method::POST,
            303 => matches!(self.method, Method::GET | Method::HEAD),
            307 | 308 => true,
            _ => return Ok(None),
        };
        let mut locations = headers.into_iter().flat_map(|headers| headers.get_all(LOCATION));
        let Some(location) = locations.next() else { return Ok(None) };
        let refused = |reason: String| ClientError::Redirect { reason };
        // Neither the first nor the last is right.
        if locations.any(|other| other != location) {
            return Err(refused("the answer has two different Location headers".to_owned()));
        }
        if location.len() > LOCATION_BYTES_MAX {
            return Err(refused(format!("its URL is longer than {LOCATION_BYTES_MAX} bytes")));
        }
        let location = location_text(location.as_bytes());
        // Mask secrets before the URL is cut.
        let shown = || masked(&location).chars().take(100).collect::<String>();
        let scheme = if self.origin.tls { "https" } else { "http" };
        let base = format!("{scheme}://{}{}", self.origin.authority, self.path);
        let target = url::Url::parse(&base)
            .and_then(|base| base.join(location.trim()))
            .map_err(|error| refused(format!("`{}` is not a URL: {error}", shown())))?;
        let here = self.origin.socket().is_some() && target.as_str().starts_with("http://localhost/");
        let origin = if here { Ok(self.origin.clone()) } else { Origin::of(&target) };
        let origin = origin.map_err(|reason| refused(format!("`{}`: {reason}", shown())))?;
        let mut path = String::new();
        push_escaped_path(target.path(), &mut path);
        if let Some(query) = target.query() {
            path.push('?');
            push_escaped_path(query, &mut path);
        }
        Ok(Some(Self {
            method: if keeps_method { self.method.clone() } else { Method::GET },
            foreign: self.foreign || origin != self.origin,
            origin,
            path,
            with_body: self.with_body && keeps_method,
        }))
    }

    /// Refuses to send the body again to an origin that is neither that of `before` nor a target. It is unknown which
    /// part of a body is secret, and without its body, it would be another request.
    pub(super) fn check_body(
        &self,
        before: &Self,
        body: &BodyContent,
        guard: &Guard,
    ) -> Result<(), ClientError> {
        let sends_body = self.with_body && !body.is_empty();
        if !sends_body || self.origin == before.origin || guard.is_target(&self.origin) {
            return Ok(());
        }
        // A host that no request may go to has an error of its own.
        guard.admit(&self.origin)?;
        let reason = format!(
            "it would take the request's body to {}, which is not a target of the deployment; add the host to `targets` \
             if it may have what the body holds, or check the redirect itself with `redirects: 0`",
            self.address()
        );
        Err(ClientError::Redirect { reason })
    }

    /// Why this request is not sent after these. A URL that was asked before is no loop by itself: a log-in sends its user
    /// back with a cookie, and a job is asked for until it is done. So hops are counted, as browsers do (RFC 9110, 15.4).
    pub(super) fn one_too_many(&self, visited: &[Self]) -> ClientError {
        let one = |hop: &Self| (hop.method.clone(), hop.origin.clone(), hop.path.clone());
        let (last, most) = (self.address(), visited.len() - 1);
        let reason = if visited.iter().any(|earlier| one(earlier) == one(self)) {
            format!(
                "it forms a loop: after {most} redirects, it leads back to {last}; if each of them sets another cookie, allow \
                 more with `redirects`"
            )
        } else {
            format!("there are more than {most} redirects, the last to {last}")
        };
        ClientError::Redirect { reason }
    }

    /// The URL, for messages.
    pub(super) fn address(&self) -> String {
        let path: String = masked(&self.path).chars().take(100).collect();
        format!("{}{path}", self.origin.shown())
    }

    /// The headers of the scenario's request that may be sent with this one.
    pub(super) fn headers(&self, blocks: [&HeaderBlock; 2]) -> HeaderBlock {
        let mut headers = HeaderBlock::default();
        for (name, value) in blocks.into_iter().flat_map(HeaderBlock::iter) {
            let of_body = name.as_str().starts_with("content-");
            if (self.foreign && !HARMLESS.contains(name)) || (of_body && !self.with_body) {
                continue;
            }
            // The value was valid in the original headers.
            let _ = headers.push(name, value);
        }
        headers
    }
}

/// The text of a header `Location`. Bytes that are no UTF-8 stay what they are, escaped, as in browsers and curl.
pub(super) fn location_text(value: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(value) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => {
            let escaped = |byte: &u8| match byte.is_ascii() {
                true => char::from(*byte).to_string(),
                false => format!("%{byte:02X}"),
            };
            Cow::Owned(value.iter().map(escaped).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::HostPattern;
    use crate::url::BaseUrl;
    use bytes::Bytes;
    use http::HeaderValue;
    use proptest::prelude::*;

    fn from(method: &Method, url: &str) -> Hop {
        let parsed = url::Url::parse(url).unwrap();
        Hop::first(method, &BaseUrl::parse(url).unwrap().root().origin, parsed.path())
    }

    fn to(location: &str) -> HeaderMap {
        HeaderMap::from_iter([(LOCATION, HeaderValue::from_bytes(location.as_bytes()).unwrap())])
    }

    #[test]
    fn methods_change_as_browsers_change_them() {
        for (method, status, expected) in [
            (Method::POST, 301, Method::GET),
            (Method::POST, 302, Method::GET),
            (Method::PUT, 301, Method::PUT),
            (Method::DELETE, 302, Method::DELETE),
            (Method::HEAD, 301, Method::HEAD),
            (Method::POST, 303, Method::GET),
            (Method::PUT, 303, Method::GET),
            (Method::DELETE, 303, Method::GET),
            (Method::HEAD, 303, Method::HEAD),
            (Method::POST, 307, Method::POST),
            (Method::PATCH, 308, Method::PATCH),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            let hop = from(&method, "http://h/a").next(status, Some(&to("/b"))).unwrap().unwrap();
            assert_eq!((&hop.method, hop.with_body), (&expected, method == expected), "{method} {status}");
        }
    }

    #[test]
    fn only_redirects_with_an_address_are_followed() {
        for status in [200, 201, 300, 304, 305, 306, 399, 404] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(
                from(&Method::GET, "http://h/").next(status, Some(&to("/b"))).unwrap(),
                None,
                "{status}"
            );
        }
        assert_eq!(from(&Method::GET, "http://h/").next(StatusCode::FOUND, None).unwrap(), None);
    }

    #[test]
    fn addresses_are_relative_to_the_request() {
        for (location, expected, foreign) in [
            ("/b?c=d#e", "http://h:81/b?c=d", false),
            ("b/../c", "http://h:81/x/c", false),
            ("?q", "http://h:81/x/a?q", false),
            ("", "http://h:81/x/a", false),
            ("//other/p", "http://other/p", true),
            ("http://h:81", "http://h:81/", false),
            ("http://h/", "http://h/", true),
            ("https://h:81/", "https://h:81/", true),
            ("http://[::1]:8080/a b", "http://[::1]:8080/a%20b", true),
            ("/\u{fc}", "http://h:81/%C3%BC", false),
        ] {
            let hop = from(&Method::GET, "http://h:81/x/a");
            let hop = hop.next(StatusCode::FOUND, Some(&to(location))).unwrap().unwrap();
            let scheme = if hop.origin.tls { "https" } else { "http" };
            assert_eq!(format!("{scheme}://{}{}", hop.origin.authority, hop.path), expected, "{location}");
            assert_eq!(hop.foreign, foreign, "{location}");
        }
        for location in ["ftp://h/", "javascript:alert(1)", "http://", "http://[::1", "file:///etc/passwd"] {
            let error =
                from(&Method::GET, "http://h/").next(StatusCode::FOUND, Some(&to(location))).unwrap_err();
            assert_eq!(error.class().as_str(), "redirect", "{location}: {error}");
        }
    }

    #[test]
    fn bytes_that_are_no_utf_8_stay_what_they_are() {
        let location =
            HeaderMap::from_iter([(LOCATION, HeaderValue::from_bytes(b"/caf\xe9?q=\xfc%20").unwrap())]);
        let hop = from(&Method::GET, "http://h/").next(StatusCode::FOUND, Some(&location)).unwrap().unwrap();
        assert_eq!(hop.path, "/caf%E9?q=%FC%20");
    }

    #[test]
    fn secrets_stay_with_their_origin_also_when_the_chain_comes_back() {
        let (mut fixed, mut own) = (HeaderBlock::default(), HeaderBlock::default());
        for (name, value) in
            [("user-agent", "b"), ("x-auth-token", "s"), ("content-type", "t"), ("cookie", "c")]
        {
            fixed.push(&HeaderName::from_static(name), value.as_bytes()).unwrap();
        }
        own.push(&HeaderName::from_static("x-trace-info"), b"i").unwrap();
        let names = |hop: &Hop| {
            hop.headers([&fixed, &own]).iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>()
        };
        let same = from(&Method::POST, "http://h/a")
            .next(StatusCode::TEMPORARY_REDIRECT, Some(&to("/b")))
            .unwrap()
            .unwrap();
        assert_eq!(names(&same), ["user-agent", "x-auth-token", "content-type", "cookie", "x-trace-info"]);
        let seen =
            from(&Method::POST, "http://h/a").next(StatusCode::SEE_OTHER, Some(&to("/b"))).unwrap().unwrap();
        assert_eq!(names(&seen), ["user-agent", "x-auth-token", "cookie", "x-trace-info"]);
        let away = same.next(StatusCode::PERMANENT_REDIRECT, Some(&to("http://other/"))).unwrap().unwrap();
        assert_eq!(names(&away), ["user-agent", "content-type"]);
        let back = away.next(StatusCode::FOUND, Some(&to("http://h/b"))).unwrap().unwrap();
        assert_eq!((names(&back), back.foreign), (vec!["user-agent".to_owned()], true));
    }

    #[test]
    fn bodies_go_to_the_same_origin_and_to_targets_only() {
        let origin = |url: &str| BaseUrl::parse(url).unwrap().root().origin;
        let guard = Guard::new(
            vec![origin("http://h"), origin("http://second")],
            vec![origin("http://literal")],
            vec![HostPattern::parse("allowed").unwrap()],
        );
        for (first, status, body, location, expected) in [
            ("http://h/a", 307, "secret", "/b", None),
            ("http://h/a", 308, "secret", "http://second/", None),
            ("http://h/a", 307, "secret", "http://allowed/", Some("redirect")),
            ("http://h/a", 308, "secret", "https://allowed/", Some("redirect")),
            ("http://h/a", 307, "secret", "http://literal/", Some("redirect")),
            ("http://h/a", 307, "secret", "http://nowhere/", Some("target")),
            ("http://h/a", 307, "secret", "https://h/", Some("target")),
            ("http://h/a", 307, "", "http://allowed/", None),
            ("http://h/a", 302, "secret", "http://allowed/", None),
            ("http://h/a", 303, "secret", "http://allowed/", None),
            ("http://literal/a", 307, "secret", "/b", None),
            ("http://literal/a", 307, "secret", "http://h/", None),
            ("http://allowed/a", 307, "secret", "http://allowed:81/", Some("redirect")),
        ] {
            let before = from(&Method::POST, first);
            let status = StatusCode::from_u16(status).unwrap();
            let hop = before.next(status, Some(&to(location))).unwrap().unwrap();
            let body = BodyContent::Bytes(Bytes::from_static(body.as_bytes()));
            let class = hop.check_body(&before, &body, &guard).err().map(|error| error.class().as_str());
            assert_eq!(class, expected, "{first} {status} {location}");
        }
    }

    proptest! {
        #[test]
        fn no_address_makes_it_panic_or_splits_a_request(location in proptest::collection::vec(any::<u8>(), 0..100)) {
            if let Ok(value) = HeaderValue::from_bytes(&location) {
                let headers = HeaderMap::from_iter([(LOCATION, value)]);
                if let Ok(Some(hop)) = from(&Method::GET, "http://h/a").next(StatusCode::FOUND, Some(&headers)) {
                    prop_assert!(hop.path.starts_with('/'));
                    prop_assert!(hop.path.bytes().all(|byte| byte.is_ascii_graphic()), "{}", hop.path);
                    prop_assert!(hop.origin.authority.bytes().all(|byte| byte.is_ascii_graphic()), "{}", hop.origin.authority);
                }
            }
        }
    }
}
