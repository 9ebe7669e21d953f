//! OTLP/gRPC: the method `Export` of the services of traces, metrics and logs.
//!
//! A refused call is answered in the head of the answer, which gRPC calls Trailers-Only.
//!
//! Source: the OTLP specification 1.9, "OTLP/gRPC"; gRPC over HTTP/2 (`PROTOCOL-HTTP2.md`, `compression.md` of gRPC).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use hyper::body::Incoming;

use super::answer::{AnswerBody, ExportRefusal, accepted_protobuf};
use super::intake::{BodyFormat, Export, Intake, Signal};
use base::percent;

const SERVICES: [(&str, Signal); 3] = [
    ("/opentelemetry.proto.collector.trace.v1.TraceService/Export", Signal::Traces),
    ("/opentelemetry.proto.collector.metrics.v1.MetricsService/Export", Signal::Metrics),
    ("/opentelemetry.proto.collector.logs.v1.LogsService/Export", Signal::Logs),
];
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");
const ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
const ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");
/// A flag of compression and four bytes of length.
const PREFIX_BYTES: usize = 5;

/// Whether a request is a gRPC call.
pub(super) fn is_call(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).map_or(&[][..], HeaderValue::as_bytes);
    let rest = value.strip_prefix(b"application/grpc");
    // Not gRPC-Web, which is another protocol.
    rest.is_some_and(|rest| rest.first().is_none_or(|byte| b"+; ".contains(byte)))
}

/// Answers a call.
pub(super) async fn answer(parts: Parts, mut body: Incoming, intake: &Intake) -> Response<AnswerBody> {
    match export(&parts, &mut body, intake).await {
        Ok(invalid) => accepted(invalid),
        Err(refusal) => {
            intake.count(&refusal);
            if !matches!(refusal, ExportRefusal::Incomplete) {
                intake.discard(body).await;
            }
            refused(&refusal)
        }
    }
}

async fn export(parts: &Parts, body: &mut Incoming, intake: &Intake) -> Result<u64, ExportRefusal> {
    let unsupported = |text: &str| ExportRefusal::Unsupported(StatusCode::OK, text.to_owned());
    let service = SERVICES.into_iter().find(|(path, _)| *path == parts.uri.path());
    let Some((_, signal)) = service.filter(|_| parts.method == Method::POST) else {
        return Err(unsupported("only the method Export of OTLP's services is known"));
    };
    let encoding = parts.headers.get(ENCODING).map_or("identity", |value| value.to_str().unwrap_or("?"));
    if !matches!(encoding, "identity" | "gzip") {
        return Err(unsupported("messages must be compressed by gzip, or not at all"));
    }
    let arrived = intake.read(body).await?;
    let (body, is_compressed) = message(&arrived.bytes)?;
    if is_compressed && encoding == "identity" {
        return Err(ExportRefusal::Malformed(
            "the message is compressed, but grpc-encoding does not say how".to_owned(),
        ));
    }
    let (format, headers) = (BodyFormat::Protobuf, &parts.headers);
    intake.accept(Export { signal, format, is_gzip: is_compressed, headers, body })
}

/// The only message of a body, and whether it is compressed.
fn message(body: &Bytes) -> Result<(Bytes, bool), ExportRefusal> {
    let malformed = |text: &str| ExportRefusal::Malformed(text.to_owned());
    let Some((&[flag, a, b, c, d], content)) = body.split_first_chunk::<PREFIX_BYTES>() else {
        return Err(malformed("the call has no complete message"));
    };
    if flag > 1 {
        return Err(malformed("the message has an unknown flag"));
    }
    if usize::try_from(u32::from_be_bytes([a, b, c, d])) != Ok(content.len()) {
        return Err(malformed("the call must have a single message, which ends with the body"));
    }
    Ok((body.slice(PREFIX_BYTES..), flag == 1))
}

fn accepted(invalid: u64) -> Response<AnswerBody> {
    let message = accepted_protobuf(invalid);
    let length = u32::try_from(message.len()).unwrap_or(0);
    let framed = [&[0][..], &length.to_be_bytes(), &message].concat();
    let trailers = HeaderMap::from_iter([(STATUS, HeaderValue::from_static("0"))]);
    response(AnswerBody::new(framed, Some(trailers)))
}

fn refused(refusal: &ExportRefusal) -> Response<AnswerBody> {
    let mut response = response(AnswerBody::new(Vec::new(), None));
    let headers = response.headers_mut();
    headers.insert(STATUS, HeaderValue::from(refusal.code() as u16));
    if let Ok(message) = HeaderValue::from_str(&escaped(&refusal.message())) {
        headers.insert(MESSAGE, message);
    }
    if let Ok(details) = HeaderValue::from_str(&STANDARD_NO_PAD.encode(refusal.protobuf())) {
        headers.insert(DETAILS, details);
    }
    response
}

fn response(body: AnswerBody) -> Response<AnswerBody> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity,gzip"));
    response
}

/// The form of a message in a header: all but printable ASCII, and the percent sign, is encoded.
fn escaped(message: &str) -> String {
    let mut escaped = String::with_capacity(message.len());
    for byte in message.bytes() {
        if (b' '..=b'~').contains(&byte) && byte != b'%' {
            escaped.push(char::from(byte));
        } else {
            percent::push_byte(byte, &mut escaped);
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_told_by_their_content_type() {
        for (value, expected) in [
            ("application/grpc", true),
            ("application/grpc+proto", true),
            ("application/grpc;x=y", true),
            ("application/grpc-web", false),
            ("application/grpcx", false),
            ("application/x-protobuf", false),
        ] {
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(value))]);
            assert_eq!(is_call(&headers), expected, "{value}");
        }
        assert!(!is_call(&HeaderMap::new()));
    }

    #[test]
    fn a_body_is_a_single_message() {
        for (body, expected) in [
            (&[0, 0, 0, 0, 0][..], Some((&[][..], false))),
            (&[1, 0, 0, 0, 2, 7, 8], Some((&[7, 8], true))),
            (&[2, 0, 0, 0, 0], None),
            (&[], None),
            (&[0, 0, 0, 0], None),
            (&[0, 0, 0, 0, 2, 7], None),
            (&[0, 0, 0, 0, 1, 7, 0], None),
            (&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0], None),
            (&[0, 255, 255, 255, 255, 7], None),
        ] {
            let read = message(&Bytes::copy_from_slice(body)).ok();
            let read = read.as_ref().map(|(message, is_compressed)| (&message[..], *is_compressed));
            assert_eq!(read, expected, "{body:?}");
        }
    }

    #[test]
    fn messages_are_escaped() {
        for (text, expected) in [("a b", "a b"), ("100%", "100%25"), ("é\n", "%C3%A9%0A"), ("~", "~")] {
            assert_eq!(escaped(text), expected);
            assert_eq!(percent::decode(&escaped(text)), text.as_bytes());
        }
    }
}
