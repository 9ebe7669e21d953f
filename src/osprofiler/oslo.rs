//! The section `[profiler]` of an OpenStack service's configuration file, read as oslo.config reads it.
//!
//! ```ini
//! [profiler]
//! enabled = True
//! hmac_keys = SECRET_KEY, ANOTHER_KEY
//! connection_string = redis://127.0.0.1:6379
//! trace_sqlalchemy = True
//! ```
//!
//! A line is `key = value` or `key: value`. A line that begins with blanks continues the value above it. `#` and
//! `;` begin a comment only at the start of a line. Matching quotes around a value are removed. If a key occurs
//! twice, the last value applies. Other sections and unknown keys are ignored. Texts such as `$other` are not
//! expanded.

use std::collections::HashMap;
use std::time::Duration;

use thiserror::Error;

use super::verifying::ServerKeys;
use base::percent;
use base::secret::Secret;

/// Longer files (in bytes) are rejected.
pub const FILE_LEN_MAX: usize = 4 * 1024 * 1024;

/// The options of `[profiler]`, with OSProfiler's defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfilerOptions {
    /// Whether tracing is on.
    pub enabled: bool,
    /// `hmac_keys`: one or several, separated by commas.
    pub hmac_keys: Secret,
    /// Where records are stored; [`Self::collector`] adds the options that concern it.
    pub connection_string: Secret,
    /// Whether statements are points.
    pub trace_sqlalchemy: bool,
    /// Whether HTTP requests are points.
    pub trace_requests: bool,
    /// Whether traces with errors are listed separately.
    pub filter_error_trace: bool,
    /// The document type for Elasticsearch.
    pub es_doc_type: String,
    /// How long Elasticsearch keeps a search open.
    pub es_scroll_time: String,
    /// How many documents Elasticsearch gives at once.
    pub es_scroll_size: u32,
    /// How long redis may take to answer.
    pub socket_timeout: Duration,
    /// The name of the redis that Sentinel watches.
    pub sentinel_service_name: String,
}

impl Default for ProfilerOptions {
    fn default() -> Self {
        Self {
            enabled: false,
            hmac_keys: Secret::new("SECRET_KEY"),
            connection_string: Secret::new("messaging://"),
            trace_sqlalchemy: false,
            trace_requests: false,
            filter_error_trace: false,
            es_doc_type: "notification".to_owned(),
            es_scroll_time: "2m".to_owned(),
            es_scroll_size: 10_000,
            socket_timeout: Duration::from_millis(100),
            sentinel_service_name: "mymaster".to_owned(),
        }
    }
}

/// Why a configuration file cannot be read.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum OptionError {
    /// Over [`FILE_LEN_MAX`].
    #[error("the file has more than 4 MiB; name a service's configuration file")]
    TooLong,
    /// A line that is neither a section nor an option.
    #[error("line {line}: {what}; {remedy}")]
    Line {
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        what: &'static str,
        /// What to write.
        remedy: &'static str,
    },
    /// A value of the wrong kind. It is not shown: it may be a secret on the wrong line.
    #[error("line {line}: the value of `{key}` is not {expected}")]
    Value {
        /// Which line, from 1.
        line: usize,
        /// The option.
        key: &'static str,
        /// What it should be, with an example.
        expected: &'static str,
    },
}

const BOOL: &str = "a truth value; write True or False";
const NUMBER: &str = "a whole number from 1 to 4294967295; write for instance 10000";
const SECONDS: &str = "a number of seconds; write for instance 0.1";
const TEXT: &str = "a text; write something after the =";

