//! A simulated database: every query is a timer.
//!
//! A query opens a trace point `db` with a statement and its parameters, sleeps for the statement's
//! time, and returns nothing; the demo's data are in memory. Times differ by up to 10 % from query to
//! query, and tokio's timer rounds them up to whole milliseconds. Nothing here may decide at random
//! which request is slow: [`RoleCache`] is a function of the look-up's number.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::flow::Flow;
use base::clock::saturating_nanos;
use plan::deployment::EmbeddedDemoOptions as Options;

/// The number of look-ups that share a plan of misses.
const BLOCK_LEN: u64 = 1_000;
const PARTS_PER_MILLION: f64 = 1e6;
/// If a wait takes longer than planned by more than this, the machine caused it, and it is not compensated.
const LATE_NS_MAX: i64 = 1_000_000;

/// A statement and its duration.
pub(super) struct Query {
    statement: &'static str,
    typical: Duration,
}

pub(super) const REVOCATIONS: Query = Query {
    statement: "SELECT revocation_event.id, revocation_event.issued_before FROM revocation_event \
                WHERE revocation_event.user_id = ?",
    typical: Duration::from_micros(300),
};
pub(super) const USER_BY_ID: Query = Query {
    statement: "SELECT user.id, user.domain_id, user.enabled, user.extra FROM user WHERE user.id = ?",
    typical: Duration::from_micros(500),
};
pub(super) const USER_BY_NAME: Query = Query {
    statement: "SELECT local_user.user_id, local_user.name FROM local_user \
                WHERE local_user.domain_id = ? AND local_user.name = ?",
    typical: Duration::from_micros(600),
};
pub(super) const PASSWORD_HASH: Query = Query {
    statement: "SELECT password.password_hash, password.expires_at FROM password \
                WHERE password.local_user_id = ? ORDER BY password.created_at DESC LIMIT 1",
    typical: Duration::from_micros(700),
};
pub(super) const LAST_ACTIVE: Query = Query {
    statement: "UPDATE user SET last_active_at = ? WHERE user.id = ?",
    typical: Duration::from_micros(1_800),
};
pub(super) const USERS: Query = Query {
    statement: "SELECT user.id, user.domain_id, user.enabled, local_user.name FROM user \
                JOIN local_user ON local_user.user_id = user.id ORDER BY user.id LIMIT ?",
    typical: Duration::from_micros(1_900),
};
pub(super) const USER_COUNT: Query = Query {
    statement: "SELECT count(*) FROM user WHERE user.enabled = ?",
    typical: Duration::from_micros(400),
};
pub(super) const GROUPS: Query = Query {
    statement: "SELECT user_group_membership.group_id FROM user_group_membership \
                WHERE user_group_membership.user_id = ?",
    typical: Duration::from_micros(800),
};
pub(super) const ROLES: Query = Query {
    statement: "SELECT role.id, role.name, role.domain_id FROM role WHERE role.id IN (?, ?)",
    typical: Duration::from_micros(500),
};
const ASSIGNMENTS: &str = "SELECT assignment.role_id, assignment.target_id, assignment.inherited \
                           FROM assignment WHERE assignment.actor_id = ?";

/// Simulates the time of queries.
pub(super) struct Database {
    seed: u64,
    queries: AtomicU64,
    slow_query: Duration,
    slowdown: f64,
    /// The total by which waits for the slowdown were too short so far, in nanoseconds; negative if too long.
    owed_ns: AtomicI64,
    /// One permit for each connection, if their number is bounded.
    connections: Option<Semaphore>,
}

impl Database {
    pub(super) fn new(seed: u64, options: &Options) -> Self {
        Self {
            seed,
            queries: AtomicU64::new(0),
            slow_query: options.slow_query,
            slowdown: options.slowdown,
            owed_ns: AtomicI64::new(0),
            connections: options.pool.map(|pool| Semaphore::new(pool as usize)),
        }
    }

    /// Runs a query as a point below `flow`.
    pub(super) async fn run(&self, flow: &Flow, query: &Query, params: impl FnOnce() -> Value) {
        let number = self.queries.fetch_add(1, Ordering::Relaxed);
        let percent = 90 + u32::try_from(mix(self.seed ^ number) % 21).unwrap_or_default();
        let _connection = self.connection().await;
        let _point =
            flow.enter("db", || vec![("db", json!({ "statement": query.statement, "params": params() }))]);
        self.take(query.typical * percent / 100).await;
    }

    /// Runs the query without an index, for an actor whose roles are not cached.
    pub(super) async fn scan_assignments(&self, flow: &Flow, actor: &str) {
        let _connection = self.connection().await;
        let _point = flow.enter("db", || {
            vec![
                ("db", json!({ "statement": ASSIGNMENTS, "params": [actor] })),
                ("cache", json!("miss")),
                ("index", Value::Null),
            ]
        });
        self.take(self.slow_query).await;
    }

