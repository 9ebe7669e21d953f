//! Tests: curl commands and the steps that they become.

use serde_json::Value;

use super::known::Fate;
use super::*;

/// Every file but `none` is there.
fn read(path: &str) -> Result<String, ImportError> {
    match path {
        "none" => Err(ImportError::new("no such file", "check the path")),
        _ => Ok(path.to_owned()),
    }
}

/// The first step without its name and its checks, the deployment's further keys, and the notes.
fn imported(command: &str) -> (Value, Value, Vec<String>) {
    let draft = from_text(command, &read).unwrap_or_else(|error| panic!("{command}: {error}"));
    let mut step = draft.steps[0].keys.clone();
    step.retain(|key, _| key != "action" && key != "expect");
    (Value::Object(step), Value::Object(draft.deployment), draft.notes)
}

#[test]
fn paths_and_content_types_are_what_curl_sends() {
    for (command, expected) in [
        ("curl http://h/a/../b/./c", json!({ "get": "/b/c" })),
        ("curl http://h/a/..", json!({ "get": "/" })),
        ("curl 'http://h/../a/.?b=../c'", json!({ "get": "/a/?b=../c" })),
        ("curl --path-as-is http://h/a/../b", json!({ "get": "/a/../b" })),
        ("curl -g 'http://h/{a,b}'", json!({ "get": "/{a,b}" })),
        ("curl 'http://h/a#part'", json!({ "get": "/a" })),
        ("curl 'http://h/a?'", json!({ "get": "/a?" })),
        ("curl -A '' -A foo http://h/a", json!({ "get": "/a", "headers": { "User-Agent": "foo" } })),
        ("curl http:/h/a", json!({ "get": "/a" })),
        ("curl http:///h/a", json!({ "get": "/a" })),
        ("curl --proto-default https h/a", json!({ "get": "/a" })),
        ("curl 'http://h/a?&b=1'", json!({ "get": "/a?&b=1" })),
        (
            "curl http://h/a -d @- <<EOF\nb=1\n&c=2\nEOF",
            json!({ "post": "/a", "form": { "b": "1", "c": "2" } }),
        ),
        (
            "curl http://h/a --data-binary @- -H 'Content-Type: text/plain' <<< 'x y'",
            json!({ "post": "/a", "headers": { "Content-Type": "text/plain" }, "body": "x y\n" }),
        ),
        ("curl http://h/a -H 'X-Id;' -H 'X-Gone:'", json!({ "get": "/a", "headers": { "X-Id": "" } })),
        (
            "curl http://h/a -H 'Content-Type: text/xml;charset=UTF-8'",
            json!({ "get": "/a", "headers": { "Content-Type": "text/xml;charset=UTF-8" } }),
        ),
        (
            "curl -X POST http://h/a -H 'Content-Type:application/json'",
            json!({ "post": "/a", "headers": { "Content-Type": "application/json" } }),
        ),
        (
            "curl http://h/a -H 'Content-Type: application/json; charset=UTF-8' -d '{\"a\":1}'",
            json!({ "post": "/a", "headers": { "Content-Type": "application/json; charset=UTF-8" }, "json": { "a": 1 } }),
        ),
        (
            "curl http://h/a -H 'Content-Type: application/x-www-form-urlencoded; charset=UTF-8' -d a=1",
            json!({
                "post": "/a",
                "headers": { "Content-Type": "application/x-www-form-urlencoded; charset=UTF-8" },
                "form": { "a": "1" }
            }),
        ),
    ] {
        let (step, ..) = imported(command);
        assert_eq!(step, expected, "{command}");
    }
}

