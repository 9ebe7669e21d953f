//! The variables that files refer to, and where they are looked up.

use std::sync::Arc;

type LookUp = dyn Fn(&str) -> Option<String> + Send + Sync;

/// How to look up the environment variables that files refer to.
#[derive(Clone)]
pub struct Environment {
    look_up: Arc<LookUp>,
    offline: bool,
}

impl Environment {
    /// Looks them up in another place than this process's environment.
    pub fn new(look_up: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self { look_up: Arc::new(look_up), offline: false }
    }

    /// Nothing is looked up: every variable and every file with a secret counts as there, with an unknown value. For
    /// checks of files only; a run with it would send those unknown values.
    #[must_use]
    pub fn offline() -> Self {
        Self { offline: true, ..Self::new(|_| None) }
    }

    /// True for [`Self::offline`].
    #[must_use]
    pub fn is_offline(&self) -> bool {
        self.offline
    }

    /// The value of a variable.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<String> {
        (self.look_up)(name)
    }
}

impl Default for Environment {
    /// The environment of this process.
    fn default() -> Self {
        Self::new(|name| std::env::var(name).ok())
    }
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Environment")
    }
}
