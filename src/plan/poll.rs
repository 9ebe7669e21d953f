//! How the request of an action is repeated until a condition holds.

use std::time::Duration;

use text::template::CompiledText;

/// How to repeat the request of an action.
pub struct PollPolicy {
    /// The condition that ends it; `None` means that all checks pass.
    pub until: Option<CompiledText>,
    /// The condition that fails it.
    pub fail_if: Option<CompiledText>,
    /// The pause between an answer and the next attempt.
    pub interval: Duration,
    /// The time from the first attempt after which it fails.
    pub deadline: Duration,
}