#[test]
fn options_become_the_keys_of_a_step() {
    for (command, expected) in [
        ("curl http://h/a", json!({ "get": "/a" })),
        ("curl 'http://h/a?b=c' --compressed -s", json!({ "get": "/a", "query": { "b": "c" } })),
        ("/usr/bin/curl h:1/a", json!({ "get": "/a" })),
        ("curl -XDELETE http://h/a", json!({ "delete": "/a" })),
        ("curl -I http://h/a", json!({ "head": "/a" })),
        ("curl --url http://h -H 'X-A: b'", json!({ "get": "/", "headers": { "X-A": "b" } })),
        ("curl http://h -d a=1 -d b=2", json!({ "post": "/", "form": { "a": "1", "b": "2" } })),
        ("curl http://h -G -d a=1 --data-urlencode 'q=x y'", json!({ "get": "/?a=1&q=x+y" })),
        (
            "curl http://h --json '{\"a\":1}'",
            json!({ "post": "/", "headers": { "Accept": "application/json" }, "json": { "a": 1 } }),
        ),
        (
            "curl http://h -H 'Content-Type: application/json' -d null",
            json!({ "post": "/", "headers": { "Content-Type": "application/json" }, "body": "null" }),
        ),
        (
            "curl http://h --json '{\"a\":1}' -d b",
            json!({ "post": "/", "headers": { "Accept": "application/json", "Content-Type": "application/json" },
                "body": "{\"a\":1}&b" }),
        ),
        (
            "curl http://h --json '{\"a\":' --json 1}",
            json!({ "post": "/", "headers": { "Accept": "application/json" }, "json": { "a": 1 } }),
        ),
        (
            "curl http://h -A one -A two -r 0-1",
            json!({ "get": "/", "headers": { "User-Agent": "two", "Range": "bytes=0-1" } }),
        ),
        (
            "curl http://h -A one -H 'User-Agent: other' -e http://a -H 'Referer:'",
            json!({ "get": "/", "headers": { "User-Agent": "other" } }),
        ),
        (
            "curl http://h -H 'Accept: */*' -H 'Accept: text/plain'",
            json!({ "get": "/", "headers": { "Accept": ["*/*", "text/plain"] } }),
        ),
        ("curl 'http://h/?a=1&' -G -d b=2", json!({ "get": "/", "query": { "a": "1", "b": "2" } })),
        ("curl 'http://h/?' -G -d b=2", json!({ "get": "/", "query": { "b": "2" } })),
        (
            "curl http://h -H 'content-type: application/json' --data-raw $'{\"a\":\"it\\'s\"}'",
            json!({ "post": "/", "json": { "a": "it's" } }),
        ),
        (
            "curl http://h --data-binary @data.txt -H 'Content-Type: text/plain'",
            json!({ "post": "/", "headers": { "Content-Type": "text/plain" }, "file": "data.txt" }),
        ),
        (
            "curl http://h -d @data.txt",
            json!({ "post": "/", "headers": { "Content-Type": "application/x-www-form-urlencoded" }, "file": "data.txt" }),
        ),
        (
            "curl http://h --json @a.json",
            json!({ "post": "/", "headers": { "Accept": "application/json", "Content-Type": "application/json" }, "file": "a.json" }),
        ),
        ("curl -T dir/a.bin http://h/up/", json!({ "put": "/up/a.bin", "file": "dir/a.bin" })),
        ("curl -T a.bin -X POST http://h/up", json!({ "post": "/up", "file": "a.bin" })),
        (
            "curl http://h -F 'f=@c.pem;type=text/plain' -F 'n=a;b' -F 'f=@\"a;b.png\";filename=x.png'",
            json!({ "post": "/", "multipart": {
                "f": [{ "file": "c.pem", "type": "text/plain" }, { "file": "a;b.png", "filename": "x.png" }],
                "n": "a" } }),
        ),
        ("curl http://h -F 'f=<c.pem'", json!({ "post": "/", "multipart": { "f": { "file": "c.pem" } } })),
        (
            "curl http://h -F 'password=s3cr3t' --form-string 'g=@x'",
            json!({ "post": "/", "multipart": { "password": "{{ password }}", "g": "@x" } }),
        ),
        (
            "curl http://h -H 'Content-Type: multipart/form-data; boundary=B' --data-raw $'--B\\r\\nContent-Disposition: form-data; \
             name=\"f\"; filename=\"a.png\"\\r\\nContent-Type: image/png\\r\\n\\r\\n\\r\\n--B--\\r\\n'",
            json!({ "post": "/", "multipart": { "f": { "file": "files/a.png", "filename": "a.png", "type": "image/png" } } }),
        ),
        ("curl http://h/x -X PURGE", json!({ "request": "PURGE /x" })),
        ("curl http://h/x?a=1 -X PROPFIND", json!({ "request": "PROPFIND /x", "query": { "a": "1" } })),
        ("curl http://h -m 2.5", json!({ "get": "/", "timeout": "2.5s" })),
        (
            "curl http://h -H 'X-Api-Key: s3cr3t'",
            json!({ "get": "/", "headers": { "X-Api-Key": "{{ x_api_key }}" } }),
        ),
        ("curl http://h -b 'sid=s3cr3t'", json!({ "get": "/", "headers": { "Cookie": "{{ cookie }}" } })),
        (
            "curl -g http://h/{{a}} -H 'Host: x' -H 'X-Empty;'",
            json!({ "get": "/{{ '{{' }}a}}", "headers": { "X-Empty": "" } }),
        ),
        ("curl ^\"http://h/a^\" ^\n  -H ^\"X-A: 1^\"", json!({ "get": "/a", "headers": { "X-A": "1" } })),
    ] {
        let (step, ..) = imported(command);
        assert_eq!(step, expected, "{command}");
    }
}

