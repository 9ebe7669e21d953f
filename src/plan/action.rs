//! The steps of an iteration, compiled: nothing is parsed while the load runs.

use std::sync::Arc;
use std::time::Duration;

use http::header::ACCEPT_ENCODING;
use http::{HeaderName, Method};

use base::masking;
use config::body::Lines;
use config::step::{self, credentials::Credentials};
use text::diagnostics::Fault;
use text::similar::did_you_mean;
use text::template::Text;
use text::yaml::Node;
use text::yaml_place::{at, item, key_span};

use super::body::Body;
use super::compiler::Compiler;
use super::condition::{Expect, Extract};
use super::deployment::DEFAULT_TARGET;
use super::headers::{holds_secret, request_header_line};
use super::poll::Poll;
use super::references::UNKNOWN;
use client::decode;
use client::options::BODY_BYTES_MAX;
use client::url::{self, BaseUrl};
use terms::tags::Tags;

/// The time limit of a request whose action has no `timeout`.
pub const ACTION_TIMEOUT: Duration = Duration::from_secs(30);

/// A request, with the checks on its response and the values to extract.
pub struct Action {
    /// The action's name.
    pub name: Arc<str>,
    /// The action's number within its workload, from 0.
    pub index: u16,
    /// The method.
    pub method: Method,
    /// The base URL.
    pub base: BaseUrl,
    /// The path as written, which is appended to the base URL's.
    pub path: Text,
    /// Whether the path may be rendered as a complete URL. The request then goes to that URL's host.
    pub may_be_whole: bool,
    /// Query parameters.
    pub query: Vec<(String, Text)>,
    /// The action's own headers; a name with several lines is there for each of them.
    pub headers: Vec<(HeaderName, Text)>,
    /// Those whose lines are partly templates: they are rendered together, because their order counts. Mostly none.
    pub mixed_headers: Vec<HeaderName>,
    /// The body.
    pub body: Body,
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
    /// The time limit.
    pub timeout: Duration,
    /// The largest number of redirects to follow.
    pub redirects_max: u32,
    /// Whether a compressed body is decompressed before checks and extractions.
    pub decompress: bool,
    /// The largest body that is read, in bytes.
    pub body_bytes_max: u64,
    /// The checks on the response.
    pub expect: Expect,
    /// The values to take from the response.
    pub extracts: Vec<Extract>,
    /// How to repeat it until a condition holds.
    pub poll: Option<Box<Poll>>,
    /// Method and path as written.
    pub label: String,
    /// Tags by which results are grouped, with those of the groups around it.
    pub tags: Tags,
}

/// The headers of which some lines are templates and others not.
fn mixed(headers: &[(HeaderName, Text)]) -> Vec<HeaderName> {
    let changes = |(_, text): &&(HeaderName, Text)| text.literal().is_none();
    let mut mixed: Vec<HeaderName> = headers.iter().filter(changes).map(|(name, _)| name.clone()).collect();
    mixed.retain(|name| headers.iter().any(|(other, text)| other == name && text.literal().is_some()));
    mixed.dedup();
    mixed
}

impl Action {
    /// True for a header whose literal lines are rendered with its others.
    #[inline]
    #[must_use]
    pub fn changes(&self, name: &HeaderName) -> bool {
        !self.mixed_headers.is_empty() && self.mixed_headers.contains(name)
    }

    /// True if the response's headers must be kept. Messages about a body quote its content type.
    #[must_use]
    pub fn needs_headers(&self) -> bool {
        self.needs_body() || !self.expect.headers.is_empty() || !self.extracts.is_empty()
    }

    /// True if the response's body must be kept until the action has been checked.
    #[must_use]
    pub fn needs_body(&self) -> bool {
        self.expect.needs_body() || self.extracts.iter().any(|extract| extract.place.needs_body())
    }
}

