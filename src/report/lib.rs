//! What people and programs read: HTML, Markdown, terminal, and metrics while the load runs.
//!
//! Functions of results and a writer. Nothing here computes a statistic or prints: the caller passes the writer.

mod again;
pub mod annotations;
pub mod asynchronous;
pub mod badge;
mod because;
pub mod capacity;
pub mod client_comparison;
pub mod comment;
pub mod compare;
pub mod differences;
pub mod document;
pub mod explanation;
mod failed;
pub mod gitlab;
pub mod html;
pub mod junit;
mod kind_names;
pub mod lost;
mod machine;
pub mod markdown;
mod measured;
pub mod metrics;
pub mod mixed;
mod named;
pub mod observer;
pub mod offered;
pub mod once;
pub mod pairs;
pub mod probe;
pub mod record;
pub mod run;
pub mod runs;
mod samples;
pub mod screen;
mod seed;
mod shards;
mod slow_part;
pub mod slowest;
mod streams;
mod tags;
pub mod terminal;
mod texts;
pub mod trace;
mod users;
pub mod words;
