//! Tests of the demo through its HTTP interface and its collector.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use uuid::Uuid;

use super::{Demo, Options, Summary, thread_name};
use osprofiler::driver::Collector;
use osprofiler::record::TraceRecord;
use osprofiler::report::{Point, TraceTree};
use osprofiler::signing::Signer;

/// A kept-alive connection.
struct DemoClient(BufReader<TcpStream>);

struct DemoReply {
    status: u16,
    headers: HashMap<String, String>,
    body: String,
}

impl DemoClient {
    fn new(demo: &Demo) -> Self {
        let stream = TcpStream::connect(demo.url().strip_prefix("http://").unwrap()).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self(BufReader::new(stream))
    }

    fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> DemoReply {
        let mut request =
            format!("{method} {path} HTTP/1.1\r\nHost: demo\r\nContent-Length: {}\r\n", body.len());
        for (name, value) in headers {
            request.extend([*name, ": ", *value, "\r\n"]);
        }
        request += "\r\n";
        request += body;
        self.0.get_mut().write_all(request.as_bytes()).unwrap();
        let status_line = self.line();
        let status = status_line.split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = HashMap::new();
        loop {
            let line = self.line();
            let Some((name, value)) = line.split_once(": ") else { break };
            headers.insert(name.to_lowercase(), value.to_owned());
        }
        let mut body = vec![0; headers["content-length"].parse().unwrap()];
        self.0.read_exact(&mut body).unwrap();
        DemoReply { status, headers, body: String::from_utf8(body).unwrap() }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn log_in(&mut self, trace: &[(&str, &str)]) -> String {
        let answer = self.send("POST", "/v3/auth/tokens", trace, &credentials("user-1", "demo"));
        assert_eq!(answer.status, 201, "{}", answer.body);
        answer.headers["x-subject-token"].clone()
    }
}

fn credentials(name: &str, password: &str) -> String {
    let user = json!({ "name": name, "domain": { "name": "Default" }, "password": password });
    let identity = json!({ "methods": ["password"], "password": { "user": user } });
    json!({ "auth": { "identity": identity } }).to_string()
}

fn start(options: Options) -> (Demo, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    (Demo::start(options, &folder.path().join("new")).unwrap(), folder)
}

fn quick() -> Options {
    Options { slow_query: Duration::from_millis(5), ..Options::default() }
}

fn signed(demo: &Demo, base_id: &str) -> (String, String) {
    Signer::new(demo.hmac_key()).unwrap().sign_text(base_id, base_id)
}

fn records(demo: &Demo, base_id: &str) -> Vec<TraceRecord> {
    demo.flush().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let collector = Collector::connect(&demo.connection_string()).await.unwrap();
        collector.records(base_id).await.unwrap()
    })
}

/// Each point on a line, indented, with the first words of its detail.
fn shape(tree: &TraceTree) -> Vec<String> {
    let line = |point: &Point| {
        let detail = point.detail();
        let words: Vec<&str> = detail.split(' ').collect();
        let detail = match words.iter().position(|word| *word == "FROM") {
            Some(from) => format!("{} {}", words[0], words[from + 1]),
            None => words[..words.len().min(2)].join(" "),
        };
        format!("{}{} {detail}", "  ".repeat(point.depth), point.name)
    };
    tree.points.iter().map(line).collect()
}

fn traced(demo: &Demo, method: &str, path: &str, token: Option<&str>, body: &str) -> (DemoReply, TraceTree) {
    let base_id = Uuid::new_v4().to_string();
    let (info, hmac) = signed(demo, &base_id);
    let mut headers = vec![("X-Trace-Info", info.as_str()), ("X-Trace-HMAC", hmac.as_str())];
    headers.extend(token.map(|token| ("X-Auth-Token", token)));
    let answer = DemoClient::new(demo).send(method, path, &headers, body);
    let tree = TraceTree::build(&records(demo, &base_id));
    assert!(tree.points.iter().all(|point| point.duration_us.is_some() && point.error.is_none()));
    (answer, tree)
}

