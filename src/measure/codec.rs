//! Encodes samples as a block of bytes: a column for each field, mostly as small differences.
//!
//! The writer and the reader are both here; the version is that of the log. Nothing is rounded: every
//! time is restored to the nanosecond. Blocks of versions 3 and 4 have HTTP's version, its address and what TCP repeated
//! among the flags of a request, and know of no other protocol. If a time can be predicted from others (an iteration's end from
//! the end of its last request, a request's waiting from its other phases), only the remainder is stored.

use crate::numbers::MeasuredNumber;
use crate::phases::{Phases, Retransmits};
use crate::protocol::Protocol;

use super::pack::{get, pack, put, skip, unpack, unzigzag, zigzag};
use super::rows::{BLOCK_GAPS, BLOCK_NUMBERS, BLOCK_ROWS_MAX, IterationHead, NUMBERS_OF_ITERATION_MAX, Rows};
use super::sample::{ActionSample, CompletionStatus};
use super::streams::{GAPS_OF_ITERATION_MAX, GapCounts, StreamSample};

/// The first version of the log whose requests may speak another protocol than HTTP.
const FIRST_OF_PROTOCOLS: u16 = 5;
/// The most streams, and different gaps in them, that a reader accepts in a block.
const STREAMS_MAX: usize = REQUESTS_MAX;
const GAPS_MAX: usize = BLOCK_GAPS + GAPS_OF_ITERATION_MAX;
/// The same for numbers that were taken from answers.
const NUMBERS_MAX: usize = BLOCK_NUMBERS + NUMBERS_OF_ITERATION_MAX;
/// The most requests that a reader accepts in a block.
const REQUESTS_MAX: usize = 1 << 18;

const ENDED_MASK: u64 = 0b11;
const WARM_UP: u64 = 0b100;
const OPENED: u64 = 0b100;
const RESENT: u64 = 0b1000;
/// Above the flags of an iteration stands its user's number, which is mostly absent.
const USER_SHIFT: u32 = 3;
const ITERATION_RESENT: u64 = 1 << (USER_SHIFT + u32::BITS);

/// The trace point of an iteration, and of its first action if no step is nested. Samples say how they differ from such
/// a plan, so that the columns of nested steps are empty without them.
const ITERATION_POINT: u64 = 1;
const FIRST_POINT: u64 = 2;

/// Logs before version 7 have no numbers: their last column is one of zeros, which is left out.
const HEAD_COLUMNS: usize = 10;
const ACTION_COLUMNS: usize = 20;
const STREAM_COLUMNS: usize = 5;
const GAP_COLUMNS: usize = 2;
const NUMBER_COLUMNS: usize = 3;
const OFFSET_COLUMN: usize = 2;
const DURATION_COLUMN: usize = 3;

/// Appends a block, its rows in order of their numbers.
///
/// At most the rows that fill a block ([`Rows::fill_a_block`]), plus one iteration.
pub fn encode(rows: &Rows, scratch: &mut Scratch, output: &mut Vec<u8>) {
    scratch.order(rows);
    put(rows.len() as u64, output);
    put(rows.requests() as u64, output);
    let mut previous = IterationHead::default();
    scratch.columns(HEAD_COLUMNS, rows.len());
    for RowPlace { head, first, .. } in &scratch.order {
        let actions = &rows.actions[*first..][..head.actions as usize];
        let end_ns = actions.last().map_or(0, |last| last.offset_ns.wrapping_add(last.duration_ns));
        let flags = head.ended as u64
            | if head.warm_up { WARM_UP } else { 0 }
            | if head.resent { ITERATION_RESENT } else { 0 }
            | u64::from(head.user) << USER_SHIFT;
        let values = [
            flags,
            u64::from(head.workload),
            zigzag(head.number.wrapping_sub(previous.number)),
            zigzag(head.due_ns.wrapping_sub(previous.due_ns)),
            zigzag(head.start_ns.wrapping_sub(head.due_ns)),
            zigzag(head.duration_ns.wrapping_sub(end_ns)),
            u64::from(head.error),
            u64::from(head.actions),
            u64::from(head.streams),
            u64::from(head.numbers),
        ];
        scratch.columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
        previous = *head;
    }
    write_columns(&scratch.columns[..HEAD_COLUMNS], output);
    scratch.columns(ACTION_COLUMNS, rows.requests());
    for RowPlace { head, first, .. } in &scratch.order {
        let mut after_ns = 0;
        for (position, action) in (0..).zip(&rows.actions[*first..][..head.actions as usize]) {
            let values = action_values(action, position, after_ns);
            scratch.columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
            after_ns = action.offset_ns.wrapping_add(action.duration_ns);
        }
    }
    write_columns(&scratch.columns[..ACTION_COLUMNS], output);
    if !rows.streams.is_empty() {
        encode_streams(rows, scratch, output);
    }
    if !rows.numbers.is_empty() {
        encode_numbers(rows, scratch, output);
    }
}

