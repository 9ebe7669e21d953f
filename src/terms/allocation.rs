//! Who gets which row: everything that decides it but the rows themselves, so that it is known when they are gone.

use std::sync::Arc;

use base::ids::mix;
use config::data::{OnEnd, Order, Per};

use super::order::position;

/// Who takes a row.
#[derive(Clone, Copy, Debug)]
pub struct Taker {
    /// The seed of the data.
    pub seed: u64,
    /// The workload's number.
    pub workload: u16,
    /// The iteration's number within the workload.
    pub iteration: u64,
    /// The virtual user's number within the workload.
    pub user: u64,
}

/// Who gets which of a number of rows with a name.
#[derive(Clone, Debug, PartialEq)]
pub struct Allocation {
    name: Arc<str>,
    /// Differs for each name, so that data of the same length are not shuffled alike.
    key: u64,
    rows: u64,
    order: Order,
    per: Per,
    on_end: OnEnd,
}

impl Allocation {
    /// Of this number of rows.
    #[must_use]
    pub fn new(name: &str, rows: u64, order: Order, per: Per, on_end: OnEnd) -> Self {
        let key = name.bytes().fold(0, |key, byte| mix(key ^ u64::from(byte)));
        Self { name: Arc::from(name), key, rows, order, per, on_end }
    }

    /// The name of the data.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// How many rows there are.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// In which order they are taken.
    #[must_use]
    pub fn order(&self) -> Order {
        self.order
    }

    /// Who takes one.
    #[must_use]
    pub fn per(&self) -> Per {
        self.per
    }

    /// What happens when every row was taken.
    #[must_use]
    pub fn on_end(&self) -> OnEnd {
        self.on_end
    }

    /// The place of the row that this taker gets, from 0; `None` if there is none left.
    #[must_use]
    pub fn place(&self, taker: &Taker) -> Option<u64> {
        let number = match self.per {
            Per::Iteration => taker.iteration,
            Per::User => taker.user,
        };
        if number >= self.rows && self.on_end != OnEnd::Repeat {
            return None;
        }
        let key = mix(mix(taker.seed) ^ self.key) ^ u64::from(taker.workload) << 48;
        Some(position(self.order, mix(key), number, self.rows))
    }
}
