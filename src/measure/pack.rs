//! Packs columns of numbers into few bits: each value is stored as its difference from the smallest, with as
//! many bits as most values need. The few larger values are stored separately, with their positions.
//!
//! The low bits of timings are noise, which no compressor can shorten. This packing saves the high bits, at
//! memory speed and without a dependency. It is lossless.

/// The most values of a column that a reader accepts.
const VALUES_MAX: usize = 1 << 20;

/// Appends a column.
pub(super) fn pack(values: &[u64], output: &mut Vec<u8>) {
    let first = values.first().copied().unwrap_or(0);
    if values.iter().fold(0, |differences, value| differences | (value ^ first)) == 0 {
        // One value, no bits, no exceptions: most columns of most loads.
        output.push(0);
        put(first, output);
        return put(0, output);
    }
    let least = values.iter().copied().min().unwrap_or(0);
    let width = best_width(values, least);
    output.push(width);
    put(least, output);
    let exceptional = |value: u64| width < 64 && (value - least) >> width != 0;
    put(values.iter().filter(|value| exceptional(**value)).count() as u64, output);
    let mut last = 0;
    for (index, value) in values.iter().enumerate().filter(|(_, value)| exceptional(**value)) {
        put((index - last) as u64, output);
        put((value - least) >> width, output);
        last = index;
    }
    pack_bits(values, least, width, output);
}

/// The width with the fewest bits in total.
fn best_width(values: &[u64], least: u64) -> u8 {
    let mut of_bits = [0_usize; 65];
    for value in values {
        of_bits[(64 - (value - least).leading_zeros()) as usize] += 1;
    }
    let most = of_bits.iter().rposition(|count| *count > 0).unwrap_or(0);
    // A position takes one or two bytes, the rest of a value takes a byte for each seven bits.
    let place_bits = 12;
    let mut best = (usize::MAX, 0);
    let mut wider = 0;
    for width in (0..=most).rev() {
        let bits = values.len() * width + wider * (place_bits + (most - width).div_ceil(7) * 8);
        if bits <= best.0 {
            best = (bits, width);
        }
        wider += of_bits[width];
    }
    best.1 as u8
}

fn pack_bits(values: &[u64], least: u64, width: u8, output: &mut Vec<u8>) {
    if width == 0 {
        return;
    }
    let mask = u64::MAX >> (64 - width);
    output.reserve((values.len() * usize::from(width)).div_ceil(8) + 8);
    let (mut bits, mut filled) = (0_u128, 0_u32);
    for value in values {
        bits |= u128::from((value - least) & mask) << filled;
        filled += u32::from(width);
        if filled >= 64 {
            output.extend_from_slice(&(bits as u64).to_le_bytes());
            bits >>= 64;
            filled -= 64;
        }
    }
    output.extend_from_slice(&(bits as u64).to_le_bytes()[..filled.div_ceil(8) as usize]);
}

/// The beginning of a column.
struct Start {
    width: u8,
    least: u64,
    exceptions: u64,
}

fn start(input: &mut &[u8], count: usize) -> Option<Start> {
    let (width, rest) = input.split_first()?;
    *input = rest;
    if *width > 64 || count > VALUES_MAX {
        return None;
    }
    let start = Start { width: *width, least: get(input)?, exceptions: get(input)? };
    (start.exceptions <= count as u64).then_some(start)
}

/// Passes over a column of `count` values at the front of `input`; `None` if the bytes are not a column.
pub(super) fn skip(input: &mut &[u8], count: usize) -> Option<()> {
    let Start { width, exceptions, .. } = start(input, count)?;
    for _ in 0..2 * exceptions {
        get(input)?;
    }
    *input = input.get((count * usize::from(width)).div_ceil(8)..)?;
    Some(())
}