fn encode_numbers(rows: &Rows, scratch: &mut Scratch, output: &mut Vec<u8>) {
    scratch.columns(NUMBER_COLUMNS, rows.numbers.len());
    for RowPlace { head, first_number, .. } in &scratch.order {
        for number in rows.numbers.iter().skip(*first_number).take(head.numbers as usize) {
            let values = [
                u64::from(number.measure),
                u64::from(number.point).wrapping_sub(FIRST_POINT),
                number.stored(),
            ];
            let values = [values[0], zigzag(values[1]), values[2]];
            scratch.columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
        }
    }
    write_columns(&scratch.columns[..NUMBER_COLUMNS], output);
}

fn decode_numbers(input: &mut &[u8], scratch: &mut Scratch, rows: &mut Rows) -> Option<()> {
    let count: usize = rows.heads.iter().map(|head| head.numbers as usize).sum();
    if count == 0 {
        return Some(());
    }
    if count > NUMBERS_MAX {
        return None;
    }
    scratch.columns(NUMBER_COLUMNS, count);
    read_columns(input, &mut scratch.columns[..NUMBER_COLUMNS], count)?;
    for row in 0..count {
        let column = |index: usize| scratch.columns[index][row];
        let measure = u16::try_from(column(0)).ok()?;
        let point = u32::try_from(unzigzag(column(1)).wrapping_add(FIRST_POINT)).ok()?;
        rows.numbers.push(MeasuredNumber::from_stored(measure, point, column(2)));
    }
    Some(())
}

fn encode_streams(rows: &Rows, scratch: &mut Scratch, output: &mut Vec<u8>) {
    let in_order = |order: &[RowPlace]| -> Vec<usize> {
        let of = |place: &RowPlace| place.first_stream..place.first_stream + place.head.streams as usize;
        order.iter().flat_map(of).collect()
    };
    let streams: Vec<&StreamSample> =
        in_order(&scratch.order).into_iter().filter_map(|at| rows.streams.get(at)).collect();
    scratch.columns(STREAM_COLUMNS, streams.len());
    for stream in &streams {
        let values = [
            u64::from(stream.point),
            stream.messages,
            stream.first_ns,
            stream.tokens,
            stream.gaps.stored().len() as u64,
        ];
        scratch.columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
    }
    write_columns(&scratch.columns[..STREAM_COLUMNS], output);
    scratch.columns(GAP_COLUMNS, 0);
    for (bucket, count) in streams.iter().flat_map(|stream| stream.gaps.stored()) {
        scratch.columns[0].push(u64::from(*bucket));
        scratch.columns[1].push(u64::from(*count));
    }
    put(scratch.columns[0].len() as u64, output);
    write_columns(&scratch.columns[..GAP_COLUMNS], output);
}