#[test]
fn credentials_and_connections_become_keys_of_the_deployment_and_are_never_written() {
    let bearer = json!({ "auth": { "bearer": { "token": { "env": "API_TOKEN" } } } });
    let basic = json!({ "auth": { "basic": { "username": "me", "password": { "env": "PASSWORD" } } } });
    for (command, expected) in [
        ("curl -u me:s3cr3t http://h", basic.clone()),
        ("curl http://me:s3cr3t@h/", basic.clone()),
        ("curl http://h -H 'Authorization: Basic bWU6czNjcjN0'", basic),
        ("curl http://h -H 'Authorization: Bearer s3cr3t'", bearer.clone()),
        ("curl http://h --oauth2-bearer s3cr3t", bearer),
        ("curl http://h -u me:s3cr3t --digest", json!({})),
        ("curl http://h --digest --user me:s3cr3t", json!({})),
        ("curl --ntlm http://me:s3cr3t@h/", json!({})),
        ("curl --anyauth -u me:s3cr3t http://h", json!({})),
        ("curl --negotiate -u me:s3cr3t http://h", json!({})),
        ("curl --aws-sigv4 aws:amz -u me:s3cr3t http://h", json!({})),
        ("curl http://h -d '{\"user\":\"u\",\"password\":\"s3cr3t\"}'", json!({})),
        (
            "curl http://h --data-binary '<l><Password>s3cr3t</Password></l>' -H 'Content-Type: text/xml'",
            json!({}),
        ),
        ("curl http://h -d 'client_assertion=s3cr3t&a=1&a=2&b=1&a=3'", json!({})),
        ("curl 'http://h/x?flag&api_key=s3cr3t'", json!({})),
        ("curl http://h -H 'X-Session: s3cr3t' -H 'Ocp-Apim-Subscription-Key: s3cr3t'", json!({})),
        ("curl http://h -H 'Referer: https://a/?token=s3cr3t'", json!({})),
        ("curl http://h -F 'settings={\"password\":\"s3cr3t\"}'", json!({})),
        ("curl http://h/services/webhook/T01/B01/s3cr3tS3CR3Ts3cr3t00", json!({})),
        ("curl http://h --json '{\"a\":[{\"name\":\"password\",\"value\":\"s3cr3t\"}]}'", json!({})),
        (
            "curl -k --cacert ca.pem --http2 http://h",
            json!({ "tls": { "verify": false, "ca": "ca.pem" }, "http": { "version": "auto" } }),
        ),
        ("curl --http2-prior-knowledge http://h", json!({ "http": { "version": "2" } })),
        ("curl -E both.pem:s3cr3t http://h", json!({ "tls": { "cert": "both.pem", "key": "both.pem" } })),
        ("curl -x p http://h", json!({ "proxy": "http://p:1080" })),
        ("curl --proxy http://p:8080/ http://h", json!({ "proxy": "http://p:8080" })),
        (
            "curl -x p:1 --noproxy a.example,10.0.0.0/8 http://h",
            json!({ "proxy": { "http": "http://p:1", "https": "http://p:1", "except": ["a.example", "10.0.0.0/8"] } }),
        ),
        ("curl -x http://me:s3cr3t@p:1 http://h", json!({ "proxy": { "env": "PROXY_URL" } })),
        ("curl -x p:1 -U me:s3cr3t http://h", json!({ "proxy": { "env": "PROXY_URL" } })),
        ("curl --noproxy '*' http://h", json!({ "proxy": "none" })),
        (
            "curl --resolve API.example:443:10.0.0.1,[::1] https://api.example/",
            json!({ "dns": { "hosts": { "api.example": ["10.0.0.1", "::1"] } } }),
        ),
    ] {
        assert_eq!(imported(command).1, expected, "{command}");
        let written = from_text(command, &read).unwrap().write("d.yaml").unwrap();
        let all = format!("{written:?}");
        assert!(!all.contains("s3cr3t") && !all.contains("czNjcjN0"), "{all}");
    }
}

