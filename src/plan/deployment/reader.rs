//! Reads the texts and secrets of a deployment, and keeps what is wrong with them.

use std::path::{Path, PathBuf};

use ::config::reference::{Reference, SecretReference};
use base::complaint::Complaint;
use base::masking;
use base::secret::Secret;
use client::url::BaseUrl;
use text::diagnostics::Fault;
use text::yaml::YamlNode;

use crate::references::{self, Env};

/// OSProfiler's example key, which is public.
pub(super) const WELL_KNOWN_KEY: &str = "SECRET_KEY";

/// Resolves references to texts and secrets.
pub(super) struct ReferenceReader<'a> {
    /// The deployment's file.
    pub(super) path: &'a Path,
    /// Where the paths of references count from.
    pub(super) folder: PathBuf,
    pub(super) env: Env<'a>,
    pub(super) faults: Vec<Fault>,
    /// True if the file itself contains a secret.
    pub(super) inline_secret: bool,
    /// A warning that traces cannot be read from the collector.
    pub(super) unread_collector: Option<String>,
    /// True if parts of the document could not be read. Then a missing key may be in one of them.
    pub(super) partial: bool,
}

impl<'a> ReferenceReader<'a> {
    pub(super) fn new(path: &'a Path, env: Env<'a>) -> Self {
        let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
        Self {
            path,
            folder,
            env,
            faults: Vec::new(),
            inline_secret: false,
            unread_collector: None,
            partial: false,
        }
    }

    /// Adds a fault whose message quotes the value. Values from the environment or another file must not be shown.
    pub(super) fn quoting_fault(
        &mut self,
        reference: &Reference,
        text: &str,
        node: &YamlNode,
        complaint: Complaint,
    ) {
        if written(reference).is_none() {
            masking::hide(text);
        }
        self.faults.push(Fault::of(node.span.clone(), complaint));
    }

    pub(super) fn url(&mut self, text: &str, node: &YamlNode) -> Option<BaseUrl> {
        masking::hide_url(text);
        BaseUrl::parse(text)
            .map_err(|complaint| self.faults.push(Fault::of(node.span.clone(), complaint)))
            .ok()
    }

    pub(super) fn text(&mut self, reference: &Reference, node: &YamlNode) -> Option<String> {
        match references::resolve(reference, &self.folder, self.env) {
            Ok(secret) => Some(secret.expose().to_owned()),
            Err(complaint) => {
                self.faults.push(Fault::of(node.span.clone(), complaint));
                None
            }
        }
    }

    pub(super) fn secret(
        &mut self,
        SecretReference(reference): &SecretReference,
        node: &YamlNode,
    ) -> Option<Secret> {
        self.inline_secret |= written(reference).is_some_and(|text| !text.is_empty());
        let text = self.text(reference, node)?;
        if text != WELL_KNOWN_KEY && !self.env.leaves_open(reference) {
            masking::hide(&text);
        }
        Some(Secret::new(text))
    }

    /// An empty secret counts as absent: `{env: NAME, default: ""}` leaves the profiler off.
    pub(super) fn optional_secret(&mut self, reference: &SecretReference, node: &YamlNode) -> Option<Secret> {
        self.secret(reference, node).filter(|secret| !secret.expose().is_empty())
    }

    /// A text whose form is checked, or `None` if its value stays unknown.
    pub(super) fn known_text(&mut self, reference: &Reference, node: &YamlNode) -> Option<String> {
        if self.env.leaves_open(reference) { None } else { self.text(reference, node) }
    }

    /// The same, if it is not empty.
    pub(super) fn known_word(&mut self, reference: &Reference, node: &YamlNode) -> Option<String> {
        self.known_text(reference, node).filter(|text| !text.is_empty())
    }

    /// A text that is not empty.
    pub(super) fn word(&mut self, reference: &Reference, node: &YamlNode) -> Option<String> {
        self.text(reference, node).filter(|text| !text.is_empty())
    }
}

/// The text that a reference contains itself.
pub(super) fn written(reference: &Reference) -> Option<&str> {
    match reference {
        Reference::Inline(secret) => Some(secret.expose()),
        Reference::Env { default, .. } => default.as_deref(),
        Reference::File(_) => None,
    }
}