    /// A connection of the pool, once one is free. The wait is before the query's point, as with most libraries.
    async fn connection(&self) -> Option<SemaphorePermit<'_>> {
        match &self.connections {
            // It is never closed.
            Some(connections) => connections.acquire().await.ok(),
            None => None,
        }
    }

    /// Waits for the time of a query. If the demo is slowed down, waits for a share of the actual time in addition. A
    /// thread does that second wait, because tokio's timer would round it to whole milliseconds.
    async fn take(&self, time: Duration) {
        let started = Instant::now();
        tokio::time::sleep(time).await;
        if self.slowdown > 0.0 {
            self.take_longer(saturating_nanos(started.elapsed().mul_f64(self.slowdown))).await;
        }
    }

    /// Threads wake up late. Later waits are shorter by that time, so that the sum is right.
    async fn take_longer(&self, share_ns: u64) {
        let share_ns = i64::try_from(share_ns).unwrap_or(i64::MAX);
        let due_ns = share_ns.saturating_add(self.owed_ns.swap(0, Ordering::Relaxed));
        let Ok(wait_ns @ 1..) = u64::try_from(due_ns) else {
            self.owed_ns.fetch_add(due_ns, Ordering::Relaxed);
            return;
        };
        let started = Instant::now();
        // This fails only when the demo ends.
        let _ = tokio::task::spawn_blocking(move || std::thread::sleep(Duration::from_nanos(wait_ns))).await;
        let waited_ns = i64::try_from(saturating_nanos(started.elapsed())).unwrap_or(i64::MAX);
        let owed_ns = due_ns.saturating_sub(waited_ns).max(-LATE_NS_MAX);
        self.owed_ns.fetch_add(owed_ns, Ordering::Relaxed);
    }
}

/// Decides which look-ups miss the role cache.
///
/// Each block of 1,000 look-ups has exactly its share of misses; a fractional miss is carried to later
/// blocks. Misses are spread evenly over intervals, and the seed decides the place within each interval.
/// With a fixed distance, a scenario that takes the users in turn would always hit the same users.
pub(super) struct RoleCache {
    seed: u64,
    misses_per_million: u64,
    look_ups: AtomicU64,
}

impl RoleCache {
    pub(super) fn new(seed: u64, options: &Options) -> Self {
        let share = if options.slow_share.is_nan() { 0.0 } else { options.slow_share.clamp(0.0, 1.0) };
        let misses_per_million = (share * PARTS_PER_MILLION).round() as u64;
        Self { seed, misses_per_million, look_ups: AtomicU64::new(0) }
    }

    /// Counts a look-up. Returns true if it misses.
    pub(super) fn misses(&self) -> bool {
        self.is_miss(self.look_ups.fetch_add(1, Ordering::Relaxed))
    }

    fn is_miss(&self, number: u64) -> bool {
        let (block, place) = (number / BLOCK_LEN, number % BLOCK_LEN);
        let until = |block: u64| block.wrapping_mul(self.misses_per_million) / BLOCK_LEN;
        let misses = until(block + 1) - until(block);
        if misses == 0 {
            return false;
        }
        // The interval [k·1000/misses, (k+1)·1000/misses) that contains this place.
        let interval = ((place + 1) * misses - 1) / BLOCK_LEN;
        let start = interval * BLOCK_LEN / misses;
        let len = (interval + 1) * BLOCK_LEN / misses - start;
        place == start + mix(self.seed ^ mix(block * BLOCK_LEN + interval)) % len
    }
}

/// A hash of `value` (the finalizer of SplitMix64).
fn mix(value: u64) -> u64 {
    let mut mixed = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_look_ups_miss_exactly_their_share() {
        for (slow_share, expected) in [
            (0.0, 0),
            (0.001, 1),
            (0.02, 20),
            (0.3, 300),
            (0.999, 999),
            (1.0, 1_000),
            (7.0, 1_000),
            (f64::NAN, 0),
        ] {
            for seed in 0..20 {
                let cache = RoleCache::new(seed, &Options { slow_share, ..Options::default() });
                for block in 0..3 {
                    let misses = (0..1_000).filter(|_| cache.misses()).count();
                    assert_eq!(misses, expected, "share {slow_share}, seed {seed}, block {block}");
                }
            }
        }
    }

    #[test]
    fn a_fractional_miss_is_carried_to_later_blocks() {
        let cache = RoleCache::new(1, &Options { slow_share: 0.000_25, ..Options::default() });
        assert_eq!((0..40_000).filter(|_| cache.misses()).count(), 10);
    }

    #[test]
    fn misses_are_spread_and_do_not_follow_the_users() {
        let cache = RoleCache::new(42, &Options::default());
        let misses: Vec<u64> = (0..10_000).filter(|&number| cache.is_miss(number)).collect();
        assert_eq!(misses.len(), 200);
        assert!(misses.windows(2).all(|pair| pair[1] - pair[0] < 100));
        let users: std::collections::HashSet<u64> = misses.iter().map(|number| number % 50).collect();
        assert!(users.len() > 30, "{} users", users.len());
        let other = RoleCache::new(43, &Options::default());
        assert!((0..1_000).any(|number| cache.is_miss(number) != other.is_miss(number)));
    }
}
