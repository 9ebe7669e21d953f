//! Which iteration gets which program when a load is run again.
//!
//! What takes long by itself is known of every iteration, or of a random sample of the slow ones: it stays about where it was.
//! All others get one that was chosen by number or by chance. Response times must not choose: those of a queue say more about
//! the others in it.

use crate::measured::{ChosenFor, LoadedIteration, MeasuredLoad};

/// Which programs iterations may have.
pub(crate) struct ProgramChoice {
    iterations: usize,
    /// The traced ones that do not take long by themselves, chosen by number or by chance.
    pub(crate) light: Vec<usize>,
    /// Those that take long by themselves.
    heavy: Vec<usize>,
    /// The iterations that they are of, by place.
    heavy_at: Vec<usize>,
    /// Slow iterations without a trace, and which share of them takes long by itself.
    unknown_at: Vec<usize>,
    heavy_share: f64,
}

impl ProgramChoice {
    pub(crate) fn of(load: &MeasuredLoad) -> Self {
        let is_heavy: Vec<bool> =
            load.traced.iter().map(|one| one.program.alone_us() > load.slow_from_us).collect();
        let light =
            (0..is_heavy.len()).filter(|&at| !is_heavy[at] && load.traced[at].chosen == ChosenFor::Chance);
        let places = || load.iterations.iter().enumerate();
        let is_slow = |one: &LoadedIteration| one.response_us > load.slow_from_us;
        let slow_traced = places().filter(|(_, one)| is_slow(one) && one.traced.is_some()).count();
        let heavy_at: Vec<usize> = places()
            .filter(|(_, one)| one.traced.is_some_and(|at| is_heavy[at]))
            .map(|(place, _)| place)
            .collect();
        Self {
            iterations: load.iterations.len(),
            light: light.collect(),
            heavy: (0..is_heavy.len()).filter(|&at| is_heavy[at]).collect(),
            unknown_at: places()
                .filter(|(_, one)| is_slow(one) && one.traced.is_none())
                .map(|(place, _)| place)
                .collect(),
            heavy_share: heavy_at.len() as f64 / slow_traced.max(1) as f64,
            heavy_at,
        }
    }

    /// A program for each iteration.
    pub(crate) fn draw(&self, drawn: &mut fastrand::Rng) -> Vec<usize> {
        // Another sample of those that were traced.
        let light: Vec<usize> =
            self.light.iter().map(|_| self.light[drawn.usize(0..self.light.len())]).collect();
        let mut chosen: Vec<usize> =
            (0..self.iterations).map(|_| light[drawn.usize(0..light.len())]).collect();
        if self.heavy.is_empty() {
            return chosen;
        }
        let unknown = self.unknown_at.iter().filter(|_| drawn.f64() < self.heavy_share).copied();
        let places: Vec<usize> = unknown.chain(self.heavy_at.iter().copied()).collect();
        for place in places {
            // As many as another run might have, about where this one had them.
            for copy in 0..poisson(drawn) {
                let at = if copy == 0 { place } else { self.near(place, drawn) };
                chosen[at] = self.heavy[drawn.usize(0..self.heavy.len())];
            }
        }
        chosen
    }
}

impl ProgramChoice {
    /// A place not far from another one.
    fn near(&self, place: usize, drawn: &mut fastrand::Rng) -> usize {
        let far = self.iterations / 40;
        drawn.usize(place.saturating_sub(far)..=(place + far).min(self.iterations - 1))
    }
}

/// A number of Poisson's distribution with the mean 1.
fn poisson(drawn: &mut fastrand::Rng) -> usize {
    let (mut number, mut product) = (0, drawn.f64());
    while product > (-1.0_f64).exp() {
        number += 1;
        product *= drawn.f64();
    }
    number
}