/// Every option, on a command in which it matters.
#[test]
fn each_option_is_carried_named_or_without_effect() {
    for known in known::all() {
        let value = match known.name {
            "max-time" | "max-redirs" => " 7",
            "resolve" => " h:80:10.0.0.1",
            "request" => " PURGE",
            "url" => " http://g/",
            "unix-socket" => " /run/app.sock",
            "user" | "header" | "proxy-user" => " user:word",
            "http2" => "",
            _ if known.takes_value => " a=b",
            _ => "",
        };
        // What an option needs before it matters.
        let rest = match known.name {
            "basic" => "--digest -u user:word",
            "digest" | "anyauth" | "ntlm" | "ntlm-wb" | "negotiate" | "aws-sigv4" => "-u user:word",
            "get" => "-d a=b",
            "key" => "--cert c",
            "noproxy" | "proxy-user" => "-x http://p:1",
            "next" => "http://g/",
            "location-trusted" => "-u user:word",
            _ => "",
        };
        let plain = imported(&format!("curl 'http://h/a/../{{b,c}}' {rest}"));
        let whole = if known.name == "next" { String::new() } else { rest.to_owned() };
        let command = format!("curl 'http://h/a/../{{b,c}}' {whole} --{}{value} ", known.name);
        let command = if known.name == "next" { command + rest } else { command };
        let draft = from_text(&command, &read).unwrap_or_else(|error| panic!("{command}: {}", error.what));
        let with = imported(&command);
        let steps = match known.name {
            "url" | "next" => 3,
            "globoff" => 1,
            _ => 2,
        };
        assert_eq!(draft.steps.len(), steps, "{command}: a value is no URL");
        let is_named = with.2.iter().any(|note| note.contains(&format!("--{}", known.name)));
        match known.fate {
            Fate::Named => assert!(is_named, "{command}: {:?}", with.2),
            Fate::WithoutEffect => assert_eq!((&with, draft.http.is_empty()), (&plain, true), "{command}"),
            Fate::Carried => {
                // That of a URL without a scheme has a test of its own.
                let adds_steps = matches!(known.name, "url" | "next" | "proto-default");
                assert!(
                    adds_steps || with != plain || !draft.http.is_empty() || is_named,
                    "{command}: {with:?}"
                );
            }
        }
    }
}