impl Compiler<'_> {
    pub(super) fn action(
        &mut self,
        step: &step::Step,
        (key, method, written): (&str, &Method, &str),
        node: &Node,
    ) -> Option<Action> {
        let place = at(node, &[key]);
        let written = url::without_fragment(written);
        let (base, path, foreign) = self.target(step, written, node, place)?;
        if foreign {
            self.without_credentials(key, node, &base);
        }
        let path_text = self.text(path, place);
        let label = match &step.request {
            // A faulty text stands for itself: its name must not be that of another action.
            Some(request) if key == "request" && !request.trim_start().starts_with(method.as_str()) => {
                request.clone()
            }
            _ => format!("{method} {written}"),
        };
        let mut headers = self.headers(step, node);
        if step.decompress.or(self.http.decompress) == Some(true)
            && !headers.iter().any(|(name, _)| *name == ACCEPT_ENCODING)
        {
            headers.extend(self.text(decode::ACCEPT_ENCODING, node).map(|text| (ACCEPT_ENCODING, text)));
        }
        if written.starts_with('/') || step.target.is_some() {
            self.target_headers(step, &mut headers, node);
        }
        let body = self.body(step, &label, node);
        let query = self.pairs(step.query.as_ref(), at(node, &["query"]));
        self.above_zero(step.timeout.map(|timeout| timeout.0), at(node, &["timeout"]), "timeout");
        // Extracted values are available only to later actions.
        let mut expect = self.expect(step.expect.as_ref(), at(node, &["expect"]));
        let extracts = self.extracts(step, node);
        self.known.extend(step.extract.iter().flatten().map(|(name, _)| name.clone()));
        expect.variables = self.expect_variables(step.expect.as_ref(), at(node, &["expect"]));
        let poll = step.poll.as_ref().and_then(|poll| self.poll(poll, at(node, &["poll"])));
        let (name, index) = self.register(step.action.as_deref().unwrap_or(&label), node);
        Some(Action {
            name,
            index,
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
            timeout: step.timeout.map_or(ACTION_TIMEOUT, |timeout| timeout.0),
            redirects_max: step.redirects.or(self.http.redirects).unwrap_or(0),
            decompress: step.decompress.or(self.http.decompress).unwrap_or(true),
            body_bytes_max: step.max_body.or(self.http.max_body).map_or(BODY_BYTES_MAX, |size| size.0),
            expect,
            extracts,
            poll,
            label,
            tags: self.tags(step, node),
        })
    }

    /// Refuses the deployment's credentials in what a request sends to `base`, which is not a target: a scenario may be
    /// by somebody who must not have them.
    fn without_credentials(&mut self, key: &str, node: &Node, base: &BaseUrl) {
        let Some(deployment) = self.deployment else { return };
        // This may be the host of a target whose URL is not known offline.
        let unknown = BaseUrl::parse(UNKNOWN).ok();
        if deployment.targets.iter().any(|(_, target)| Some(target) == unknown.as_ref()) {
            return;
        }
        for key in [key, "query", "headers", "json", "form", "body", "multipart"] {
            if let Some(sent) = node.get(key) {
                self.refuse_credentials(sent, base);
            }
        }
    }

    fn extracts(&mut self, step: &step::Step, node: &Node) -> Vec<Extract> {
        let mut extracts = Vec::new();
        for (name, config) in step.extract.iter().flatten() {
            let place = at(node, &["extract", name]);
            self.variable_name(name, key_span(at(node, &["extract"]), name));
            extracts.extend(self.extract(name, config, place));
        }
        extracts
    }

    /// The headers that an action has of its own; a list of values is a line for each.
    fn headers(&mut self, step: &step::Step, node: &Node) -> Vec<(HeaderName, Text)> {
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
                    Ok((name, _)) => headers.extend(self.text(value, place).map(|text| (name, text))),
                    Err(complaint) => {
                        let span = key_span(at(node, &["headers"]), name);
                        self.faults.push(Fault::of(span, complaint));
                    }
                }
            }
        }
        headers
    }

    /// Adds the headers that all requests to a target have, unless the action has its own.
    fn target_headers(&mut self, step: &step::Step, headers: &mut Vec<(HeaderName, Text)>, node: &Node) {
        let name = step.target.as_deref().unwrap_or(DEFAULT_TARGET);
        let of_target = self.deployment.map(|deployment| deployment.lookup.headers(name)).unwrap_or_default();
        for (name, value) in of_target {
            if !headers.iter().any(|(own, _)| own == name) {
                headers.extend(self.text(&value, node).map(|text| (HeaderName::from_static(name), text)));
            }
        }
    }

    /// Base URL and path of a request, and whether it goes outside the deployment.
    fn target<'t>(
        &mut self,
        step: &step::Step,
        written: &'t str,
        node: &Node,
        place: &Node,
    ) -> Option<(BaseUrl, &'t str, bool)> {
        match url::split_absolute(written) {
            Err(complaint) => {
                self.faults.push(Fault::of(place.span.clone(), complaint));
                None
            }
            Ok(Some((base, path))) => {
                if step.target.is_some() {
                    let fault =
                        Fault::error(key_span(node, "target"), "`target` together with a complete URL");
                    self.faults.push(fault.help("write the path only, or remove `target`"));
                }
                let targets =
                    self.deployment.map(|deployment| deployment.targets.as_slice()).unwrap_or_default();
                let of_catalog = self.deployment.map(|d| d.lookup.origins()).unwrap_or_default();
                let foreign = !targets.iter().any(|(_, target)| target.origin == base.origin)
                    && !of_catalog.contains(&base.origin);
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
                    self.faults.push(fault.help(format!("write /{written}, or http://host/{written}")));
                }
                let elsewhere = may_be_whole && !written.starts_with('{') && step.target.is_none();
                let first = self.deployment.and_then(|deployment| deployment.targets.first());
                match first.filter(|_| elsewhere) {
                    // The rendered URL names another host in any case.
                    Some((_, base)) => Some((base.clone(), written, false)),
                    None => Some((self.named_target(step, node, place)?, written, false)),
                }
            }
        }
    }

    fn named_target(&mut self, step: &step::Step, node: &Node, place: &Node) -> Option<BaseUrl> {
        let name = step.target.as_deref().unwrap_or(DEFAULT_TARGET);
        let Some(deployment) = self.deployment else { return BaseUrl::parse("http://127.0.0.1").ok() };
        if let Some((_, base)) = deployment.targets.iter().find(|(target, _)| target == name) {
            return Some(base.clone());
        }
        let span = node.get("target").unwrap_or(place).span.clone();
        match deployment.lookup.unlisted(name) {
            Some(Ok(base)) => {
                self.services.insert(name.to_owned(), base.clone());
                return Some(base);
            }
            Some(Err(complaint)) => {
                self.faults.push(Fault::of(span, complaint));
                return BaseUrl::parse("http://127.0.0.1").ok();
            }
            None => {}
        }
        let known: Vec<&str> = deployment.targets.iter().map(|(target, _)| target.as_str()).collect();
        let fault =
            Fault::error(span, format!("the deployment `{}` has no target `{name}`", deployment.name));
        let help = did_you_mean(name, known.iter().copied()).map_or_else(
            || format!("name one of its targets: {}", known.join(", ")),
            |known| format!("did you mean `{known}`?"),
        );
        self.faults.push(fault.help(help));
        // Any base URL will do to find the action's other faults.
        BaseUrl::parse("http://127.0.0.1").ok()
    }
}