fn overlap(one: &Point, other: &Point) -> bool {
    let end = |point: &Point| point.start_us + point.duration_us.unwrap();
    one.parent == other.parent && one.start_us < end(other) && other.start_us < end(one)
}

#[test]
fn a_look_up_is_traced_with_its_nesting_and_its_concurrent_halves() {
    let (demo, _folder) =
        start(Options { slow_share: 1.0, slow_query: Duration::from_millis(30), ..Options::default() });
    let token = DemoClient::new(&demo).log_in(&[]);
    let (answer, tree) = traced(&demo, "GET", "/v3/users/user-7", Some(&token), "");
    assert_eq!(answer.status, 200);
    let user: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(user["user"]["name"], "user-7");
    assert_eq!(
        shape(&tree),
        [
            "wsgi GET /v3/users/user-7",
            "  rpc validate_token",
            "    db SELECT revocation_event",
            "  db SELECT user",
            "  rpc get_roles",
            "    db SELECT assignment",
            "    db SELECT role",
            "  rpc get_groups",
            "    db SELECT user_group_membership",
        ]
    );
    let points = &tree.points;
    assert!(overlap(&points[4], &points[7]) && !overlap(&points[3], &points[4]));
    assert_eq!((&points[4].info["cache"], &points[5].info["cache"]), (&json!("miss"), &json!("miss")));
    assert_eq!(points[3].info["db"]["params"], json!(["user-7"]));
    assert!(points[5].duration_us.unwrap() >= 30_000);
    assert_eq!(
        (points[0].project.as_deref(), points[0].service.as_deref()),
        (Some("demo"), Some("identity"))
    );
}

#[test]
fn logins_and_lists_are_traced() {
    let (demo, _folder) = start(Options { slow_share: 0.0, ..quick() });
    let (answer, tree) = traced(&demo, "POST", "/v3/auth/tokens", None, &credentials("admin", "demo"));
    assert_eq!(answer.status, 201);
    let body: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(body["token"]["user"]["id"], "admin");
    let time = |key: &str| body["token"][key].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    assert_eq!(time("expires_at").as_second() - time("issued_at").as_second(), 3_600);
    assert_eq!(
        shape(&tree),
        [
            "wsgi POST /v3/auth/tokens",
            "  db SELECT local_user",
            "  rpc verify_password",
            "    db SELECT password",
            "  rpc get_groups",
            "    db SELECT user_group_membership",
            "  rpc issue_token",
            "    db UPDATE user",
        ]
    );
    assert!(overlap(&tree.points[2], &tree.points[4]));
    let token = &answer.headers["x-subject-token"];
    let (answer, tree) = traced(&demo, "GET", "/v3/users", Some(token), "");
    let body: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(body["users"].as_array().unwrap().len(), 51);
    assert_eq!(tree.points.len(), 5);
    assert!(overlap(&tree.points[3], &tree.points[4]));
    let (_, tree) = traced(&demo, "GET", "/v3/users/user-1", Some(token), "");
    let roles = tree.points.iter().find(|point| point.detail() == "get_roles").unwrap();
    assert_eq!(roles.info["cache"], "hit");
    let (answer, tree) = traced(&demo, "GET", "/", None, "");
    assert_eq!((answer.status, shape(&tree)), (200, vec!["wsgi GET /".to_owned()]));
}

#[test]
fn a_bad_signature_changes_nothing_but_the_count() {
    let (demo, _folder) = start(quick());
    let mut client = DemoClient::new(&demo);
    let token = client.log_in(&[]);
    let base_id = Uuid::new_v4().to_string();
    let (info, _) = signed(&demo, &base_id);
    let hmac = "0".repeat(40);
    let token = ("X-Auth-Token", token.as_str());
    let plain = client.send("GET", "/v3/users", &[token], "");
    let headers = [token, ("X-Trace-Info", info.as_str()), ("X-Trace-HMAC", hmac.as_str())];
    let rejected = client.send("GET", "/v3/users", &headers, "");
    assert_eq!((plain.status, &plain.body), (rejected.status, &rejected.body));
    let names = |answer: &DemoReply| {
        let mut names: Vec<String> = answer.headers.keys().cloned().collect();
        names.sort();
        names
    };
    assert_eq!(names(&plain), names(&rejected));
    assert!(records(&demo, &base_id).is_empty());
    let expected = Summary { requests: 3, rejected_signatures: 1, ..Summary::default() };
    assert_eq!(demo.stop(), expected);
}

