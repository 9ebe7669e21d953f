//! Hooks of a task: starts programs when a number of iterations have begun, or some time after the start of a workload.
//!
//! Each runs on a thread of its own, so the load never waits for it. How many run at the same time, for how long, and how
//! much of their output is kept is bounded. A workload ends when its programs have ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use base::clock::RunClock;
use base::masking::masked;
use base::units::format_ns;
use measure::log::HookRun;
use plan::Plan;
use rally::hooks::{Hook, Unit};
use runner::Progress;
use runner::observers::Observer;
use runner::stop::Stop;
use text::programs::{self, ProgramOutput};

use super::task::TaskFile;

/// How long a program may run.
const LIMIT: Duration = Duration::from_secs(600);
/// How many may run at the same time.
const AT_A_TIME: usize = 16;
/// How many are started in a run.
const RUNS_MAX: usize = 1000;
/// How much of a program's output is kept, in characters.
const KEPT_CHARS: usize = 4000;
/// How often it is looked how many iterations have begun.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// An observer that starts the programs.
pub(crate) struct Hooks<'a> {
    hooks: &'a [Vec<Hook>],
    clock: RunClock,
    stop: Stop,
    /// For each hook of the running workloads: its workload, its index, and the least value at which it is due.
    waiting: Vec<(usize, usize, u64)>,
    running: Vec<HookThread>,
    ended: Vec<HookRun>,
    /// How many were not started because there were too many.
    left_out: u64,
    cancelled: Arc<AtomicBool>,
}

struct HookThread {
    workload: usize,
    thread: JoinHandle<HookRun>,
}

/// Observes a load with the hooks of a task's workloads.
pub(crate) fn hooks<'a>(task: Option<&'a TaskFile>, clock: RunClock, stop: &Stop) -> Hooks<'a> {
    Hooks {
        hooks: task.map(|task| task.hooks.as_slice()).unwrap_or_default(),
        clock,
        stop: stop.clone(),
        waiting: Vec::new(),
        running: Vec::new(),
        ended: Vec::new(),
        left_out: 0,
        cancelled: Arc::default(),
    }
}

