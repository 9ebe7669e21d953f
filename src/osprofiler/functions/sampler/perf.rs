//! The sampler for many samples a second: the kernel's perf events, one for each processor.
//!
//! They follow the thread that starts them and all that are born later, so this comes before a runtime. The kernel
//! walks frame pointers, so the whole program must have them. No signal is sent, and nothing is allocated in the
//! threads that are sampled.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use dial9_perf_self_profile::{ActiveCpuBackend, EventSource, PerfSampler, SamplerConfig, SamplingMode};

use super::{RawStacks, SamplerError, burn};
use crate::functions::numbers::{DigitAddresses, Number, within};

/// How long to wait for a first sample with a number in its stack. A process that shares its processor gets little of it.
const FIRST_SAMPLE_TIMEOUT: Duration = Duration::from_secs(3);

/// The sampler of this process.
pub(super) struct Perf {
    sampler: PerfSampler,
}

impl Perf {
    /// A sampler whose stacks reach the numbers that operations write into them.
    pub(super) fn try_out(hz: u32) -> Result<Self, SamplerError> {
        if !DigitAddresses::get().are_complete() {
            return Err(SamplerError::NoStacks);
        }
        let config = SamplerConfig::default()
            .event_source(EventSource::SwCpuClock)
            .sampling(SamplingMode::FrequencyHz(u64::from(hz)));
        let sampler = PerfSampler::start(config).map_err(|error| SamplerError::Failed(error.to_string()))?;
        // The other way of this crate takes a signal, and not often enough.
        if !matches!(sampler.active_backend(), ActiveCpuBackend::Perf { .. }) {
            return Err(SamplerError::PerfForbidden);
        }
        let mut perf = Self { sampler };
        let (began, mut seen) = (Instant::now(), 0);
        let number = Number::all().next_back().ok_or(SamplerError::NoStacks)?;
        while began.elapsed() < FIRST_SAMPLE_TIMEOUT {
            within(number, burn);
            let stacks = perf.read();
            let is_found =
                |stack: &[usize]| DigitAddresses::get().find(stack).iter().any(|(one, _)| *one == number);
            if stacks.iter().any(|(stack, _)| is_found(stack)) {
                return Ok(perf);
            }
            seen += stacks.len();
            perf.start();
        }
        Err(if seen > 0 { SamplerError::NoFramePointers } else { SamplerError::PerfForbidden })
    }

    pub(super) fn start(&self) {
        self.sampler.enable();
    }

    pub(super) fn read(&mut self) -> RawStacks {
        self.sampler.disable();
        let mut counts: HashMap<Vec<usize>, u64> = HashMap::new();
        self.sampler.for_each_sample(|sample| {
            // Beyond the innermost one, addresses are one less than where the call returns to.
            let frames = sample.callchain.iter().enumerate();
            let frames =
                frames.map(|(depth, address)| (*address as usize).wrapping_add(usize::from(depth > 0)));
            *counts.entry(frames.collect()).or_default() += 1;
        });
        counts.into_iter().collect()
    }
}
