//! One operation, and the step that calls it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::draft::DraftStep;
use crate::multipart::FormField;
use crate::replace::escaped;
use crate::request::method_key;
use crate::secrets::{Variables, is_secret_name, variable_name};
use base::percent;

use super::created;
use super::document::{OpenApiDocument, Operation};
use super::left::{CUT, OmissionCounts};
use super::security::Security;
use super::{first_line, is_status_of_success, style, text_of};

/// What operations answer and others need.
#[derive(Default)]
pub(super) struct Links {
    /// By the path before a parameter: the variable that has its value.
    made: BTreeMap<String, String>,
    /// The step, the variable and the JSONPath.
    extracts: Vec<(usize, String, String)>,
    /// The index of the next step.
    next: usize,
    /// Files that forms send.
    pub(super) stand_ins: Vec<FormField>,
    /// Variables whose values are samples.
    pub(super) samples: BTreeSet<String>,
    /// What no step has.
    pub(super) left: OmissionCounts,
}

impl Links {
    pub(super) fn add_extracts(&self, steps: &mut [DraftStep]) {
        for (step, name, path) in &self.extracts {
            if let Some(step) = steps.get_mut(*step) {
                let map = step.keys.entry("extract").or_insert_with(|| json!({}));
                map[name] = json!({ "json": path });
            }
        }
    }
}