fn decode_streams(input: &mut &[u8], scratch: &mut Scratch, rows: &mut Rows) -> Option<()> {
    let count = rows.heads.iter().map(|head| head.streams as usize).sum();
    if count == 0 {
        return Some(());
    }
    if count > STREAMS_MAX {
        return None;
    }
    scratch.columns(STREAM_COLUMNS, count);
    read_columns(input, &mut scratch.columns[..STREAM_COLUMNS], count)?;
    let mut streams = Vec::new();
    for row in 0..count {
        let column = |index: usize| scratch.columns[index][row];
        let sample = StreamSample {
            point: u32::try_from(column(0)).ok()?,
            messages: column(1),
            first_ns: column(2),
            tokens: column(3),
            gaps: GapCounts::default(),
        };
        streams.push((sample, usize::try_from(column(4)).ok()?));
    }
    let gaps = usize::try_from(get(input)?).ok().filter(|gaps| *gaps <= GAPS_MAX)?;
    scratch.columns(GAP_COLUMNS, gaps);
    read_columns(input, &mut scratch.columns[..GAP_COLUMNS], gaps)?;
    let pairs = scratch.columns[0].iter().zip(&scratch.columns[1]);
    let mut pairs =
        pairs.map(|(bucket, count)| Some((u16::try_from(*bucket).ok()?, u32::try_from(*count).ok()?)));
    for (mut sample, different) in streams {
        let own: Vec<_> = pairs.by_ref().take(different).collect::<Option<_>>()?;
        if own.len() != different {
            return None;
        }
        sample.gaps = GapCounts::from_stored(own)?;
        rows.push_streams(&[sample]);
    }
    pairs.next().is_none().then_some(())
}

fn action_values(action: &ActionSample, position: u64, after_ns: u64) -> [u64; ACTION_COLUMNS] {
    let phases = &action.phases;
    let Retransmits { syns, segments, out_of_order } = phases.retransmits;
    let retransmits = u64::from(u32::from_le_bytes([syns, segments, out_of_order, 0]));
    let flags =
        action.ended as u64 | if phases.opened { OPENED } else { 0 } | if phases.resent { RESENT } else { 0 };
    [
        flags,
        zigzag(u64::from(action.action).wrapping_sub(position)),
        zigzag(action.offset_ns.wrapping_sub(after_ns)),
        action.duration_ns,
        action.outcome.map_or(0, |outcome| u64::from(outcome) + 1),
        action.body_bytes,
        phases.resolve_ns,
        phases.connect_ns,
        phases.tls_ns,
        phases.send_ns,
        zigzag(action.duration_ns.wrapping_sub(phases.wait_ns).wrapping_sub(others_ns(phases))),
        phases.receive_ns,
        phases.before_ns,
        zigzag(u64::from(action.requests).wrapping_sub(1)),
        zigzag(u64::from(action.point).wrapping_sub(position + FIRST_POINT)),
        zigzag(u64::from(action.parent).wrapping_sub(ITERATION_POINT)),
        action.protocol as u64,
        phases.version.into(),
        phases.address.into(),
        retransmits,
    ]
}

/// The phases of the last request, except its waiting.
fn others_ns(phases: &Phases) -> u64 {
    [phases.resolve_ns, phases.connect_ns, phases.tls_ns, phases.send_ns, phases.receive_ns]
        .into_iter()
        .fold(0, u64::wrapping_add)
}

/// Columns of zeros are left out: `mask` has a bit for each of the others.
fn write_columns(columns: &[Vec<u64>], output: &mut Vec<u8>) {
    let kept = |column: &[u64]| column.iter().any(|value| *value != 0);
    let mask = (0_u64..).zip(columns).fold(0, |mask, (bit, column)| mask | (u64::from(kept(column)) << bit));
    put(mask, output);
    for column in columns.iter().filter(|column| kept(column)) {
        pack(column, output);
    }
}

