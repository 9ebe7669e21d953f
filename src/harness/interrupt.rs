//! How a caller ends what the harness does before its time.

use tokio_util::sync::CancellationToken;

/// A handle that interrupts a run or a comparison: what is under way ends in order, and what ran is reported. Clones
/// interrupt the same work.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(CancellationToken);

impl Interrupt {
    /// A new handle.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Interrupts; a second time changes nothing.
    pub fn interrupt(&self) {
        self.0.cancel();
    }

    /// True once it was interrupted.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Ends once it was interrupted.
    pub async fn interrupted(&self) {
        self.0.cancelled().await;
    }
}
