//! The only place that writes to standard output and standard error.
//!
//! Messages ([`say`]) and verdicts ([`print()`]) are queued, and a thread for each stream writes them. A stopped
//! terminal or an unread pipe does not delay a load or its log, and a closed reader does not change the exit code. The
//! product of a command, such as a schema or a table, is written by the caller ([`product`]) and waits for its reader,
//! as in other programs.

mod bars;
mod lane;

use std::io::{self, BufWriter, ErrorKind, IsTerminal as _, Stdout, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

pub(super) use bars::Bar;
pub(super) use lane::Stream;
use lane::{Lane, RetryingWriter};

use super::exit::{self, Exit};
use super::signals::Signals;
use base::masking::masked;
use base::visible::{for_terminal, visible};
use harness::HarnessError;
use report::document::terminal::{TerminalStyle, wrapped};
use text::files::open_named;
use text::visible_lines::{LineBuffer, is_json};

static OUTPUT: Lane = Lane::new(Stream::Output);
static ERROR: Lane = Lane::new(Stream::Error);
/// What makes the terminal as it was, while a screen has it.
static RESTORE: Mutex<Option<fn()>> = Mutex::new(None);
/// Set by a signal that arrived during a wait for a reader.
static HURRY: AtomicBool = AtomicBool::new(false);

/// How long a stream may accept nothing before the rest of its queue is given up.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long the last message of a process that is ended by force may take.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Most texts are written within this time.
const QUICKLY: Duration = Duration::from_millis(100);
const LOOK_EVERY: Duration = Duration::from_millis(20);
const PRODUCT_BUFFER_BYTES: usize = 64 << 10;

/// A message on standard error, wrapped at words on a terminal if it is a single line. Never waits: if the queue is
/// full, the message is counted and left out.
pub(super) fn say(text: &str) {
    let columns = columns(Stream::Error).filter(|_| !text.trim_end().contains('\n'));
    if let Some(line) = line(&wrapped(text, columns, 2), Stream::Error) {
        ERROR.push(line);
    }
}

/// A message on standard error after all earlier output; waits for room, for a limited time.
pub(super) fn complain(text: &str) {
    wait_until(&OUTPUT, Lane::is_idle);
    wait_until(&ERROR, Lane::has_room);
    say(text);
}

/// Text on standard output, such as a verdict, after all earlier messages. [`close`] handles unread output and full
/// disks.
pub(super) fn print(text: &str) {
    wait_until(&ERROR, Lane::is_idle);
    wait_until(&OUTPUT, Lane::has_room);
    if let Some(line) = line(text, Stream::Output) {
        OUTPUT.push(line);
    }
}

/// Commands of bench's own to a CI system, on standard output; what they quote is escaped where they are made.
pub(super) fn command(text: &str) {
    if !text.is_empty() {
        wait_until(&OUTPUT, Lane::has_room);
        OUTPUT.push(format!("{}\n", masked(text.trim_end())));
    }
}

/// Moving lines on a terminal, instead of the previous ones; an empty list removes them.
pub(super) fn draw(bars: Vec<Bar>) {
    let clean = |bar: Bar| Bar { text: visible(&bar.text).into_owned(), ..bar };
    ERROR.draw(bars.into_iter().map(clean).collect());
}

/// Gives the terminal to a screen: messages wait until [`release`]. `restore` makes the terminal as it was; it is called
/// before words that cannot wait, and may be called again later.
pub(super) fn hold(restore: fn()) {
    *RESTORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(restore);
    ERROR.hold(true);
}

/// Takes the terminal back: the messages that have waited are written.
pub(super) fn release() {
    *RESTORE.lock().unwrap_or_else(PoisonError::into_inner) = None;
    ERROR.hold(false);
}

/// The terminal, for a screen.
pub(super) fn terminal() -> impl Write {
    BufWriter::with_capacity(PRODUCT_BUFFER_BYTES, RetryingWriter(io::stderr()))
}

/// The text as it may be shown: every message passes through here.
fn line(text: &str, stream: Stream) -> Option<String> {
    (!text.is_empty()).then(|| format!("{}\n", clean(text.trim_end(), stream)))
}

/// Removes secrets, and everything that a terminal or a CI system would interpret.
fn clean(text: &str, stream: Stream) -> String {
    for_terminal(&masked(text), colours(stream))
}

/// The file that an option `-o` names; `-` is standard output, as in other programs.
pub(super) fn file(path: Option<&PathBuf>) -> Option<&Path> {
    path.map(PathBuf::as_path).filter(|path| *path != Path::new("-"))
}

/// Whether a stream is a terminal.
pub(super) fn is_terminal(stream: Stream) -> bool {
    match stream {
        Stream::Output => io::stdout().is_terminal(),
        Stream::Error => io::stderr().is_terminal(),
    }
}

/// Whether colours may be used on a stream.
pub(super) fn colours(stream: Stream) -> bool {
    is_obeying(stream) && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Whether a stream is a terminal that obeys commands: one that calls itself dumb shows them as text.
pub(super) fn is_obeying(stream: Stream) -> bool {
    is_terminal(stream) && std::env::var_os("TERM").is_none_or(|kind| kind != "dumb")
}

/// The format of text for people on standard output: as wide as the terminal, if it is one.
pub(super) fn style() -> TerminalStyle {
    TerminalStyle { columns: columns(Stream::Output), colour: colours(Stream::Output) }
}

/// Whether keys come from a terminal, and all streams go to one.
pub(super) fn is_interactive() -> bool {
    io::stdin().is_terminal() && is_obeying(Stream::Output) && is_obeying(Stream::Error)
}

/// The width and the height of the terminal.
pub(super) fn size() -> Option<(u16, u16)> {
    terminal_size::terminal_size_of(io::stderr()).map(|(width, height)| (width.0, height.0))
}

/// The width of a stream that is a terminal.
pub(super) fn columns(stream: Stream) -> Option<usize> {
    let size = match stream {
        Stream::Output => terminal_size::terminal_size_of(io::stdout()),
        Stream::Error => terminal_size::terminal_size_of(io::stderr()),
    };
    size.map(|(width, _)| usize::from(width.0)).filter(|width| *width > 0)
}

/// Standard output for the product of a command.
pub(super) struct Product {
    stream: BufWriter<RetryingWriter<Stdout>>,
    /// For a terminal, which must not obey what a service wrote into the product.
    lines: Option<LineBuffer>,
}

/// Starts writing the product of a command. A file or a pipe gets it unchanged.
pub(super) fn product() -> Product {
    let lines = is_terminal(Stream::Output).then(LineBuffer::default);
    Product { lines, ..unchanged() }
}

/// The same, unchanged for a terminal as well.
fn unchanged() -> Product {
    wait_until(&ERROR, Lane::is_idle);
    wait_until(&OUTPUT, Lane::is_idle);
    let stream = BufWriter::with_capacity(PRODUCT_BUFFER_BYTES, RetryingWriter(io::stdout()));
    Product { stream, lines: None }
}

impl Write for Product {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(lines) = &mut self.lines else { return self.stream.write(bytes) };
        self.stream.write_all(lines.ended_by(bytes).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl Product {
    /// Writes the rest, unless an error occurred before. A reader that closed the stream is fine; anything else is an
    /// error.
    pub(super) fn finish(mut self, written: io::Result<()>) -> Result<(), HarnessError> {
        let written = written.and_then(|()| self.end());
        // Failed writes are not tried again.
        let _ = self.stream.into_parts();
        match written {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(unwritable(&error)),
            _ => Ok(()),
        }
    }

    fn end(&mut self) -> io::Result<()> {
        if let Some(lines) = &mut self.lines {
            self.stream.write_all(lines.rest().as_bytes())?;
        }
        self.stream.flush()
    }
}

/// Writes a product for people, such as a table, as a line.
pub(super) fn show(text: &str) -> Result<(), HarnessError> {
    write_line(unchanged(), &clean(text, Stream::Output))
}

/// Writes a product unchanged, as a line: JSON (with more escapes for a terminal), a shell script, Markdown.
pub(super) fn deliver(text: &str) -> Result<(), HarnessError> {
    write_line(if is_json(text) { product() } else { unchanged() }, text)
}

/// Writes a value as JSON.
pub(super) fn deliver_json(value: &serde_json::Value) -> Result<(), HarnessError> {
    deliver(&format!("{value:#}"))
}

/// Writes a file of JSON unchanged.
pub(super) fn deliver_file(path: &Path) -> Result<(), HarnessError> {
    let mut file = open_named(path).map_err(HarnessError::cannot(format!("read {}", path.display())))?;
    let mut product = product();
    let written = io::copy(&mut file, &mut product).map(drop);
    product.finish(written)
}

fn write_line(mut product: Product, text: &str) -> Result<(), HarnessError> {
    let written = writeln!(product, "{}", text.trim_end());
    product.finish(written)
}

fn unwritable(error: &io::Error) -> HarnessError {
    HarnessError::failed(format!("standard output cannot be written: {error}"))
}

/// Waits until everything is written, for a limited time, and returns the exit code: text lost to a full disk turns a
/// success into a failure.
pub(super) fn close(code: u8) -> u8 {
    wait_until(&OUTPUT, Lane::is_idle);
    let mut code = code;
    if let Some(error) = OUTPUT.take_error() {
        say(&exit::words(&unwritable(&error), colours(Stream::Error)));
        code = if code == Exit::Ok as u8 { Exit::Failed as u8 } else { code };
    }
    wait_until(&ERROR, Lane::is_idle);
    code
}

/// The last message before the process is ended by force.
pub(super) fn last_words(text: &str) {
    let restore = *RESTORE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(restore) = restore {
        restore();
    }
    say(text);
    let started = Instant::now();
    while !ERROR.is_idle() && started.elapsed() < LAST_WORDS {
        ERROR.wait(LOOK_EVERY);
    }
}

/// Waits for a lane; a signal ends the wait at once, and so does a stream that accepts nothing for a while.
fn wait_until(lane: &Lane, done: fn(&Lane) -> bool) {
    let asked = Instant::now();
    while !done(lane) && !lane.is_given_up() && !HURRY.load(Ordering::Acquire) {
        if asked.elapsed() > QUICKLY {
            return wait_for_reader(lane, done);
        }
        lane.wait(LOOK_EVERY);
    }
}

/// After a listener was installed, signals no longer end the process on their own.
fn wait_for_reader(lane: &Lane, done: fn(&Lane) -> bool) {
    let (mut progress, mut since) = (lane.progress(), Instant::now());
    let mut over = move || {
        let now = lane.progress();
        if now != progress {
            (progress, since) = (now, Instant::now());
        }
        if since.elapsed() > PATIENCE {
            lane.give_up();
        }
        done(lane) || lane.is_given_up()
    };
    let own_runtime = Signals::are_listened_to() && tokio::runtime::Handle::try_current().is_err();
    let runtime = own_runtime.then(|| tokio::runtime::Builder::new_current_thread().enable_all().build());
    if let Some(Ok(runtime)) = runtime {
        return runtime.block_on(async {
            let Ok(mut signals) = Signals::listen() else { return };
            while !over() {
                tokio::select! {
                    () = signals.next() => return HURRY.store(true, Ordering::Release),
                    () = tokio::time::sleep(LOOK_EVERY) => {}
                }
            }
        });
    }
    while !over() {
        lane.wait(LOOK_EVERY);
    }
}

/// Reports a panic like any other message.
pub(super) fn say_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("?");
        let trace = std::backtrace::Backtrace::capture();
        let trace = match trace.status() {
            std::backtrace::BacktraceStatus::Captured => format!("\n{trace}"),
            _ => String::new(),
        };
        last_words(&format!("thread {name} {panic}; this is a bug in bench; please report it{trace}"));
    }));
}