fn read_columns(input: &mut &[u8], columns: &mut [Vec<u64>], count: usize) -> Option<()> {
    let mask = get(input)?;
    for (bit, column) in columns.iter_mut().enumerate() {
        if mask >> bit & 1 == 1 {
            unpack(input, count, column)?;
        } else {
            column.clear();
            column.resize(count, 0);
        }
    }
    (mask >> columns.len() == 0).then_some(())
}

/// Memory that is reused for every block.
#[derive(Default)]
pub struct Scratch {
    columns: Vec<Vec<u64>>,
    /// The rows in the order in which they are written.
    order: Vec<RowPlace>,
}

/// A row with the indices of its first request, stream and number.
struct RowPlace {
    head: IterationHead,
    first: usize,
    first_stream: usize,
    first_number: usize,
}

impl Scratch {
    /// Orders rows by their numbers, so that differences are small, although workers finish in any order.
    fn order(&mut self, rows: &Rows) {
        self.order.clear();
        let (mut first, mut first_stream, mut first_number) = (0, 0, 0);
        for head in &rows.heads {
            self.order.push(RowPlace { head: *head, first, first_stream, first_number });
            first += head.actions as usize;
            first_stream += head.streams as usize;
            first_number += head.numbers as usize;
        }
        self.order.sort_by_key(|place| (place.head.workload, place.head.number));
    }

    fn columns(&mut self, count: usize, rows: usize) {
        self.columns.resize_with(count.max(self.columns.len()), Vec::new);
        for column in &mut self.columns {
            column.clear();
            column.reserve(rows);
        }
    }
}

/// Decodes a block of a log of this version; `None` if the bytes are not a block.
pub fn decode(mut input: &[u8], version: u16, scratch: &mut Scratch, rows: &mut Rows) -> Option<()> {
    rows.clear();
    let (count, requests) = begin(&mut input, scratch)?;
    read_columns(&mut input, &mut scratch.columns[..HEAD_COLUMNS], count)?;
    decode_heads(&scratch.columns, count, requests, rows)?;
    match version {
        ..FIRST_OF_PROTOCOLS => decode_actions::<earlier::HttpOnly>(&mut input, requests, scratch, rows)?,
        _ => decode_actions::<CurrentLayout>(&mut input, requests, scratch, rows)?,
    }
    decode_streams(&mut input, scratch, rows)?;
    decode_numbers(&mut input, scratch, rows)?;
    input.is_empty().then_some(())
}

/// As [`decode`], but only the ends of the requests are read. All versions are alike in these.
pub fn decode_without_requests(mut input: &[u8], scratch: &mut Scratch, rows: &mut Rows) -> Option<()> {
    rows.clear();
    let (count, requests) = begin(&mut input, scratch)?;
    read_columns(&mut input, &mut scratch.columns[..HEAD_COLUMNS], count)?;
    decode_heads(&scratch.columns, count, requests, rows)?;
    let mask = get(&mut input)?;
    for (bit, column) in scratch.columns[..=DURATION_COLUMN].iter_mut().enumerate() {
        match (mask >> bit & 1 == 1, bit == OFFSET_COLUMN || bit == DURATION_COLUMN) {
            (true, true) => unpack(&mut input, requests, column)?,
            (true, false) => skip(&mut input, requests)?,
            (false, _) => {
                column.clear();
                column.resize(requests, 0);
            }
        }
    }
    let (offsets, durations) = (&scratch.columns[OFFSET_COLUMN], &scratch.columns[DURATION_COLUMN]);
    let mut row = 0;
    for head in &mut rows.heads {
        let of_head = row..row + head.actions as usize;
        row = of_head.end;
        let ends = offsets.get(of_head.clone())?.iter().zip(durations.get(of_head)?);
        let after_ns = ends.fold(0_u64, |after_ns, (offset, duration)| {
            after_ns.wrapping_add(unzigzag(*offset)).wrapping_add(*duration)
        });
        head.duration_ns = head.duration_ns.wrapping_add(after_ns);
    }
    Some(())
}

