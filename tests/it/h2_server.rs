//! A small HTTP/2 server for tests, on a separate thread and with the h2 crate. It handles each request as a script
//! says, and remembers it. Dropping it ends its thread.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use bytes::Bytes;
use h2::{Reason, RecvStream, SendStream, server::SendResponse};
use http::{HeaderMap, Request, Response};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};

use crate::rewind;

/// A request that arrived.
#[derive(Clone, Debug)]
pub(crate) struct H2ServerRequest {
    pub(crate) method: String,
    pub(crate) uri: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body_bytes: usize,
    /// The connection's number.
    pub(crate) connection: usize,
    /// How many requests came before it on the same connection.
    pub(crate) nth_of_connection: usize,
}

/// What is done to a request.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Answers 200 with this many bytes.
    Answer(usize),
    /// Answers with this status, these headers and this body, and trailers behind it.
    Full(u16, Vec<(&'static str, String)>, Vec<u8>),
    /// Answers with this status, these headers, this body and these trailers; without the last two, the head ends it.
    Trailed(u16, Vec<(&'static str, String)>, Vec<u8>, Vec<(&'static str, String)>),
    /// Answers with this status, these headers, and these pieces of a body, each after a pause; true to send the last again and
    /// again.
    Pieces(u16, Vec<(&'static str, String)>, Vec<(std::time::Duration, Vec<u8>)>, bool),
    /// 103, then the answer.
    Interim,
    /// Resets the stream.
    Reset(Reason),
    /// The head of an answer and a part of the body, then a reset.
    ResetInBody(Reason),
    /// The head of an answer and a part of the body, then the TCP connection ends.
    CloseInBody,
    /// The whole answer before the request's body was read, then a reset without an error.
    Early,
    /// Ends the connection with GOAWAY, unanswered.
    GoAway(Reason),
    /// Answers, and lets the connection end.
    AnswerAndGoAway,
    /// Ends the TCP connection.
    Close,
    /// Pings, waits for the pong, answers.
    Ping,
    /// Nothing at all.
    Hang,
    /// This, without reading the request's body.
    AtOnce(Box<Act>),
}

type Script = dyn Fn(&H2ServerRequest) -> Act + Send + Sync;

/// What a server offers.
pub(crate) struct H2ServerOptions {
    pub(crate) max_concurrent_streams: Option<u32>,
    pub(crate) window_bytes: u32,
    /// The certificate's file and the ALPN protocols of a TLS server.
    pub(crate) tls: Option<(std::path::PathBuf, &'static [&'static str])>,
}

impl Default for H2ServerOptions {
    fn default() -> Self {
        Self { max_concurrent_streams: None, window_bytes: 65_535, tls: None }
    }
}

/// A running server.
pub(crate) struct H2Server {
    address: SocketAddr,
    scheme: &'static str,
    seen: Arc<Mutex<Vec<H2ServerRequest>>>,
    connections: Arc<Mutex<usize>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Clone)]
struct H2ScriptState {
    script: Arc<Script>,
    seen: Arc<Mutex<Vec<H2ServerRequest>>>,
}

/// What a request's task asks of its connection.
enum Control {
    GoAway(Reason),
    Goodbye,
    Close,
    Ping(oneshot::Sender<()>),
}

impl H2Server {
    pub(crate) fn start(script: impl Fn(&H2ServerRequest) -> Act + Send + Sync + 'static) -> Self {
        Self::with(H2ServerOptions::default(), script)
    }

    pub(crate) fn with(
        options: H2ServerOptions,
        script: impl Fn(&H2ServerRequest) -> Act + Send + Sync + 'static,
    ) -> Self {
        let (stop, stopped) = oneshot::channel();
        let (address_sender, address) = std::sync::mpsc::channel();
        let seen = rewind::state(Vec::new());
        let connections = rewind::state(0);
        let shared = H2ScriptState { script: Arc::new(script), seen: Arc::clone(&seen) };
        let scheme = if options.tls.is_some() { "https" } else { "http" };
        let count = Arc::clone(&connections);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
                address_sender.send(listener.local_addr().unwrap()).unwrap();
                tokio::select! {
                    () = accept(listener, &options, shared, count) => {}
                    _ = stopped => {}
                }
            });
        });
        let address = address.recv().unwrap();
        Self { address, scheme, seen, connections, stop: Some(stop), thread: Some(thread) }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    pub(crate) fn seen(&self) -> Vec<H2ServerRequest> {
        self.seen.lock().unwrap().clone()
    }

    /// How many connections spoke HTTP/2.
    pub(crate) fn connections(&self) -> usize {
        *self.connections.lock().unwrap()
    }
}

