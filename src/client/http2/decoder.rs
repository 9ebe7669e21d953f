//! Reads the header blocks of HTTP/2 answers (HPACK, RFC 7541). The table of remembered fields is bounded by what bench
//! allows servers, 4 KiB for each connection.

use std::collections::VecDeque;

use super::huffman;
use super::static_table::FIELDS;

/// The size of the table that each end assumes at first (RFC 9113, section 6.5.2); bench asks for no other.
const TABLE_BYTES_MAX: usize = 4096;
/// What an entry counts in addition to its name and its value (RFC 7541, section 4.1).
pub(super) const ENTRY_BYTES: usize = 32;

/// Reads the blocks of a connection, in their order.
#[derive(Debug)]
pub(super) struct FieldDecoder {
    /// The newest first.
    entries: VecDeque<TableEntry>,
    /// The sum of their sizes.
    bytes: usize,
    /// What the server wants to use of the table.
    bytes_max: usize,
    /// How often the table changed.
    changes: u64,
    /// Where texts in Huffman's code are decoded.
    name: Vec<u8>,
    value: Vec<u8>,
}

#[derive(Debug)]
struct TableEntry {
    /// The name, and the value behind it.
    text: Box<[u8]>,
    name_bytes: usize,
}

impl TableEntry {
    fn field(&self) -> (&[u8], &[u8]) {
        self.text.split_at(self.name_bytes)
    }

    fn size(&self) -> usize {
        self.text.len() + ENTRY_BYTES
    }
}

/// What is wrong with a block. The connection cannot be used any more, because the tables may differ.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InvalidBlock(pub(super) &'static str);

/// A text of a block.
enum BlockText<'a> {
    Plain(&'a [u8]),
    Huffman(&'a [u8]),
}

impl BlockText<'_> {
    /// The text itself, decoded into `room` if need be.
    fn read<'r>(&'r self, room: &'r mut Vec<u8>) -> Result<&'r [u8], InvalidBlock> {
        match self {
            Self::Plain(text) => Ok(text),
            Self::Huffman(coded) => {
                room.clear();
                huffman::decode(coded, room).map_err(|_| InvalidBlock("a text in it is no Huffman code"))?;
                Ok(room)
            }
        }
    }
}

impl Default for FieldDecoder {
    fn default() -> Self {
        let (entries, bytes, bytes_max) = (VecDeque::new(), 0, TABLE_BYTES_MAX);
        Self { entries, bytes, bytes_max, changes: 0, name: Vec::new(), value: Vec::new() }
    }
}

