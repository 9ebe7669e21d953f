//! bench's HTTP/1.1 client against hyper's: the same bytes must give the same answer, or an error in both.

use std::time::Duration;

use bench::client::guard::Guard;
use bench::client::headers::HeaderBlock;
use bench::client::options::{BODY_BYTES_MAX, HttpOptions, Settings, Version};
use bench::client::pool::Pool;
use bench::client::url::BaseUrl;
use bench::client::{Request, tls};
use bench::measure::phases::Phases;
use bytes::Bytes;
use http::{HeaderMap, Method};
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::TokioIo;

use crate::server::{After, ScriptedServer};

const LIMIT: Duration = Duration::from_secs(5);

/// Whether a line of the head goes on with a blank (RFC 9112, section 5.2).
fn is_folded(answer: &[u8]) -> bool {
    answer.windows(2).any(|pair| pair[0] == b'\n' && matches!(pair[1], b' ' | b'\t'))
}

/// Status, headers in order of their names, body.
type ComparableAnswer = (u16, Vec<(String, Vec<u8>)>, Vec<u8>);

fn sorted(headers: &HeaderMap) -> Vec<(String, Vec<u8>)> {
    let mut pairs: Vec<_> =
        headers.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect();
    pairs.sort();
    pairs
}

async fn ours(url: &BaseUrl, method: &Method) -> Option<ComparableAnswer> {
    let options = tls::TlsOptions { verify: false, ca: None, identity: None };
    let mut pool = Pool::new(&Settings::new(
        &tls::config(&options, false).unwrap(),
        HttpOptions { guard: Guard::unrestricted(), ..HttpOptions::default() },
    ));
    let request = Request {
        method,
        origin: &url.origin,
        path: "/",
        fixed: &HeaderBlock::default(),
        own: &HeaderBlock::default(),
        body: &bench::client::body::BodyContent::EMPTY,
        started: std::time::Instant::now(),
        redirects_max: 0,
        body_bytes_max: BODY_BYTES_MAX,
        cookies: None,
        keep_headers: true,
        keep_body: true,
        keep_trailers: false,
        reader: None,
        version: Version::Auto,
        is_refused: &|_| false,
    };
    let mut phases = Phases::default();
    let answer = tokio::time::timeout(LIMIT, pool.send(&request, &mut phases)).await.unwrap().ok()?;
    assert_eq!(answer.body.len() as u64, answer.body_bytes);
    Some((answer.status.as_u16(), sorted(answer.headers.as_deref()?), answer.body))
}

async fn hypers(url: &BaseUrl, method: &Method) -> Option<ComparableAnswer> {
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
fn compare(bytes: &[u8], method: &Method) -> (Option<ComparableAnswer>, Option<ComparableAnswer>) {
    compare_in_pieces(vec![bytes.to_vec()], method)
}

/// The same with bytes that come piece by piece.
fn compare_in_pieces(
    pieces: Vec<Vec<u8>>,
    method: &Method,
) -> (Option<ComparableAnswer>, Option<ComparableAnswer>) {
    let server = ScriptedServer::start(move |_, wire| {
        for (index, piece) in pieces.iter().enumerate() {
            if index > 0 {
                // Long enough that most pieces are read alone.
                std::thread::sleep(Duration::from_micros(200));
            }
            wire.send(piece);
        }
        After::Close
    });
    let url = BaseUrl::parse(&server.url()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { (ours(&url, method).await, hypers(&url, method).await) })
}

const ANSWERS: [&str; 33] = [
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
    "HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: gzip, chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
    "HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n00000000000000005\r\nhello\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5 \t;x\r\nhello\r\n0;last\r\nA: b\r\nC: d\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nhello",
    "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551616\r\n\r\nhello",
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello and more than was announced",
    "HTTP/1.1 200 OK\nContent-Length: 5\n\nhello",
    "HTTP/1.1 599 Odd \t reason\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok",
    "\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
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
    for answer in ANSWERS {
        for cut in 0..answer.len() {
            let (ours, hypers) = compare(&answer.as_bytes()[..cut], &Method::GET);
            assert_eq!(ours, hypers, "{:?}", &answer[..cut]);
        }
    }
}

/// A small generator of numbers: the same ones each time.
struct XorshiftGenerator(u64);

impl XorshiftGenerator {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit.max(1) as u64).unwrap()
    }
}

#[test]
fn an_answer_in_odd_pieces_is_the_same_as_hypers() {
    let mut numbers = XorshiftGenerator(0x9e37_79b9_7f4a_7c15);
    for answer in ANSWERS {
        let bytes = answer.as_bytes();
        let each: Vec<Vec<u8>> = bytes.iter().map(|byte| vec![*byte]).collect();
        let mut ways = vec![each];
        for _ in 0..4 {
            let mut cuts: Vec<usize> = (0..3).map(|_| numbers.below(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            ways.push(cuts.windows(2).map(|pair| bytes[pair[0]..pair[1]].to_vec()).collect());
        }
        let (whole, _) = compare(bytes, &Method::GET);
        for pieces in ways {
            let shown = format!("{answer:?} in {} pieces", pieces.len());
            let (ours, hypers) = compare_in_pieces(pieces, &Method::GET);
            assert_eq!(ours, hypers, "{shown}");
            assert_eq!(ours, whole, "{shown}");
        }
    }
}

/// Answers with bytes changed, taken out and put in: whatever hyper makes of them, so do we.
#[test]
fn damaged_answers_are_the_same_as_hypers() {
    const INTERESTING: &[u8] = b"\r\n\t :;,0159aAfFxX\0\x7f\x80\xff\"+-";
    let mut numbers = XorshiftGenerator(0x2545_f491_4f6c_dd1d);
    let mut different = Vec::new();
    for _ in 0..3000 {
        let mut bytes = ANSWERS[numbers.below(ANSWERS.len())].as_bytes().to_vec();
        for _ in 0..=numbers.below(2) {
            let at = numbers.below(bytes.len());
            let byte = INTERESTING[numbers.below(INTERESTING.len())];
            match numbers.below(4) {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                2 => drop(bytes.remove(at)),
                _ => {
                    let end = (at + numbers.below(12)).min(bytes.len());
                    let again = bytes[at..end].to_vec();
                    bytes.splice(at..at, again);
                }
            }
        }
        let (ours, hypers) = compare(&bytes, &Method::GET);
        // A folded line is read as RFC 9112, section 5.2, asks; hyper refuses it.
        if ours != hypers && !(hypers.is_none() && is_folded(&bytes)) {
            different.push(format!("{}\n  ours {ours:?}\n  hyper {hypers:?}", bytes.escape_ascii()));
        }
    }
    assert!(different.is_empty(), "{} differ:\n{}", different.len(), different.join("\n"));
}
