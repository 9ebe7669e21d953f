//! What a shard has measured since it last told the others, as a file: its samples in the blocks of the run log.
//!
//! ```text
//! "bshard3\n"  u64 zero  u64 complete to  u64 iterations  u32 bytes, JSON  { u32 bytes, block }…     all little endian
//! ```

use live::figures::ShardLoad;
use measure::errors::NumberedFailure;
use measure::log::VERSION;
use serde::{Deserialize, Serialize};

use base::clock::Nanos;
use measure::codec::{Scratch, decode, encode};
use measure::rows::Rows;

const MAGIC: &[u8; 8] = b"bshard3\n";

/// Samples of a shard.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Chunk {
    /// The zero of their times, by the clock that all shards share.
    pub(super) zero_unix_ns: u64,
    /// Whatever ended by then, from that zero, is in this chunk or in an earlier one.
    pub(super) complete_to_ns: Nanos,
    /// The samples.
    pub(super) rows: Rows,
    /// What else live metrics have.
    pub(super) beside: ChunkSupplement,
}

/// What samples do not say.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(super) struct ChunkSupplement {
    /// The faults that were new, without what was seen of them.
    pub(super) failures: Vec<NumberedFailure>,
    /// How each workload stands.
    pub(super) now: Vec<ShardLoad>,
}

impl Chunk {
    /// As bytes.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        for number in [self.zero_unix_ns, self.complete_to_ns, self.rows.len() as u64] {
            bytes.extend(number.to_le_bytes());
        }
        let beside = serde_json::to_vec(&self.beside).unwrap_or_default();
        bytes.extend(u32::try_from(beside.len()).unwrap_or(u32::MAX).to_le_bytes());
        bytes.extend(beside);
        let (mut scratch, mut block, mut encoded) = (Scratch::default(), Rows::default(), Vec::new());
        let mut put = |block: &mut Rows| {
            encoded.clear();
            encode(block, &mut scratch, &mut encoded);
            bytes.extend(u32::try_from(encoded.len()).unwrap_or(u32::MAX).to_le_bytes());
            bytes.extend_from_slice(&encoded);
            block.clear();
        };
        for row in self.rows.iter() {
            block.push_row(row);
            if block.fill_a_block() {
                put(&mut block);
            }
        }
        if !block.is_empty() {
            put(&mut block);
        }
        bytes
    }

    /// From bytes; `None` if they are no whole chunk.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes.strip_prefix(MAGIC)?;
        let mut number = || {
            let (number, after) = rest.split_first_chunk()?;
            rest = after;
            Some(u64::from_le_bytes(*number))
        };
        let (zero_unix_ns, complete_to_ns, wanted) = (number()?, number()?, number()?);
        let (length, after) = rest.split_first_chunk()?;
        let (beside, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        let beside = serde_json::from_slice(beside).ok()?;
        rest = after;
        let (mut rows, mut block, mut scratch) = (Rows::default(), Rows::default(), Scratch::default());
        while let Some((length, after)) = rest.split_first_chunk() {
            let (encoded, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            decode(encoded, VERSION, &mut scratch, &mut block)?;
            rows.extend(&block);
            rest = after;
        }
        let whole = rest.is_empty() && rows.len() as u64 == wanted;
        whole.then_some(Self { zero_unix_ns, complete_to_ns, rows, beside })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use measure::errors::{Failure, FailureClass};
    use measure::sample::{ActionSample, CompletionStatus, IterationSample};

    fn chunk(count: u64) -> Chunk {
        let mut rows = Rows::default();
        for number in 0..count {
            rows.push(&IterationSample {
                number: number * 3,
                start_ns: number * 1_000,
                duration_ns: 5_000,
                ended: if number % 7 == 0 { CompletionStatus::Failed } else { CompletionStatus::Ok },
                actions: vec![ActionSample { duration_ns: 4_000, ..ActionSample::default() }],
                ..IterationSample::default()
            });
        }
        let failure = Failure { class: FailureClass::Status, ..Failure::default() };
        let beside = ChunkSupplement {
            failures: vec![NumberedFailure { number: 3, failure }],
            now: vec![ShardLoad { under_way: 4, ..ShardLoad::default() }, ShardLoad::default()],
        };
        Chunk { zero_unix_ns: 77, complete_to_ns: u64::MAX, rows, beside }
    }

    #[test]
    fn what_is_written_is_read() {
        for count in [0, 1, 30_000] {
            assert_eq!(Chunk::decode(&chunk(count).encode()), Some(chunk(count)), "{count} iterations");
        }
    }

    #[test]
    fn a_chunk_that_is_cut_at_any_byte_is_none() {
        let bytes = chunk(40).encode();
        for length in 0..bytes.len() {
            assert_eq!(Chunk::decode(&bytes[..length]), None, "{length} of {} bytes", bytes.len());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_to_their_end(bytes in proptest::collection::vec(any::<u8>(), 0..300), at in 0_usize..200) {
            let _ = Chunk::decode(&bytes);
            let mut damaged = chunk(40).encode();
            let at = at.min(damaged.len());
            damaged.splice(at.., bytes);
            let _ = Chunk::decode(&damaged);
        }
    }
}
