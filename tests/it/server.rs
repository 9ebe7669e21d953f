//! A small HTTP/1.1 server for tests, on threads: it answers with raw bytes, or misbehaves, as a script says, and
//! remembers every request. Dropping it closes its sockets and joins its threads.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::rewind;

/// A request that arrived, with its headers' names in lower case.
#[derive(Clone, Debug)]
pub(crate) struct ScriptedRequest {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Vec<u8>,
    /// How many requests came before it on the same connection.
    pub(crate) nth_of_connection: usize,
    /// How many requests came before it on the whole server.
    pub(crate) nth: usize,
}

/// What becomes of the connection after a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// The next request may come.
    Keep,
    /// Closed in an orderly way.
    Close,
    /// Closed, but without the end of TLS.
    Cut,
    /// Reset: the client's next read fails.
    Reset,
    /// Kept open, and nothing happens on it any more.
    Hang,
}

/// Answers one request.
pub(crate) type RequestScript = dyn Fn(&ScriptedRequest, &mut Wire<'_>) -> After + Send + Sync;

/// A connection, as a script sees it.
pub(crate) struct Wire<'a> {
    stream: &'a mut dyn DuplexStream,
    stopping: &'a AtomicBool,
}

impl Wire<'_> {
    /// Sends bytes as they are; false once the client is gone.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).and_then(|()| self.stream.flush()).is_ok()
    }

    /// Fills these bytes with what the client sends next; false once it is gone.
    pub(crate) fn read(&mut self, bytes: &mut [u8]) -> bool {
        self.stream.read_exact(bytes).is_ok()
    }

    /// Sends a whole answer of this status, content type and body.
    pub(crate) fn answer(&mut self, status: &str, content_type: &str, body: impl AsRef<[u8]>) -> After {
        let body = body.as_ref();
        let length = body.len();
        let head =
            format!("HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n");
        self.send([head.as_bytes(), body].concat());
        After::Keep
    }

    /// Waits; false when the server is being stopped.
    pub(crate) fn pause(&self, pause: Duration) -> bool {
        let until = std::time::Instant::now() + pause;
        while std::time::Instant::now() < until && !self.stopping.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(2).min(pause));
        }
        !self.stopping.load(Ordering::SeqCst)
    }
}

trait DuplexStream: Read + Write {}
impl<T: Read + Write> DuplexStream for T {}

struct ScriptedServerState {
    script: Box<RequestScript>,
    reads_bodies: bool,
    tls: Option<Arc<rustls::ServerConfig>>,
    seen: Mutex<Vec<ScriptedRequest>>,
    count: AtomicUsize,
    stopping: AtomicBool,
    /// A handle of each open connection, to close it from outside.
    sockets: Mutex<HashMap<usize, TcpStream>>,
    connections: AtomicUsize,
}

impl ScriptedServerState {
    /// The numbers of requests that arrived whole, of requests and of connections.
    fn counts(&self) -> (usize, usize, usize) {
        let seen = self.seen.lock().unwrap().len();
        (seen, self.count.load(Ordering::SeqCst), self.connections.load(Ordering::SeqCst))
    }

    fn go_back_to(&self, (seen, count, connections): (usize, usize, usize)) {
        self.seen.lock().unwrap().truncate(seen);
        self.count.store(count, Ordering::SeqCst);
        self.connections.store(connections, Ordering::SeqCst);
    }
}

/// A running server.
pub(crate) struct ScriptedServer {
    address: SocketAddr,
    shared: Arc<ScriptedServerState>,
    acceptor: Option<JoinHandle<()>>,
}

