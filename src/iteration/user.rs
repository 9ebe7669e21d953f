//! A virtual user: runs one iteration after another on its own connections.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use uuid::Uuid;

use crate::base::clock::{Nanos, saturating_nanos};
use crate::base::masking::masked_with;
use crate::base::template::{TemplateError, Variables, allowance};
use crate::base::units::format_ns;
use crate::client::decode;
use crate::client::headers::HeaderBlock;
use crate::client::pool::Pool;
use crate::client::{Answer, Phases, Request};
use crate::measure::errors::Failure;
use crate::measure::sample::{ActionSample, Ended, IterationSample};
use crate::osprofiler::derived::DerivedProfiler;
use crate::osprofiler::signing::BaseSigner;
use crate::plan::action::Action;
use crate::plan::propagation::Propagation;
use crate::plan::runner::Runner;
use crate::plan::step::Step;

use super::Context;
use super::ONCE;
use super::deadline::Deadline;
use super::fixed::FixedParts;
use super::judge::Judged;
use super::request::{add_signed_headers, add_w3c_headers, render_body, render_headers, render_path};

/// Which iteration to run.
#[derive(Clone, Copy)]
pub struct Assignment<'a> {
    /// The workload's index.
    pub workload: u16,
    /// The workload's name.
    pub name: &'a Arc<str>,
    /// The iteration's number within it.
    pub number: u64,
    /// True before the workload's warm-up is over.
    pub warm_up: bool,
    /// When it was due.
    pub due_ns: Nanos,
    /// When it starts: now.
    pub start: Instant,
}

/// A virtual user.
pub struct VirtualUser {
    pool: Pool,
    sample: IterationSample,
    /// The current request, to record it if it is cut off.
    under_way: Option<(ActionSample, Instant)>,
    /// When the current iteration began.
    began: Option<Instant>,
    /// The phases of the last request so far.
    phases: Phases,
    deadline: Deadline,
    fixed: FixedParts,
    /// The variables of the last iteration, for reuse.
    variables: Option<Variables>,
    path: String,
    headers: HeaderBlock,
}

/// One iteration with its profiler and, if it is profiled, its signer.
struct Pass<'a> {
    context: &'a Context,
    workload: u16,
    number: u64,
    profiler: DerivedProfiler,
    signer: Option<BaseSigner>,
    /// False if services should not record it: of the control group, setup and teardown.
    sampled: bool,
    started: Instant,
    /// When it must be over, and the limit for messages.
    deadline: Option<(Instant, Duration)>,
}

impl VirtualUser {
    /// A virtual user without connections.
    #[must_use]
    pub fn new(context: &Context) -> Self {
        Self {
            pool: Pool::new(&context.http),
            sample: IterationSample::default(),
            under_way: None,
            began: None,
            phases: Phases::default(),
            deadline: Deadline::default(),
            fixed: FixedParts::default(),
            variables: None,
            path: String::new(),
            headers: HeaderBlock::default(),
        }
    }

    /// Runs one iteration to its end or to the runner's timeout. Dropping the future cuts it off:
    /// see [`Self::cut_off`].
    ///
    /// The caller sets the sample's `error`.
    pub async fn iterate(
        &mut self,
        context: &Context,
        assignment: &Assignment<'_>,
        steps: &[Step],
        runner: &Runner,
    ) -> (&mut IterationSample, Option<Failure>) {
        let started = assignment.start;
        self.begin(assignment, context.clock.offset_ns(started));
        self.began = Some(started);
        let (workload, number) = (assignment.workload, assignment.number);
        let base_id = context.ids.trace_id((workload, number));
        let sampled = !context.ids.is_control((workload, number));
        let mut variables = self.variables_of(context, assignment, base_id);
        let mut pass = Pass {
            context,
            workload,
            number,
            profiler: DerivedProfiler::new(context.ids, workload, number),
            signer: context.signer.as_ref().filter(|_| sampled).map(|signer| signer.for_base(base_id)),
            sampled,
            started,
            deadline: Some((started + runner.timeout, runner.timeout)),
        };
        let ended = self.steps(&mut pass, steps, &mut variables).await;
        self.variables = Some(variables);
        self.sample.duration_ns = saturating_nanos(started.elapsed());
        self.began = None;
        if ended.is_err() {
            self.sample.ended = Ended::Failed;
        }
        (&mut self.sample, ended.err())
    }

