//! Reads curl commands, as copied from the developer tools of browsers and from documentation.

use base64::Engine as _;
use serde_json::{Value, json};

use crate::base::percent;

use super::draft::{Draft, Step};
use super::request::{Body, Field, Recorded, SecretsOnly, Targets, split_url};
use super::{ImportError, STEPS_MAX, words};

/// The longest command, in bytes.
pub const TEXT_BYTES_MAX: usize = words::BYTES_MAX;

/// Reads a file that a command names (`-d @FILE`): its text.
pub type ReadFile<'f> = dyn Fn(&str) -> Result<String, ImportError> + 'f;

/// The scenario of a command that a shell has not split yet.
///
/// # Errors
/// The text is no curl command, or contradicts itself.
pub fn from_text(text: &str, read: &ReadFile<'_>) -> Result<Draft, ImportError> {
    from_words(&words::split(text)?, read)
}

/// The scenario of a command, as the words that a shell made of it.
///
/// # Errors
/// The words are no curl command, or contradict themselves.
pub fn from_words(words: &[String], read: &ReadFile<'_>) -> Result<Draft, ImportError> {
    let mut words = words.iter().map(String::as_str);
    let first = words.next().unwrap_or_default();
    let program = first.rsplit(['/', '\\']).next().unwrap_or_default().trim_end_matches(".exe");
    let is_curl = program.eq_ignore_ascii_case("curl");
    if !is_curl && !first.starts_with('-') && !first.contains("://") {
        return Err(ImportError::new("this is not a curl command", "begin it with the word curl"));
    }
    let mut command = Command::default();
    let mut rest: Vec<&str> = if is_curl { Vec::new() } else { vec![first] };
    rest.extend(words);
    command.options(&rest, read)?;
    command.draft()
}

/// What the options of a command amount to.
#[derive(Default)]
struct Command {
    urls: Vec<String>,
    method: Option<String>,
    headers: Vec<(String, String)>,
    data: Vec<String>,
    json: bool,
    fields: Vec<Field>,
    in_query: bool,
    head_only: bool,
    user: Option<String>,
    cookies: Vec<String>,
    insecure: bool,
    compressed: bool,
    redirects: Option<u32>,
    seconds: Option<f64>,
    http_version: Option<&'static str>,
    ca: Option<String>,
    cert: Option<String>,
    key: Option<String>,
    resolve: bool,
    unknown: Vec<String>,
    notes: Vec<String>,
}

/// Long names of the short options that have an equivalent, and whether they take a value.
const SHORT: [(char, &str, bool); 32] = [
    ('X', "request", true),
    ('H', "header", true),
    ('d', "data", true),
    ('F', "form", true),
    ('u', "user", true),
    ('b', "cookie", true),
    ('A', "user-agent", true),
    ('e', "referer", true),
    ('m', "max-time", true),
    ('E', "cert", true),
    ('G', "get", false),
    ('I', "head", false),
    ('k', "insecure", false),
    ('L', "location", false),
    ('0', "http1.0", false),
    ('s', "silent", false),
    ('S', "show-error", false),
    ('v', "verbose", false),
    ('i', "include", false),
    ('f', "fail", false),
    ('g', "globoff", false),
    ('N', "no-buffer", false),
    ('#', "progress-bar", false),
    ('4', "ipv4", false),
    ('6', "ipv6", false),
    ('O', "remote-name", false),
    ('J', "remote-header-name", false),
    ('o', "output", true),
    ('w', "write-out", true),
    ('c', "cookie-jar", true),
    ('x', "proxy", true),
    ('T', "upload-file", true),
];

/// Options that change nothing about the requests that a load sends.
const WITHOUT_EFFECT: [(&str, bool); 22] = [
    ("silent", false),
    ("show-error", false),
    ("verbose", false),
    ("include", false),
    ("fail", false),
    ("fail-with-body", false),
    ("globoff", false),
    ("no-buffer", false),
    ("progress-bar", false),
    ("no-progress-meter", false),
    ("remote-name", false),
    ("remote-header-name", false),
    ("output", true),
    ("write-out", true),
    ("stderr", true),
    ("trace", true),
    ("trace-ascii", true),
    ("retry", true),
    ("retry-delay", true),
    ("connect-timeout", true),
    ("keepalive-time", true),
    ("parallel", false),
];

/// Options with an effect that bench has no equivalent for, and that take a value.
const WITH_VALUE: [&str; 14] = [
    "proxy",
    "upload-file",
    "cookie-jar",
    "resolve",
    "connect-to",
    "interface",
    "range",
    "limit-rate",
    "unix-socket",
    "ciphers",
    "tls-max",
    "proxy-user",
    "config",
    "aws-sigv4",
];

