//! Progress while a load runs: a line that moves on a terminal, plain lines elsewhere.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::base::clock::saturating_nanos;
use crate::base::ids::IdSpace;
use crate::base::units::format_ns;
use crate::plan::Plan;
use crate::report::terminal::clean;
use crate::runner::{Observer, Progress};

const PLAIN_LINE_EVERY: Duration = Duration::from_secs(2);

/// Shows progress on standard error.
pub(super) struct Shown {
    ids: IdSpace,
    quiet: bool,
    /// There only while a workload runs on a terminal: a bar that outlives its load is drawn again
    /// over what follows.
    bar: Option<ProgressBar>,
    times: Option<u64>,
    duration: Option<Duration>,
    name: String,
    last_line: Instant,
}

impl Shown {
    pub(super) fn new(ids: IdSpace, quiet: bool) -> Self {
        Self {
            ids,
            quiet,
            bar: None,
            times: None,
            duration: None,
            name: String::new(),
            last_line: Instant::now(),
        }
    }

    /// A line between loads.
    pub(super) fn say(&self, text: &str) {
        if !self.quiet {
            super::say(text);
        }
    }

    fn figures(&self, progress: &Progress<'_>) -> String {
        let total = progress.total;
        let seconds = progress.elapsed.as_secs_f64().max(1e-3);
        #[expect(clippy::cast_precision_loss, reason = "a rate is shown")]
        let rate = total.ended() as f64 / seconds;
        let percentile = |p: f64| match total.response_ns.len() {
            0 => "-".to_owned(),
            _ => format_ns(total.response_ns.value_at_percentile(p)),
        };
        let slowest = total.slowest.map(|(ns, id)| {
            format!(", slowest {} {}", format_ns(ns), self.ids.base_id(id.workload, id.number))
        });
        format!(
            "{rate:.0}/s, {} under way, {} failed, p50 {}, p99 {}{}",
            progress.under_way,
            total.failed,
            percentile(50.0),
            percentile(99.0),
            slowest.unwrap_or_default()
        )
    }

    fn plain_line(&self, progress: &Progress<'_>) -> String {
        let of = match (self.times, self.duration) {
            (Some(times), _) => format!(" of {times}"),
            (None, Some(duration)) => {
                format!(" ({} of {})", clock(progress.elapsed.min(duration)), clock(duration))
            }
            (None, None) => String::new(),
        };
        format!("{}: {}{of}, {}", self.name, progress.total.ended(), self.figures(progress))
    }
}

impl Observer for Shown {
    fn begin(&mut self, plan: &Plan, workload: usize) {
        let workload = &plan.workloads[workload];
        self.times = workload.runner.times();
        self.duration = workload.runner.duration();
        self.name = clean(&workload.name);
        self.last_line = Instant::now();
        if self.quiet || !std::io::stderr().is_terminal() {
            return;
        }
        let length = self.times.or_else(|| self.duration.map(milliseconds)).unwrap_or(0);
        let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr_with_hz(10));
        // The message is cut at the terminal's edge, so that the bar stays on its line.
        if let Ok(style) = ProgressStyle::with_template("{bar:16} {percent:>3}%  {wide_msg}") {
            bar.set_style(style);
        }
        self.bar = Some(bar);
    }

    fn progress(&mut self, progress: &Progress<'_>) {
        if let Some(bar) = &self.bar {
            let position = match self.times {
                Some(_) => progress.total.ended(),
                None => milliseconds(progress.elapsed),
            };
            bar.set_position(position.min(bar.length().unwrap_or(position)));
            bar.set_message(format!("{}: {}", self.name, self.figures(progress)));
        } else if !self.quiet && self.last_line.elapsed() >= PLAIN_LINE_EVERY {
            self.last_line = Instant::now();
            super::say(&self.plain_line(progress));
        }
    }

    fn end(&mut self, progress: &Progress<'_>) {
        match self.bar.take() {
            Some(bar) => bar.finish_and_clear(),
            None if !self.quiet => super::say(&self.plain_line(progress)),
            None => {}
        }
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn clock(duration: Duration) -> String {
    format_ns(saturating_nanos(duration))
}
