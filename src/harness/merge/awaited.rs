//! Waits for shards that have not ended: for a job beside theirs that is not told of their end.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::event::{Event, Sink};
use crate::shards::listed;
use measure::log::RunLog;
use results::directory::RunDirectory;

use super::chosen::directories;

/// How often to look.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Waits until all shards have ended, or for this long. What is missing then is for others to say.
pub(super) fn wait(given: &[PathBuf], longest: Duration, events: &Sink) {
    let deadline = Instant::now() + longest;
    let mut said = None;
    loop {
        let (count, open) = open(given);
        let left = deadline.saturating_duration_since(Instant::now());
        if open.is_empty() && count > 0 || left.is_zero() {
            return;
        }
        let text = match count {
            0 => "no shard is there yet".to_owned(),
            _ => format!("{} of {count} shards have not ended: {}", open.len(), listed(&open)),
        };
        if said.as_ref() != Some(&text) {
            events.event(&Event::Awaiting(&text));
            said = Some(text);
        }
        std::thread::sleep(LOOK_EVERY.min(left));
    }
}

/// How many shards there are, and those that have not ended.
fn open(given: &[PathBuf]) -> (u32, Vec<u32>) {
    let (mut count, mut ended) = (0, BTreeSet::new());
    // A directory that does not exist yet has none.
    for directory in
        given.iter().flat_map(|given| directories(std::slice::from_ref(given)).unwrap_or_default())
    {
        let directory = RunDirectory::open(&directory);
        let Some(shard) = RunLog::open(&directory.log()).ok().and_then(|log| log.header.shard) else {
            continue;
        };
        count = count.max(shard.count);
        // These are written last.
        if directory.results().is_file() {
            ended.insert(shard.index);
        }
    }
    (count, (0..count).filter(|index| !ended.contains(index)).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn shards_without_results_are_open() {
        use crate::merge::tests::{header, write};
        let folder = tempfile::tempdir().unwrap();
        for index in [0, 2] {
            let run = folder.path().join(format!("run-{index}"));
            write(&run, &header(Some((index, 3))), None, &[], 1, 1, true);
        }
        let given = [folder.path().to_path_buf()];
        assert_eq!(open(&given), (3, vec![0, 1, 2]));
        std::fs::write(RunDirectory::open(&folder.path().join("run-2")).results(), "{}").unwrap();
        assert_eq!(open(&given), (3, vec![0, 1]));
        write(&folder.path().join("run-1"), &header(Some((1, 3))), None, &[], 1, 1, true);
        for index in [0, 1] {
            let run = folder.path().join(format!("run-{index}"));
            std::fs::write(RunDirectory::open(&run).results(), "{}").unwrap();
        }
        let began = Instant::now();
        wait(&given, Duration::from_secs(600), &crate::event::silent());
        assert!(began.elapsed() < Duration::from_secs(300), "all have ended, and it still waits");
    }

    #[test]
    fn shards_that_never_come_are_awaited_for_the_whole_time() {
        let folder = tempfile::tempdir().unwrap();
        let said = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&said);
        let events: Sink = Arc::new(move |event: &Event<'_>| {
            if let Event::Awaiting(text) = event {
                seen.lock().unwrap().push((*text).to_owned());
            }
        });
        let began = Instant::now();
        wait(&[folder.path().to_path_buf()], Duration::from_millis(700), &events);
        assert!(began.elapsed() >= Duration::from_millis(700), "{:?}", began.elapsed());
        assert_eq!(*said.lock().unwrap(), ["no shard is there yet"]);
    }
}
