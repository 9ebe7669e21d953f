//! Tests: archives and the steps that they become.

use super::*;

fn entry(method: &str, url: &str, status: u16, answer: &str) -> Value {
    json!({
        "startedDateTime": "2026-01-01T00:00:00.000Z", "time": 5,
        "request": { "method": method, "url": url, "headers": [] },
        "response": { "status": status, "headers": [], "content": { "mimeType": "application/json", "text": answer } }
    })
}

fn imported(entries: &[Value], all: bool) -> Draft {
    let text = json!({ "log": { "entries": entries } }).to_string();
    from_reader(text.as_bytes(), Options { all, think: true }).unwrap()
}

#[test]
fn values_of_responses_that_come_back_are_extracted() {
    let id = "7f3a9c21-0001";
    let mut login = entry(
        "POST",
        "http://h/login",
        200,
        &json!({ "access": { "token": "T0k3n-abcdef" }, "kind": "customer" }).to_string(),
    );
    login["response"]["headers"] = json!([{ "name": "ETag", "value": "\"v-123456\"" }]);
    let created =
        entry("POST", "http://h/orders", 201, &json!({ "id": 17, "order": id, "n": 1234567 }).to_string());
    let mut read = entry("GET", &format!("http://h/orders/{id}?ref={id}&kind=customer"), 200, "{}");
    read["request"]["headers"] = json!([
        { "name": "Authorization", "value": "Bearer T0k3n-abcdef" }, { "name": "If-Match", "value": "\"v-123456\"" }]);
    let mut put = entry("PUT", "http://h/orders/17", 200, "{}");
    put["request"]["postData"] = json!({ "mimeType": "application/json", "text": json!({ "n": 1234567, "m": "1234567", "c": "customer" }).to_string() });
    let draft = imported(&[login, created, read, put], false);
    let steps: Vec<Value> = draft.steps.iter().map(|step| Value::Object(step.keys.clone())).collect();
    assert_eq!(
        steps[0]["extract"],
        json!({ "token": { "json": "$.access.token" }, "etag": { "header": "ETag" } })
    );
    assert_eq!(
        steps[1]["extract"],
        json!({ "order": { "json": "$.order" }, "order_id": { "json": "$.id" }, "n": { "json": "$.n" } })
    );
    assert_eq!(steps[2]["get"], "/orders/{{ order }}");
    assert_eq!(steps[2]["query"], json!({ "ref": "{{ order }}", "kind": "customer" }));
    assert_eq!(
        steps[2]["headers"],
        json!({ "Authorization": "Bearer {{ token }}", "If-Match": "{{ etag }}" })
    );
    assert_eq!(steps[3]["put"], "/orders/{{ order_id }}");
    assert_eq!(steps[3]["json"], json!({ "n": "{{ n }}", "m": "{{ n | string }}", "c": "customer" }));
}

#[test]
fn headers_are_sent_as_recorded_or_named() {
    let mut one = entry("POST", "http://h/a", 200, "{}");
    one["request"]["headers"] = json!([
        { "name": "Host", "value": "other.example" }, { "name": "TE", "value": "trailers" },
        { "name": "Accept", "value": "text/html,application/xml;q=0.9" },
        { "name": "Content-Type", "value": "text/plain; charset=iso-8859-1" }]);
    one["request"]["postData"] = json!({ "mimeType": "text/plain", "text": "x" });
    let draft = imported(&[one], true);
    let sent = &draft.steps[0].keys["headers"];
    assert_eq!(sent["Accept"], "text/html,application/xml;q=0.9");
    assert_eq!(sent["Content-Type"], "text/plain; charset=iso-8859-1");
    let notes = draft.notes.join("\n");
    assert!(notes.contains("not sent: host, te;"), "{notes}");
    let mut own = entry("GET", "http://h/a", 200, "{}");
    own["request"]["headers"] =
        json!([{ "name": "Host", "value": "h" }, { "name": "Accept", "value": "*/*" }]);
    assert!(!imported(&[own], true).notes.join("\n").contains("not sent:"));
}

