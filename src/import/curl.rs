//! Reads curl commands, as copied from the developer tools of browsers and from documentation.

mod content;
mod globs;
mod known;
mod network;
mod options;
mod schemes;

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use serde_json::{Map, Value, json};

use base::percent;

use super::draft::{Draft, DraftStep};
use super::exact;
use super::multipart::{self, FormField};
use super::request::{Body, RecordedRequest, SecretsOnly, Targets, method_key};
use super::{ImportError, STEPS_MAX, sniff, words};
use content::Data;

/// The longest command, in bytes.
pub const TEXT_BYTES_MAX: usize = words::BYTES_MAX;

/// Looks up a file that a command names (`-d @FILE`): its path from the scenario. Its content is never read.
pub type NameFile<'f> = dyn Fn(&str) -> Result<String, ImportError> + 'f;

/// The scenario of the commands in a text that a shell has not split yet, in their order.
///
/// # Errors
/// The text has no curl command, or one contradicts itself.
pub fn from_text(text: &str, file: &NameFile<'_>) -> Result<Draft, ImportError> {
    from_commands(&words::commands(text)?, file)
}

/// The scenario of a command, as the words that a shell made of it.
///
/// # Errors
/// The words are no curl command, or contradict themselves.
pub fn from_words(words: &[String], file: &NameFile<'_>) -> Result<Draft, ImportError> {
    from_commands(&[words::ShellCommand { words: words.to_vec(), ..Default::default() }], file)
}

fn from_commands(commands: &[words::ShellCommand], file: &NameFile<'_>) -> Result<Draft, ImportError> {
    let mut all = CurlImport::default();
    let mut others: Vec<String> = Vec::new();
    for command in commands {
        let words = &command.words;
        match arguments(words) {
            Some(mut rest) => {
                all.draft.notes.extend(proxy_variables(words));
                if words.first().is_some_and(|word| CONTROL.contains(&word.as_str())) {
                    all.draft.notes.push(ALL_BRANCHES.to_owned());
                }
                if command.is_alternative {
                    all.draft.notes.push(ALTERNATIVES.to_owned());
                }
                // `--next` begins a request with options of its own.
                while !rest.is_empty() {
                    let mut request = CurlCommand { input: command.input.clone(), ..CurlCommand::default() };
                    rest = request.options(&rest, file)?;
                    request.add(&mut all, file)?;
                }
            }
            None => others.extend(words.first().cloned()),
        }
    }
    if all.commands == 0 {
        let what = match commands.iter().any(|command| arguments(&command.words).is_some()) {
            true => "the command has no URL",
            false => "this is not a curl command",
        };
        let remedy =
            if what.ends_with("URL") { "copy the whole command" } else { "begin it with the word curl" };
        return Err(ImportError::new(what, remedy));
    }
    Ok(all.finish(others))
}

/// Words of a shell, and programs that start the program behind them.
const BEFORE: [&str; 24] = [
    "!",
    "{",
    "command",
    "do",
    "doas",
    "elif",
    "else",
    "env",
    "exec",
    "if",
    "ionice",
    "nice",
    "nohup",
    "proxychains4",
    "setsid",
    "stdbuf",
    "strace",
    "sudo",
    "then",
    "time",
    "timeout",
    "torsocks",
    "until",
    "while",
];

/// The words of `BEFORE` that decide whether a command runs, and how often.
const CONTROL: [&str; 8] = ["!", "do", "elif", "else", "if", "then", "until", "while"];
const ALL_BRANCHES: &str = "each command of `if`, `for` and `while` is one step, which is always sent and once: write `if`, \
    `for_each` or `repeat` into the scenario where that matters";

const ALTERNATIVES: &str =
    "`a || b` runs b only if a failed; in the scenario both are steps, and each is always sent";

/// The words behind `curl`; a text that begins with an option or a URL is taken for them. `None` for other programs.
fn arguments(words: &[String]) -> Option<Vec<&str>> {
    let first = words.first()?;
    let words = words.iter().map(String::as_str);
    if is_curl(first) {
        return Some(words.skip(1).collect());
    }
    if words::is_assignment(first) || BEFORE.contains(&first.as_str()) {
        let behind: Vec<&str> = words.skip_while(|word| !is_curl(word)).skip(1).collect();
        return (!behind.is_empty()).then_some(behind);
    }
    (first.starts_with('-') || first.contains("://")).then(|| words.collect())
}

fn is_curl(word: &str) -> bool {
    let program = word.rsplit(['/', '\\']).next().unwrap_or_default();
    program.trim_end_matches(".exe").eq_ignore_ascii_case("curl")
}

