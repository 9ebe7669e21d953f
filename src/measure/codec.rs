//! Samples as bytes: numbers of variable length, most of them small differences.
//!
//! Writer and reader stand together; the version is the log's.

use crate::client::Phases;

use super::sample::{ActionSample, Ended, IterationSample};

/// The most requests of one iteration that a reader accepts.
const ACTIONS_MAX: u64 = 100_000;

const ENDED_MASK: u8 = 0b11;
const HAS_ERROR: u8 = 0b100;
const WARM_UP: u8 = 0b1000;
const OPENED: u8 = 0b100;
const HTTP2: u8 = 0b1000;
const REDIRECTED: u8 = 0b1_0000;

/// What the next sample is written as a difference to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Previous {
    number: u64,
    start_ns: u64,
}

/// Appends a sample.
pub fn encode(sample: &IterationSample, previous: &mut Previous, output: &mut Vec<u8>) {
    let flags = sample.ended as u8 | flag(sample.error != 0, HAS_ERROR) | flag(sample.warm_up, WARM_UP);
    output.push(flags);
    put(u64::from(sample.workload), output);
    put_signed(sample.number.wrapping_sub(previous.number), output);
    put_signed(sample.start_ns.wrapping_sub(previous.start_ns), output);
    put(sample.start_ns.saturating_sub(sample.due_ns), output);
    put(sample.duration_ns, output);
    if sample.error != 0 {
        put(u64::from(sample.error), output);
    }
    put(sample.actions.len() as u64, output);
    let mut end_ns = 0;
    for action in &sample.actions {
        encode_action(action, end_ns, output);
        end_ns = action.offset_ns + action.duration_ns;
    }
    *previous = Previous { number: sample.number, start_ns: sample.start_ns };
}

fn encode_action(action: &ActionSample, after_ns: u64, output: &mut Vec<u8>) {
    let phases = &action.phases;
    let redirected = phases.redirect_ns > 0;
    let flags = flag(phases.opened, OPENED) | flag(phases.http2, HTTP2) | flag(redirected, REDIRECTED);
    output.push(action.ended as u8 | flags);
    put(u64::from(action.action), output);
    put_signed(action.offset_ns.wrapping_sub(after_ns), output);
    put(action.duration_ns, output);
    put(u64::from(action.status), output);
    put(action.body_bytes, output);
    if phases.opened {
        put(phases.resolve_ns, output);
        put(phases.connect_ns, output);
        put(phases.tls_ns, output);
    }
    put(phases.send_ns, output);
    put(phases.wait_ns, output);
    put(phases.receive_ns, output);
    if redirected {
        put(phases.redirect_ns, output);
    }
}

fn flag(set: bool, flag: u8) -> u8 {
    if set { flag } else { 0 }
}

/// Takes one sample off the front of `input`; `None` when the bytes are no sample.
pub fn decode(input: &mut &[u8], previous: &mut Previous) -> Option<IterationSample> {
    let flags = byte(input)?;
    let mut sample = IterationSample {
        ended: Ended::from_u8(flags & ENDED_MASK)?,
        workload: u16::try_from(get(input)?).ok()?,
        number: previous.number.wrapping_add(get_signed(input)?),
        start_ns: previous.start_ns.wrapping_add(get_signed(input)?),
        warm_up: flags & WARM_UP != 0,
        ..IterationSample::default()
    };
    sample.due_ns = sample.start_ns.checked_sub(get(input)?)?;
    sample.duration_ns = get(input)?;
    if flags & HAS_ERROR != 0 {
        sample.error = u32::try_from(get(input)?).ok()?;
    }
    let actions = get(input)?;
    if actions > ACTIONS_MAX || actions > input.len() as u64 {
        return None;
    }
    let mut end_ns: u64 = 0;
    for _ in 0..actions {
        let action = decode_action(input, end_ns)?;
        end_ns = action.offset_ns.checked_add(action.duration_ns)?;
        sample.actions.push(action);
    }
    sample.start_ns.checked_add(sample.duration_ns)?;
    *previous = Previous { number: sample.number, start_ns: sample.start_ns };
    Some(sample)
}

