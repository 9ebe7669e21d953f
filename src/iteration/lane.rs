//! One strand of a virtual user's requests, which are sent one after another over its own connections.
//!
//! A user has one lane, and one more for each step that runs beside others in `together`. Nothing here decides which
//! step comes next; see [`super::flow`].

use std::cell::Cell;
use std::pin::pin;
use std::time::{Duration, Instant};

use uuid::Uuid;

use base::clock::{Nanos, now, saturating_nanos};
use base::ids::mix;
use base::lists::push_frugally;
use base::masking::masked_with;
use base::units::format_ns;
use client::cookies::Jar;
use client::decode;
use client::headers::HeaderBlock;
use client::pool::Pool;
use client::{Answer, Request, take_cut_off};
use measure::errors::Seen;
use measure::phases::{Phases, Retransmits};
use measure::sample::{ActionSample, Ended};
use osprofiler::derived::DerivedProfiler;
use osprofiler::signing::BaseSigner;
use plan::action::Action;
use plan::condition::Extract;
use plan::propagation::Propagation;
use text::template::{TemplateError, Variables, allowance, text_of};

use super::Context;
use super::bodies::render_body;
use super::compare::Fault;
use super::crowd::Sender;
use super::deadline::Deadline;
use super::fixed::FixedParts;
use super::judge::Judged;
use super::observe;
use super::request::{add_signed_headers, add_w3c_headers, render_headers, render_path};
use measure::observation::{Checked, Exchange, Observation};

/// What all lanes of one iteration share.
pub(super) struct Pass<'a> {
    pub(super) context: &'a Context,
    /// Whose credentials its requests carry.
    pub(super) sender: Sender<'a>,
    pub(super) workload: u16,
    pub(super) number: u64,
    pub(super) signer: Option<BaseSigner>,
    /// False if services should not record it: of the control group, setup and teardown.
    pub(super) sampled: bool,
    pub(super) started: Instant,
    /// When it must be over, and the limit for messages.
    pub(super) deadline: Option<(Instant, Duration)>,
    /// The iteration's cookies; `None` if they are off.
    pub(super) cookies: Option<&'a Jar>,
    /// The number of the last trace point that was begun.
    pub(super) points: Cell<u32>,
    /// How many rounds of loops there were.
    pub(super) rounds: Cell<u32>,
}

/// Where a lane is in the iteration's tree of trace points.
#[derive(Clone)]
pub(super) struct Branch {
    profiler: DerivedProfiler,
    /// The number of the innermost open point; 0 outside all points.
    point: u32,
    /// The state of its random numbers.
    random: u64,
    /// In how many steps it is.
    pub(super) depth: usize,
}

impl Branch {
    /// Outside all points of an iteration.
    #[inline]
    pub(super) fn of_iteration(context: &Context, workload: u16, number: u64) -> Self {
        let profiler = DerivedProfiler::new(context.ids, workload, number);
        Self { profiler, point: 0, random: context.data_draw(workload, number), depth: 0 }
    }

    /// The iteration's trace.
    #[inline]
    pub(super) fn base_id(&self) -> Uuid {
        self.profiler.base_id()
    }

    /// At the same place, for the step number `number` of those that run at the same time.
    #[inline]
    pub(super) fn beside(&self, number: usize) -> Self {
        Self { random: mix(self.random ^ (number as u64 + 1)), ..self.clone() }
    }

    /// The next random number of this branch. It depends only on the iteration and on the steps before.
    #[inline]
    pub(super) fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.random)
    }

    /// Begins a point. Returns its number and that of the point around it.
    #[inline]
    pub(super) fn begin(&mut self, pass: &Pass<'_>) -> (u32, u32) {
        let (point, parent) = (pass.points.get().saturating_add(1), self.point);
        pass.points.set(point);
        self.profiler.start_numbered(point);
        self.point = point;
        (point, parent)
    }

    /// Ends the innermost point, within the point number `parent`.
    #[inline]
    pub(super) fn end(&mut self, parent: u32) {
        self.profiler.stop();
        self.point = parent;
    }
}