/// A variable before `curl` that changes where it sends its requests.
fn proxy_variables(words: &[String]) -> impl Iterator<Item = String> {
    let before = words.iter().take_while(|word| !is_curl(word)).filter(|word| words::is_assignment(word));
    let names = before.filter_map(|word| word.split_once('=').map(|(name, _)| name));
    names.filter(|name| name.to_ascii_lowercase().ends_with("_proxy")).map(|name| {
        format!("the variable {name} before curl is not carried over: write `http: {{ proxy: … }}` into the deployment")
    })
}

const MULTIPART_ANEW: &str = "the multipart body is written anew: it has another boundary, and its parts no other headers than \
    name, file name and the content type of files";

/// What the commands amount to so far.
#[derive(Default)]
struct CurlImport {
    draft: Draft,
    targets: Targets,
    commands: usize,
    urls: usize,
    /// What the first command that logs in does so with.
    login: Option<String>,
    /// How many steps have each name.
    names: BTreeMap<String, usize>,
    /// Keys of the deployment in which commands differ.
    different: BTreeSet<String>,
}

impl CurlImport {
    /// Adds what a command says of the deployment. Of several, the first counts: a deployment has each key once.
    fn merge(&mut self, before: Map<String, Value>) {
        let own = std::mem::replace(&mut self.draft.deployment, before);
        let known = self.draft.deployment.iter().filter(|(key, value)| own.get(*key) != Some(*value));
        let different: Vec<String> = known.map(|(key, _)| key.clone()).collect();
        for (key, value) in own {
            if !self.draft.deployment.contains_key(&key) {
                if self.commands > 0 {
                    self.different.insert(key.clone());
                }
                self.draft.deployment.insert(key, value);
            }
        }
        self.different.extend(different);
    }

    fn finish(mut self, others: Vec<String>) -> Draft {
        let mut draft = self.draft;
        if self.urls > STEPS_MAX {
            draft.notes.push(format!("only the first {STEPS_MAX} of {} requests are imported", self.urls));
        }
        if !self.different.is_empty() {
            let keys: Vec<String> =
                std::mem::take(&mut self.different).into_iter().map(|key| format!("`{key}`")).collect();
            draft.notes.push(format!(
                "the commands differ in {}: the deployment has what comes first, for all of them",
                keys.join(", ")
            ));
        }
        if !others.is_empty() {
            let names: Vec<String> = others.iter().map(|name| format!("`{}`", sniff::shown(name))).collect();
            draft.notes.push(format!("only curl commands are imported: {} left out", names.join(", ")));
        }
        let mut seen = BTreeSet::new();
        draft.notes.retain(|note| seen.insert(note.clone()));
        let mut seen = BTreeSet::new();
        draft.environment.retain(|name| seen.insert(name.clone()));
        draft.targets = self.targets.0;
        draft.name = draft.targets.first().map_or_else(String::new, |(_, origin)| {
            origin.split_once("://").map_or(origin.as_str(), |(_, host)| host).to_owned()
        });
        draft.title = draft.steps.first().map_or_else(String::new, |step| {
            step.keys.get("action").and_then(Value::as_str).unwrap_or_default().to_owned()
        });
        draft.about.push("Made by `bench import curl`.".to_owned());
        draft
    }
}

/// What the options of a command amount to.
#[derive(Default)]
struct CurlCommand {
    urls: Vec<String>,
    /// Patterns in them stand for themselves.
    without_globs: bool,
    /// `..` in their paths stays.
    paths_as_they_are: bool,
    method: Option<String>,
    headers: Vec<(String, String)>,
    /// Headers of options such as --user-agent: of each name the last one, unless `headers` has the name.
    own: Vec<(String, String)>,
    /// Headers that curl is not to send, in lower case.
    removed: Vec<String>,
    /// What the command logs in with, to tell it from others.
    login: Option<String>,
    data: Vec<Data>,
    /// What the command reads, if that stands in the text.
    input: Option<String>,
    json: bool,
    /// For each piece of data, whether it is joined without `&`.
    joined: Vec<bool>,
    fields: Vec<FormField>,
    /// The path of each file from the scenario, and its own name: one for each URL, in their order.
    uploads: Vec<(String, String)>,
    /// That of the URL that is being imported.
    upload: Option<(String, String)>,
    in_query: bool,
    /// What `--url-query` adds to every URL, encoded.
    query: Vec<String>,
    head_only: bool,
    user: Option<String>,
    /// Ways to log in that never send the password in clear.
    challenges: Vec<String>,
    cookies: Vec<String>,
    /// The values of `-H 'Cookie: …'`. If there are any, curl does not send the cookies of `--cookie`.
    cookie_headers: Vec<String>,
    insecure: bool,
    compressed: bool,
    redirects: Option<u32>,
    seconds: Option<f64>,
    http_version: Option<&'static str>,
    ca: Option<String>,
    cert: Option<String>,
    key: Option<String>,
    hosts: Map<String, Value>,
    socket: Option<String>,
    /// The scheme of URLs that have none.
    proto_default: Option<String>,
    proxy: Option<String>,
    proxy_user: Option<String>,
    no_proxy: String,
    connect_to: bool,
    unknown: Vec<String>,
    notes: Vec<String>,
}

