//! Where metrics are pushed to, and with which headers.

use http::header::{AUTHORIZATION, HeaderName, HeaderValue};

use base::masking;
use base::percent;
use report::metrics::influx::LinePrecision;
use text::files::open_named;

use super::environment::Environment;

const OTLP_PATH: &str = "v1/metrics";
/// The variables of OpenTelemetry with headers; the one for metrics counts more.
pub(super) const OTLP_VARIABLES: [&str; 2] =
    ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_METRICS_HEADERS"];
/// The variable with headers for remote write, in the same form.
pub(super) const REMOTE_WRITE_VARIABLE: &str = "BENCH_REMOTE_WRITE_HEADERS";
/// The variable of InfluxDB's own programs with a token.
const INFLUX_VARIABLE: &str = "INFLUX_TOKEN";
/// The largest file of a header, in bytes.
const VALUE_BYTES_MAX: u64 = 64 << 10;

/// The URL to push to of a receiver: its base, to which `v1/metrics` is added where it is missing.
///
/// # Errors
/// Why the URL is not valid, with an example.
pub fn otlp_url(text: &str) -> Result<String, String> {
    http_url(text, "http://127.0.0.1:4318")?;
    let base = text.trim_end_matches('/');
    Ok(if base.ends_with(OTLP_PATH) { base.to_owned() } else { format!("{base}/{OTLP_PATH}") })
}

/// A URL that takes Prometheus' remote write, as it is.
///
/// # Errors
/// Why the URL is not valid, with an example.
pub fn remote_write_url(text: &str) -> Result<String, String> {
    const EXAMPLE: &str = "http://127.0.0.1:9090/api/v1/write";
    let url = http_url(text, EXAMPLE)?;
    // Each receiver has another path, and a POST to the root says only that it is not allowed.
    if url.path() == "/" {
        return Err(format!("it lacks the path: write {EXAMPLE} for Prometheus, …/api/v1/push for Mimir"));
    }
    Ok(text.to_owned())
}

/// Reads a URL, whose secrets no message will show.
fn http_url(text: &str, example: &str) -> Result<url::Url, String> {
    masking::hide_url(text);
    let url = url::Url::parse(text).map_err(|error| format!("{error}; write {example}"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(format!("only http:// and https:// are known; write {example}"));
    }
    Ok(url)
}

/// Where an InfluxDB takes lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InfluxUrl {
    pub(super) url: String,
    pub(super) precision: LinePrecision,
}

impl InfluxUrl {
    /// Reads a URL of the first version (`/write?db=`), the second (`/api/v2/write?org=&bucket=`) or the third
    /// (`/api/v3/write_lp?db=`).
    ///
    /// # Errors
    /// Why the URL is not valid, with an example.
    pub fn parse(text: &str) -> Result<Self, String> {
        const EXAMPLES: &str = "http://127.0.0.1:8086/write?db=NAME (version 1) or \
            http://127.0.0.1:8086/api/v2/write?org=ORG&bucket=NAME (2 and 3)";
        // The first version's password has a name that tells nobody.
        let password = |(name, value): (&str, &str)| (name == "p").then(|| value.to_owned());
        let query = text.split_once('?').map_or("", |(_, query)| query);
        let pairs = query.split(['&', '#']).filter_map(|pair| pair.split_once('='));
        pairs.filter_map(password).for_each(|password| masking::hide_as_written(&password));
        let url = http_url(text, EXAMPLES)?;
        if !url.path().ends_with("/write") && !url.path().ends_with("/write_lp") {
            return Err(format!("its path does not end in /write: write {EXAMPLES}"));
        }
        let given = url.query_pairs().find(|(name, _)| name == "precision");
        let precision = given.map_or(Ok(LinePrecision::default()), |(_, name)| {
            LinePrecision::named(&name).ok_or("its precision is none of ns, us, ms and s")
        })?;
        Ok(Self { url: text.to_owned(), precision })
    }

