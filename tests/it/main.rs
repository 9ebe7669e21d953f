//! Tests of the program as a whole: through its binary and its public interface, against in-process
//! servers and, where a variable names one, real services.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics, and says where")]

mod faults;
mod profiling;
mod server;
mod signals;
mod support;
