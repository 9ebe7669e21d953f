//! `contexts.json` in a run's directory: what the names of a run's things begin with, and what is left of them. It is
//! written before anything is made, so that even after SIGKILL everything can be found.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::sweep::LeftoverResource;
use text::files::{open_regular, write_at_once};

/// The file's name.
pub const FILE_NAME: &str = "contexts.json";
const VERSION: u32 = 1;
const BYTES_MAX: u64 = 64 << 20;

/// Whether a run's things are still there.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// They may be.
    Made,
    /// They were deleted, except for what is left.
    Deleted,
}

/// The content of the file.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    version: u32,
    /// What the names begin with.
    pub prefix: String,
    /// The deployment's file.
    pub deployment: PathBuf,
    pub state: State,
    /// What could not be deleted.
    pub left: Vec<LeftoverResource>,
}

impl Record {
    /// Before anything is made.
    pub fn new(prefix: String, deployment: &Path) -> Self {
        let deployment = std::path::absolute(deployment).unwrap_or_else(|_| deployment.to_path_buf());
        Self { version: VERSION, prefix, deployment, state: State::Made, left: Vec::new() }
    }

    /// After everything else was deleted.
    pub fn deleted(self, left: &[LeftoverResource]) -> Self {
        Self { state: State::Deleted, left: left.to_vec(), ..self }
    }

    /// Writes it into a run's directory.
    pub fn write(&self, directory: &Path) -> io::Result<()> {
        write_at_once(&directory.join(FILE_NAME), |output| Ok(serde_json::to_writer_pretty(output, self)?))
    }

    /// Reads that of a run; `None` if the run has none.
    pub fn read(directory: &Path) -> Result<Option<Self>, String> {
        let path = directory.join(FILE_NAME);
        let cannot = |error: String| format!("cannot read {}: {error}", path.display());
        let file = match open_regular(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(cannot(error.to_string())),
        };
        let mut json = Vec::new();
        file.take(BYTES_MAX).read_to_end(&mut json).map_err(|error| cannot(error.to_string()))?;
        let record: Self = serde_json::from_slice(&json).map_err(|error| cannot(error.to_string()))?;
        match record.version {
            VERSION => Ok(Some(record)),
            other => Err(cannot(format!("its version {other} is not known"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_they_were_written_and_others_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Record::read(folder.path()), Ok(None));
        let mut record = Record::new("bench-x".to_owned(), Path::new("d.yaml"));
        assert!(record.deployment.is_absolute());
        record.left.push(LeftoverResource {
            what: "server".to_owned(),
            id: "1".to_owned(),
            name: String::new(),
            why: Some("it is in use".to_owned()),
        });
        record.write(folder.path()).unwrap();
        assert_eq!(Record::read(folder.path()), Ok(Some(record)));
        for (text, expected) in [
            ("", "EOF"),
            ("{}", "missing field"),
            (
                r#"{"version":2,"prefix":"","deployment":"","state":"made","left":[]}"#,
                "version 2 is not known",
            ),
            (r#"{"version":1,"prefix":"","deployment":"","state":"odd","left":[]}"#, "odd"),
        ] {
            std::fs::write(folder.path().join(FILE_NAME), text).unwrap();
            let fault = Record::read(folder.path()).unwrap_err();
            assert!(fault.contains(expected), "{text}: {fault}");
        }
    }
}
