//! Which services sent the spans of which traces, to know when no more are to be expected after the load.
//!
//! A service holds its spans back for some seconds, and each service sends when it likes. So a trace that has spans,
//! even of its first service and with its root, may lack the spans of another service, and no count tells. But if
//! traces that are old enough to be complete have spans of certain services, younger ones will have them too.

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, VecDeque};
use std::hash::{Hash as _, Hasher as _};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A service is one that sends the same resource. More than this many are not told apart.
const SENDERS_MAX: usize = 64;
/// The latest traces that are known: those that came in while exporters may hold spans back.
const TRACES_MAX: usize = 1 << 15;
/// This many of the latest traces must also have spans of all usual services. A trace that was under way when a service
/// sent has a part of that service's spans, so it looks as it should.
const LATEST: usize = 32;
/// What comes this much later than the end of the load was put together after it.
const ON_THE_WAY: Duration = Duration::from_millis(300);

/// Who sent what.
#[derive(Default)]
pub(super) struct Senders {
    state: Mutex<SenderHistory>,
}

#[derive(Default)]
struct SenderHistory {
    /// The number of each sender, by the hash of its resource.
    numbers: HashMap<u64, usize>,
    /// By number.
    senders: Vec<Sender>,
    too_many: bool,
    traces: HashMap<u128, TraceSenders>,
    /// The traces, oldest first.
    order: VecDeque<u128>,
}

#[derive(Clone, Copy)]
struct Sender {
    last: Instant,
    /// The longest time between two messages; that of a service that sends every few seconds, but for the last ones.
    longest_gap: Option<Duration>,
}

impl Sender {
    /// Whether it sent what it had after the load.
    fn has_sent_after(&self, load_ended: Instant) -> bool {
        self.last >= load_ended + ON_THE_WAY
    }

    /// Whether it would have sent again by now if it had anything.
    fn is_silent(&self, now: Instant) -> bool {
        self.longest_gap.is_some_and(|gap| now >= self.last + gap + ON_THE_WAY)
    }
}

#[derive(Clone, Copy)]
struct TraceSenders {
    /// A bit for each sender.
    senders: u64,
    first: Instant,
}

impl Senders {
    /// Notes an encoded `ResourceSpans` message of a trace.
    pub(super) fn note(&self, trace_id: u128, resource_spans: &[u8], now: Instant) {
        let mut hasher = DefaultHasher::new();
        resource(resource_spans).hash(&mut hasher);
        self.state.lock().unwrap_or_else(PoisonError::into_inner).note(trace_id, hasher.finish(), now);
    }

    /// Whether the traces have spans of all services that they are expected to have. `held_back` is how long a service may
    /// keep a span before it sends it.
    pub(super) fn are_done(
        &self,
        traces: impl Iterator<Item = u128>,
        load_ended: Instant,
        held_back: Duration,
        now: Instant,
    ) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = |id: u128| state.traces.get(&id).copied();
        let seen: Vec<TraceSenders> =
            traces.chain(state.order.iter().rev().take(LATEST).copied()).filter_map(seen).collect();
        let is_old = |seen: &&TraceSenders| now.saturating_duration_since(seen.first) >= held_back;
        let old: Vec<&TraceSenders> = seen.iter().filter(is_old).collect();
        if state.too_many || old.is_empty() {
            return false;
        }
        state.senders.iter().enumerate().all(|(number, sender)| {
            let has_sent = |seen: &TraceSenders| seen.senders >> number & 1 == 1;
            let is_usual = 20 * old.iter().filter(|seen| has_sent(seen)).count() >= 19 * old.len();
            // Nothing says which traces the others are part of.
            sender.has_sent_after(load_ended) && (!is_usual || seen.iter().all(has_sent))
                || is_usual && seen.iter().all(has_sent) && sender.is_silent(now)
        })
    }
}

