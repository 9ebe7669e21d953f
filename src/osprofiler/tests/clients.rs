//! What goes out to others and comes in from them: HTTP calls, messages, database calls.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{HeaderMap, Request, Response, StatusCode};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use tower_layer::Layer;
use tower_service::Service;

use super::{MemoryNotifier, outline, stop_info, trace};
use crate::db::Statement;
use crate::http_client::TracingClientLayer;
use crate::profiler::{self, TraceExtension};
use crate::record::TraceRecord;
use crate::rpc;
use crate::signing::Signer;
use crate::verifying::ServerKeys;
use base::secret::Secret;

fn signer() -> Signer {
    Signer::new(&Secret::new("K")).unwrap()
}

/// Answers with the headers that it got.
#[derive(Clone)]
struct Echo;

impl Service<Request<()>> for Echo {
    type Response = Response<HeaderMap>;
    type Error = String;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<Self::Response, String>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), String>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<()>) -> Self::Future {
        profiler::trace_sync("connect", (), || ());
        Box::pin(async move {
            profiler::trace("send", (), tokio::task::yield_now()).await;
            if request.uri().path() == "/fails" {
                return Err("refused".to_owned());
            }
            let mut response = Response::new(request.headers().clone());
            *response.status_mut() = StatusCode::IM_A_TEAPOT;
            Ok(response)
        })
    }
}

async fn call(request: Request<()>) -> Result<Response<HeaderMap>, String> {
    TracingClientLayer.layer(Echo).call(request).await
}

fn without_host(records: &[TraceRecord], at: usize) -> Value {
    let mut info = (*records[at].info).clone();
    for key in ["host", "busy_us", "idle_us"] {
        info.remove(key);
    }
    Value::Object(info)
}

#[tokio::test]
async fn calls_are_points_and_carry_them() {
    let notifier = Arc::new(MemoryNotifier::default());
    let root = trace(&notifier, Some(signer()));
    let base_id = root.base_id().to_owned();
    let work = async {
        let request = Request::put("http://user:pw@h.example:8774/v2/servers?a=1&b");
        // An outer point's headers are replaced, not added to.
        let request = request.header("X-Trace-Info", "old").header("x-trace-hmac", "old");
        call(request.body(()).unwrap()).await.unwrap()
    };
    let headers = work.in_trace(root).await.into_body();
    let records = notifier.records();
    assert_eq!(outline(&records), ["http", "  connect", "  send"]);
    let (info, hmac) = signer().sign_text(&base_id, &records[0].trace_id);
    assert_eq!(
        (headers["x-trace-info"].to_str().map_err(drop), headers["x-trace-hmac"].to_str().map_err(drop)),
        (Ok(&*info), Ok(&*hmac))
    );
    assert_eq!(headers.len(), 2);
    // Keys and their order as the library has them.
    let expected = json!({"requests": {
        "method": "PUT", "query": "a=1&b", "path": "/v2/servers", "hostname": "h.example", "port": 8774,
        "scheme": "http",
    }});
    assert_eq!(without_host(&records, 0).to_string(), expected.to_string());
    assert_eq!(without_host(&records, records.len() - 1), json!({"requests": {"status_code": 418}}));
    assert!(!format!("{records:?}").contains("pw"));
}

#[tokio::test]
async fn calls_of_every_form_are_told() {
    for (uri, host, name, hostname, port) in [
        ("http://a/", None, "http", json!("a"), json!(80)),
        ("https://a/", None, "https", json!("a"), json!(443)),
        ("unix://a/", None, "unix", json!("a"), json!("")),
        ("/path", Some("b:81"), "http", json!("b"), json!(81)),
        ("/path", Some("\u{7f}é"), "http", Value::Null, json!(80)),
        ("/path", None, "http", Value::Null, json!(80)),
        ("http://[::1]:9/", None, "http", json!("[::1]"), json!(9)),
    ] {
        let notifier = Arc::new(MemoryNotifier::default());
        let mut request = Request::get(uri).body(()).unwrap();
        if let Some(host) = host {
            let host = host.chars().map(|character| u32::from(character) as u8).collect::<Vec<_>>();
            if let Ok(host) = http::HeaderValue::from_bytes(&host) {
                request.headers_mut().insert("host", host);
            }
        }
        call(request).in_trace(trace(&notifier, None)).await.unwrap();
        let records = notifier.records();
        assert_eq!(records[0].name, format!("{name}-start"));
        let requests = &records[0].info["requests"];
        assert_eq!((&requests["hostname"], &requests["port"]), (&hostname, &port), "{uri} {host:?}");
    }
}

#[tokio::test]
async fn failed_calls_close_their_point_and_untraced_ones_pass() {
    let notifier = Arc::new(MemoryNotifier::default());
    let fails = || Request::get("http://a/fails").body(()).unwrap();
    let failed = call(fails()).in_trace(trace(&notifier, None)).await;
    assert_eq!(failed.unwrap_err(), "refused");
    let stop = without_host(&notifier.records(), 5);
    assert_eq!(stop, json!({"etype": "alloc::string::String", "message": "refused"}));
    assert_eq!(call(fails()).await.unwrap_err(), "refused");
    let headers = call(Request::get("/").body(()).unwrap()).await.unwrap().into_body();
    assert!(headers.is_empty() && notifier.records().len() == 6);
}

