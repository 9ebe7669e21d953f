//! OSProfiler's decorator for Rust: spans of `#[tracing::instrument]` become trace points.
//!
//! A [`InstrumentLayer`] in the program's subscriber is all it takes. A span becomes a point of the
//! profiler that is current where the span is made. The point is named as the span is, and has the
//! span's fields in the start's info. It is the current point wherever the span is entered, also on
//! other threads. Where no profiler is initialised, spans are none of this layer's business.
//!
//! | of the span | in the records |
//! |---|---|
//! | its name (or the field `osprofiler.name`) | the point's name |
//! | module path and name | start: `function.name` |
//! | fields | start: `function.kwargs`, an object; not with the field `osprofiler.hide_args = true` |
//! | fields recorded later | stop: `function.kwargs` |
//! | `err`, not `err(level = …)` | stop: `etype` (`Err`: a span does not tell the type) and `message` |
//! | `ret` | stop: `function.result`, only with [`InstrumentLayer::show_results`] |
//! | entered / not entered | stop: `busy_us` / `idle_us` |
//! | an explicit parent | the parent point, or none if that span belongs to no trace |
//! | `parent: None` | no point |
//!
//! What `err` makes is an event of the level ERROR, of the span's own target, whose only field is
//! `error`; that distinguishes it from errors that the program handles and logs. So `err(level = …)`
//! with a lower level does not make the point a failed one, and neither does `warn!(error = %e)`.
//!
//! A span that outlives its parent keeps the parent's handle in the subscriber's registry, so the
//! parent's stop is recorded late; it is dated back to when the parent was last entered.
//!
//! A guard of `Span::enter` may not be held over an await, as tracing says itself: here, the span
//! is then left at the end of the poll. No lock of the registry may be held while records are made.

use std::time::Instant;

use serde_json::{Map, Value};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::{LookupSpan, SpanRef};

use super::fields::CollectedFields;
use super::record::Info;
use super::trace::current::{self, Flow};
use super::trace::{PointScope, TraceHandle};
use base::clock::Nanos;

/// A layer that saves a program the cost of spans that are not recorded: with it,
/// `registry().with(InstrumentLayer::new()).with(TracedSpanFilter)`, a span made where no profiler is
/// initialised is not even made.
///
/// That goes for all layers of the subscriber, so it is for programs whose spans are for traces
/// only. Events pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct TracedSpanFilter;

impl<S: Subscriber> Layer<S> for TracedSpanFilter {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if metadata.is_span() { Interest::sometimes() } else { Interest::always() }
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        !metadata.is_span() || current::is_traced()
    }
}

/// What a failed function's `etype` is.
const ERROR_TYPE: &str = "Err";

/// A subscriber's layer that turns spans into trace points.
#[derive(Clone, Debug)]
pub struct InstrumentLayer {
    level: Level,
    /// The longest prefix that fits a target counts; `None` turns it off.
    targets: Vec<(String, Option<Level>)>,
    hide_args: bool,
    hide_args_of: Vec<String>,
    show_results: bool,
}

impl Default for InstrumentLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl InstrumentLayer {
    /// Takes spans of the level INFO and above, the default level of `#[instrument]`. Spans of hyper,
    /// h2 and sqlx are below.
    #[must_use]
    pub fn new() -> Self {
        Self {
            level: Level::INFO,
            targets: Vec::new(),
            hide_args: false,
            hide_args_of: Vec::new(),
            show_results: false,
        }
    }

    /// Takes spans down to this level.
    #[must_use]
    pub fn level(mut self, level: Level) -> Self {
        self.level = level;
        self
    }

    /// Takes spans whose target begins with `prefix` down to this level, or none of them.
    #[must_use]
    pub fn target(mut self, prefix: impl Into<String>, level: impl Into<Option<Level>>) -> Self {
        self.targets.push((prefix.into(), level.into()));
        // The longest comes first, so that it is the first that fits.
        self.targets.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        self
    }

    /// Leaves all fields out of the records, as the decorator's `hide_args` does.
    #[must_use]
    pub fn hide_args(mut self) -> Self {
        self.hide_args = true;
        self
    }

    /// Leaves fields of spans out whose target begins with `prefix`.
    #[must_use]
    pub fn hide_args_of(mut self, prefix: impl Into<String>) -> Self {
        self.hide_args_of.push(prefix.into());
        self
    }

    /// Puts what functions with `#[instrument(ret)]` return into the records, as the decorator does
    /// with `hide_result=False`.
    #[must_use]
    pub fn show_results(mut self) -> Self {
        self.show_results = true;
        self
    }

    fn takes(&self, metadata: &Metadata<'_>) -> bool {
        let fitting = self.targets.iter().find(|(prefix, _)| metadata.target().starts_with(prefix));
        let level = fitting.map_or(Some(self.level), |(_, level)| *level);
        level.is_some_and(|level| *metadata.level() <= level)
    }

    fn hides(&self, metadata: &Metadata<'_>) -> bool {
        let of_target = || self.hide_args_of.iter().any(|prefix| metadata.target().starts_with(prefix));
        self.hide_args || of_target()
    }

    fn open(&self, parent: &TraceHandle, attributes: &Attributes<'_>) -> InstrumentedSpan {
        let metadata = attributes.metadata();
        let mut fields = CollectedFields::default();
        attributes.record(&mut fields);
        let hide_args = fields.hide_args || self.hides(metadata);
        let name = format!("{}::{}", metadata.module_path().unwrap_or(metadata.target()), metadata.name());
        let mut function = Map::from_iter([("name".to_owned(), Value::String(name))]);
        if !hide_args {
            function.insert("kwargs".to_owned(), Value::Object(fields.values));
        }
        let name = fields.point_name.as_deref().unwrap_or(metadata.name());
        let info = Info::from_iter([("function".to_owned(), Value::Object(function))]);
        let scope = parent.enter(name, Some(info));
        InstrumentedSpan { hide_args, point: Some(scope), ..InstrumentedSpan::within(parent.clone()) }
    }
}

