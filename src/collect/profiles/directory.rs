//! Profiles that services leave in a directory: pprof's format or collapsed stacks, found by the ids of a trace.
//!
//! A file belongs to a trace if its name begins with the trace's id, to a point if it begins with the point's (each as
//! OSProfiler or as OpenTelemetry writes it). In a file of pprof's format, samples may have the id of a point as a label.
//! Files are hostile: their number and size are bounded, and what cannot be read is counted.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{PointIdIndex, PointProfiles};
use osprofiler::functions::model::FunctionProfile;
use osprofiler::functions::{collapsed, pprof};
use osprofiler::record::TraceRecord;
use text::files::read_regular;

/// More files of a directory are not looked at.
const FILES_MAX: usize = 20_000;
/// Larger files are not read.
const FILE_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// Where the label of a sample may have the id of its point.
const LABELS: [&str; 4] = ["span_id", "profile_id", "span id", "trace_point"];
/// Without a rate in the file.
const HZ: u32 = 100;

/// The profiles of a directory.
pub(super) struct Directory {
    files: Vec<PathBuf>,
}

/// How a file is written.
#[derive(Clone, Copy, PartialEq)]
enum ProfileFileFormat {
    Collapsed,
    Pprof,
}

fn kind(path: &Path) -> Option<ProfileFileFormat> {
    let name = path.file_name()?.to_str()?;
    let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
    match () {
        () if ends(&[".collapsed", ".folded"]) => Some(ProfileFileFormat::Collapsed),
        () if ends(&[".pb.gz", ".pprof", ".pb"]) => Some(ProfileFileFormat::Pprof),
        () => None,
    }
}

impl Directory {
    /// Lists a directory.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn open(directory: &Path) -> io::Result<Self> {
        let mut files = Vec::new();
        for entry in fs::read_dir(directory)?.take(FILES_MAX) {
            let path = entry?.path();
            if kind(&path).is_some() {
                files.push(path);
            }
        }
        files.sort();
        Ok(Self { files })
    }

    /// The profiles of a trace, and how many files cannot be read.
    pub(super) fn of(&self, base_id: &str, records: &[TraceRecord]) -> (PointProfiles, u64) {
        let points = PointIdIndex::of(base_id, records);
        let (mut found, mut unreadable) = (PointProfiles::default(), 0);
        for path in &self.files {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let owner = points.named_by(name);
            // A file of another trace, unless its samples say whose they are.
            if owner.is_none() && kind(path) != Some(ProfileFileFormat::Pprof) {
                continue;
            }
            match read(path) {
                Ok(parts) => {
                    for (label, profile) in parts {
                        let point = label.and_then(|label| points.known(&label)).or(owner.clone());
                        if let Some(point) = point {
                            found.add(&point, name, &profile);
                        }
                    }
                }
                Err(()) => unreadable += 1,
            }
        }
        (found, unreadable)
    }
}

fn read(path: &Path) -> Result<Vec<(Option<String>, FunctionProfile)>, ()> {
    if fs::metadata(path).map_err(|_| ())?.len() > FILE_BYTES_MAX {
        return Err(());
    }
    let bytes = read_regular(path).map_err(|_| ())?;
    match kind(path) {
        Some(ProfileFileFormat::Pprof) => {
            let parts = pprof::decode("", &bytes, &LABELS).map_err(|_| ())?;
            Ok(parts.into_iter().collect())
        }
        _ => {
            let text = String::from_utf8_lossy(&bytes);
            let (profile, _) = collapsed::decode("", HZ, &text);
            if profile.stacks.is_empty() && !text.trim().is_empty() {
                return Err(());
            }
            Ok(vec![(None, profile)])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{AddedProfiles, ProfileSource};
    use super::*;
    use osprofiler::functions::model::{Builder, Function};
    use osprofiler::record::Info;
    use results::functions::Functions;

    use futures_util::FutureExt as _;

    const BASE: &str = "5d8a1c55-2f4e-4b6a-9c3d-112233445566";
    const POINT: &str = "11111111-1111-4111-8222-333333333333";
    const OTHER: &str = "44444444-1111-4111-8555-666666666666";

    fn records() -> Vec<TraceRecord> {
        let record = |name: &str, id: &str, parent: &str, us: u32| TraceRecord {
            name: name.into(),
            base_id: BASE.into(),
            trace_id: id.into(),
            parent_id: parent.into(),
            timestamp: format!("2026-11-20T22:52:01.{us:06}").into(),
            info: Info::new().into(),
            project: None,
            service: None,
        };
        vec![
            record("wsgi-start", POINT, BASE, 0),
            record("db-start", OTHER, POINT, 10),
            record("db-stop", OTHER, POINT, 20),
            record("wsgi-stop", POINT, BASE, 30),
        ]
    }

    fn found(directory: &Path) -> (Vec<(String, u64)>, u64) {
        let mut records = records();
        let source = ProfileSource::Directory(directory.to_path_buf());
        let mut add = || -> AddedProfiles {
            let traces = std::iter::once((BASE.to_owned(), &mut records));
            source.add_to(traces).now_or_never().unwrap().unwrap()
        };
        // What was added before is replaced.
        let (added, again) = (add(), add());
        assert_eq!(added, again);
        let profiles = Functions::of(&records).profiles;
        let seen: Vec<_> =
            profiles.iter().map(|profile| (profile.points[0].clone(), profile.samples())).collect();
        assert_eq!(added.traces, usize::from(!seen.is_empty()));
        (seen, added.unreadable)
    }

    #[test]
    fn files_are_found_by_the_ids_of_a_trace_and_of_its_points() {
        for (name, expected) in [
            (format!("{BASE}.collapsed"), Some(POINT)),
            (format!("{}-12345678.folded", BASE.replace('-', "")), Some(POINT)),
            (format!("{OTHER}.collapsed"), Some(OTHER)),
            ("8555666666666666.collapsed".to_owned(), Some(OTHER)),
            ("00000000-0000-4000-8000-000000000000.collapsed".to_owned(), None),
            (format!("{BASE}.txt"), None),
        ] {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join(&name), "main;render 3\nmain 1\n").unwrap();
            let expected: Vec<_> = expected.into_iter().map(|id| (id.to_owned(), 4)).collect();
            assert_eq!(found(folder.path()), (expected, 0), "{name}");
        }
    }

    #[test]
    fn samples_of_pprof_are_found_by_their_labels() {
        let folder = tempfile::tempdir().unwrap();
        let mut builder = Builder::new("all", 100);
        builder.add(Some("8555666666666666"), &[Function::named("query")], 5);
        builder.add(Some("8222333333333333"), &[Function::named("render")], 7);
        builder.add(Some("9999999999999999"), &[Function::named("elsewhere")], 9);
        fs::write(folder.path().join("cpu.pb.gz"), pprof::encode(&builder.finish()).unwrap()).unwrap();
        fs::write(folder.path().join("broken.pb.gz"), "no profile").unwrap();
        let expected = vec![(POINT.to_owned(), 7), (OTHER.to_owned(), 5)];
        assert_eq!(found(folder.path()), (expected, 1));
    }
}
