//! Reads what a comment is about: a run, a comparison of builds, or what `bench compare --json` wrote.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::HarnessError;
use crate::read_again;
use base::masking;
use report::comment::CommentSubject;
use report::{compare, pairs};
use results::directory::RunDirectory;
use results::stored::StoredRun;
use text::files::open_regular;

/// The largest comparison that is read.
const JSON_BYTES_MAX: u64 = 64 << 20;
const KINDS: &str = "give the directory of a run or of a comparison, its results.json or ab.json, or what `bench compare \
                     --json -o FILE` wrote";

/// Reads the run or the comparison at this path. Secrets that are known are masked in it.
pub(super) fn read(path: &Path) -> Result<CommentSubject, HarnessError> {
    if !path.is_dir() {
        return of_file(path);
    }
    let comparison = path.join("ab.json");
    if comparison.is_file() {
        return of_file(&comparison);
    }
    let directory = RunDirectory::open(path);
    if directory.results().is_file() {
        return of_results(&directory.results());
    }
    if directory.log().is_file() {
        let (_, _, results, _) = read_again::read_again(path, |_| Ok(()))?;
        let json = serde_json::to_value(&results).map_err(HarnessError::cannot("mask the results"))?;
        return Ok(CommentSubject::Run(Box::new(of_json(json, path)?)));
    }
    Err(HarnessError::input(format!("{} holds no run and no comparison", path.display())).remedy(KINDS))
}

fn of_results(path: &Path) -> Result<CommentSubject, HarnessError> {
    let results = StoredRun::results_of(path).map_err(HarnessError::input)?;
    let json = serde_json::to_value(&results).map_err(HarnessError::cannot("mask the results"))?;
    Ok(CommentSubject::Run(Box::new(of_json(json, path)?)))
}

fn of_file(path: &Path) -> Result<CommentSubject, HarnessError> {
    let failed = |error: std::io::Error| {
        HarnessError::input(format!("cannot read {}: {error}", path.display())).remedy(KINDS)
    };
    let mut head = [0_u8; 4096];
    let file: File = open_regular(path).map_err(failed)?;
    let mut text = Vec::new();
    let length = (&file).read(&mut head).map_err(failed)?;
    // Results list every iteration, and are read one by one.
    if String::from_utf8_lossy(&head[..length]).contains("\"bench-results\"") {
        return of_results(path);
    }
    text.extend_from_slice(&head[..length]);
    file.take(JSON_BYTES_MAX).read_to_end(&mut text).map_err(failed)?;
    let json: Value = serde_json::from_slice(&text).map_err(|error| {
        HarnessError::input(format!("{} is not JSON: {error}", path.display())).remedy(KINDS)
    })?;
    let version = json["version"].as_u64();
    let known = match json["format"].as_str() {
        Some(pairs::FORMAT) => pairs::VERSION,
        Some(compare::TWO_RUNS | compare::HISTORY) => compare::VERSION,
        _ => {
            let text = format!("{} is no run and no comparison of bench", path.display());
            return Err(HarnessError::input(text).remedy(KINDS));
        }
    };
    if version != Some(u64::from(known)) {
        let text = format!("{} has another version than {known}", path.display());
        return Err(HarnessError::input(text).remedy("use the bench that wrote it"));
    }
    Ok(match json["format"].as_str() {
        Some(pairs::FORMAT) => CommentSubject::Pairs(of_json(json, path)?),
        Some(compare::TWO_RUNS) => CommentSubject::TwoRuns(of_json(json, path)?),
        _ => CommentSubject::History(of_json(json, path)?),
    })
}

fn of_json<T: DeserializeOwned>(mut json: Value, path: &Path) -> Result<T, HarnessError> {
    masking::mask_json(&mut json);
    serde_json::from_value(json).map_err(|error| {
        HarnessError::input(format!("{}: {error}", path.display())).remedy("it was changed or damaged")
    })
}
