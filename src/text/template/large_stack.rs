//! Compilation of long templates on a stack that is large enough.
//!
//! The compiler recurses for every operator of an expression and for every `elif`. What [`super::bounded`] lets
//! through took up to 1.9 MiB of stack in a build without optimisation, nearly all that a thread has.

use std::thread;

use super::TemplateError;

/// Eight times what was seen. Memory that is not touched is never taken.
const STACK_BYTES: usize = 16 << 20;

/// Shorter tags, and fewer of them, fit every stack: starting a thread is saved.
const SHORT_BYTES: usize = 100;
const FEW: usize = 50;

/// What the tags of a text may need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Needs {
    /// The bytes of the longest tag.
    pub(super) longest: usize,
    pub(super) tags: usize,
}

impl Needs {
    /// Calls `compile` where there is room for it.
    ///
    /// # Errors
    /// What `compile` returns, or that no thread could be started.
    pub(super) fn with_room<T: Send, E: Send + From<TemplateError>>(
        self,
        compile: impl FnOnce() -> Result<T, E> + Send,
    ) -> Result<T, E> {
        if self.longest <= SHORT_BYTES && self.tags <= FEW {
            return compile();
        }
        thread::scope(|scope| {
            let started = thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, compile);
            match started.map(thread::ScopedJoinHandle::join) {
                Ok(Ok(outcome)) => outcome,
                Ok(Err(panic)) => std::panic::resume_unwind(panic),
                Err(error) => Err(TemplateError(format!(
                    "no thread can be started to compile it: {error}; raise `ulimit -u`"
                ))
                .into()),
            }
        })
    }
}
