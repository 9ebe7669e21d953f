//! OTLP/HTTP: `POST /v1/traces` with protobuf or JSON, gzip or none.
//!
//! Source: the OTLP specification 1.9, "OTLP/HTTP".

use http::header::{ACCEPT_ENCODING, ALLOW, CONTENT_ENCODING, CONTENT_TYPE, ORIGIN, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use hyper::body::Incoming;

use super::answer::{AnswerBody, ExportRefusal, RETRY_SECONDS, accepted_json, accepted_protobuf};
use super::intake::{BodyFormat, Export, Intake, Signal};

/// Where a browser says that a request comes from (Fetch Metadata). Other clients leave it out.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Whether a web page sends this request, even one whose name was made to lead here (DNS rebinding): browsers name the
/// page's origin with every POST, and exporters of spans do not.
pub(super) fn is_of_page(headers: &HeaderMap) -> bool {
    let own = |value: &HeaderValue| matches!(value.as_bytes(), b"none" | b"same-origin");
    headers.contains_key(ORIGIN) || !headers.get_all(FETCH_SITE).iter().all(own)
}

/// Answers a request.
pub(super) async fn answer(parts: Parts, mut body: Incoming, intake: &Intake) -> Response<AnswerBody> {
    let format = format(&parts.headers);
    match export(&parts, format, &mut body, intake).await {
        Ok((format, invalid)) => match format {
            BodyFormat::Protobuf => response(StatusCode::OK, format, accepted_protobuf(invalid)),
            BodyFormat::Json => response(StatusCode::OK, format, accepted_json(invalid)),
        },
        Err(refusal) => {
            intake.count(&refusal);
            if !matches!(refusal, ExportRefusal::Incomplete) {
                intake.discard(body).await;
            }
            refused(&refusal, format)
        }
    }
}

async fn export(
    parts: &Parts,
    format: Option<BodyFormat>,
    body: &mut Incoming,
    intake: &Intake,
) -> Result<(BodyFormat, u64), ExportRefusal> {
    if is_of_page(&parts.headers) {
        let text = "spans of web pages are not received: leave out the headers Origin and Sec-Fetch-Site";
        return Err(ExportRefusal::Unsupported(StatusCode::FORBIDDEN, text.to_owned()));
    }
    let signal = signal(parts.uri.path())?;
    if parts.method != Method::POST {
        let text = format!("only POST is supported at /{}", signal.path());
        return Err(ExportRefusal::Unsupported(StatusCode::METHOD_NOT_ALLOWED, text));
    }
    let format = format.ok_or_else(|| {
        let text = "the content type must be application/x-protobuf or application/json".to_owned();
        ExportRefusal::Unsupported(StatusCode::UNSUPPORTED_MEDIA_TYPE, text)
    })?;
    let is_gzip = is_gzip(&parts.headers)?;
    let arrived = intake.read(body).await?;
    let body = arrived.bytes;
    let invalid = intake.accept(Export { signal, format, is_gzip, headers: &parts.headers, body })?;
    Ok((format, invalid))
}

fn signal(path: &str) -> Result<Signal, ExportRefusal> {
    let known = [Signal::Traces, Signal::Metrics, Signal::Logs];
    let signal = known.into_iter().find(|signal| path.strip_prefix('/') == Some(signal.path()));
    signal.ok_or_else(|| {
        let text = "spans are received at /v1/traces, and by OTLP/gRPC".to_owned();
        ExportRefusal::Unsupported(StatusCode::NOT_FOUND, text)
    })
}

fn format(headers: &HeaderMap) -> Option<BodyFormat> {
    let value = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    match value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
        "application/x-protobuf" | "application/protobuf" => Some(BodyFormat::Protobuf),
        "application/json" => Some(BodyFormat::Json),
        _ => None,
    }
}

