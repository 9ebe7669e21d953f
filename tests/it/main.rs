//! Tests of the program as a whole: through its binary and its public interface, against in-process
//! servers and, where a variable names one, real services.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "all of it is tests, helpers included")]

mod ab;
mod backend;
mod bad_input;
mod browser;
mod browser_hostile;
mod browser_report;
mod canary;
mod command_line;
mod compare;
mod demo;
mod deployments;
mod differential;
mod dns;
mod elasticsearch;
mod export;
mod faults;
mod gates;
mod h2_server;
mod http2;
mod http_client;
mod http_faults;
mod load;
mod metrics;
mod mutations;
mod observer;
mod planted;
mod planted_service;
mod profiling;
mod publish;
mod real_causes;
mod real_keystone;
mod real_middleware;
mod real_osprofiler;
mod real_servers;
mod real_service;
mod real_spans;
mod real_stores;
mod real_stores_down;
mod recording;
mod schema;
mod server;
mod signals;
mod spans;
mod support;
mod tidy;
mod trace_commands;
