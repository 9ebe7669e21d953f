//! The parts that are equal in all requests of an action, built once for all virtual users.
//!
//! They change only when the credentials are renewed. Nothing here may be rendered per request.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};

use crate::base::template::TemplateError;
use crate::client::body::Content;
use crate::client::headers::HeaderBlock;
use crate::client::url::push_escaped_path;
use crate::plan::action::Action;
use crate::plan::propagation::Propagation;

use super::bodies::{content_type, literal_body};
use super::request::{invalid_header, is_trace_header, start_with_slash};
use super::{Context, ONCE};

/// The fixed parts of an action's requests.
#[derive(Debug, Default)]
pub(super) struct Fixed {
    /// The deployment's headers (to its targets), the content type, the credentials, and the action's literal
    /// headers; a later header replaces an earlier one.
    pub(super) headers: HeaderBlock,
    /// The headers for a host that is not a target, if a template may name one.
    pub(super) foreign_headers: Option<HeaderBlock>,
    /// Path and query, escaped, if they have no template.
    pub(super) path: Option<String>,
    /// The body, if it has no template.
    pub(super) body: Option<Content>,
}

impl Fixed {
    fn new(context: &Context, action: &Action) -> Result<Self, TemplateError> {
        Ok(Self {
            headers: headers(context, action, action.signed, action.authorised)?,
            foreign_headers: match action.may_be_whole {
                true => Some(headers(context, action, false, false)?),
                false => None,
            },
            path: literal_path(action),
            body: literal_body(action)?,
        })
    }

    /// The headers for a target, or for a foreign host.
    pub(super) fn headers_for(&self, foreign: bool) -> &HeaderBlock {
        self.foreign_headers.as_ref().filter(|_| foreign).unwrap_or(&self.headers)
    }
}

fn headers(
    context: &Context,
    action: &Action,
    signed: bool,
    authorised: bool,
) -> Result<HeaderBlock, TemplateError> {
    let mut map = if signed { context.headers.clone() } else { context.foreign_headers.clone() };
    if let Some(content_type) = content_type(&action.body) {
        map.insert(CONTENT_TYPE, content_type);
    }
    if action.gzip {
        map.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    if authorised && let Some((name, value)) = context.credentials.header() {
        map.insert(name, value);
    }
    for (name, value) in &action.headers {
        map.remove(name);
        if let Some(value) = value.literal() {
            map.insert(name.clone(), value.parse().map_err(|_| invalid_header(name))?);
        }
    }
    let carrying = if signed { context.propagation } else { Propagation::NONE };
    let mut block = HeaderBlock::default();
    for (name, value) in map.iter().filter(|(name, _)| !is_trace_header(name, carrying)) {
        block.push(name, value.as_bytes()).map_err(|_| invalid_header(name))?;
    }
    Ok(block)
}

fn literal_path(action: &Action) -> Option<String> {
    let path = action.path.literal().filter(|_| action.query.is_empty() && !action.may_be_whole)?;
    let mut output = action.base.prefix.clone();
    push_escaped_path(path, &mut output);
    start_with_slash(&mut output);
    Some(output)
}

/// All fixed parts built so far, by workload and action.
#[derive(Debug, Default)]
pub struct FixedPartsCache {
    built: RwLock<HashMap<(u16, u16), Built>>,
}

/// Fixed parts and the generation of the credentials in them.
type Built = (u64, Arc<Fixed>);

impl FixedPartsCache {
    fn get(
        &self,
        context: &Context,
        workload: u16,
        action: &Action,
        generation: u64,
    ) -> Result<Arc<Fixed>, TemplateError> {
        let key = (workload, action.index);
        let built = self.built.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, fixed)) = built.get(&key).filter(|(of, _)| *of == generation) {
            return Ok(Arc::clone(fixed));
        }
        drop(built);
        let fixed = Arc::new(Fixed::new(context, action)?);
        let mut built = self.built.write().unwrap_or_else(PoisonError::into_inner);
        built.insert(key, (generation, Arc::clone(&fixed)));
        Ok(fixed)
    }
}

/// A virtual user's references to the fixed parts. It needs no lock and no shared counter while nothing changes.
#[derive(Default)]
pub(super) struct FixedParts {
    workload: u16,
    generation: u64,
    of_action: Vec<Option<Arc<Fixed>>>,
}

impl FixedParts {
    /// The fixed parts of an action.
    pub(super) fn get(
        &mut self,
        context: &Context,
        workload: u16,
        action: &Action,
    ) -> Result<&Fixed, TemplateError> {
        let generation = context.credentials.generation();
        if (self.workload, self.generation) != (workload, generation) {
            (self.workload, self.generation) = (workload, generation);
            self.of_action.clear();
        }
        let at = usize::from(action.index);
        if at >= self.of_action.len() {
            self.of_action.resize(at + 1, None);
        }
        let entry = &mut self.of_action[at];
        let fixed = match entry.take() {
            Some(fixed) => fixed,
            // Setup and teardown share this number and run once, so they are not cached.
            None if workload == ONCE => Arc::new(Fixed::new(context, action)?),
            None => context.fixed_parts.get(context, workload, action, generation)?,
        };
        Ok(entry.insert(fixed))
    }
}