#[test]
fn wrong_requests_are_refused() {
    let (demo, _folder) = start(quick());
    let mut client = DemoClient::new(&demo);
    let token = client.log_in(&[]);
    let token = ("X-Auth-Token", token.as_str());
    let forged = ("X-Auth-Token", "admin.9999999999.00");
    let tokens = "/v3/auth/tokens";
    for (method, path, headers, body, status) in [
        ("POST", tokens, vec![], credentials("user-1", "wrong"), 401),
        ("POST", tokens, vec![], credentials("user-51", "demo"), 401),
        ("POST", tokens, vec![], "{\"auth\":".to_owned(), 400),
        ("POST", tokens, vec![], "{}".to_owned(), 400),
        ("POST", tokens, vec![], "[".repeat(10_000), 400),
        ("GET", tokens, vec![], String::new(), 405),
        ("GET", "/v3/users", vec![], String::new(), 401),
        ("GET", "/v3/users/user-1", vec![forged], String::new(), 401),
        ("GET", "/v3/users/user-51", vec![token], String::new(), 404),
        ("GET", "/v3/users/user-1/", vec![token], String::new(), 404),
        ("GET", "/v2.0", vec![token], String::new(), 404),
        ("DELETE", "/v3/users/user-1", vec![token], String::new(), 405),
        ("GET", "/v3/users/user-50", vec![token], String::new(), 200),
    ] {
        let answer = client.send(method, path, &headers, &body);
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.body);
        let json: Value = serde_json::from_str(&answer.body).unwrap();
        assert!(status == 200 || json["error"]["code"] == status, "{json}");
    }
    // The server may close this connection, because it has not read the whole body.
    let body = "x".repeat(super::service::BODY_LEN_MAX + 1);
    assert_eq!(DemoClient::new(&demo).send("POST", tokens, &[], &body).status, 413);
}

/// Also prints the demo's speed, which depends on the machine and is not checked.
#[test]
fn a_thousand_look_ups_have_exactly_the_stated_share_of_slow_ones_and_lose_no_record() {
    const CLIENTS: usize = 25;
    let (demo, _folder) = start(quick());
    let token = DemoClient::new(&demo).log_in(&[]);
    let base_ids: Vec<String> = (0..CLIENTS).map(|_| Uuid::new_v4().to_string()).collect();
    let began = Instant::now();
    std::thread::scope(|scope| {
        for base_id in &base_ids {
            let (demo, token) = (&demo, &token);
            scope.spawn(move || {
                let mut client = DemoClient::new(demo);
                let (info, hmac) = signed(demo, base_id);
                let headers =
                    [("X-Trace-Info", &*info), ("X-Trace-HMAC", &*hmac), ("X-Auth-Token", &**token)];
                for number in 0..1_000 / CLIENTS {
                    let path = format!("/v3/users/user-{}", number % 50 + 1);
                    assert_eq!(client.send("GET", &path, &headers, "").status, 200);
                }
            });
        }
    });
    let elapsed = began.elapsed();
    demo.flush().unwrap();
    println!("1000 traced look-ups by {CLIENTS} clients: {:.0}/s", 1_000.0 / elapsed.as_secs_f64());
    println!("stored {:?} after the last answer", began.elapsed().saturating_sub(elapsed));
    let stored: Vec<TraceRecord> = base_ids.iter().flat_map(|base_id| records(&demo, base_id)).collect();
    let of = |cache: &str| {
        let is = |record: &&TraceRecord| {
            record.name == "rpc-start" && record.info.get("cache") == Some(&json!(cache))
        };
        stored.iter().filter(is).count()
    };
    assert_eq!((of("miss"), of("hit")), (20, 980));
    // Eight points for each look-up, and the slow query.
    assert_eq!(stored.len(), 2 * (8 * 1_000 + 20));
    let summary = demo.stop();
    let expected = Summary { requests: 1_001, traced: 1_000, records_written: 16_040, ..Summary::default() };
    assert_eq!(summary, expected);
}

