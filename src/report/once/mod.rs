//! A single iteration, step by step: what was sent and answered, each check, and how long it took.
//!
//! What was recorded has secrets in it; here is where they are hidden. Every text of a service is cleaned and bounded.

pub mod curl;

use std::fmt::Write as _;
use std::rc::Rc;

use crate::document::terminal::TerminalStyle;
use base::clock::saturating_nanos;
use base::masking::names_secret;
use base::units::format_ns;
use base::visible::{on_one_line, visible};
use measure::observation::{AnswerObservation, CheckOutcome, Exchange, Observation};
use measure::phases::Phases;
use text::digits;
use text::named_secrets::without_secrets;

/// How much of a body is shown, in characters.
const BODY_CHARS_MAX: usize = 2000;
/// JSON that is not longer is shown on one line.
const LINE_CHARS_MAX: usize = 100;
/// A header or a value has at most this many characters.
const VALUE_CHARS_MAX: usize = 400;
/// Steps are indented up to this depth.
const DEPTH_MAX: usize = 20;

const DIM: &str = "2";
const BOLD: &str = "1";
const RED: &str = "31";
const GREEN: &str = "32";

/// How much to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// A line for each action.
    Brief,
    /// Everything.
    Verbose,
}

/// The observations as text, in their order. After an iteration follows what `trace` says of its trace.
#[must_use]
pub fn text(
    observations: &[Observation],
    missing: usize,
    detail: Detail,
    style: TerminalStyle,
    mut trace: impl FnMut(uuid::Uuid) -> Option<String>,
) -> String {
    let mut page =
        IterationTranscript { text: String::new(), style, secrets: secrets_of(observations).into() };
    let mut open = None;
    for observation in observations {
        if let Observation::Part { name, trace_id } = observation {
            page.trace(open.take().and_then(&mut trace));
            open = *trace_id;
            page.part(name, *trace_id);
            continue;
        }
        match detail {
            Detail::Brief => page.brief(observation),
            Detail::Verbose => page.full(observation),
        }
    }
    page.trace(open.take().and_then(&mut trace));
    if missing > 0 {
        let _ = writeln!(page.text, "… and {missing} more steps");
    }
    page.text.trim_start().to_owned()
}

struct IterationTranscript {
    text: String,
    style: TerminalStyle,
    secrets: Rc<[String]>,
}

/// All secrets of all steps: what one step extracts, an earlier one may have shown.
fn secrets_of(observations: &[Observation]) -> Vec<String> {
    let mut secrets: Vec<String> = Vec::new();
    for observation in observations {
        if let Observation::Exchange(exchange) = observation {
            let new = exchange.secrets.iter().filter(|secret| !secrets.contains(secret)).cloned();
            let new: Vec<String> = new.collect();
            secrets.extend(new);
        }
    }
    secrets
}

