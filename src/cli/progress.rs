//! Progress while a load runs: a line for each workload that moves on a terminal, plain lines
//! elsewhere.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::base::clock::saturating_nanos;
use crate::base::ids::{ControlShare, IdSpace};
use crate::base::statistics::order::rank;
use crate::base::units::format_ns;
use crate::harness::{Event, Events, Sink};
use crate::measure::latency::value_at_rank;
use crate::plan::Plan;
use crate::report::terminal::clean;
use crate::runner::Progress;

use super::output::{self, Bar, Stream, say};

const PLAIN_LINE_EVERY: Duration = Duration::from_secs(2);
/// The rate that is shown is that of this time.
const RATE_OVER: Duration = Duration::from_secs(2);
/// Lag below this is a timer's, not a queue's.
const LAG_SHOWN_NS: u64 = 1_000_000;

/// Shows on standard error what happens.
#[derive(Clone)]
pub(super) struct Shown(Arc<Mutex<Lines>>);

struct Lines {
    quiet: bool,
    /// Lines move on a terminal only.
    moving: bool,
    /// The run that was started last.
    run: Option<Run>,
    /// The workloads that are under way.
    lines: Vec<Line>,
}

struct Run {
    ids: IdSpace,
    /// The share that is not; none of it when nothing is.
    profiled: Option<ControlShare>,
    directory: PathBuf,
}

impl Shown {
    pub(super) fn new(quiet: bool) -> Self {
        let moving = !quiet && output::is_terminal(Stream::Error);
        Self(Arc::new(Mutex::new(Lines { quiet, moving, run: None, lines: Vec::new() })))
    }

    /// Where events go.
    pub(super) fn sink(&self) -> Sink {
        Arc::new(self.clone())
    }