    /// Whether it logs in itself.
    pub(super) fn has_password(&self) -> bool {
        let url = url::Url::parse(&self.url);
        url.is_ok_and(|url| !url.username().is_empty() || url.query_pairs().any(|(name, _)| name == "p"))
    }
}

/// Where a StatsD listens for datagrams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatsdAddress {
    pub(super) host: String,
    pub(super) port: u16,
    /// Whether it knows DogStatsD's tags.
    pub(super) tagged: bool,
}

impl StatsdAddress {
    /// Reads `HOST:PORT`, or `dogstatsd://HOST:PORT` for one that knows tags.
    ///
    /// # Errors
    /// What is wrong, with an example.
    pub fn parse(text: &str) -> Result<Self, String> {
        const EXAMPLE: &str =
            "write HOST:PORT, such as 127.0.0.1:8125, or dogstatsd://HOST:PORT for one that knows tags";
        let (scheme, address) = text.split_once("://").unwrap_or(("statsd", text));
        let tagged = match scheme {
            "statsd" => false,
            "dogstatsd" => true,
            _ => return Err(format!("`{scheme}` is not known: {EXAMPLE}")),
        };
        let authority: http::uri::Authority =
            address.trim_end_matches('/').parse().map_err(|_| EXAMPLE.to_owned())?;
        let port = authority.port_u16().filter(|port| *port > 0).ok_or(EXAMPLE)?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || authority.as_str().contains('@') {
            return Err(EXAMPLE.to_owned());
        }
        Ok(Self { host: host.to_owned(), port, tagged })
    }
}

/// A header of pushes. Its value is a secret.
#[derive(Clone, Debug)]
pub struct PushHeader(HeaderName, HeaderValue);

impl PushHeader {
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

