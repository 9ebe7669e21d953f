//! Metrics of a load, pushed as OTLP over HTTP: every few seconds, and once more at the end.
//!
//! Figures are sums since the start, so that a push which fails costs nothing while the load runs: the next one has its
//! figures, too. The last one is tried again where OTLP says that this helps (429, 502, 503 and 504).

use std::time::{Duration, Instant};

use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use tokio_util::sync::CancellationToken;

use client::plain::PlainClient;
use report::metrics::otlp;

use super::event::{Event, Sink};
use super::otlp_options::OtlpHeader;

const PUSH_EVERY: Duration = Duration::from_secs(5);
const PUSH_LIMIT: Duration = Duration::from_secs(10);
/// How long the end of a run waits for a receiver that is busy.
const LAST_LIMIT: Duration = Duration::from_secs(30);
/// The first wait before a further attempt, if the receiver names none; each is twice the one before.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The longest wait that is looked at, in seconds; longer ones are as good as never.
const WAIT_S_MAX: u64 = 86_400;

/// Pushes to one receiver.
pub(super) struct Pusher {
    pub(super) url: String,
    pub(super) headers: Vec<OtlpHeader>,
    pub(super) client: PlainClient,
    /// The metrics as they are now, encoded.
    pub(super) encode: Box<dyn Fn() -> Vec<u8> + Send + Sync>,
    pub(super) events: Sink,
}

/// Why a push failed.
struct PushFailure {
    why: String,
    /// `Some` if it may succeed later; within it, how long the receiver asks to wait, if it says.
    again_after: Option<Option<Duration>>,
}

impl Pusher {
    /// Pushes at intervals until it is asked to stop, and then once more.
    pub(super) async fn push_until(self, stop: CancellationToken) {
        let mut warned = false;
        let mut pause = PUSH_EVERY;
        loop {
            let last = tokio::select! {
                () = stop.cancelled() => true,
                () = tokio::time::sleep(pause) => false,
            };
            let pushed = if last { self.push_last().await } else { self.push().await };
            pause = PUSH_EVERY;
            if let Err(failed) = pushed {
                let asked = failed.again_after.flatten();
                pause = asked.map_or(pause, |asked| asked.clamp(PUSH_EVERY, LAST_LIMIT));
                // What is only late comes with the next figures.
                if last || failed.again_after.is_none() && !warned {
                    warned = true;
                    let end = if last {
                        "the last figures are missing there"
                    } else {
                        "the run continues without them"
                    };
                    let text = format!("metrics cannot be pushed: {}; {end}", failed.why);
                    self.events.event(&Event::Warning(&text));
                }
            }
            if last {
                return;
            }
        }
    }

    /// The last push, tried again while the receiver says that it is busy.
    async fn push_last(&self) -> Result<(), PushFailure> {
        let (begun, mut pause) = (Instant::now(), AGAIN_AFTER);
        loop {
            let Err(failed) = self.push().await else { return Ok(()) };
            let wait = match failed.again_after {
                Some(asked) => asked.unwrap_or(pause),
                None => return Err(failed),
            };
            if begun.elapsed() + wait > LAST_LIMIT {
                let why = format!("{}, also after {} s", failed.why, begun.elapsed().as_secs());
                return Err(PushFailure { why, ..failed });
            }
            tokio::time::sleep(wait).await;
            pause *= 2;
        }
    }

    async fn push(&self) -> Result<(), PushFailure> {
        let mut headers: HeaderMap = self.headers.iter().map(OtlpHeader::pair).collect();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(otlp::CONTENT_TYPE));
        let sending = self.client.post_with(&self.url, headers, (self.encode)().into());
        let for_good = |why: String| PushFailure { why, again_after: None };
        let answer = match tokio::time::timeout(PUSH_LIMIT, sending).await {
            Ok(answer) => answer.map_err(|error| for_good(error.to_string()))?,
            Err(_) => {
                return Err(for_good(format!(
                    "{} did not answer within {} s",
                    self.url,
                    PUSH_LIMIT.as_secs()
                )));
            }
        };
        let why = || format!("{} answered {}", self.url, answer.status);
        match answer.status {
            200..300 => Ok(()),
            429 | 502 | 503 | 504 => {
                let seconds =
                    answer.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
                // A receiver may ask for any number.
                let wait = seconds.map(|seconds: u64| Duration::from_secs(seconds.min(WAIT_S_MAX)));
                Err(PushFailure { why: why(), again_after: Some(wait) })
            }
            401 | 403 => Err(for_good(format!("{}: give its key with --otlp-header NAME=@FILE", why()))),
            _ => Err(for_good(why())),
        }
    }
}