    /// The sample of an iteration whose future was dropped, with the request in progress; `None` between
    /// two iterations.
    pub fn cut_off(&mut self) -> Option<&mut IterationSample> {
        let began = self.began.take()?;
        self.sample.duration_ns = saturating_nanos(began.elapsed());
        self.sample.ended = Ended::Aborted;
        if let Some((action, sent)) = self.under_way.take() {
            self.sample.actions.push(ActionSample {
                duration_ns: saturating_nanos(sent.elapsed()),
                phases: self.phases,
                ended: Ended::Aborted,
                ..action
            });
        }
        Some(&mut self.sample)
    }

    /// Runs the steps of setup or teardown once, outside the load and unprofiled. Extracted values are in
    /// `variables` even if a later step fails.
    ///
    /// # Errors
    /// Returns the first failure.
    pub async fn once(
        &mut self,
        context: &Context,
        steps: &[Step],
        name: &Arc<str>,
        variables: &mut Variables,
    ) -> Result<(), Failure> {
        let start = Instant::now();
        self.begin(&Assignment { workload: ONCE, name, number: 0, warm_up: false, due_ns: 0, start }, 0);
        let mut pass = Pass {
            context,
            workload: ONCE,
            number: 0,
            profiler: DerivedProfiler::new(context.ids, ONCE, 0),
            signer: None,
            sampled: false,
            started: start,
            deadline: None,
        };
        self.steps(&mut pass, steps, variables).await
    }

    fn begin(&mut self, assignment: &Assignment<'_>, start_ns: Nanos) {
        self.pool.begin_iteration();
        let mut actions = std::mem::take(&mut self.sample.actions);
        actions.clear();
        self.under_way = None;
        self.sample = IterationSample {
            workload: assignment.workload,
            number: assignment.number,
            warm_up: assignment.warm_up,
            due_ns: assignment.due_ns.min(start_ns),
            start_ns,
            actions,
            ..IterationSample::default()
        };
    }

    fn variables_of(&mut self, context: &Context, assignment: &Assignment<'_>, base_id: Uuid) -> Variables {
        match self.variables.take() {
            Some(mut variables) => {
                Context::renew(&mut variables, assignment.name, assignment.number, base_id);
                variables
            }
            None => context.variables(assignment.name, assignment.number, base_id),
        }
    }

    async fn steps(
        &mut self,
        pass: &mut Pass<'_>,
        steps: &[Step],
        variables: &mut Variables,
    ) -> Result<(), Failure> {
        pass.profiler.start();
        for step in steps {
            match step {
                Step::Think(pause) => pass.think(*pause).await?,
                Step::Action(action) => {
                    pass.profiler.start();
                    let ended = self.action(pass, action, variables).await;
                    ended.map_err(|(class, message)| Failure {
                        class: class.to_owned(),
                        action: Some(Arc::clone(&action.name)),
                        message: masked_with(&message, &variables.secrets()).into_owned(),
                    })?;
                    pass.profiler.stop();
                }
            }
        }
        Ok(())
    }

    async fn action(
        &mut self,
        pass: &Pass<'_>,
        action: &Action,
        variables: &mut Variables,
    ) -> Result<(), (&'static str, String)> {
        let template = |error: TemplateError| ("template", error.to_string());
        allowance::renew();
        let fixed = self.fixed.get(pass.context, pass.workload, action).map_err(template)?;
        let mut whole = None;
        let path = match &fixed.path {
            Some(path) => path,
            None => {
                self.path.clear();
                whole = render_path(action, variables, &mut self.path).map_err(template)?;
                &self.path
            }
        };
        // A host that is not a target gets no secrets.
        let foreign = whole.as_ref().is_some_and(|origin| !pass.context.http.guard().is_target(origin));
        let rendered;
        let body = match &fixed.body {
            Some(body) => body,
            None => {
                rendered = render_body(&action.body, variables).map_err(template)?;
                &rendered
            }
        };
        let signed = action.signed && !foreign;
        pass.headers(action, signed, variables, &mut self.headers).map_err(template)?;
        let sent = Instant::now();
        let offset_ns = saturating_nanos(sent - pass.started);
        let sample =
            ActionSample { action: action.index, offset_ns, ended: Ended::Failed, ..ActionSample::default() };
        self.under_way = Some((sample, sent));
        self.phases = Phases::default();
        let request = Request {
            method: &action.method,
            origin: whole.as_ref().unwrap_or(&action.base.origin),
            path,
            fixed: fixed.headers_for(foreign),
            own: &self.headers,
            body,
            started: sent,
            redirects_max: action.redirects_max,
            body_bytes_max: action.body_bytes_max,
            keep_headers: action.needs_headers(),
            keep_body: action.needs_body(),
        };
        let mut answer = {
            let sending = pin!(self.pool.send(request, &mut self.phases));
            self.deadline.limit(pass.limit(action, sent), sending).await
        };
        let known = answer.as_ref().and_then(|answer| answer.as_ref().ok());
        let ended = known.map_or_else(Instant::now, |answer| answer.ended);
        self.under_way = None;
        // The time of redirects is a separate phase.
        let redirected = Duration::from_nanos(self.phases.redirect_ns);
        let duration = ended.saturating_duration_since(sent).saturating_sub(redirected);
        let verdict = match &mut answer {
            Some(Ok(answer)) => judge(answer, action, duration, variables),
            Some(Err(error)) => Err((error.class(), error.to_string())),
            None => Err(("timeout", pass.timed_out(action, ended, &self.phases))),
        };
        let answered = answer.and_then(Result::ok);
        let (status, body_bytes) =
            answered.map_or((0, 0), |answer| (answer.status.as_u16(), answer.body_bytes));
        self.sample.actions.push(ActionSample {
            duration_ns: saturating_nanos(duration),
            phases: self.phases,
            status,
            body_bytes,
            ended: if verdict.is_ok() { Ended::Ok } else { Ended::Failed },
            ..sample
        });
        verdict
    }
}

