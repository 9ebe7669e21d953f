//! A real gRPC server and client (tonic): a layer on each side, and every call is a point of both.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tonic::body::Body;
use tonic::transport::Endpoint;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;
use tower_layer::Layer;
use tower_service::Service;

use super::{MemoryNotifier, identity};
use crate::http_client::TracingClientLayer;
use crate::notifier::Notifier;
use crate::profiler::{self, TraceExtension as _};
use crate::signing::Signer;
use crate::verifying::ServerKeys;
use crate::web::ProfilerLayer;
use base::secret::Secret;

type BoxedFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Answers the name that it is given, after a point; the empty name is not found.
#[derive(Clone)]
struct GetMethod;

impl tonic::server::UnaryService<String> for GetMethod {
    type Response = String;
    type Future = BoxedFuture<Result<Response<String>, Status>>;

    fn call(&mut self, request: Request<String>) -> Self::Future {
        Box::pin(async move {
            let name = request.into_inner();
            profiler::trace("db", None, async {}).await;
            if name.is_empty() { Err(Status::not_found("no such server")) } else { Ok(Response::new(name)) }
        })
    }
}

/// What tonic's code generator makes of a service with one method.
#[derive(Clone)]
struct Servers;

impl<B> Service<http::Request<B>> for Servers
where
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxedFuture<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        Box::pin(async move {
            let codec = ProstCodec::<String, String>::default();
            Ok(tonic::server::Grpc::new(codec).unary(GetMethod, request).await)
        })
    }
}

#[tokio::test]
async fn calls_of_tonic_are_points_of_client_and_server() {
    let notifier = Arc::new(MemoryNotifier::default());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server =
        ProfilerLayer::new(ServerKeys::parse("KEY"), identity(), Arc::clone(&notifier) as Arc<dyn Notifier>)
            .enabled(true)
            .layer(Servers);
    let serving = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let service = TowerToHyperService::new(server);
        let connection = auto::Builder::new(TokioExecutor::new()).http2_only();
        connection.serve_connection(TokioIo::new(stream), service).await
    });
    let channel = Endpoint::from_shared(format!("http://{address}")).unwrap().connect_lazy();
    let mut client = tonic::client::Grpc::new(TracingClientLayer.layer(channel));
    let trace = super::trace(&notifier, Signer::new(&Secret::new("KEY")));
    let mut answers = Vec::new();
    for name in ["web-1", ""] {
        let call = async {
            client.ready().await.unwrap();
            let path = http::uri::PathAndQuery::from_static("/compute.Servers/Get");
            client.unary(Request::new(name.to_owned()), path, ProstCodec::<String, String>::default()).await
        };
        let answer = call.in_trace(trace.clone()).await;
        answers.push(answer.map(Response::into_inner).map_err(|status| status.code()));
    }
    assert_eq!(answers, [Ok("web-1".to_owned()), Err(tonic::Code::NotFound)]);
    drop(client);
    serving.abort();
    let records = notifier.records();
    let failed = "grpc-status 5: no such server";
    assert_eq!(
        super::outline(&records),
        [
            "rpc".to_owned(),
            "  rpc".to_owned(),
            "    db".to_owned(),
            format!("rpc {failed}"),
            format!("  rpc {failed}"),
            "    db".to_owned()
        ]
    );
    let methods = records.iter().filter(|record| record.name == "rpc-start");
    assert!(methods.clone().count() == 4);
    assert!(methods.clone().all(|record| record.info["function"]["name"] == "compute.Servers/Get"));
}
