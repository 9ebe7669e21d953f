//! Answers 401 to requests that carried the deployment's token: how many, and what they mean.
//!
//! A token may end before its time: it was revoked, Keystone's keys were rotated, or its clock is wrong. Then every
//! request fails until there is a new one. Nothing here costs a request that is not refused.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use client::plain::PlainError;

/// What was counted.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    /// Requests that were refused.
    requests: AtomicU64,
    /// One more than the newest generation of the token that was refused; 0 if none was.
    newest: AtomicU64,
    /// How many generations were refused.
    generations: AtomicU64,
    /// Renewals because of refusals.
    renewed: AtomicU64,
    /// Failed renewals, and why the last one failed.
    failed: Mutex<(u64, String)>,
    wake: Notify,
}

impl Refusals {
    /// Counts a request.
    pub(super) fn count(&self, generation: u64) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        if self.newest.fetch_max(generation + 1, Ordering::Relaxed) <= generation {
            self.generations.fetch_add(1, Ordering::Relaxed);
            self.wake.notify_one();
        }
    }

    /// Waits until a token of this generation, the current one, is refused.
    pub(super) async fn of_generation(&self, generation: u64) {
        while self.newest.load(Ordering::Relaxed) <= generation {
            self.wake.notified().await;
        }
    }

    /// There is a new token. `refused`: because services did not take the old one.
    pub(super) fn renewed(&self, refused: bool) {
        self.renewed.fetch_add(u64::from(refused), Ordering::Relaxed);
    }

    /// Logging in again failed.
    pub(super) fn not_renewed(&self, error: &PlainError) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        *failed = (failed.0 + 1, error.to_string());
    }

    /// What to say after the load; `None` if nothing happened. `what`: whose credentials these are.
    pub(super) fn note(&self, what: &str) -> Option<String> {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (requests, generations, renewed) = (of(&self.requests), of(&self.generations), of(&self.renewed));
        let (failed, why) = self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if requests == 0 {
            return (failed > 0).then(|| {
                format!(
                    "the token could not be renewed {}: {why}; the old one lasted until the end",
                    times(failed)
                )
            });
        }
        let refused = match requests {
            1 => format!("1 request with {what} was answered 401 (Unauthorized)"),
            many => format!("{many} requests with {what} were answered 401 (Unauthorized)"),
        };
        let meaning = if failed > 0 {
            format!("the token could not be renewed {}: {why}", times(failed))
        } else if renewed == 0 {
            "bench cannot get another one: check that it has not expired or been revoked".to_owned()
        } else if generations > renewed {
            format!(
                "bench logged in again {}, and new tokens were refused too: the services cannot validate tokens (their [keystone_authtoken], Keystone's log), so this is not the load's doing",
                times(renewed)
            )
        } else {
            format!(
                "bench logged in again {}, outside the measured time, and the new token was accepted: the old one had been revoked or had ended before its time",
                times(renewed)
            )
        };
        Some(format!("{refused}; {meaning}"))
    }
}

fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_named_for_what_they_are() {
        // Generations of refused requests; renewals because of them; failed renewals; what is said.
        for (refused, renewed, failed, expected) in [
            (&[][..], 0, 0, &[][..]),
            (&[], 0, 2, &["could not be renewed 2 times: no answer", "lasted"]),
            (
                &[0],
                0,
                0,
                &["1 request with the deployment's token was answered 401", "check that it has not expired"],
            ),
            (&[0, 0, 0], 1, 0, &["3 requests", "logged in again once", "the new token was accepted"]),
            // A request of the old token that was still under way.
            (&[0, 1, 0], 2, 0, &["3 requests", "logged in again 2 times", "was accepted"]),
            (&[0, 1], 1, 0, &["new tokens were refused too", "[keystone_authtoken]"]),
            (&[4, 4], 0, 1, &["2 requests", "could not be renewed once: no answer"]),
        ] {
            let refusals = Refusals::default();
            refused.iter().for_each(|generation| refusals.count(*generation));
            (0..renewed).for_each(|_| refusals.renewed(true));
            (0..failed).for_each(|_| refusals.not_renewed(&PlainError("no answer".to_owned())));
            let note = refusals.note("the deployment's token");
            assert_eq!(note.is_some(), !expected.is_empty(), "{refused:?}: {note:?}");
            let note = note.unwrap_or_default();
            assert!(expected.iter().all(|part| note.contains(part)), "{refused:?}: {note}");
        }
    }
}
