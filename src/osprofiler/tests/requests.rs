//! Requests of a reqwest client as points, to a real server on this machine.

use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::{MemoryNotifier, outline, stop_info, trace};
use crate::profiler::{self, TraceExtension as _};
use crate::reqwest::traced;
use crate::signing::Signer;
use crate::verifying::ServerKeys;
use base::secret::Secret;

/// A server that answers 404 to everything; gives its URL and the requests it got.
async fn server() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::<Mutex<Vec<String>>>::default();
    let seen = Arc::clone(&requests);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.windows(4).any(|end| end == b"\r\n\r\n") {
                let mut bytes = [0; 4096];
                let count = stream.read(&mut bytes).await.unwrap();
                assert!(count > 0);
                head.extend_from_slice(&bytes[..count]);
            }
            seen.lock().unwrap().push(String::from_utf8(head).unwrap());
            let answer = "HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno";
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    (url, requests)
}

fn header<'a>(request: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = request.lines().filter_map(|line| line.split_once(": "));
    lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

#[tokio::test]
async fn every_request_is_a_point_and_carries_the_trace() {
    let (url, requests) = server().await;
    let client = traced(reqwest::Client::builder().no_proxy().build().unwrap());
    let notifier = Arc::new(MemoryNotifier::default());
    let signer = Signer::new(&Secret::new("KEY"));
    let work = profiler::trace("outer", (), async {
        let answer = client.get(format!("{url}/a?b=c")).header("x-own", "1").send().await.unwrap();
        assert_eq!((answer.status().as_u16(), answer.text().await.unwrap()), (404, "no".to_owned()));
        let request = client.post(format!("{url}/d")).body("x").build().unwrap();
        client.execute(request).await.unwrap();
    });
    work.in_trace(trace(&notifier, signer)).await;
    client.put(format!("{url}/untraced")).send().await.unwrap();

    let records = notifier.records();
    assert_eq!(outline(&records), ["outer", "  http", "  http"]);
    let starts: Vec<_> = records.iter().filter(|record| record.name == "http-start").collect();
    let port: u16 = url.rsplit(':').next().unwrap().parse().unwrap();
    assert_eq!(
        starts[0].info["requests"],
        json!({"method": "GET", "query": "b=c", "path": "/a", "hostname": "127.0.0.1", "port": port, "scheme": "http"})
    );
    let stops: Vec<_> = records.iter().filter(|record| record.name == "http-stop").collect();
    assert!(stops.iter().all(|stop| stop.info["requests"]["status_code"] == 404), "{stops:?}");
    let requests = requests.lock().unwrap();
    for (request, start) in requests.iter().zip(&starts) {
        let value = |name| header(request, name).unwrap().as_bytes();
        let context = ServerKeys::parse("KEY").verify(value("x-trace-info"), value("x-trace-hmac")).unwrap();
        assert_eq!(
            (context.base_id.as_str(), context.parent_id.as_str()),
            (&*start.base_id, &*start.trace_id)
        );
    }
    assert_eq!(header(&requests[0], "x-own"), Some("1"));
    assert_eq!((requests.len(), header(&requests[2], "x-trace-info")), (3, None));
}

#[tokio::test]
async fn a_request_that_fails_says_so_without_its_url() {
    let client = traced(reqwest::Client::builder().no_proxy().build().unwrap());
    let notifier = Arc::new(MemoryNotifier::default());
    let work = async {
        client.get("http://user:hunter2@127.0.0.1:1/x?token=hunter2").send().await.unwrap_err();
    };
    work.in_trace(trace(&notifier, None)).await;
    let stop = stop_info(&notifier.records(), "http");
    assert_eq!(stop["etype"], "reqwest::error::Error");
    assert!(stop["message"].as_str().unwrap().starts_with("no connection: "), "{stop}");
    assert!(!stop.to_string().contains("hunter2"), "{stop}");
}
