//! A virtual user: one iteration after another, on its own connections.

use std::sync::Arc;
use std::time::Instant;

use tokio_util::sync::CancellationToken;

use crate::base::clock::{Nanos, saturating_nanos};
use crate::base::template::Variables;
use crate::base::units::format_ns;
use crate::client::error::ClientError;
use crate::client::pool::{BODY_BYTES_MAX, Pool};
use crate::client::{Answer, Phases, Request};
use crate::measure::errors::Failure;
use crate::measure::sample::{ActionSample, Ended, IterationSample};
use crate::osprofiler::profiler::{DerivedPoints, Profiler};
use crate::osprofiler::signing::BaseSigner;
use crate::plan::action::{Action, Step};
use crate::plan::runner::Runner;

use super::Context;
use super::judge::Judged;
use super::request::{add_trace_headers, render_body, render_headers, render_path};

/// Setup and teardown are no workload; there are fewer of those than this.
pub const ONCE: u16 = u16::MAX;

/// Which iteration to run.
#[derive(Clone)]
pub struct Assignment {
    /// The workload's index.
    pub workload: u16,
    /// The workload's name.
    pub name: Arc<str>,
    /// The iteration's number within it.
    pub number: u64,
    /// When it was due.
    pub due_ns: Nanos,
}

/// A virtual user.
pub struct VirtualUser {
    pool: Pool,
    sample: IterationSample,
    /// The request that is under way: what is known of it if it is cut off.
    under_way: Option<(ActionSample, Arc<str>, Instant)>,
    /// How far the last request got.
    phases: Phases,
    path: String,
}

/// One iteration's profiler, and what signs for it if anything does.
struct Profiling {
    profiler: Profiler<DerivedPoints>,
    signer: Option<BaseSigner>,
}

impl VirtualUser {
    /// A virtual user without connections.
    #[must_use]
    pub fn new(context: &Context) -> Self {
        Self {
            pool: Pool::new(Arc::clone(&context.tls), BODY_BYTES_MAX),
            sample: IterationSample::default(),
            under_way: None,
            phases: Phases::default(),
            path: String::new(),
        }
    }

    /// Runs one iteration to its end, to the runner's timeout or until `cut_off`.
    ///
    /// The sample's `error` is left for the caller to number.
    pub async fn iterate(
        &mut self,
        context: &Context,
        assignment: &Assignment,
        steps: &[Step],
        runner: &Runner,
        cut_off: &CancellationToken,
    ) -> (&mut IterationSample, Option<Failure>) {
        let started = Instant::now();
        self.begin(assignment, context.clock.offset_ns(started));
        let base_id = context.ids.base_id(assignment.workload, assignment.number);
        let mut variables = context.variables(&assignment.name, assignment.number, base_id);
        let mut profiling = Profiling {
            profiler: Profiler::init(
                base_id,
                None,
                DerivedPoints::new(context.ids, assignment.workload, assignment.number),
            ),
            signer: context.signer.as_ref().map(|signer| signer.for_base(base_id)),
        };
        let ended = tokio::select! {
            biased;
            ended = self.steps(context, steps, &mut variables, &mut profiling, started) => ended,
            () = cut_off.cancelled() => Err(None),
            () = tokio::time::sleep_until((started + runner.timeout).into()) => Err(Some(iteration_timeout(runner))),
        };
        self.finish(ended, started)
    }

    /// Runs steps once, outside the load and unprofiled: setup and teardown. What they extract is
    /// in `variables` even when a later step fails.
    ///
    /// # Errors
    /// The first failure.
    pub async fn once(
        &mut self,
        context: &Context,
        steps: &[Step],
        name: &Arc<str>,
        variables: &mut Variables,
    ) -> Result<(), Failure> {
        let base_id = context.ids.base_id(ONCE, 0);
        let points = DerivedPoints::new(context.ids, ONCE, 0);
        let mut profiling = Profiling { profiler: Profiler::init(base_id, None, points), signer: None };
        self.begin(&Assignment { workload: ONCE, name: Arc::clone(name), number: 0, due_ns: 0 }, 0);
        let ended = self.steps(context, steps, variables, &mut profiling, Instant::now()).await;
        ended.map_err(|failure| failure.unwrap_or_else(unknown_failure))
    }

    fn begin(&mut self, assignment: &Assignment, start_ns: Nanos) {
        let mut actions = std::mem::take(&mut self.sample.actions);
        actions.clear();
        self.under_way = None;
        self.sample = IterationSample {
            workload: assignment.workload,
            number: assignment.number,
            due_ns: assignment.due_ns.min(start_ns),
            start_ns,
            actions,
            ..IterationSample::default()
        };
    }