/// A lane.
pub(super) struct Lane {
    pool: Pool,
    /// The iteration's measurements so far.
    pub(super) actions: Vec<ActionSample>,
    /// The current request, and the groups around it, outermost first, to record them if they are cut off.
    pub(super) under_way: Vec<(ActionSample, Instant)>,
    /// The phases of the last request so far.
    phases: Phases,
    deadline: Deadline,
    fixed: FixedParts,
    path: String,
    headers: HeaderBlock,
    /// What was seen in the last answer, if it failed.
    seen: Option<Box<Seen>>,
    /// The lanes of steps that run at the same time.
    pub(super) beside: Vec<Lane>,
}

/// A request that ended: its measurement and the verdict on its answer.
pub(super) struct Attempt {
    pub(super) sample: ActionSample,
    pub(super) verdict: Result<(), Fault>,
}

impl Lane {
    /// A lane without connections.
    pub(super) fn new(context: &Context) -> Self {
        Self {
            pool: Pool::new(&context.http),
            actions: Vec::new(),
            under_way: Vec::new(),
            phases: Phases::default(),
            deadline: Deadline::default(),
            fixed: FixedParts::default(),
            path: String::new(),
            headers: HeaderBlock::default(),
            seen: None,
            beside: Vec::new(),
        }
    }

    /// Prepares for the next iteration.
    #[inline]
    pub(super) fn begin_iteration(&mut self) {
        self.actions.clear();
        self.under_way.clear();
        self.seen = None;
        self.beside.iter_mut().for_each(Self::begin_iteration);
    }

    /// Ends the iteration's connections, if each iteration opens its own.
    #[inline]
    pub(super) fn end_iteration(&mut self) {
        self.pool.end_iteration();
        self.beside.iter_mut().for_each(Self::end_iteration);
    }

    /// Ends all connections.
    pub(super) fn leave(&mut self) {
        self.pool.leave();
        self.beside.iter_mut().for_each(Self::leave);
    }

    /// What was seen in the answer that failed.
    pub(super) fn take_seen(&mut self) -> Option<Box<Seen>> {
        let own = self.seen.take();
        own.or_else(|| self.beside.iter_mut().find_map(Self::take_seen))
    }

    /// Ends everything that is under way as cut off.
    pub(super) fn cut_off(&mut self) {
        for lane in &mut self.beside {
            lane.cut_off();
            self.actions.append(&mut lane.actions);
        }
        let phases = std::mem::take(&mut self.phases);
        while let Some((action, since)) = self.under_way.pop() {
            self.actions.push(ActionSample {
                duration_ns: saturating_nanos(now() - since),
                phases: if action.requests > 0 { phases } else { Phases::default() },
                ended: Ended::Aborted,
                ..action
            });
        }
    }

