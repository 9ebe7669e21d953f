//! A call over HTTP: a request, with what is added to it and how its answer is read.

use http::header::{ACCEPT, ACCEPT_ENCODING};
use http::{HeaderName, Method};

use base::complaint::Complaint;
use base::masking::{self, masked};
use client::decode;
use client::decode_pieces;
use client::options::{BODY_BYTES_MAX, Version};
use client::url::{self, BaseUrl};
use config::body::Lines;
use config::step::{self, credentials::Credentials};
use text::diagnostics::Fault;
use text::stream::StreamFormat;
use text::template::CompiledText;
use text::yaml::YamlNode;
use text::yaml_place::{at, item, key_span};

use super::stream::StreamPlan;
use crate::body::BodyTemplate;
use crate::compiler::Compiler;
use crate::deployment::is_awaited;
use crate::headers::{holds_secret, request_header_line};

/// A request of HTTP.
pub struct HttpCall {
    pub method: Method,
    pub base: BaseUrl,
    /// The path as written, which is appended to the base URL's.
    pub path: CompiledText,
    /// Whether the path may be rendered as a complete URL. The request then goes to that URL's host.
    pub may_be_whole: bool,
    /// Query parameters.
    pub query: Vec<(String, CompiledText)>,
    /// The action's own headers; a name with several lines is there for each of them.
    pub headers: Vec<(HeaderName, CompiledText)>,
    /// Those whose lines are partly templates: they are rendered together, because their order counts. Mostly none.
    pub mixed_headers: Vec<HeaderName>,
    pub body: BodyTemplate,
    /// Whether the body is compressed with gzip.
    pub gzip: bool,
    /// Whether credentials are sent: those of the iteration's user, or the deployment's if no users were made.
    pub authorised: bool,
    /// Whether these are the deployment's in any case.
    pub as_admin: bool,
    /// Whether cookies are sent and kept, unless the run does without.
    pub cookies: bool,
    /// Whether trace headers are sent. They go only to the deployment's targets, never to other hosts.
    pub signed: bool,
    /// The largest number of redirects to follow.
    pub redirects_max: u32,
    /// Whether a compressed body is decompressed before checks and extractions.
    pub decompress: bool,
    /// The largest body that is read, in bytes.
    pub body_bytes_max: u64,
    /// How its answer is read, if that comes as a stream.
    pub stream: Option<Box<StreamPlan>>,
    /// The version of HTTP that it needs; `Auto` for what the run uses.
    pub version: Version,
}

impl HttpCall {
    /// True for a header whose literal lines are rendered with its others.
    #[inline]
    #[must_use]
    pub fn changes(&self, name: &HeaderName) -> bool {
        !self.mixed_headers.is_empty() && self.mixed_headers.contains(name)
    }

    /// See [`Call::explained`](super::ProtocolCall::explained).
    pub(super) fn explained(&self, label: &str) -> (String, Vec<String>) {
        let mut details = Vec::new();
        if !self.query.is_empty() {
            let names = self.query.iter().map(|(name, _)| name.as_str());
            details.push(format!("query {}", names.collect::<Vec<_>>().join(", ")));
        }
        if !self.headers.is_empty() {
            let names = self.headers.iter().map(|(name, _)| name.as_str());
            details.push(format!("headers {}", names.collect::<Vec<_>>().join(", ")));
        }
        match &self.body {
            BodyTemplate::Empty => {}
            BodyTemplate::Json(_) => details.push("JSON body".to_owned()),
            BodyTemplate::Form(_) => details.push("form".to_owned()),
            BodyTemplate::Text(_) => details.push("body".to_owned()),
            BodyTemplate::File(_) => details.push("file".to_owned()),
            BodyTemplate::Multipart(_) => details.push("multipart body".to_owned()),
            BodyTemplate::Messages(_) | BodyTemplate::Later => details.push("messages".to_owned()),
        }
        details.extend(self.stream.as_ref().map(|stream| stream.explained()));
        if !self.authorised {
            details.push("no credentials added".to_owned());
        }
        let written = label.split_once(' ').map_or(label, |(_, written)| written);
        let is_known = written.starts_with('/') && !is_awaited(&self.base.origin);
        let base = if is_known { self.base.to_string() } else { String::new() };
        (masked(&format!("{} {base}{written}", self.method)).into_owned(), details)
    }
}