    /// The headers that variables give: `api-key=abc%20d,x-scope=1`.
    ///
    /// # Errors
    /// The variable, and what is wrong with it.
    pub(super) fn of_environment(environment: &Environment, variables: &[&str]) -> Result<Vec<Self>, String> {
        let mut headers = Vec::new();
        for variable in variables {
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

    /// The header that logs in to InfluxDB, if a variable has a token.
    ///
    /// # Errors
    /// The variable, and what is wrong with it.
    pub(super) fn of_influx(environment: &Environment) -> Result<Option<Self>, String> {
        let token = environment.get(INFLUX_VARIABLE).filter(|token| !token.trim().is_empty());
        let header = token.map(|token| Self::of(AUTHORIZATION.as_str(), &format!("Token {}", token.trim())));
        header.transpose().map_err(|_| format!("{INFLUX_VARIABLE} has characters that no header may have"))
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
    fn a_url_of_remote_write_has_its_path() {
        for (given, expected) in [
            ("http://h:9090/api/v1/write", Ok(())),
            ("https://user:pw@h/api/v1/push?x=1", Ok(())),
            ("http://h:9090", Err("it lacks the path")),
            ("http://h:9090/", Err("it lacks the path")),
            ("h:9090/api/v1/write", Err("only http:// and https://")),
            ("", Err("relative URL without a base; write http://127.0.0.1:9090/api/v1/write")),
        ] {
            let url = remote_write_url(given);
            match expected {
                Ok(()) => assert_eq!(url.as_deref(), Ok(given)),
                Err(part) => {
                    assert!(url.as_ref().is_err_and(|why| why.starts_with(part)), "{given}: {url:?}")
                }
            }
        }
    }

    #[test]
    fn a_url_of_influxdb_names_its_version_by_its_path() {
        use LinePrecision::{Milliseconds, Nanoseconds, Seconds};
        for (given, expected) in [
            ("http://h:8086/write?db=d", Ok(Nanoseconds)),
            ("http://h:8086/write?db=d&precision=s", Ok(Seconds)),
            ("https://h/api/v2/write?org=o&bucket=b&precision=ms", Ok(Milliseconds)),
            ("http://h:8181/api/v3/write_lp?db=d", Ok(Nanoseconds)),
            ("http://h:8428/write", Ok(Nanoseconds)),
            ("http://h:8086/write?precision=h", Err("its precision is none of")),
            ("http://h:8086", Err("its path does not end in /write")),
            ("http://h:8086/mydb", Err("its path does not end in /write")),
            ("influx://h:8086/write", Err("only http:// and https://")),
        ] {
            let url = InfluxUrl::parse(given);
            match expected {
                Ok(precision) => assert_eq!(url, Ok(InfluxUrl { url: given.to_owned(), precision })),
                Err(part) => {
                    assert!(url.as_ref().is_err_and(|why| why.starts_with(part)), "{given}: {url:?}")
                }
            }
        }
    }

    #[test]
    fn an_address_of_statsd_says_whether_it_knows_tags() {
        for (given, expected) in [
            ("127.0.0.1:8125", Some(("127.0.0.1", 8125, false))),
            ("statsd://h:1", Some(("h", 1, false))),
            ("dogstatsd://h:8125/", Some(("h", 8125, true))),
            ("[::1]:8125", Some(("::1", 8125, false))),
            ("h", None),
            ("h:0", None),
            ("h:65536", None),
            (":8125", None),
            ("user@h:8125", None),
            ("http://h:8125", None),
            ("", None),
        ] {
            let address = StatsdAddress::parse(given);
            let read = address.as_ref().ok().map(|one| (one.host.as_str(), one.port, one.tagged));
            assert_eq!(read, expected, "{given}: {address:?}");
        }
    }

    #[test]
    fn passwords_of_urls_are_shown_nowhere() {
        for given in ["http://h/write?u=user&p=s3cr3t-of-v1", "nothing://user:s3cr3t-of-v1@h/write"] {
            let why = InfluxUrl::parse(given).err().unwrap_or_default();
            assert!(!masking::masked(&format!("{given}: {why}")).contains("s3cr3t-of-v1"), "{given}");
        }
    }

    #[test]
    fn a_token_of_influxdb_comes_from_its_variable() {
        for (given, expected) in [
            ("", Ok(None)),
            (" ", Ok(None)),
            ("t0ken==\n", Ok(Some("authorization: Token t0ken=="))),
            ("a\nb", Err("INFLUX_TOKEN has characters that no header may have")),
        ] {
            let environment =
                Environment::new(move |name| (name == "INFLUX_TOKEN").then(|| given.to_owned()));
            let header = PushHeader::of_influx(&environment).map(|header| {
                header.map(|PushHeader(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            });
            assert_eq!(header.as_ref().map(Option::as_deref).map_err(String::as_str), expected, "{given}");
        }
    }

    #[test]
    fn headers_come_from_opentelemetrys_variables() {
        let of = |all: &'static str, metrics: &'static str| {
            let environment = Environment::new(move |name| {
                let text = if name == OTLP_VARIABLES[0] { all } else { metrics };
                (!text.is_empty()).then(|| text.to_owned())
            });
            let headers = PushHeader::of_environment(&environment, &OTLP_VARIABLES);
            headers.map(|headers| {
                let one =
                    |PushHeader(name, value): &PushHeader| format!("{name}: {}", value.to_str().unwrap());
                headers.iter().map(one).collect::<Vec<_>>()
            })
        };
        assert_eq!(of("", ""), Ok(vec![]));
        assert_eq!(
            of("api-key=abc%20d, x-scope = 1", "x-m=2"),
            Ok(vec!["api-key: abc d".into(), "x-scope: 1".into(), "x-m: 2".into()])
        );
        for wrong in ["word", "a b=1", "a=%0A", "a=%FF"] {
            assert!(of(wrong, "").unwrap_err().starts_with(OTLP_VARIABLES[0]), "{wrong}");
        }
        assert!(!format!("{:?}", PushHeader::parse("key=s3cr3t-value").unwrap()).contains("s3cr3t"));
    }
}
