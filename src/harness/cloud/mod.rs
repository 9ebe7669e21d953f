//! The cloud of a deployment: logs in, has contexts made for a run, and deletes what runs have left.
//!
//! All of it is in the crate `openstack`, which a build may leave out (the feature `openstack`); then each of these is
//! refused, with what to do.

// The tests of a build with it check this, too.
#[cfg(any(test, not(feature = "openstack")))]
#[cfg_attr(feature = "openstack", expect(dead_code, unreachable_pub, reason = "only the tests use it"))]
mod absent;
#[cfg(feature = "openstack")]
mod cleanup;
#[cfg(feature = "openstack")]
mod contexts;

use std::path::PathBuf;
use std::time::Duration;

use super::error::HarnessError;
use super::options::YamlFile;

#[cfg(not(feature = "openstack"))]
pub use absent::cleanup;
#[cfg(not(feature = "openstack"))]
pub(super) use absent::{ISSUER, RunContexts, UserTokens, contexts};
#[cfg(feature = "openstack")]
pub use cleanup::cleanup;
#[cfg(feature = "openstack")]
pub(super) use contexts::{ISSUER, RunContexts, UserTokens, contexts};

/// What to delete.
#[derive(Clone, Debug, Default)]
pub struct CleanupOptions {
    /// The directory of a run whose things are deleted.
    pub run: Option<PathBuf>,
    /// The deployment; by default, the run's.
    pub deployment: Option<YamlFile>,
    /// The age of the runs whose things are deleted, without a directory.
    pub older_than: Option<Duration>,
    /// False to say only what would be deleted.
    pub delete: bool,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CleanupOutcome {
    /// How many things were deleted.
    pub deleted: usize,
    /// What is still there, with the reason; or what would be deleted, without one.
    pub left: Vec<String>,
    /// Why some things could not be looked for.
    pub unknown: Vec<String>,
    /// True if things were only looked for.
    pub only_looked: bool,
}

impl CleanupOutcome {
    /// What went wrong, if something could not be deleted.
    ///
    /// # Errors
    /// Something could not be deleted.
    pub fn result(&self) -> Result<(), HarnessError> {
        let (left, unknown) = (self.left.len(), self.unknown.len());
        let text = match (self.only_looked || left == 0, unknown) {
            (true, 0) => return Ok(()),
            (false, _) => format!("{left} of {} things could not be deleted", left + self.deleted),
            (true, _) => "not everything could be looked for".to_owned(),
        };
        Err(HarnessError::failed(text).remedy("mend what the lines above say, and try again"))
    }
}
