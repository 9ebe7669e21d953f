//! The binary `bench`: hands the command line to the library and its exit code to the system.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(bench::cli::main(std::env::args_os()))
}