impl<'d> Operation<'d> {
    pub(super) fn tags(&self) -> impl Iterator<Item = &'d str> {
        self.value.get("tags").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    }

    pub(super) fn is_safe(&self) -> bool {
        matches!(self.method, "get" | "head" | "options")
    }

    /// What is created must exist before it is read, and is deleted last.
    pub(super) fn turn(&self) -> u8 {
        match self.method {
            "post" if !self.path.contains('{') => 0,
            "delete" => 2,
            _ => 1,
        }
    }

    /// The parameters: first the path item's, then the operation's, which override them.
    fn parameters(&self, document: &'d OpenApiDocument) -> Vec<&'d Value> {
        let mut all: Vec<&'d Value> = Vec::new();
        for holder in [self.item, self.value] {
            for parameter in
                holder.get("parameters").and_then(Value::as_array).into_iter().flatten().take(100)
            {
                let Some(parameter) = document.resolve(parameter) else { continue };
                all.retain(|known| {
                    known.get("name") != parameter.get("name") || known.get("in") != parameter.get("in")
                });
                all.push(parameter);
            }
        }
        all
    }

    /// The step that calls it; `None` for a method that steps cannot send.
    pub(super) fn step(
        &self,
        document: &'d OpenApiDocument,
        security: &Security,
        variables: &mut Variables,
        links: &mut Links,
        names: &mut BTreeMap<String, usize>,
    ) -> Option<DraftStep> {
        let (key, before) = method_key(&self.method.to_ascii_uppercase())?;
        let parameters = self.parameters(document);
        links.left.of_operation(self);
        for parameter in &parameters {
            if is_left_out(parameter) {
                links.left.add("optional parameters without an example");
            } else if parameter.get("allowReserved").and_then(Value::as_bool) == Some(true) {
                links.left.add("parameters whose reserved characters are not to be encoded");
            }
        }
        let mut keys = Map::new();
        keys.insert("action".into(), self.name(names).into());
        let path = self.path_text(document, &parameters, variables, links);
        keys.insert(key.into(), format!("{before}{path}").into());
        let mut query = self.named(document, "query", &parameters, variables, &mut links.left);
        if let Some((name, variable)) = &security.query {
            query.insert(name.clone(), format!("{{{{ {variable} }}}}").into());
        }
        if !query.is_empty() {
            keys.insert("query".into(), Value::Object(query));
        }
        let mut headers = self.named(document, "header", &parameters, variables, &mut links.left);
        const OWN: [&str; 3] = ["accept", "content-type", "authorization"];
        headers.retain(|name, _| !OWN.contains(&name.to_ascii_lowercase().as_str()) && !name.is_empty());
        let cookies = self.named(document, "cookie", &parameters, variables, &mut links.left);
        if !cookies.is_empty() {
            let pairs = cookies.iter().map(|(name, value)| format!("{name}={}", in_cookie(&text_of(value))));
            headers.insert("Cookie".into(), pairs.collect::<Vec<_>>().join("; ").into());
        }
        let body = self.body(document, &parameters, &mut headers, links);
        if !headers.is_empty() {
            keys.insert("headers".into(), Value::Object(headers));
        }
        keys.extend(body);
        if security.has_auth && self.is_open(security) {
            keys.insert("auth".into(), false.into());
        }
        keys.insert("expect".into(), json!({ "status": self.statuses(document) }));
        self.remember_created(document, variables, links);
        links.next += 1;
        let summary = ["summary", "description"].iter().find_map(|key| self.value.get(*key)?.as_str());
        let mut comment = summary.map(|text| first_line(text, 100)).unwrap_or_default();
        if self.value.get("deprecated").and_then(Value::as_bool) == Some(true) {
            comment = format!("{comment} (deprecated)").trim().to_owned();
        }
        Some(DraftStep { keys, comment })
    }

    fn name(&self, names: &mut BTreeMap<String, usize>) -> String {
        let usual = || format!("{} {}", self.method.to_ascii_uppercase(), self.path);
        let name = self.id.map_or_else(usual, str::to_owned);
        let name = first_line(&name, 100);
        let name = if name.is_empty() { "operation".to_owned() } else { name };
        let count = names.entry(name.clone()).or_default();
        *count += 1;
        if *count == 1 { name } else { format!("{name} ({count})") }
    }

    fn path_text(
        &self,
        document: &OpenApiDocument,
        parameters: &[&Value],
        variables: &mut Variables,
        links: &mut Links,
    ) -> String {
        let mut text = String::new();
        let mut rest = self.path;
        while let Some((before, after)) = rest.split_once('{') {
            let Some((name, after)) = after.split_once('}') else { break };
            text.push_str(before);
            let made = links.made.get(&before_parameter(self.path, name)).cloned();
            let variable = made.unwrap_or_else(|| {
                let parameter =
                    parameters.iter().find(|p| p.get("name").and_then(Value::as_str) == Some(name)).copied();
                let value =
                    parameter.map_or_else(|| "1".into(), |parameter| style::value(document, parameter));
                if style::is_cut("path", &value) {
                    links.left.add(CUT);
                }
                let value = style::in_path(document, parameter, value);
                let described =
                    parameter.and_then(|p| p.get("description")?.as_str()).map(|text| first_line(text, 80));
                let hint =
                    if name == "id" { id_name(&before_parameter(self.path, name)) } else { name.to_owned() };
                let variable = variables.plain(&hint, value, described.filter(|text| !text.is_empty()));
                links.samples.insert(variable.clone());
                variable
            });
            text.push_str("{{ ");
            text.push_str(&variable);
            text.push_str(" }}");
            rest = after;
        }
        let text = text + &escaped(rest);
        if text.starts_with('/') { text } else { format!("/{text}") }
    }

    /// Required parameters of a kind, and those with an example.
    fn named(
        &self,
        document: &OpenApiDocument,
        place: &str,
        parameters: &[&Value],
        variables: &mut Variables,
        left: &mut OmissionCounts,
    ) -> Map<String, Value> {
        let mut map = Map::new();
        for parameter in parameters {
            let is_here = parameter.get("in").and_then(Value::as_str) == Some(place);
            let Some(name) = parameter.get("name").and_then(Value::as_str) else { continue };
            if !is_here || is_left_out(parameter) {
                continue;
            }
            // A cookie that the document itself shows is no secret.
            if is_secret_name(name) && !(place == "cookie" && has_example(parameter)) {
                let variable = variables.secret(name, name);
                map.insert(name.to_owned(), format!("{{{{ {variable} }}}}").into());
                continue;
            }
            let value = style::value(document, parameter);
            if style::is_cut(place, &value) {
                left.add(CUT);
            }
            let pairs = style::named(document, place, name, parameter, value);
            if pairs.is_empty() {
                left.add("parameters without a value: nothing is sent for them");
            }
            map.extend(pairs);
        }
        map
    }

    /// True if it needs no credentials.
    fn is_open(&self, security: &Security) -> bool {
        match self.value.get("security").and_then(Value::as_array) {
            Some(list) => list.is_empty(),
            None => security.open_by_default,
        }
    }

    fn responses(&self) -> impl Iterator<Item = (&'d String, &'d Value)> {
        self.value.get("responses").and_then(Value::as_object).into_iter().flatten()
    }

    /// The documented statuses of success.
    fn statuses(&self, _document: &OpenApiDocument) -> Value {
        let statuses: Vec<Value> =
            self.responses().filter_map(|(status, _)| is_status_of_success(status)).take(20).collect();
        match statuses.as_slice() {
            [] => json!("2xx"),
            [one] => one.clone(),
            several => json!(several),
        }
    }

    /// If it creates what other paths name (`POST /pets`, `/pets/{id}`), its answer gives them the name.
    fn remember_created(&self, document: &OpenApiDocument, variables: &mut Variables, links: &mut Links) {
        if self.method != "post" {
            return;
        }
        let below = format!("{}/", self.path.trim_end_matches('/'));
        let named = document.operations().find_map(|other| {
            let (name, rest) = other.path.strip_prefix(&below)?.strip_prefix('{')?.split_once('}')?;
            (rest.is_empty() || rest.starts_with('/')).then_some(name)
        });
        let Some(parameter) = named else { return };
        let successful = self.responses().filter(|(status, _)| is_status_of_success(status).is_some());
        let member = successful.filter_map(|(_, response)| document.resolve(response)).find_map(|response| {
            linked_member(response, parameter).or_else(|| created::member(document, response, parameter))
        });
        let Some(member) = member else { return };
        let variable =
            variables.reserve(&if parameter == "id" { id_name(self.path) } else { variable_name(parameter) });
        links.made.insert(below, variable.clone());
        links.extracts.push((links.next, variable, member));
    }
}

