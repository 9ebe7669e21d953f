//! How a caller ends work of the harness early.

use tokio_util::sync::CancellationToken;

/// A handle that interrupts a run or a comparison: it ends gracefully and reports what ran. Clones interrupt the same
/// work.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(CancellationToken);

impl Interrupt {
    /// A new handle.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Interrupts; calling it again has no effect.
    pub fn interrupt(&self) {
        self.0.cancel();
    }

    /// True after an interrupt.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Completes at the interrupt.
    pub async fn interrupted(&self) {
        self.0.cancelled().await;
    }
}