impl Pass<'_> {
    /// Renders the headers that differ from request to request.
    fn headers(
        &self,
        action: &Action,
        signed: bool,
        variables: &Variables,
        headers: &mut HeaderBlock,
    ) -> Result<(), TemplateError> {
        headers.clear();
        // In a profiled run, no request carries trace headers that the scenario writes.
        let carrying = if signed { self.context.propagation } else { Propagation::NONE };
        render_headers(action, variables, carrying, headers)?;
        let profiler = &self.profiler;
        if let Some(signer) = self.signer.as_ref().filter(|_| signed) {
            add_signed_headers(headers, &profiler.headers(signer));
        }
        // Without a traceparent, a service's own sampler would decide, and might record an iteration of the control group.
        add_w3c_headers(headers, carrying, profiler, self.number, self.sampled);
        Ok(())
    }

    /// The deadline of a request sent now.
    fn limit(&self, action: &Action, sent: Instant) -> Instant {
        let limit = sent + action.timeout;
        self.deadline.map_or(limit, |(deadline, _)| deadline.min(limit))
    }

    /// Which limit expired at `now`.
    fn timed_out(&self, action: &Action, now: Instant, phases: &Phases) -> String {
        match self.deadline {
            Some((deadline, limit)) if deadline <= now => iteration_timeout(limit),
            _ => action_timeout(action, phases),
        }
    }

    async fn think(&self, pause: Duration) -> Result<(), Failure> {
        let until = Instant::now() + pause;
        match self.deadline {
            Some((deadline, limit)) if deadline < until => {
                tokio::time::sleep_until(deadline.into()).await;
                let message = iteration_timeout(limit);
                Err(Failure { class: "timeout".to_owned(), action: None, message })
            }
            _ => {
                tokio::time::sleep_until(until.into()).await;
                Ok(())
            }
        }
    }
}

fn judge(
    answer: &mut Answer,
    action: &Action,
    duration: Duration,
    variables: &mut Variables,
) -> Result<(), (&'static str, String)> {
    // Other users may have rendered on this thread in the meantime.
    allowance::renew();
    if action.decompress && action.needs_body() {
        let decoded = decode::decoded(answer.headers.as_deref(), &answer.body, action.body_bytes_max);
        if let Some(body) = decoded.map_err(|error| (error.class(), error.to_string()))? {
            answer.body = body;
        }
    }
    let judged = Judged::new(answer);
    judged.check(action, duration, variables)?;
    judged.extract(&action.extracts, variables)
}

fn action_timeout(action: &Action, phases: &Phases) -> String {
    let limit = format_ns(saturating_nanos(action.timeout));
    let reached = match phases {
        Phases { opened: true, connect_ns: 0, .. } => "while connecting",
        Phases { opened: true, tls_ns: 0, .. } if action.base.origin.tls => "in the TLS handshake",
        _ => "before the answer was complete",
    };
    format!("timed out after {limit} {reached}")
}

fn iteration_timeout(limit: Duration) -> String {
    format!("the iteration took longer than {}", format_ns(saturating_nanos(limit)))
}