impl FieldDecoder {
    /// How often the table changed: a block that changes nothing says the same until then.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// Reads a whole block, and passes each field to `field`.
    ///
    /// # Errors
    /// The block is damaged.
    pub(super) fn read(
        &mut self,
        block: &[u8],
        field: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<(), InvalidBlock> {
        let (mut rest, mut begun) = (block, false);
        while let Some(first) = rest.first().copied() {
            if first & 0x80 != 0 {
                let index = number(&mut rest, 7)?;
                let (name, value) = self.at(index)?;
                field(name, value);
            } else if first & 0xe0 == 0x20 {
                let size = number(&mut rest, 5)?;
                if begun || size > TABLE_BYTES_MAX {
                    return Err(InvalidBlock("it sets the size of the table where, or to what, it must not"));
                }
                self.resize(size);
                continue;
            } else {
                self.literal(&mut rest, first & 0x40 != 0, field)?;
            }
            begun = true;
        }
        Ok(())
    }

    /// A field that stands in the block itself, or its value does.
    fn literal(
        &mut self,
        rest: &mut &[u8],
        is_kept: bool,
        field: &mut impl FnMut(&[u8], &[u8]),
    ) -> Result<(), InvalidBlock> {
        let index = number(rest, if is_kept { 6 } else { 4 })?;
        let written = if index == 0 { Some(text(rest)?) } else { None };
        let value = text(rest)?;
        let (mut name_room, mut value_room) =
            (std::mem::take(&mut self.name), std::mem::take(&mut self.value));
        let name = match &written {
            Some(name) => name.read(&mut name_room)?,
            None => self.at(index)?.0,
        };
        let value = value.read(&mut value_room)?;
        field(name, value);
        if is_kept {
            let entry = TableEntry { text: [name, value].concat().into(), name_bytes: name.len() };
            self.remember(entry);
        }
        (self.name, self.value) = (name_room, value_room);
        Ok(())
    }

    fn at(&self, index: usize) -> Result<(&[u8], &[u8]), InvalidBlock> {
        let unknown = InvalidBlock("it refers to a field that is not in the table");
        let place = index.checked_sub(1).ok_or(InvalidBlock("it refers to a field by the number 0"))?;
        match FIELDS.get(place) {
            Some((name, value)) => Ok((name.as_bytes(), value.as_bytes())),
            None => self.entries.get(place - FIELDS.len()).map(TableEntry::field).ok_or(unknown),
        }
    }

    fn remember(&mut self, entry: TableEntry) {
        let size = entry.size();
        self.changes += 1;
        self.evict(self.bytes_max.saturating_sub(size));
        // One that is larger than the table empties it and is not kept.
        if size <= self.bytes_max {
            self.bytes += size;
            self.entries.push_front(entry);
        }
    }

    fn resize(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
        self.changes += 1;
        self.evict(bytes_max);
    }

    fn evict(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max
            && let Some(oldest) = self.entries.pop_back()
        {
            self.bytes -= oldest.size();
        }
    }
}

/// A number with a prefix of `bits` bits in its first byte (RFC 7541, section 5.1).
#[inline]
fn number(rest: &mut &[u8], bits: u32) -> Result<usize, InvalidBlock> {
    let cut = InvalidBlock("it ends within a number");
    let most = (1_usize << bits) - 1;
    let (first, mut tail) = rest.split_first().ok_or(cut)?;
    let mut value = usize::from(*first) & most;
    if value == most {
        let mut shift = 0;
        loop {
            let (byte, after) = tail.split_first().ok_or(InvalidBlock("it ends within a number"))?;
            tail = after;
            if shift > 21 {
                return Err(InvalidBlock("it has a number that is too large"));
            }
            value += usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
            shift += 7;
        }
    }
    *rest = tail;
    Ok(value)
}

#[inline]
fn text<'a>(rest: &mut &'a [u8]) -> Result<BlockText<'a>, InvalidBlock> {
    let cut = || InvalidBlock("it ends within a text");
    let is_coded = rest.first().ok_or_else(cut)? & 0x80 != 0;
    let length = number(rest, 7)?;
    let (text, tail) = rest.split_at_checked(length).ok_or_else(cut)?;
    *rest = tail;
    Ok(if is_coded { BlockText::Huffman(text) } else { BlockText::Plain(text) })
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    use proptest::prelude::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: String = hex.split_whitespace().collect();
        (0..digits.len() / 2).map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap()).collect()
    }

    fn read(decoder: &mut FieldDecoder, block: &[u8]) -> Result<String, InvalidBlock> {
        let mut text = String::new();
        decoder.read(block, &mut |name, value| {
            let [name, value] = [name, value].map(String::from_utf8_lossy);
            write!(text, "{name}={value};").unwrap();
        })?;
        Ok(text)
    }

    /// RFC 7541, appendix C.5 and C.6: three answers, whose table holds 256 bytes there.
    #[test]
    fn the_examples_of_the_standard_are_read() {
        let plain = [
            "3fe1 01 4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 \
             3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
            "4803 3330 37c1 c0bf",
            "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 7738 \
             666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 \
             3630 303b 2076 6572 7369 6f6e 3d31",
        ];
        let coded = [
            "3fe1 01 4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad \
             1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
            "4883 640e ffc1 c0bf",
            "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335 \
             dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
        ];
        let date = |second| format!("date=Mon, 21 Oct 2013 20:13:2{second} GMT;");
        let location = "location=https://www.example.com;";
        let expected = [
            format!(":status=302;cache-control=private;{}{location}", date(1)),
            format!(":status=307;cache-control=private;{}{location}", date(1)),
            format!(
                ":status=200;cache-control=private;{}{location}content-encoding=gzip;set-cookie=\
                 foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1;",
                date(2)
            ),
        ];
        for blocks in [plain, coded] {
            let mut decoder = FieldDecoder::default();
            for (block, expected) in blocks.iter().zip(&expected) {
                assert_eq!(read(&mut decoder, &bytes(block)).as_ref(), Ok(expected));
            }
            assert_eq!((decoder.entries.len(), decoder.bytes), (3, 215));
        }
    }

    #[test]
    fn damaged_blocks_are_refused() {
        for (block, part) in [
            (&b"\x80"[..], "number 0"),
            (b"\xbe", "not in the table"),
            (b"\x00\x05a", "ends within a text"),
            (b"\x00", "ends within a text"),
            (b"\xff", "ends within a number"),
            (b"\xff\xff\xff\xff\xff\x7f", "too large"),
            (b"\x00\x81\x00\x00", "Huffman"),
            (b"\x88\x20", "size of the table"),
            (b"\x3f\xe2\x1f", "size of the table"),
        ] {
            let refused = read(&mut FieldDecoder::default(), block).unwrap_err();
            assert!(refused.0.contains(part), "{block:x?}: {refused:?}");
        }
    }

    #[test]
    fn the_table_keeps_to_its_size() {
        let mut decoder = FieldDecoder::default();
        let long = vec![b'v'; 1000];
        for name in b"abcdefgh" {
            let block = [b"\x40\x01", &[*name][..], b"\x7f\xe9\x06", &long].concat();
            read(&mut decoder, &block).unwrap();
        }
        assert_eq!((decoder.entries.len(), decoder.bytes), (3, 3 * 1033));
        assert!(read(&mut decoder, b"\xbe").unwrap().starts_with("h=v"));
        // One that is larger than the table, and a table of nothing.
        let block = [&b"\x40\x01a\x7f\xa1\x1f"[..], &vec![b'v'; 4128]].concat();
        read(&mut decoder, &block).unwrap();
        assert_eq!((decoder.entries.len(), decoder.bytes), (0, 0));
        assert_eq!(read(&mut decoder, b"\x20\x40\x01a\x01b").as_deref(), Ok("a=b;"));
        assert_eq!(decoder.entries.len(), 0);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(blocks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 1..5)) {
            let mut decoder = FieldDecoder::default();
            for block in blocks {
                if read(&mut decoder, &block).is_err() {
                    break;
                }
                let bytes: usize = decoder.entries.iter().map(TableEntry::size).sum();
                prop_assert!(bytes == decoder.bytes && bytes <= decoder.bytes_max);
            }
        }
    }
}
