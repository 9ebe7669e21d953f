//! The life of a run, of a comparison of two builds, and of a run that is over.
//!
//! A caller passes options and a receiver of [events](event::Event), and gets a result or an
//! [error](error::HarnessError). Nothing here reads arguments, prints, or ends the process; all files of a run are
//! written before its result is returned. The crate `bench` has an example.

#![warn(missing_docs)]

pub mod ab;
mod built_in;
pub mod capacity;
pub mod cloud;
pub mod comment;
pub mod demo;
pub mod env_file;
mod environment;
pub mod error;
pub mod event;
mod explain;
pub mod fault_record;
pub mod files;
pub mod import;
pub mod init;
pub mod launch;
pub mod live;
mod live_cause;
mod live_gate;
mod live_page;
mod local_server;
pub mod merge;
mod named_output;
pub mod options;
pub mod outcome;
mod probe_spans;
pub mod progress;
pub mod progress_line;
pub mod receive;
pub mod runs;
pub mod stored;
pub mod traces;

mod host;
mod housekeeping;
mod inline_deployment;
mod interrupt;
mod kept;
pub mod live_feed;
mod pages;
mod push;
mod push_datagrams;
mod push_http;
pub mod push_options;
mod rally_task;
mod read_again;
mod reading;
mod receiving;
mod reflection;
mod run;
mod run_name;
mod senders;
mod shard_options;
mod shards;
pub mod single;
pub mod url_pair;
pub mod url_run;
pub mod validation;
pub mod watch;
mod whole_urls;
mod writing;

pub use error::{HarnessError, HarnessErrorKind};
pub use event::WorkloadProgress;
pub use event::{Event, Events, Sink};
pub use interrupt::Interrupt;
pub use options::{LoadOptions, RunOptions, YamlFile};
pub use outcome::{Conclusion, FinishedRun};
pub use run::{PreparedRun, run};
