//! Reads HTTP archives (HAR 1.2), which browsers, proxies and test tools record.
//!
//! The requests become the steps of one iteration, in their order, with the pauses between them. Values that an earlier
//! response contained and a later request sends again become extractions (`links`); secrets become variables. Cookies
//! are left out: the virtual user keeps its own.

mod links;
mod read;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use base::units::write_duration;

use super::draft::{Draft, DraftStep};
use super::exact;
use super::multipart::FormField;
use super::request::{Body, RecordedRequest, Targets, method_key, split_url};
use super::{ImportError, STEPS_MAX, sniff};
use links::Linker;
use read::{Archive, Entry};

/// The largest archive, in bytes.
pub const BYTES_MAX: u64 = 1 << 30;
/// Shorter pauses are left out.
const THINK_MIN: Duration = Duration::from_millis(100);
/// How many headers a note names.
const HEADERS_SHOWN: usize = 30;
/// Longer pauses are shortened to this.
const THINK_MAX: Duration = Duration::from_secs(10);

/// What to take from an archive.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Also images, fonts, scripts and style sheets.
    pub all: bool,
    /// The pauses between requests.
    pub think: bool,
}

/// The scenario of an archive. It is read piece by piece; large bodies are not kept.
///
/// # Errors
/// The input is not an archive.
pub fn from_reader(input: impl Read, options: Options) -> Result<Draft, ImportError> {
    let mut skipped = SkippedEntries::default();
    let mut kept = Vec::new();
    let archive = read::read(input, |entry| {
        let reason = match skipped.reason(&entry, options) {
            Some(reason) => Some(reason),
            None if kept.len() >= STEPS_MAX => Some(MORE),
            None => match KeptEntry::of(entry) {
                Ok(entry) => {
                    kept.push(entry);
                    None
                }
                Err(reason) => Some(reason),
            },
        };
        if let Some(reason) = reason {
            *skipped.0.entry(reason).or_default() += 1;
        }
    })?;
    // Some programs write the newest first.
    if kept.iter().all(|entry| entry.started.is_some()) {
        kept.sort_by_key(|entry| entry.started);
    }
    draft(&archive, kept, &skipped, options)
}

const MORE: &str = "after the first 500 requests";

/// What was left out, by the reason.
#[derive(Default)]
struct SkippedEntries(BTreeMap<&'static str, usize>);

impl SkippedEntries {
    fn reason(&self, entry: &Entry, options: Options) -> Option<&'static str> {
        if split_url(&entry.request.url).is_none() {
            return Some("not HTTP (data:, blob:, WebSocket)");
        }
        let header = |name: &str| entry.request.header(name).is_some();
        if header("upgrade") || entry.response.status == Some(101) {
            return Some("not HTTP (data:, blob:, WebSocket)");
        }
        if !entry.response.status.is_some_and(|status| (200..600).contains(&status)) {
            return Some("without a response");
        }
        if entry.request.method.eq_ignore_ascii_case("OPTIONS") && header("access-control-request-method") {
            return Some("CORS preflights");
        }
        if method_key(&entry.request.method).is_none() {
            return Some("with methods that bench cannot send");
        }
        (!options.all && is_static(entry)).then_some("static files (--all keeps them)")
    }

    fn note(&self) -> Option<String> {
        let total: usize = self.0.values().sum();
        let parts: Vec<String> = self.0.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        let plural = if total == 1 { " was" } else { "s were" };
        (total > 0).then(|| format!("{total} request{plural} left out: {}", parts.join(", ")))
    }
}

/// An image, a font, a script, a style sheet or a beacon.
fn is_static(entry: &Entry) -> bool {
    const KINDS: [&str; 9] =
        ["image", "stylesheet", "script", "font", "media", "manifest", "texttrack", "ping", "csp-report"];
    const ENDS: [&str; 20] = [
        ".js", ".mjs", ".css", ".png", ".jpg", ".jpeg", ".gif", ".svg", ".ico", ".webp", ".avif", ".woff",
        ".woff2", ".ttf", ".otf", ".map", ".mp4", ".webm", ".mp3", ".wasm",
    ];
    if entry.kind.as_deref().is_some_and(|kind| KINDS.contains(&kind)) {
        return true;
    }
    if !entry.request.method.eq_ignore_ascii_case("GET") {
        return false;
    }
    let mime = entry.response.content.mime_type.to_ascii_lowercase();
    let by_type =
        ["image/", "font/", "audio/", "video/", "text/css", "text/javascript", "application/javascript"]
            .iter()
            .any(|start| mime.starts_with(start));
    let path = entry.request.url.split(['?', '#']).next().unwrap_or_default().to_ascii_lowercase();
    by_type || ENDS.iter().any(|end| path.ends_with(end))
}

