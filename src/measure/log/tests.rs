//! What a reader makes of logs that are whole, cut, damaged or unreadable, and what is written to full disks.

mod golden;

use super::*;
use crate::errors::{Failure, FailureClass};
use crate::phases::Phases;
use crate::sample::{ActionSample, CompletionStatus, IterationSample};
use proptest::prelude::*;
use reader::LogReader;
use serde_json::Value;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Instant;

fn samples(numbers: std::ops::Range<u64>) -> Rows {
    let mut rows = Rows::default();
    for number in numbers {
        rows.push(&IterationSample {
            number,
            start_ns: number * 1000,
            due_ns: number * 1000,
            duration_ns: 500 + number % 7,
            ..Default::default()
        });
    }
    rows
}

fn failure() -> [NumberedFailure; 1] {
    let failure =
        Failure { class: FailureClass::Status, action: Some("a".into()), message: "500".into(), seen: None };
    [NumberedFailure { number: 1, failure }]
}

fn end(rows: u64) -> io::Result<Vec<u8>> {
    Ok(format!("{{\"done\":true,\"rows\":{rows}}}").into_bytes())
}

/// A log of three frames of samples, with the length at which each frame ends.
fn written() -> (Vec<u8>, Vec<usize>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE_NAME);
    let mut writer = LogWriter::create(&path).unwrap();
    writer.header_with(b"{}").unwrap();
    let mut ends = Vec::new();
    for frame in 0..3 {
        writer.samples(&samples(frame * 10..frame * 10 + 10)).unwrap();
        writer.flush().unwrap();
        writer.seal().unwrap();
        ends.push(usize::try_from(std::fs::metadata(&path).unwrap().len()).unwrap());
    }
    writer.failures(&failure()).unwrap();
    writer.end_with(end).unwrap();
    assert!(LogWriter::create(&path).is_err(), "a log is never written over");
    (std::fs::read(&path).unwrap(), ends)
}

/// A disk with this much room; `grows` gives it more once it was full.
struct SmallDisk {
    written: Arc<Mutex<Vec<u8>>>,
    room: usize,
    grows: bool,
    cuts: bool,
    /// How often it can still bring what was written to the disk.
    syncs: usize,
}

impl Write for SmallDisk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut written = self.written.lock().unwrap();
        let fits = bytes.len().min(self.room.saturating_sub(written.len()));
        if fits == 0 && !bytes.is_empty() {
            self.room += if self.grows { 1 << 20 } else { 0 };
            return Err(io::ErrorKind::StorageFull.into());
        }
        written.extend_from_slice(&bytes[..fits]);
        Ok(fits)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for SmallDisk {
    fn sync(&mut self) -> io::Result<()> {
        self.syncs = self.syncs.checked_sub(1).ok_or_else(|| io::Error::other("no answer"))?;
        Ok(())
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        if !self.cuts {
            return Err(io::Error::other("not here"));
        }
        self.written.lock().unwrap().truncate(usize::try_from(length).unwrap());
        Ok(())
    }
}

/// What a reader makes of some bytes.
#[derive(Debug, Default, PartialEq)]
struct ReaderOutcome {
    numbers: Vec<u64>,
    /// The content of the end, if there is one.
    end: Option<Value>,
    flaws: Flaws,
    error: Option<String>,
}

impl ReaderOutcome {
    /// True when every iteration that was taken is here, and the log itself says so.
    fn says_that_all_is_here(&self) -> bool {
        let expected = self.end.as_ref().map(|end| end["rows"].as_u64().unwrap());
        expected == Some(self.numbers.len() as u64) && self.flaws == Flaws::default() && self.error.is_none()
    }
}

fn read(input: impl io::Read) -> ReaderOutcome {
    let mut read = ReaderOutcome::default();
    let mut reader = match LogReader::new(input, "t") {
        Ok(reader) => reader,
        Err(error) => return ReaderOutcome { error: Some(error.to_string()), ..read },
    };
    for frame in reader.by_ref() {
        match frame {
            Ok(Frame::Samples(rows)) => {
                read.numbers.extend(rows.iter().map(|row| {
                    let head = row.head;
                    assert_eq!(
                        (head.start_ns, head.duration_ns),
                        (head.number * 1000, 500 + head.number % 7)
                    );
                    head.number
                }));
            }
            Ok(Frame::End(json)) => read.end = serde_json::from_slice(&json).ok(),
            Ok(_) => {}
            Err(error) => read.error = Some(error.to_string()),
        }
    }
    assert!(reader.next().is_none(), "once over, it stays so");
    read.flaws = reader.flaws();
    read
}