/// How many iterations and requests a block has.
fn begin(input: &mut &[u8], scratch: &mut Scratch) -> Option<(usize, usize)> {
    let (count, requests) = (usize::try_from(get(input)?).ok()?, usize::try_from(get(input)?).ok()?);
    if count > BLOCK_ROWS_MAX || requests > REQUESTS_MAX {
        return None;
    }
    scratch.columns(ACTION_COLUMNS, requests);
    Some((count, requests))
}

fn decode_heads(columns: &[Vec<u64>], count: usize, requests: usize, rows: &mut Rows) -> Option<()> {
    let (mut previous, mut left) = (IterationHead::default(), requests);
    for row in 0..count {
        previous = decode_head(columns, row, &previous)?;
        left = left.checked_sub(previous.actions as usize)?;
        rows.heads.push(previous);
    }
    (left == 0).then_some(())
}

fn decode_head(columns: &[Vec<u64>], row: usize, previous: &IterationHead) -> Option<IterationHead> {
    let column = |index: usize| columns[index][row];
    let flags = column(0);
    let due_ns = previous.due_ns.wrapping_add(unzigzag(column(3)));
    Some(IterationHead {
        number: previous.number.wrapping_add(unzigzag(column(2))),
        due_ns,
        start_ns: due_ns.wrapping_add(unzigzag(column(4))),
        // The time after the last request; the end of that request is added when it is known.
        duration_ns: unzigzag(column(5)),
        error: u32::try_from(column(6)).ok()?,
        actions: u32::try_from(column(7)).ok()?,
        streams: u32::try_from(column(8)).ok()?,
        numbers: u32::try_from(column(9)).ok()?,
        workload: u16::try_from(column(1)).ok()?,
        ended: CompletionStatus::from_u8((flags & ENDED_MASK) as u8)?,
        warm_up: flags & WARM_UP != 0,
        resent: flags & ITERATION_RESENT != 0,
        user: (flags >> USER_SHIFT) as u32,
    })
}

fn decode_actions<L: Layout>(
    input: &mut &[u8],
    requests: usize,
    scratch: &mut Scratch,
    rows: &mut Rows,
) -> Option<()> {
    read_columns(input, &mut scratch.columns[..L::COLUMNS], requests)?;
    let columns = &scratch.columns;
    let mut row = 0;
    let Rows { heads, actions, .. } = rows;
    for head in heads {
        let mut after_ns = 0_u64;
        for position in 0..u64::from(head.actions) {
            let about = L::about(|index| columns[index][row])?;
            let action = decode_action(columns, row, (position, after_ns), about)?;
            after_ns = action.offset_ns.checked_add(action.duration_ns)?;
            actions.push(action);
            row += 1;
        }
        head.duration_ns = head.duration_ns.wrapping_add(after_ns);
        // Later sums must not overflow.
        head.start_ns.checked_add(head.duration_ns).filter(|end_ns| *end_ns < i64::MAX as u64)?;
    }
    Some(())
}

/// How a request was sent and answered: what versions of the log store in different ways.
struct RequestDetails {
    protocol: Protocol,
    outcome: Option<u16>,
    /// All but the times.
    phases: Phases,
}

/// The columns of requests in some versions of the log.
trait Layout {
    /// How many.
    const COLUMNS: usize;
    /// Reads what its columns hold of a request.
    fn about(column: impl Fn(usize) -> u64) -> Option<RequestDetails>;
}

struct CurrentLayout;

impl Layout for CurrentLayout {
    const COLUMNS: usize = ACTION_COLUMNS;