impl ProfilerOptions {
    /// Reads the section `[profiler]` of a file's text; without one, the defaults.
    ///
    /// # Errors
    /// The line, what is wrong, and what to write instead.
    pub fn parse(text: &str) -> Result<Self, OptionError> {
        if text.len() > FILE_LEN_MAX {
            return Err(OptionError::TooLong);
        }
        let values = Values(section(text, "profiler")?);
        let default = Self::default();
        let secret = |key, default: Secret| values.text(key).map_or(default, |(_, text)| Secret::new(text));
        Ok(Self {
            enabled: values.truth("enabled", default.enabled)?,
            hmac_keys: secret("hmac_keys", default.hmac_keys),
            connection_string: secret("connection_string", default.connection_string),
            trace_sqlalchemy: values.truth("trace_sqlalchemy", default.trace_sqlalchemy)?,
            trace_requests: values.truth("trace_requests", default.trace_requests)?,
            filter_error_trace: values.truth("filter_error_trace", default.filter_error_trace)?,
            es_doc_type: values.named("es_doc_type", default.es_doc_type)?,
            es_scroll_time: values.named("es_scroll_time", default.es_scroll_time)?,
            es_scroll_size: values.number("es_scroll_size", default.es_scroll_size)?,
            socket_timeout: values.seconds("socket_timeout", default.socket_timeout)?,
            sentinel_service_name: values.named("sentinel_service_name", default.sentinel_service_name)?,
        })
    }

    /// The connection string for [`super::driver::Collector::connect`]. Options of the section that concern the
    /// collector are added to it, unless it already has them.
    #[must_use]
    pub fn collector(&self) -> Secret {
        let text = self.connection_string.expose();
        let (text, fragment) = text.find('#').map_or((text, ""), |at| text.split_at(at));
        let (address, query) = text.split_once('?').unwrap_or((text, ""));
        let mut options: Vec<String> =
            query.split('&').filter(|pair| !pair.is_empty()).map(str::to_owned).collect();
        let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
        for (name, value) in self.collector_options(scheme) {
            let named = |pair: &String| {
                pair.split('=')
                    .next()
                    .is_some_and(|given| given == name || Some(given) == name.strip_prefix("es_"))
            };
            if !options.iter().any(named) {
                options.push(format!("{name}={}", percent::encode(value)));
            }
        }
        let names_service = rest.split_once('/').is_some_and(|(_, service)| !service.is_empty());
        let service = match scheme {
            "redissentinel" if !names_service => percent::encode(&self.sentinel_service_name),
            _ => String::new(),
        };
        let slash = if service.is_empty() || rest.ends_with('/') { "" } else { "/" };
        let mark = if options.is_empty() { "" } else { "?" };
        Secret::new(format!("{address}{slash}{service}{mark}{}{fragment}", options.join("&")))
    }

    /// Options of the section for collectors with this scheme. Elasticsearch's may also be written without `es_`.
    fn collector_options(&self, scheme: &str) -> Vec<(&'static str, &str)> {
        let filter = self.filter_error_trace.then_some(("filter_error_trace", "true"));
        let is_elasticsearch = scheme.starts_with("elasticsearch");
        let doc_type = is_elasticsearch.then_some(("es_doc_type", self.es_doc_type.as_str()));
        let filters = is_elasticsearch || ["redis", "rediss", "redissentinel"].contains(&scheme);
        filter.filter(|_| filters).into_iter().chain(doc_type).collect()
    }

    /// The keys that requests may be signed with: none while it is not enabled.
    #[must_use]
    pub fn server_keys(&self) -> ServerKeys {
        ServerKeys::parse(if self.enabled { self.hmac_keys.expose() } else { "" })
    }
}

/// A value and the line that its key is on.
type LocatedValue = (usize, String);