/// The headers that have both lines with templates and lines without.
pub(super) fn mixed(headers: &[(HeaderName, CompiledText)]) -> Vec<HeaderName> {
    let changes = |(_, text): &&(HeaderName, CompiledText)| text.literal().is_none();
    let mut mixed: Vec<HeaderName> = headers.iter().filter(changes).map(|(name, _)| name.clone()).collect();
    mixed.retain(|name| headers.iter().any(|(other, text)| other == name && text.literal().is_some()));
    mixed.dedup();
    mixed
}

/// The name of an action that has none: its method and path as written.
pub(super) fn label(step: &step::Step, (key, method, written): (&str, &Method, &str)) -> String {
    match &step.request {
        // A faulty text stands for itself: its name must not be that of another action.
        Some(request) if key == "request" && !request.trim_start().starts_with(method.as_str()) => {
            request.clone()
        }
        _ => format!("{method} {}", url::without_fragment(written)),
    }
}

impl Compiler<'_> {
    pub(super) fn http_call(
        &mut self,
        step: &step::Step,
        (key, method, written): (&str, &Method, &str),
        node: &YamlNode,
    ) -> Option<HttpCall> {
        self.without_grpc(node);
        if key != "websocket" {
            self.without_websocket(node);
        }
        let place = at(node, &[key]);
        let label = label(step, (key, method, written));
        let written = url::without_fragment(written);
        let (base, path, foreign) = self.target(step, written, node, place)?;
        if foreign {
            self.without_credentials(key, node, &base);
        }
        let path_text = self.texts.text(path, place);
        let mut headers = self.headers(step, node);
        if step.decompress.or(self.http.decompress) == Some(true)
            && !headers.iter().any(|(name, _)| *name == ACCEPT_ENCODING)
        {
            let known =
                if step.stream.is_some() { decode_pieces::ACCEPT_ENCODING } else { decode::ACCEPT_ENCODING };
            headers.push((ACCEPT_ENCODING, CompiledText::Literal(known.into())));
        }
        let stream = self.stream(step, node).map(Box::new);
        if stream.as_ref().is_some_and(|stream| stream.format == StreamFormat::Events)
            && !headers.iter().any(|(name, _)| *name == ACCEPT)
        {
            headers.push((ACCEPT, CompiledText::Literal("text/event-stream".into())));
        }
        if written.starts_with('/') || step.target.is_some() {
            self.target_headers(step, &mut headers, node);
        }
        let body = self.body(step, &label, node);
        let query = self.pairs(step.query.as_ref(), at(node, &["query"]));
        Some(HttpCall {
            method: method.clone(),
            base,
            path: path_text?,
            may_be_whole: url::may_become_whole(path),
            query,
            mixed_headers: mixed(&headers),
            headers,
            body,
            gzip: step.gzip.unwrap_or(false),
            authorised: step.auth != Some(Credentials::Switch(false)) && !foreign,
            as_admin: step.auth == Some(Credentials::Admin),
            cookies: step.cookies.unwrap_or(true),
            signed: !foreign,
            redirects_max: step.redirects.or(self.http.redirects).unwrap_or(0),
            decompress: step.decompress.or(self.http.decompress).unwrap_or(true),
            body_bytes_max: step.max_body.or(self.http.max_body).map_or(BODY_BYTES_MAX, |size| size.0),
            stream,
            version: Version::Auto,
        })
    }

    /// Refuses the deployment's credentials in what a request sends to `base`, which is not a target: the author of a
    /// scenario may be one who must not have them.
    fn without_credentials(&mut self, key: &str, node: &YamlNode, base: &BaseUrl) {
        if self.targets.may_be_any() {
            return;
        }
        for key in [key, "query", "headers", "json", "form", "body", "multipart"] {
            if let Some(sent) = node.get(key) {
                self.texts.refuse_credentials(sent, base);
            }
        }
    }

    /// The headers that an action has of its own; a list of values is a line for each.
    fn headers(&mut self, step: &step::Step, node: &YamlNode) -> Vec<(HeaderName, CompiledText)> {
        let mut headers = Vec::new();
        for (name, lines) in step.headers.iter().flatten() {
            let place = at(node, &["headers", name]);
            for (index, value) in lines.all().iter().enumerate() {
                let literal = if value.contains("{{") { "" } else { value };
                if holds_secret(name, literal) {
                    masking::header_secrets(literal).for_each(masking::hide);
                }
                let place = if matches!(lines, Lines::Several(_)) { item(place, index) } else { place };
                match request_header_line(name, literal, lines.all().len()) {
                    Ok((name, _)) => headers.extend(self.texts.text(value, place).map(|text| (name, text))),
                    Err(complaint) => {
                        let span = key_span(at(node, &["headers"]), name);
                        self.texts.faults.push(Fault::of(span, complaint));
                    }
                }
            }
        }
        headers
    }

    /// Adds the headers that all requests to a target have, unless the action has its own.
    fn target_headers(
        &mut self,
        step: &step::Step,
        headers: &mut Vec<(HeaderName, CompiledText)>,
        node: &YamlNode,
    ) {
        for (name, value) in self.targets.headers(step) {
            if !headers.iter().any(|(own, _)| own == name) {
                headers
                    .extend(self.texts.text(&value, node).map(|text| (HeaderName::from_static(name), text)));
            }
        }
    }

    /// Base URL and path of a request, and whether it goes outside the deployment.
    fn target<'t>(
        &mut self,
        step: &step::Step,
        written: &'t str,
        node: &YamlNode,
        place: &YamlNode,
    ) -> Option<(BaseUrl, &'t str, bool)> {
        match url::split_absolute(written) {
            Err(complaint) => {
                self.texts.faults.push(Fault::of(place.span.clone(), complaint));
                None
            }
            Ok(Some((base, path))) => {
                if step.target.is_some() {
                    let fault =
                        Fault::error(key_span(node, "target"), "`target` together with a complete URL");
                    self.texts.faults.push(fault.help("write the path only, or remove `target`"));
                }
                let foreign = self.targets.are_without(&base);
                if foreign {
                    self.warnings.push(format!(
                        "{base} is not a target of the deployment: bench adds neither credentials nor trace headers, but \
                         sends what the scenario puts into the request"
                    ));
                }
                Some((base, path, foreign))
            }
            Ok(None) => {
                let may_be_whole = url::may_become_whole(written);
                if !written.starts_with('/') && !may_be_whole {
                    let fault =
                        Fault::error(place.span.clone(), format!("`{written}` is neither a path nor a URL"));
                    self.texts.faults.push(fault.help(format!("write /{written}, or http://host/{written}")));
                }
                let elsewhere = may_be_whole && !written.starts_with('{') && step.target.is_none();
                match self.targets.first().filter(|_| elsewhere) {
                    // The rendered URL names another host in any case.
                    Some(base) => Some((base.clone(), written, false)),
                    None => {
                        let base = self.targets.named(step, (node, place), &mut self.texts.faults)?;
                        Some((base, written, false))
                    }
                }
            }
        }
    }
}

