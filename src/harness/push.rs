//! Metrics of a load, pushed every few seconds and once more at the end, whatever their format and their way.
//!
//! What cannot be sent waits in a queue, the oldest figures first, and is sent when the receiver answers again. The queue
//! is bounded, and nothing here is waited for while the load runs. A receiver that stays away is said once, and how much it
//! lacks is said at the end.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::event::{Event, Sink};

/// How many pushes wait at most: those of five minutes.
const WAITING_MAX: usize = 60;
/// How many bytes of them wait at most.
const WAITING_BYTES_MAX: usize = 16 << 20;
/// A receiver that is busy is said once this many pushes wait.
const SAID_FROM: usize = 6;

/// How often is pushed, and how long the end of a run waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct PushPace {
    /// From one push to the next.
    every: Duration,
    /// The first wait before a further attempt at the end, if the receiver names none; each is twice the one before.
    again_after: Duration,
    /// How long the end waits for a receiver that says that it is busy.
    busy_limit: Duration,
    /// How long it waits for one that was there before, and is not any more.
    away_limit: Duration,
}

impl Default for PushPace {
    fn default() -> Self {
        Self {
            every: Duration::from_secs(5),
            again_after: Duration::from_secs(1),
            busy_limit: Duration::from_secs(30),
            away_limit: Duration::from_secs(5),
        }
    }
}

/// What a failed push means for the next ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailureKind {
    /// The receiver asks to come again, after this long if it says so.
    Busy(Option<Duration>),
    /// There is no answer.
    Away,
    /// These figures will never be taken.
    Refused,
}

/// Why a push failed.
#[derive(Clone, Debug)]
pub(super) struct PushFailure {
    /// For a message.
    pub(super) why: String,
    pub(super) kind: FailureKind,
}

/// A way to a receiver.
pub(super) trait PushRoute: Send + 'static {
    /// What it means that some pushes never arrived although the last one did.
    fn gap(&self) -> &'static str {
        "its lines have gaps, the last figures are there"
    }

    /// Sends what was encoded at one time.
    fn send(&mut self, figures: Bytes) -> impl Future<Output = Result<(), PushFailure>> + Send;
}

/// A pusher at work.
pub(super) struct PushTask {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl PushTask {
    /// Asks it for the last push.
    pub(super) fn stop(&self) {
        self.stop.cancel();
    }

    /// Waits until it has made that.
    pub(super) async fn end(self) {
        // A push that panicked has reported it.
        let _ = self.task.await;
    }
}

/// Pushes to one receiver.
pub(super) struct Pusher<R> {
    route: R,
    /// The metrics as they are now, encoded; whether these are the last ones.
    encode: Box<dyn FnMut(bool) -> Vec<u8> + Send>,
    events: Sink,
    pace: PushPace,
    queue: PushQueue,
    /// Before then, the receiver does not want to be asked again.
    not_before: Option<Instant>,
    /// Whether it has taken anything.
    was_there: bool,
    warned: bool,
    /// Why figures were refused, the latest time.
    refused: Option<String>,
}

impl<R: PushRoute> Pusher<R> {
    pub(super) fn new(
        route: R,
        encode: impl FnMut(bool) -> Vec<u8> + Send + 'static,
        events: &Sink,
        pace: PushPace,
    ) -> Self {
        Self {
            route,
            encode: Box::new(encode),
            events: Sink::clone(events),
            pace,
            queue: PushQueue::default(),
            not_before: None,
            was_there: false,
            warned: false,
            refused: None,
        }
    }

    pub(super) fn start(self, runtime: &Runtime) -> PushTask {
        let stop = CancellationToken::new();
        PushTask { task: runtime.spawn(self.push_until(stop.clone())), stop }
    }

    /// Pushes at intervals until it is asked to stop, and then once more.
    async fn push_until(mut self, stop: CancellationToken) {
        let every = self.pace.every;
        let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + every, every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let last = tokio::select! {
                () = stop.cancelled() => true,
                _ = ticks.tick() => false,
            };
            let figures = (self.encode)(last).into();
            if last {
                return self.finish(figures).await;
            }
            self.push(figures).await;
        }
    }

