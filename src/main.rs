//! The binary `bench`: hands the command line to the library and its exit code to the system.

use std::process::ExitCode;

use bench::cli::ProgramVersion;

/// What `--version` adds to it.
const LONG_VERSION: &str = concat!(env!("BENCH_VERSION"), "\n", env!("BENCH_BUILD"));

fn main() -> ExitCode {
    let version = ProgramVersion { short: env!("BENCH_VERSION"), long: LONG_VERSION };
    ExitCode::from(bench::cli::main(version, std::env::args_os()))
}