/// Writes what `written` writes to a disk: what is on it, which blocks of ten were taken, whether the end was, and how
/// many iterations were lost.
fn write_to(mut disk: SmallDisk) -> (Vec<u8>, Vec<u64>, bool, u64) {
    let written = Arc::clone(&disk.written);
    disk.syncs = disk.syncs.saturating_add(1);
    let (mut taken, mut ended, mut lost) = (Vec::new(), false, 0);
    if let Ok(mut writer) = LogWriter::to_sink(Box::new(disk))
        && writer.header_with(b"{}").is_ok()
    {
        for frame in 0..3 {
            let numbers = frame * 10..frame * 10 + 10;
            writer.samples(&samples(numbers.clone())).unwrap();
            // The last block waits for the end to be written.
            if frame == 2 {
                let _ = writer.failures(&failure());
                ended = writer.end_with(end).is_ok();
            } else if writer.seal().is_ok() {
                taken.extend(numbers.clone());
            }
            if frame == 2 && writer.rows() > taken.len() as u64 {
                taken.extend(numbers);
            }
        }
        assert_eq!(writer.rows(), taken.len() as u64);
        lost = writer.lost(0);
    }
    let bytes = written.lock().unwrap().clone();
    (bytes, taken, ended, lost)
}

#[test]
fn a_disk_that_is_full_at_any_byte_gives_the_exact_truth_or_none() {
    let (whole, _) = written();
    for room in 0..=whole.len() + 20 {
        for (grows, cuts) in [(false, false), (false, true), (true, true), (true, false)] {
            let context = format!("room {room}, grows {grows}, cuts {cuts}");
            let disk = SmallDisk { written: Arc::default(), room, grows, cuts, syncs: usize::MAX };
            let (bytes, taken, ended, lost) = write_to(disk);
            let found = read(bytes.as_slice());
            assert_eq!(found.numbers, taken, "{context}: {:?}", found.flaws);
            if bytes.len() >= 10 && room >= 40 {
                assert_eq!(taken.len() as u64 + lost, 30, "{context}: all are written or counted");
            }
            assert!(!cuts || bytes.len() < 10 || found.flaws == Flaws::default(), "{context}: no half frame");
            let all_here = taken.len() == 30;
            if ended {
                let rows = found.end.as_ref().unwrap()["rows"].as_u64();
                assert_eq!(rows, Some(taken.len() as u64), "{context}: the end counts what is there");
            }
            assert!(all_here || !found.says_that_all_is_here() || lost > 0, "{context}: a loss is known");
        }
    }
}

#[test]
fn an_end_that_may_not_be_on_the_disk_is_taken_back() {
    for (syncs, all_there) in [(0, false), (1, true)] {
        let disk = SmallDisk { written: Arc::default(), room: usize::MAX, grows: false, cuts: true, syncs };
        let (bytes, taken, ended, lost) = write_to(disk);
        let found = read(bytes.as_slice());
        assert_eq!((ended, lost, taken.len()), (all_there, 0, 30));
        assert_eq!((found.end.is_some(), found.numbers.len()), (all_there, 30), "{found:?}");
    }
}

#[test]
fn samples_wait_for_others_to_share_a_block_with_but_not_for_long() {
    let sink = Arc::new(Mutex::new(Vec::new()));
    let disk = SmallDisk { written: Arc::clone(&sink), room: usize::MAX, grows: false, cuts: true, syncs: 9 };
    let mut writer = LogWriter::to_sink(Box::new(disk)).unwrap();
    writer.samples(&samples(0..10)).unwrap();
    writer.flush().unwrap();
    assert_eq!(writer.length_bytes(), 10, "a block of ten would be small");
    writer.samples(&samples(10..20_000)).unwrap();
    writer.age();
    writer.flush().unwrap();
    let bytes = sink.lock().unwrap().clone();
    let expected = ReaderOutcome { numbers: (0..20_000).collect(), ..ReaderOutcome::default() };
    assert_eq!(read(bytes.as_slice()), expected);
}

#[test]
fn what_a_full_disk_does_not_take_is_counted_by_workload_and_dropped_arrivals_are_not() {
    let disk = SmallDisk { written: Arc::default(), room: 30, grows: false, cuts: true, syncs: 9 };
    let mut writer = LogWriter::to_sink(Box::new(disk)).unwrap();
    let mut rows = Rows::default();
    for number in 0..30_000 {
        let ended = if number % 5 == 0 { CompletionStatus::Dropped } else { CompletionStatus::Ok };
        rows.push(&IterationSample { number, workload: (number % 2) as u16, ended, ..Default::default() });
    }
    assert!(writer.samples(&rows).is_err());
    assert!(writer.seal().is_err() || writer.lost(0) + writer.lost(1) == 24_000);
    assert_eq!((writer.rows(), writer.lost(0), writer.lost(1), writer.lost(2)), (0, 12_000, 12_000, 0));
}

