//! Profiles in pprof's format (`profile.proto`, package `perftools.profiles`), gzipped as its tools write them.
//!
//! Profiles from other programs are hostile: the bytes are bounded, then counted, and only then decoded.

use std::collections::{BTreeMap, HashMap};
use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use prost::Message;
use prost::encoding::{DecodeContext, decode_key, skip_field};
use thiserror::Error;

use super::model::{Builder, Function, FunctionProfile};

/// Larger files are not read, neither as they are nor unpacked.
pub const FILE_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Files with more samples, locations, functions and strings together are not read.
pub const PARTS_MAX: usize = 500_000;

const GZIP: [u8; 2] = [0x1f, 0x8b];
const NANOSECONDS: &str = "nanoseconds";

#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_types: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    locations: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    functions: Vec<FunctionEntry>,
    #[prost(string, repeated, tag = "6")]
    strings: Vec<String>,
    #[prost(int64, tag = "10")]
    duration_ns: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
    #[prost(int64, repeated, tag = "13")]
    comments: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    /// Innermost first.
    #[prost(uint64, repeated, tag = "1")]
    location_ids: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    values: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    labels: Vec<Label>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(int64, tag = "1")]
    key: i64,
    #[prost(int64, tag = "2")]
    text: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    /// Inlined functions first, their caller last.
    #[prost(message, repeated, tag = "4")]
    lines: Vec<PprofLine>,
}

#[derive(Clone, PartialEq, Message)]
struct PprofLine {
    #[prost(uint64, tag = "1")]
    function_id: u64,
    #[prost(int64, tag = "2")]
    line: i64,
}

#[derive(Clone, PartialEq, Message)]
struct FunctionEntry {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
    #[prost(int64, tag = "4")]
    file: i64,
    #[prost(int64, tag = "5")]
    first_line: i64,
}

/// Why bytes are not read as a profile.
#[derive(Debug, Error)]
pub enum PprofError {
    /// Over [`FILE_BYTES_MAX`].
    #[error("read a pprof profile: it is over {FILE_BYTES_MAX} bytes; take it for a shorter time")]
    TooLong,
    /// Over [`PARTS_MAX`].
    #[error("read a pprof profile: it has over {PARTS_MAX} entries; take it for a shorter time")]
    TooMany,
    /// It is compressed and damaged.
    #[error("unpack a pprof profile: its gzip data is damaged")]
    Gzip(#[source] std::io::Error),
    /// No protobuf of that shape.
    #[error("decode a pprof profile: it is not of pprof's format")]
    Protobuf(#[source] prost::DecodeError),
}

/// The bytes of a `.pb.gz` file. Its comment says what the numbers are, and each sample has its trace point as the
/// label `span_id`.
///
/// # Errors
/// None in practice: packing in memory.
pub fn encode(profile: &FunctionProfile) -> std::io::Result<Vec<u8>> {
    let mut strings = Strings::default();
    let period = 1_000_000_000 / i64::from(profile.hz.max(1));
    let mut kind = |kind: &str, unit: &str| ValueType { kind: strings.at(kind), unit: strings.at(unit) };
    let sample_types = vec![kind("samples", "count"), kind("cpu", NANOSECONDS)];
    let period_type = Some(kind("cpu", NANOSECONDS));
    let functions = profile.functions.iter().zip(1..).map(|(function, id)| FunctionEntry {
        id,
        name: strings.at(&function.name),
        system_name: strings.at(&function.name),
        file: strings.at(&function.file),
        first_line: i64::from(function.line),
    });
    let functions: Vec<FunctionEntry> = functions.collect();
    let locations = profile.functions.iter().zip(1..).map(|(function, id)| {
        let line = PprofLine { function_id: id, line: i64::from(function.line) };
        Location { id, lines: vec![line] }
    });
    let samples = profile.stacks.iter().map(|stack| {
        let samples = i64::try_from(stack.samples).unwrap_or(i64::MAX);
        let point = stack.point.and_then(|point| profile.points.get(point as usize));
        let label = point.map(|id| Label { key: strings.at("span_id"), text: strings.at(id) });
        Sample {
            location_ids: stack.frames.iter().rev().map(|frame| u64::from(*frame) + 1).collect(),
            values: vec![samples, samples.saturating_mul(period)],
            labels: label.into_iter().collect(),
        }
    });
    let file = Profile {
        sample_types,
        samples: samples.collect(),
        locations: locations.collect(),
        functions,
        period_type,
        period,
        duration_ns: 0,
        comments: vec![strings.at(&format!("{}: {}", profile.operation, profile.header()))],
        strings: Vec::new(),
    };
    let file = Profile { strings: strings.texts, ..file };
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(&file.encode_to_vec())?;
    gzip.finish()
}

/// The string table: its first entry is empty.
struct Strings {
    texts: Vec<String>,
    known: HashMap<String, i64>,
}

impl Default for Strings {
    fn default() -> Self {
        Self { texts: vec![String::new()], known: HashMap::from([(String::new(), 0)]) }
    }
}

impl Strings {
    fn at(&mut self, text: &str) -> i64 {
        if let Some(&known) = self.known.get(text) {
            return known;
        }
        let at = i64::try_from(self.texts.len()).unwrap_or(0);
        self.texts.push(text.to_owned());
        self.known.insert(text.to_owned(), at);
        at
    }
}

/// Reads a profile, split by the first of `labels` that each sample has; samples without any are under `None`.
///
/// # Errors
/// Too long, damaged, or not of the format.
pub fn decode(
    operation: &str,
    bytes: &[u8],
    labels: &[&str],
) -> Result<BTreeMap<Option<String>, FunctionProfile>, PprofError> {
    let unpacked = unpack(bytes)?;
    count(&unpacked)?;
    let profile = Profile::decode(&*unpacked).map_err(PprofError::Protobuf)?;
    Ok(Reader::new(&profile).split(operation, labels))
}

fn unpack(bytes: &[u8]) -> Result<Vec<u8>, PprofError> {
    if bytes.len() > FILE_BYTES_MAX {
        return Err(PprofError::TooLong);
    }
    if !bytes.starts_with(&GZIP) {
        return Ok(bytes.to_vec());
    }
    let mut unpacked = Vec::new();
    let limit = FILE_BYTES_MAX as u64 + 1;
    MultiGzDecoder::new(bytes).take(limit).read_to_end(&mut unpacked).map_err(PprofError::Gzip)?;
    if unpacked.len() > FILE_BYTES_MAX { Err(PprofError::TooLong) } else { Ok(unpacked) }
}

/// Two bytes of an empty message become many in memory, so messages are counted first.
fn count(mut bytes: &[u8]) -> Result<(), PprofError> {
    let mut parts = 0;
    while !bytes.is_empty() {
        let (tag, wire_type) = decode_key(&mut bytes).map_err(PprofError::Protobuf)?;
        skip_field(wire_type, tag, &mut bytes, DecodeContext::default()).map_err(PprofError::Protobuf)?;
        parts += 1;
        if parts > PARTS_MAX {
            return Err(PprofError::TooMany);
        }
    }
    Ok(())
}

struct Reader<'a> {
    profile: &'a Profile,
    locations: HashMap<u64, &'a Location>,
    functions: HashMap<u64, &'a FunctionEntry>,
    /// Which value of a sample counts, and what it is divided by.
    value: usize,
    divisor: i64,
    hz: u32,
}

impl<'a> Reader<'a> {
    fn new(profile: &'a Profile) -> Self {
        let text = |at: i64| text_at(profile, at);
        let is = |unit: &str| profile.sample_types.iter().position(|kind| text(kind.unit) == unit);
        let period = profile.period.max(1);
        let timed = profile.period_type.as_ref().is_some_and(|kind| text(kind.unit) == NANOSECONDS);
        let (value, divisor) = match (is("count"), is(NANOSECONDS)) {
            (Some(count), _) => (count, 1),
            (None, Some(time)) if timed => (time, period),
            (None, Some(time)) => (time, 10_000_000),
            (None, None) => (0, 1),
        };
        let hz = if timed { u32::try_from(1_000_000_000 / period).unwrap_or(100).max(1) } else { 100 };
        Self {
            profile,
            locations: profile.locations.iter().map(|location| (location.id, location)).collect(),
            functions: profile.functions.iter().map(|function| (function.id, function)).collect(),
            value,
            divisor,
            hz,
        }
    }

