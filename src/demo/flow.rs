//! A request's place in its trace, if it is traced.
//!
//! Handlers do the same work for traced and untraced requests; only this file distinguishes them.

use serde_json::{Value, json};

use osprofiler::record::Info;
use osprofiler::trace::{PointScope, TraceHandle};

/// The parent of further points. It has no effect for a request that is not traced.
#[derive(Clone)]
pub(super) struct Flow(Option<TraceHandle>);

/// An open point, closed when this is dropped.
pub(super) struct OpenPoint {
    /// The parent for points below it.
    pub(super) flow: Flow,
    _scope: Option<PointScope>,
}

impl Flow {
    pub(super) fn new(trace: Option<TraceHandle>) -> Self {
        Self(trace)
    }

    pub(super) fn is_traced(&self) -> bool {
        self.0.is_some()
    }

    /// Opens a point. Calls `info` only if the request is traced.
    #[must_use = "the point is closed when this is dropped"]
    pub(super) fn enter(&self, name: &str, info: impl FnOnce() -> Vec<(&'static str, Value)>) -> OpenPoint {
        let scope = self.0.as_ref().map(|trace| {
            let info: Info = info().into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
            trace.enter(name, Some(info))
        });
        OpenPoint { flow: Self(scope.as_ref().map(|scope| scope.trace().clone())), _scope: scope }
    }

    /// Opens a point for a call of `function`.
    #[must_use = "the point is closed when this is dropped"]
    pub(super) fn call(&self, function: &'static str) -> OpenPoint {
        self.enter("rpc", || vec![("function", json!({ "name": function }))])
    }
}
