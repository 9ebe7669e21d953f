//! Spans of `tracing` as trace points.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tracing::{Instrument as _, Level, Span, instrument};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::{Layer, SubscriberExt as _};

use super::{MemoryNotifier, outline, stop_info, trace};
use crate::instrument::{InstrumentLayer, TracedSpanFilter};
use crate::profiler::{self, TraceExtension};
use crate::record::TraceRecord;

#[instrument(ret, err)]
fn divide(dividend: i64, divisor: i64) -> Result<i64, String> {
    if divisor == 0 { Err("no".to_owned()) } else { Ok(dividend / divisor) }
}

#[instrument(fields(rows, osprofiler.name = "db", r#type = "row"))]
async fn query(sql: &str) {
    tokio::time::sleep(Duration::from_millis(5)).await;
    Span::current().record("rows", 3_u64);
}

#[instrument(fields(osprofiler.hide_args = true, later), ret)]
fn secret(_password: &str) -> u8 {
    Span::current().record("later", "hidden");
    7
}

#[instrument]
async fn handler(id: u32) {
    profiler::start("explicit", ());
    query("SELECT 1").await;
    profiler::stop(());
    profiler::trace("scope", (), query("SELECT 2")).await;
    let _ = divide(1, 0);
}

/// Runs `work` in a trace under a subscriber with `layer`, and returns the records.
fn recorded<L, F>(layer: L, work: F) -> Vec<TraceRecord>
where
    L: Layer<Registry> + Send + Sync,
    F: Future<Output = ()>,
{
    let notifier = Arc::new(MemoryNotifier::default());
    let _default = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(work.in_trace(trace(&notifier, None)));
    drop(runtime);
    notifier.records()
}

fn start_info(records: &[TraceRecord], name: &str) -> Value {
    let name = format!("{name}-start");
    Value::Object((*records.iter().find(|record| record.name == name).unwrap().info).clone())
}

#[test]
fn spans_scopes_and_explicit_points_make_one_tree() {
    let records = recorded(InstrumentLayer::new(), handler(7));
    let expected = ["handler", "  explicit", "    db", "  scope", "    db", "  divide Err: no"];
    assert_eq!(outline(&records), expected);
    let module = module_path!();
    assert_eq!(
        start_info(&records, "handler"),
        json!({"function": {"name": format!("{module}::handler"), "kwargs": {"id": 7}}, "host": "vm"})
    );
    let kwargs = json!({"sql": "SELECT 1", "type": "row"});
    let start = start_info(&records, "db");
    assert_eq!(start["function"]["name"], format!("{module}::query"));
    assert_eq!(start["function"]["kwargs"], kwargs);
    let stop = records.iter().find(|record| record.name == "db-stop").unwrap();
    assert_eq!(stop.info["function"], json!({"kwargs": {"rows": 3}}));
    assert!(stop.info["idle_us"].as_u64() >= Some(4_000));
    assert!(records.iter().all(|record| !record.info.contains_key("unstopped")));
}

#[test]
fn if_so_asked_only_traced_spans_are_made() {
    let work = async {
        handler(7).await;
        profiler::untraced(|| assert!(tracing::info_span!("untraced").is_disabled()));
        assert!(!tracing::info_span!("traced").is_disabled());
        tokio::spawn(async { assert!(tracing::info_span!("untraced").is_disabled()) }).await.unwrap();
        tokio::spawn(query("SELECT 3").in_current_trace()).await.unwrap();
    };
    let records = recorded(InstrumentLayer::new().and_then(TracedSpanFilter), work);
    let expected =
        ["handler", "  explicit", "    db", "  scope", "    db", "  divide Err: no", "traced", "db"];
    assert_eq!(outline(&records), expected);
}

#[test]
fn arguments_and_results_are_shown_as_asked() {
    let call = || async {
        let _ = divide(6, 3);
        secret("hunter2");
    };
    let show = |records: &[TraceRecord], name: &str| {
        (
            start_info(records, name)["function"]["kwargs"].clone(),
            stop_info(records, name)["function"].clone(),
        )
    };
    let args = json!({"dividend": 6, "divisor": 3});
    let here = module_path!();
    for (layer, args, result) in [
        (InstrumentLayer::new(), args.clone(), Value::Null),
        (InstrumentLayer::new().show_results(), args.clone(), json!({"result": "2"})),
        (InstrumentLayer::new().hide_args().show_results(), Value::Null, Value::Null),
        (InstrumentLayer::new().hide_args_of(here).show_results(), Value::Null, Value::Null),
        (InstrumentLayer::new().hide_args_of("elsewhere"), args, Value::Null),
    ] {
        let records = recorded(layer, call());
        assert_eq!(show(&records, "divide"), (args, result));
        assert_eq!(show(&records, "secret"), (Value::Null, Value::Null));
        assert!(!format!("{records:?}").contains("hunter2"));
    }
}

#[test]
fn only_what_a_function_returns_makes_its_point_a_failed_one() {
    #[instrument(err(level = "warn"))]
    fn mild() -> Result<(), String> {
        Err("mild".to_owned())
    }
    #[instrument(err(Debug), target = "elsewhere")]
    fn targeted() -> Result<(), String> {
        Err("targeted".to_owned())
    }
    #[instrument(err)]
    fn handling() -> Result<(), String> {
        let error = "handled";
        tracing::warn!(error = %error);
        tracing::error!(error = %error, "told with words");
        tracing::error!(target: "library", error = %error);
        tracing::error!(target: "library", return = 7);
        Ok(())
    }
    let records = recorded(InstrumentLayer::new().show_results(), async {
        let _ = (mild(), targeted(), handling(), divide(1, 0));
    });
    let expected = ["mild", "targeted Err: \"targeted\"", "handling", "divide Err: no"];
    assert_eq!(outline(&records), expected);
    assert!(stop_info(&records, "handling")["function"].is_null());
}