/// An entry whose response body has been searched and dropped.
struct KeptEntry {
    started: Option<Timestamp>,
    took: Duration,
    page: Option<String>,
    origin: String,
    url: String,
    status: i64,
    recorded: RecordedRequest,
    found: Vec<links::ResponseValue>,
    unread: bool,
    /// The archive tells of a body and does not have it.
    lacks_body: bool,
    /// Headers that are left out although a service may look at them.
    left_out: Vec<String>,
    /// What else the step does not have.
    notes: Vec<&'static str>,
}

impl KeptEntry {
    /// # Errors
    /// A scenario cannot hold the body: why.
    fn of(entry: Entry) -> Result<Self, &'static str> {
        let (origin, path) = split_url(&entry.request.url).unwrap_or_default();
        let (had_body, notes) = (entry.request.had_body(), entry.request.notes());
        let body_bytes = entry.request.body_bytes();
        let usual = method_key(&entry.request.method).is_some_and(|(key, _)| key != "request");
        let method = match usual {
            true => entry.request.method.to_ascii_uppercase(),
            false => entry.request.method,
        };
        let found = links::found_in(&entry.response, &method, &path);
        let unread = entry.response.content.text.is_too_large;
        let body = match entry.request.post_data {
            Some(data) => data.body(body_bytes)?,
            None => Body::Empty,
        };
        let body = with_stated_type(body, &entry.request.headers);
        let lacks_body = had_body && body == Body::Empty;
        let headers = headers_to_send(&entry.request.headers, &origin, &body);
        let left_out = left_out(&entry.request.headers, &headers, &origin);
        Ok(Self {
            started: entry.started.parse().ok(),
            took: Duration::try_from_secs_f64(entry.time.unwrap_or(0.0) / 1000.0).unwrap_or_default(),
            page: entry.page,
            origin,
            url: entry.request.url,
            status: entry.response.status.unwrap_or_default(),
            recorded: RecordedRequest { method, target: None, path, headers, body },
            found,
            unread,
            lacks_body,
            left_out,
            notes,
        })
    }
}

/// The headers that say something about the request; the others are about the browser or the connection.
fn headers_to_send(headers: &[read::NameValuePair], origin: &str, body: &Body) -> Vec<(String, String)> {
    const DROPPED: [&str; 22] = [
        "host",
        "connection",
        "proxy-connection",
        "proxy-authorization",
        "content-length",
        "accept-encoding",
        "accept-language",
        "cookie",
        "user-agent",
        "referer",
        "upgrade-insecure-requests",
        "cache-control",
        "pragma",
        "if-none-match",
        "if-modified-since",
        "dnt",
        "priority",
        "te",
        "content-type",
        "transfer-encoding",
        "keep-alive",
        "purpose",
    ];
    let has_body = *body != Body::Empty;
    let sent = headers.iter().filter(|header| {
        let name = header.name.to_ascii_lowercase();
        let of_browser =
            name.starts_with(':') || name.starts_with("sec-") || DROPPED.contains(&name.as_str());
        let usual = name == "accept" && header.value == "*/*" || name == "origin" && header.value == origin;
        let valid =
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.!~".contains(&b));
        let printable = !header.value.chars().any(char::is_control);
        let traced = matches!(name.as_str(), "traceparent" | "tracestate" | "x-trace-info" | "x-trace-hmac");
        valid && printable && !of_browser && !usual && !traced
    });
    let mut kept: Vec<(String, String)> =
        sent.map(|header| (header.name.clone(), header.value.clone())).collect();
    if !has_body
        && let Some(stated) = headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-type"))
    {
        kept.push((stated.name.clone(), stated.value.clone()));
    }
    kept
}

/// The names of recorded headers that are not sent, in lower case, but for those that bench makes itself.
fn left_out(recorded: &[read::NameValuePair], sent: &[(String, String)], origin: &str) -> Vec<String> {
    const OWN: [&str; 6] =
        ["connection", "content-length", "content-type", "transfer-encoding", "keep-alive", ""];
    let host = origin.split_once("://").map_or("", |(_, host)| host);
    let is_own = |name: &str, value: &str| {
        name.starts_with(':')
            || OWN.contains(&name)
            || name == "host" && value.eq_ignore_ascii_case(host)
            || name == "accept" && value == "*/*"
    };
    let is_sent = |name: &str| sent.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
    let named = recorded.iter().map(|header| (header.name.to_ascii_lowercase(), header.value.trim()));
    named.filter(|(name, value)| !is_own(name, value) && !is_sent(name)).map(|(name, _)| name).collect()
}

