//! Progress while a load runs: on a terminal a moving line for each workload, elsewhere plain lines.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base::clock::saturating_nanos;
use base::units::format_ns;
use base::visible::on_one_line;
use harness::progress_line::figures;
use harness::{Event, Events, Sink, WorkloadProgress};
use report::capacity::level_line;
use report::pairs::progress as pair_line;
use text::shell;

use super::output::{self, Bar, Stream, say};

const PLAIN_LINE_EVERY: Duration = Duration::from_secs(2);
/// The columns of a bar and its percentage.
const BAR_COLUMNS: usize = 24;

/// Shows events on standard error.
#[derive(Clone)]
pub(super) struct ProgressDisplay(Arc<Mutex<Lines>>);

struct Lines {
    quiet: bool,
    /// Lines move on a terminal only.
    moving: bool,
    /// The directory of the run that was started last.
    directory: Option<PathBuf>,
    /// The workloads that are under way.
    lines: Vec<Line>,
}

impl ProgressDisplay {
    pub(super) fn new(quiet: bool) -> Self {
        let moving = !quiet && output::is_obeying(Stream::Error);
        Self(Arc::new(Mutex::new(Lines { quiet, moving, directory: None, lines: Vec::new() })))
    }

    /// A receiver of events that shows them.
    pub(super) fn sink(&self) -> Sink {
        Arc::new(self.clone())
    }

