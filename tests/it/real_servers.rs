//! Real servers: nginx, Apache, gunicorn, Node and hyper, each with every way of framing a body, with and without
//! keep-alive. A server that is not installed is skipped, with a message.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Bench, free_address};

const SMALL: usize = 13;
const LARGE: usize = 1_500_000;
const CHUNKED: usize = 70_000;
const TIMES: usize = 60;

/// A server's process; dropping it ends it.
pub(crate) struct Process {
    child: Child,
    name: &'static str,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-s", "TERM", &self.child.id().to_string()]).status();
        let until = Instant::now() + Duration::from_secs(10);
        while Instant::now() < until {
            if self.child.try_wait().is_ok_and(|ended| ended.is_some()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        println!("{} did not end", self.name);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where a program is, or that its test is skipped.
pub(crate) fn installed(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.extend(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from));
    let found = folders
        .iter()
        .flat_map(|folder| names.iter().map(|name| folder.join(name)))
        .find(|path| path.is_file());
    if found.is_none() {
        println!("skipped: {} is not installed", names[0]);
    }
    found
}

/// Starts a server that listens at this address, and waits until it does.
pub(crate) fn start(
    name: &'static str,
    command: &mut Command,
    folder: &Path,
    address: SocketAddr,
) -> Process {
    let log = std::fs::File::create(folder.join("server.log")).unwrap();
    let child = command
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap();
    let mut process = Process { child, name };
    let until = Instant::now() + Duration::from_secs(30);
    while TcpStream::connect(address).is_err() {
        let said = || std::fs::read_to_string(folder.join("server.log")).unwrap_or_default();
        assert!(process.child.try_wait().unwrap().is_none(), "{name} ended: {}", said());
        assert!(Instant::now() < until, "{name} does not listen: {}", said());
        std::thread::sleep(Duration::from_millis(20));
    }
    process
}

/// A folder that servers can read that give up root's rights.
fn folder() -> Bench {
    use std::os::unix::fs::PermissionsExt as _;
    let bench = Bench::new();
    std::fs::set_permissions(bench.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::create_dir(bench.path().join("www")).unwrap();
    bench.write("www/small", "Hello, world!");
    bench.write("www/large", "x".repeat(LARGE));
    // Text that is compressed well, so that what is sent of it is chunked.
    bench.write("www/chunked", long_text());
    bench
}

fn long_text() -> String {
    "0123456789".repeat(CHUNKED / 10 - 1) + "ENDofbody!"
}

/// What an action's answer must be, by its path.
enum FramingCase {
    Small,
    Large,
    Chunked,
    /// Chunked because it is compressed; how long it is then is the server's business.
    Compressed,
    Head,
    /// A body is sent.
    Post,
}
use FramingCase::{Chunked, Compressed, Head, Large, Post, Small};

impl FramingCase {
    fn action(&self, headers: &str) -> String {
        let whole = "^(?:0123456789)+ENDofbody!$";
        match self {
            Small => format!(
                "{{ action: small, get: /small, headers: {{ {headers} }}, expect: {{ status: 200, body: {{ equals: 'Hello, world!' }} }} }}"
            ),
            Large => format!(
                "{{ action: large, get: /large, headers: {{ {headers} }}, expect: {{ status: 200 }} }}"
            ),
            Chunked => format!(
                "{{ action: chunked, get: /chunked, headers: {{ {headers} }}, expect: {{ status: 200, body: {{ matches: '{whole}' }} }} }}"
            ),
            Compressed => format!(
                "{{ action: compressed, get: /chunked, decompress: true, headers: {{ {headers} }}, expect: {{ status: 200, headers: {{ Content-Encoding: gzip }}, body: {{ matches: '{whole}' }} }} }}"
            ),
            Head => format!(
                "{{ action: head, head: /large, headers: {{ {headers} }}, expect: {{ status: 200 }} }}"
            ),
            Post => format!(
                "{{ action: post, post: /post, headers: {{ {headers} }}, body: \"{{% for i in range(100) %}}{{{{ 'x' * 1000 }}}}{{% endfor %}}\", expect: {{ status: 2xx }} }}"
            ),
        }
    }

    fn bytes(&self) -> Option<usize> {
        match self {
            Small => Some(SMALL),
            Large => Some(LARGE),
            Chunked => Some(CHUNKED),
            Head => Some(0),
            Compressed | Post => None,
        }
    }
}

/// A load on this server, kept alive and not, on own and on shared connections: nothing fails, and
/// every byte of every body has come.
fn race(bench: &Bench, name: &str, url: &str, deployment: &str, bodies: &[FramingCase]) {
    let http2 = deployment.contains("version: 2");
    for (headers, connections) in
        [("", "user"), ("Connection: close", "user"), ("", "shared"), ("", "iteration")]
    {
        if http2 && !headers.is_empty() {
            continue;
        }
        let _ = std::fs::remove_dir_all(bench.path().join("runs"));
        let actions: Vec<String> = bodies.iter().map(|body| body.action(headers)).collect();
        bench.load(
            url,
            deployment,
            &format!("http: {{ connections: {connections} }}\nrunner: {{ constant: {{ times: {TIMES}, concurrency: 4 }} }}\niteration: [ {} ]", actions.join(", ")),
        );
        bench.run(&["run", "scenario.yaml"]).expect_code(0);
        let results = bench.results();
        let workload = &results["workloads"][0];
        let shown = format!("{name}, {connections} {headers}: {}", workload["errors"]);
        assert_eq!(workload["iterations"]["ok"], TIMES, "{shown}");
        assert_eq!(workload["errors"], serde_json::json!([]), "{shown}");
        let all: Vec<&Value> = workload["actions"].as_array().unwrap().iter().collect();
        for (action, body) in all.iter().zip(bodies) {
            assert_eq!(action["requests"]["ok"], TIMES, "{shown}");
            if let Some(bytes) = body.bytes() {
                assert_eq!(action["bytes_received"], bytes * TIMES, "{shown} {}", action["name"]);
            }
        }
        let opened: u64 = all.iter().map(|action| action["connections_opened"].as_u64().unwrap()).sum();
        let requests = (TIMES * bodies.len()) as u64;
        match (headers, connections) {
            ("", "iteration") => assert_eq!(opened, TIMES as u64, "{shown}"),
            ("", _) => assert!(opened <= 4, "{shown}: {opened} opened"),
            _ => assert_eq!(opened, requests, "{shown}"),
        }
    }
}

/// A certificate for 127.0.0.1 and its key, as files.
fn certificate(bench: &Bench) {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    bench.write("ca.pem", made.cert.pem());
    bench.write("key.pem", made.signing_key.serialize_pem());
}

#[test]
fn nginx_over_every_version() {
    let Some(nginx) = installed(&["nginx"]) else { return };
    let bench = folder();
    certificate(&bench);
    let [clear, tls, prior] = [free_address(), free_address(), free_address()];
    let at = |name: &str| bench.path().join(name).display().to_string();
    let config = format!(
        "daemon off; master_process off; pid {pid}; error_log {error} warn;
events {{ worker_connections 256; }}
http {{
  access_log off; client_body_temp_path {temp}; proxy_temp_path {temp}; fastcgi_temp_path {temp}; uwsgi_temp_path {temp}; scgi_temp_path {temp};
  default_type text/plain; keepalive_requests 100000; client_body_buffer_size 1m;
  server {{
    listen {clear}; listen {tls} ssl http2; listen {prior} http2;
    ssl_certificate {cert}; ssl_certificate_key {key};
    root {root};
    gzip on; gzip_types *; gzip_min_length 1000;
    location = /post {{ client_max_body_size 1m; return 204; }}
  }}
}}\n",
        pid = at("pid"),
        error = at("error.log"),
        temp = at("temp"),
        cert = at("ca.pem"),
        key = at("key.pem"),
        root = at("www"),
    );
    let file = bench.write("nginx.conf", config);
    let mut command = Command::new(nginx);
    command.arg("-p").arg(bench.path()).arg("-c").arg(file).args(["-e", "start.log"]);
    let _server = start("nginx", &mut command, bench.path(), clear);
    let bodies = [Small, Large, Chunked, Compressed, Head, Post];
    race(&bench, "HTTP/1.1", &format!("http://{clear}"), "", &bodies);
    race(
        &bench,
        "TLS, HTTP/1.1",
        &format!("https://{tls}"),
        "tls: { ca: ca.pem }\nhttp: { version: 1.1 }",
        &bodies,
    );
    race(
        &bench,
        "TLS, HTTP/2",
        &format!("https://{tls}"),
        "tls: { ca: ca.pem }\nhttp: { version: 2 }",
        &bodies,
    );
    race(&bench, "HTTP/2", &format!("http://{prior}"), "http: { version: 2 }", &bodies);
}

#[test]
fn apache() {
    let Some(apache) = installed(&["apache2"]) else { return };
    let modules = Path::new("/usr/lib/apache2/modules");
    if !modules.is_dir() {
        println!("skipped: Apache's modules are not where Debian has them");
        return;
    }
    let bench = folder();
    let address = free_address();
    let load: String = ["mpm_event", "authz_core", "filter", "deflate", "mime", "http2"]
        .iter()
        .map(|name| format!("LoadModule {name}_module {}/mod_{name}.so\n", modules.display()))
        .collect();
    bench.write("mime.types", "text/plain txt\n");
    let config = format!(
        "{load}ServerRoot {folder}\nServerName 127.0.0.1\nListen {address}\nPidFile {folder}/pid\nErrorLog {folder}/error.log
DefaultRuntimeDir {folder}\nTypesConfig {folder}/mime.types\nUser www-data\nGroup www-data\nProtocols h2c http/1.1
StartServers 1\nThreadsPerChild 25\nMaxRequestWorkers 25\nMaxKeepAliveRequests 0\nKeepAlive On
DocumentRoot {folder}/www\n<Directory {folder}/www>\nRequire all granted\nForceType text/plain\nSetOutputFilter DEFLATE\n</Directory>\n",
        folder = bench.path().display(),
    );
    let file = bench.write("apache.conf", config);
    let mut command = Command::new(apache);
    command.args(["-D", "FOREGROUND", "-f"]).arg(file);
    let _server = start("Apache", &mut command, bench.path(), address);
    let bodies = [Small, Large, Chunked, Compressed, Head];
    race(&bench, "Apache", &format!("http://{address}"), "", &bodies);
    race(&bench, "Apache, HTTP/2", &format!("http://{address}"), "http: { version: 2 }", &bodies);
}

const GUNICORN: &str = r"
def app(environ, start):
    path, head = environ['PATH_INFO'], environ['REQUEST_METHOD'] == 'HEAD'
    if path == '/chunked':
        start('200 OK', [('Content-Type', 'text/plain')])
        return iter([b'0123456789' * 100] * 69 + [b'0123456789' * 99 + b'ENDofbody!'])
    if path == '/post':
        body = environ['wsgi.input'].read()
        answer = str(len(body)).encode()
    else:
        answer = b'Hello, world!' if path == '/small' else b'x' * 1500000
    start('200 OK', [('Content-Type', 'text/plain'), ('Content-Length', str(len(answer)))])
    return [b'' if head else answer]
";

#[test]
fn gunicorn() {
    let Some(gunicorn) = installed(&["gunicorn3", "gunicorn"]) else { return };
    let bench = folder();
    bench.write("application.py", GUNICORN);
    let address = free_address();
    let mut command = Command::new(gunicorn);
    command.args(["--bind", &address.to_string(), "--worker-class", "gthread", "--threads", "8"]);
    command.args(["--keep-alive", "20", "--graceful-timeout", "1", "--worker-tmp-dir"]).arg(bench.path());
    command.args(["application:app"]);
    let _server = start("gunicorn", &mut command, bench.path(), address);
    race(&bench, "gunicorn", &format!("http://{address}"), "", &[Small, Large, Chunked, Head, Post]);
}

const NODE: &str = r"
const http2 = process.argv[3] === '2';
const { createServer } = require(http2 ? 'http2' : 'http');
const answer = (request, response) => {
  const path = request.url;
  request.on('data', () => {});
  request.on('end', () => {
    if (path === '/chunked') {
      response.setHeader('Content-Type', 'text/plain');
      if (!http2) response.setHeader('Trailer', 'X-Trailer');
      for (let i = 0; i < 69; i++) response.write('0123456789'.repeat(100));
      response.write('0123456789'.repeat(99) + 'ENDofbody!');
      response.addTrailers({ 'X-Trailer': 'end' });
      response.end();
    } else {
      const body = path === '/small' ? 'Hello, world!' : path === '/large' ? 'x'.repeat(1500000) : 'posted';
      response.setHeader('Content-Length', body.length);
      response.end(request.method === 'HEAD' ? undefined : body);
    }
  });
};
createServer({ keepAliveTimeout: 30000 }, answer).listen(Number(process.argv[2]), '127.0.0.1');
";

#[test]
fn node() {
    let Some(node) = installed(&["node", "nodejs"]) else { return };
    let bench = folder();
    bench.write("server.js", NODE);
    for (version, deployment) in [("1.1", ""), ("2", "http: { version: 2 }")] {
        let address = free_address();
        let mut command = Command::new(&node);
        command.args(["server.js", &address.port().to_string(), version]);
        let _server = start("node", &mut command, bench.path(), address);
        let bodies = [Small, Large, Chunked, Head, Post];
        race(&bench, &format!("Node, HTTP/{version}"), &format!("http://{address}"), deployment, &bodies);
    }
}

#[test]
fn hyper() {
    use bytes::Bytes;
    use http_body_util::{BodyExt as _, Full, combinators::BoxBody};
    use std::convert::Infallible;

    async fn answer(
        request: http::Request<hyper::body::Incoming>,
    ) -> Result<http::Response<BoxBody<Bytes, Infallible>>, Infallible> {
        let path = request.uri().path().to_owned();
        let posted = request.into_body().collect().await.map_or(0, |body| body.to_bytes().len());
        let whole = |text: String| Full::new(Bytes::from(text)).boxed();
        Ok(http::Response::new(match path.as_str() {
            "/small" => whole("Hello, world!".to_owned()),
            "/large" => whole("x".repeat(LARGE)),
            "/chunked" => {
                let data = Bytes::from(long_text());
                SingleFrameBody(Some(data)).boxed()
            }
            _ => whole(posted.to_string()),
        }))
    }

    let (send, address) = std::sync::mpsc::channel();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
            send.send(listener.local_addr().unwrap()).unwrap();
            let accepting = async {
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    let service = hyper::service::service_fn(answer);
                    let io = hyper_util::rt::TokioIo::new(stream);
                    tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(io, service));
                }
            };
            tokio::select! {
                () = accepting => {}
                _ = stopped => {}
            }
        });
    });
    let url = format!("http://{}", address.recv().unwrap());
    race(&folder(), "hyper", &url, "", &[Small, Large, Chunked, Head, Post]);
    drop(stop);
    server.join().unwrap();
}

/// A body of one frame whose length is not known before.
struct SingleFrameBody(Option<bytes::Bytes>);

impl hyper::body::Body for SingleFrameBody {
    type Data = bytes::Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<bytes::Bytes>, Self::Error>>> {
        std::task::Poll::Ready(self.0.take().map(|data| Ok(hyper::body::Frame::data(data))))
    }
}