#[test]
fn levels_and_targets_choose_the_spans() {
    let spans = || async {
        tracing::info_span!("info").in_scope(|| {
            let debug = tracing::debug_span!("debug");
            let _entered = debug.enter();
            tracing::error_span!(target: "h2::client", "h2").in_scope(|| {
                tracing::trace_span!(target: "h2::client::deep", "deep").in_scope(|| ());
            });
        });
    };
    let new = InstrumentLayer::new;
    for (layer, expected) in [
        (new(), vec!["info", "  h2"]),
        (new().level(Level::TRACE), vec!["info", "  debug", "    h2", "      deep"]),
        (new().level(Level::ERROR), vec!["h2"]),
        (new().target("h2", None), vec!["info"]),
        (new().target("h2", Level::TRACE).target("h2::client", None), vec!["info"]),
        (new().target("h2::client", None).target("h2::client::deep", Level::TRACE), vec!["info", "  deep"]),
    ] {
        assert_eq!(outline(&recorded(layer, spans())), expected);
    }
}

#[test]
fn explicit_parents_count() {
    let records = recorded(InstrumentLayer::new(), async {
        let first = tracing::info_span!("first");
        let filtered = tracing::trace_span!(parent: &first, "filtered");
        tracing::info_span!("second").in_scope(|| {
            tracing::info_span!(parent: &first, "of first").in_scope(|| ());
            tracing::info_span!(parent: &filtered, "of filtered").in_scope(|| ());
            tracing::info_span!(parent: None, "of nobody").in_scope(|| {
                tracing::info_span!("below").in_scope(|| ());
            });
            let untraced = profiler::untraced(|| tracing::info_span!("untraced"));
            tracing::info_span!(parent: &untraced, "of untraced").in_scope(|| ());
        });
    });
    let expected = ["first", "  of first", "  of filtered", "second", "  below"];
    assert_eq!(outline(&records), expected);
}

#[test]
fn spans_take_their_trace_along_and_may_outlive_their_parents() {
    let records = recorded(InstrumentLayer::new(), async {
        let child = async {
            let span = tracing::info_span!("parent");
            let child = span.in_scope(|| tracing::info_span!("child"));
            span.in_scope(|| std::thread::sleep(Duration::from_millis(2)));
            child
        }
        .await;
        tokio::time::sleep(Duration::from_millis(30)).await;
        let below = child.clone();
        let thread = std::thread::spawn(move || {
            // The span, not the thread, has the trace.
            below.in_scope(|| profiler::trace_sync("on a thread", (), || ()));
            assert!(profiler::get().is_none());
        });
        thread.join().unwrap();
        tokio::spawn(async { profiler::trace("in a task", (), async {}).await }.instrument(child))
            .await
            .unwrap();
    });
    assert_eq!(outline(&records), ["parent", "  child", "    on a thread", "    in a task"]);
    let points = crate::report::TraceTree::build(&records).points;
    let (parent, child) = (points[0].duration_us.unwrap(), points[1].duration_us.unwrap());
    assert!(child >= parent + 25_000, "the parent ended when it was left: {parent} {child}");
}

#[test]
fn a_span_that_is_entered_twice_at_once_keeps_its_own_stack() {
    let records = recorded(InstrumentLayer::new(), async {
        let span = tracing::info_span!("span");
        let entered = span.enter();
        profiler::start("mine", ());
        let other = span.clone();
        std::thread::spawn(move || other.in_scope(|| profiler::start("on a thread", ()))).join().unwrap();
        span.in_scope(|| profiler::start("again", ()));
        profiler::stop(());
        drop(entered);
    });
    let expected = ["span", "  mine", "  on a thread", "  again"];
    assert_eq!(outline(&records), expected);
    let unstopped = |name: &str| !stop_info(&records, name)["unstopped"].is_null();
    assert!(!unstopped("mine") && unstopped("again") && unstopped("on a thread"));
}

/// The trap that tracing warns of: other work of the thread must not end up below the span.
#[test]
fn a_guard_held_over_an_await_traps_nobody_else() {
    let records = recorded(InstrumentLayer::new(), async {
        let held = async {
            let span = tracing::info_span!("held");
            let _entered = span.enter();
            tokio::task::yield_now().await;
        };
        let other = async {
            tokio::task::yield_now().await;
            profiler::trace("other", (), async {}).await;
        };
        tokio::join!(held.in_current_trace(), other.in_current_trace());
    });
    assert_eq!(outline(&records), ["held", "other"]);
}

#[test]
fn panics_and_huge_values_are_told_within_bounds() {
    struct EndlessValue;
    impl std::fmt::Debug for EndlessValue {
        fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            // Would never end if it were not stopped.
            loop {
                formatter.write_str("é\u{1F600}")?;
            }
        }
    }
    let records = recorded(InstrumentLayer::new(), async {
        let span =
            tracing::info_span!("huge", value = ?EndlessValue, text = "x".repeat(5_000), nan = f64::NAN);
        let panicking = move || span.in_scope(|| std::panic::resume_unwind(Box::new(())));
        let ended: Result<(), _> = std::panic::catch_unwind(std::panic::AssertUnwindSafe(panicking));
        assert!(ended.is_err());
    });
    let kwargs = &start_info(&records, "huge")["function"]["kwargs"];
    for key in ["value", "text"] {
        let text = kwargs[key].as_str().unwrap();
        assert!((1_000..=1_027).contains(&text.len()) && text.ends_with('…'), "{} bytes", text.len());
    }
    assert_eq!(kwargs["nan"], "NaN");
    assert_eq!(stop_info(&records, "huge")["etype"], "panic");
}