    fn finish(
        &mut self,
        ended: Result<(), Option<Failure>>,
        started: Instant,
    ) -> (&mut IterationSample, Option<Failure>) {
        self.sample.duration_ns = saturating_nanos(started.elapsed());
        let (outcome, mut failure) = match ended {
            Ok(()) => (Ended::Ok, None),
            Err(Some(failure)) => (Ended::Failed, Some(failure)),
            Err(None) => (Ended::Aborted, None),
        };
        self.sample.ended = outcome;
        // A request that was cut off keeps its place among the samples.
        if let Some((mut action, name, sent)) = self.under_way.take() {
            action.duration_ns = saturating_nanos(sent.elapsed());
            action.phases = self.phases;
            action.ended = outcome;
            self.sample.actions.push(action);
            if let Some(failure) = &mut failure {
                failure.action.get_or_insert(name);
            }
        }
        (&mut self.sample, failure)
    }

    async fn steps(
        &mut self,
        context: &Context,
        steps: &[Step],
        variables: &mut Variables,
        profiling: &mut Profiling,
        started: Instant,
    ) -> Result<(), Option<Failure>> {
        profiling.profiler.start("iteration", None);
        for step in steps {
            match step {
                Step::Think(pause) => tokio::time::sleep(*pause).await,
                Step::Action(action) => {
                    profiling.profiler.start("http", None);
                    self.action(context, action, variables, profiling, started).await.map_err(
                        |(class, message)| {
                            Some(Failure {
                                class: class.to_owned(),
                                action: Some(Arc::clone(&action.name)),
                                message,
                            })
                        },
                    )?;
                    profiling.profiler.stop(None);
                }
            }
        }
        Ok(())
    }

    async fn action(
        &mut self,
        context: &Context,
        action: &Action,
        variables: &mut Variables,
        profiling: &Profiling,
        started: Instant,
    ) -> Result<(), (&'static str, String)> {
        let template = |error: crate::base::template::TemplateError| ("template", error.to_string());
        self.path.clear();
        render_path(action, variables, &mut self.path).map_err(template)?;
        let (body, content_type) = render_body(action, variables).map_err(template)?;
        let mut headers = render_headers(context, action, variables, content_type).map_err(template)?;
        if let (true, Some(signer)) = (action.signed, &profiling.signer) {
            let profiler = &profiling.profiler;
            add_trace_headers(&mut headers, &profiler.headers(signer), profiler.base_id(), profiler.id());
        }
        let sent = Instant::now();
        let offset_ns = saturating_nanos(sent - started);
        let sample =
            ActionSample { action: action.index, offset_ns, ended: Ended::Failed, ..ActionSample::default() };
        self.under_way = Some((sample, Arc::clone(&action.name), sent));
        self.phases = Phases::default();
        let request = Request {
            method: &action.method,
            origin: &action.base.origin,
            path: &self.path,
            headers,
            body,
            keep_headers: action.needs_headers(),
            keep_body: action.needs_body(),
        };
        let sending = self.pool.send(request, &mut self.phases);
        let answer = tokio::time::timeout_at((sent + action.timeout).into(), sending).await;
        let duration = sent.elapsed();
        self.under_way = None;
        let verdict = match &answer {
            Ok(Ok(answer)) => judge(answer, action, duration, variables),
            Ok(Err(error)) => Err((error.class(), error.to_string())),
            Err(_) => Err(("timeout", action_timeout(action, &self.phases))),
        };
        let answered = answer.ok().and_then(Result::<Answer, ClientError>::ok);
        self.sample.actions.push(ActionSample {
            duration_ns: saturating_nanos(duration),
            phases: self.phases,
            status: answered.as_ref().map_or(0, |answer| answer.status.as_u16()),
            body_bytes: answered.as_ref().map_or(0, |answer| answer.body_bytes),
            ended: if verdict.is_ok() { Ended::Ok } else { Ended::Failed },
            ..sample
        });
        verdict
    }
}

fn judge(
    answer: &Answer,
    action: &Action,
    duration: std::time::Duration,
    variables: &mut Variables,
) -> Result<(), (&'static str, String)> {
    let judged = Judged::new(answer);
    judged.check(action, duration, variables)?;
    judged.extract(&action.extracts, variables)
}

fn action_timeout(action: &Action, phases: &Phases) -> String {
    let limit = format_ns(saturating_nanos(action.timeout));
    let reached = match phases {
        Phases { opened: true, connect_ns: 0, .. } => "while connecting",
        Phases { opened: true, tls_ns: 0, .. } if action.base.origin.tls => "in the TLS handshake",
        _ => "without a whole answer",
    };
    format!("timed out after {limit} {reached}")
}

fn iteration_timeout(runner: &Runner) -> Failure {
    let limit = format_ns(saturating_nanos(runner.timeout));
    Failure {
        class: "timeout".to_owned(),
        action: None,
        message: format!("the iteration took longer than {limit}"),
    }
}

fn unknown_failure() -> Failure {
    Failure { class: "aborted".to_owned(), action: None, message: "cut off".to_owned() }
}