#[test]
fn stopping_closes_idle_and_unfinished_connections_and_leaves_nothing_behind() {
    let (demo, folder) = start(quick());
    let mut idle = DemoClient::new(&demo);
    idle.log_in(&[]);
    let mut unfinished = DemoClient::new(&demo);
    unfinished
        .0
        .get_mut()
        .write_all(b"POST /v3/auth/tokens HTTP/1.1\r\nHost: d\r\nContent-Length: 9\r\n\r\n{")
        .unwrap();
    let address = demo.url().strip_prefix("http://").unwrap().to_owned();
    let name = thread_name(address.rsplit(':').next().unwrap().parse().unwrap());
    assert!(cfg!(not(target_os = "linux")) || thread_names().contains(&name));
    let began = Instant::now();
    demo.stop();
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    // The system lists a thread for a moment after it was joined.
    let gone = Instant::now() + Duration::from_secs(60);
    while thread_names().contains(&name) {
        assert!(Instant::now() < gone, "{:?}", thread_names());
        std::thread::sleep(Duration::from_millis(5));
    }
    // The server of another test may have been given the port meanwhile.
    while TcpStream::connect(&address).is_ok() {
        assert!(Instant::now() < gone, "something listens at {address}");
        std::thread::sleep(Duration::from_millis(5));
    }
    for client in [&mut idle, &mut unfinished] {
        let mut rest = Vec::new();
        assert!(client.0.read_to_end(&mut rest).is_err() || rest.is_empty());
    }
    // SQLite's own threads close the file a moment later.
    let deadline = Instant::now() + Duration::from_secs(5);
    while open_files().iter().any(|file| file.starts_with(&*folder.path().to_string_lossy())) {
        assert!(Instant::now() < deadline, "{:?}", open_files());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(target_os = "linux")]
fn thread_names() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.map(|name| name.trim().to_owned()).collect()
}

#[cfg(target_os = "linux")]
fn open_files() -> Vec<String> {
    let files = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let links = files.filter_map(|file| std::fs::read_link(file.path()).ok());
    links.map(|link| link.to_string_lossy().into_owned()).collect()
}

#[cfg(not(target_os = "linux"))]
fn thread_names() -> Vec<String> {
    Vec::new()
}

#[cfg(not(target_os = "linux"))]
fn open_files() -> Vec<String> {
    Vec::new()
}

#[test]
fn two_demos_share_no_port_no_key_and_no_token() {
    let ((one, _one), (other, _other)) = (start(quick()), start(quick()));
    assert!(one.url() != other.url() && one.hmac_key() != other.hmac_key());
    let token = DemoClient::new(&one).log_in(&[]);
    let answer = DemoClient::new(&other).send("GET", "/v3/users", &[("X-Auth-Token", &token)], "");
    assert_eq!(answer.status, 401);
    let shown = format!("{one:?} {}", one.describe().join("\n"));
    assert!(shown.contains(one.url()) && shown.contains("simulated") && shown.contains("2 %"), "{shown}");
    assert!(!shown.contains(one.hmac_key().expose()));
}

#[test]
fn an_unusable_folder_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = Demo::start(quick(), &file).unwrap_err();
    assert!(error.to_string().contains("name a folder"), "{error}");
    std::fs::create_dir(folder.path().join(super::COLLECTOR_FILE)).unwrap();
    let error = Demo::start(quick(), folder.path()).unwrap_err();
    assert!(error.to_string().contains("open the demo's collector"), "{error}");
}