    /// What is said when a second signal ends the process.
    pub(super) fn last_words(&self) -> String {
        match &self.lines().run {
            Some(run) => {
                format!("ended at once; `bench report {}` shows what was recorded", run.directory.display())
            }
            None => "ended at once".to_owned(),
        }
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Events for Shown {
    fn event(&self, event: &Event<'_>) {
        let mut lines = self.lines();
        match event {
            Event::Started { plan, ids, directory } => {
                let profiled = plan.profiling_off.is_none().then_some(plan.control);
                lines.run = Some(Run { ids: *ids, profiled, directory: directory.to_path_buf() });
            }
            Event::Warning(text) => say(&format!("warning: {text}")),
            Event::MetricsServed(url) => say(&format!("metrics at {url}")),
            Event::NotProfiling(reason) => lines.say(&format!("not profiling: {reason}")),
            Event::WorkloadBegan { plan, workload } => lines.begin(plan, *workload),
            Event::WorkloadProgress(progress) => lines.progress(progress),
            Event::WorkloadEnded(progress) => lines.end(progress),
            Event::Stopping { grace } => say(&format!(
                "stopping: iterations under way have {}; press Ctrl-C again to end at once",
                clock(*grace)
            )),
            Event::Fetching { fetched, wanted } => lines.fetching(*fetched, *wanted),
            Event::FetchingEnded => lines.draw(),
            Event::Comparing(text) => lines.say(text),
        }
    }
}

/// One workload under way.
struct Line {
    workload: usize,
    name: String,
    bar: Option<Bar>,
    times: Option<u64>,
    duration: Option<Duration>,
    last_line: Instant,
    /// What had ended at some times of the last seconds.
    before: VecDeque<(Duration, u64)>,
}

impl Lines {
    fn say(&self, text: &str) {
        if !self.quiet {
            say(text);
        }
    }

    /// A bar on a terminal, a line elsewhere.
    fn fetching(&self, fetched: usize, wanted: usize) {
        let text = format!("fetching {wanted} traces: slow, failed and typical iterations");
        if self.moving {
            let (position, length) = (fetched as u64, wanted as u64);
            output::draw(vec![Bar { key: usize::MAX, position, length, text }]);
        } else if fetched == 0 {
            self.say(&text);
        }
    }

    fn figures(&self, line: &Line, progress: &Progress<'_>) -> String {
        let total = progress.total;
        let percentile = |percent: f64| {
            let rank = rank(total.response_ns.len(), percent);
            let value_ns = rank.and_then(|rank| value_at_rank(&total.response_ns, rank));
            value_ns.map_or_else(|| "-".to_owned(), format_ns)
        };
        let mut parts = vec![
            format!("{:.0}/s", line.rate(progress)),
            format!("{} under way", progress.under_way),
            format!("{} failed", total.failed),
            format!("p50 {}", percentile(50.0)),
            format!("p99 {}", percentile(99.0)),
        ];
        let lag_ns = progress.lag.percentile_ns(99.0);
        if lag_ns >= LAG_SHOWN_NS {
            parts.push(format!("start lag p99 {}", format_ns(lag_ns)));
        }
        for (count, word) in [(progress.queued, "waiting"), (progress.dropped, "dropped")] {
            if count > 0 {
                parts.push(format!("{count} {word}"));
            }
        }
        let run = self.run.as_ref();
        parts.push(match run.and_then(|run| run.profiled) {
            None => "not profiled".to_owned(),
            Some(ControlShare::NONE) => "profiled".to_owned(),
            Some(control) => format!("{} % profiled", 100.0 - control.percent()),
        });
        if let (Some((ns, id)), Some(run)) = (total.slowest, run) {
            parts.push(format!("slowest {} {}", format_ns(ns), run.ids.base_id(id.workload, id.number)));
        }
        parts.join(", ")
    }

    /// Shows the bars of all that is under way.
    fn draw(&self) {
        if self.moving {
            output::draw(self.lines.iter().filter_map(|line| line.bar.clone()).collect());
        }
    }

    fn line_of(&mut self, workload: usize) -> Option<&mut Line> {
        self.lines.iter_mut().find(|line| line.workload == workload)
    }
}

impl Line {
    /// Iterations that ended in the last seconds, a second.
    fn rate(&self, progress: &Progress<'_>) -> f64 {
        let (since, had) = self.before.front().copied().unwrap_or_default();
        let seconds = progress.elapsed.saturating_sub(since).as_secs_f64().max(1e-3);
        #[expect(clippy::cast_precision_loss, reason = "a rate is shown")]
        let rate = progress.ended.saturating_sub(had) as f64 / seconds;
        rate
    }

    fn remember(&mut self, progress: &Progress<'_>) {
        self.before.push_back((progress.elapsed, progress.ended));
        while self.before.front().is_some_and(|(at, _)| *at + RATE_OVER < progress.elapsed) {
            self.before.pop_front();
        }
    }

    /// `catalogue: 1200 of 5000, …`.
    fn plain(&self, progress: &Progress<'_>, figures: &str) -> String {
        let of = match (self.times, self.duration) {
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
        format!("{}: {}{of}{warm_up}, {figures}", self.name, progress.ended)
    }
}

impl Lines {
    fn begin(&mut self, plan: &Plan, workload: usize) {
        let runner = &plan.workloads[workload].runner;
        let mut line = Line {
            workload,
            name: clean(&plan.workloads[workload].name),
            bar: None,
            times: runner.times(),
            duration: runner.duration(),
            last_line: Instant::now(),
            before: VecDeque::new(),
        };
        if self.moving {
            let length = line.times.or_else(|| line.duration.map(milliseconds)).unwrap_or(0);
            line.bar = Some(Bar { key: workload, position: 0, length, text: String::new() });
        }
        self.lines.push(line);
        self.draw();
    }

    fn progress(&mut self, progress: &Progress<'_>) {
        let quiet = self.quiet;
        let Some(line) = self.lines.iter().find(|line| line.workload == progress.workload) else { return };
        let figures = self.figures(line, progress);
        let Some(line) = self.line_of(progress.workload) else { return };
        line.remember(progress);
        if let Some(bar) = &mut line.bar {
            bar.position = match line.times {
                Some(_) => progress.ended + progress.dropped,
                None => milliseconds(progress.elapsed),
            };
            bar.text = format!("{}: {figures}", line.name);
            self.draw();
        } else if !quiet && line.last_line.elapsed() >= PLAIN_LINE_EVERY {
            line.last_line = Instant::now();
            say(&line.plain(progress, &figures));
        }
    }

    fn end(&mut self, progress: &Progress<'_>) {
        let Some(at) = self.lines.iter().position(|line| line.workload == progress.workload) else { return };
        let mut line = self.lines.remove(at);
        // The last line says how it was on the whole.
        line.before.clear();
        if self.moving {
            self.draw();
        } else if !self.quiet {
            say(&line.plain(progress, &self.figures(&line, progress)));
        }
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn clock(duration: Duration) -> String {
    format_ns(saturating_nanos(duration))
}
