//! The control group: iterations that are left unprofiled for comparison.

/// The share of a run's iterations that are left unprofiled for comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ControlShare {
    percent: f64,
    /// Iterations that draw a number below this belong to the control group.
    below: u64,
}

impl ControlShare {
    /// No iteration.
    pub const NONE: Self = Self { percent: 0.0, below: 0 };

    /// A share in percent, clamped to 0 to 100.
    #[must_use]
    pub fn from_percent(percent: f64) -> Self {
        let percent = if percent.is_nan() { 0.0 } else { percent.clamp(0.0, 100.0) };
        let below = (percent / 100.0 * 18_446_744_073_709_551_616.0) as u64;
        Self { percent, below }
    }

    /// The share in percent.
    #[must_use]
    pub fn percent(self) -> f64 {
        self.percent
    }

    /// True if the share is zero.
    #[must_use]
    pub fn is_none(self) -> bool {
        self.below == 0
    }

    /// Whether an iteration that has drawn this number belongs to the control group.
    #[inline]
    #[must_use]
    pub fn contains(self, draw: u64) -> bool {
        draw < self.below
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_percent_and_bounded() {
        for (given, percent, least, most) in [
            (10.5, 10.5, Some(0), None),
            (0.0, 0.0, None, None),
            (-3.0, 0.0, None, None),
            (1e9, 100.0, Some(0), Some(u64::MAX - 1)),
            (f64::NAN, 0.0, None, None),
        ] {
            let share = ControlShare::from_percent(given);
            assert_eq!((share.percent(), share.is_none()), (percent, least.is_none()), "{given}");
            assert!(least.is_none_or(|draw| share.contains(draw)), "{given}");
            assert_eq!(share.contains(u64::MAX - 1), most.is_some(), "{given}");
        }
        assert_eq!(ControlShare::from_percent(f64::NAN), ControlShare::NONE);
    }
}
