//! How targets are reached: Unix sockets, fixed addresses, names in TLS, proxies.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::rewind;
use crate::server::{ScriptedRequest, ScriptedServer};
use crate::support::Bench;

const ONE: &str = "runner: { serial: { times: 2 } }\niteration: [ { action: a, get: /x } ]";

/// Runs a deployment with a scenario and these variables of the environment; what it said, and the results.
fn run(bench: &Bench, deployment: &str, scenario: &str, env: &[(&str, &str)]) -> (String, Value) {
    bench.write("deployment.yaml", deployment);
    bench.write("scenario.yaml", format!("title: t\ndeployment: deployment.yaml\n{scenario}"));
    let _ = std::fs::remove_dir_all(bench.path().join("runs"));
    let mut command = bench.command(&["run", "scenario.yaml"]);
    for name in ["http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"]
    {
        command.env_remove(name);
    }
    let ended = Bench::end(command.envs(env.iter().copied()));
    let said = format!("{}{}", ended.stdout, ended.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
    let results = if ended.code == Some(0) { bench.results()["workloads"][0].clone() } else { Value::Null };
    (said, results)
}

#[track_caller]
fn both_ok((said, workload): &(String, Value)) {
    assert_eq!(workload["iterations"]["ok"], 2, "{said} {}", workload["errors"]);
}

fn ok_server() -> ScriptedServer {
    ScriptedServer::start(|_, wire| wire.answer("200 OK", "text/plain", "ok"))
}

fn one(server: &ScriptedServer) -> ScriptedRequest {
    let seen = server.seen();
    assert_eq!(seen.len(), 2);
    seen[1].clone()
}

/// Passes bytes between two sockets until both end.
fn join(mut from: TcpStream, mut to: TcpStream) {
    let (mut back_from, mut back_to) = (to.try_clone().unwrap(), from.try_clone().unwrap());
    let back = std::thread::spawn(move || {
        let _ = std::io::copy(&mut back_from, &mut back_to);
        let _ = back_to.shutdown(std::net::Shutdown::Both);
    });
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(std::net::Shutdown::Both);
    back.join().unwrap();
}

/// A proxy that makes tunnels to `to`, wherever a client wants to go; it answers anything else with `refusal`. It
/// remembers the heads of the requests.
fn tunnels(to: SocketAddr, refusal: Option<&'static str>) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("http://user:Pr0xyPw77@{}", listener.local_addr().unwrap());
    let heads = rewind::state(Vec::new());
    let remembered = Arc::clone(&heads);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
                head.push(byte[0]);
            }
            remembered.lock().unwrap().push(String::from_utf8(head).unwrap());
            if let Some(refusal) = refusal {
                let _ = stream.write_all(refusal.as_bytes());
                continue;
            }
            let _ = stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n");
            let server = TcpStream::connect(to).unwrap();
            std::thread::spawn(move || join(stream, server));
        }
    });
    (url, heads)
}

#[cfg(unix)]
#[test]
fn a_unix_socket_is_a_target() {
    use std::os::unix::net::UnixListener;
    let bench = Bench::new();
    let path = bench.path().join("app.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let heads = rewind::state(Vec::new());
    let remembered = Arc::clone(&heads);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let remembered = Arc::clone(&remembered);
            std::thread::spawn(move || {
                let mut head = Vec::new();
                let mut byte = [0];
                while stream.read_exact(&mut byte).is_ok() {
                    head.push(byte[0]);
                    if head.ends_with(b"\r\n\r\n") {
                        remembered
                            .lock()
                            .unwrap()
                            .push(String::from_utf8(std::mem::take(&mut head)).unwrap());
                        stream
                            .write_all(b"HTTP/1.1 302 Found\r\nLocation: /y\r\nContent-Length: 0\r\n\r\n")
                            .unwrap();
                    }
                }
            });
        }
    });
    let scenario = "runner: { serial: { times: 2 } }\niteration: [ { action: a, get: /x, redirects: 1, expect: { status: 302 } } ]";
    for (url, prefix) in [
        (format!("unix:{}", path.display()), ""),
        (format!("unix://{}:/v1", path.display()), "/v1"),
        (format!("http+unix://{}/v1", path.display().to_string().replace('/', "%2F")), "/v1"),
    ] {
        heads.lock().unwrap().clear();
        // The second redirect is one too many: it stays on the socket.
        let (said, workload) = run(&bench, &format!("targets: {{ default: \"{url}\" }}"), scenario, &[]);
        assert_eq!(workload["errors"][0]["class"], "redirect", "{said} {}", workload["errors"]);
        let heads = heads.lock().unwrap();
        assert!(
            heads[0].starts_with(&format!("GET {prefix}/x HTTP/1.1\r\nhost: localhost\r\n")),
            "{heads:?}"
        );
        assert!(heads[1].starts_with("GET /y HTTP/1.1\r\n"), "{heads:?}");
    }
    let gone = format!("targets: {{ default: \"unix:{}.gone\" }}", path.display());
    let (said, _) = run(&bench, &gone, ONE, &[]);
    assert!(said.contains("cannot connect to unix:") && said.contains("app.sock.gone"), "{said}");
}