/// What a span of a traced flow keeps in the registry.
struct InstrumentedSpan {
    /// The point that contains this one.
    parent: TraceHandle,
    /// `None` if the span is filtered out; what is below it belongs to the parent.
    point: Option<PointScope>,
    hide_args: bool,
    flow: SpanFlow,
    busy_ns: Nanos,
    last_exit: Option<Instant>,
    /// Whether a span below it was closed after it was last entered.
    outlived: bool,
}

enum SpanFlow {
    /// Not entered yet.
    New,
    /// Not entered now.
    Here(Box<Flow>),
    InUse,
}

impl InstrumentedSpan {
    fn within(parent: TraceHandle) -> Self {
        let flow = SpanFlow::New;
        Self { parent, point: None, hide_args: false, flow, busy_ns: 0, last_exit: None, outlived: false }
    }

    fn trace(&self) -> &TraceHandle {
        self.point.as_ref().map_or(&self.parent, PointScope::trace)
    }

    /// The handle to add details to, if the span is a point whose arguments may be seen.
    fn shown(&self) -> Option<TraceHandle> {
        self.point.as_ref().filter(|_| !self.hide_args).map(|point| point.trace().clone())
    }

    fn enter(&mut self) -> Box<Flow> {
        match std::mem::replace(&mut self.flow, SpanFlow::InUse) {
            SpanFlow::New => Flow::follow(self.trace().clone()),
            SpanFlow::Here(flow) => flow,
            SpanFlow::InUse => Flow::stand_in(self.trace().clone()),
        }
    }

    /// Gives back what has to be dropped without a lock.
    fn exit(&mut self, flow: Option<Box<Flow>>) -> Option<Box<Flow>> {
        self.last_exit = Some(Instant::now());
        self.outlived = false;
        match flow {
            Some(flow) if !flow.stands_in() => {
                self.busy_ns = flow.busy_ns();
                self.flow = SpanFlow::Here(flow);
                None
            }
            flow => flow,
        }
    }

    fn close(self) {
        // First what was started in it.
        drop(self.flow);
        let Some(mut point) = self.point else { return };
        point.was_busy(self.busy_ns);
        if let (true, Some(last_exit)) = (self.outlived, self.last_exit) {
            point.ended_at(last_exit);
        }
    }
}

/// Changes what a span keeps; `change` may not run foreign code, for the registry is locked.
fn with_place<S, T>(span: &SpanRef<'_, S>, change: impl FnOnce(&mut InstrumentedSpan) -> T) -> Option<T>
where
    S: for<'a> LookupSpan<'a>,
{
    span.extensions_mut().get_mut::<InstrumentedSpan>().map(change)
}

impl<S> Layer<S> for InstrumentLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let parent = match attributes.parent() {
            Some(parent) => {
                context.span(parent).and_then(|span| with_place(&span, |place| place.trace().clone()))
            }
            None if attributes.is_root() => None,
            None => current::current(),
        };
        let (Some(parent), Some(span)) = (parent, context.span(id)) else { return };
        let place = if self.takes(attributes.metadata()) {
            self.open(&parent, attributes)
        } else {
            InstrumentedSpan::within(parent)
        };
        // There is one already if a subscriber has two of these layers.
        let other = span.extensions_mut().replace(place);
        drop(other);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let Some(trace) = with_place(&span, |place| place.shown()).flatten() else { return };
        let mut fields = CollectedFields::default();
        values.record(&mut fields);
        if !fields.values.is_empty() {
            add_to_function(&trace, "kwargs", Value::Object(fields.values));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        // What `err` and `ret` make is an event of one field. Others are the program's own.
        let mut names = event.metadata().fields().iter().map(|field| field.name());
        let is_error = match (names.next(), names.next()) {
            // What a program has handled it logs at another level, or says more about.
            (Some("error"), None) if *event.metadata().level() == Level::ERROR => true,
            (Some("return"), None) if self.show_results => false,
            _ => return,
        };
        let Some(span) = context.event_span(event) else { return };
        if span.metadata().target() != event.metadata().target() {
            return;
        }
        let trace = with_place(&span, |place| {
            if is_error { place.point.as_ref().map(|point| point.trace().clone()) } else { place.shown() }
        });
        let Some(trace) = trace.flatten() else { return };
        let mut fields = CollectedFields::default();
        event.record(&mut fields);
        let Some((_, value)) = fields.values.into_iter().next() else { return };
        if is_error {
            let message = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            trace.fail(ERROR_TYPE, &message);
        } else {
            add_to_function(&trace, "result", value);
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let current = current::current();
        let flow = with_place(&span, |place| {
            // Entering a span that is not a point does not change the flow.
            let is_there =
                |current: &TraceHandle| place.point.is_none() && current.is_of_same_trace(&place.parent);
            (!current.as_ref().is_some_and(is_there)).then(|| place.enter())
        });
        if let Some(flow) = flow.flatten() {
            current::install(flow, Some(id.into_u64()));
        }
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        let flow = current::uninstall_span(id.into_u64());
        let Some(span) = context.span(id) else { return };
        drop(with_place(&span, |place| place.exit(flow)));
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        if let Some(parent) = span.parent() {
            with_place(&parent, |place| place.outlived = true);
        }
        let place = span.extensions_mut().remove::<InstrumentedSpan>();
        if let Some(place) = place {
            place.close();
        }
    }
}

fn add_to_function(trace: &TraceHandle, key: &str, value: Value) {
    trace.merge("function", Map::from_iter([(key.to_owned(), value)]));
}
