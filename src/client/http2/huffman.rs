//! Huffman's code in the fields of HTTP/2 (RFC 7541, section 5.2 and appendix B), which servers may use.
//!
//! The code is canonical: codes of the same length are in the order of their bytes. So the lengths are enough to build it.

/// How many codes have each length, in bits; the last one ends a text and must not appear.
const CODES: [u32; 31] =
    [0, 0, 0, 0, 0, 10, 26, 32, 6, 0, 5, 3, 2, 6, 2, 3, 0, 0, 0, 3, 8, 13, 26, 29, 12, 4, 15, 19, 29, 0, 4];
/// The bytes in the order of their codes.
const BYTES: [u8; 256] = [
    48, 49, 50, 97, 99, 101, 105, 111, 115, 116, 32, 37, 45, 46, 47, 51, 52, 53, 54, 55, 56, 57, 61, 65, 95,
    98, 100, 102, 103, 104, 108, 109, 110, 112, 114, 117, 58, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76, 77,
    78, 79, 80, 81, 82, 83, 84, 85, 86, 87, 89, 106, 107, 113, 118, 119, 120, 121, 122, 38, 42, 44, 59, 88,
    90, 33, 34, 40, 41, 63, 39, 43, 124, 35, 62, 0, 36, 64, 91, 93, 126, 94, 125, 60, 96, 123, 92, 195, 208,
    128, 130, 131, 162, 184, 194, 224, 226, 153, 161, 167, 172, 176, 177, 179, 209, 216, 217, 227, 229, 230,
    129, 132, 133, 134, 136, 146, 154, 156, 160, 163, 164, 169, 170, 173, 178, 181, 185, 186, 187, 189, 190,
    196, 198, 228, 232, 233, 1, 135, 137, 138, 139, 140, 141, 143, 147, 149, 150, 151, 152, 155, 157, 158,
    165, 166, 168, 174, 175, 180, 182, 183, 188, 191, 197, 231, 239, 9, 142, 144, 145, 148, 159, 171, 206,
    215, 225, 236, 237, 199, 207, 234, 235, 192, 193, 200, 201, 202, 205, 210, 213, 218, 219, 238, 240, 242,
    243, 255, 203, 204, 211, 212, 214, 221, 222, 223, 241, 244, 245, 246, 247, 248, 250, 251, 252, 253, 254,
    2, 3, 4, 5, 6, 7, 8, 11, 12, 14, 15, 16, 17, 18, 19, 20, 21, 23, 24, 25, 26, 27, 28, 29, 30, 31, 127,
    220, 249, 10, 13, 22,
];
/// Bits that are looked up at once.
const SHORT_BITS: u32 = 8;
const LONGEST: u32 = 30;

/// For each length: the smallest code that is longer, in 32 bits; and what to add to a code to get its place in [`BYTES`].
const LENGTHS: [(u32, u32); 31] = lengths();
/// The byte and the length of a short code, by the bits that begin with it; 0 as length for longer codes.
const SHORT: [(u8, u8); 256] = short();

const fn lengths() -> [(u32, u32); 31] {
    let mut table = [(0, 0); 31];
    let (mut code, mut place, mut bits) = (0_u32, 0_u32, 1);
    while bits <= LONGEST as usize {
        let add = place.wrapping_sub(code);
        code += CODES[bits];
        place += CODES[bits];
        // Behind the last code, this is 2^32 and wraps; it is not asked for.
        table[bits] = (code << (32 - bits), add);
        code <<= 1;
        bits += 1;
    }
    table
}

const fn short() -> [(u8, u8); 256] {
    let mut table = [(0, 0); 256];
    let mut index = 0;
    while index < 256 {
        let bits = (index as u32) << (32 - SHORT_BITS);
        let mut length = 1;
        while length <= SHORT_BITS as usize {
            let (beyond, add) = LENGTHS[length];
            if bits < beyond {
                let place = (bits >> (32 - length)).wrapping_add(add);
                table[index] = (BYTES[place as usize], length as u8);
                break;
            }
            length += 1;
        }
        index += 1;
    }
    table
}