    /// Sends the request of an action within the point that was just begun, and judges the answer.
    ///
    /// # Errors
    /// A template that fails: nothing was sent.
    #[expect(clippy::too_many_lines, reason = "a request from its parts to its sample, in order")]
    pub(super) async fn attempt(
        &mut self,
        pass: &Pass<'_>,
        branch: &Branch,
        action: &Action,
        variables: &mut Variables,
        before: &Attempted,
    ) -> Result<Attempt, Fault> {
        let template = |error: TemplateError| {
            pass.observe(|| Observation::Unsent {
                depth: branch.depth,
                action: action.name.to_string(),
                message: error.to_string(),
            });
            ("template", error.to_string())
        };
        allowance::renew();
        let sender = pass.sender_of(action);
        let fixed = self.fixed.get(pass.context, pass.workload, action, &sender).map_err(template)?;
        let mut whole = None;
        let path = match &fixed.path {
            Some(path) => path,
            None => {
                self.path.clear();
                whole =
                    render_path(action, fixed.prefix(action), variables, &mut self.path).map_err(template)?;
                &self.path
            }
        };
        // A host that is not a target gets no secrets.
        let foreign = whole.as_ref().is_some_and(|origin| !pass.context.http.guard().is_target(origin));
        let rendered;
        let body = match &fixed.body {
            Some(body) => body,
            None => {
                rendered = render_body(action, variables).map_err(template)?;
                &rendered
            }
        };
        let observed = pass.context.observed.as_deref();
        if observed.is_some() {
            self.pool.record_redirects();
        }
        let signed = action.signed && !foreign;
        pass.headers(branch, action, signed, variables, &mut self.headers).map_err(template)?;
        let sent = now();
        let sample = before.sample(pass, action, branch.point, sent);
        push_frugally(&mut self.under_way, (sample, before.began.unwrap_or(sent)));
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
            cookies: pass.cookies.filter(|_| action.cookies),
            keep_headers: observed.is_some() || action.needs_headers(),
            keep_body: observed.is_some() || action.needs_body(),
            is_refused: &|status| !action.expect.accepts(status.as_u16()),
        };
        let request_seen = observed.map(|_| Box::new(observe::sent(&request)));
        let mut answer = {
            let sending = pin!(self.pool.send(&request, &mut self.phases));
            self.deadline.limit(pass.limit(action, sent), sending).await
        };
        let known = answer.as_ref().and_then(|answer| answer.as_ref().ok());
        let ended = known.map_or_else(now, |answer| answer.ended);
        if known.is_none() {
            self.phases.retransmits = self.phases.retransmits.and(take_cut_off(sent));
        }
        self.under_way.pop();
        // The time of redirects is a separate phase.
        let redirected = Duration::from_nanos(self.phases.redirect_ns);
        let duration = ended.saturating_duration_since(sent).saturating_sub(redirected);
        self.seen = None;
        let mut outcomes = observed.map(|_| Vec::new());
        let verdict = match &mut answer {
            Some(Ok(answer)) => {
                judge(answer, action, duration, pass.cookies, variables, &mut self.seen, &mut outcomes)
            }
            Some(Err(error)) => Err((error.class(), error.to_string())),
            None => Err(("timeout", pass.timed_out(action, ended, &self.phases))),
        };
        let verdict = verdict.map_err(|(class, message)| match pass.cookies.filter(|jar| !jar.is_empty()) {
            Some(jar) => (class, masked_with(&message, &jar.secrets()).into_owned()),
            None => (class, message),
        });
        let answered = answer.and_then(Result::ok);
        if verdict.is_err() && action.authorised && !foreign && answered.as_ref().is_some_and(is_unauthorized)
        {
            sender.credentials.refused(fixed.generation);
        }
        if let (Some(observed), Some(request)) = (observed, request_seen) {
            let answer = answered.as_ref().map(observe::answered);
            let extracted = if answer.is_some() { extracted(action, variables) } else { Vec::new() };
            observed.push(Observation::Exchange(Box::new(Exchange {
                depth: branch.depth,
                action: action.name.to_string(),
                attempt: sample.requests,
                request: *request,
                redirects: self.pool.take_redirects(),
                answer,
                phases: self.phases,
                duration,
                checks: outcomes.unwrap_or_default(),
                extracted,
                failure: verdict.as_ref().err().cloned(),
                secrets: [variables.secrets(), pass.cookies.map(Jar::secrets).unwrap_or_default()].concat(),
                variables: variables.texts(),
            })));
        }
        let (status, body_bytes) =
            answered.map_or((0, 0), |answer| (answer.status.as_u16(), answer.body_bytes));
        let duration = before.began.map_or(duration, |began| ended.saturating_duration_since(began));
        let sample = ActionSample {
            duration_ns: saturating_nanos(duration),
            phases: Phases {
                resent: self.phases.resent || before.resent,
                retransmits: self.phases.retransmits.and(before.retransmits),
                ..self.phases
            },
            status,
            body_bytes: before.body_bytes.saturating_add(body_bytes),
            ended: if verdict.is_ok() { Ended::Ok } else { Ended::Failed },
            ..sample
        };
        Ok(Attempt { sample, verdict })
    }
}

#[inline]
fn is_unauthorized(answer: &Answer) -> bool {
    answer.status == http::StatusCode::UNAUTHORIZED
}

/// The earlier requests of an action that polls; none for other actions.
#[derive(Default)]
pub(super) struct Attempted {
    /// When the first was sent.
    pub(super) began: Option<Instant>,
    /// How many were sent.
    pub(super) requests: u32,
    /// The bytes of their answers' bodies.
    pub(super) body_bytes: u64,
    /// Whether one of them was sent once more.
    pub(super) resent: bool,
    /// What TCP repeated for them.
    pub(super) retransmits: Retransmits,
    /// The number of the point around the action.
    pub(super) parent: u32,
}

impl Attempted {
    /// The sample of an action whose next request is sent now.
    #[inline]
    fn sample(&self, pass: &Pass<'_>, action: &Action, point: u32, sent: Instant) -> ActionSample {
        ActionSample {
            action: action.index,
            offset_ns: pass.offset_ns(self.began.unwrap_or(sent)),
            ended: Ended::Failed,
            requests: self.requests.saturating_add(1),
            point,
            parent: self.parent,
            ..ActionSample::default()
        }
    }
}

