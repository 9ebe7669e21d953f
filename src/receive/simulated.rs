//! The receiver of a simulation: what would come over the network is handed over.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;

use super::Taker;
use super::counts::{Counters, ReceiverCounts};
use super::intake::{BodyFormat, Export, Intake, Limits, Signal};

/// Takes requests as a [`super::server::Receiver`] does, at once.
pub struct Direct(Intake);

impl Direct {
    /// Hands spans over to `taker`.
    #[must_use]
    pub fn new(taker: Arc<dyn Taker>) -> Self {
        Self(Intake::new(taker, Arc::new(Counters::default()), None, Limits::default()))
    }

    /// Takes a request with spans, in protobuf. Returns whether it was accepted.
    #[must_use]
    pub fn accept(&self, body: Vec<u8>) -> bool {
        let headers = &HeaderMap::new();
        let (signal, format, body) = (Signal::Traces, BodyFormat::Protobuf, Bytes::from(body));
        let accepted = self.0.accept(Export { signal, format, is_gzip: false, headers, body });
        accepted.map_err(|refusal| self.0.count(&refusal)).is_ok()
    }

    /// What it has done so far.
    #[must_use]
    pub fn counts(&self) -> ReceiverCounts {
        self.0.counters.counts()
    }
}