impl Compiler<'_> {
    /// The requests of a step, as key, method and path or URL.
    pub(super) fn http_requests<'s>(
        &mut self,
        step: &'s step::Step,
        node: &YamlNode,
    ) -> Vec<(&'static str, Method, &'s str)> {
        let mut methods = methods(step);
        if let Some(written) = &step.request {
            let (method, url) = method_and_url(written).unwrap_or_else(|complaint| {
                self.texts.faults.push(Fault::of(at(node, &["request"]).span.clone(), complaint));
                // Its other faults can be found with any method.
                (Method::GET, "/")
            });
            methods.push(("request", method, url));
        }
        methods
    }
}

/// Reads `PURGE /path`.
fn method_and_url(written: &str) -> Result<(Method, &str), Complaint> {
    const REMEDY: &str = "write the method and the path, such as `PURGE /cache`";
    let Some((method, url)) = written.trim().split_once([' ', '\t']) else {
        return Err(Complaint::new(format!("`{written}` is not a method with a path"), REMEDY));
    };
    let url = url.trim_start();
    if url.contains([' ', '\t']) && !url.starts_with(['/', '{']) && !url.contains("://") {
        return Err(Complaint::new(format!("`{written}` has more than one word before its path"), REMEDY));
    }
    match Method::from_bytes(method.as_bytes()) {
        Ok(Method::CONNECT) => Err(Complaint::new(
            "CONNECT opens a tunnel, which bench does not send as a request",
            "use another method; the deployment's `proxy` makes tunnels",
        )),
        Ok(known) => Ok((known, url)),
        Err(_) => Err(Complaint::new(format!("`{method}` is not a method"), REMEDY)),
    }
}

fn methods(step: &step::Step) -> Vec<(&'static str, Method, &str)> {
    let all = [
        ("get", Method::GET, &step.get),
        ("head", Method::HEAD, &step.head),
        ("post", Method::POST, &step.post),
        ("put", Method::PUT, &step.put),
        ("patch", Method::PATCH, &step.patch),
        ("delete", Method::DELETE, &step.delete),
        ("options", Method::OPTIONS, &step.options),
    ];
    all.into_iter().filter_map(|(key, method, url)| url.as_deref().map(|url| (key, method, url))).collect()
}