impl Pass<'_> {
    /// Records what happens, if somebody looks.
    #[inline]
    pub(super) fn observe(&self, observation: impl FnOnce() -> Observation) {
        if let Some(observed) = &self.context.observed {
            observed.push(observation());
        }
    }

    /// Whose credentials a request carries.
    #[inline]
    fn sender_of(&self, action: &Action) -> Sender<'_> {
        if action.as_admin { Sender::deployment(&self.context.credentials) } else { self.sender }
    }

    /// Records a step that is no request.
    pub(super) fn step(&self, branch: &Branch, text: impl FnOnce() -> String) {
        self.observe(|| Observation::Step { depth: branch.depth, text: text() });
    }

    /// The time from the iteration's start.
    #[inline]
    pub(super) fn offset_ns(&self, at: Instant) -> Nanos {
        saturating_nanos(at.saturating_duration_since(self.started))
    }

    /// Renders the headers that differ from request to request.
    #[inline]
    fn headers(
        &self,
        branch: &Branch,
        action: &Action,
        signed: bool,
        variables: &Variables,
        headers: &mut HeaderBlock,
    ) -> Result<(), TemplateError> {
        headers.clear();
        // In a profiled run, no request carries trace headers that the scenario writes.
        let carrying = if signed { self.context.propagation } else { Propagation::NONE };
        render_headers(action, variables, carrying, headers)?;
        let (trace, point) = (branch.profiler.base_id(), branch.profiler.id());
        if let Some(signer) = self.signer.as_ref().filter(|_| signed) {
            add_signed_headers(headers, &signer.sign(point));
        }
        // Without a traceparent, a service's own sampler would decide, and might record an iteration of the control group.
        add_w3c_headers(headers, carrying, (trace, point), self.number, self.sampled);
        Ok(())
    }

    /// The deadline of a request sent now.
    #[inline]
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

    /// Waits until `until`.
    ///
    /// # Errors
    /// The iteration's deadline comes first.
    pub(super) async fn wait(&self, until: Instant) -> Result<(), Fault> {
        match self.deadline {
            Some((deadline, limit)) if deadline < until => {
                tokio::time::sleep_until(deadline.into()).await;
                Err(("timeout", iteration_timeout(limit)))
            }
            _ => {
                tokio::time::sleep_until(until.into()).await;
                Ok(())
            }
        }
    }

    /// # Errors
    /// The iteration's deadline has passed.
    pub(super) fn in_time(&self) -> Result<(), Fault> {
        match self.deadline {
            Some((deadline, limit)) if deadline <= now() => Err(("timeout", iteration_timeout(limit))),
            _ => Ok(()),
        }
    }
}

#[inline]
fn judge(
    answer: &mut Answer,
    action: &Action,
    duration: Duration,
    cookies: Option<&Jar>,
    variables: &mut Variables,
    seen: &mut Option<Box<Seen>>,
    outcomes: &mut Option<Vec<Checked>>,
) -> Result<(), Fault> {
    // Other users may have rendered on this thread in the meantime.
    allowance::renew();
    if action.decompress && action.needs_body() {
        let decoded = decode::decoded(answer.headers.as_deref(), &answer.body, action.body_bytes_max);
        if let Some(body) = decoded.map_err(|error| (error.class(), error.to_string()))? {
            answer.body = body;
        }
    }
    let judged = Judged::new(answer, cookies);
    if let Some(outcomes) = outcomes {
        outcomes.extend(judged.outcomes(action, duration, variables));
    }
    let verdict = judged
        .check(action, duration, variables)
        .and_then(|()| judged.extract(&action.extracts, variables))
        .and_then(|()| judged.check_variables(&action.expect, variables));
    if let Some(outcomes) = outcomes {
        outcomes.extend(Judged::outcomes_of_variables(&action.expect, variables));
    }
    if verdict.is_err() {
        *seen = judged.seen(variables);
    }
    verdict
}

/// The variables that an action extracts, as they are now.
fn extracted(action: &Action, variables: &Variables) -> Vec<(String, String, bool)> {
    let value = |extract: &Extract| {
        let value = variables.get(&extract.variable)?;
        let shown = text_of(&value).map_or_else(|error| error.0, |text| text.into_owned());
        Some((extract.variable.to_string(), shown, extract.secret))
    };
    action.extracts.iter().filter_map(value).collect()
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
