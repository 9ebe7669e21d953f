//! Settings of the whole process.

/// Makes a write over the limit on file sizes (`ulimit -f`) fail with an error, as on a full disk, instead of ending
/// the process.
#[cfg(unix)]
pub(super) fn survive_file_size_limit() {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    if let Ok(runtime) = runtime {
        let _entered = runtime.enter();
        // The handler stays when the listener is gone. Without it, such a file ends the process, as before.
        let _ = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()));
    }
}

/// There is no such limit.
#[cfg(not(unix))]
pub(super) fn survive_file_size_limit() {}