    fn about(column: impl Fn(usize) -> u64) -> Option<RequestDetails> {
        let (flags, outcome) = (column(0), column(4));
        let [syns, segments, out_of_order, ..] = column(19).to_le_bytes();
        Some(RequestDetails {
            protocol: Protocol::from_u8(u8::try_from(column(16)).ok()?)?,
            outcome: match outcome.checked_sub(1) {
                Some(outcome) => Some(u16::try_from(outcome).ok()?),
                None => None,
            },
            phases: Phases {
                opened: flags & OPENED != 0,
                resent: flags & RESENT != 0,
                version: u8::try_from(column(17)).ok()?,
                address: u16::try_from(column(18)).ok()?,
                retransmits: Retransmits { syns, segments, out_of_order },
                ..Phases::default()
            },
        })
    }
}

/// Requests of logs of versions 3 and 4.
mod earlier {
    use super::{Layout, OPENED, Phases, Protocol, RequestDetails, Retransmits};

    const HTTP2: u64 = 0b1000;
    const ADDRESS_SHIFT: u32 = 4;
    const RESENT: u64 = 1 << (ADDRESS_SHIFT + u16::BITS);
    /// Requests to connect, segments, and segments that came out of order.
    const RETRANSMITS_SHIFT: u32 = ADDRESS_SHIFT + u16::BITS + 1;

    pub(super) struct HttpOnly;

    impl Layout for HttpOnly {
        const COLUMNS: usize = 16;

        fn about(column: impl Fn(usize) -> u64) -> Option<RequestDetails> {
            let flags = column(0);
            let [syns, segments, out_of_order, ..] = (flags >> RETRANSMITS_SHIFT).to_le_bytes();
            Some(RequestDetails {
                protocol: Protocol::Http,
                outcome: Some(u16::try_from(column(4)).ok()?).filter(|status| *status != 0),
                phases: Phases {
                    opened: flags & OPENED != 0,
                    version: u8::from(flags & HTTP2 != 0),
                    resent: flags & RESENT != 0,
                    address: (flags >> ADDRESS_SHIFT) as u16,
                    retransmits: Retransmits { syns, segments, out_of_order },
                    ..Phases::default()
                },
            })
        }
    }
}

