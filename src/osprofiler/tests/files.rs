//! Collectors in files, through the notifier as a service has it: written, read back, never in the way.

use super::record;
use crate::driver::{Collector, TraceQuery};
use crate::notifier::{Notifier as _, QueueNotifier};
use crate::record::TraceRecord;
use base::secret::Secret;

fn records() -> Vec<TraceRecord> {
    let mut records = vec![
        record("wsgi-start", "p", "base", 1),
        record("odd \"name\"\nof two lines-start", "q", "p", 2),
        record("odd \"name\"\nof two lines-stop", "q", "p", 3),
        record("wsgi-stop", "p", "base", 4),
    ];
    records[2].info_mut().insert("etype".to_owned(), "E".into());
    records[3].info_mut().insert("text".to_owned(), "ä\u{2028}\r\n".into());
    records
}

#[tokio::test]
async fn json_lines_are_written_whole_and_read_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("traces.jsonl");
    let collector = Collector::connect(&Secret::new(format!("file://{}", path.display()))).await.unwrap();
    let notifier = QueueNotifier::start(collector.clone(), 100);
    let mut other = record("other-start", "o", "other", 9);
    other.base_id = "other".into();
    for record in records().into_iter().chain([other.clone()]) {
        notifier.notify(record);
    }
    let report = notifier.shutdown().await;
    assert_eq!((report.written, report.dropped, report.last_error), (5, 0, None));

    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count(), 5, "{text}");
    assert!(text.lines().all(|line| serde_json::from_str::<TraceRecord>(line).is_ok()), "{text}");
    // Others may write to the file.
    std::fs::write(&path, format!("nothing\n{{\"name\": 1}}\n{text}{{\"cut\": ")).unwrap();
    let base_id = records()[0].base_id.clone();
    assert_eq!(collector.records(&base_id).await.unwrap(), records());
    assert_eq!(collector.records("unknown").await.unwrap(), []);
    for (errors_only, expected) in [
        (false, vec![("other", Some(1), Some(false)), (&*base_id, Some(4), Some(true))]),
        (true, vec![(&*base_id, Some(4), Some(true))]),
    ] {
        let listed = collector.list(&TraceQuery { errors_only, limit: 10 }).await.unwrap();
        let listed: Vec<_> =
            listed.iter().map(|trace| (trace.base_id.as_str(), trace.records, trace.failed)).collect();
        assert_eq!(listed, expected);
    }
}

/// What waits for a file that cannot be written is bounded; the service goes on, and what is lost is counted.
#[tokio::test]
async fn a_file_that_cannot_be_written_never_blocks_and_losses_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().join("folder");
    std::fs::create_dir(&folder).unwrap();
    let url = Secret::new(format!("file://{}/traces.jsonl", folder.display()));
    let collector = Collector::connect(&url).await.unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let notifier = QueueNotifier::start(collector, 10);
    for number in 0..1_000 {
        notifier.notify(record("a-start", "p", "base", number));
    }
    let report = notifier.shutdown().await;
    assert_eq!((report.written, report.dropped), (0, 1_000));
    assert!(report.last_error.is_some_and(|error| error.contains("write to the collector file://")));
}