/// Whether the body is compressed, by the only encoding that every exporter has.
fn is_gzip(headers: &HeaderMap) -> Result<bool, ExportRefusal> {
    let mut codings = headers.get_all(CONTENT_ENCODING).iter().flat_map(|value| {
        let text = value.to_str().unwrap_or("?").to_ascii_lowercase();
        text.split(',').map(|coding| coding.trim().to_owned()).collect::<Vec<_>>()
    });
    codings.try_fold(false, |compressed, coding| match (coding.as_str(), compressed) {
        ("" | "identity", _) => Ok(compressed),
        ("gzip" | "x-gzip", false) => Ok(true),
        _ => {
            let text = "the content encoding must be gzip or none".to_owned();
            Err(ExportRefusal::Unsupported(StatusCode::UNSUPPORTED_MEDIA_TYPE, text))
        }
    })
}

fn refused(refusal: &ExportRefusal, format: Option<BodyFormat>) -> Response<AnswerBody> {
    let mut response = match format {
        Some(BodyFormat::Protobuf) => response(refusal.status(), BodyFormat::Protobuf, refusal.protobuf()),
        // People read JSON more easily.
        Some(BodyFormat::Json) | None => response(refusal.status(), BodyFormat::Json, refusal.json()),
    };
    let headers = response.headers_mut();
    match refusal.status() {
        StatusCode::METHOD_NOT_ALLOWED => {
            headers.insert(ALLOW, HeaderValue::from_static("POST"));
        }
        StatusCode::UNSUPPORTED_MEDIA_TYPE => {
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        }
        StatusCode::SERVICE_UNAVAILABLE => {
            headers.insert(RETRY_AFTER, HeaderValue::from(RETRY_SECONDS));
        }
        _ => {}
    }
    response
}

fn response(status: StatusCode, format: BodyFormat, body: Vec<u8>) -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody::new(body, None));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: HeaderName, values: &[&'static str]) -> HeaderMap {
        values.iter().map(|value| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn content_types_are_read() {
        for (value, expected) in [
            ("application/x-protobuf", Some(BodyFormat::Protobuf)),
            ("Application/X-Protobuf", Some(BodyFormat::Protobuf)),
            ("application/json; charset=utf-8", Some(BodyFormat::Json)),
            ("application/json ;x", Some(BodyFormat::Json)),
            ("application/jsonl", None),
            ("text/plain", None),
            ("", None),
        ] {
            assert_eq!(format(&headers(CONTENT_TYPE, &[value])), expected, "{value}");
        }
        assert_eq!(format(&HeaderMap::new()), None);
    }

    #[test]
    fn web_pages_are_known_by_what_browsers_add() {
        for (name, value, expected) in [
            (ORIGIN, "http://evil.example:4318", true),
            (ORIGIN, "null", true),
            (FETCH_SITE, "cross-site", true),
            (FETCH_SITE, "same-site", true),
            (FETCH_SITE, "same-origin", false),
            (FETCH_SITE, "none", false),
            (CONTENT_TYPE, "application/json", false),
        ] {
            assert_eq!(is_of_page(&headers(name.clone(), &[value])), expected, "{name}: {value}");
        }
        assert!(is_of_page(&headers(FETCH_SITE, &["none", "cross-site"])));
        assert!(!is_of_page(&HeaderMap::new()));
    }

    #[test]
    fn encodings_are_read() {
        for (values, expected) in [
            (&[][..], Some(false)),
            (&["identity"], Some(false)),
            (&[""], Some(false)),
            (&["gzip"], Some(true)),
            (&["X-GZIP"], Some(true)),
            (&["identity, gzip"], Some(true)),
            (&["gzip, gzip"], None),
            (&["gzip", "gzip"], None),
            (&["deflate"], None),
            (&["gzip, br"], None),
        ] {
            let read = is_gzip(&headers(CONTENT_ENCODING, values)).ok();
            assert_eq!(read, expected, "{values:?}");
        }
    }
}
