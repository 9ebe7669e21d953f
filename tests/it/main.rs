//! Tests of the program as a whole: through its binary and its public interface, against in-process
//! servers and, where a variable names one, real services.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on is to fail where it stands")]

mod bad_input;
mod canary;
mod command_line;
mod deployments;
mod mutations;
mod schema;
mod support;
