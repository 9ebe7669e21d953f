//! The load path's HTTP/1.1 against hyper's: the same bytes must give the same answer, or none.

use std::time::Duration;

use bench::client::headers::HeaderBlock;
use bench::client::options::{BODY_BYTES_MAX, HttpOptions, Settings};
use bench::client::pool::Pool;
use bench::client::url::BaseUrl;
use bench::client::{Phases, Request, tls};
use bytes::Bytes;
use http::{HeaderMap, Method};
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::TokioIo;

use crate::server::{After, Server};

const LIMIT: Duration = Duration::from_secs(5);

/// Status, headers in order of their names, body.
type Seen = (u16, Vec<(String, Vec<u8>)>, Vec<u8>);

fn sorted(headers: &HeaderMap) -> Vec<(String, Vec<u8>)> {
    let mut pairs: Vec<_> =
        headers.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect();
    pairs.sort();
    pairs
}

async fn ours(url: &BaseUrl, method: &Method) -> Option<Seen> {
    let options = tls::TlsOptions { verify: false, ca: None, identity: None };
    let mut pool = Pool::new(&Settings::new(&tls::config(&options, false).unwrap(), HttpOptions::default()));
    let request = Request {
        method,
        origin: &url.origin,
        path: "/",
        fixed: &HeaderBlock::default(),
        own: &HeaderBlock::default(),
        body: &Bytes::new(),
        started: std::time::Instant::now(),
        redirects_max: 0,
        body_bytes_max: BODY_BYTES_MAX,
        keep_headers: true,
        keep_body: true,
    };
    let mut phases = Phases::default();
    let answer = tokio::time::timeout(LIMIT, pool.send(request, &mut phases)).await.unwrap().ok()?;
    assert_eq!(answer.body.len() as u64, answer.body_bytes);
    Some((answer.status.as_u16(), sorted(answer.headers.as_deref()?), answer.body))
}

async fn hypers(url: &BaseUrl, method: &Method) -> Option<Seen> {
    let stream = tokio::net::TcpStream::connect((url.origin.host.as_str(), url.origin.port)).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake::<_, Empty<Bytes>>(TokioIo::new(stream)).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = http::Request::builder()
        .method(method.clone())
        .uri("/")
        .header("host", &url.origin.authority)
        .body(Empty::new())
        .unwrap();
    let answer = async {
        let answer = sender.send_request(request).await.ok()?;
        let (status, headers) = (answer.status().as_u16(), sorted(answer.headers()));
        let body = answer.into_body().collect().await.ok()?.to_bytes().to_vec();
        Some((status, headers, body))
    };
    let answer = tokio::time::timeout(LIMIT, answer).await.unwrap();
    connection.abort();
    answer
}

/// Both clients on a server that answers each request with `bytes` and closes.
fn compare(bytes: &[u8], method: &Method) -> (Option<Seen>, Option<Seen>) {
    let script = bytes.to_vec();
    let server = Server::start(move |_, wire| {
        wire.send(&script);
        After::Close
    });
    let url = BaseUrl::parse(&server.url()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { (ours(&url, method).await, hypers(&url, method).await) })
}

const ANSWERS: [&str; 22] = [
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: a\r\nX: b\r\n\r\nhello",
    "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\n\r\nuntil the end",
    "HTTP/1.0 404 Not Found\r\nContent-Type: text/plain\r\n\r\nno",
    "HTTP/1.1 204 No Content\r\n\r\n",
    "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n5;a=b\r\nhello\r\nA\r\n, world!!!\r\n0\r\nT: v\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloXX",
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello",
    "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\ntoo short",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok",
    "HTTP/1.1 99 Low\r\n\r\n",
    "HTTP/2.0 200 OK\r\n\r\n",
    "SSH-2.0-OpenSSH_9.2\r\n",
    "HTTP/1.1 200 OK\r\nNo colon here\r\n\r\n",
    "HTTP/1.1 200 OK\r\nX:   blanks   \r\nEmpty:\r\nContent-Length: 1\r\n\r\n1",
];

#[test]
fn the_same_bytes_give_the_same_answer_as_hyper() {
    for answer in ANSWERS {
        for method in [Method::GET, Method::HEAD] {
            let (ours, hypers) = compare(answer.as_bytes(), &method);
            assert_eq!(ours, hypers, "{method} {answer:?}");
        }
    }
}

#[test]
fn an_answer_cut_at_any_byte_is_the_same_as_hypers() {
    for answer in [ANSWERS[0], ANSWERS[7], ANSWERS[15]] {
        for cut in 0..answer.len() {
            let (ours, hypers) = compare(&answer.as_bytes()[..cut], &Method::GET);
            assert_eq!(ours, hypers, "{:?}", &answer[..cut]);
        }
    }
}