#[test]
fn a_deployment_gives_names_their_addresses() {
    let server = ok_server();
    let port = server.address().port();
    for hosts in ["api.example: 127.0.0.1", "API.example: [ 127.0.0.1 ]", "api.example: { env: ADDRESS }"] {
        let bench = Bench::new();
        let deployment =
            format!("targets: {{ default: \"http://api.example:{port}\" }}\ndns: {{ hosts: {{ {hosts} }} }}");
        both_ok(&run(&bench, &deployment, ONE, &[("ADDRESS", "127.0.0.1")]));
    }
    assert_eq!(server.seen()[0].headers["host"], format!("api.example:{port}"));
}

#[test]
fn a_server_is_asked_for_the_name_that_the_deployment_gives() {
    let bench = Bench::new();
    let made = rcgen::generate_simple_self_signed(vec!["inner.example".to_owned()]).unwrap();
    let certificate = bench.write("own.pem", made.cert.pem());
    let key = bench.write("own.key", made.signing_key.serialize_pem());
    let server =
        ScriptedServer::tls_with(&certificate, &key, |_, wire| wire.answer("200 OK", "text/plain", "ok"));
    let url = server.url();
    for (sni, ok) in [
        ("sni: inner.example", true),
        ("sni: { default: inner.example }", true),
        ("sni: outer.example", false),
        ("verify: true", false),
    ] {
        let deployment = format!("targets: {{ default: \"{url}\" }}\ntls: {{ ca: own.pem, {sni} }}");
        let (said, workload) = run(&bench, &deployment, ONE, &[]);
        if ok {
            both_ok(&(said, workload));
        } else {
            assert!(said.contains("not valid for"), "{sni}: {said}");
        }
    }
}

#[test]
fn requests_in_clear_are_sent_to_a_proxy_with_the_whole_url() {
    for (proxy, env, noted) in [
        ("proxy: \"http://u:Pr0xyPw77@{}\"", None, false),
        ("proxy: { http: { env: MY_PROXY } }", Some("MY_PROXY"), false),
        ("", Some("http_proxy"), true),
        ("", Some("ALL_PROXY"), true),
    ] {
        let server = ok_server();
        let address = server.address().to_string();
        let bench = Bench::new();
        let deployment =
            format!("targets: {{ default: \"http://app.example/base\" }}\n{}", proxy.replace("{}", &address));
        let value = format!("http://u:Pr0xyPw77@{address}");
        let env: Vec<(&str, &str)> = env.map(|name| (name, value.as_str())).into_iter().collect();
        let ended = run(&bench, &deployment, ONE, &env);
        both_ok(&ended);
        let seen = one(&server);
        assert_eq!(
            (seen.path.as_str(), seen.headers["host"].as_str()),
            ("http://app.example/base/x", "app.example")
        );
        assert_eq!(seen.headers["proxy-authorization"], "Basic dTpQcjB4eVB3Nzc=");
        assert_eq!(ended.0.contains(&format!("go through the proxy {address}")), noted, "{}", ended.0);
        assert!(!ended.0.contains("Pr0xyPw77") && !ended.1.to_string().contains("Pr0xyPw77"), "{}", ended.0);
    }
}

#[test]
fn a_proxy_that_wants_a_password_is_no_answer_of_the_service() {
    let proxy = ScriptedServer::start(|_, wire| {
        wire.answer("407 Proxy Authentication Required", "text/plain", "who?")
    });
    let bench = Bench::new();
    let deployment =
        format!("targets: {{ default: \"http://app.example\" }}\nproxy: \"http://{}\"", proxy.address());
    let (said, _) = run(&bench, &deployment, ONE, &[]);
    let expected =
        format!("the proxy {} answered 407: give its user and password in its URL", proxy.address());
    assert!(said.contains(&expected), "{said}");
}

