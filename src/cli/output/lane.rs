//! A stream and the thread that writes to it, so that no other thread waits for a reader.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::bars::{Bar, TerminalBars};

/// The largest queue for a reader, in bytes; one more text is accepted, whatever its length.
const WAITING_BYTES_MAX: usize = 4 << 20;
/// A pipe accepts this much at once, which makes the progress of a reader visible.
const CHUNK_BYTES: usize = 4096;
/// How long to wait before trying a stream again that another process has made non-blocking.
const AGAIN_AFTER: Duration = Duration::from_millis(10);
/// How long what is being written may take before something else gets the terminal.
const HOLD_AFTER: Duration = Duration::from_millis(200);

/// Which stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

/// A queue of texts for a stream, with the outcome of writing them.
pub(super) struct Lane {
    stream: Stream,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    started: bool,
    texts: VecDeque<String>,
    bytes: usize,
    /// The newest moving lines, if they are not yet drawn.
    bars: Option<Vec<Bar>>,
    writing: bool,
    /// Increases whenever the stream accepts something.
    progress: u64,
    /// The progress at which a waiter gave up.
    given_up_at: Option<u64>,
    /// True while something else has the terminal: nothing is written.
    held: bool,
    /// Texts that did not fit in the queue.
    left_out: u64,
    /// True if the reader has closed the stream.
    broken: bool,
    /// The first other error.
    error: Option<io::Error>,
}

enum Work {
    Text(String),
    Bars(Vec<Bar>),
}

impl Lane {
    pub(super) const fn new(stream: Stream) -> Self {
        let state = State {
            started: false,
            texts: VecDeque::new(),
            bytes: 0,
            bars: None,
            writing: false,
            progress: 0,
            given_up_at: None,
            held: false,
            left_out: 0,
            broken: false,
            error: None,
        };
        Self { stream, state: Mutex::new(state), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True while there is room for another text.
    pub(super) fn has_room(&self) -> bool {
        self.state().bytes < WAITING_BYTES_MAX
    }

    /// True if everything was written or given up.
    pub(super) fn is_idle(&self) -> bool {
        let state = self.state();
        state.texts.is_empty() && state.bars.is_none() && !state.writing
    }

    /// Increases whenever the stream accepts something.
    pub(super) fn progress(&self) -> u64 {
        self.state().progress
    }

    /// It is not worth waiting for more until the stream takes something again.
    pub(super) fn give_up(&self) {
        let mut state = self.state();
        state.given_up_at = Some(state.progress);
    }

    /// True if nothing was accepted since a waiter gave up.
    pub(super) fn is_given_up(&self) -> bool {
        let state = self.state();
        state.given_up_at == Some(state.progress)
    }

    /// The first error other than a closed reader; returned once.
    pub(super) fn take_error(&self) -> Option<io::Error> {
        self.state().error.take()
    }

    /// Waits for a change, for a short time.
    pub(super) fn wait(&self, at_most: Duration) {
        let state = self.state();
        drop(self.changed.wait_timeout(state, at_most));
    }

    /// Queues a text, or counts it if there is no room. Never waits.
    pub(super) fn push(&'static self, text: String) {
        let mut state = self.state();
        if state.bytes >= WAITING_BYTES_MAX {
            state.left_out += 1;
            return;
        }
        state.bytes += text.len();
        state.texts.push_back(text);
        self.wake(state);
    }

    /// Shows these moving lines instead of the previous ones. Never waits.
    pub(super) fn draw(&'static self, bars: Vec<Bar>) {
        let mut state = self.state();
        state.bars = Some(bars);
        self.wake(state);
    }

    /// Writes nothing from now on, or writes again. What came in between is written then.
    pub(super) fn hold(&'static self, held: bool) {
        let mut state = self.state();
        state.held = held;
        match held {
            // What is being written has to get to its end first, unless the terminal takes nothing.
            true => drop(self.changed.wait_timeout_while(state, HOLD_AFTER, |state| state.writing)),
            false if state.texts.is_empty() && state.bars.is_none() => {}
            false => self.wake(state),
        }
    }

    /// Starts the thread with the first text.
    fn wake(&'static self, mut state: MutexGuard<'_, State>) {
        if state.started || state.held {
            self.changed.notify_all();
            return;
        }
        state.started = true;
        drop(state);
        let thread = std::thread::Builder::new().name("output".to_owned()).spawn(|| self.run());
        if thread.is_err() {
            // Without a thread, this one does it.
            let mut drawn = TerminalBars::default();
            while let Some(work) = self.take() {
                self.work(work, &mut drawn);
            }
            self.state().started = false;
        }
    }

    fn run(&self) {
        let mut drawn = TerminalBars::default();
        loop {
            if let Some(work) = self.take() {
                self.work(work, &mut drawn);
            } else {
                let state = self.state();
                let idle = |state: &mut State| state.held || state.texts.is_empty() && state.bars.is_none();
                drop(self.changed.wait_while(state, idle));
            }
        }
    }

    fn take(&self) -> Option<Work> {
        let mut state = self.state();
        if state.held {
            state.writing = false;
            return None;
        }
        let work = match (state.texts.pop_front(), state.left_out) {
            (Some(text), _) => {
                state.bytes -= text.len();
                Some(Work::Text(text))
            }
            (None, 1..) => {
                let left_out = std::mem::take(&mut state.left_out);
                Some(Work::Text(format!(
                    "({left_out} messages were left out because the output was not read)\n"
                )))
            }
            (None, 0) => state.bars.take().map(Work::Bars),
        };
        state.writing = work.is_some();
        work
    }

    fn work(&self, work: Work, drawn: &mut TerminalBars) {
        match work {
            Work::Text(text) => drawn.aside(|| self.write(&text)),
            Work::Bars(bars) => drawn.show(bars),
        }
        let mut state = self.state();
        state.writing = false;
        state.progress += 1;
        drop(state);
        self.changed.notify_all();
    }

    fn write(&self, text: &str) {
        if self.state().broken {
            return;
        }
        for chunk in text.as_bytes().chunks(CHUNK_BYTES) {
            let written = match self.stream {
                Stream::Output => write_all(&mut io::stdout().lock(), chunk),
                Stream::Error => write_all(&mut io::stderr().lock(), chunk),
            };
            let mut state = self.state();
            match written {
                Ok(()) => state.progress += 1,
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                    state.broken = true;
                    return;
                }
                Err(error) => {
                    state.error.get_or_insert(error);
                    return;
                }
            }
        }
    }
}

fn write_all(stream: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    let mut patient = RetryingWriter(stream);
    patient.write_all(bytes)?;
    patient.flush()
}

/// Tries again if a non-blocking stream has no room.
pub(super) struct RetryingWriter<W>(pub(super) W);

impl<W: Write> RetryingWriter<W> {
    fn patiently<T>(&mut self, mut step: impl FnMut(&mut W) -> io::Result<T>) -> io::Result<T> {
        loop {
            match step(&mut self.0) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(AGAIN_AFTER),
                done => return done,
            }
        }
    }
}

impl<W: Write> Write for RetryingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.patiently(|stream| stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.patiently(Write::flush)
    }
}
