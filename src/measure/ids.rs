//! The ids of a run's iterations, and which of them were left unprofiled: both are derived from the run's seed.
//!
//! This is the only place that derives them, both during the run and for readers of its log.

use uuid::Uuid;

use super::latency::SampleId;
use crate::base::ids::{ControlShare, IdSpace};

/// What a run's seed determines about its iterations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunIds {
    space: IdSpace,
    control: ControlShare,
}

impl RunIds {
    /// For a run with this seed, and with this share of its iterations unprofiled.
    #[must_use]
    pub fn new(seed: Uuid, control: ControlShare) -> Self {
        Self { space: IdSpace::from_seed(seed), control }
    }

    /// The trace id of an iteration.
    #[must_use]
    pub fn trace_id(&self, iteration: impl Into<SampleId>) -> Uuid {
        self.point_id(iteration, 0)
    }

    /// The id of one of `bench`'s own points of an iteration, counted from 1.
    #[must_use]
    pub fn point_id(&self, iteration: impl Into<SampleId>, point: u32) -> Uuid {
        let SampleId { workload, number } = iteration.into();
        self.space.point_id(workload, number, point)
    }

    /// Whether an iteration was left unprofiled for comparison with the others.
    #[inline]
    #[must_use]
    pub fn is_control(&self, iteration: impl Into<SampleId>) -> bool {
        let SampleId { workload, number } = iteration.into();
        self.space.is_control(workload, number, self.control)
    }

    /// A random number for each iteration, used to draw samples of iterations. It is the same for every reader of the
    /// run, in any order.
    #[inline]
    #[must_use]
    pub fn draw(&self, iteration: impl Into<SampleId>) -> u64 {
        let SampleId { workload, number } = iteration.into();
        self.space.draw(workload, number)
    }
}