fn decode_action(input: &mut &[u8], after_ns: u64) -> Option<ActionSample> {
    let flags = byte(input)?;
    let mut action = ActionSample {
        ended: Ended::from_u8(flags & ENDED_MASK)?,
        action: u16::try_from(get(input)?).ok()?,
        offset_ns: after_ns.wrapping_add(get_signed(input)?),
        duration_ns: get(input)?,
        status: u16::try_from(get(input)?).ok()?,
        body_bytes: get(input)?,
        phases: Phases { opened: flags & OPENED != 0, http2: flags & HTTP2 != 0, ..Phases::default() },
    };
    if action.phases.opened {
        action.phases.resolve_ns = get(input)?;
        action.phases.connect_ns = get(input)?;
        action.phases.tls_ns = get(input)?;
    }
    action.phases.send_ns = get(input)?;
    action.phases.wait_ns = get(input)?;
    action.phases.receive_ns = get(input)?;
    if flags & REDIRECTED != 0 {
        action.phases.redirect_ns = get(input)?;
    }
    Some(action)
}

fn put(mut value: u64, output: &mut Vec<u8>) {
    while value >= 0x80 {
        output.push(value as u8 | 0x80);
        value >>= 7;
    }
    output.push(value as u8);
}

/// A difference, as a small number whichever way it points (zigzag).
fn put_signed(difference: u64, output: &mut Vec<u8>) {
    let signed = difference as i64;
    put(((signed << 1) ^ (signed >> 63)) as u64, output);
}

fn byte(input: &mut &[u8]) -> Option<u8> {
    let (first, rest) = input.split_first()?;
    *input = rest;
    Some(*first)
}

fn get(input: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let next = byte(input)?;
        let bits = u64::from(next & 0x7f);
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if next & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn get_signed(input: &mut &[u8]) -> Option<u64> {
    let value = get(input)?;
    Some((value >> 1) ^ (value & 1).wrapping_neg())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    prop_compose! {
        fn action()(action: u16, offset_ns in 0..1_u64 << 40, duration_ns in 0..1_u64 << 40,
            status in 0..600_u16, body_bytes: u32, opened: bool, http2: bool, times: [u32; 7], ended in 0..4_u8) -> ActionSample {
            let on = |value: u32| if opened { u64::from(value) } else { 0 };
            ActionSample { action, offset_ns, duration_ns, status, body_bytes: body_bytes.into(),
                ended: Ended::from_u8(ended).unwrap(),
                phases: Phases { opened, resolve_ns: on(times[0]), connect_ns: on(times[1]), tls_ns: on(times[2]),
                    send_ns: times[3].into(), wait_ns: times[4].into(), receive_ns: times[5].into(), redirect_ns: times[6].into(), http2 } }
        }
    }
    prop_compose! {
        fn sample()(workload: u16, number: u64, start_ns in 0..1_u64 << 50, late_ns in 0..1_u64 << 30,
            duration_ns in 0..1_u64 << 40, warm_up: bool, ended in 0..4_u8, error: u32,
            actions in proptest::collection::vec(action(), 0..4)) -> IterationSample {
            IterationSample { workload, number, warm_up, start_ns, due_ns: start_ns.saturating_sub(late_ns), duration_ns,
                ended: Ended::from_u8(ended).unwrap(), error, actions }
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(samples in proptest::collection::vec(sample(), 0..20)) {
            let (mut bytes, mut previous) = (Vec::new(), Previous::default());
            for sample in &samples {
                encode(sample, &mut previous, &mut bytes);
            }
            let (mut input, mut previous) = (bytes.as_slice(), Previous::default());
            for sample in &samples {
                prop_assert_eq!(&decode(&mut input, &mut previous).unwrap(), sample);
            }
            prop_assert!(input.is_empty());
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let (mut input, mut previous) = (bytes.as_slice(), Previous::default());
            while decode(&mut input, &mut previous).is_some() {}
        }
    }

    #[test]
    fn an_ordinary_iteration_takes_few_bytes() {
        let (mut bytes, mut previous) = (Vec::new(), Previous::default());
        for number in 0..1000 {
            let phases = Phases { send_ns: 9_000, wait_ns: 900_000, receive_ns: 7_000, ..Phases::default() };
            let action = ActionSample {
                duration_ns: 950_000 + number,
                status: 200,
                body_bytes: 612,
                phases,
                ..ActionSample::default()
            };
            let start_ns = number * 1_000_000;
            let sample = IterationSample {
                number,
                due_ns: start_ns,
                start_ns,
                duration_ns: 960_000 + number,
                actions: vec![action],
                ..IterationSample::default()
            };
            encode(&sample, &mut previous, &mut bytes);
        }
        assert!(bytes.len() <= 32_000, "{} bytes for 1000 iterations", bytes.len());
    }
}