#[test]
fn the_options_of_the_curl_that_is_installed_are_known() {
    let Ok(help) = std::process::Command::new("curl").args(["--help", "all"]).output() else {
        println!("skipped: curl is not installed");
        return;
    };
    let help = String::from_utf8(help.stdout).unwrap();
    let mut seen = 0;
    for line in help.lines().filter(|line| line.trim_start().starts_with('-')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let letter = words[0].strip_suffix(',').and_then(|word| word.chars().nth(1));
        let at = usize::from(letter.is_some());
        let name = words[at].trim_start_matches("--");
        let takes_value = words.get(at + 1).is_some_and(|word| word.starts_with(['<', '[']));
        let base = name.strip_prefix("no-").filter(|base| known::named(base).is_some()).unwrap_or(name);
        let known = known::named(base).unwrap_or_else(|| panic!("--{name} is new"));
        let expected = (base, letter.or(known.letter), takes_value);
        assert_eq!((known.name, known.letter, known.takes_value), expected, "{line}");
        seen += 1;
    }
    assert!(seen > 200, "{seen} options:\n{help}");
}

#[test]
fn options_may_be_cut_and_turned_off() {
    for (command, expected) in [
        ("curl http://h --insec", json!({ "tls": { "verify": false } })),
        ("curl http://h -k --no-insecure", json!({})),
        ("curl http://h --no-keepalive --no-buffer", json!({})),
        ("curl http://h -4 --no-ipv4", json!({})),
    ] {
        let (_, deployment, notes) = imported(command);
        assert_eq!((deployment, notes), (expected, Vec::new()), "{command}");
    }
    for (command, note) in [
        ("curl http://h --no-sessionid", "these options were ignored: --no-sessionid"),
        ("curl http://h --expand-data '{{x}}'", "these options were ignored: --expand-data"),
        ("curl http://h --no-such", "these options were ignored: --no-such"),
        ("curl http://h -m abc", "--max-time abc was ignored"),
        ("curl http://h --max-redirs -1", "--max-redirs -1 was ignored"),
    ] {
        let (.., notes) = imported(command);
        assert_eq!(notes, [note], "{command}");
    }
    for (command, expected) in [
        ("curl http://h -r 0-9", json!({ "get": "/", "headers": { "Range": "bytes=0-9" } })),
        ("curl http://h -A ''", json!({ "get": "/" })),
        ("curl http://h -e 'http://g/;auto'", json!({ "get": "/", "headers": { "Referer": "http://g/" } })),
        ("curl http://h/a --url-query 'q=x y' --url-query +r=1", json!({ "get": "/a?q=x+y&r=1" })),
        ("curl http://h/a --url-query q=1 -G -d r=2", json!({ "get": "/a", "query": { "r": "2" } })),
    ] {
        let (step, ..) = imported(command);
        assert_eq!(step, expected, "{command}");
    }
}