    fn split(&self, operation: &str, labels: &[&str]) -> BTreeMap<Option<String>, FunctionProfile> {
        let mut builders: BTreeMap<Option<String>, Builder> = BTreeMap::new();
        for sample in &self.profile.samples {
            let value = sample.values.get(self.value).copied().unwrap_or(0) / self.divisor;
            let label = labels.iter().find_map(|key| self.label(sample, key));
            let builder = builders.entry(label).or_insert_with(|| Builder::new(operation, self.hz));
            let frames = self.frames(sample);
            builder.add(None, &frames, u64::try_from(value).unwrap_or(0));
        }
        let finished = builders.into_iter().map(|(label, mut builder)| {
            builder.set_operations(1);
            (label, builder.finish())
        });
        finished.collect()
    }

    fn label(&self, sample: &Sample, key: &str) -> Option<String> {
        let found = sample.labels.iter().find(|label| text_at(self.profile, label.key) == key)?;
        Some(text_at(self.profile, found.text)).filter(|text| !text.is_empty()).map(str::to_owned)
    }

    fn frames(&self, sample: &Sample) -> Vec<Function> {
        let locations = sample.location_ids.iter().rev().filter_map(|id| self.locations.get(id));
        let lines = locations.flat_map(|location| location.lines.iter().rev());
        lines.map(|line| self.function(line)).take(super::model::DEPTH_MAX * 4).collect()
    }

    fn function(&self, line: &PprofLine) -> Function {
        let Some(function) = self.functions.get(&line.function_id) else { return Function::named("?") };
        let text = |at: i64| text_at(self.profile, at).to_owned();
        let first = if function.first_line > 0 { function.first_line } else { line.line };
        Function { name: text(function.name), file: text(function.file), line: first.try_into().unwrap_or(0) }
    }
}

fn text_at(profile: &Profile, at: i64) -> &str {
    usize::try_from(at).ok().and_then(|at| profile.strings.get(at)).map_or("", String::as_str)
}