/// Reads a column of `count` values from the front of `input`; `None` if the bytes are not a column.
pub(super) fn unpack(input: &mut &[u8], count: usize, values: &mut Vec<u64>) -> Option<()> {
    values.clear();
    let Start { width, least, exceptions } = start(input, count)?;
    // The bits come after the exceptions: read the exceptions twice rather than store them.
    let mut after = *input;
    for _ in 0..exceptions {
        get(&mut after)?;
        get(&mut after)?;
    }
    let bytes = (count * usize::from(width)).div_ceil(8);
    if after.len() < bytes {
        return None;
    }
    let (packed, after) = after.split_at(bytes);
    unpack_bits(packed, width, count, values);
    let mut index = 0_usize;
    for _ in 0..exceptions {
        index = index.checked_add(usize::try_from(get(input)?).ok()?)?;
        let high = get(input)?;
        *values.get_mut(index)? |= high.checked_shl(u32::from(width))?;
    }
    values.iter_mut().for_each(|value| *value = value.wrapping_add(least));
    *input = after;
    Some(())
}

fn unpack_bits(packed: &[u8], width: u8, count: usize, values: &mut Vec<u64>) {
    if width == 0 {
        values.resize(count, 0);
        return;
    }
    values.reserve(count);
    let mask = u64::MAX >> (64 - width);
    let mut words = packed.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    let (mut bits, mut filled) = (0_u128, 0_u32);
    for _ in 0..count {
        if filled < u32::from(width) {
            bits |= u128::from(words.next().unwrap_or(0)) << filled;
            filled += 64;
        }
        values.push(bits as u64 & mask);
        bits >>= width;
        filled -= u32::from(width);
    }
}

/// Appends a number in as few bytes as possible.
pub(super) fn put(mut value: u64, output: &mut Vec<u8>) {
    while value >= 0x80 {
        output.push(value as u8 | 0x80);
        value >>= 7;
    }
    output.push(value as u8);
}

/// Reads a number from the front of `input`.
pub(super) fn get(input: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (next, rest) = input.split_first()?;
        *input = rest;
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

/// Encodes a difference of either sign as a small number (zigzag).
pub(super) fn zigzag(difference: u64) -> u64 {
    let signed = difference as i64;
    ((signed << 1) ^ (signed >> 63)) as u64
}

/// Decodes a difference that [`zigzag`] encoded.
pub(super) fn unzigzag(value: u64) -> u64 {
    (value >> 1) ^ (value & 1).wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(values: &[u64]) -> usize {
        let (mut bytes, mut read) = (Vec::new(), Vec::new());
        pack(values, &mut bytes);
        bytes.push(7);
        let mut input = bytes.as_slice();
        unpack(&mut input, values.len(), &mut read).unwrap();
        assert_eq!((read.as_slice(), input), (values, &[7][..]));
        bytes.len() - 1
    }

    #[test]
    fn equal_and_few_large_values_take_almost_nothing() {
        for (values, bytes_max) in [
            (vec![], 3),
            (vec![200; 5000], 4),
            (vec![u64::MAX; 9], 12),
            ((0..1000).map(|n| n % 4).collect(), 253),
            ((0..1000).map(|n| if n == 500 { 1 << 60 } else { n % 2 }).collect(), 141),
            ((0..1000).map(|n| if n % 2 == 0 { u64::MAX } else { 0 }).collect(), 8_003),
        ] {
            let bytes = check(&values);
            assert!(bytes <= bytes_max, "{bytes} bytes instead of {bytes_max}");
        }
    }

    proptest! {
        #[test]
        fn what_is_packed_is_unpacked(values in proptest::collection::vec(any::<u64>(), 0..70), bits in 0..64_u32, odd: u64) {
            let mut values: Vec<u64> = values.into_iter().map(|value| value >> bits).collect();
            check(&values);
            if let Some(first) = values.first_mut() {
                *first = odd;
            }
            check(&values);
        }

        #[test]
        fn differences_survive_whichever_way_they_point(difference: u64) {
            prop_assert_eq!(unzigzag(zigzag(difference)), difference);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100), count in 0..200_usize) {
            let mut values = Vec::new();
            if unpack(&mut bytes.as_slice(), count, &mut values).is_some() {
                prop_assert_eq!(values.len(), count);
            }
        }
    }
}