impl IterationTranscript {
    fn paint(&self, text: &str, code: &str) -> String {
        if self.style.colour && !text.is_empty() {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }

    fn line(&mut self, depth: usize, text: &str) {
        let _ = writeln!(self.text, "{:indent$}{text}", "", indent = 2 * depth.min(DEPTH_MAX));
    }

    fn part(&mut self, name: &str, trace_id: Option<uuid::Uuid>) {
        let trace = trace_id.map(|id| format!("  trace {id}")).unwrap_or_default();
        let title = format!("{}{}", self.paint(&on_one_line(name), BOLD), self.paint(&trace, DIM));
        let gap = if self.text.is_empty() || self.text.ends_with("\n\n") { "" } else { "\n" };
        let _ = writeln!(self.text, "{gap}{title}");
    }

    fn trace(&mut self, text: Option<String>) {
        if let Some(text) = text {
            let _ = write!(self.text, "\n{}\n", text.trim_end());
        }
    }

    fn brief(&mut self, observation: &Observation) {
        match observation {
            Observation::Exchange(exchange) => {
                let secrets = &*Rc::clone(&self.secrets);
                let status = exchange.answer.as_ref().map_or_else(
                    || "no answer".to_owned(),
                    |answer| (exchange.protocol.names().written)(answer.outcome),
                );
                let took = format_ns(saturating_nanos(exchange.duration));
                let url = line_of(&exchange.request.url(), secrets);
                let action = line_of(&exchange.action, secrets);
                let mut text = format!("{action}  {} {url}  {status}  {took}", exchange.request.method);
                if exchange.attempt > 1 {
                    let _ = write!(text, "  attempt {}", exchange.attempt);
                }
                let word = self.verdict(exchange.failure.is_none());
                self.line(exchange.depth + 1, &format!("{word}{text}"));
                self.why(exchange);
            }
            Observation::Unsent { .. } => self.full(observation),
            Observation::Step { .. } | Observation::Part { .. } => {}
        }
    }

    /// What a failure says that the line above does not.
    fn why(&mut self, exchange: &Exchange) {
        let Some((class, message)) = &exchange.failure else { return };
        let secrets = &*Rc::clone(&self.secrets);
        let message = line_of(message, secrets);
        self.line(exchange.depth + 1, &format!("        {class}: {message}"));
        let failed = exchange.checks.iter().find(|checked| !checked.holds);
        if let Some(found) = failed.and_then(|checked| checked.found.as_ref()) {
            self.line(exchange.depth + 1, &format!("        found {}", line_of(found, secrets)));
        }
        if let Some(answer) = &exchange.answer {
            let body = exchange_body(&answer.body, answer.body_bytes, secrets);
            let line = on_one_line(&body.split_whitespace().collect::<Vec<_>>().join(" "));
            if !line.is_empty() {
                self.line(exchange.depth + 1, &format!("        {}", cut(&line, 200)));
            }
        }
    }

    fn full(&mut self, observation: &Observation) {
        match observation {
            Observation::Part { .. } => {}
            Observation::Step { depth, text } => {
                let text = self.paint(&line_of(text, &self.secrets), DIM);
                self.line(depth + 1, &text);
            }
            Observation::Unsent { depth, action, message } => {
                let word = self.verdict(false);
                let text = format!(
                    "{word}{}: nothing was sent: {}",
                    on_one_line(action),
                    line_of(message, &self.secrets)
                );
                self.line(depth + 1, &text);
            }
            Observation::Exchange(exchange) => self.exchange(exchange),
        }
    }

    fn exchange(&mut self, exchange: &Exchange) {
        let (depth, sent) = (exchange.depth + 1, &exchange.request);
        let secrets = &*Rc::clone(&self.secrets);
        let mut title = self.paint(&line_of(&exchange.action, secrets), BOLD);
        if exchange.attempt > 1 {
            let _ = write!(title, "  attempt {}", exchange.attempt);
        }
        self.text.push('\n');
        self.line(depth, &title);
        let url = line_of(&sent.url(), secrets);
        self.line(depth, &format!("> {} {url}", sent.method));
        self.headers(depth, '>', &sent.headers, secrets);
        self.body(depth, '>', &sent.body, sent.body.len() as u64, secrets);
        for hop in &exchange.redirects {
            let text =
                format!("< {}, redirected to {} {}", hop.status, hop.method, line_of(&hop.url, secrets));
            self.line(depth, &text);
        }
        match &exchange.answer {
            Some(answer) => self.answer(depth, answer, exchange),
            None => {
                let how_far = phases(&exchange.phases);
                self.line(depth, &format!("< no answer; how far it got: {how_far}"));
            }
        }
        for (name, value, secret) in &exchange.extracted {
            let value =
                if *secret { "***".to_owned() } else { cut(&line_of(value, secrets), VALUE_CHARS_MAX) };
            self.line(depth, &format!("{name} = {value}"));
        }
        for checked in &exchange.checks {
            let text = self.checked(checked, secrets);
            self.line(depth, &text);
        }
        if let Some((class, message)) = &exchange.failure {
            let text = format!("{class}: {}", line_of(message, secrets));
            let text = self.paint(&text, RED);
            self.line(depth, &text);
        }
    }

    fn answer(&mut self, depth: usize, answer: &AnswerObservation, exchange: &Exchange) {
        let names = exchange.protocol.names();
        let version = names.version(exchange.phases.version);
        let took = format_ns(saturating_nanos(exchange.duration));
        let phases = phases(&exchange.phases);
        self.line(depth, &format!("< {} {version}  {took}: {phases}", (names.outcome)(answer.outcome)));
        let secrets = &*Rc::clone(&self.secrets);
        self.headers(depth, '<', &answer.headers, secrets);
        self.body(depth, '<', &answer.body, answer.body_bytes, secrets);
    }

    fn headers(&mut self, depth: usize, mark: char, headers: &[(String, Vec<u8>)], secrets: &[String]) {
        for (name, value) in headers {
            let text = format!("{mark} {name}: {}", header_value(name, value, secrets));
            let text = self.paint(&text, DIM);
            self.line(depth, &text);
        }
    }

    fn body(&mut self, depth: usize, mark: char, body: &[u8], bytes: u64, secrets: &[String]) {
        if bytes == 0 {
            return;
        }
        self.line(depth, &mark.to_string());
        let text = exchange_body(body, bytes, secrets);
        for line in text.lines() {
            self.line(depth, &format!("{mark} {line}"));
        }
    }

    fn checked(&self, checked: &CheckOutcome, secrets: &[String]) -> String {
        let word = self.verdict(checked.holds);
        let text = format!("{} {}", checked.what, checked.expected);
        let found = checked.found.as_ref().map(|found| format!(": {}", line_of(found, secrets)));
        format!("{word}{}{}", line_of(&text, secrets), found.unwrap_or_default())
    }

    /// A word, which can be searched for and needs neither colours nor special characters.
    fn verdict(&self, holds: bool) -> String {
        match holds {
            true => format!("{}      ", self.paint("ok", GREEN)),
            false => format!("{}  ", self.paint("FAILED", RED)),
        }
    }
}

/// How long each phase took.
fn phases(phases: &Phases) -> String {
    let all = [
        ("redirects", phases.before_ns),
        ("resolve", phases.resolve_ns),
        ("connect", phases.connect_ns),
        ("TLS", phases.tls_ns),
        ("send", phases.send_ns),
        ("wait", phases.wait_ns),
        ("receive", phases.receive_ns),
    ];
    let known: Vec<String> =
        all.iter().filter(|(_, ns)| *ns > 0).map(|(name, ns)| format!("{name} {}", format_ns(*ns))).collect();
    match (known.is_empty(), phases.opened) {
        (true, true) => "no connection".to_owned(),
        (true, false) => "nothing was sent".to_owned(),
        (false, false) => format!("on an open connection, {}", known.join(", ")),
        (false, true) => known.join(", "),
    }
}

/// A text of a service or a scenario on one line, without secrets.
fn line_of(text: &str, secrets: &[String]) -> String {
    cut(&on_one_line(&without_secrets(text, secrets)), VALUE_CHARS_MAX)
}

/// A header's value. Its name may say that it is a secret, even one that was not known.
fn header_value(name: &str, value: &[u8], secrets: &[String]) -> String {
    let text = String::from_utf8_lossy(value);
    if !names_secret(name) {
        return line_of(&text, secrets);
    }
    let (scheme, _) = text.split_at(scheme_of(name, &text));
    format!("{scheme}***")
}

/// The length of what is no secret at the beginning of a secret header: a scheme such as `Bearer `.
fn scheme_of(name: &str, value: &str) -> usize {
    let scheme = value.split_once(' ').filter(|(scheme, _)| {
        name.ends_with("authorization") && scheme.chars().all(|c| c.is_ascii_alphanumeric())
    });
    scheme.map_or(0, |(scheme, _)| scheme.len() + 1)
}

/// The beginning of a body: JSON is indented, secrets are hidden, also those that only their names tell.
fn exchange_body(body: &[u8], bytes: u64, secrets: &[String]) -> String {
    let Ok(text) = std::str::from_utf8(body).map(str::to_owned).or_else(|error| {
        let is_cut = (body.len() as u64) < bytes && body.len() - error.valid_up_to() < 4;
        let valid = std::str::from_utf8(&body[..error.valid_up_to()]).unwrap_or_default();
        if is_cut { Ok(valid.to_owned()) } else { Err(()) }
    }) else {
        return format!("({bytes} bytes that are no text)");
    };
    if text.contains('\0') {
        return format!("({bytes} bytes that are no text)");
    }
    let pretty = match digits::parse(text.as_bytes()) {
        Ok(value) if text.len() > LINE_CHARS_MAX && (value.is_object() || value.is_array()) => {
            serde_json::to_string_pretty(&digits::ExactJson(&value)).unwrap_or(text)
        }
        _ => text,
    };
    let masked = without_secrets(&pretty, secrets);
    // The line ends of multipart bodies and of some services.
    let masked = masked.replace("\r\n", "\n");
    let shown = cut(&visible(&masked).replace('\t', "    "), BODY_CHARS_MAX);
    match shown.ends_with('…') {
        true => format!("{shown}\n({bytes} bytes)"),
        false => shown,
    }
}

fn cut(text: &str, chars_max: usize) -> String {
    let short: String = text.chars().take(chars_max).collect();
    if short.len() < text.len() { format!("{short}…") } else { short }
}
