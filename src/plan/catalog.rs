//! What targets want of a cloud's catalog of services, and what a catalog can be asked.
//!
//! The catalog itself is read where bench logs in, in the crate `openstack`.

use std::fmt::Debug;

use base::complaint::Complaint;
use client::url::{BaseUrl, Origin};

/// Who an endpoint is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interface {
    /// Everybody.
    #[default]
    Public,
    /// The cloud's own network.
    Internal,
    /// Administrators.
    Admin,
}

impl Interface {
    /// The interface of this name; Keystone v2's `publicURL` and so on are understood, too.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name.strip_suffix("URL").unwrap_or(name) {
            "public" => Some(Self::Public),
            "internal" => Some(Self::Internal),
            "admin" => Some(Self::Admin),
            _ => None,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Internal => "internal",
            Self::Admin => "admin",
        }
    }
}

/// Which endpoint is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointQuery {
    /// The service: its official type, an alias, its project, or any type or name that the catalog has.
    pub service: String,
    /// Who the endpoint is for.
    pub interface: Interface,
    /// The region; `None` for the only one.
    pub region: Option<String>,
    /// The major version in the URL, such as `v2.0`; `None` for what the catalog says, or the usual one if it says none.
    pub version: Option<String>,
}

/// The services of a cloud, and where they are.
pub trait EndpointCatalog: Debug + Send + Sync {
    /// The base URL of an endpoint, with the service's major version at its end or in it.
    ///
    /// # Errors
    /// What the catalog lacks, and what it has instead.
    fn find(&self, wanted: &EndpointQuery) -> Result<BaseUrl, Complaint>;

    /// The origins of all endpoints of an interface and a region.
    fn origins(&self, interface: Interface, region: Option<&str>) -> Vec<Origin>;

    /// True if an endpoint is there.
    fn has_origin(&self, origin: &Origin) -> bool;
}

/// True for `v3` and `v2.1`.
#[must_use]
pub fn is_version(text: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.len() < 4 && part.bytes().all(|b| b.is_ascii_digit());
    text.strip_prefix('v').is_some_and(|number| match number.split_once('.') {
        Some((major, minor)) => digits(major) && digits(minor),
        None => digits(number),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_told_from_other_parts_of_a_path() {
        for (text, expected) in
            [("v3", true), ("v2.1", true), ("v", false), ("v2.", false), ("3", false), ("volume", false)]
        {
            assert_eq!(is_version(text), expected, "{text}");
        }
    }
}