/// A text with the content type that its headers state, which is more exact than that of the recorded body.
fn with_stated_type(body: Body, headers: &[read::NameValuePair]) -> Body {
    let stated = headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-type"));
    match (body, stated) {
        (Body::Text(text, _), Some(stated)) if !stated.value.is_empty() => {
            Body::Text(text, Some(stated.value.clone()))
        }
        (body, _) => body,
    }
}

fn draft(
    archive: &Archive,
    kept: Vec<KeptEntry>,
    skipped: &SkippedEntries,
    options: Options,
) -> Result<Draft, ImportError> {
    let mut draft = Draft::default();
    let mut targets = Targets::default();
    let mut linker = Linker::new(&mut draft.variables);
    let mut steps: Vec<DraftStep> = Vec::new();
    let mut uploads: Vec<FormField> = Vec::new();
    // The step of each entry, for extractions that are found out about later.
    let mut step_of = Vec::new();
    let (mut page, mut ended): (Option<String>, Option<Timestamp>) = (None, None);
    let (mut names, mut shortened, mut unread) = (BTreeMap::<String, usize>::new(), 0, 0);
    let (mut without_body, mut left_out, mut otherwise) = (0, BTreeSet::new(), BTreeSet::new());
    for (number, entry) in kept.into_iter().enumerate() {
        if let Some(pause) = entry.started.and_then(|start| pause(ended?, start)).filter(|_| options.think) {
            shortened += usize::from(pause > THINK_MAX);
            let think = write_duration(pause.min(THINK_MAX));
            steps.push(DraftStep {
                keys: [("think".to_owned(), Value::from(think))].into_iter().collect(),
                ..DraftStep::default()
            });
        }
        ended = ended.max(entry.started.map(|start| start.saturating_add(entry.took).unwrap_or(start)));
        let mut recorded = entry.recorded;
        recorded.target = targets.name(&entry.origin);
        let Some(mut keys) = linker.step(&recorded, &entry.url) else { continue };
        otherwise.extend(exact::notes(&recorded, "the recording has"));
        otherwise.extend(entry.notes.iter().map(|note| (*note).to_owned()));
        let name = unique(&mut names, name_of(&recorded, &keys));
        if let Body::Multipart(fields) = recorded.body {
            uploads.extend(fields);
        }
        keys.insert("expect".into(), json!({ "status": expected(entry.status) }));
        let action = [("action".to_owned(), Value::from(name))];
        let comment = match entry.page.filter(|new| page.as_ref() != Some(new)) {
            Some(new) => page_comment(archive, page.insert(new), steps.is_empty()),
            None => String::new(),
        };
        unread += usize::from(entry.unread);
        without_body += usize::from(entry.lacks_body);
        left_out.extend(entry.left_out);
        step_of.push(steps.len());
        steps.push(DraftStep { keys: action.into_iter().chain(keys).collect(), comment });
        linker.received(number, entry.found);
    }
    let extracted = linker.extracts();
    let count = extracted.len();
    add_extracts(extracted, &step_of, &mut steps);
    draft.stand_ins(&uploads);
    draft.steps = steps;
    draft.targets = targets.0;
    draft.name = draft.targets.first().map_or_else(String::new, |(_, origin)| {
        origin.split_once("://").map_or(origin.as_str(), |(_, host)| host).to_owned()
    });
    draft.title = archive
        .first_title()
        .map(|title| sniff::shown(&title))
        .unwrap_or_else(|| format!("Recorded at {}", draft.name));
    draft.about.push(format!("Made by `bench import har` from a recording by {}.", archive.creator()));
    let counts = Counts { extracted: count, shortened, unread, without_body, left_out };
    let notes = counts.notes(skipped, &draft.targets);
    draft.notes.extend(notes.chain(otherwise));
    Ok(draft)
}

/// What a note tells of an archive.
struct Counts {
    extracted: usize,
    shortened: usize,
    unread: usize,
    without_body: usize,
    left_out: BTreeSet<String>,
}