fn decode_action(
    columns: &[Vec<u64>],
    row: usize,
    (position, after_ns): (u64, u64),
    about: RequestDetails,
) -> Option<ActionSample> {
    let column = |index: usize| columns[index][row];
    let flags = column(0);
    let mut phases = Phases {
        resolve_ns: column(6),
        connect_ns: column(7),
        tls_ns: column(8),
        send_ns: column(9),
        receive_ns: column(11),
        before_ns: column(12),
        ..about.phases
    };
    let duration_ns = column(3);
    phases.wait_ns = duration_ns.wrapping_sub(others_ns(&phases)).wrapping_sub(unzigzag(column(10)));
    Some(ActionSample {
        action: u16::try_from(position.wrapping_add(unzigzag(column(1)))).ok()?,
        offset_ns: after_ns.wrapping_add(unzigzag(column(2))),
        duration_ns,
        phases,
        protocol: about.protocol,
        outcome: about.outcome,
        body_bytes: column(5),
        ended: CompletionStatus::from_u8((flags & ENDED_MASK) as u8)?,
        requests: u32::try_from(unzigzag(column(13)).wrapping_add(1)).ok()?,
        point: u32::try_from(unzigzag(column(14)).wrapping_add(position + FIRST_POINT)).ok()?,
        parent: u32::try_from(unzigzag(column(15)).wrapping_add(ITERATION_POINT)).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::log::VERSION;
    use super::super::sample::IterationSample;
    use super::*;
    use proptest::prelude::*;

    prop_compose! {
        fn action()(action: u16, offset_ns in 0..1_u64 << 40, duration_ns in 0..1_u64 << 40,
            outcome: Option<u16>, body_bytes: u32, opened: bool, version: u8, resent: bool, times: [u32; 7], ended in 0..4_u8,
            numbers: [u32; 3], address: u16, repeated: [u8; 3]) -> ActionSample {
            let [requests, point, parent] = numbers;
            let on = |value: u32| if opened { u64::from(value) } else { 0 };
            ActionSample { action, offset_ns, duration_ns, protocol: Protocol::Http, outcome, body_bytes: body_bytes.into(), requests, point, parent,
                ended: CompletionStatus::from_u8(ended).unwrap(),
                phases: Phases { opened, resolve_ns: on(times[0]), connect_ns: on(times[1]), tls_ns: on(times[2]),
                    send_ns: times[3].into(), wait_ns: times[4].into(), receive_ns: times[5].into(), before_ns: times[6].into(), version, resent, address,
                    retransmits: Retransmits { syns: repeated[0], segments: repeated[1], out_of_order: repeated[2] } } }
        }
    }
    prop_compose! {
        fn stream()(point: u32, messages: u64, first_ns: u64, tokens: u64, gaps in proptest::collection::vec(0..1_u64 << 40, 0..9)) -> StreamSample {
            let mut sample = StreamSample { point, messages, first_ns, tokens, ..StreamSample::default() };
            gaps.into_iter().for_each(|gap_ns| sample.gaps.add(gap_ns));
            sample
        }
    }
    prop_compose! {
        fn number()(measure: u16, point: u32, value: Option<f64>) -> MeasuredNumber {
            MeasuredNumber::new(measure, point, value)
        }
    }
    prop_compose! {
        fn sample()(workload: u16, number: u64, start_ns in 0..1_u64 << 50, late_ns in 0..1_u64 << 30,
            duration_ns in 0..1_u64 << 40, warm_up: bool, ended in 0..4_u8, error: u32, user: u32,
            streams in proptest::collection::vec(stream(), 0..3),
            numbers in proptest::collection::vec(number(), 0..4),
            actions in proptest::collection::vec(action(), 0..4)) -> IterationSample {
            IterationSample { workload, number, warm_up, start_ns, due_ns: start_ns.saturating_sub(late_ns), duration_ns,
                ended: CompletionStatus::from_u8(ended).unwrap(), error, user, actions, streams, numbers }
        }
    }

    fn rows(samples: &[IterationSample]) -> Rows {
        let mut rows = Rows::default();
        samples.iter().for_each(|sample| rows.push(sample));
        rows
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(mut samples in proptest::collection::vec(sample(), 0..20)) {
            let (mut bytes, mut scratch, mut read) = (Vec::new(), Scratch::default(), Rows::default());
            encode(&rows(&samples), &mut scratch, &mut bytes);
            decode(&bytes, VERSION, &mut scratch, &mut read).unwrap();
            samples.sort_by_key(|sample| (sample.workload, sample.number));
            prop_assert_eq!(read.iter().map(|row| row.to_sample()).collect::<Vec<_>>(), samples);
            let heads = std::mem::take(&mut read.heads);
            decode_without_requests(&bytes, &mut scratch, &mut read).unwrap();
            prop_assert_eq!((read.heads, read.actions), (heads, Vec::new()));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut rows = Rows::default();
            for version in 3..=VERSION {
                let _ = decode(&bytes, version, &mut Scratch::default(), &mut rows);
            }
            let _ = decode_without_requests(&bytes, &mut Scratch::default(), &mut rows);
        }

        #[test]
        fn no_damage_makes_it_panic(samples in proptest::collection::vec(sample(), 1..20), at: usize, byte: u8) {
            let (mut bytes, mut scratch, mut read) = (Vec::new(), Scratch::default(), Rows::default());
            encode(&rows(&samples), &mut scratch, &mut bytes);
            let at = at % bytes.len();
            bytes[at] = byte;
            if decode(&bytes, VERSION, &mut scratch, &mut read).is_some() {
                prop_assert_eq!(read.iter().map(|row| row.actions.len()).sum::<usize>(), read.requests());
            }
            let _ = decode_without_requests(&bytes, &mut scratch, &mut read);
        }
    }
}
