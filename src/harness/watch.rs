//! Waits until a scenario, or another file that it may read, is changed.
//!
//! These are the YAML files and gRPC's schemas in its folder, `.env`, and the files whose names stand in a YAML file: data,
//! bodies, certificates. What a service or a shell writes there, such as a log, is none of them.
//!
//! It looks at the files again and again: that works on every file system, and a few thousand files take a few milliseconds.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::interrupt::Interrupt;

/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How many files it looks at.
const FILES_MAX: usize = 5_000;
/// How deep below a folder.
const DEPTH_MAX: usize = 4;
/// Folders that hold no scenarios: what runs leave, what builds make.
const PASSED_OVER: [&str; 3] = ["runs", "target", "node_modules"];

/// Files that are read by their kind, wherever they are named.
const KINDS: [&str; 3] = ["yaml", "yml", "proto"];
/// How much text may name files.
const TEXT_BYTES_MAX: u64 = 4 << 20;

/// When each file was last changed, and how long it is.
type Snapshot = BTreeMap<PathBuf, (Option<SystemTime>, u64)>;

/// The files in the folders of a scenario and its deployment that they may read.
pub struct FolderWatch {
    folders: BTreeSet<PathBuf>,
    seen: Snapshot,
    /// The texts of the YAML files when they last changed.
    texts: String,
}

impl FolderWatch {
    /// Watches the folders of these files from now on.
    pub fn new<'p>(files: impl IntoIterator<Item = &'p Path>) -> Self {
        let folder = |file: &'p Path| {
            let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
            folder.unwrap_or(Path::new(".")).to_path_buf()
        };
        let folders = files.into_iter().map(folder).collect();
        let mut watch = Self { folders, seen: Snapshot::new(), texts: String::new() };
        watch.read_texts();
        watch.seen = watch.look();
        watch
    }

    /// How many files there are.
    #[must_use]
    pub fn files(&self) -> usize {
        self.seen.len()
    }

    /// Waits until files have changed since it last looked, and are no longer being written; `None` after an interrupt.
    pub fn wait(&mut self, interrupt: &Interrupt) -> Option<Vec<PathBuf>> {
        let mut changed = BTreeSet::new();
        loop {
            if interrupt.is_interrupted() {
                return None;
            }
            let now = self.look();
            let differ = |path: &&PathBuf| now.get(*path) != self.seen.get(*path);
            let new: BTreeSet<PathBuf> = now.keys().chain(self.seen.keys()).filter(differ).cloned().collect();
            self.seen = now;
            if new.iter().any(|path| is_of_kind(path)) {
                // What it names now is known, and no change.
                self.read_texts();
                self.seen = self.look();
            }
            // An editor may write a file in several steps.
            if new.is_empty() && !changed.is_empty() {
                return Some(changed.into_iter().collect());
            }
            changed.extend(new);
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn look(&self) -> Snapshot {
        let mut seen = self.all();
        seen.retain(|path, _| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name == ".env" || is_of_kind(path) || self.texts.contains(&*name)
        });
        seen
    }

    fn all(&self) -> Snapshot {
        let mut seen = Snapshot::new();
        self.folders.iter().for_each(|folder| look_into(folder, 0, &mut seen));
        seen
    }

    fn read_texts(&mut self) {
        let mut room = TEXT_BYTES_MAX;
        self.texts.clear();
        for (path, (_, length)) in self.all() {
            if is_of_kind(&path) && length <= room {
                room -= length;
                self.texts.push_str(&std::fs::read_to_string(&path).unwrap_or_default());
            }
        }
    }
}

fn is_of_kind(path: &Path) -> bool {
    let extension = path.extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase());
    extension.is_some_and(|extension| KINDS.contains(&&*extension))
}

fn look_into(folder: &Path, depth: usize, seen: &mut Snapshot) {
    // A folder that cannot be read has nothing that a run could read.
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_hidden = name.starts_with('.') && name != ".env" || name.ends_with('~');
        if is_hidden || seen.len() >= FILES_MAX {
            continue;
        }
        let Ok(found) = std::fs::metadata(entry.path()) else { continue };
        if found.is_file() {
            let path = entry.path();
            let path = path.strip_prefix(".").map_or_else(|_| path.clone(), Path::to_path_buf);
            seen.insert(path, (found.modified().ok(), found.len()));
        } else if found.is_dir() && depth < DEPTH_MAX && !PASSED_OVER.contains(&&*name) {
            look_into(&entry.path(), depth + 1, seen);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_files_are_named_and_others_are_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("order.yaml", "data: { users: { file: users.csv } }");
        write("users.csv", "name");
        write("service.log", "one");
        write("steps/more.yaml", "a");
        write("runs/one/results.json", "a");
        let scenario = folder.path().join("order.yaml");
        let mut watch = FolderWatch::new([scenario.as_path()]);
        assert_eq!(watch.files(), 3);
        write("service.log", "one\ntwo");
        write("results.json", "{}");
        write("users.csv", "name\nMia");
        write("runs/one/results.json", "longer");
        write(".order.yaml.swp", "a");
        write("steps/more.yaml", "longer");
        write(".env", "A=1");
        std::fs::remove_file(&scenario).unwrap();
        let changed = watch.wait(&Interrupt::new()).unwrap();
        let names: Vec<_> = changed.iter().map(|path| path.strip_prefix(folder.path()).unwrap()).collect();
        assert_eq!(names, [".env", "order.yaml", "steps/more.yaml", "users.csv"].map(Path::new));
        let interrupt = Interrupt::new();
        interrupt.interrupt();
        assert_eq!(watch.wait(&interrupt), None);
    }
}