#[test]
fn a_log_cut_at_any_byte_gives_all_before_its_last_frame_and_is_called_cut() {
    let (bytes, ends) = written();
    assert!(read(bytes.as_slice()).says_that_all_is_here());
    for cut in 10..bytes.len() {
        let whole = ends.iter().filter(|end| **end <= cut).count() as u64;
        let found = read(&bytes[..cut]);
        assert_eq!(found.numbers, (0..whole * 10).collect::<Vec<_>>(), "cut at {cut}");
        assert_eq!((found.flaws.damaged, found.end), (0, None), "cut at {cut}");
    }
}

#[test]
fn one_wrong_bit_anywhere_costs_one_frame_at_most_and_is_called_damage() {
    let (bytes, ends) = written();
    for bit in 80..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let found = read(damaged.as_slice());
        let hit = ends.iter().position(|end| bit / 8 < *end);
        // The first block's frame begins behind the header's.
        let hit = hit.filter(|_| bit / 8 >= 10 + FRAME_HEAD_BYTES + 2);
        let expected: Vec<u64> = (0..30).filter(|number| hit != Some(*number as usize / 10)).collect();
        assert_eq!(found.numbers, expected, "bit {bit}");
        assert!(!found.says_that_all_is_here(), "bit {bit}: {found:?}");
        let flaws = found.flaws;
        assert!(flaws.damaged == 1 || found.end.is_none() && flaws.cut_bytes > 0, "bit {bit}: {found:?}");
        assert!(flaws.damaged == 0 || flaws.damaged_bytes <= 90, "bit {bit}: {flaws:?}");
    }
}

/// Gives the bytes in small pieces, and an error at one of them.
struct FailingReader<'a> {
    bytes: &'a [u8],
    at: usize,
    fails_at: usize,
}

impl io::Read for FailingReader<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.at == self.fails_at {
            return Err(io::Error::from_raw_os_error(5));
        }
        let left = &self.bytes[self.at..self.fails_at.min(self.bytes.len())];
        let length = left.len().min(into.len()).min(7);
        into[..length].copy_from_slice(&left[..length]);
        self.at += length;
        Ok(length)
    }
}

#[test]
fn a_log_that_cannot_be_read_on_at_any_byte_says_so_and_gives_what_came_before() {
    let (bytes, ends) = written();
    for fails_at in 0..=bytes.len() {
        let found = read(FailingReader { bytes: &bytes, at: 0, fails_at });
        let error = found.error.as_deref().unwrap_or_default();
        assert!(error.starts_with("t cannot be read beyond byte"), "{fails_at}: {error}");
        let whole = ends.iter().filter(|end| **end <= fails_at).count() as u64;
        assert_eq!(found.numbers, (0..whole * 10).collect::<Vec<_>>(), "{fails_at}");
    }
}

#[test]
fn foreign_files_and_other_versions_say_so() {
    let (mut bytes, _) = written();
    assert!(matches!(LogReader::new(&b"hello world, hello"[..], "t"), Err(LogError::Foreign { .. })));
    assert!(matches!(LogReader::new(&b"BENCH"[..], "t"), Err(LogError::Foreign { .. })));
    bytes[8] = 9;
    assert!(matches!(LogReader::new(bytes.as_slice(), "t"), Err(LogError::Version { found: 9, .. })));
}

#[test]
fn what_looks_like_frames_and_is_none_costs_little() {
    let (whole, _) = written();
    // Each of these places claims to begin a frame of 128 KiB.
    let claim = [0, 0, 2, 0, KIND_SAMPLES, 1, 2, 3, 4];
    for filler in [claim.repeat(60_000), vec![0; 1 << 19], vec![1; 1 << 19], [0, 0, 2, 4].repeat(1 << 17)] {
        let mut bytes = whole[..21].to_vec();
        bytes.extend_from_slice(&filler);
        bytes.extend_from_slice(&whole[21..]);
        let started = Instant::now();
        let found = read(bytes.as_slice());
        assert_eq!(found.numbers, (0..30).collect::<Vec<_>>());
        assert_eq!((found.flaws.damaged, found.flaws.damaged_bytes), (1, filler.len() as u64));
        // Summing up every claim would take hours.
        assert!(started.elapsed().as_secs() < 120, "{:?}", started.elapsed());
    }
}

