//! What a virtual user keeps from its `user_setup` for its iterations.

use std::sync::Arc;

use base::masking;
use client::cookies::{CookieMode, Jar};
use plan::scenario::BUILT_IN;
use text::template::{Value, Variables};

/// Variables by name, shared by iterations.
pub(super) type SharedVariables = Arc<Vec<(Arc<str>, Value)>>;

/// Variables, secrets and cookies of a virtual user.
pub(super) struct UserState {
    /// The run's variables, and those that its setup has set.
    pub(super) variables: SharedVariables,
    /// What messages must not show.
    secrets: Vec<Value>,
    /// The cookies that each of its iterations begins with; `None` if they are never cleared.
    cookies: Option<Jar>,
}

impl UserState {
    /// What `variables` and `jar` have after its setup, over the run's variables.
    pub(super) fn new(run: &SharedVariables, variables: &Variables, jar: &Jar, mode: CookieMode) -> Self {
        let mut shared = (**run).clone();
        for (name, value) in variables.own().iter().filter(|(name, _)| !BUILT_IN.contains(&&**name)) {
            match shared.iter_mut().find(|(other, _)| other == name) {
                Some((_, declared)) => declared.clone_from(value),
                None => shared.push((Arc::clone(name), value.clone())),
            }
        }
        let secrets = variables.secrets();
        secrets.iter().for_each(|secret| masking::hide_learned(secret));
        let cookies = (mode == CookieMode::Iteration).then(|| {
            let kept = Jar::default();
            kept.copy_from(jar);
            kept
        });
        Self { variables: Arc::new(shared), secrets: secrets.into_iter().map(Value::from).collect(), cookies }
    }

    /// Gives an iteration what it begins with.
    pub(super) fn give(&self, variables: &mut Variables, jar: &Jar) {
        variables.hide(self.secrets.clone());
        if let Some(kept) = &self.cookies {
            jar.copy_from(kept);
        }
    }
}