impl Hooks<'_> {
    /// The programs that were started, in order, and notes for the results.
    pub(crate) fn finish(mut self) -> (Vec<HookRun>, Vec<String>) {
        self.wait(None);
        self.ended.sort_by_key(|run| run.start_ns);
        let mut notes: Vec<String> = self.ended.iter().map(|run| self.sentence(run)).collect();
        const NOTES_MAX: usize = 10;
        if notes.len() > NOTES_MAX {
            let more = notes.len() - NOTES_MAX;
            notes.truncate(NOTES_MAX);
            notes.push(format!("{more} further programs of hooks ran; results.json lists them"));
        }
        if self.left_out > 0 {
            notes.push(format!(
                "{} programs of hooks were not started: at most {AT_A_TIME} run at the same time, and {RUNS_MAX} in a run",
                self.left_out
            ));
        }
        (self.ended, notes)
    }

    fn sentence(&self, run: &HookRun) -> String {
        let hook =
            self.hooks.get(usize::from(run.workload)).and_then(|hooks| hooks.get(usize::from(run.hook)));
        let name = hook.map_or("", |hook| match hook.description.trim() {
            "" => hook.program.first().map_or("", String::as_str),
            description => description,
        });
        let at = match run.event.as_str() {
            "time" => format!("{} s after the start of its workload", run.value),
            _ => format!("at iteration {}", run.value),
        };
        let result = match (&run.error, run.exit_code) {
            (Some(error), _) => format!("failed: {error}"),
            (None, Some(0)) => "ended well".to_owned(),
            (None, code) => format!("ended with exit code {}", code.unwrap_or(-1)),
        };
        let (began, lasted) = (format_ns(run.start_ns), format_ns(run.duration_ns));
        masked(&format!("hook `{name}` {at} ({began} into the run) {result} after {lasted}")).into_owned()
    }

    /// Starts what is due when a count of this unit has reached `count`.
    fn reached(&mut self, workload: usize, unit: Unit, count: u64) {
        let Some(hooks) = self.hooks.get(workload) else { return };
        for at in 0..self.waiting.len() {
            let (of, index, least) = self.waiting[at];
            let trigger = &hooks.get(index).filter(|hook| of == workload && hook.trigger.unit == unit);
            let Some(hook) = *trigger else { continue };
            let mut least = least;
            while let Some(value) = hook.trigger.next(least).filter(|value| *value <= count) {
                self.start(workload, index, unit, value);
                least = value.saturating_add(1);
            }
            self.waiting[at].2 = least;
        }
    }

    fn start(&mut self, workload: usize, index: usize, unit: Unit, value: u64) {
        self.collect(|running| running.thread.is_finished());
        if self.running.len() >= AT_A_TIME || self.running.len() + self.ended.len() >= RUNS_MAX {
            self.left_out += 1;
            return;
        }
        let begun = HookRun {
            workload: u16::try_from(workload).unwrap_or(u16::MAX),
            hook: u16::try_from(index).unwrap_or(u16::MAX),
            event: unit.word().to_owned(),
            value,
            start_ns: self.clock.now_ns(),
            ..HookRun::default()
        };
        let program = self.hooks[workload][index].program.clone();
        let (clock, cancelled) = (self.clock, Arc::clone(&self.cancelled));
        let run = move || {
            let ended = programs::run(&program, LIMIT, &cancelled);
            let duration_ns = clock.now_ns().saturating_sub(begun.start_ns);
            outcome(HookRun { duration_ns, ..begun }, ended)
        };
        match std::thread::Builder::new().name("hook".to_owned()).spawn(run) {
            Ok(thread) => self.running.push(HookThread { workload, thread }),
            Err(_) => self.left_out += 1,
        }
    }

    /// Waits for the programs of a workload, or of all. They are ended if the run is being stopped.
    fn wait(&mut self, workload: Option<usize>) {
        let is_waited_for =
            move |running: &HookThread| workload.is_none_or(|workload| running.workload == workload);
        while self.running.iter().any(|running| is_waited_for(running) && !running.thread.is_finished()) {
            if self.stop.is_stopping() {
                self.cancelled.store(true, Ordering::Relaxed);
            }
            std::thread::sleep(LOOK_EVERY);
        }
        self.collect(is_waited_for);
    }

    /// Takes the results of these programs, which have ended.
    fn collect(&mut self, have_ended: impl Fn(&HookThread) -> bool) {
        let (ended, running) = std::mem::take(&mut self.running).into_iter().partition(have_ended);
        self.running = running;
        self.ended.extend(ended.into_iter().filter_map(|running: HookThread| running.thread.join().ok()));
    }
}

fn outcome(run: HookRun, ended: Result<ProgramOutput, String>) -> HookRun {
    let text = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        masked(&text.chars().take(KEPT_CHARS).collect::<String>()).into_owned()
    };
    match ended {
        Err(error) => HookRun { error: Some(error), ..run },
        Ok(ProgramOutput { code, stdout, stderr }) => {
            let error = code.is_none().then(|| "it was ended by a signal".to_owned());
            HookRun { exit_code: code, error, output: text(&stdout), error_output: text(&stderr), ..run }
        }
    }
}

impl Observer for Hooks<'_> {
    fn begin(&mut self, _: &Plan, workload: usize) {
        let count = self.hooks.get(workload).map_or(0, Vec::len);
        self.waiting.extend((0..count).map(|index| (workload, index, 0)));
    }

    fn counts_every(&self) -> Option<Duration> {
        (!self.waiting.is_empty()).then_some(LOOK_EVERY)
    }

    fn begun(&mut self, workload: usize, elapsed: Duration, begun: u64) {
        if !self.stop.is_stopping() {
            self.reached(workload, Unit::Iteration, begun);
            self.reached(workload, Unit::Time, elapsed.as_secs());
        }
    }

    fn end(&mut self, progress: &Progress<'_>) {
        // As in Rally, iterations that began unseen count; seconds after the end do not.
        if !self.stop.is_stopping() {
            self.reached(progress.workload, Unit::Iteration, progress.ended + progress.under_way);
        }
        self.waiting.retain(|(workload, ..)| *workload != progress.workload);
        self.wait(Some(progress.workload));
    }
}
