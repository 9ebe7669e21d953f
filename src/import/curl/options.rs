//! The options of a command, one by one.

use crate::import::ImportError;
use crate::import::multipart::Field;

use super::content::Data;
use super::{Command, NameFile};

/// Long names of the short options that have an equivalent, and whether they take a value.
const SHORT: [(char, &str, bool); 40] = [
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
    ('U', "proxy-user", true),
    ('K', "config", true),
    ('r', "range", true),
    ('D', "dump-header", true),
    ('C', "continue-at", true),
    ('z', "time-cond", true),
    ('n', "netrc", false),
    ('q', "disable", false),
];

/// Options that change nothing about the requests that a load sends.
const WITHOUT_EFFECT: [(&str, bool); 21] = [
    ("silent", false),
    ("show-error", false),
    ("verbose", false),
    ("include", false),
    ("fail", false),
    ("fail-with-body", false),
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
const WITH_VALUE: [&str; 43] = [
    "abstract-unix-socket",
    "alt-svc",
    "capath",
    "cert-type",
    "ciphers",
    "config",
    "connect-to",
    "continue-at",
    "cookie-jar",
    "create-file-mode",
    "crlfile",
    "curves",
    "dns-interface",
    "dns-servers",
    "doh-url",
    "dump-header",
    "etag-compare",
    "etag-save",
    "hsts",
    "interface",
    "key-type",
    "limit-rate",
    "local-port",
    "max-filesize",
    "netrc-file",
    "output-dir",
    "parallel-max",
    "pass",
    "pinnedpubkey",
    "postquote",
    "preproxy",
    "proxy-header",
    "range",
    "rate",
    "request-target",
    "socks4",
    "socks5",
    "socks5-hostname",
    "time-cond",
    "tls-max",
    "tls13-ciphers",
    "url-query",
    "variable",
];

impl Command {
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
            let Some((_, long, takes_value)) = SHORT.iter().find(|(short, ..)| *short == letter) else {
                self.unknown.push(format!("-{letter}"));
                continue;
            };
            if *takes_value && !letters.is_empty() {
                return self.option(long, Some(letters), &mut std::iter::empty(), file);
            }
            self.option(long, None, words, file)?;
        }
        Ok(())
    }

    fn long<'w>(
        &mut self,
        word: &'w str,
        words: &mut impl Iterator<Item = &'w str>,
        file: &NameFile<'_>,
    ) -> Result<(), ImportError> {
        self.option(word, None, words, file)
    }

    fn option<'w>(
        &mut self,
        name: &str,
        attached: Option<&'w str>,
        words: &mut impl Iterator<Item = &'w str>,
        file: &NameFile<'_>,
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
            "data" | "data-ascii" => self.data(&value()?, true, file)?,
            "data-binary" => self.data(&value()?, false, file)?,
            "data-raw" => self.data.push(Data::Text(value()?)),
            "data-urlencode" => self.urlencoded(&value()?)?,
            "json" => {
                self.json = true;
                self.data(&value()?, false, file)?;
            }
            "form" => self.field(&value()?, file)?,
            "form-string" => {
                let text = value()?;
                let (name, text) = text.split_once('=').unwrap_or((&text, ""));
                self.fields.push(Field::text(name, text));
            }
            "user" => self.user = Some(value()?),
            "digest" | "ntlm" | "ntlm-wb" | "negotiate" | "anyauth" => {
                self.challenges.push(format!("--{name}"))
            }
            "aws-sigv4" => {
                value()?;
                self.challenges.push(format!("--{name}"));
            }
            "oauth2-bearer" => self.headers.push(("Authorization".into(), format!("Bearer {}", value()?))),
            "cookie" => self.cookie(value()?),
            "upload-file" => self.upload(&value()?, file)?,
            "unix-socket" => self.socket = Some(value()?),
            "proxy" => self.proxy = Some(value()?),
            "proxy-user" => self.proxy_user = Some(value()?),
            "noproxy" => self.no_proxy = value()?,
            "resolve" => self.resolve(&value()?),
            "user-agent" => self.headers.push(("User-Agent".into(), value()?)),
            "referer" => self.headers.push(("Referer".into(), value()?)),
            "max-time" => {
                self.seconds = value()?.parse().ok().filter(|seconds| (0.001..=86_400.0).contains(seconds));
            }
            "max-redirs" => self.redirects = value()?.parse().ok(),
            "cacert" => self.ca = Some(value()?),
            "cert" => self.cert = Some(value()?),
            "key" => self.key = Some(value()?),
            "get" => self.in_query = true,
            "head" => self.head_only = true,
            "insecure" => self.insecure = true,
            "globoff" => self.without_globs = true,
            "path-as-is" => self.paths_as_they_are = true,
            "location" | "location-trusted" => self.redirects = self.redirects.or(Some(10)),
            "compressed" => self.compressed = true,
            "http1.1" => self.http_version = Some("1.1"),
            // A server that does not speak HTTP/2 answers with HTTP/1.1.
            "http2" => self.http_version = Some("auto"),
            "http2-prior-knowledge" => self.http_version = Some("2"),
            _ => {
                if let Some((_, takes_value)) = WITHOUT_EFFECT.iter().find(|(known, _)| *known == name) {
                    return if *takes_value { value().map(drop) } else { Ok(()) };
                }
                self.connect_to |= name == "connect-to";
                self.unknown.push(format!("--{name}"));
                if WITH_VALUE.contains(&name) {
                    value()?;
                }
            }
        }
        Ok(())
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
            self.cookies.push(value.to_owned());
        } else if !name.is_empty() && (is_empty || !value.is_empty()) {
            self.headers.push((name.to_owned(), value.to_owned()));
        }
    }

    /// `-b name=value`; a value without `=` is a file's name.
    fn cookie(&mut self, text: String) {
        if text.contains('=') {
            self.cookies.push(text);
        } else {
            self.notes.push(format!(
                "the cookies in the file {text} are not sent: each virtual user has cookies of its own; \
                 write others as a header"
            ));
        }
    }

    fn upload(&mut self, path: &str, file: &NameFile<'_>) -> Result<(), ImportError> {
        if self.upload.is_some() {
            self.notes.push("of several --upload-file, the last one counts".to_owned());
        }
        let name = path.rsplit(['/', '\\']).next().unwrap_or_default();
        self.upload = Some((file(path)?, name.to_owned()));
        Ok(())
    }
}
