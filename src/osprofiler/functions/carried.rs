//! A profile within a record of the trace, so that functions travel with the points that they belong to.
//!
//! It is the info of a point named [`POINT_NAME`] below the operation's, which lasts no time: OSProfiler's tools show it
//! as any other point. The stacks are packed: JSON, deflate, base64. Records are hostile, so unpacking is bounded.

use std::cell::RefCell;
use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::ZlibDecoder;
use flate2::{Compress, Compression, FlushCompress, Status};
use serde::{Deserialize, Serialize};
use serde_json::json;
use thiserror::Error;

use super::model::{Builder, Function, FunctionProfile, Stack, Wait};
use crate::record::Info;

/// The name of the point that carries a profile.
pub const POINT_NAME: &str = "functions";
/// The key in its stop's info.
pub const KEY: &str = "functions";
/// The packed stacks have at most this many bytes; the rarest stacks are left out and counted.
pub const PACKED_BYTES_MAX: usize = 64 * 1024;

const UNPACKED_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// The packed part.
#[derive(Serialize, Deserialize)]
struct PackedProfile {
    points: Vec<String>,
    /// Name, file, line.
    functions: Vec<(String, String, u32)>,
    /// Point, functions from the outermost, samples.
    stacks: Vec<(Option<u32>, Vec<u32>, u64)>,
    /// File, line, count, nanoseconds.
    waits: Vec<(String, u32, u64, u64)>,
}

/// Why a record's profile is not read.
#[derive(Debug, Error)]
pub enum CarriedError {
    /// A part is missing or of another type.
    #[error("read the functions of a trace: `{0}` is missing or malformed")]
    Malformed(&'static str),
    /// It is too long, or not packed as it should be.
    #[error("unpack the functions of a trace: the data is damaged or over {UNPACKED_BYTES_MAX} bytes")]
    Damaged,
}

/// The info of the stop record.
#[must_use]
pub fn encode(profile: &FunctionProfile) -> Info {
    let mut keep = profile.stacks.len();
    let (packed, kept) = loop {
        let packed = pack(profile, keep);
        if packed.len() <= PACKED_BYTES_MAX || keep == 0 {
            break (packed, keep);
        }
        keep = keep * PACKED_BYTES_MAX / (packed.len() + PACKED_BYTES_MAX / 8);
    };
    let dropped: u64 = profile.stacks[kept..].iter().map(|stack| stack.samples).sum();
    let details = json!({
        "operation": profile.operation,
        "hz": profile.hz,
        "samples": profile.samples(),
        "left_out": profile.left_out.saturating_add(dropped),
        "too_deep": profile.too_deep,
        "nameless": profile.nameless,
        "note": profile.header(),
        "stacks": STANDARD.encode(packed),
    });
    Info::from_iter([(KEY.to_owned(), details)])
}

/// The first `keep` stacks with what they name.
fn pack(profile: &FunctionProfile, keep: usize) -> Vec<u8> {
    let mut builder = Builder::new(&profile.operation, profile.hz);
    for stack in &profile.stacks[..keep] {
        let frames = stack.frames.iter().filter_map(|frame| profile.functions.get(*frame as usize));
        let frames: Vec<Function> = frames.cloned().collect();
        let point = stack.point.and_then(|point| profile.points.get(point as usize));
        builder.add(point.map(String::as_str), &frames, stack.samples);
    }
    let small = builder.finish();
    let waits = profile.waits.iter().take(200);
    let packed = PackedProfile {
        points: small.points,
        functions: small.functions.into_iter().map(|f| (f.name, f.file, f.line)).collect(),
        stacks: small.stacks.into_iter().map(|s| (s.point, s.frames, s.samples)).collect(),
        waits: waits.map(|w| (w.file.clone(), w.line, w.count, w.waited_ns)).collect(),
    };
    // Neither fails in memory.
    deflated(&serde_json::to_vec(&packed).unwrap_or_default())
}

/// Deflated, in zlib's format. What the compressor needs, a third of a megabyte, is made once a thread: most profiles are
/// of a single sample, and making it takes longer than compressing them.
fn deflated(bytes: &[u8]) -> Vec<u8> {
    thread_local! {
        static ZLIB: RefCell<Compress> = RefCell::new(Compress::new(Compression::default(), true));
    }
    let deflate = |zlib: &mut Compress| {
        zlib.reset();
        let mut deflated = Vec::with_capacity(bytes.len() / 2 + 64);
        loop {
            let rest = bytes.get(usize::try_from(zlib.total_in()).ok()?..)?;
            match zlib.compress_vec(rest, &mut deflated, FlushCompress::Finish) {
                Ok(Status::StreamEnd) => return Some(deflated),
                Ok(_) => deflated.reserve(deflated.len().max(1024)),
                Err(_) => return None,
            }
        }
    };
    ZLIB.with_borrow_mut(deflate).unwrap_or_default()
}

/// Reads the info of a stop record; `None` if it carries no profile.
///
/// # Errors
/// It carries one that is malformed or too long.
pub fn decode(info: &Info) -> Result<Option<FunctionProfile>, CarriedError> {
    let Some(details) = info.get(KEY) else { return Ok(None) };
    let Some(stacks) = details.get("stacks").and_then(serde_json::Value::as_str) else { return Ok(None) };
    let number = |key: &'static str| {
        let value = details.get(key).and_then(serde_json::Value::as_u64);
        value.ok_or(CarriedError::Malformed(key))
    };
    let operation = details.get("operation").and_then(serde_json::Value::as_str);
    let operation = operation.ok_or(CarriedError::Malformed("operation"))?;
    let hz = u32::try_from(number("hz")?).map_err(|_| CarriedError::Malformed("hz"))?;
    let packed = unpack(stacks)?;
    let functions = packed.functions.into_iter().map(|(name, file, line)| Function { name, file, line });
    let stacks = packed.stacks.into_iter().map(|(point, frames, samples)| Stack { point, frames, samples });
    let waits =
        packed.waits.into_iter().map(|(file, line, count, ns)| Wait { file, line, count, waited_ns: ns });
    let unchecked = FunctionProfile {
        operation: operation.to_owned(),
        hz: hz.clamp(1, 100_000),
        operations: 1,
        points: packed.points,
        functions: functions.collect(),
        stacks: stacks.collect(),
        waits: waits.collect(),
        left_out: number("left_out")?,
        too_deep: number("too_deep")?,
        nameless: details.get("nameless").and_then(serde_json::Value::as_bool).unwrap_or(false),
    };
    // What is not in order is counted there.
    let mut builder = Builder::new(&unchecked.operation, unchecked.hz);
    builder.merge(&unchecked, true);
    Ok(Some(builder.finish()))
}

fn unpack(text: &str) -> Result<PackedProfile, CarriedError> {
    // Larger than any that is written: bounded before it is decoded.
    if text.len() > 2 * PACKED_BYTES_MAX {
        return Err(CarriedError::Damaged);
    }
    let packed = STANDARD.decode(text).map_err(|_| CarriedError::Damaged)?;
    let mut json = Vec::new();
    let read = ZlibDecoder::new(&*packed).take(UNPACKED_BYTES_MAX + 1).read_to_end(&mut json);
    if read.is_err() || json.len() as u64 > UNPACKED_BYTES_MAX {
        return Err(CarriedError::Damaged);
    }
    serde_json::from_slice(&json).map_err(|_| CarriedError::Damaged)
}
