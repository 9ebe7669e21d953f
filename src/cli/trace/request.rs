//! `bench trace request`: one traced request.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::exit::Exit;
use crate::output::{print, style};
use crate::progress::ProgressDisplay;
use crate::say;
use crate::signals::interrupt_by_signals;
use crate::url::{UrlArguments, duration, receive_address};
use base::secret::Secret;
use harness::options::Environment;
use harness::traces::request::{self, TraceRequest, TracedAnswer, is_literal, read_key};
use harness::url_run::UrlRun;
use harness::{HarnessError, Interrupt};
use osprofiler::report::TraceTree;
use report::document::terminal::TerminalStyle;
use report::html;
use report::trace::{json, text};

use super::{output, words};

const LITERAL: &str = "warning: --key: other users of this machine can read the key in the list of processes; \
    write env:NAME, @FILE or -";

/// Send one traced request and show its trace as soon as it is complete.
///
/// With --key or a deployment that has a key, the request is signed for OSProfiler, and the trace comes from the
/// collector. Without a key it has W3C's traceparent. Without any of them, spans are received at 127.0.0.1:4318, where
/// services send them that have OTEL_EXPORTER_OTLP_ENDPOINT unset or set to it.
#[derive(Debug, clap::Args)]
pub(crate) struct RequestArguments {
    /// The URL.
    url: String,
    /// The HMAC key to sign with: env:NAME, @FILE, - for standard input, or the key itself, which other users of the
    /// machine can then read.
    #[arg(long, value_name = "env:NAME|@FILE|-", conflicts_with = "deployment", allow_hyphen_values = true)]
    key: Option<String>,
    /// The deployment with key, collector and credentials.
    #[arg(short, long, value_name = "FILE")]
    deployment: Option<PathBuf>,
    /// The collector (default: $OSPROFILER_CONNECTION_STRING).
    #[arg(long, value_name = "URL", conflicts_with = "deployment")]
    connection_string: Option<String>,
    /// Receive OpenTelemetry's spans at this address (default 127.0.0.1:4318).
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, require_equals = true, default_missing_value = "127.0.0.1:4318", value_parser = receive_address)]
    receive: Option<SocketAddr>,
    #[command(flatten)]
    request: UrlArguments,
    /// Wait this long after the answer for work that goes on, such as a workflow that the request began.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    wait: Option<Duration>,
    /// JSON instead of a tree in text.
    #[arg(long, conflicts_with = "html")]
    json: bool,
    /// One HTML page with a waterfall instead of a tree in text.
    #[arg(long)]
    html: bool,
    /// The file to write (default: standard output).
    #[arg(short, long, alias = "out", value_name = "FILE")]
    output: Option<PathBuf>,
}

impl RequestArguments {
    fn options(&self) -> Result<TraceRequest, HarnessError> {
        let environment = Environment::default();
        if self.key.as_deref().is_some_and(is_literal) {
            say(LITERAL);
        }
        let read = |key: &String| read_key(key, &environment, std::io::stdin());
        let key = self.key.as_ref().map(read).transpose()?;
        let connection = self.connection_string.clone().or_else(|| {
            let variable = environment.get("OSPROFILER_CONNECTION_STRING").filter(|url| !url.is_empty());
            variable.filter(|_| self.deployment.is_none() && self.receive.is_none())
        });
        let standard = || SocketAddr::from((Ipv4Addr::LOCALHOST, 4318));
        let receives = self.deployment.is_none() && key.is_none() && connection.is_none();
        Ok(TraceRequest {
            request: UrlRun { wait: self.wait, ..self.request.request(&self.url)? },
            deployment: self.deployment.clone(),
            key,
            connection: connection.map(Secret::new),
            receive: self.receive.or_else(|| receives.then(standard)),
            environment,
        })
    }

    fn show(&self, traced: &TracedAnswer) -> Result<(), HarnessError> {
        let (path, id) = (crate::output::file(self.output.as_ref()), traced.trace_id.to_string());
        let Some(trace) = &traced.trace else {
            print(&format!("trace {id}"));
            return Ok(());
        };
        if self.json {
            let reported = TraceTree::build(&trace.records)
                .with_unreadable(trace.unreadable)
                .with_partial(trace.partial.as_deref());
            return output(path, |out| json::write(&id, &reported, out));
        }
        let (tree, functions) = (&trace.tree, &trace.functions);
        if self.html {
            return output(path, |out| html::trace::write(&id, tree, None, functions, None, out));
        }
        let style = if path.is_some() { TerminalStyle::default() } else { style() };
        words(path, |out| text::write(&id, tree, false, None, functions, style, out))
    }
}

pub(super) fn request(arguments: &RequestArguments) -> Result<Exit, HarnessError> {
    let options = arguments.options()?;
    let interrupt = Interrupt::new();
    let listening = interrupt_by_signals(&interrupt, || crate::output::last_words("ended at once"))?;
    let traced = request::request(&options, &interrupt, &ProgressDisplay::new(false).sink())?;
    drop(listening);
    let answer = &traced.answer;
    let status = answer.status.map_or_else(|| "no answer".to_owned(), |status| status.to_string());
    say(&format!("{}: {status} in {:.1} ms", answer.what, answer.duration_ms));
    arguments.show(&traced)?;
    traced.fault().map_or(Ok(Exit::Ok), Err)
}
