//! The build script: gives the program its version with the commit that it was built from, and how it was built.
//!
//! Without git, or outside a checkout, the version has no commit. Debug builds leave it out, so that a commit does not
//! rebuild the tests. Nothing else may happen here.

use std::path::Path;
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
    println!("cargo::rustc-env=BENCH_BUILD={}", build());
}

/// How it is built: profile, target, compiler and features, for reports of faults.
fn build() -> String {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    // PROFILE is `release` for the profiles that inherit it; their own directories have their names:
    // PROFILE/build/bench-HASH/out.
    let out = variable("OUT_DIR");
    let profile = Path::new(&out).ancestors().nth(3).and_then(Path::file_name);
    let profile = profile.map_or_else(|| variable("PROFILE"), |name| name.to_string_lossy().into_owned());
    let compiler = Command::new(variable("RUSTC")).arg("--version").output();
    let compiler = compiler.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let compiler = compiler.unwrap_or_default();
    let compiler = compiler.split(' ').take(2).collect::<Vec<_>>().join(" ");
    let features =
        std::env::vars().filter_map(|(name, _)| Some(name.strip_prefix("CARGO_FEATURE_")?.to_lowercase()));
    let mut features: Vec<String> = features.filter(|name| name != "default").collect();
    features.sort();
    let features = if features.is_empty() { "none".to_owned() } else { features.join(", ") };
    format!("{profile} for {} by {compiler}; features: {features}", variable("TARGET"))
}

/// What git prints, if it is there and this package is the root of its checkout.
fn git(arguments: &[&str]) -> Option<String> {
    let root = env!("CARGO_MANIFEST_DIR");
    if !Path::new(root).join(".git").exists() {
        return None;
    }
    let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let text = text.trim();
    (output.status.success() && !text.is_empty()).then(|| text.to_owned())
}
