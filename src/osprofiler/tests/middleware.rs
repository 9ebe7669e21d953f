//! The middleware: traces what OSProfiler's traces and changes nothing else.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{HeaderValue, Request, Response};
use serde_json::{Value, json};
use tower_layer::Layer;
use tower_service::Service;

use super::{MemoryNotifier, identity, vectors};
use crate::http_client::TracingClientLayer;
use crate::notifier::Notifier;
use crate::profiler;
use crate::signing::Signer;
use crate::trace::TraceHandle;
use crate::verifying::ServerKeys;
use crate::web::{ProfilerLayer, Switch, onward_headers};
use base::secret::Secret;

/// Answers what a handler sees of the trace: the headers of an onward request.
#[derive(Clone)]
struct Handler;

impl Service<Request<()>> for Handler {
    type Response = Response<Option<(String, String)>>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<()>) -> Self::Future {
        let trace = request.extensions().get::<TraceHandle>();
        // It is the current one too, already here.
        assert_eq!(trace.map(TraceHandle::id), profiler::get().as_ref().map(TraceHandle::id));
        std::future::ready(Ok(Response::new(trace.and_then(onward_headers))))
    }
}

fn layer(keys: &str, notifier: &Arc<MemoryNotifier>) -> ProfilerLayer {
    let notifier = Arc::clone(notifier) as Arc<dyn Notifier>;
    ProfilerLayer::new(ServerKeys::parse(keys), identity(), notifier)
}

#[tokio::test]
async fn requests_are_traced_as_by_osprofilers_middleware() {
    let mut traced = 0;
    for case in vectors()["middleware"].as_array().unwrap() {
        let notifier = Arc::new(MemoryNotifier::default());
        let mut builder = Request::get("/a/b?c=d%20e&f");
        for (name, value) in case["headers"].as_object().unwrap() {
            // WSGI reads Latin-1.
            let bytes: Vec<u8> = value.as_str().unwrap().chars().map(|c| u32::from(c) as u8).collect();
            builder = builder.header(name, HeaderValue::from_bytes(&bytes).unwrap());
        }
        let layer = layer(case["hmac_keys"].as_str().unwrap(), &notifier);
        let switch = Switch::default();
        if let Some(keys) = case["web.enable"].as_str() {
            switch.enable(ServerKeys::parse(keys));
        }
        let layer = layer.enabled(case["enabled"] == true).switched_by(switch);
        let response = layer.layer(Handler).call(builder.body(()).unwrap()).await.unwrap();
        assert!(response.headers().is_empty() && response.status() == 200);
        let records = notifier.records();
        assert_eq!(!records.is_empty(), case["traced"] == true, "{case}");
        assert_eq!(response.body().is_some(), case["onward_headers"] == true, "{case}");
        let Some(first) = records.first() else { continue };
        traced += 1;
        assert_eq!(json!(notifier.names()), case["records"]);
        let expected = &case["first_record"];
        let made_up = case["name"].as_str().unwrap().contains("random base_id");
        assert!(made_up || json!(first.base_id) == expected["base_id"], "{case}");
        assert_eq!(json!(first.parent_id), expected["parent_id"], "{case}");
        assert_eq!(first.info["request"].to_string(), expected["info.request"].to_string());
        let signer = Signer::new(&Secret::new(case["hmac_key_used"].as_str().unwrap())).unwrap();
        assert_eq!(response.body(), &Some(signer.sign_text(&first.base_id, &first.trace_id)));
    }
    assert_eq!(traced, 7);
}

fn signed_request() -> Request<()> {
    let (info, hmac) = Signer::new(&Secret::new("K")).unwrap().sign_text("base", "parent");
    Request::get("/x").header("X-Trace-Info", info).header("X-Trace-HMAC", hmac).body(()).unwrap()
}

/// Fails, or never answers.
#[derive(Clone)]
struct BrokenService {
    answers: bool,
}

impl Service<Request<()>> for BrokenService {
    type Response = Response<()>;
    type Error = std::fmt::Error;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<Response<()>, std::fmt::Error>>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), std::fmt::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        if self.answers { Box::pin(async { Err(std::fmt::Error) }) } else { Box::pin(std::future::pending()) }
    }
}