#[expect(clippy::too_many_lines, reason = "a table")]
#[test]
fn what_cannot_be_imported_is_said() {
    let (_, _, notes) = imported("curl http://h --tr-encoding -Z -sS -o x --socks5 p:1");
    assert_eq!(notes, ["these options were ignored: --tr-encoding, --parallel, --socks5"]);
    for (command, part) in [
        ("curl http://h -b jar.txt", "the cookies in the file jar.txt are not sent"),
        ("curl http://h -H @headers.txt", "the headers in the file headers.txt are not sent"),
        ("curl http://h -T a.bin", "a.bin is sent with the content type of its name; curl sends none"),
        ("curl http://h -d 'a=\"b\"'", "the form is encoded differently (first at `\"`) than curl sends it"),
        ("curl http://h -d a=x+y", "first at `+`"),
        ("curl http://h -d 'a=1&&b=2'", "first at `&`"),
        ("curl -A '' http://h", "curl leaves out the header user-agent"),
        ("curl -H User-Agent: http://h", "curl leaves out the header user-agent"),
        ("curl -x p:70000 http://h", "--proxy was ignored: p:70000 is no host with a port"),
        ("curl -x 'http://[::1' http://h", "--proxy was ignored"),
        ("curl http://h || curl http://g", "`a || b` runs b only if a failed"),
        (
            "curl -g 'http://h/{a}'",
            "`{` in a path or a query is sent percent-encoded; curl sends it as it is",
        ),
        ("curl 'http://h/a?b=c|d'", "`|` in a path or a query"),
        ("curl http://h --json '{\"a\": 1}'", "a JSON body is sent without the blanks"),
        (
            "curl http://h -H 'Content-Type: application/json' -d '{\"a\": 1}'",
            "a JSON body is sent without the blanks",
        ),
        ("curl http://h -H 'Host: foo.example'", "the header Host is not sent as given: name that host"),
        ("curl http://h -H 'Accept-Encoding: identity'", "the header Accept-Encoding is not sent as given"),
        (
            "curl http://h -H 'Transfer-Encoding: chunked' -d a",
            "the header Transfer-Encoding is not sent as given",
        ),
        ("curl http://h -H 'Accept:'", "curl leaves out the header accept"),
        ("curl http://h -d a=1 -H 'Content-Type:'", "curl leaves out the header content-type"),
        ("curl http://h -F a=1 -H 'Content-Type: multipart/mixed'", "a form with --form has its own"),
        (
            "curl http://h -H 'Content-Type: a/b' -H 'Content-Type: c/d' -d 1",
            "the command has several headers content-type",
        ),
        ("curl -u a:b http://h --next -u a:c http://h", "the commands differ in `auth`"),
        (
            "curl http://h -H 'Authorization: Bearer t1' --next -H 'Authorization: Bearer t2' http://h",
            "differ in `auth`",
        ),
        ("curl -X post http://h", "the method `post` is sent in capitals"),
        (
            "curl --http2 h/a",
            "curl offers a server without TLS to change to HTTP/2 (`Upgrade: h2c`), and bench does not",
        ),
        ("curl http://h -d @data.txt", "curl removes the line breaks of data.txt"),
        ("curl http://h -x socks5://p:1", "no proxies with socks5"),
        ("curl http://h -x 'p q'", "--proxy was ignored"),
        ("curl http://h --resolve '*:80:10.0.0.1'", "--resolve *:80:10.0.0.1 was ignored"),
        ("curl http://h --resolve h:80:nonsense", "was ignored"),
        ("curl http://h --cacert none", "`tls` names a file that is not there yet: no such file"),
        ("curl http://h -F 'f=x;type=a/b'", "the field `f` is sent as text, without a content type"),
        ("curl http://h -F 'f=@x;encoder=base64'", "`;encoder` of the field `f` was ignored"),
        ("curl http://h --connect-to a:1:b:2", "instead of --connect-to"),
        ("curl http://h -x http://p:1 --noproxy 'h,a=b'", "--noproxy: a=b is no host"),
        ("curl http://h -E c.pem:word", "the password of --cert is left out"),
    ] {
        let (.., notes) = imported(command);
        assert!(notes.iter().any(|note| note.contains(part)), "{command}: {notes:?}");
    }
    for (command, part) in [
        ("wget http://h", "not a curl command"),
        ("curl", "has no URL"),
        ("curl -H", "--header lacks its value"),
        ("curl ftp://h/", "not a URL of http"),
        ("curl http://h:4x/", "not a URL of http"),
        ("curl http://h:99999/", "not a URL of http"),
        ("curl http://h%zz/", "not a URL of http"),
        ("curl ftp.example.com", "not a URL of http or https, but of ftp"),
        ("curl http://h imap.example.com", "but of imap"),
        ("curl ftp:/example.com", "but of ftp"),
        ("curl --url @file", "reads its URLs from a file"),
        ("curl --variable a=b --expand-url 'http://h/{{a}}'", "--expand-url"),
        ("curl -F 'a=@b.gif,c.gif' http://h", "the field `a` has several files"),
        ("curl -F 'a=@b.gif;type=image/gif,c.txt' http://h", "the field `a` has several files"),
        ("curl -T '{a,b}' http://h", "the pattern {a,b} of --upload-file"),
        ("curl 'http://h/{<n>a,b}'", "a pattern in the URL has a name"),
        ("curl 'http://h/a b'", "a URL has a blank, which curl refuses"),
        ("curl http://h -d @none", "no such file"),
        ("curl http://h -X CONNECT", "cannot send the method `CONNECT`"),
        ("curl http://h -X 'A B'", "cannot send the method"),
        ("curl http://h -F f=@none", "no such file"),
        ("curl http://h -T none", "no such file"),
        ("curl http://h -d a=1 -d @f", "joins the content of a file"),
        ("curl http://h -G -d @f", "joins the content of a file"),
        ("curl http://h --data-urlencode q@f", "--data-urlencode encodes the file f"),
        ("curl http://h -T f -d a", "both --upload-file and --data"),
        ("curl http://h -F '<<=a'", "called `<<`"),
        ("curl http://h --unix-socket app.sock", "must be absolute"),
        ("curl http://h -d a -F b=c", "both --data and --form"),
    ] {
        let error = from_text(command, &read).err().map(|error| error.what).unwrap_or_default();
        assert!(error.contains(part), "{command}: {error}");
    }
}

