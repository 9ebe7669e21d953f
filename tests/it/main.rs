//! Tests of the program as a whole: through its binary and its public interface, against in-process
//! servers and, where a variable names one, real services.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "all of it is tests, helpers included")]

mod demo;
mod real_keystone;
mod real_osprofiler;
mod support;
mod tidy;