    /// A push while the load runs.
    async fn push(&mut self, figures: Bytes) {
        self.queue.add(figures);
        if self.not_before.is_some_and(|at| Instant::now() < at) {
            return;
        }
        let Err(failed) = self.send_waiting().await else { return };
        if let FailureKind::Busy(Some(asked)) = failed.kind {
            self.not_before = Some(Instant::now() + asked.min(self.pace.busy_limit));
        }
        let is_busy = matches!(failed.kind, FailureKind::Busy(_));
        if !is_busy || self.queue.waiting.len() >= SAID_FROM {
            self.warn_once(&failed.why, "the run continues, and they are sent when it answers again");
        }
    }

    /// The push after the load.
    async fn finish(&mut self, figures: Bytes) {
        self.queue.add(figures);
        let last = self.send_last().await;
        self.say_what_is_missing(last.err().map(|failed| failed.why));
    }

    /// Sends what waits, the oldest first, until a push fails that may succeed later.
    async fn send_waiting(&mut self) -> Result<(), PushFailure> {
        while let Some(first) = self.queue.waiting.front().cloned() {
            match self.route.send(first).await {
                Ok(()) => {
                    self.was_there = true;
                    self.refused = None;
                    self.queue.remove_first();
                }
                Err(failed) if failed.kind == FailureKind::Refused => {
                    self.queue.remove_first();
                    self.queue.lost += 1;
                    self.queue.why_lost.clone_from(&failed.why);
                    // What is missing at the end is said there.
                    if !self.queue.is_complete {
                        self.warn_once(&failed.why, "the run continues without them");
                    }
                    self.refused = Some(failed.why);
                }
                Err(failed) => {
                    self.queue.why_lost.clone_from(&failed.why);
                    return Err(failed);
                }
            }
        }
        Ok(())
    }

    /// The last pushes, tried again while that may help.
    async fn send_last(&mut self) -> Result<(), PushFailure> {
        self.queue.is_complete = true;
        let (begun, mut pause) = (Instant::now(), self.pace.again_after);
        loop {
            let Err(mut failed) = self.send_waiting().await else { break };
            let (wait, limit) = match failed.kind {
                FailureKind::Busy(asked) => (asked.unwrap_or(pause), self.pace.busy_limit),
                _ if self.was_there => (pause, self.pace.away_limit),
                _ => (pause, Duration::ZERO),
            };
            if begun.elapsed() + wait > limit {
                let waited = begun.elapsed().as_secs();
                if waited > 0 {
                    failed.why = format!("{}, also after {waited} s", failed.why);
                }
                self.queue.lost += self.queue.waiting.len() as u64;
                return Err(failed);
            }
            tokio::time::sleep(wait).await;
            pause *= 2;
        }
        match self.refused.take() {
            Some(why) => Err(PushFailure { why, kind: FailureKind::Refused }),
            None => Ok(()),
        }
    }

    fn warn_once(&mut self, why: &str, what_follows: &str) {
        if !self.warned {
            self.warned = true;
            self.warn(&format!("metrics cannot be pushed: {why}; {what_follows}"));
        }
    }

    fn say_what_is_missing(&self, last: Option<String>) {
        let PushQueue { lost, made, why_lost, .. } = &self.queue;
        match last {
            Some(why) => {
                let all = if *lost > 1 {
                    format!(", as are {} of {made} pushes in all", lost)
                } else {
                    String::new()
                };
                self.warn(&format!(
                    "metrics cannot be pushed: {why}; the last figures are missing there{all}"
                ));
            }
            None if *lost > 0 => {
                let gap = self.route.gap();
                self.warn(&format!("{lost} of {made} pushes of metrics are lost: {why_lost}; {gap}"));
            }
            None => {}
        }
    }

    fn warn(&self, text: &str) {
        self.events.event(&Event::Warning(text));
    }
}

/// What was encoded and not sent yet.
#[derive(Debug, Default)]
struct PushQueue {
    /// The oldest first.
    waiting: VecDeque<Bytes>,
    /// How many were ever put in.
    made: u64,
    /// How many will never arrive.
    lost: u64,
    /// Why one did not arrive, the latest time.
    why_lost: String,
    /// Whether the last figures are in it, or have been.
    is_complete: bool,
}

