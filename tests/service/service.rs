//! A small compute service: HTTP in front, a database, a message queue and another HTTP service
//! (itself) behind, traced as a service should be.
//!
//! What makes it traced: the middleware around its handler, the layer around its HTTP client,
//! [`rpc`] around its messages, [`Statement`] around its statements, and one point made in each of
//! the three ways. Without a signed request all of that does nothing.

mod reports;

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use anyhow::Context as _;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use osprofiler::db::Statement;
use osprofiler::http_client::TracingClientLayer;
use osprofiler::notifier::{self, Notifier, Reporter};
use osprofiler::profiler;
use osprofiler::record::ServiceIdentity;
use osprofiler::rpc;
use osprofiler::verifying::ServerKeys;
use osprofiler::web::{ProfilerLayer, ProfilerService};
use serde_json::{Map, Value, json};
use sqlx::sqlite::{SqlitePool, SqlitePoolOptions};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use tower_layer::Layer as _;
use tracing::instrument;

/// A running service.
pub struct ComputeService {
    address: SocketAddr,
    stop: CancellationToken,
    server: JoinHandle<()>,
    worker: JoinHandle<()>,
}

/// What handlers share.
#[derive(Clone)]
struct App {
    address: SocketAddr,
    database: SqlitePool,
    messages: mpsc::Sender<RpcMessage>,
}

/// A message as an RPC library would send it: with a context for what concerns every call.
struct RpcMessage {
    context: Map<String, Value>,
    server: u32,
    reply: oneshot::Sender<Result<String, String>>,
}

impl ComputeService {
    /// Starts on a free port; points go to `notifier`.
    pub async fn start(keys: ServerKeys, notifier: Arc<dyn Notifier>) -> anyhow::Result<Self> {
        let identity = |service: &str| {
            let host = "localhost".to_owned();
            Arc::new(ServiceIdentity { project: "example".to_owned(), service: service.to_owned(), host })
        };
        // What messages are reported as.
        notifier::set(Some(Reporter::new(identity("worker"), Arc::clone(&notifier))));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (messages, received) = mpsc::channel(16);
        let worker = tokio::spawn(work(received, keys.clone()));
        let app = App { address, database: database().await?, messages };
        let service = ProfilerLayer::new(keys, identity("api"), notifier).layer(ComputeHandler(app));
        let stop = CancellationToken::new();
        let server = tokio::spawn(serve(listener, service, stop.clone()));
        Ok(Self { address, stop, server, worker })
    }

    /// Where it listens, on this machine.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Ends every task of the service.
    pub async fn stop(self) {
        self.stop.cancel();
        // The worker ends when nothing can send to it any more.
        let _ = (self.server.await, self.worker.await);
        notifier::set(None);
    }
}

async fn serve(listener: TcpListener, service: ProfilerService<ComputeHandler>, stop: CancellationToken) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => return connections.shutdown().await,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                let service = TowerToHyperService::new(service.clone());
                connections.spawn(async move {
                    let connection = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service);
                    // An error is the client's to notice.
                    let _ = connection.await;
                });
            }
        }
    }
}

#[derive(Clone)]
struct ComputeHandler(App);

type ComputeAnswer = Response<Full<Bytes>>;

impl tower_service::Service<Request<Incoming>> for ComputeHandler {
    type Response = ComputeAnswer;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<ComputeAnswer, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let app = self.0.clone();
        Box::pin(async move { Ok(app.answer(&request).await) })
    }
}

impl App {
    async fn answer(&self, request: &Request<Incoming>) -> ComputeAnswer {
        let (status, body) = match request.uri().path().split('/').collect::<Vec<_>>()[..] {
            ["", "servers", id] => match self.server(id).await {
                Ok(body) => (StatusCode::OK, body),
                Err(error) => (StatusCode::NOT_FOUND, format!("{error:#}")),
            },
            ["", "reports", kind, id] => match self.report(kind, id).await {
                Some(body) => (StatusCode::OK, body),
                None => (StatusCode::NOT_FOUND, "no such report".to_owned()),
            },
            ["", "images", id] => (StatusCode::OK, self.image(id).await),
            _ => (StatusCode::NOT_FOUND, "no such path".to_owned()),
        };
        let mut answer = Response::new(Full::new(Bytes::from(body)));
        *answer.status_mut() = status;
        answer
    }