impl Counts {
    fn notes(self, skipped: &SkippedEntries, targets: &[(String, String)]) -> impl Iterator<Item = String> {
        let Self { extracted, shortened, unread, without_body, left_out } = self;
        let notes = [
            skipped.note(),
            (extracted > 0).then(|| {
                let plural = if extracted == 1 { " is" } else { "s are" };
                format!("{extracted} value{plural} extracted from a response and sent again; see `extract`")
            }),
            (shortened > 0)
                .then(|| format!("pauses that were shortened to 10 s: {shortened}; --think no leaves all out")),
            (unread > 0)
                .then(|| format!("response bodies over 2 MiB were not searched for such values: {unread}")),
            (without_body > 0).then(|| {
                let (plural, its) = if without_body == 1 { (" was", "its body: the step sends") } else { ("s were", "their bodies: the steps send") };
                format!("{without_body} request{plural} recorded without {its} none")
            }),
            (!left_out.is_empty()).then(|| {
                let names: Vec<String> = left_out.iter().take(HEADERS_SHOWN).map(|name| sniff::shown(name)).collect();
                let more = if left_out.len() > HEADERS_SHOWN { ", …" } else { "" };
                format!("headers of the browser that are not sent: {}{more}; virtual users keep cookies of their own", names.join(", "))
            }),
            (targets.len() > 1).then(|| {
                let origins: Vec<&str> = targets.iter().map(|(_, origin)| origin.as_str()).collect();
                format!("requests go to several hosts; remove those that are not yours: {}", origins.join(", "))
            }),
        ];
        notes.into_iter().flatten()
    }
}

/// What is above the first step of a page.
fn page_comment(archive: &Archive, page: &str, is_first: bool) -> String {
    let blank = if is_first { "" } else { "\n" };
    let title = archive.title(page);
    title.map(|title| format!("{blank}Page: {}", sniff::shown(&title))).unwrap_or_default()
}

fn add_extracts(extracted: Vec<(usize, String, Value)>, step_of: &[usize], steps: &mut [DraftStep]) {
    for (entry, name, extract) in extracted {
        let Some(step) = step_of.get(entry).and_then(|at| steps.get_mut(*at)) else { continue };
        let map = step.keys.entry("extract").or_insert_with(|| json!({}));
        map[name] = extract;
    }
}

fn pause(ended: Timestamp, start: Timestamp) -> Option<Duration> {
    let gap = Duration::try_from(start.duration_since(ended)).ok().filter(|gap| *gap >= THINK_MIN)?;
    // Tenths of a second are precise enough to read.
    Some(Duration::from_millis(u64::try_from(gap.as_millis()).unwrap_or(u64::MAX) / 100 * 100))
}

/// A recorded 304 depended on the browser's cache.
fn expected(status: i64) -> Value {
    if status == 304 { json!("2xx") } else { json!(status) }
}

const NAME_CHARS_MAX: usize = 100;

/// `GET /jobs/{id}`: the method, and the path without ids, so that the same action has the same name in every recording.
fn name_of(recorded: &RecordedRequest, keys: &Map<String, Value>) -> String {
    let path = recorded.path.split('?').next().unwrap_or_default();
    let key = method_key(&recorded.method).map(|(key, _)| key);
    let written = key.and_then(|key| keys.get(key)?.as_str()).unwrap_or_default();
    let written: Vec<&str> = written[written.find('/').unwrap_or(0)..].split('/').collect();
    let segments: Vec<&str> = path.split('/').collect();
    let same = written.len() == segments.len();
    let is_linked = |at: usize| {
        same && written.get(at).is_some_and(|text| text.starts_with("{{ ") && !text.contains('\''))
    };
    let names: Vec<&str> = segments
        .iter()
        .enumerate()
        .map(|(at, segment)| if is_id(segment) || is_linked(at) { "{id}" } else { segment })
        .collect();
    format!("{} {}", recorded.method, sniff::shown(&names.join("/"))).chars().take(NAME_CHARS_MAX).collect()
}

/// True for a segment of a path that names one thing of many: a number, a UUID, or a long text with digits.
fn is_id(segment: &str) -> bool {
    const HEX_MIN: usize = 8;
    const LONG: usize = 20;
    let has_digit = segment.bytes().any(|byte| byte.is_ascii_digit());
    let is_hex =
        segment.len() >= HEX_MIN && segment.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    let is_long = segment.len() >= LONG && !segment.contains('.');
    has_digit && (segment.bytes().all(|byte| byte.is_ascii_digit()) || is_hex || is_long)
}

fn unique(names: &mut BTreeMap<String, usize>, name: String) -> String {
    let count = names.entry(name.clone()).or_default();
    *count += 1;
    if *count == 1 { name } else { format!("{name} ({count})") }
}

#[cfg(test)]
mod tests;