impl CurlCommand {
    /// Adds its requests and what it says of the deployment.
    fn add(mut self, all: &mut CurlImport, file: &NameFile<'_>) -> Result<(), ImportError> {
        if self.urls.is_empty() {
            return Err(ImportError::new("the command has no URL", "copy the whole command"));
        }
        self.check_content()?;
        self.note_content();
        let socket = self.socket_target()?;
        let urls = std::mem::take(&mut self.urls);
        if self.uploads.len() > urls.len() {
            self.notes.push("an --upload-file without a URL of its own is left out, as curl does".to_owned());
        }
        let of_url: Vec<Vec<String>> = match self.without_globs {
            true => urls.into_iter().map(|url| vec![url]).collect(),
            false => urls.iter().map(|url| globs::expanded(url)).collect::<Result<_, _>>()?,
        };
        let counts: Vec<usize> = of_url.iter().map(Vec::len).collect();
        let mut uploads = counts.iter().enumerate().flat_map(|(at, count)| std::iter::repeat_n(at, *count));
        let urls = of_url.concat();
        let urls: Vec<String> =
            urls.iter().map(|url| schemes::complete(url, self.proto_default.as_deref())).collect();
        self.note_socket(&urls);
        self.note_upgrade(&urls);
        self.note_headers(&urls);
        all.draft.notes.append(&mut self.notes);
        let before = std::mem::take(&mut all.draft.deployment);
        self.authenticate(&urls, &mut all.draft);
        match (&all.login, self.login.take()) {
            (None, login) => all.login = login,
            (Some(first), Some(login)) if *first != login => drop(all.different.insert("auth".to_owned())),
            _ => {}
        }
        for url in urls.iter().take(STEPS_MAX.saturating_sub(all.urls)) {
            let (origin, path) = schemes::split(url)?;
            let path = if self.paths_as_they_are { path } else { without_dots(&path) };
            self.upload = uploads.next().and_then(|at| self.uploads.get(at)).cloned();
            let target = all.targets.name(socket.as_deref().unwrap_or(&origin));
            let recorded = RecordedRequest { target, ..self.request(path) };
            all.draft.notes.extend(exact::notes(&recorded, "curl sends"));
            self.step(&recorded, &mut all.draft, &mut all.names)?;
        }
        all.urls += urls.len();
        self.connection(&mut all.draft, file);
        all.merge(before);
        all.commands += 1;
        if !self.unknown.is_empty() {
            self.unknown.dedup();
            all.draft.notes.push(format!("these options were ignored: {}", self.unknown.join(", ")));
        }
        if self.connect_to {
            all.draft.notes.push("instead of --connect-to, write the address into `targets`".to_owned());
        }
        Ok(())
    }

