//! The parts that are equal in all requests of an action, built once for all virtual users.
//!
//! They change only when credentials are renewed. Where iterations are users of a cloud, each user has parts of its own:
//! another token, and another project in the URLs of some services. Nothing here may be rendered per request.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};

use client::body::BodyContent;
use client::headers::HeaderBlock;
use client::url::push_escaped_path;
use plan::action::Action;
use plan::body::BodyTemplate;
use plan::call::http::HttpCall;
use plan::propagation::Propagation;
use text::template::TemplateError;

use super::bodies::{content_type, literal_body};

use super::request::{invalid_header, is_trace_header, start_with_slash};
use crate::credentials::CurrentCredentials;
use crate::crowd::Sender;
use crate::{Context, ONCE};

/// Of how many senders a virtual user keeps references. With more, some are looked up again, in the cache of all.
const SENDERS_MAX: usize = 64;

/// The fixed parts of an action's requests.
#[derive(Debug, Default)]
pub(super) struct FixedRequestParts {
    /// The deployment's headers (to its targets), the content type, the credentials, and the call's literal
    /// headers; a later header replaces an earlier one.
    pub(super) headers: HeaderBlock,
    /// The headers for a host that is not a target, if a template may name one.
    pub(super) foreign_headers: Option<HeaderBlock>,
    /// The base URL's path, if it is not the action's.
    prefix: Option<String>,
    /// The generation of the credentials in the headers.
    pub(super) generation: u64,
    /// Path and query, escaped, if they have no template.
    pub(super) path: Option<String>,
    /// The body, if it has no template.
    pub(super) body: Option<BodyContent>,
}

impl FixedRequestParts {
    fn new(
        context: &Context,
        call: &HttpCall,
        (sender, generation): (&Sender<'_>, u64),
    ) -> Result<Self, TemplateError> {
        let credentials = Some(sender.credentials).filter(|_| call.authorised);
        let prefix = sender.prefix_of(&call.base.prefix);
        Ok(Self {
            headers: headers(context, call, call.signed, credentials)?,
            foreign_headers: match call.may_be_whole {
                true => Some(headers(context, call, false, None)?),
                false => None,
            },
            path: literal_path(call, prefix.as_deref().unwrap_or(&call.base.prefix)),
            prefix,
            generation,
            body: literal_body(call)?,
        })
    }

    /// The path of the base URL.
    pub(super) fn prefix<'a>(&'a self, call: &'a HttpCall) -> &'a str {
        self.prefix.as_deref().unwrap_or(&call.base.prefix)
    }

    /// The headers for a target, or for a foreign host.
    #[inline]
    pub(super) fn headers_for(&self, foreign: bool) -> &HeaderBlock {
        self.foreign_headers.as_ref().filter(|_| foreign).unwrap_or(&self.headers)
    }
}

fn headers(
    context: &Context,
    call: &HttpCall,
    signed: bool,
    credentials: Option<&CurrentCredentials>,
) -> Result<HeaderBlock, TemplateError> {
    let mut map = if signed { context.headers.clone() } else { context.foreign_headers.clone() };
    if let Some(content_type) = content_type(&call.body) {
        map.insert(CONTENT_TYPE, content_type);
    }
    if call.gzip {
        map.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    if let Some((name, value)) = credentials.and_then(CurrentCredentials::header) {
        map.insert(name, value);
    }
    if matches!(call.body, BodyTemplate::Messages(_) | BodyTemplate::Later) {
        map.remove(ACCEPT);
    }
    call.headers.iter().for_each(|(name, _)| drop(map.remove(name)));
    for (name, value) in call.headers.iter().filter(|(name, _)| !call.changes(name)) {
        if let Some(value) = value.literal() {
            map.append(name, value.parse().map_err(|_| invalid_header(name))?);
        }
    }
    let carrying = if signed { context.propagation } else { Propagation::NONE };
    let mut block = HeaderBlock::default();
    for (name, value) in map.iter().filter(|(name, _)| !is_trace_header(name, carrying)) {
        block.push(name, value.as_bytes()).map_err(|_| invalid_header(name))?;
    }
    Ok(block)
}

fn literal_path(call: &HttpCall, prefix: &str) -> Option<String> {
    let path = call.path.literal().filter(|_| call.query.is_empty() && !call.may_be_whole)?;
    let mut output = prefix.to_owned();
    push_escaped_path(path, &mut output);
    start_with_slash(&mut output);
    Some(output)
}

/// All fixed parts built so far, by workload, action and sender.
#[derive(Debug, Default)]
pub struct FixedPartsCache {
    built: RwLock<HashMap<(u16, u16, u32), Arc<FixedRequestParts>>>,
}

impl FixedPartsCache {
    #[inline]
    fn get(
        &self,
        context: &Context,
        workload: u16,
        (action, call): (&Action, &HttpCall),
        (sender, generation): (&Sender<'_>, u64),
    ) -> Result<Arc<FixedRequestParts>, TemplateError> {
        let key = (workload, action.index, sender.number);
        let built = self.built.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(fixed) = built.get(&key).filter(|fixed| fixed.generation == generation) {
            return Ok(Arc::clone(fixed));
        }
        drop(built);
        let fixed = Arc::new(FixedRequestParts::new(context, call, (sender, generation))?);
        let mut built = self.built.write().unwrap_or_else(PoisonError::into_inner);
        built.insert(key, Arc::clone(&fixed));
        Ok(fixed)
    }
}

/// A virtual user's references to the fixed parts. It needs no lock and no shared counter while nothing changes.
#[derive(Default)]
pub(super) struct FixedParts {
    workload: u16,
    of_sender: Vec<SenderParts>,
}

/// The fixed parts of a sender's requests.
#[derive(Default)]
struct SenderParts {
    number: u32,
    generation: u64,
    of_action: Vec<Option<Arc<FixedRequestParts>>>,
}

impl FixedParts {
    /// The fixed parts of an action.
    #[inline]
    pub(super) fn get(
        &mut self,
        context: &Context,
        workload: u16,
        (action, call): (&Action, &HttpCall),
        sender: &Sender<'_>,
    ) -> Result<&FixedRequestParts, TemplateError> {
        let generation = sender.credentials.generation();
        if self.workload != workload {
            self.workload = workload;
            self.of_sender.clear();
        }
        let place = sender.number as usize % SENDERS_MAX;
        if place >= self.of_sender.len() {
            self.of_sender.reserve_exact(place + 1 - self.of_sender.len());
            self.of_sender.resize_with(place + 1, SenderParts::default);
        }
        let own = &mut self.of_sender[place];
        if (own.number, own.generation) != (sender.number, generation) {
            (own.number, own.generation) = (sender.number, generation);
            own.of_action.clear();
        }
        let at = usize::from(action.index);
        if at >= own.of_action.len() {
            own.of_action.reserve_exact(at + 1 - own.of_action.len());
            own.of_action.resize(at + 1, None);
        }
        let entry = &mut own.of_action[at];
        let fixed = match entry.take() {
            Some(fixed) => fixed,
            // Setup and teardown share this number and run once, so they are not cached.
            None if workload == ONCE => {
                Arc::new(FixedRequestParts::new(context, call, (sender, generation))?)
            }
            None => context.fixed_parts.get(context, workload, (action, call), (sender, generation))?,
        };
        Ok(entry.insert(fixed))
    }
}
