//! This machine's name.

/// The host name of the machine; empty where the system does not say.
#[cfg(unix)]
pub(super) fn name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
pub(super) fn name() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_default()
}
