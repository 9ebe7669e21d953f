//! Where metrics are pushed to, and with which headers.

use http::header::{HeaderName, HeaderValue};

use base::masking;
use base::percent;
use text::files::open_named;

use super::environment::Environment;

const OTLP_PATH: &str = "v1/metrics";
/// The variables of OpenTelemetry with headers; the one for metrics counts more.
const VARIABLES: [&str; 2] = ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_METRICS_HEADERS"];
/// The largest file of a header, in bytes.
const VALUE_BYTES_MAX: u64 = 64 << 10;

/// The URL to push to of a receiver: its base, to which `v1/metrics` is added where it is missing.
///
/// # Errors
/// Why the URL is not valid, with an example.
pub fn otlp_url(text: &str) -> Result<String, String> {
    let url = url::Url::parse(text).map_err(|error| format!("{error}; write http://127.0.0.1:4318"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err("only http:// and https:// are known; write http://127.0.0.1:4318".to_owned());
    }
    let base = text.trim_end_matches('/');
    Ok(if base.ends_with(OTLP_PATH) { base.to_owned() } else { format!("{base}/{OTLP_PATH}") })
}

/// A header of pushes. Its value is a secret.
#[derive(Clone, Debug)]
pub struct OtlpHeader(HeaderName, HeaderValue);

impl OtlpHeader {
    /// Reads `NAME=VALUE`, or `NAME=@FILE` for the content of a file.
    ///
    /// # Errors
    /// Why it is no header, or why the file cannot be read; without the value.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or("write it as NAME=@FILE, or NAME=VALUE")?;
        match value.strip_prefix('@') {
            Some(path) => Self::of(name, of_file(path).map_err(|error| format!("{path}: {error}"))?.trim()),
            None => Self::of(name, value),
        }
    }

    /// Its name and its value.
    pub(super) fn pair(&self) -> (HeaderName, HeaderValue) {
        (self.0.clone(), self.1.clone())
    }

    fn of(name: &str, value: &str) -> Result<Self, String> {
        let named = name.trim().parse().map_err(|_| format!("`{name}` is no name of a header"))?;
        let mut parsed: HeaderValue = value
            .parse()
            .map_err(|_| format!("the value of `{name}` has characters that no header may have"))?;
        masking::header_secrets(value).for_each(masking::hide);
        parsed.set_sensitive(true);
        Ok(Self(named, parsed))
    }

    /// The headers that OpenTelemetry's variables give: `api-key=abc%20d,x-scope=1`.
    ///
    /// # Errors
    /// The variable, and what is wrong with it.
    pub(super) fn of_environment(environment: &Environment) -> Result<Vec<Self>, String> {
        let mut headers = Vec::new();
        for variable in VARIABLES {
            let text = environment.get(variable).unwrap_or_default();
            for pair in text.split(',').filter(|pair| !pair.trim().is_empty()) {
                let wrong = |what: &str| format!("{variable}: {what}: write NAME=VALUE,NAME=VALUE");
                let (name, value) = pair.split_once('=').ok_or_else(|| wrong("a header lacks its value"))?;
                let decoded = String::from_utf8(percent::decode(value.trim()))
                    .map_err(|_| wrong("a value is not UTF-8"))?;
                headers.push(Self::of(name, &decoded).map_err(|what| wrong(&what))?);
            }
        }
        Ok(headers)
    }
}

fn of_file(path: &str) -> Result<String, String> {
    use std::io::Read as _;
    let mut text = String::new();
    let read =
        open_named(path.as_ref()).and_then(|file| file.take(VALUE_BYTES_MAX).read_to_string(&mut text));
    read.map_err(|error| error.to_string())?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_receiver_is_added_where_it_is_missing() {
        for (given, expected) in [
            ("http://h:4318", Ok("http://h:4318/v1/metrics")),
            ("http://h:4318/", Ok("http://h:4318/v1/metrics")),
            ("https://h/otlp/v1/metrics", Ok("https://h/otlp/v1/metrics")),
            ("http://h:9090/api/v1/otlp", Ok("http://h:9090/api/v1/otlp/v1/metrics")),
            ("h:4318", Err(())),
            ("grpc://h:4317", Err(())),
            ("", Err(())),
        ] {
            assert_eq!(otlp_url(given).as_deref().map_err(|_| ()), expected, "{given}");
        }
    }

    #[test]
    fn headers_come_from_opentelemetrys_variables() {
        let of = |all: &'static str, metrics: &'static str| {
            let environment = Environment::new(move |name| {
                let text = if name == VARIABLES[0] { all } else { metrics };
                (!text.is_empty()).then(|| text.to_owned())
            });
            let headers = OtlpHeader::of_environment(&environment);
            headers.map(|headers| {
                let one =
                    |OtlpHeader(name, value): &OtlpHeader| format!("{name}: {}", value.to_str().unwrap());
                headers.iter().map(one).collect::<Vec<_>>()
            })
        };
        assert_eq!(of("", ""), Ok(vec![]));
        assert_eq!(
            of("api-key=abc%20d, x-scope = 1", "x-m=2"),
            Ok(vec!["api-key: abc d".into(), "x-scope: 1".into(), "x-m: 2".into()])
        );
        for wrong in ["word", "a b=1", "a=%0A", "a=%FF"] {
            assert!(of(wrong, "").unwrap_err().starts_with(VARIABLES[0]), "{wrong}");
        }
        assert!(!format!("{:?}", OtlpHeader::parse("key=s3cr3t-value").unwrap()).contains("s3cr3t"));
    }
}
