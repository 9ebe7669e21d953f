//! The build script: gives the program its version with the commit that it was built from.
//!
//! Without git, or outside a checkout, the version has no commit. Debug builds leave it out, so that a commit does not
//! rebuild the tests. Nothing else may happen here.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=src/build.rs");
    let mut version = env!("CARGO_PKG_VERSION").to_owned();
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "debug") {
        version = format!("{version} (debug build)");
    } else if let Some(commit) = git(&["rev-parse", "--short=10", "HEAD"]) {
        // Whatever moves HEAD changes one of these.
        for file in ["HEAD", "logs/HEAD"] {
            if let Some(path) = git(&["rev-parse", "--git-path", file]) {
                println!("cargo::rerun-if-changed={path}");
            }
        }
        version = format!("{version} ({commit})");
    }
    println!("cargo::rustc-env=BENCH_VERSION={version}");
}

/// What git prints, if it is there and this package is the root of its checkout.
fn git(arguments: &[&str]) -> Option<String> {
    let root = env!("CARGO_MANIFEST_DIR");
    if !std::path::Path::new(root).join(".git").exists() {
        return None;
    }
    let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let text = text.trim();
    (output.status.success() && !text.is_empty()).then(|| text.to_owned())
}