#[test]
fn several_urls_become_several_steps_with_targets() {
    let draft = from_text("curl http://a/x http://b:1/x http://a/x", &read).unwrap();
    let names: Vec<_> = draft.steps.iter().map(|step| step.keys["action"].as_str().unwrap()).collect();
    assert_eq!(names, ["GET /x", "GET /x (2)", "GET /x (3)"]);
    let targets: Vec<_> =
        draft.steps.iter().map(|step| step.keys.get("target").and_then(Value::as_str)).collect();
    assert_eq!(targets, [None, Some("b-1"), None]);
    assert_eq!(
        draft.targets,
        [("default".into(), "http://a".into()), ("b-1".into(), "http://b:1".to_owned())]
    );
}

#[test]
fn a_unix_socket_is_the_target_of_all_requests() {
    let draft = from_text("curl --unix-socket /run/app.sock http://h/a http://g/b", &read).unwrap();
    assert_eq!(draft.targets, [("default".into(), "unix:/run/app.sock".to_owned())]);
    assert!(draft.steps.iter().all(|step| !step.keys.contains_key("target")));
}

#[test]
fn each_command_is_a_step() {
    for (text, expected) in [
        (
            "curl http://h/1\n\n# a comment\ncurl http://h/2\ncurl -X DELETE http://h/3\n",
            &["GET /1", "GET /2", "DELETE /3"][..],
        ),
        ("curl http://h/1 && curl -d a=1 http://h/2 >out 2>&1", &["GET /1", "POST /2"]),
        // Each has options of its own.
        ("curl -d a=1 http://h/1 --next http://h/2", &["POST /1", "GET /2"]),
        (
            "curl http://h/1 -: -I http://h/2 -: -T a -H 'Content-Type: a/b' http://h/",
            &["GET /1", "HEAD /2", "PUT /a"],
        ),
        ("curl http://h/1 http://h/1; curl http://h/1", &["GET /1", "GET /1 (2)", "GET /1 (3)"]),
    ] {
        let draft = from_text(text, &read).unwrap_or_else(|error| panic!("{text}: {error}"));
        let names: Vec<_> = draft.steps.iter().map(|step| step.keys["action"].as_str().unwrap()).collect();
        assert_eq!((names.as_slice(), draft.notes.len()), (expected, 0), "{text}: {:?}", draft.notes);
    }
    for (text, part) in [
        ("curl http://h/1 | jq .a", "only curl commands are imported: `jq` left out"),
        ("cd x; curl http://h/1", "`cd` left out"),
        ("curl -k https://h/1\ncurl https://h/2", "the commands differ in `tls`"),
        ("curl https://h/1\ncurl -u me:x https://h/2", "the commands differ in `auth`"),
        ("curl -u me:x https://h/1\ncurl -u you:x https://h/2", "the commands differ in `auth`"),
    ] {
        let draft = from_text(text, &read).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert!(draft.notes.iter().any(|note| note.contains(part)), "{text}: {:?}", draft.notes);
    }
    let error = from_text("wget http://h", &read).err().map(|error| error.what);
    assert_eq!(error.as_deref(), Some("this is not a curl command"));
}