impl Command {
    fn options(&mut self, words: &[&str], read: &ReadFile<'_>) -> Result<(), ImportError> {
        let mut words = words.iter().copied();
        let mut only_urls = false;
        while let Some(word) = words.next() {
            if only_urls || !word.starts_with('-') || word == "-" {
                self.urls.push(word.to_owned());
            } else if word == "--" {
                only_urls = true;
            } else if let Some(long) = word.strip_prefix("--") {
                self.long(long, &mut words, read)?;
            } else {
                self.short(&word[1..], &mut words, read)?;
            }
        }
        Ok(())
    }

    /// Several short options in one word, such as `-sSk` or `-XPOST`.
    fn short<'w>(
        &mut self,
        mut letters: &'w str,
        words: &mut impl Iterator<Item = &'w str>,
        read: &ReadFile<'_>,
    ) -> Result<(), ImportError> {
        while let Some(letter) = letters.chars().next() {
            letters = &letters[letter.len_utf8()..];
            let Some((_, long, takes_value)) = SHORT.iter().find(|(short, ..)| *short == letter) else {
                self.unknown.push(format!("-{letter}"));
                continue;
            };
            if *takes_value && !letters.is_empty() {
                return self.option(long, Some(letters), &mut std::iter::empty(), read);
            }
            self.option(long, None, words, read)?;
        }
        Ok(())
    }

    fn long<'w>(
        &mut self,
        word: &'w str,
        words: &mut impl Iterator<Item = &'w str>,
        read: &ReadFile<'_>,
    ) -> Result<(), ImportError> {
        self.option(word, None, words, read)
    }

    fn option<'w>(
        &mut self,
        name: &str,
        attached: Option<&'w str>,
        words: &mut impl Iterator<Item = &'w str>,
        read: &ReadFile<'_>,
    ) -> Result<(), ImportError> {
        let mut value = || {
            attached.or_else(|| words.next()).map(str::to_owned).ok_or_else(|| {
                ImportError::new(format!("the option --{name} lacks its value"), "copy the whole command")
            })
        };
        match name {
            "request" => self.method = Some(value()?),
            "url" => self.urls.push(value()?),
            "header" => self.header(&value()?),
            "data" | "data-ascii" => self.data(&value()?, true, read)?,
            "data-binary" => self.data(&value()?, false, read)?,
            "data-raw" => self.data.push(value()?),
            "data-urlencode" => self.urlencoded(&value()?, read)?,
            "json" => {
                self.json = true;
                self.data(&value()?, false, read)?;
            }
            "form" => self.field(&value()?, read)?,
            "form-string" => {
                let text = value()?;
                let (name, text) = text.split_once('=').unwrap_or((&text, ""));
                self.fields.push(Field { name: name.to_owned(), text: text.to_owned() });
            }
            "user" => self.user = Some(value()?),
            "oauth2-bearer" => self.headers.push(("Authorization".into(), format!("Bearer {}", value()?))),
            "cookie" => self.cookies.push(value()?),
            "user-agent" => self.headers.push(("User-Agent".into(), value()?)),
            "referer" => self.headers.push(("Referer".into(), value()?)),
            "max-time" => self.seconds = value()?.parse().ok().filter(|seconds| *seconds > 0.0),
            "max-redirs" => self.redirects = value()?.parse().ok(),
            "cacert" => self.ca = Some(value()?),
            "cert" => self.cert = Some(value()?),
            "key" => self.key = Some(value()?),
            "get" => self.in_query = true,
            "head" => self.head_only = true,
            "insecure" => self.insecure = true,
            "location" | "location-trusted" => self.redirects = self.redirects.or(Some(10)),
            "compressed" => self.compressed = true,
            "http1.1" => self.http_version = Some("1.1"),
            "http2" | "http2-prior-knowledge" => self.http_version = Some("2"),
            "next" => self.notes.push("what follows --next shares the options before it".to_owned()),
            _ => {
                if let Some((_, takes_value)) = WITHOUT_EFFECT.iter().find(|(known, _)| *known == name) {
                    return if *takes_value { value().map(drop) } else { Ok(()) };
                }
                self.resolve |= matches!(name, "resolve" | "connect-to");
                self.unknown.push(format!("--{name}"));
                if WITH_VALUE.contains(&name) {
                    value()?;
                }
            }
        }
        Ok(())
    }

    fn header(&mut self, text: &str) {
        let (name, value) = text.split_once(':').or_else(|| text.split_once(';')).unwrap_or((text, ""));
        let (name, value) = (name.trim(), value.trim());
        if name.eq_ignore_ascii_case("cookie") {
            self.cookies.push(value.to_owned());
        } else if !name.is_empty() && !value.is_empty() {
            self.headers.push((name.to_owned(), value.to_owned()));
        }
    }

    fn data(
        &mut self,
        text: &str,
        without_line_breaks: bool,
        read: &ReadFile<'_>,
    ) -> Result<(), ImportError> {
        let text = match text.strip_prefix('@') {
            Some(path) if without_line_breaks => read(path)?.replace(['\r', '\n'], ""),
            Some(path) => read(path)?,
            None => text.to_owned(),
        };
        self.data.push(text);
        Ok(())
    }

    fn urlencoded(&mut self, text: &str, read: &ReadFile<'_>) -> Result<(), ImportError> {
        let at = text.find(['=', '@']);
        let encoded = match at.map(|at| (&text[..at], &text[at..=at], &text[at + 1..])) {
            Some(("", "@", path)) => percent::encode(&read(path)?),
            Some((name, "@", path)) => format!("{name}={}", percent::encode(&read(path)?)),
            Some(("", _, content)) => percent::encode(content),
            Some((name, _, content)) => format!("{name}={}", percent::encode(content)),
            None => percent::encode(text),
        };
        self.data.push(encoded);
        Ok(())
    }

    fn field(&mut self, text: &str, read: &ReadFile<'_>) -> Result<(), ImportError> {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        let text = match value.strip_prefix(['@', '<']) {
            Some(path) => {
                let path = path.split(';').next().unwrap_or_default();
                self.notes.push(format!(
                    "the field `{name}` has the content of {path} now; the file is not read again"
                ));
                read(path)?
            }
            None => value.split(";type=").next().unwrap_or_default().trim_matches('"').to_owned(),
        };
        self.fields.push(Field { name: name.to_owned(), text });
        Ok(())
    }

    fn draft(mut self) -> Result<Draft, ImportError> {
        if self.urls.is_empty() {
            return Err(ImportError::new("the command has no URL", "copy the whole command"));
        }
        if !self.data.is_empty() && !self.fields.is_empty() {
            return Err(ImportError::new("the command has both --data and --form", "remove one of them"));
        }
        let mut draft = Draft::default();
        let mut targets = Targets::default();
        let urls = std::mem::take(&mut self.urls);
        draft.notes.append(&mut self.notes);
        if urls.len() > STEPS_MAX {
            draft.notes.push(format!("only the first {STEPS_MAX} of {} URLs are imported", urls.len()));
        }
        self.authenticate(&urls, &mut draft);
        for url in urls.iter().take(STEPS_MAX) {
            let url = if url.contains("://") { url.clone() } else { format!("http://{url}") };
            let Some((origin, path)) = split_url(&url) else {
                return Err(ImportError::new("an argument is not a URL of http or https", "quote the URL"));
            };
            let recorded = Recorded { target: targets.name(&origin), ..self.request(path) };
            self.step(&recorded, &mut draft)?;
        }
        draft.targets = targets.0;
        draft.name = draft.targets.first().map_or_else(String::new, |(_, origin)| {
            origin.split_once("://").map_or(origin.as_str(), |(_, host)| host).to_owned()
        });
        draft.title = draft.steps.first().map_or_else(String::new, |step| {
            step.keys.get("action").and_then(Value::as_str).unwrap_or_default().to_owned()
        });
        draft.about.push("Made by `bench import curl`.".to_owned());
        self.connection(&mut draft);
        if !self.unknown.is_empty() {
            self.unknown.dedup();
            draft.notes.push(format!("these options were ignored: {}", self.unknown.join(", ")));
        }
        if self.resolve {
            draft
                .notes
                .push("instead of --resolve or --connect-to, write the address into `targets`".to_owned());
        }
        Ok(draft)
    }

    fn request(&self, mut path: String) -> Recorded {
        let data = self.data.join(if self.json { "" } else { "&" });
        let has_data = !self.data.is_empty();
        if self.in_query && has_data {
            path.push(if path.contains('?') { '&' } else { '?' });
            path.push_str(&data);
        }
        let mut headers = self.headers.clone();
        if self.json && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("accept")) {
            headers.push(("Accept".into(), "application/json".into()));
        }
        if !self.cookies.is_empty() {
            headers.push(("Cookie".into(), self.cookies.join("; ")));
        }
        let stated = headers.iter().position(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        let stated = stated.map(|at| headers.remove(at).1);
        // bench sends these itself.
        const OWN: [&str; 5] =
            ["host", "content-length", "connection", "accept-encoding", "transfer-encoding"];
        headers.retain(|(name, value)| {
            let is_usual = name.eq_ignore_ascii_case("accept") && value == "*/*";
            !(is_usual || OWN.iter().any(|own| name.eq_ignore_ascii_case(own)))
        });
        let usual = if self.json { "application/json" } else { "application/x-www-form-urlencoded" };
        let body = if !self.fields.is_empty() {
            Body::Multipart(self.fields.clone())
        } else if has_data && !self.in_query {
            Body::Text(data, Some(stated.unwrap_or_else(|| usual.to_owned())))
        } else {
            Body::Empty
        };
        let usual = match (&body, self.head_only) {
            (_, true) => "HEAD",
            (Body::Empty, _) => "GET",
            _ => "POST",
        };
        let method = self.method.clone().unwrap_or_else(|| usual.to_owned()).to_ascii_uppercase();
        Recorded { method, target: None, path, headers, body }
    }

    fn step(&self, recorded: &Recorded, draft: &mut Draft) -> Result<(), ImportError> {
        let Some(mut keys) = recorded.step(&mut SecretsOnly(&mut draft.variables)) else {
            let what = format!("bench cannot send the method `{}`", recorded.method);
            return Err(ImportError::new(what, "use GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS"));
        };
        if let Some(seconds) = self.seconds {
            keys.insert("timeout".into(), format!("{seconds}s").into());
        }
        keys.insert("expect".into(), json!({ "status": "2xx" }));
        let path = recorded.path.split('?').next().unwrap_or_default();
        let name: String = format!("{} {path}", recorded.method).chars().take(100).collect();
        let taken = draft.steps.iter().filter(|step| {
            step.keys["action"]
                .as_str()
                .is_some_and(|other| other == name || other.starts_with(&format!("{name} (")))
        });
        let count = taken.count();
        let name = if count == 0 { name } else { format!("{name} ({})", count + 1) };
        let action = [("action".to_owned(), Value::from(name))];
        draft.steps.push(Step { keys: action.into_iter().chain(keys).collect(), comment: String::new() });
        Ok(())
    }

    /// Credentials go into the deployment, so that they are sent to its targets only.
    fn authenticate(&mut self, urls: &[String], draft: &mut Draft) {
        let in_url = urls.iter().find_map(|url| {
            let (_, rest) = url.split_once("://")?;
            let authority = rest.split(['/', '?', '#']).next()?;
            let (user, _) = authority.rsplit_once('@')?;
            Some(String::from_utf8_lossy(&percent::decode(user)).into_owned())
        });
        let at = self.headers.iter().position(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        let stated = at.map(|at| self.headers[at].1.clone());
        let basic = stated.as_deref().and_then(basic_credentials);
        if let Some(credentials) = self.user.take().or(in_url).or(basic) {
            let (user, password) = credentials.split_once(':').unwrap_or((&credentials, ""));
            draft.environment.push("PASSWORD".into());
            draft.deployment.insert(
                "auth".into(),
                json!({ "basic": { "username": user, "password": { "env": "PASSWORD" } } }),
            );
            if password.is_empty() {
                draft.notes.push("the command has no password; curl would ask for it".to_owned());
            }
            if let Some(at) = at.filter(|_| stated.as_deref().and_then(basic_credentials).is_some()) {
                self.headers.remove(at);
            }
        } else if let (Some(at), Some(token)) = (at, stated.as_deref().and_then(bearer_token))
            && !token.is_empty()
        {
            draft.environment.push("API_TOKEN".into());
            draft.deployment.insert("auth".into(), json!({ "bearer": { "token": { "env": "API_TOKEN" } } }));
            self.headers.remove(at);
        }
    }

    fn connection(&self, draft: &mut Draft) {
        let mut tls = serde_json::Map::new();
        if self.insecure {
            tls.insert("verify".into(), false.into());
        }
        for (key, path) in [("ca", &self.ca), ("cert", &self.cert), ("key", &self.key)] {
            tls.extend(path.iter().map(|path| (key.to_owned(), Value::from(path.as_str()))));
        }
        if !tls.is_empty() {
            draft.deployment.insert("tls".into(), Value::Object(tls));
        }
        if let Some(version) = self.http_version {
            draft.deployment.insert("http".into(), json!({ "version": version }));
        }
        if self.compressed {
            draft.http.insert("decompress".into(), true.into());
        }
        if let Some(redirects) = self.redirects {
            draft.http.insert("redirects".into(), redirects.min(50).into());
        }
    }
}

fn bearer_token(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn basic_credentials(value: &str) -> Option<String> {
    let (scheme, encoded) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let bytes = base64::engine::general_purpose::STANDARD.decode(encoded.trim()).ok()?;
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests;
