//! The options of a command, one by one.

use crate::ImportError;
use crate::multipart::FormField;

use super::content::Data;
use super::known::{self, CurlOption, Fate};
use super::network::shown;
use super::{CurlCommand, NameFile};

/// The longest time limit of a request, in seconds.
const SECONDS_MAX: f64 = 86_400.0;

impl CurlCommand {
    /// Reads the options up to `--next`; returns those behind it.
    pub(super) fn options<'w>(
        &mut self,
        words: &[&'w str],
        file: &NameFile<'_>,
    ) -> Result<Vec<&'w str>, ImportError> {
        let mut words = words.iter().copied();
        let mut only_urls = false;
        while let Some(word) = words.next() {
            if only_urls || !word.starts_with('-') || word == "-" {
                self.urls.push(word.to_owned());
            } else if word == "--next" || word == "-:" {
                return Ok(words.collect());
            } else if word == "--" {
                only_urls = true;
            } else if let Some(long) = word.strip_prefix("--") {
                self.long(long, &mut words, file)?;
            } else {
                self.short(&word[1..], &mut words, file)?;
            }
        }
        Ok(Vec::new())
    }

    /// Several short options in one word, such as `-sSk` or `-XPOST`.
    fn short<'w>(
        &mut self,
        mut letters: &'w str,
        words: &mut impl Iterator<Item = &'w str>,
        file: &NameFile<'_>,
    ) -> Result<(), ImportError> {
        while let Some(letter) = letters.chars().next() {
            letters = &letters[letter.len_utf8()..];
            let Some(known) = known::lettered(letter) else {
                self.unknown.push(format!("-{letter}"));
                continue;
            };
            if known.takes_value && !letters.is_empty() {
                return self.option(known, &mut std::iter::once(letters), file);
            }
            self.option(known, words, file)?;
        }
        Ok(())
    }

    fn long<'w>(
        &mut self,
        name: &str,
        words: &mut impl Iterator<Item = &'w str>,
        file: &NameFile<'_>,
    ) -> Result<(), ImportError> {
        if let Some(known) = known::named(name) {
            return self.option(known, words, file);
        }
        // The value of a variable may be anything: `--expand-data '{{name}}'`.
        let expanded = name.strip_prefix("expand-").and_then(known::named);
        if expanded.is_some_and(|known| known.takes_value) {
            words.next();
        }
        if expanded.is_some_and(|known| known.name == "url") {
            return Err(ImportError::new(
                "the URL has variables of curl (--expand-url)",
                "write the URL with their values",
            ));
        }
        match name.strip_prefix("no-").and_then(known::named) {
            Some(known) if !known.takes_value => self.turned_off(known),
            _ => self.unknown.push(format!("--{name}")),
        }
        Ok(())
    }

    /// `--no-NAME`. What is off unless a command turns it on needs no word.
    fn turned_off(&mut self, known: CurlOption) {
        match known.name {
            "get" => self.in_query = false,
            "head" => self.head_only = false,
            "insecure" => self.insecure = false,
            "globoff" => self.without_globs = false,
            "path-as-is" => self.paths_as_they_are = false,
            "location" | "location-trusted" => self.redirects = None,
            "compressed" => self.compressed = false,
            "sessionid" => self.unknown.push("--no-sessionid".to_owned()),
            name => self.unknown.retain(|other| other.trim_start_matches('-') != name),
        }
    }

    fn option<'w>(
        &mut self,
        known: CurlOption,
        words: &mut impl Iterator<Item = &'w str>,
        file: &NameFile<'_>,
    ) -> Result<(), ImportError> {
        let CurlOption { name, takes_value, fate, .. } = known;
        let given = if takes_value { words.next() } else { Some("") };
        let Some(value) = given.map(str::to_owned) else {
            return Err(ImportError::new(
                format!("the option --{name} lacks its value"),
                "copy the whole command",
            ));
        };
        match fate {
            Fate::Carried => return self.carried(name, value, file),
            Fate::WithoutEffect => {}
            Fate::Named => self.unknown.push(format!("--{name}")),
        }
        self.connect_to |= name == "connect-to";
        Ok(())
    }

    fn carried(&mut self, name: &'static str, value: String, file: &NameFile<'_>) -> Result<(), ImportError> {
        match name {
            "request" => self.method = Some(value),
            "url" if value.starts_with('@') => {
                return Err(ImportError::new(
                    "the command reads its URLs from a file (--url @FILE)",
                    "write them into the command: `bench import curl` takes many",
                ));
            }
            "url" => self.urls.push(value),
            "header" => self.header(&value),
            "data" | "data-ascii" => self.data(&value, true, file)?,
            "data-binary" => self.data(&value, false, file)?,
            "data-raw" => self.piece(Data::Text(value), false),
            "data-urlencode" => self.urlencoded(&value)?,
            "json" => {
                self.json = true;
                self.data(&value, false, file)?;
                self.joined.last_mut().into_iter().for_each(|joined| *joined = true);
            }
            "url-query" => self.url_query(&value)?,
            "form" => self.field(&value, file)?,
            "form-string" => {
                let (name, text) = value.split_once('=').unwrap_or((&value, ""));
                self.fields.push(FormField::text(name, text));
            }
            "user" => self.user = Some(value),
            "basic" => self.challenges.clear(),
            "digest" | "ntlm" | "ntlm-wb" | "negotiate" | "anyauth" | "aws-sigv4" => {
                self.challenges.push(format!("--{name}"));
            }
            "oauth2-bearer" => self.headers.push(("Authorization".into(), format!("Bearer {value}"))),
            "cookie" => self.cookie(value),
            "upload-file" => self.upload(&value, file)?,
            "range" => self.own_header("Range", &format!("bytes={value}")),
            "user-agent" => self.own_header("User-Agent", &value),
            // `URL;auto` and `;auto` are about redirects.
            "referer" => self.own_header("Referer", value.strip_suffix(";auto").unwrap_or(&value)),
            "max-time" => self.limit(&value),
            "max-redirs" => match value.parse() {
                Ok(count) => self.redirects = Some(count),
                Err(_) => self.notes.push(format!("--max-redirs {} was ignored", shown(&value))),
            },
            "get" => self.in_query = true,
            "head" => self.head_only = true,
            "globoff" => self.without_globs = true,
            "path-as-is" => self.paths_as_they_are = true,
            "location" => self.redirects = self.redirects.or(Some(10)),
            "location-trusted" => {
                self.redirects = self.redirects.or(Some(10));
                self.notes.push(
                    "--location-trusted: redirects are followed, and credentials stay with their own host"
                        .to_owned(),
                );
            }
            "compressed" => self.compressed = true,
            _ => self.of_connection(name, value),
        }
        Ok(())
    }

    fn of_connection(&mut self, name: &str, value: String) {
        match name {
            "unix-socket" => self.socket = Some(value),
            "proxy" => self.proxy = Some(value),
            "proto-default" => self.proto_default = Some(value.to_ascii_lowercase()),
            "proxy-user" => self.proxy_user = Some(value),
            "noproxy" => self.no_proxy = value,
            "resolve" => self.resolve(&value),
            "cacert" => self.ca = Some(value),
            "cert" => self.cert = Some(value),
            "key" => self.key = Some(value),
            "insecure" => self.insecure = true,
            "http1.1" => self.http_version = Some("1.1"),
            // A server that does not speak HTTP/2 answers with HTTP/1.1.
            "http2" => self.http_version = Some("auto"),
            "http2-prior-knowledge" => self.http_version = Some("2"),
            name => self.unknown.push(format!("--{name}")),
        }
    }

    /// A header that curl leaves out if it is empty.
    fn own_header(&mut self, name: &str, value: &str) {
        self.own.retain(|(known, _)| known != name);
        if value.is_empty() {
            self.removed.push(name.to_ascii_lowercase());
        } else {
            self.removed.retain(|removed| !removed.eq_ignore_ascii_case(name));
            self.own.push((name.to_owned(), value.to_owned()));
        }
    }

    /// `--max-time`; 0 is no limit.
    fn limit(&mut self, value: &str) {
        let seconds = value.parse().ok();
        self.seconds = seconds.filter(|seconds| (0.001..=SECONDS_MAX).contains(seconds));
        if self.seconds.is_none() && seconds != Some(0.0) {
            self.notes.push(format!("--max-time {} was ignored", shown(value)));
        }
    }

    fn header(&mut self, text: &str) {
        if let Some(path) = text.strip_prefix('@') {
            self.notes
                .push(format!("the headers in the file {path} are not sent: write them into `headers`"));
            return;
        }
        // `NAME;` sends a header without a value; `NAME:` takes one of curl's own away.
        let (name, value, is_empty) = match (text.split_once(':'), text.split_once(';')) {
            (Some((name, value)), _) => (name.trim(), value.trim(), false),
            (None, Some((name, rest))) => (name.trim(), "", rest.trim().is_empty()),
            (None, None) => (text.trim(), "", false),
        };
        if name.eq_ignore_ascii_case("cookie") {
            self.cookie_headers.push(value.to_owned());
        } else if !name.is_empty() && (is_empty || !value.is_empty()) {
            self.headers.push((name.to_owned(), value.to_owned()));
        } else if !name.is_empty() {
            self.removed.push(name.to_ascii_lowercase());
        }
    }

    /// `-b name=value`; a value without `=` is a file's name.
    fn cookie(&mut self, text: String) {
        if text.contains('=') {
            self.cookies.push(text);
        } else if !text.is_empty() {
            // Without a name, curl only keeps cookies, as bench does.
            self.notes.push(format!(
                "the cookies in the file {text} are not sent: each virtual user has cookies of its own; \
                 write others as a header"
            ));
        }
    }

    fn upload(&mut self, path: &str, file: &NameFile<'_>) -> Result<(), ImportError> {
        if !self.without_globs && path.contains(['{', '[']) {
            return Err(ImportError::new(
                format!("the pattern {} of --upload-file stands for several files", shown(path)),
                "write a command for each",
            ));
        }
        let name = path.rsplit(['/', '\\']).next().unwrap_or_default();
        self.uploads.push((file(path)?, name.to_owned()));
        Ok(())
    }
}