/// The last value of each key of a section.
fn section(text: &str, wanted: &str) -> Result<HashMap<String, LocatedValue>, OptionError> {
    let fault = |line, what, remedy| OptionError::Line { line, what, remedy };
    let mut values: HashMap<String, LocatedValue> = HashMap::new();
    let (mut within, mut last): (bool, Option<String>) = (false, None);
    for (line, text) in (1..).zip(text.strip_prefix('\u{feff}').unwrap_or(text).lines()) {
        let trimmed = text.trim();
        // Either ends a value.
        if trimmed.is_empty() || text.starts_with(['#', ';']) {
            last = None;
        } else if text.starts_with([' ', '\t']) {
            match (&last, within) {
                (Some(key), true) => {
                    if let Some((_, value)) = values.get_mut(key) {
                        value.push('\n');
                        value.push_str(trimmed);
                    }
                }
                (None, true) => {
                    let remedy = "begin the line with the option's name, without blanks before it";
                    return Err(fault(line, "it goes on with a value, but there is none above", remedy));
                }
                _ => {}
            }
        } else if let Some(name) = trimmed.strip_prefix('[') {
            let Some(name) = name.strip_suffix(']') else {
                return Err(fault(line, "the name of a section is not closed", "write it as [profiler]"));
            };
            (within, last) = (name == wanted, None);
        } else if within {
            let Some((key, value)) = split(trimmed) else {
                return Err(fault(line, "it has neither = nor :", "write it as key = value"));
            };
            if key.is_empty() {
                return Err(fault(line, "there is no name before the =", "write it as key = value"));
            }
            values.insert(key.to_owned(), (line, unquoted(value).to_owned()));
            last = Some(key.to_owned());
        }
    }
    Ok(values)
}

/// Name and value, at the first `=` or `:`.
fn split(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_at(line.find(['=', ':'])?);
    Some((key.trim(), value[1..].trim()))
}

fn unquoted(value: &str) -> &str {
    let within = |quote: char| value.strip_prefix(quote).and_then(|value| value.strip_suffix(quote));
    within('"').or_else(|| within('\'')).unwrap_or(value)
}

struct Values(HashMap<String, LocatedValue>);

impl Values {
    fn text(&self, key: &str) -> Option<(usize, &str)> {
        self.0.get(key).map(|(line, text)| (*line, text.as_str()))
    }

    fn read<T>(
        &self,
        key: &'static str,
        default: T,
        expected: &'static str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, OptionError> {
        let Some((line, text)) = self.text(key) else { return Ok(default) };
        read(text).ok_or(OptionError::Value { line, key, expected })
    }

    fn truth(&self, key: &'static str, default: bool) -> Result<bool, OptionError> {
        self.read(key, default, BOOL, |text| match text.to_ascii_lowercase().as_str() {
            "true" | "1" | "on" | "yes" => Some(true),
            "false" | "0" | "off" | "no" => Some(false),
            _ => None,
        })
    }

    fn number(&self, key: &'static str, default: u32) -> Result<u32, OptionError> {
        self.read(key, default, NUMBER, |text| text.parse().ok().filter(|number| *number > 0))
    }

    fn seconds(&self, key: &'static str, default: Duration) -> Result<Duration, OptionError> {
        self.read(key, default, SECONDS, |text| Duration::try_from_secs_f64(text.parse().ok()?).ok())
    }