    /// The message when a second signal ends the process.
    pub(super) fn last_words(&self) -> String {
        match &self.lines().directory {
            Some(path) => {
                format!("ended at once; `bench report {}` shows what was recorded", shell::path(path))
            }
            None => "ended at once".to_owned(),
        }
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Events for ProgressDisplay {
    fn event(&self, event: &Event<'_>) {
        let mut lines = self.lines();
        match event {
            Event::Started { directory, .. } => lines.directory = Some(directory.to_path_buf()),
            Event::Warning(text) => say(&format!("warning: {text}")),
            Event::Logged(text) => lines.say(&format!("log: {text}")),
            Event::MetricsServed(url) => say(&format!("metrics at {url}")),
            Event::PageServed(url) => say(&format!("live page at {url}")),
            Event::Receiving(addresses) => {
                let listed: Vec<String> = addresses.iter().map(ToString::to_string).collect();
                lines.say(&format!(
                    "receiving spans at {}; on the services, set OTEL_EXPORTER_OTLP_ENDPOINT=http://{}",
                    listed.join(", "),
                    listed.first().map_or("", String::as_str)
                ));
            }
            Event::FirstSpans => lines.say("the first spans have arrived"),
            Event::NotProfiling(reason) => lines.say(&format!("not profiling: {reason}")),
            Event::ProfilingWithout(reason) => lines
                .say(&format!("profiling with W3C's traceparent, without OSProfiler's headers: {reason}")),
            Event::Probing { longest } => {
                lines.say(&format!("waiting for the probe's trace, at most {}", clock(*longest)));
            }
            // It stands in the result.
            Event::Probed(_) => {}
            Event::Contexts(text) | Event::Awaiting(text) => lines.say(text),
            Event::ContextsLeft(text) | Event::ProbeWarning(text) => {
                say(&format!("warning: {}", on_one_line(text)))
            }
            Event::WorkloadBegan(progress) => lines.begin(progress),
            Event::WorkloadProgress(progress) => lines.progress(progress),
            Event::WorkloadEnded(progress) => lines.end(progress),
            Event::Stopping { grace } => say(&format!(
                "stopping: iterations under way have {}; press Ctrl-C again to end at once",
                clock(*grace)
            )),
            Event::AwaitingWork { longest } => {
                let longest = clock(*longest);
                lines.say(&format!("waiting {longest} for asynchronous work (Ctrl-C ends the wait)"));
            }
            Event::FetchingBegan { wanted } if lines.moving => lines.fetching(0, *wanted),
            Event::FetchingBegan { wanted } => lines.say(&fetching(*wanted)),
            Event::Fetching { fetched, wanted } => lines.fetching(*fetched, *wanted),
            Event::FetchingEnded => lines.draw(),
            Event::Reading { read, of } => lines.reading(*read, *of),
            Event::Merging { rows, wanted } => lines.merging(*rows, *wanted),
            Event::PairEnded { pairs, pairs_max, rows, counts, workloads } => {
                lines.say(&pair_line(*pairs, *pairs_max, rows, counts, workloads));
            }
            Event::LevelEnded(level) => lines.say(&level_line(level)),
            Event::RoundsLonger(text) | Event::ComparisonLength(text) => lines.say(text),
        }
    }
}

/// One workload under way.
struct Line {
    workload: usize,
    bar: Option<Bar>,
    last_line: Instant,
}

impl Lines {
    fn say(&self, text: &str) {
        if !self.quiet {
            say(text);
        }
    }

    /// A bar on a terminal.
    fn fetching(&self, fetched: usize, wanted: usize) {
        if self.moving {
            let (position, length, text) = (fetched as u64, wanted as u64, fetching(wanted));
            output::draw(vec![Bar { key: usize::MAX, position, length, text }]);
        }
    }

    /// A bar on a terminal, which goes when the log is read.
    fn reading(&self, read: u64, of: u64) {
        if self.moving && read < of {
            let text = format!("reading the run's log of {} MB", of / 1_000_000);
            output::draw(vec![Bar { key: usize::MAX, position: read, length: of, text }]);
        } else {
            self.draw();
        }
    }

    /// A bar on a terminal.
    fn merging(&self, position: u64, length: u64) {
        if self.moving {
            let text = format!("merging {length} iterations");
            output::draw(vec![Bar { key: usize::MAX, position, length, text }]);
        }
    }

    /// Shows the bars of all workloads that are under way.
    fn draw(&self) {
        if self.moving {
            output::draw(self.lines.iter().filter_map(|line| line.bar.clone()).collect());
        }
    }

    fn begin(&mut self, progress: &WorkloadProgress) {
        let workload = progress.workload;
        let length = progress.times.or_else(|| progress.duration.map(milliseconds)).unwrap_or(0);
        let bar = self.moving.then(|| Bar { key: workload, position: 0, length, text: String::new() });
        self.lines.push(Line { workload, bar, last_line: Instant::now() });
        self.draw();
    }

    fn progress(&mut self, progress: &WorkloadProgress) {
        let quiet = self.quiet;
        let line = self.lines.iter_mut().find(|line| line.workload == progress.workload);
        let Some(line) = line else { return };
        if let Some(bar) = &mut line.bar {
            bar.position = match progress.times {
                Some(_) => progress.ended + progress.dropped,
                None => milliseconds(progress.elapsed),
            };
            let columns = output::columns(Stream::Error);
            let mut text = format!("{}: ", in_columns(&on_one_line(&progress.name), columns));
            let room = columns.map(|columns| columns.saturating_sub(BAR_COLUMNS + text.chars().count()));
            text += &figures(progress, room);
            bar.text = text;
            self.draw();
        } else if !quiet && line.last_line.elapsed() >= PLAIN_LINE_EVERY {
            line.last_line = Instant::now();
            say(&plain(progress));
        }
    }

    fn end(&mut self, progress: &WorkloadProgress) {
        self.lines.retain(|line| line.workload != progress.workload);
        if self.moving {
            self.draw();
        } else {
            self.say(&plain(progress));
        }
    }
}

/// The name of a workload in at most a quarter of the line, so that the figures have room.
fn in_columns(name: &str, columns: Option<usize>) -> String {
    let most = columns.map_or(usize::MAX, |columns| (columns / 4).max(8));
    match name.char_indices().nth(most) {
        Some((at, _)) => {
            let cut = name[..at].char_indices().next_back().map_or(0, |(last, _)| last);
            format!("{}…", name[..cut].trim_end())
        }
        None => name.to_owned(),
    }
}

fn fetching(wanted: usize) -> String {
    format!("fetching {wanted} traces: slow, failed and typical iterations")
}

/// `catalogue: 1200 of 5000, …`.
fn plain(progress: &WorkloadProgress) -> String {
    let of = match (progress.times, progress.duration) {
        (Some(times), _) => format!(" of {times}"),
        (None, Some(duration)) => {
            format!(" ({} of {})", clock(progress.elapsed.min(duration)), clock(duration))
        }
        (None, None) => String::new(),
    };
    let warm_up = match progress.warm_up {
        0 => String::new(),
        all if all == progress.ended => ", warming up".to_owned(),
        some => format!(" ({some} to warm up)"),
    };
    let figures = figures(progress, None);
    format!("{}: {}{of}{warm_up}, {figures}", on_one_line(&progress.name), progress.ended)
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn clock(duration: Duration) -> String {
    format_ns(saturating_nanos(duration))
}
