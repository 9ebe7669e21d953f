//! The cases of Autobahn's test suite for WebSocket clients, by kosoku (`tests/real/websocket.sh`,
//! `tests/websocket/cases.py`): a client that sends back what it gets, over the WebSocket of `bench`.
//!
//! The 216 cases of compression have a thousand messages each, 22 GB in all. Here, each has `MESSAGES` of them;
//! `BENCH_SLOW_TESTS=1` sends them all, which takes long.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use http::header::SEC_WEBSOCKET_EXTENSIONS;

use bench::client::body::BodyContent;
use bench::client::guard::Guard;
use bench::client::headers::HeaderBlock;
use bench::client::options::{BODY_BYTES_MAX, HttpOptions, Settings, Version};
use bench::client::pool::Pool;
use bench::client::url::BaseUrl;
use bench::client::websocket::{SocketMessage, WebSocket, WireMessage};
use bench::client::{Request, tls};
use bench::measure::phases::Phases;

use crate::started::StartedService;
use crate::support::service;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/websocket/cases.py");
/// All cases of the suite.
const CASES: usize = 517;
/// The last of them, 12.* and 13.*, are about compression.
const COMPRESSION_CASES: usize = 216;
/// How many messages a case of compression has here, instead of a thousand.
const MESSAGES: &str = "6";
/// Cases that no client can fail: a message behind the end, and codes beyond 4999.
const INFORMATIONAL: [&str; 3] = ["7.1.6", "7.13.1", "7.13.2"];
/// The longest that a case may take.
const LIMIT: Duration = Duration::from_secs(60);
/// All that a server may ask of us.
const OFFER: &str = "permessage-deflate; client_no_context_takeover; client_max_window_bits";

/// How each case went, how it ended, and why.
type Results = BTreeMap<String, (String, String, String)>;

/// The suite's server, as far as a client speaks to it.
struct Suite {
    url: BaseUrl,
    pool: Pool,
    /// Changes what is sent back.
    reply: fn(SocketMessage) -> Option<WireMessage>,
}

impl Suite {
    async fn open(&mut self, path: &str, offer: Option<&str>) -> Option<WebSocket> {
        let mut own = HeaderBlock::default();
        if let Some(offer) = offer {
            own.push(&SEC_WEBSOCKET_EXTENSIONS, offer.as_bytes()).unwrap();
        }
        let request = Request {
            method: &http::Method::GET,
            origin: &self.url.origin,
            path,
            fixed: &HeaderBlock::default(),
            own: &own,
            body: &BodyContent::EMPTY,
            started: Instant::now(),
            redirects_max: 0,
            body_bytes_max: BODY_BYTES_MAX,
            cookies: None,
            keep_headers: true,
            keep_body: true,
            keep_trailers: false,
            reader: None,
            version: Version::Upgrade,
            is_refused: &|_| false,
        };
        self.pool.send(&request, &mut Phases::default()).await.unwrap();
        WebSocket::take(&mut self.pool, BODY_BYTES_MAX)
    }

    /// The text that comes from here.
    async fn ask(&mut self, path: &str) -> String {
        let mut socket = self.open(path, None).await.unwrap();
        let mut said = String::new();
        while let Ok((_, SocketMessage::Text(text))) = socket.next().await {
            said = String::from_utf8(text.to_vec()).unwrap();
        }
        said
    }

    /// Sends back what comes, until the end.
    async fn run(&mut self, number: usize) {
        let offer = (number > CASES - COMPRESSION_CASES).then_some(OFFER);
        let mut socket = self.open(&format!("/runCase?case={number}&agent=bench"), offer).await.unwrap();
        loop {
            match socket.next().await {
                Ok((_, SocketMessage::Close(..))) | Err(_) => return,
                Ok((_, message)) => {
                    if let Some(reply) = (self.reply)(message)
                        && socket.send(reply).await.is_err()
                    {
                        return;
                    }
                }
            }
        }
    }
}

fn same(message: SocketMessage) -> Option<WireMessage> {
    match message {
        SocketMessage::Text(text) => Some(WireMessage::Text(String::from_utf8(text.to_vec()).unwrap())),
        SocketMessage::Binary(bytes) => Some(WireMessage::Binary(bytes.to_vec())),
        _ => None,
    }
}

/// The results of these cases; `None` if the suite is not there.
fn results(cases: &[usize], reply: fn(SocketMessage) -> Option<WireMessage>) -> Option<Results> {
    let python = service("BENCH_TEST_WEBSOCKET_PYTHON", "what tests/real/websocket.sh printed")?;
    let mut command = Command::new(python);
    command.arg(SCRIPT);
    if std::env::var_os("BENCH_SLOW_TESTS").is_none_or(|value| value.is_empty()) {
        command.args(["--messages", MESSAGES]);
    }
    let server = StartedService::start(&mut command);
    let tls = tls::config(&tls::TlsOptions { verify: false, ca: None, identity: None }, false).unwrap();
    let options = HttpOptions { guard: Guard::unrestricted(), ..HttpOptions::default() };
    let settings = Settings::new(&tls, options);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let url = BaseUrl::parse(&server.url()).map_err(|_| "a URL").unwrap();
        let mut suite = Suite { url, pool: Pool::new(&settings), reply };
        assert_eq!(suite.ask("/getCaseCount").await, CASES.to_string());
        for number in cases {
            let ended = tokio::time::timeout(LIMIT, suite.run(*number)).await;
            assert!(ended.is_ok(), "case {number} does not end");
        }
        suite.ask("/updateReports?agent=bench").await;
    });
    Some(serde_json::from_str(&server.finish()).unwrap())
}

#[test]
fn real_cases_of_autobahn_end_as_the_standard_says() {
    let Some(results) = results(&(1..=CASES).collect::<Vec<_>>(), same) else { return };
    let wrong: Vec<_> = results
        .iter()
        .filter(|(case, (went, ended, _))| {
            let expected = if INFORMATIONAL.contains(&case.as_str()) { "INFORMATIONAL" } else { "OK" };
            went != expected || !["OK", "INFORMATIONAL"].contains(&ended.as_str())
        })
        .collect();
    assert!(wrong.is_empty(), "{} of {}: {wrong:#?}", wrong.len(), results.len());
    assert_eq!(results.len(), CASES);
}

/// The suite notices a client that sends something else back.
#[test]
fn real_cases_of_autobahn_notice_a_wrong_answer() {
    let longer = |message| match same(message) {
        Some(WireMessage::Text(text)) => Some(WireMessage::Text(text + "!")),
        other => other,
    };
    // A text of 125 bytes, and of none.
    let Some(results) = results(&[1, 2], longer) else { return };
    let went: Vec<&str> = results.values().map(|(went, ..)| went.as_str()).collect();
    assert_eq!(went, ["FAILED", "FAILED"], "{results:#?}");
}