#[test]
fn a_header_that_is_given_twice_is_sent_twice() {
    let draft = from_text("curl http://h/ -H 'X-A: 1' -H 'x-a: 2' -H 'X-A: 3' -H 'X-B: 4'", &read).unwrap();
    assert_eq!(draft.steps[0].keys["headers"], json!({ "X-A": ["1", "2", "3"], "X-B": "4" }));
}

#[test]
fn commands_behind_words_of_a_shell_are_imported() {
    for command in [
        "time curl http://h/a",
        "sudo -u me /usr/bin/curl http://h/a",
        "X=1 Y='a b' curl http://h/a",
        "env X=1 curl http://h/a",
        "if curl -sf http://h/a; then exit 1; fi",
        "for n in 1 2; do curl http://h/a; done",
        "while ! curl http://h/a; do sleep 1; done",
        "(curl http://h/a)",
        "timeout 5 curl http://h/a",
    ] {
        let draft = from_text(command, &read).unwrap_or_else(|error| panic!("{command}: {error}"));
        assert_eq!(draft.steps.len(), 1, "{command}");
        assert_eq!(draft.steps[0].keys["get"], "/a", "{command}");
    }
    for (command, is_said) in [
        ("if curl http://h/a; then curl http://h/b; else curl http://h/c; fi", true),
        ("time curl http://h/a", false),
    ] {
        let (.., notes) = imported(command);
        assert_eq!(
            notes.iter().any(|note| note.contains("always sent and once")),
            is_said,
            "{command}: {notes:?}"
        );
    }
    // Its arguments are not in the text.
    assert!(from_text("echo http://h/a | xargs curl", &read).is_err());
    let (.., notes) = imported("https_proxy=http://p:1 curl http://h/a");
    assert!(notes.iter().any(|note| note.contains("the variable https_proxy before curl")), "{notes:?}");
    let error = from_text("echo curl http://h/a", &read).unwrap_err();
    assert!(error.what.contains("not a curl command"), "{error}");
}

#[test]
fn each_upload_belongs_to_the_url_of_its_place() {
    let steps = |command: &str| -> Vec<Value> {
        from_text(command, &read).unwrap().steps.into_iter().map(|step| Value::Object(step.keys)).collect()
    };
    let found = steps("curl -T one -T two http://h/a 'http://h/{b,c}' http://h/d");
    let keys = |step: &Value| {
        let method = ["put", "get"].into_iter().find(|key| step.get(*key).is_some()).unwrap();
        (method, step[method].clone(), step["file"].clone())
    };
    assert_eq!(
        found.iter().map(keys).collect::<Vec<_>>(),
        [
            ("put", "/a".into(), "one".into()),
            ("put", "/b".into(), "two".into()),
            ("put", "/c".into(), "two".into()),
            ("get", "/d".into(), Value::Null),
        ]
    );
    let (step, _, notes) = imported("curl -T one -T two http://h/a");
    assert_eq!(step["file"], "one");
    assert!(notes.iter().any(|note| note.contains("without a URL of its own")), "{notes:?}");
}

#[test]
fn an_empty_password_is_sent_as_a_header() {
    let (step, deployment, notes) = imported("curl -u user: http://h/a");
    assert_eq!((step["get"].as_str(), deployment.get("auth")), (Some("/a"), None));
    assert!(step["headers"]["Authorization"].is_string(), "{step}");
    assert!(notes.iter().any(|note| note.contains("API_TOKEN must hold the Base64")), "{notes:?}");
    // A password may end with a colon.
    let (_, deployment, _) = imported("curl -u user:a: http://h/a");
    assert_eq!(deployment["auth"]["basic"]["username"], "user");
    let (.., notes) = imported("curl http://h/a -F =x");
    assert!(notes.iter().any(|note| note.contains("a field without a name")), "{notes:?}");
}
