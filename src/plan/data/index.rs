//! Where the rows of a file begin, in bounded memory.

/// The most offsets that are kept. Beyond that, every second one is dropped, and a reader passes over the rows between.
const OFFSETS_MAX: usize = 1 << 22;
/// Enough for files of a tebibyte.
const OFFSET_BYTES: usize = 5;

/// The offsets of rows: 5 bytes for a row up to 4 million rows, and at most 20 MiB for any number of rows.
#[derive(Debug)]
pub(super) struct Index {
    offsets: Vec<[u8; OFFSET_BYTES]>,
    /// Every row with a number that is a multiple of this has its offset here.
    stride: u64,
    rows: u64,
    /// Where the last row ends at the latest.
    end: u64,
    offsets_max: usize,
}

/// Where to find a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowLocation {
    /// The bytes to read.
    pub(super) start: u64,
    pub(super) end: u64,
    /// How many rows to pass over in them.
    pub(super) skip: u64,
}

impl Default for Index {
    fn default() -> Self {
        Self::with_limit(OFFSETS_MAX)
    }
}

impl Index {
    fn with_limit(offsets_max: usize) -> Self {
        Self { offsets: Vec::new(), stride: 1, rows: 0, end: 0, offsets_max }
    }

    /// Adds the next row.
    pub(super) fn push(&mut self, start: u64, end: u64) {
        if self.rows.is_multiple_of(self.stride) {
            if self.offsets.len() >= self.offsets_max {
                let mut number = 0_usize;
                self.offsets.retain(|_| {
                    number += 1;
                    number % 2 == 1
                });
                self.stride *= 2;
            }
            if self.rows.is_multiple_of(self.stride) {
                let bytes = start.to_le_bytes();
                self.offsets.push([bytes[0], bytes[1], bytes[2], bytes[3], bytes[4]]);
            }
        }
        self.rows += 1;
        self.end = end;
    }

    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Where row `number` is; `None` if there are fewer.
    pub(super) fn place(&self, number: u64) -> Option<RowLocation> {
        if number >= self.rows {
            return None;
        }
        let at = usize::try_from(number / self.stride).ok()?;
        let end = self.offsets.get(at + 1).map_or(self.end, offset);
        Some(RowLocation { start: offset(self.offsets.get(at)?), end, skip: number % self.stride })
    }
}

fn offset(bytes: &[u8; OFFSET_BYTES]) -> u64 {
    bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_found_however_few_offsets_are_kept() {
        for offsets_max in [2, 3, 8, 1000] {
            let mut index = Index::with_limit(offsets_max);
            let start = |row: u64| (1 << 33) + row * 10;
            (0..100).for_each(|row| index.push(start(row), start(row) + 9));
            assert_eq!((index.rows(), index.place(100)), (100, None));
            for row in 0..100 {
                let place = index.place(row).unwrap();
                assert_eq!(place.start + place.skip * 10, start(row), "{offsets_max} {row}");
                assert!(place.end >= start(row) + 9 && place.skip < index.stride);
            }
            assert!(index.offsets.len() <= offsets_max.max(2));
        }
    }
}