#[test]
fn what_is_excepted_goes_directly() {
    let server = ok_server();
    let (port, nobody) = (server.address().port(), "http://127.0.0.1:1");
    for (host, proxy, env) in [
        // This machine is never behind a proxy of the environment.
        ("127.0.0.1", "", vec![("http_proxy", nobody)]),
        ("localhost", "", vec![("all_proxy", nobody)]),
        ("api.example", "", vec![("http_proxy", nobody), ("no_proxy", "other.example,.example")]),
        ("api.example", "", vec![("http_proxy", nobody), ("NO_PROXY", "*")]),
        ("api.example", "proxy: none", vec![("http_proxy", nobody)]),
        ("api.example", "proxy: { http: \"http://127.0.0.1:1\", except: [ api.example ] }", vec![]),
        ("api.example", "proxy: { https: \"http://127.0.0.1:1\" }", vec![("http_proxy", nobody)]),
        // A CGI server would set it from a request's header.
        ("api.example", "", vec![("HTTP_PROXY", nobody)]),
    ] {
        let bench = Bench::new();
        let deployment = format!(
            "targets: {{ default: \"http://{host}:{port}\" }}\ndns: {{ hosts: {{ api.example: 127.0.0.1 }} }}\n{proxy}"
        );
        both_ok(&run(&bench, &deployment, ONE, &env));
    }
}

#[test]
fn tls_goes_through_a_tunnel() {
    let bench = Bench::new();
    let made = rcgen::generate_simple_self_signed(vec!["app.example".to_owned()]).unwrap();
    let certificate = bench.write("own.pem", made.cert.pem());
    let key = bench.write("own.key", made.signing_key.serialize_pem());
    let server =
        ScriptedServer::tls_with(&certificate, &key, |_, wire| wire.answer("200 OK", "text/plain", "ok"));
    let deployment = |proxy: &str| {
        format!(
            "targets: {{ default: \"https://app.example/base\" }}\ntls: {{ ca: own.pem }}\nproxy: \"{proxy}\""
        )
    };
    // The probe before the load, and the load.
    let (proxy, heads) = tunnels(server.address(), None);
    both_ok(&run(&bench, &deployment(&proxy), ONE, &[]));
    assert_eq!(one(&server).path, "/base/x");
    assert!(!one(&server).headers.contains_key("proxy-authorization"));
    let expected = "CONNECT app.example:443 HTTP/1.1\r\nhost: app.example:443\r\nproxy-authorization: Basic dXNlcjpQcjB4eVB3Nzc=\r\n\r\n";
    assert!(heads.lock().unwrap().iter().all(|head| head == expected), "{heads:?}");
    for (refusal, part) in [
        ("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "answered 407: give its user and password"),
        ("HTTP/1.1 502 Bad Gateway\r\n\r\nno", "answered 502 instead of making a tunnel"),
        ("SSH-2.0-OpenSSH\r\n\r\n", "does not speak HTTP"),
        ("", "closed the connection"),
    ] {
        let (proxy, _) = tunnels(server.address(), Some(refusal));
        let (said, _) = run(&bench, &deployment(&proxy), ONE, &[]);
        assert!(said.contains("cannot connect to app.example: the proxy") && said.contains(part), "{said}");
        assert!(!said.contains("Pr0xyPw77"), "{said}");
    }
    let (said, _) = run(&bench, &deployment("http://127.0.0.1:1"), ONE, &[]);
    assert!(said.contains("cannot connect to the proxy 127.0.0.1:1"), "{said}");
}

#[test]
fn faults_of_the_network_are_reported_at_their_places() {
    let bench = Bench::new();
    for (deployment, part) in [
        ("dns: { hosts: { api.example: api2.example } }", "`api2.example` is not an IP address"),
        ("dns: { hosts: { \"http://api\": 10.0.0.1 } }", "`http://api` is not a host's name"),
        ("tls: { sni: \"a b\" }", "`a b` is not a host's name"),
        ("tls: { sni: { defualt: a.example } }", "there is no target `defualt`"),
        ("proxy: \"socks5://h:1\"", "`socks5` is not supported"),
        ("proxy: { http: \"http://h:1\", except: [ 10.0.0.0/40 ] }", "`10.0.0.0/40` is not a network"),
        ("proxy: { ftp: \"http://h:1\" }", "an unknown key in `proxy`"),
    ] {
        let deployment = format!("targets: {{ default: \"http://127.0.0.1:1\" }}\n{deployment}");
        let (said, _) = run(&bench, &deployment, ONE, &[]);
        assert!(said.contains(part), "{deployment}: {said}");
    }
    let (said, _) =
        run(&bench, "targets: { default: \"http://a.example\" }", ONE, &[("http_proxy", "socks4://h")]);
    assert!(
        said.contains("the environment variable http_proxy: a proxy with `socks4` is not supported"),
        "{said}"
    );
}
