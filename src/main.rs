//! The binary `bench`: hands the command line to the library and its exit code to the system.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(bench::cli::main(env!("BENCH_VERSION"), std::env::args_os()))
}