#[test]
fn what_the_client_sent_first_is_not_extracted() {
    let mut first = entry("POST", "http://h/a", 200, r#"{"echo":"client-id-1234"}"#);
    first["request"]["postData"] =
        json!({ "mimeType": "application/json", "text": r#"{"id":"client-id-1234"}"# });
    let draft = imported(&[first, entry("GET", "http://h/b/client-id-1234", 200, "")], false);
    assert!(draft.steps.iter().all(|step| !step.keys.contains_key("extract")));
    assert_eq!(draft.steps[1].keys["get"], "/b/client-id-1234");
}

#[test]
fn a_page_gives_its_hidden_fields_and_a_redirect_its_location() {
    let mut page =
        entry("GET", "http://h/form", 200, r#"<form><input type="hidden" name="csrf" value="abc123def456">"#);
    page["response"]["content"]["mimeType"] = "text/html".into();
    let mut post = entry("POST", "http://h/form", 302, "");
    post["request"]["postData"] = json!({ "mimeType": "application/x-www-form-urlencoded", "text": "csrf=abc123def456&password=hunter2" });
    post["response"]["headers"] = json!([{ "name": "Location", "value": "/orders/991?x=1" }]);
    let draft = imported(&[page, post, entry("GET", "http://h/orders/991?x=1", 200, "")], false);
    let steps: Vec<Value> = draft.steps.iter().map(|step| Value::Object(step.keys.clone())).collect();
    let pattern = steps[0]["extract"]["csrf"]["regex"].as_str().unwrap();
    let found = regex::Regex::new(pattern).unwrap();
    assert_eq!(&found.captures(r#"<input type="hidden" name="csrf" value="other">"#).unwrap()[1], "other");
    assert_eq!(steps[1]["form"], json!({ "csrf": "{{ csrf }}", "password": "{{ password }}" }));
    assert_eq!((&steps[1]["expect"]["status"], &steps[2]["get"]), (&json!(302), &json!("{{ location }}")));
    let written = draft.write("d.yaml").unwrap();
    assert_eq!(written.environment, ["PASSWORD"]);
    assert!(!format!("{written:?}").contains("hunter2"));
}

#[test]
fn files_of_pages_and_what_is_no_request_are_left_out_and_counted() {
    let mut image = entry("GET", "http://h/a", 200, "");
    image["_resourceType"] = "image".into();
    let mut preflight = entry("OPTIONS", "http://h/a", 204, "");
    preflight["request"]["headers"] = json!([{ "name": "Access-Control-Request-Method", "value": "POST" }]);
    let mut cut = entry("GET", "http://h/b", 200, "");
    cut["response"]["status"] = json!(0);
    let entries = [
        entry("GET", "http://h/", 304, ""),
        image,
        entry("GET", "http://h/x.css?v=1", 200, ""),
        preflight,
        cut,
        entry("GET", "data:image/png;base64,AA", 200, ""),
        entry("PURGE", "http://h/", 200, ""),
        entry("CONNECT", "http://h/", 200, ""),
        entry("GET", "http://other/", 200, ""),
    ];
    let draft = imported(&entries, false);
    assert_eq!(draft.steps.len(), 3);
    assert_eq!(draft.steps[0].keys["expect"], json!({ "status": "2xx" }));
    assert_eq!(draft.steps[1].keys["request"], "PURGE /");
    assert_eq!(draft.steps[2].keys["target"], "other");
    let notes = draft.notes.join("\n");
    for part in [
        "6 requests were left out",
        "2 static files",
        "1 CORS preflights",
        "1 without a response",
        "http://other",
    ] {
        assert!(notes.contains(part), "{part}: {notes}");
    }
    assert_eq!(imported(&entries, true).steps.len(), 5);
}

#[test]
fn pauses_are_kept_within_bounds_and_entries_are_sorted() {
    let at = |second: &str, path: &str| {
        let mut entry = entry("GET", &format!("http://h{path}"), 200, "");
        entry["startedDateTime"] = format!("2026-01-01T00:{second}Z").into();
        entry
    };
    let draft = imported(&[at("01:40.000", "/c"), at("00:00.000", "/a"), at("00:00.350", "/b")], false);
    let steps: Vec<String> = draft
        .steps
        .iter()
        .map(|step| {
            step.keys.get("think").or_else(|| step.keys.get("get")).unwrap().as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(steps, ["/a", "300ms", "/b", "10s", "/c"]);
    assert!(draft.notes.iter().any(|note| note.contains("shortened to 10 s: 1")), "{:?}", draft.notes);
}

#[test]
fn hostile_archives_are_refused_or_bounded() {
    let options = Options { all: false, think: true };
    for (text, part) in [
        (String::new(), "EOF"),
        ("[1]".to_owned(), "a map with `log`"),
        ("PK\u{3}\u{4} and so on".to_owned(), "a ZIP archive"),
        ("{}".to_owned(), "no `log` with `entries`"),
        (r#"{"log":{"entries":{}}}"#.to_owned(), "a list"),
        (r#"{"log":{"entries":[{}]}}"#.to_owned(), "missing field"),
        (r#"{"log":{"entries":[{"request":5,"response":{}}]}}"#.to_owned(), "invalid type"),
        (format!(r#"{{"x":{}"#, "[".repeat(100_000)), "EOF while parsing a list"),
        (
            format!(r#"{{"log":{{"entries":[{{"request":{}"#, "{\"a\":".repeat(100_000)),
            "EOF while parsing a value",
        ),
    ] {
        let error = from_reader(text.as_bytes(), options).err().map(|error| error.what).unwrap_or_default();
        assert!(error.contains(part), "{part}: {error}");
    }
    // Many entries, a large body, a deep body, and a body of many values.
    let mut entries: Vec<Value> =
        (0..2000).map(|n| entry("GET", &format!("http://h/{n}"), 200, "{}")).collect();
    entries[0] = entry("GET", "http://h/large", 200, &"x".repeat(3 << 20));
    entries[1] = entry("GET", "http://h/deep", 200, &"[".repeat(100_000));
    entries[2] =
        entry("GET", "http://h/many", 200, &json!(vec![json!({ "id": "abcdef-1" }); 50_000]).to_string());
    let draft = imported(&entries, false);
    assert_eq!(draft.steps.len(), STEPS_MAX);
    let notes = draft.notes.join("\n");
    assert!(
        notes.contains("1500 after the first 500 requests") && notes.contains("such values: 1"),
        "{notes}"
    );
}

#[test]
fn forms_with_files_name_stand_ins_and_never_have_their_contents() {
    let mut with_fields = entry("POST", "http://h/a", 200, "");
    with_fields["request"]["postData"] = json!({ "mimeType": "multipart/form-data", "params": [
        { "name": "t", "value": "x" },
        { "name": "f", "value": "PRIVATE", "fileName": "../c.pem", "contentType": "text/plain" }] });
    let mut with_text = entry("POST", "http://h/b", 200, "");
    with_text["request"]["postData"] = json!({ "mimeType": "multipart/form-data; boundary=B", "text":
        "--B\r\nContent-Disposition: form-data; name=\"f\"; filename=\"c.pem\"\r\n\r\nPRIVATE\r\n--B--\r\n" });
    let mut with_many = entry("POST", "http://h/c", 200, "");
    with_many["request"]["postData"] = json!({ "mimeType": "multipart/form-data", "params": vec![json!({ "name": "n", "value": "v" }); 101] });
    let draft = imported(&[with_fields, with_text, with_many], false);
    assert_eq!(draft.steps.len(), 2);
    assert_eq!(
        draft.steps[0].keys["multipart"],
        json!({ "t": "x", "f": { "file": "files/c.pem", "filename": "../c.pem", "type": "text/plain" } })
    );
    assert_eq!(
        draft.steps[1].keys["multipart"],
        json!({ "f": { "file": "files/c.pem", "filename": "c.pem" } })
    );
    let written = draft.write("d.yaml").unwrap();
    assert_eq!(written.stand_ins, ["files/c.pem"]);
    assert!(!format!("{written:?}").contains("PRIVATE"));
    assert!(draft.notes.iter().any(|note| note.contains("1 with more than 100 fields")), "{:?}", draft.notes);
}

#[test]
fn actions_are_named_without_ids() {
    let created = entry("POST", "http://h/jobs", 201, r#"{"id":17}"#);
    let paths = [
        "/jobs/17",
        "/jobs/18?x=1",
        "/v3/users/7f3a9c21-0001-4aaa-8bbb-123456789abc",
        "/v2/a.css.html",
        "/deadbeef",
        "/deadbee7",
        "/users/user-7",
    ];
    let reads = paths.iter().map(|path| entry("GET", &format!("http://h{path}"), 200, "{}"));
    let entries: Vec<Value> = std::iter::once(created).chain(reads).collect();
    let draft = imported(&entries, false);
    let names: Vec<_> = draft.steps.iter().map(|step| step.keys["action"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "POST /jobs",
            "GET /jobs/{id}",
            "GET /jobs/{id} (2)",
            "GET /v3/users/{id}",
            "GET /v2/a.css.html",
            "GET /deadbeef",
            "GET /{id}",
            "GET /users/user-7",
        ]
    );
}

#[test]
fn a_header_that_was_sent_twice_is_sent_twice() {
    let mut read = entry("GET", "http://h/a", 200, "{}");
    read["request"]["headers"] = json!([{ "name": "X-A", "value": "1" }, { "name": "x-a", "value": "2" }]);
    let draft = imported(&[read], false);
    assert_eq!(draft.steps[0].keys["headers"], json!({ "X-A": ["1", "2"] }));
}

/// What becomes of a field.
enum Fate {
    /// The scenario or the deployment differs.
    Carried,
    /// A note has these words.
    Named(&'static str),
    /// It says nothing about the request.
    WithoutEffect,
}

/// Every field of HAR 1.2 that is about requests, and every field of answers that a scenario uses.
#[test]
fn each_field_is_carried_named_or_without_effect() {
    use Fate::{Carried, Named, WithoutEffect};
    let mut first = entry("POST", "http://h/a?q=1", 200, r#"{"token":"T0k3n-abcdef"}"#);
    first["request"]["headers"] = json!([{ "name": "X-One", "value": "1" }]);
    first["request"]["postData"] = json!({ "mimeType": "text/plain", "text": "abc" });
    let mut second = entry("GET", "http://h/b", 200, "");
    second["startedDateTime"] = json!("2026-01-01T00:00:00.200Z");
    second["request"]["headers"] = json!([{ "name": "X-Token", "value": "T0k3n-abcdef" }]);
    let plain = json!({ "log": { "version": "1.2", "creator": { "name": "c" }, "pages": [{ "id": "p" }],
        "entries": [first, second] } });
    let (log, entry, request) = ("/log", "/log/entries/0", "/log/entries/0/request");
    let (data, response, content) =
        ("/log/entries/0/request/postData", "/log/entries/0/response", "/log/entries/0/response/content");
    let header = |name: &str, value: &str| json!([{ "name": "X-One", "value": "1" }, { "name": name, "value": value }]);
    for (place, field, value, fate) in [
        (log, "version", json!("1.1"), WithoutEffect),
        (log, "creator", json!({ "name": "other" }), Carried),
        (log, "browser", json!({ "name": "b" }), WithoutEffect),
        (log, "pages", json!([{ "id": "p", "title": "A page" }]), Carried),
        (log, "comment", json!("c"), WithoutEffect),
        (entry, "pageref", json!("p"), WithoutEffect),
        (entry, "startedDateTime", json!("2026-01-01T00:00:00.190Z"), Carried),
        (entry, "time", json!(150), Carried),
        (entry, "cache", json!({}), WithoutEffect),
        (entry, "timings", json!({ "wait": 1 }), WithoutEffect),
        (entry, "serverIPAddress", json!("127.0.0.1"), WithoutEffect),
        (entry, "connection", json!("4711"), WithoutEffect),
        (entry, "comment", json!("c"), WithoutEffect),
        (entry, "_resourceType", json!("image"), Named("1 request was left out: 1 static files")),
        (request, "method", json!("PUT"), Carried),
        (request, "method", json!("CONNECT"), Named("with methods that bench cannot send")),
        (request, "url", json!("http://g/a?q=1"), Carried),
        (request, "url", json!("ws://h/a"), Named("not HTTP")),
        (request, "httpVersion", json!("HTTP/2"), WithoutEffect),
        (request, "cookies", json!([{ "name": "c", "value": "1" }]), WithoutEffect),
        (request, "headers", header("X-Two", "2"), Carried),
        (request, "headers", header("Cookie", "c=1"), Named("that are not sent: cookie; virtual users")),
        (request, "headers", header("Accept-Language", "de"), Named("that are not sent: accept-language;")),
        (request, "headers", header("User-Agent", "b"), Named("that are not sent: user-agent;")),
        (request, "headers", header("X-Odd\n", "1"), Named("that are not sent: x-odd")),
        // The URL has it.
        (request, "queryString", json!([{ "name": "q", "value": "1" }]), WithoutEffect),
        (request, "postData", json!({ "mimeType": "", "text": "other" }), Carried),
        (request, "headersSize", json!(100), WithoutEffect),
        (request, "bodySize", json!(3), WithoutEffect),
        (data, "mimeType", json!("text/html"), Carried),
        (data, "text", json!("other"), Carried),
        (data, "params", json!([{ "name": "a", "value": "1" }]), WithoutEffect),
        (data, "encoding", json!("base64"), Named("with a body that is not text")),
        (data, "comment", json!("c"), WithoutEffect),
        (response, "status", json!(201), Carried),
        (response, "status", json!(0), Named("without a response")),
        (response, "headers", json!([{ "name": "Location", "value": "/b" }]), WithoutEffect),
        (response, "redirectURL", json!("/b"), WithoutEffect),
        (content, "text", json!("{}"), Carried),
        (content, "mimeType", json!("text/html"), WithoutEffect),
        (content, "encoding", json!("base64"), Carried),
    ] {
        let mut changed = plain.clone();
        changed.pointer_mut(place).unwrap()[field] = value.clone();
        let [with, without] = [&changed, &plain].map(|archive| {
            let options = Options { all: false, think: true };
            let draft = from_reader(archive.to_string().as_bytes(), options).unwrap();
            let written = draft.write("d.yaml").map(|written| (written.scenario, written.deployment));
            (written.ok(), draft.notes.join("\n"))
        });
        match fate {
            Carried => assert_ne!(with.0, without.0, "{place} {field} {value}"),
            Named(words) => assert!(with.1.contains(words), "{place} {field} {value}: {}", with.1),
            WithoutEffect => assert_eq!(with, without, "{place} {field} {value}"),
        }
    }
}

#[test]
fn bodies_that_were_not_recorded_are_told() {
    for (size, length, data, expected) in [
        (json!(12), json!([]), Value::Null, true),
        (
            json!(-1),
            json!([{ "name": "Content-Length", "value": "12" }]),
            json!({ "mimeType": "text/plain" }),
            true,
        ),
        (json!(12), json!([]), json!({ "mimeType": "text/plain", "text": "abc" }), false),
        (json!(0), json!([{ "name": "content-length", "value": "0" }]), Value::Null, false),
        (json!(-1), json!([]), Value::Null, false),
    ] {
        let mut one = entry("POST", "http://h/a", 200, "");
        one["request"]["bodySize"] = size.clone();
        one["request"]["headers"] = length;
        one["request"]["postData"] = data;
        let notes = imported(&[one], false).notes.join("\n");
        assert_eq!(
            notes.contains("1 request was recorded without its body: the step sends none"),
            expected,
            "{size}: {notes}"
        );
    }
}

/// mitmproxy writes a sign for each byte where it does not know the charset.
#[test]
fn bodies_that_were_recorded_byte_by_byte_are_read_back() {
    for (text, size, expected) in [
        ("caf\u{c3}\u{a9}", 5, Some("caf\u{e9}")),
        // The same signs as a text, and of a length that is not known.
        ("caf\u{c3}\u{a9}", 7, Some("caf\u{c3}\u{a9}")),
        ("caf\u{c3}\u{a9}", -1, Some("caf\u{c3}\u{a9}")),
        ("abc", 3, Some("abc")),
        ("caf\u{20ac}", 6, Some("caf\u{20ac}")),
        ("\u{0}\u{ff}\u{80}", 3, None),
    ] {
        let mut one = entry("POST", "http://h/a", 200, "{}");
        one["request"]["bodySize"] = json!(size);
        one["request"]["headers"] = json!([{ "name": "Proxy-Connection", "value": "keep-alive" }]);
        one["request"]["postData"] = json!({ "mimeType": "text/plain", "text": text });
        let other = entry("GET", "http://h/b", 200, "{}");
        let draft = imported(&[one, other], false);
        let first = &draft.steps[0].keys;
        let body = first.get("body").and_then(Value::as_str);
        assert_eq!(body, expected, "{text:?} of {size}: {first:?}");
        let is_named = draft.notes.iter().any(|note| note.contains("with a body that is not text"));
        assert_eq!(is_named, expected.is_none(), "{text:?} of {size}: {:?}", draft.notes);
        assert!(
            !first.contains_key("headers") || first["headers"].get("Proxy-Connection").is_none(),
            "{first:?}"
        );
    }
}

#[test]
fn what_a_recording_cut_off_or_a_step_cannot_have_is_named() {
    let notes = |change: &dyn Fn(&mut Value)| {
        let mut one = entry("POST", "http://h/a", 200, "{}");
        change(&mut one["request"]);
        imported(&[one], false).notes.join("; ")
    };
    for (note, request) in [
        ("the log-in in a URL is left out", json!({ "url": "http://user:word@h/a" })),
        (
            "only the beginning of a body",
            json!({ "headers": [{ "name": "Content-Length", "value": "50" }],
                    "postData": { "mimeType": "text/plain", "text": "short" } }),
        ),
        (
            "bodies are in files beside the recording",
            json!({ "bodySize": 12, "postData": { "mimeType": "image/png", "text": "", "_file": "a.bin" } }),
        ),
        (
            "the content types of fields without a file",
            json!({ "postData": { "mimeType": "multipart/form-data; boundary=x", "params":
                    [{ "name": "a", "value": "{}", "contentType": "application/json" }] } }),
        ),
    ] {
        let change = |old: &mut Value| {
            request.as_object().unwrap().iter().for_each(|(key, value)| old[key] = value.clone());
        };
        assert!(notes(&change).contains(note), "{note}: {}", notes(&change));
        assert!(!notes(&|_| {}).contains(note), "{note}");
    }
    let skipped = imported(&[entry("GET", "http://h/a.png", 200, "")], false);
    let error = skipped.write("d.yaml").err().unwrap();
    assert!(error.what.contains("1 request was left out: 1 static files"), "{error}");
}
