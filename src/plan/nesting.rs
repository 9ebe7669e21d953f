//! Where a step stands among those that are being compiled.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use terms::tags::Tags;

/// The state of compiling one list of steps with those within it.
#[derive(Default)]
pub(super) struct Nesting {
    /// The names of actions and groups so far.
    pub(super) names: BTreeSet<Arc<str>>,
    /// How many of them there are.
    pub(super) count: u16,
    /// How many steps are around it.
    pub(super) depth: usize,
    /// What the names of an included file begin with.
    pub(super) prefix: Option<String>,
    /// The included files that are being read, outermost first.
    pub(super) files: Vec<PathBuf>,
    /// The tags of the groups around.
    pub(super) tags: Tags,
}