fn has_example(parameter: &Value) -> bool {
    parameter.get("example").is_some() || parameter.get("examples").is_some()
}

/// A cookie's value; what none can have is percent-encoded (RFC 6265, section 4.1.1). Templates stay.
fn in_cookie(text: &str) -> String {
    let is_valid = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | ',' | ';' | '\\');
    if text.contains("{{") || text.chars().all(is_valid) { text.to_owned() } else { percent::encode(text) }
}

/// Whether a parameter of a query, a header or a cookie need not be sent, and the document shows no value of it.
fn is_left_out(parameter: &Value) -> bool {
    let word = |key: &str| parameter.get(key).and_then(Value::as_str);
    let is_required = parameter.get("required").and_then(Value::as_bool) == Some(true);
    matches!(word("in"), Some("query" | "header" | "cookie")) && !is_required && !has_example(parameter)
}

/// The path up to a parameter.
fn before_parameter(path: &str, name: &str) -> String {
    path.split(&format!("{{{name}}}")).next().unwrap_or_default().to_owned()
}

/// `pet_id` for `/pets`.
fn id_name(path: &str) -> String {
    let last = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    format!("{}_id", last.strip_suffix('s').unwrap_or(last))
}

/// The member that the document's `links` name for a parameter, as a JSONPath.
fn linked_member(response: &Value, parameter: &str) -> Option<String> {
    let links = response.get("links")?.as_object()?;
    let expression = links.values().find_map(|link| link.get("parameters")?.get(parameter)?.as_str())?;
    let pointer = expression.strip_prefix("$response.body#/")?;
    let plain = pointer.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '/');
    plain.then(|| format!("$.{}", pointer.replace('/', ".")))
}