#[tokio::test]
async fn failed_and_abandoned_requests_close_their_point() {
    let notifier = Arc::new(MemoryNotifier::default());
    let layer = layer("K", &notifier);
    assert!(layer.layer(BrokenService { answers: true }).call(signed_request()).await.is_err());
    let stop: Value = Value::Object((*notifier.records()[1].info).clone());
    assert_eq!(stop["etype"], "core::fmt::Error");
    drop(layer.layer(BrokenService { answers: false }).call(signed_request()));
    assert_eq!(notifier.names(), ["wsgi-start", "wsgi-stop", "wsgi-start", "wsgi-stop"]);
}

#[tokio::test]
async fn repeated_headers_are_not_traced() {
    let notifier = Arc::new(MemoryNotifier::default());
    let mut request = signed_request();
    let info = request.headers()["X-Trace-Info"].clone();
    request.headers_mut().append("X-Trace-Info", info);
    let response = layer("K", &notifier).layer(Handler).call(request).await.unwrap();
    assert!(response.body().is_none() && notifier.records().is_empty());
}

/// All that can be set, in every combination, as `WsgiMiddleware.__call__` decides it.
#[tokio::test]
async fn switches_and_settings_decide_together() {
    for (enabled, own_keys, position, traced) in [
        (true, "K", None, true),
        (false, "K", None, false),
        (true, "no", None, false),
        (true, "", None, false),
        (false, "no", Some(Some("K")), true),
        (false, "K", Some(Some("")), true),
        (true, "K", Some(Some("no")), false),
        (true, "K", Some(Some(" , no,K ,")), true),
        (true, "K", Some(None), false),
    ] {
        let notifier = Arc::new(MemoryNotifier::default());
        let switch = Switch::default();
        let layer = layer(own_keys, &notifier).enabled(enabled).switched_by(switch.clone());
        let mut service = layer.layer(Handler);
        // It may be moved while the service serves.
        match position {
            None => {}
            Some(Some(keys)) => switch.enable(ServerKeys::parse(keys)),
            Some(None) => switch.disable(),
        }
        let response = service.call(signed_request()).await.unwrap();
        assert_eq!(response.body().is_some(), traced, "{enabled} {own_keys:?} {position:?}");
        assert_eq!(notifier.records().len(), if traced { 2 } else { 0 });
    }
    assert!(
        ProfilerLayer::disabled()
            .enabled(true)
            .layer(Handler)
            .call(signed_request())
            .await
            .unwrap()
            .body()
            .is_none()
    );
}

/// Answers as tonic does when a call fails before its first message.
#[derive(Clone)]
struct FailingService;

impl Service<Request<()>> for FailingService {
    type Response = Response<()>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<()>) -> Self::Future {
        let mut answer = Response::new(());
        if request.uri().path().ends_with("Fail") {
            answer.headers_mut().insert("grpc-status", HeaderValue::from_static("5"));
            answer.headers_mut().insert("grpc-message", HeaderValue::from_static("no such server"));
        }
        std::future::ready(Ok(answer))
    }
}

#[tokio::test]
async fn grpc_calls_are_rpc_points_of_client_and_server() {
    let notifier = Arc::new(MemoryNotifier::default());
    let keys = ServerKeys::parse("KEY");
    let server = ProfilerLayer::new(keys, identity(), Arc::clone(&notifier) as Arc<dyn Notifier>)
        .layer(FailingService);
    let mut client = TracingClientLayer.layer(server);
    let trace = super::trace(&notifier, Signer::new(&Secret::new("KEY")));
    for path in ["/compute.Servers/Get", "/compute.Servers/Fail"] {
        let request =
            Request::post(format!("http://h{path}")).header("content-type", "application/grpc+proto");
        let call = trace.run(|| client.call(request.body(()).unwrap()));
        call.await.unwrap();
    }
    let records = notifier.records();
    assert_eq!(
        super::outline(&records),
        ["rpc", "  rpc", "rpc grpc-status 5: no such server", "  rpc grpc-status 5: no such server"]
    );
    let names: Vec<_> = records
        .iter()
        .filter(|record| record.name == "rpc-start")
        .map(|record| record.info["function"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names[..2], ["compute.Servers/Get"; 2]);
    assert_eq!(names[2..], ["compute.Servers/Fail"; 2]);
}