impl ScriptedServer {
    /// A server that runs `script` for each request.
    pub(crate) fn start(
        script: impl Fn(&ScriptedRequest, &mut Wire<'_>) -> After + Send + Sync + 'static,
    ) -> Self {
        Self::with(Box::new(script), true, None)
    }

    /// The same, at this address.
    pub(crate) fn start_at(
        address: SocketAddr,
        script: impl Fn(&ScriptedRequest, &mut Wire<'_>) -> After + Send + Sync + 'static,
    ) -> Self {
        Self::listening(TcpListener::bind(address).unwrap(), Box::new(script), true, None)
    }

    /// The same, but it runs the script as soon as it has the headers, and never reads a body.
    pub(crate) fn deaf(
        script: impl Fn(&ScriptedRequest, &mut Wire<'_>) -> After + Send + Sync + 'static,
    ) -> Self {
        Self::with(Box::new(script), false, None)
    }

    /// A TLS server with a fresh self-signed certificate for 127.0.0.1, which is written to `ca`.
    pub(crate) fn tls(
        ca: &Path,
        script: impl Fn(&ScriptedRequest, &mut Wire<'_>) -> After + Send + Sync + 'static,
    ) -> Self {
        Self::with(Box::new(script), true, Some(Arc::new(tls_config(ca))))
    }

    /// A TLS server that wants a certificate of its clients, with a fresh authority for both sides, which is written to
    /// `ca.pem` in this folder. Returns also a certificate and a key for a client, as PEM.
    pub(crate) fn tls_that_asks(
        folder: &Path,
        versions: &[&'static rustls::SupportedProtocolVersion],
        script: impl Fn(&ScriptedRequest, &mut Wire<'_>) -> After + Send + Sync + 'static,
    ) -> (Self, String, String) {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let authority = params.self_signed(&key).unwrap();
        std::fs::write(folder.join("ca.pem"), authority.pem()).unwrap();
        let issuer = rcgen::Issuer::new(params, key);
        let signed = || {
            let key = rcgen::KeyPair::generate().unwrap();
            let params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
            (params.signed_by(&key, &issuer).unwrap(), key)
        };
        let ((own, own_key), (client, client_key)) = (signed(), signed());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        roots.add(authority.der().clone()).unwrap();
        let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(
            Arc::new(roots),
            Arc::clone(&provider),
        );
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(own_key.serialize_der()));
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_client_cert_verifier(verifier.build().unwrap())
            .with_single_cert(vec![own.der().clone()], key)
            .unwrap();
        let server = Self::with(Box::new(script), true, Some(Arc::new(config)));
        (server, client.pem(), client_key.serialize_pem())
    }

    /// A TLS server with this certificate and key, both in PEM files.
    pub(crate) fn tls_with(
        certificate: &Path,
        key: &Path,
        script: impl Fn(&ScriptedRequest, &mut Wire<'_>) -> After + Send + Sync + 'static,
    ) -> Self {
        use rustls::pki_types::CertificateDer;
        use rustls::pki_types::pem::PemObject as _;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![CertificateDer::from_pem_file(certificate).unwrap()],
                PrivateKeyDer::from_pem_file(key).unwrap(),
            )
            .unwrap();
        Self::with(Box::new(script), true, Some(Arc::new(config)))
    }

    /// A server that answers 200 with `{}` after `pause`.
    pub(crate) fn answering_after(pause: Duration) -> Self {
        Self::start(move |_, wire| {
            wire.pause(pause);
            wire.answer("200 OK", "application/json", "{}")
        })
    }

    fn with(script: Box<RequestScript>, reads_bodies: bool, tls: Option<Arc<rustls::ServerConfig>>) -> Self {
        Self::listening(TcpListener::bind(("127.0.0.1", 0)).unwrap(), script, reads_bodies, tls)
    }

    fn listening(
        listener: TcpListener,
        script: Box<RequestScript>,
        reads_bodies: bool,
        tls: Option<Arc<rustls::ServerConfig>>,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(ScriptedServerState {
            script,
            reads_bodies,
            tls,
            seen: Mutex::default(),
            count: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            sockets: Mutex::default(),
            connections: AtomicUsize::new(0),
        });
        let counted = Arc::downgrade(&shared);
        rewind::before_loads(move || {
            let counted = Weak::clone(&counted);
            let before = counted.upgrade().map(|shared| shared.counts());
            move || {
                if let (Some(shared), Some(before)) = (counted.upgrade(), before) {
                    shared.go_back_to(before);
                }
            }
        });
        let acceptor = Arc::clone(&shared);
        let acceptor = std::thread::spawn(move || accept(&listener, &acceptor));
        Self { address, shared, acceptor: Some(acceptor) }
    }

    /// `http://127.0.0.1:port`, or with https.
    pub(crate) fn url(&self) -> String {
        let scheme = if self.shared.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The requests so far, in the order in which they arrived.
    pub(crate) fn seen(&self) -> Vec<ScriptedRequest> {
        self.shared.seen.lock().unwrap().clone()
    }

    /// How many requests of this path arrived.
    pub(crate) fn count(&self, path: &str) -> usize {
        self.shared.seen.lock().unwrap().iter().filter(|seen| seen.path == path).count()
    }

    /// How many connections were made that brought at least one request.
    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Waits until this many requests have arrived; panics if they do not.
    #[track_caller]
    pub(crate) fn wait_for(&self, requests: usize) {
        let until = std::time::Instant::now() + Duration::from_secs(60);
        while self.shared.count.load(Ordering::SeqCst) < requests {
            assert!(std::time::Instant::now() < until, "{requests} requests did not arrive in a minute");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        // Wakes the acceptor.
        drop(TcpStream::connect(self.address));
        if let Some(acceptor) = self.acceptor.take() {
            let ended = acceptor.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the server panicked");
        }
    }
}

/// A certificate for 127.0.0.1 and its key; who trusts it is written to `ca`.
pub(crate) fn tls_config(ca: &Path) -> rustls::ServerConfig {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    std::fs::write(ca, made.cert.pem()).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap()
}

fn accept(listener: &TcpListener, shared: &Arc<ScriptedServerState>) {
    let mut threads = Vec::new();
    for (number, stream) in listener.incoming().enumerate() {
        if shared.stopping.load(Ordering::SeqCst) {
            break;
        }
        let Ok(stream) = stream else { continue };
        let Ok(handle) = stream.try_clone() else { continue };
        shared.sockets.lock().unwrap().insert(number, handle);
        let shared = Arc::clone(shared);
        threads.push(std::thread::spawn(move || {
            serve(stream, &shared);
            // The last handle: now the connection is closed, or reset.
            shared.sockets.lock().unwrap().remove(&number);
        }));
    }
    for socket in shared.sockets.lock().unwrap().values() {
        let _ = socket.shutdown(std::net::Shutdown::Both);
    }
    for thread in threads {
        thread.join().unwrap();
    }
}

fn serve(mut socket: TcpStream, shared: &ScriptedServerState) {
    let _ = socket.set_nodelay(true);
    let Ok(handle) = socket.try_clone() else { return };
    let after = match &shared.tls {
        None => converse(&mut socket, shared),
        Some(config) => {
            let Ok(connection) = rustls::ServerConnection::new(Arc::clone(config)) else { return };
            let mut stream = rustls::StreamOwned::new(connection, socket);
            let after = converse(&mut stream, shared);
            if after != After::Cut {
                stream.conn.send_close_notify();
            }
            let _ = stream.flush();
            after
        }
    };
    match after {
        After::Reset => {
            let _ = socket2::SockRef::from(&handle).set_linger(Some(Duration::ZERO));
        }
        After::Hang => {
            let _ = io::copy(&mut &handle, &mut io::sink());
        }
        After::Keep | After::Close | After::Cut => {
            let _ = handle.shutdown(std::net::Shutdown::Both);
        }
    }
}

fn converse(stream: &mut dyn DuplexStream, shared: &ScriptedServerState) -> After {
    let mut buffer = Vec::new();
    for nth_of_connection in 0.. {
        let Some(mut seen) = read_request(stream, &mut buffer, shared.reads_bodies) else { break };
        seen.nth_of_connection = nth_of_connection;
        seen.nth = shared.count.load(Ordering::SeqCst);
        if nth_of_connection == 0 {
            shared.connections.fetch_add(1, Ordering::SeqCst);
        }
        {
            let mut all = shared.seen.lock().unwrap();
            seen.nth = all.len();
            all.push(seen.clone());
            shared.count.store(all.len(), Ordering::SeqCst);
        }
        let after = (shared.script)(&seen, &mut Wire { stream, stopping: &shared.stopping });
        if after != After::Keep {
            return after;
        }
    }
    After::Close
}

fn read_request(
    stream: &mut dyn DuplexStream,
    buffer: &mut Vec<u8>,
    reads_body: bool,
) -> Option<ScriptedRequest> {
    let head_end = loop {
        if let Some(at) = memchr::memmem::find(buffer, b"\r\n\r\n") {
            break at + 4;
        }
        fill(stream, buffer)?;
    };
    let head = String::from_utf8_lossy(&buffer[..head_end]).into_owned();
    let mut lines = head.lines();
    let mut request = lines.next()?.split(' ');
    let (method, path) = (request.next()?.to_owned(), request.next()?.to_owned());
    let headers: HashMap<String, String> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let length: usize = if reads_body { length } else { 0 };
    while buffer.len() < head_end + length {
        fill(stream, buffer)?;
    }
    let body = buffer[head_end..head_end + length].to_vec();
    buffer.drain(..head_end + length);
    Some(ScriptedRequest { method, path, headers, body, nth_of_connection: 0, nth: 0 })
}

fn fill(stream: &mut dyn DuplexStream, buffer: &mut Vec<u8>) -> Option<()> {
    let mut chunk = [0; 4096];
    let read = stream.read(&mut chunk).ok().filter(|read| *read > 0)?;
    buffer.extend_from_slice(&chunk[..read]);
    Some(())
}