#[test]
fn addresses_and_users_are_read_as_they_were_written() {
    let address = |last: u8| std::net::IpAddr::from([10, 0, 0, last]);
    let action = |address| ActionSample {
        phases: Phases { address, opened: true, version: 1, ..Phases::default() },
        ended: CompletionStatus::Failed,
        ..ActionSample::default()
    };
    let sample = |number: u64, user, addresses: &[u16]| IterationSample {
        number,
        user,
        warm_up: true,
        ended: CompletionStatus::Aborted,
        actions: addresses.iter().map(|number| action(*number)).collect(),
        ..IterationSample::default()
    };
    let all =
        [sample(0, 0, &[]), sample(1, 1, &[1, 0]), sample(2, u32::MAX, &[u16::MAX, 2]), sample(3, 7, &[])];
    let sink = Arc::new(Mutex::new(Vec::new()));
    let disk = SmallDisk { written: Arc::clone(&sink), room: usize::MAX, grows: false, cuts: true, syncs: 9 };
    let mut writer = LogWriter::to_sink(Box::new(disk)).unwrap();
    let mut rows = Rows::default();
    all.iter().for_each(|sample| rows.push(sample));
    writer.addresses(&[(1, address(3)), (2, address(4))]).unwrap();
    writer.samples(&rows).unwrap();
    writer.addresses(&[(3, "2001:db8::1".parse().unwrap())]).unwrap();
    writer.seal().unwrap();
    let bytes = sink.lock().unwrap().clone();
    let (mut addresses, mut samples) = (Vec::new(), Vec::new());
    let mut reader = LogReader::new(bytes.as_slice(), "t").unwrap();
    for frame in reader.by_ref() {
        match frame.unwrap() {
            Frame::Addresses(some) => addresses.extend(some),
            Frame::Samples(rows) => samples.extend(rows.iter().map(|row| row.to_sample())),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(addresses, [(1, address(3)), (2, address(4)), (3, "2001:db8::1".parse().unwrap())]);
    assert_eq!((samples.as_slice(), reader.flaws()), (all.as_slice(), Flaws::default()));
}

proptest! {
    #[test]
    fn whatever_is_done_to_a_log_what_is_read_was_written_and_all_is_here_only_if_it_is(
        flips in prop::collection::vec((10..500_usize, 0..8_u8), 0..6),
        moved in prop::option::of((10..500_usize, 10..500_usize, 0..120_usize)),
        cut in prop::option::of(10..600_usize),
        fails_at in prop::option::of(0..600_usize),
    ) {
        let (mut bytes, _) = written();
        let last = bytes.len() - 1;
        flips.iter().for_each(|(at, bit)| bytes[(*at).min(last)] ^= 1 << bit);
        if let Some((from, to, length)) = moved {
            let piece = bytes[from.min(last)..(from + length).min(last)].to_vec();
            let to = to.min(last);
            bytes.splice(to..to, piece);
        }
        if let Some(cut) = cut {
            bytes.truncate(cut);
        }
        let fails_at = fails_at.unwrap_or(usize::MAX);
        let found = read(FailingReader { bytes: &bytes, at: 0, fails_at });
        let mut known = found.numbers.clone();
        known.dedup();
        prop_assert!(known.iter().all(|number| *number < 30), "nothing is invented: {:?}", found);
        if found.says_that_all_is_here() {
            prop_assert_eq!(found.numbers, (0..30).collect::<Vec<_>>());
        }
    }
}

/// A pass can be watched, and can leave out what ended late, as a reader of a load under way does.
#[test]
fn a_pass_says_how_far_it_is_and_ends_where_it_is_told_to() {
    struct SeenNumbers(Vec<u64>);
    impl Visitor for SeenNumbers {
        fn rows(&mut self, rows: &Rows) -> io::Result<()> {
            self.0.extend(rows.iter().map(|row| row.head.number));
            Ok(())
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE_NAME);
    let mut writer = LogWriter::create(&path).unwrap();
    writer.header(&golden::header()).unwrap();
    for frame in 0..3 {
        writer.samples(&samples(frame * 10..frame * 10 + 10)).unwrap();
        writer.seal().unwrap();
    }
    let size = std::fs::metadata(&path).unwrap().len();
    let mut log = RunLog::open(&path).unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&heard);
    log.tell(move |read, of| told.lock().unwrap().push((read, of)));
    log.leave_out_after(14_600);
    let mut numbers = SeenNumbers(Vec::new());
    log.visit(&mut [&mut numbers]).unwrap();
    // They begin every microsecond and take half of one or a little more.
    assert_eq!(numbers.0, (0..15).collect::<Vec<_>>());
    let heard = heard.lock().unwrap().clone();
    assert!(heard.len() >= 4 && heard.is_sorted(), "{heard:?}");
    assert_eq!(heard.last(), Some(&(size, size)));
}