    fn request(&self, mut path: String) -> RecordedRequest {
        // curl leaves out what --url-query adds if --get adds data.
        let of_data = (self.in_query && !self.data.is_empty()).then(|| self.text());
        if let Some(added) = of_data.or_else(|| (!self.query.is_empty()).then(|| self.query.join("&"))) {
            match path.contains('?') {
                false => path.push('?'),
                true if path.ends_with(['?', '&']) => {}
                true => path.push('&'),
            }
            path.push_str(&added);
        }
        if let Some((_, name)) = &self.upload
            && path.ends_with('/')
        {
            path.push_str(&percent::encode(name));
        }
        let mut headers = self.headers.clone();
        let is_free = |name: &str| {
            !self.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
                && !self.removed.contains(&name.to_ascii_lowercase())
        };
        headers.extend(self.own.iter().filter(|(name, _)| is_free(name)).cloned());
        if self.json && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("accept")) {
            headers.push(("Accept".into(), "application/json".into()));
        }
        let cookies = if self.cookie_headers.is_empty() { &self.cookies } else { &self.cookie_headers };
        if !cookies.is_empty() {
            headers.push(("Cookie".into(), cookies.join("; ")));
        }
        let stated = headers.iter().position(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        let stated = stated.map(|at| headers.remove(at).1);
        // bench sends these itself.
        const OWN: [&str; 5] =
            ["host", "content-length", "connection", "accept-encoding", "transfer-encoding"];
        let accepts = headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("accept")).count();
        headers.retain(|(name, value)| {
            let is_usual = accepts == 1 && name.eq_ignore_ascii_case("accept") && value == "*/*";
            !(is_usual || OWN.iter().any(|own| name.eq_ignore_ascii_case(own)))
        });
        let body = self.body(stated.clone());
        // Some services look at it without a body, too.
        if let (Body::Empty, Some(stated)) = (&body, stated) {
            headers.push(("Content-Type".into(), stated));
        }
        let usual = match (&body, self.head_only) {
            (_, true) => "HEAD",
            (Body::Empty, _) => "GET",
            _ if self.upload.is_some() => "PUT",
            _ => "POST",
        };
        let method = self.method.clone().unwrap_or_else(|| usual.to_owned());
        let is_usual = method_key(&method).is_some_and(|(key, _)| key != "request");
        let method = if is_usual { method.to_ascii_uppercase() } else { method };
        RecordedRequest { method, target: None, path, headers, body }
    }

    fn step(
        &self,
        recorded: &RecordedRequest,
        draft: &mut Draft,
        names: &mut BTreeMap<String, usize>,
    ) -> Result<(), ImportError> {
        if let Body::Multipart(fields) = &recorded.body
            && self.fields.is_empty()
        {
            draft.notes.push(MULTIPART_ANEW.to_owned());
            draft.stand_ins(fields);
        }
        let Some(mut keys) = recorded.step(&mut SecretsOnly(&mut draft.variables)) else {
            let what = format!("bench cannot send the method `{}`", recorded.method);
            let remedy = match recorded.method.eq_ignore_ascii_case("CONNECT") {
                true => {
                    "it opens a tunnel through a proxy: import the request that goes through it, with --proxy"
                }
                false => "use a word such as GET or PURGE",
            };
            return Err(ImportError::new(what, remedy));
        };
        if let Some(seconds) = self.seconds {
            keys.insert("timeout".into(), format!("{seconds}s").into());
        }
        keys.insert("expect".into(), json!({ "status": "2xx" }));
        let path = recorded.shown_path(&keys);
        let name: String = format!("{} {path}", recorded.method).chars().take(100).collect();
        let count = names.entry(name.clone()).or_default();
        *count += 1;
        let name = if *count == 1 { name } else { format!("{name} ({count})") };
        let action = [("action".to_owned(), Value::from(name))];
        draft
            .steps
            .push(DraftStep { keys: action.into_iter().chain(keys).collect(), comment: String::new() });
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
        let mut given = self.user.take().or(in_url);
        if !self.challenges.is_empty() && given.take().is_some() {
            draft.notes.push(format!(
                "the user and the password are left out: with {}, curl does not send the password in clear, and bench has \
                 no such login; write `auth` into the deployment",
                self.challenges.join(" and ")
            ));
        }
        if self.removed.iter().any(|name| name == "authorization") {
            given = None;
        }
        let credentials = given.or(basic);
        let is_empty =
            |given: &&String| given.split_once(':').is_some_and(|(_, password)| password.is_empty());
        if let Some(credentials) = credentials.as_ref().filter(is_empty) {
            draft.notes.push(
                "the password is empty, which `auth` cannot be: API_TOKEN must hold the Base64 of the user and a colon"
                    .to_owned(),
            );
            self.login = Some(credentials.clone());
            if at.is_none() {
                let encoded = base64::engine::general_purpose::STANDARD.encode(credentials);
                self.headers.push(("Authorization".into(), format!("Basic {encoded}")));
            }
        } else if let Some(credentials) = credentials {
            let (user, password) = credentials.split_once(':').unwrap_or((&credentials, ""));
            self.login = Some(credentials.clone());
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
            self.login = Some(token.to_owned());
            draft.environment.push("API_TOKEN".into());
            draft.deployment.insert("auth".into(), json!({ "bearer": { "token": { "env": "API_TOKEN" } } }));
            self.headers.remove(at);
        }
    }
}

/// A path without the segments `.` and `..` (RFC 3986, section 5.2.4); its query is left as it is.
fn without_dots(path: &str) -> String {
    let (path, query) = path.find('?').map_or((path, ""), |at| path.split_at(at));
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        match segment {
            "." | ".." => {
                if segment == ".." {
                    kept.pop();
                }
                // What they end in is a folder.
                if segments.peek().is_none() {
                    kept.push("");
                }
            }
            other => kept.push(other),
        }
    }
    format!("/{}{query}", kept.join("/"))
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