/// Appends the text that `coded` stands for.
///
/// # Errors
/// A code that is not whole, the end of the text within it, or padding that is not the beginning of that end.
pub(super) fn decode(coded: &[u8], output: &mut Vec<u8>) -> Result<(), InvalidHuffman> {
    let (mut bits, mut held, mut rest) = (0_u64, 0_u32, coded.iter());
    loop {
        while held <= 56
            && let Some(byte) = rest.next()
        {
            bits |= u64::from(*byte) << (56 - held);
            held += 8;
        }
        // What is missing at the end counts as ones, as padding does.
        let missing = if held < 32 { u32::MAX >> held } else { 0 };
        let next = (bits >> 32) as u32 | missing;
        if held < 8 && next == u32::MAX {
            return Ok(());
        }
        let (byte, length) = match SHORT[(next >> (32 - SHORT_BITS)) as usize] {
            (_, 0) => long(next).ok_or(InvalidHuffman)?,
            (byte, length) => (byte, u32::from(length)),
        };
        if length > held {
            return Err(InvalidHuffman);
        }
        output.push(byte);
        bits <<= length;
        held -= length;
    }
}

/// The byte and the length of a code of more than [`SHORT_BITS`]; `None` for the end of a text.
#[cold]
fn long(next: u32) -> Option<(u8, u32)> {
    let mut longer = SHORT_BITS + 1..=LONGEST;
    let length = longer.find(|length| *length == LONGEST || next < LENGTHS[*length as usize].0)?;
    let place = (next >> (32 - length)).wrapping_add(LENGTHS[length as usize].1);
    Some((*BYTES.get(place as usize)?, length))
}

/// A text that is not in Huffman's code.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InvalidHuffman;

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    use proptest::prelude::*;

    /// The code of a byte, or of the end: its bits and their number.
    fn code(byte: Option<u8>) -> (u32, u32) {
        let place = byte.map_or(256, |byte| BYTES.iter().position(|other| *other == byte).unwrap());
        let (mut code, mut first) = (0, 0);
        for length in 1..=LONGEST {
            let number = CODES[length as usize];
            if place < (first + number) as usize {
                return (code + place as u32 - first, length);
            }
            (code, first) = ((code + number) << 1, first + number);
        }
        unreachable!("256 bytes and an end");
    }

    /// A text in Huffman's code, and bits behind it.
    fn coded(text: &[u8], behind: &str) -> Vec<u8> {
        let mut bits = String::new();
        for byte in text {
            let (code, length) = code(Some(*byte));
            write!(bits, "{code:0length$b}", length = length as usize).unwrap();
        }
        bits.push_str(behind);
        while !bits.len().is_multiple_of(8) {
            bits.push('1');
        }
        bits.as_bytes()
            .chunks(8)
            .map(|byte| u8::from_str_radix(std::str::from_utf8(byte).unwrap(), 2).unwrap())
            .collect()
    }

    fn decoded(coded: &[u8]) -> Option<Vec<u8>> {
        let mut output = Vec::new();
        decode(coded, &mut output).ok().map(|()| output)
    }

    /// The examples of RFC 7541, appendix C.4 and C.6.
    #[test]
    fn the_examples_of_the_standard_are_read() {
        for (coded, text) in [
            ("f1e3c2e5f23a6ba0ab90f4ff", "www.example.com"),
            ("a8eb10649cbf", "no-cache"),
            ("25a849e95ba97d7f", "custom-key"),
            ("25a849e95bb8e8b4bf", "custom-value"),
            ("6402", "302"),
            ("aec3771a4b", "private"),
            ("d07abe941054d444a8200595040b8166e082a62d1bff", "Mon, 21 Oct 2013 20:13:21 GMT"),
            ("9d29ad171863c78f0b97c8e9ae82ae43d3", "https://www.example.com"),
            ("", ""),
        ] {
            let bytes: Vec<u8> = (0..coded.len() / 2)
                .map(|at| u8::from_str_radix(&coded[2 * at..2 * at + 2], 16).unwrap())
                .collect();
            assert_eq!(decoded(&bytes).as_deref(), Some(text.as_bytes()), "{coded}");
        }
    }

    #[test]
    fn padding_is_the_beginning_of_the_end_and_shorter_than_a_byte() {
        assert_eq!(code(None), (0x3fff_ffff, 30));
        assert_eq!(decoded(&coded(b"ab", "")).as_deref(), Some(&b"ab"[..]));
        // Zeros behind a text, a whole byte of padding, the end itself, a code that is cut.
        let end = format!("{:b}", code(None).0);
        for bad in
            [coded(b"ab", "0"), [coded(b"ab", ""), vec![0xff]].concat(), coded(b"a", &end), vec![0xff; 4]]
        {
            assert_eq!(decoded(&bad), None, "{bad:x?}");
        }
    }

    proptest! {
        #[test]
        fn every_text_is_read_back(text in proptest::collection::vec(any::<u8>(), 0..60)) {
            prop_assert_eq!(decoded(&coded(&text, "")), Some(text));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let length = decoded(&bytes).map_or(0, |text| text.len());
            prop_assert!(length <= bytes.len() * 8 / 5);
        }
    }
}