impl SenderHistory {
    fn note(&mut self, trace_id: u128, resource: u64, now: Instant) {
        let next = self.numbers.len();
        if next == SENDERS_MAX && !self.numbers.contains_key(&resource) {
            self.too_many = true;
            return;
        }
        let number = *self.numbers.entry(resource).or_insert(next);
        match self.senders.get_mut(number) {
            None => self.senders.push(Sender { last: now, longest_gap: None }),
            Some(sender) => {
                let gap = now.saturating_duration_since(sender.last);
                (sender.last, sender.longest_gap) = (now, sender.longest_gap.max(Some(gap)));
            }
        }
        let (traces, order) = (&mut self.traces, &mut self.order);
        let seen = traces.entry(trace_id).or_insert_with(|| {
            order.push_back(trace_id);
            TraceSenders { senders: 0, first: now }
        });
        seen.senders |= 1 << number;
        if order.len() > TRACES_MAX
            && let Some(oldest) = order.pop_front()
        {
            traces.remove(&oldest);
        }
    }
}

/// The resource of an encoded `ResourceSpans` message, which is its first field; empty if it is not.
fn resource(message: &[u8]) -> &[u8] {
    let Some((&0x0A, rest)) = message.split_first() else { return &[] };
    let (mut length, mut shift) = (0_usize, 0);
    for (at, byte) in rest.iter().enumerate().take(5) {
        length |= usize::from(byte & 0x7F) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            return rest.get(at + 1..).and_then(|rest| rest.get(..length)).unwrap_or_default();
        }
    }
    &[]
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELD_BACK: Duration = Duration::from_secs(6);

    /// What a service of this name sends.
    fn sent(service: u8) -> Vec<u8> {
        vec![0x0A, 1, service, 0x12, 1, service + 1]
    }

    #[test]
    fn a_trace_waits_for_the_services_that_older_ones_have() {
        // Per trace: the service that sent spans of it, and when, in seconds. Asked at 10 s about a load that ended at 9 s.
        for (what, traces, done) in [
            ("all are here, and sent after the load", "shop 1, delivery 2; shop 10, delivery 10", true),
            ("one may send again", "shop 1, delivery 2; shop 10, delivery 9", false),
            ("one service is late", "shop 1, delivery 2; shop 10", false),
            ("no trace is old enough", "shop 8; shop 9", false),
            (
                "both are silent for longer than ever",
                "shop 1, delivery 1; shop 2, delivery 2; shop 3, delivery 3",
                true,
            ),
            ("a rare service is late", "shop 1; shop 1; shop 10, mail 9", false),
            ("a rare service has sent again", "shop 1; shop 1; shop 10, mail 10", true),
        ] {
            let (senders, began) = (Senders::default(), Instant::now());
            let at = |second: u64| began + Duration::from_secs(second);
            for (id, sends) in (0..).zip(traces.split("; ")) {
                for (service, second) in sends.split(", ").map(|send| send.split_once(' ').unwrap()) {
                    senders.note(id, &sent(service.as_bytes()[0]), at(second.parse().unwrap()));
                }
            }
            assert_eq!(senders.are_done(0..3, at(9), HELD_BACK, at(10)), done, "{what}");
        }
        assert!(!Senders::default().are_done(0..3, Instant::now(), HELD_BACK, Instant::now()));
    }

    #[test]
    fn memory_is_bounded_and_more_senders_than_bits_are_waited_for() {
        let (senders, now) = (Senders::default(), Instant::now());
        let many = TRACES_MAX as u128 + 10;
        (0..many).for_each(|id| senders.note(id, &sent(1), now));
        let later = now + HELD_BACK;
        assert_eq!(senders.state.lock().unwrap().traces.len(), TRACES_MAX);
        assert!(senders.are_done(0..many, now, HELD_BACK, later));
        (0..=SENDERS_MAX as u8).for_each(|service| senders.note(1, &sent(service), now));
        assert!(!senders.are_done(0..many, now, HELD_BACK, later));
    }

    #[test]
    fn the_resource_is_found_and_nothing_panics() {
        assert_eq!(resource(&[0x0A, 2, 7, 8, 0x12, 0]), [7, 8]);
        for bytes in [&[][..], &[0x0A], &[0x0A, 9, 1], &[0x0A, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF], &[0x12, 1, 1]] {
            assert_eq!(resource(bytes), [0_u8; 0], "{bytes:?}");
        }
    }
}