#[tokio::test]
async fn messages_carry_the_trace_as_openstacks_do() {
    let notifier = Arc::new(MemoryNotifier::default());
    let root = trace(&notifier, Some(signer()));
    let send = rpc::call("build_instance", async {
        let mut context = Map::from_iter([("user".to_owned(), json!("u"))]);
        rpc::pack(&mut context);
        Ok::<_, String>((context, profiler::get().unwrap().id().to_owned()))
    });
    let (mut context, point) = send.in_trace(root.clone()).await.unwrap();
    let expected = json!({"hmac_key": "K", "base_id": root.base_id(), "parent_id": point});
    assert_eq!(context["trace_info"].to_string(), expected.to_string());
    assert_eq!(without_host(&notifier.records(), 0), json!({"function": {"name": "build_instance"}}));

    let mut refused = context.clone();
    assert!(rpc::incoming(&mut refused, Some(&ServerKeys::parse("other"))).is_none());
    assert!(!refused.contains_key("trace_info"), "nobody else takes it for a trace");
    let received = rpc::incoming(&mut context, Some(&ServerKeys::parse("other, K"))).unwrap();
    assert_eq!((&*received.base_id, &*received.parent_id), (root.base_id(), &*point));
    assert_eq!(Value::Object(context), json!({"user": "u"}));
    let served = rpc::serve(Some(received), "build", async {
        let current = profiler::get().unwrap();
        assert_eq!(current.base_id(), root.base_id());
        assert_ne!(current.id(), point);
        assert_eq!(rpc::outgoing().unwrap()["hmac_key"], "K");
        Err::<(), _>("no room")
    });
    assert_eq!(served.await, Err("no room"));
    let untraced = rpc::serve(None, "build", async { Ok::<_, String>(profiler::get().is_none()) });
    assert_eq!(untraced.await, Ok(true));
    assert!(rpc::outgoing().is_none());
    let mut untouched = Map::new();
    rpc::pack(&mut untouched);
    assert!(untouched.is_empty() && trace(&notifier, None).run(rpc::outgoing).is_none());
}

#[test]
fn contexts_from_outside_are_bounded() {
    let good = json!({"hmac_key": "K", "base_id": "b", "parent_id": "p"});
    let with = |key: &str, value: Value| {
        let mut info = good.clone();
        info[key] = value;
        info
    };
    for (info, parent_id) in [
        (good.clone(), Some("p")),
        (with("parent_id", Value::Null), Some("b")),
        (with("base_id", Value::Null), None),
        (with("base_id", json!(7)), None),
        (with("base_id", "x".repeat(2_000).into()), None),
        (with("parent_id", "x".repeat(2_000).into()), None),
        (with("hmac_key", "x".repeat(2_000).into()), None),
        (with("hmac_key", "".into()), None),
        (with("hmac_key", Value::Null), None),
        (json!([]), None),
        (Value::Null, None),
    ] {
        let mut context = Map::from_iter([("trace_info".to_owned(), info.clone())]);
        let received = rpc::incoming(&mut context, None);
        assert_eq!(received.map(|context| context.parent_id).as_deref(), parent_id, "{info}");
    }
    assert!(rpc::incoming(&mut Map::new(), None).is_none());
}

proptest! {
    #[test]
    fn any_context_is_read_without_a_panic(key: Option<String>, base: Option<String>, parent: Option<String>) {
        let info = json!({"hmac_key": key, "base_id": base, "parent_id": parent});
        let mut context = Map::from_iter([("trace_info".to_owned(), info)]);
        let _ = rpc::incoming(&mut context, Some(&ServerKeys::parse("a,b")));
    }
}

#[derive(Debug)]
struct ExecuteError;

impl fmt::Display for ExecuteError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("execute")
    }
}

impl std::error::Error for ExecuteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&fmt::Error)
    }
}

#[tokio::test]
async fn database_calls_are_told_as_by_osprofiler() {
    let notifier = Arc::new(MemoryNotifier::default());
    let work = async {
        let rows = Statement::new("SELECT 1").run(async { Ok::<_, ExecuteError>(vec![1, 2]) }).await;
        assert_eq!(rows.unwrap(), [1, 2]);
        let shown = Statement::new(String::from("SELECT ?")).show_params(|| json!([7])).named("db.main");
        shown.run_counted(async { Ok::<_, ExecuteError>(vec![1, 2]) }).await.unwrap();
        let failed = Statement::new("x".repeat(20_000)).run(async { Err::<(), _>(ExecuteError) }).await;
        assert!(failed.is_err());
    };
    work.in_trace(trace(&notifier, None)).await;
    let records = notifier.records();
    let infos: Vec<_> = (0..5).map(|at| (records[at].name.as_str(), without_host(&records, at))).collect();
    assert_eq!(infos[0], ("db-start", json!({"db": {"statement": "SELECT 1"}})));
    assert_eq!(infos[1], ("db-stop", json!({})));
    assert_eq!(infos[2], ("db.main-start", json!({"db": {"statement": "SELECT ?", "params": [7]}})));
    assert_eq!(infos[3], ("db.main-stop", json!({"db": {"rows": 2}})));
    assert_eq!(infos[4].1["db"]["statement"].as_str().unwrap().len(), 16 * 1024 + '…'.len_utf8());
    let etype = format!("{}::ExecuteError", module_path!());
    let cause = fmt::Error.to_string();
    let details = json!({"original_exception": "execute", "chained_exception": cause});
    let expected = json!({"etype": etype, "message": "execute", "db": details});
    assert_eq!(without_host(&records, 5), expected);
    let untraced = Statement::new("SELECT 1").show_params(|| unreachable!("nobody sees them"));
    untraced.run(async { Ok::<_, ExecuteError>(()) }).await.unwrap();
    assert_eq!(stop_info(&records, "db.main")["db"]["rows"], 2);
}