    /// Tells about a server, in all three ways.
    async fn server(&self, id: &str) -> anyhow::Result<String> {
        let id: u32 = id.parse().context("a server's id is a number")?;
        // First way: explicitly, for any stretch of code.
        profiler::start("authorize", || json!({"server": id}));
        tokio::task::yield_now().await;
        profiler::stop(());
        // Second way: functions with `#[instrument]`.
        let name = self.find(id).await?;
        // Third way: a scope around a future (or a closure).
        let described = profiler::try_trace("describe", || json!({"server": id}), async {
            let image = self.fetch(&format!("/images/{id}")).await?;
            let state = self.ask_worker(id).await?;
            anyhow::Ok(format!("{name} {image} {state}"))
        });
        described.await
    }

    #[instrument(skip(self), err)]
    async fn find(&self, id: u32) -> Result<String, sqlx::Error> {
        let sql = "SELECT name FROM servers WHERE id = ?";
        let query = sqlx::query_scalar(sql).bind(id).fetch_one(&self.database);
        Statement::new(sql).show_params(|| json!([id])).run(query).await
    }

    #[instrument(skip(self))]
    async fn image(&self, id: &str) -> String {
        profiler::trace_sync("checksum", (), || format!("image-{id}"))
    }

    /// A report, whose every tenth is slow: of kind `busy` in a function that has no point of its own, of kind `idle`
    /// because it waits.
    async fn report(&self, kind: &str, id: &str) -> Option<String> {
        let (kind, id): (reports::SlowReportKind, u64) = (kind.parse().ok()?, id.parse().ok()?);
        Some(profiler::trace("render", || json!({"report": id}), reports::render(kind, id)).await)
    }

    /// Another service's answer.
    async fn fetch(&self, path: &str) -> anyhow::Result<String> {
        let request = Request::get(format!("http://{}{path}", self.address)).body(Empty::new())?;
        let mut client = TracingClientLayer.layer(FreshConnectionClient);
        poll_fn(|context| tower_service::Service::poll_ready(&mut client, context)).await?;
        let response = tower_service::Service::call(&mut client, request).await?;
        let body = response.into_body().collect().await?.to_bytes();
        Ok(String::from_utf8(body.into())?)
    }

    /// What another process of this service says.
    async fn ask_worker(&self, server: u32) -> anyhow::Result<String> {
        let call = rpc::call("get_state", async {
            let (reply, answer) = oneshot::channel();
            let mut context = Map::from_iter([("request_id".to_owned(), json!("req-1"))]);
            rpc::pack(&mut context);
            self.messages.send(RpcMessage { context, server, reply }).await?;
            answer.await?.map_err(anyhow::Error::msg)
        });
        call.await
    }
}

/// Handles messages, one after another.
async fn work(mut messages: mpsc::Receiver<RpcMessage>, keys: ServerKeys) {
    while let Some(RpcMessage { mut context, server, reply }) = messages.recv().await {
        let trace = rpc::incoming(&mut context, Some(&keys));
        let state = rpc::serve(trace, "get_state", async {
            tokio::task::yield_now().await;
            if server == 13 { Err("the worker knows no server 13".to_owned()) } else { Ok(state(server)) }
        });
        // Who asked may be gone.
        let _ = reply.send(state.await);
    }
}

#[instrument]
fn state(server: u32) -> String {
    if server.is_multiple_of(2) { "ACTIVE".to_owned() } else { "PAUSED".to_owned() }
}

async fn database() -> anyhow::Result<SqlitePool> {
    // A database in memory is as long as its only connection.
    let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
    sqlx::query("CREATE TABLE servers (id INTEGER PRIMARY KEY, name TEXT NOT NULL)").execute(&pool).await?;
    sqlx::query("INSERT INTO servers VALUES (1, 'one'), (2, 'two'), (13, 'thirteen')").execute(&pool).await?;
    Ok(pool)
}

/// An HTTP client that opens a connection for each request.
#[derive(Clone)]
struct FreshConnectionClient;

impl tower_service::Service<Request<Empty<Bytes>>> for FreshConnectionClient {
    type Response = Response<Incoming>;
    type Error = anyhow::Error;
    type Future = Pin<Box<dyn Future<Output = anyhow::Result<Response<Incoming>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<anyhow::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Empty<Bytes>>) -> Self::Future {
        Box::pin(async move {
            let authority = request.uri().authority().context("a URL has a host")?.to_string();
            let stream = TcpStream::connect(&authority).await?;
            let (mut sender, connection) =
                hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
            tokio::spawn(connection);
            let (mut parts, body) = request.into_parts();
            parts.headers.insert("host", authority.parse()?);
            parts.uri = parts.uri.path().parse()?;
            Ok(sender.send_request(Request::from_parts(parts, body)).await?)
        })
    }
}