impl Drop for H2Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            assert!(thread.join().is_ok() || std::thread::panicking(), "the server panicked");
        }
    }
}

fn acceptor(ca: &Path, protocols: &[&str]) -> tokio_rustls::TlsAcceptor {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    std::fs::write(ca, made.cert.pem()).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    tokio_rustls::TlsAcceptor::from(Arc::new(config))
}

async fn accept(
    listener: TcpListener,
    options: &H2ServerOptions,
    shared: H2ScriptState,
    count: Arc<Mutex<usize>>,
) {
    let tls = options.tls.as_ref().map(|(ca, protocols)| acceptor(ca, protocols));
    let mut builder = h2::server::Builder::new();
    builder.initial_window_size(options.window_bytes);
    if let Some(most) = options.max_concurrent_streams {
        builder.max_concurrent_streams(most);
    }
    loop {
        let Ok((socket, _)) = listener.accept().await else { continue };
        let (tls, shared, builder) = (tls.clone(), shared.clone(), builder.clone());
        let count = Arc::clone(&count);
        tokio::spawn(async move {
            match tls {
                None => serve(socket, &builder, shared, &count).await,
                Some(tls) => {
                    if let Ok(stream) = tls.accept(socket).await {
                        serve(stream, &builder, shared, &count).await;
                    }
                }
            }
        });
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    builder: &h2::server::Builder,
    shared: H2ScriptState,
    count: &Mutex<usize>,
) {
    let Ok(mut connection) = builder.handshake::<_, Bytes>(stream).await else { return };
    let (control, mut controls) = mpsc::channel(16);
    let mut ping_pong = connection.ping_pong().unwrap();
    let (mut number, mut nth) = (None, 0);
    let mut pong: Option<oneshot::Sender<()>> = None;
    loop {
        tokio::select! {
            request = connection.accept() => {
                let Some(Ok((request, respond))) = request else { return };
                let number = *number.get_or_insert_with(|| {
                    let mut count = count.lock().unwrap();
                    *count += 1;
                    *count - 1
                });
                tokio::spawn(handle(request, respond, (number, nth), shared.clone(), control.clone()));
                nth += 1;
            }
            told = controls.recv() => match told {
                Some(Control::GoAway(reason)) => connection.abrupt_shutdown(reason),
                Some(Control::Goodbye) => connection.graceful_shutdown(),
                Some(Control::Close) | None => return,
                Some(Control::Ping(answered)) => {
                    ping_pong.send_ping(h2::Ping::opaque()).unwrap();
                    pong = Some(answered);
                }
            },
            _ = std::future::poll_fn(|cx| ping_pong.poll_pong(cx)), if pong.is_some() => {
                drop(pong.take());
            }
        }
    }
}

#[expect(clippy::too_many_lines, reason = "what each act does, in their order")]
async fn handle(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    (connection, nth_of_connection): (usize, usize),
    shared: H2ScriptState,
    control: mpsc::Sender<Control>,
) {
    let (head, mut body) = request.into_parts();
    let mut seen = H2ServerRequest {
        method: head.method.to_string(),
        uri: head.uri.to_string(),
        headers: head.headers,
        body_bytes: 0,
        connection,
        nth_of_connection,
    };
    let (act, is_early) = match (shared.script)(&seen) {
        Act::AtOnce(act) => (*act, true),
        Act::Early => (Act::Early, true),
        act => (act, false),
    };
    if !is_early {
        while let Some(Ok(data)) = body.data().await {
            seen.body_bytes += data.len();
            let _ = body.flow_control().release_capacity(data.len());
        }
    }
    let to_head = seen.method == "HEAD";
    shared.seen.lock().unwrap().push(seen);
    match act {
        _ if to_head => {
            answer(&mut respond, 200, &[("content-length", "99".to_owned())], Vec::new(), &[]).await
        }
        Act::Answer(length) => answer(&mut respond, 200, &[], vec![b'x'; length], &[]).await,
        Act::Full(status, headers, body) => {
            answer(&mut respond, status, &headers, body, &[("x-trailer", "t".to_owned())]).await;
        }
        Act::Trailed(status, headers, body, trailers) => {
            answer(&mut respond, status, &headers, body, &trailers).await;
        }
        Act::Pieces(status, headers, pieces, is_endless) => {
            in_pieces(&mut respond, (status, &headers), &pieces, is_endless).await;
        }
        Act::Interim => {
            let interim = Response::builder().status(103).header("link", "</x>").body(()).unwrap();
            let _ = respond.send_informational(interim);
            answer(&mut respond, 200, &[], b"{}".to_vec(), &[]).await;
        }
        Act::Reset(reason) => respond.send_reset(reason),
        Act::ResetInBody(reason) => {
            if let Some(mut stream) = part_of_an_answer(&mut respond).await {
                stream.send_reset(reason);
            }
        }
        Act::CloseInBody => {
            let _stream = part_of_an_answer(&mut respond).await;
            let _ = control.send(Control::Close).await;
            std::future::pending().await
        }
        Act::Early => {
            answer(&mut respond, 413, &[], b"no".to_vec(), &[]).await;
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            respond.send_reset(Reason::NO_ERROR);
        }
        Act::GoAway(reason) => {
            let _ = control.send(Control::GoAway(reason)).await;
            // Forgetting the request would reset it.
            std::future::pending().await
        }
        Act::AnswerAndGoAway => {
            answer(&mut respond, 200, &[], b"{}".to_vec(), &[]).await;
            let _ = control.send(Control::Goodbye).await;
        }
        Act::Close => {
            let _ = control.send(Control::Close).await;
            std::future::pending().await
        }
        Act::Ping => {
            let (answered, pong) = oneshot::channel();
            let _ = control.send(Control::Ping(answered)).await;
            let _ = pong.await;
            answer(&mut respond, 200, &[], b"pong".to_vec(), &[]).await;
        }
        Act::Hang | Act::AtOnce(_) => std::future::pending().await,
    }
}

async fn in_pieces(
    respond: &mut SendResponse<Bytes>,
    (status, headers): (u16, &[(&'static str, String)]),
    pieces: &[(std::time::Duration, Vec<u8>)],
    is_endless: bool,
) {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, value);
    }
    let Ok(mut stream) = respond.send_response(response.body(()).unwrap(), false) else { return };
    let mut number = 0;
    while let Some((pause, piece)) = pieces.get(number) {
        tokio::time::sleep(*pause).await;
        let mut piece = Bytes::from(piece.clone());
        while !piece.is_empty() {
            stream.reserve_capacity(piece.len());
            let Some(Ok(room)) = std::future::poll_fn(|cx| stream.poll_capacity(cx)).await else { return };
            if stream.send_data(piece.split_to(room.min(piece.len())), false).is_err() {
                return;
            }
        }
        number += usize::from(!is_endless);
    }
    let _ = stream.send_data(Bytes::new(), true);
}

async fn part_of_an_answer(respond: &mut SendResponse<Bytes>) -> Option<SendStream<Bytes>> {
    let mut stream = respond.send_response(Response::new(()), false).ok()?;
    stream.send_data(Bytes::from_static(b"part"), false).ok()?;
    // So that it is there before what follows.
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    Some(stream)
}

async fn answer(
    respond: &mut SendResponse<Bytes>,
    status: u16,
    headers: &[(&'static str, String)],
    body: Vec<u8>,
    trailers: &[(&'static str, String)],
) {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, value);
    }
    let is_whole = body.is_empty() && (trailers.is_empty() || status == 204);
    let Ok(mut stream) = respond.send_response(response.body(()).unwrap(), is_whole) else { return };
    let mut body = Bytes::from(body);
    while !body.is_empty() {
        stream.reserve_capacity(body.len());
        let Some(Ok(room)) = std::future::poll_fn(|cx| stream.poll_capacity(cx)).await else { return };
        let part = body.split_to(room.min(body.len()));
        let last = body.is_empty() && trailers.is_empty();
        if stream.send_data(part, last).is_err() {
            return;
        }
    }
    if !trailers.is_empty() {
        let mut map = HeaderMap::new();
        for (name, value) in trailers {
            map.append(*name, value.parse().unwrap());
        }
        let _ = stream.send_trailers(map);
    }
}