    fn named(&self, key: &'static str, default: String) -> Result<String, OptionError> {
        self.read(key, default, TEXT, |text| Some(text.to_owned()).filter(|text| !text.is_empty()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_section_is_read_and_the_rest_is_passed_over() {
        let text = "\u{feff}[DEFAULT]\r\nenabled = no idea\nodd line\n  [x]\n\
            [profiler]\n# enabled = False\nenabled = yes\n;x\nhmac_keys: 'one,\n    two'\n\
            connection_string = \"redis://:p=w:d@h:6379/0?a=b # c\"\nunknown = [\ntrace_sqlalchemy=False\n\
            trace_sqlalchemy=1\nfilter_error_trace = oN\nes_scroll_size = 7\nsocket_timeout = 2.5\n\
            es_doc_type=d\nsentinel_service_name = m\n\n[other]\ntrace_requests = True\n";
        let expected = ProfilerOptions {
            enabled: true,
            hmac_keys: Secret::new("'one,\ntwo'"),
            connection_string: Secret::new("redis://:p=w:d@h:6379/0?a=b # c"),
            trace_sqlalchemy: true,
            filter_error_trace: true,
            es_doc_type: "d".to_owned(),
            es_scroll_size: 7,
            socket_timeout: Duration::from_millis(2_500),
            sentinel_service_name: "m".to_owned(),
            ..ProfilerOptions::default()
        };
        assert_eq!(ProfilerOptions::parse(text), Ok(expected));
        for text in ["", "[profiler]", "[profilers]\nenabled = x", "enabled = True\n"] {
            assert_eq!(ProfilerOptions::parse(text), Ok(ProfilerOptions::default()), "{text}");
        }
    }

    #[test]
    fn keys_count_only_where_it_is_enabled() {
        for (text, expected) in [
            ("enabled = true\nhmac_keys = A,B", false),
            ("enabled = false\nhmac_keys = A,B", true),
            ("hmac_keys = A", true),
            ("enabled = true\nhmac_keys =", true),
        ] {
            let options = ProfilerOptions::parse(&format!("[profiler]\n{text}\n")).unwrap();
            assert_eq!(options.server_keys().is_empty(), expected, "{text}");
            assert!(!format!("{options:?}").contains('B'), "{options:?}");
        }
    }

    #[test]
    fn faults_name_the_line_and_what_to_write() {
        for (text, expected) in [
            ("enabled = hunter2", "line 3: the value of `enabled` is not a truth value; write True or False"),
            ("enabled =", "line 3: the value of `enabled` is not a truth value; write True or False"),
            ("es_scroll_size = 0", "line 3: the value of `es_scroll_size` is not a whole number"),
            ("socket_timeout = -1", "line 3: the value of `socket_timeout` is not a number of seconds"),
            ("socket_timeout = NaN", "line 3: the value of `socket_timeout` is not a number of seconds"),
            ("es_doc_type =", "line 3: the value of `es_doc_type` is not a text"),
            ("enabled", "line 3: it has neither = nor :; write it as key = value"),
            ("= x", "line 3: there is no name before the ="),
            ("[profiler", "line 3: the name of a section is not closed; write it as [profiler]"),
            ("  x", "line 3: it goes on with a value, but there is none above"),
        ] {
            let error = ProfilerOptions::parse(&format!("[profiler]\n\n{text}\n")).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
        let long = "#".repeat(FILE_LEN_MAX + 1);
        assert_eq!(ProfilerOptions::parse(&long), Err(OptionError::TooLong));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(\\[profiler\\]\n)?([a-z_]{0,8}[ \t]?[=:]?[ '\"]?\\PC{0,6}['\"]?\n?){0,6}") {
            let _ = ProfilerOptions::parse(&text);
        }
    }

    #[test]
    fn options_of_the_collector_become_part_of_its_connection_string() {
        let all = "filter_error_trace = on\nes_doc_type = n/o\nsentinel_service_name = the master";
        for (written, options, expected) in [
            ("redis://h:1/2", "", "redis://h:1/2"),
            ("redis://h:1/2", all, "redis://h:1/2?filter_error_trace=true"),
            ("rediss://h?db=1#insecure", all, "rediss://h?db=1&filter_error_trace=true#insecure"),
            ("redis://h?filter_error_trace=false", all, "redis://h?filter_error_trace=false"),
            ("redissentinel://a:1,b:2", all, "redissentinel://a:1,b:2/the%20master?filter_error_trace=true"),
            ("redissentinel://a:1/", "", "redissentinel://a:1/mymaster"),
            ("redissentinel://a:1/own", all, "redissentinel://a:1/own?filter_error_trace=true"),
            ("elasticsearch://h", "", "elasticsearch://h?es_doc_type=notification"),
            ("elasticsearch://h", all, "elasticsearch://h?filter_error_trace=true&es_doc_type=n%2Fo"),
            ("elasticsearch://h?doc_type=x", "", "elasticsearch://h?doc_type=x"),
            ("mysql://u:p@h/d", all, "mysql://u:p@h/d"),
            ("file:///a?b", all, "file:///a?b"),
            ("", all, ""),
        ] {
            let text = format!("[profiler]\nconnection_string = {written}\n{options}\n");
            let read = ProfilerOptions::parse(&text).unwrap_or_default();
            let read = if written.is_empty() {
                ProfilerOptions { connection_string: Secret::new(""), ..read }
            } else {
                read
            };
            assert_eq!(read.collector().expose(), expected, "{written} {options}");
        }
    }
}