impl PushQueue {
    fn add(&mut self, figures: Bytes) {
        self.made += 1;
        self.waiting.push_back(figures);
        let bytes = |waiting: &VecDeque<Bytes>| waiting.iter().map(Bytes::len).sum::<usize>();
        // Figures are sums, so that the newest are worth most.
        while self.waiting.len() > WAITING_MAX
            || self.waiting.len() > 1 && bytes(&self.waiting) > WAITING_BYTES_MAX
        {
            self.remove_first();
            self.lost += 1;
        }
    }

    fn remove_first(&mut self) {
        self.waiting.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    /// What a receiver answers.
    #[derive(Clone, Copy)]
    enum ReceiverWord {
        Ok,
        Busy(Option<Duration>),
        Away,
        No,
    }

    /// A receiver that answers as it is told, and the last word for ever.
    struct ScriptedRoute {
        script: Vec<ReceiverWord>,
        got: Arc<Mutex<Vec<String>>>,
    }

    impl PushRoute for ScriptedRoute {
        async fn send(&mut self, figures: Bytes) -> Result<(), PushFailure> {
            let said = if self.script.len() > 1 { self.script.remove(0) } else { self.script[0] };
            let failure = |why: &str, kind| Err(PushFailure { why: why.to_owned(), kind });
            match said {
                ReceiverWord::Ok => {
                    self.got.lock().unwrap().push(String::from_utf8(figures.to_vec()).unwrap());
                    Ok(())
                }
                ReceiverWord::Busy(asked) => failure("is busy", FailureKind::Busy(asked)),
                ReceiverWord::Away => failure("is away", FailureKind::Away),
                ReceiverWord::No => failure("says no", FailureKind::Refused),
            }
        }
    }

    /// What arrives of so many pushes and the last one, and what is said.
    fn pushed(script: &[ReceiverWord], pushes: usize) -> (Vec<String>, Vec<String>) {
        let (got, said) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
        let route = ScriptedRoute { script: script.to_vec(), got: Arc::clone(&got) };
        let heard = Arc::clone(&said);
        let events: Sink = Arc::new(move |event: &Event<'_>| {
            if let Event::Warning(text) = event {
                heard.lock().unwrap().push((*text).to_owned());
            }
        });
        let pace = PushPace {
            again_after: Duration::from_millis(1),
            away_limit: Duration::from_secs(60),
            ..PushPace::default()
        };
        let mut pusher = Pusher::new(route, |_| Vec::new(), &events, pace);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            for number in 0..pushes {
                pusher.push(number.to_string().into()).await;
            }
            pusher.finish("last".into()).await;
        });
        let got = got.lock().unwrap().clone();
        let said = said.lock().unwrap().clone();
        (got, said)
    }

    /// What the receiver does, what it got, and what was said.
    type PushCase<'a> = (&'a str, &'a [ReceiverWord], &'a [&'a str], &'a [&'a str]);

    #[expect(clippy::too_many_lines, reason = "a table")]
    #[test]
    fn what_a_receiver_missed_is_sent_later_or_said() {
        const LATER: &str =
            "metrics cannot be pushed: is away; the run continues, and they are sent when it answers again";
        const WITHOUT: &str = "metrics cannot be pushed: says no; the run continues without them";
        let cases: [PushCase<'_>; 11] = [
            ("well", &[ReceiverWord::Ok], &["0", "1", "2", "last"], &[]),
            ("away at first", &[ReceiverWord::Away, ReceiverWord::Ok], &["0", "1", "2", "last"], &[LATER]),
            (
                "away twice is said once",
                &[ReceiverWord::Away, ReceiverWord::Away, ReceiverWord::Ok],
                &["0", "1", "2", "last"],
                &[LATER],
            ),
            (
                "busy is not said",
                &[ReceiverWord::Busy(None), ReceiverWord::Ok],
                &["0", "1", "2", "last"],
                &[],
            ),
            (
                "busy for long",
                &[ReceiverWord::Busy(Some(HOUR)), ReceiverWord::Ok],
                &["0", "1", "2", "last"],
                &[],
            ),
            (
                "busy at the end",
                &[
                    ReceiverWord::Ok,
                    ReceiverWord::Ok,
                    ReceiverWord::Ok,
                    ReceiverWord::Busy(None),
                    ReceiverWord::Busy(None),
                    ReceiverWord::Ok,
                ],
                &["0", "1", "2", "last"],
                &[],
            ),
            (
                "one is refused",
                &[ReceiverWord::No, ReceiverWord::Ok],
                &["1", "2", "last"],
                &[
                    WITHOUT,
                    "1 of 4 pushes of metrics are lost: says no; its lines have gaps, the last figures are there",
                ],
            ),
            (
                "all are refused",
                &[ReceiverWord::No],
                &[],
                &[
                    WITHOUT,
                    "metrics cannot be pushed: says no; the last figures are missing there, as are 4 of 4 pushes in all",
                ],
            ),
            (
                "the last is refused",
                &[ReceiverWord::Ok, ReceiverWord::Ok, ReceiverWord::Ok, ReceiverWord::No],
                &["0", "1", "2"],
                &["metrics cannot be pushed: says no; the last figures are missing there"],
            ),
            (
                "never there",
                &[ReceiverWord::Away],
                &[],
                &[
                    LATER,
                    "metrics cannot be pushed: is away; the last figures are missing there, as are 4 of 4 pushes in all",
                ],
            ),
            (
                "busy at the end for longer than a run waits",
                &[
                    ReceiverWord::Ok,
                    ReceiverWord::Ok,
                    ReceiverWord::Ok,
                    ReceiverWord::Busy(Some(HOUR)),
                    ReceiverWord::Ok,
                ],
                &["0", "1", "2"],
                &["metrics cannot be pushed: is busy; the last figures are missing there"],
            ),
        ];
        for (name, script, arrives, said) in cases {
            let (got, warnings) = pushed(script, 3);
            assert_eq!(
                (got, warnings),
                (
                    arrives.iter().map(|&one| one.to_owned()).collect(),
                    said.iter().map(|&one| one.to_owned()).collect()
                ),
                "{name}"
            );
        }
    }

    /// A restart at the end is waited for, but only where there was somebody before.
    #[test]
    fn a_receiver_that_was_there_is_awaited_at_the_end() {
        let script = [ReceiverWord::Ok, ReceiverWord::Away, ReceiverWord::Away, ReceiverWord::Ok];
        assert_eq!(pushed(&script, 1), (vec!["0".to_owned(), "last".to_owned()], Vec::new()));
        assert_eq!(pushed(&script[1..], 0).0, Vec::<String>::new());
    }

    #[test]
    fn the_oldest_figures_make_room_and_are_counted() {
        let away = vec![ReceiverWord::Away; WAITING_MAX + 7];
        let (got, said) = pushed(&[&away[..], &[ReceiverWord::Ok]].concat(), WAITING_MAX + 7);
        assert_eq!(got.len(), WAITING_MAX);
        assert_eq!((got[0].as_str(), got.last().unwrap().as_str()), ("8", "last"));
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[1].starts_with("8 of 68 pushes of metrics are lost: is away; "), "{said:?}");
        let mut queue = PushQueue::default();
        for _ in 0..3 {
            queue.add(vec![0; WAITING_BYTES_MAX / 2 + 1].into());
        }
        assert_eq!((queue.waiting.len(), queue.lost), (1, 2));
    }

    #[test]
    fn a_receiver_that_is_busy_for_long_is_said_once() {
        let busy = [ReceiverWord::Busy(None); SAID_FROM + 2];
        let (got, said) = pushed(&[&busy[..], &[ReceiverWord::Ok]].concat(), SAID_FROM + 2);
        assert_eq!(got.len(), SAID_FROM + 3);
        assert_eq!(said.len(), 1, "{said:?}");
    }

    /// From the start to the last push, at the pace of a run.
    #[test]
    fn figures_are_pushed_at_intervals_and_at_the_end() {
        let got = Arc::new(Mutex::new(Vec::new()));
        let route = ScriptedRoute { script: vec![ReceiverWord::Ok], got: Arc::clone(&got) };
        let events: Sink = Arc::new(|_: &Event<'_>| {});
        let pace = PushPace { every: Duration::from_millis(1), ..PushPace::default() };
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap();
        let encode = |last| if last { b"last".to_vec() } else { b"now".to_vec() };
        let task = Pusher::new(route, encode, &events, pace).start(&runtime);
        while got.lock().unwrap().len() < 3 {
            std::thread::sleep(Duration::from_millis(1));
        }
        task.stop();
        runtime.block_on(task.end());
        let got = got.lock().unwrap();
        let (last, others) = got.split_last().unwrap();
        assert!(last == "last" && others.iter().all(|one| one == "now"), "{got:?}");
    }
}
