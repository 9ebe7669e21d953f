//! What collections become.

use super::*;

fn draft(collection: &Value) -> Draft {
    from_reader(collection.to_string().as_bytes()).unwrap()
}

fn steps(collection: &Value) -> Vec<Value> {
    draft(collection).steps.into_iter().map(|step| Value::Object(step.keys)).collect()
}

fn item(request: Value) -> Value {
    json!({ "info": { "name": "Shop" }, "item": [{ "name": "a", "request": request }],
            "variable": [{ "key": "baseUrl", "value": "https://shop.example/v1" }, { "key": "who", "value": "ada" }] })
}

#[test]
fn requests_become_steps() {
    for (request, expected) in [
        (json!("{{baseUrl}}/orders"), json!({ "get": "/v1/orders" })),
        (
            json!({ "method": "GET", "url": { "raw": "{{baseUrl}}/users/:id?x=1&y=2#top", "path": ["users", ":id"],
                    "query": [{ "key": "x", "value": "{{who}}" }, { "key": "y", "value": "2", "disabled": true }],
                    "variable": [{ "key": "id", "value": "u 7" }] } }),
            json!({ "get": "/v1/users/{{ id | urlencode }}", "query": { "x": "{{ who }}" } }),
        ),
        (
            json!({ "method": "POST", "url": { "host": ["api", "example"], "port": "81", "path": ["a", "b"] },
                    "header": [{ "key": "Content-Type", "value": "application/json" }, { "key": "X", "value": "1" }, { "key": "X", "value": "2" }],
                    "body": { "mode": "raw", "raw": "{\"n\": 15, \"who\": \"{{who}}\", \"t\": \"{% x %}\"}" } }),
            json!({ "post": "/a/b", "headers": { "X": ["1", "2"] },
                    "json": { "n": 15, "who": "{{ who }}", "t": "{{ '{%' }} x %}" } }),
        ),
        (
            json!({ "method": "POST", "url": "{{baseUrl}}/n", "body": { "mode": "raw", "raw": "{\"n\": {{who}}}", "options": { "raw": { "language": "json" } } } }),
            json!({ "post": "/v1/n", "headers": { "Content-Type": "application/json" }, "body": "{\"n\": {{ who }}}" }),
        ),
        (
            json!({ "method": "PURGE", "url": "{{baseUrl}}/n", "body": { "mode": "urlencoded", "urlencoded": [{ "key": "a", "value": "{{$guid}}" }] } }),
            json!({ "request": "PURGE /v1/n", "form": { "a": "{{ uuid() }}" } }),
        ),
        (
            json!({ "method": "POST", "url": "{{baseUrl}}/n", "body": { "mode": "formdata", "formdata": [
                    { "key": "t", "value": "x", "type": "text" }, { "key": "f", "type": "file", "src": "/home/ada/a b.png" }] } }),
            json!({ "post": "/v1/n", "multipart": { "t": "x", "f": { "file": "files/a-b.png", "filename": "a b.png" } } }),
        ),
        (
            json!({ "method": "POST", "url": "{{baseUrl}}/graphql", "body": { "mode": "graphql", "graphql": { "query": "{ a(id: \"{{who}}\") }", "variables": "{\"n\": 1}" } } }),
            json!({ "post": "/v1/graphql", "json": { "query": "{ a(id: \"{{ who }}\") }", "variables": { "n": 1 } } }),
        ),
        (
            json!({ "url": "{{baseUrl}}/n", "auth": { "type": "apikey", "apikey": [{ "key": "key", "value": "k" }, { "key": "value", "value": "{{who}}" }, { "key": "in", "value": "query" }] } }),
            json!({ "get": "/v1/n", "query": { "k": "{{ who }}" } }),
        ),
        (
            json!({ "url": "{{baseUrl}}/n", "auth": { "type": "basic", "basic": [{ "key": "username", "value": "ada" }, { "key": "password", "value": "hunter2" }] } }),
            json!({ "get": "/v1/n", "headers": { "Authorization": "Basic {{ (username ~ ':' ~ password) | base64encode }}" } }),
        ),
    ] {
        let mut found = steps(&item(request.clone())).remove(0);
        found.as_object_mut().unwrap().remove("action");
        assert_eq!(found, expected, "{request}");
    }
}

/// Folders give their names and their authorization; a test keeps a token that later requests send.
#[test]
fn folders_and_tests() {
    let collection = json!({ "info": { "name": "Shop" }, "auth": { "type": "bearer", "bearer": [{ "key": "token", "value": "{{token}}" }] },
        "item": [
            { "name": "Users", "auth": { "type": "noauth" }, "item": [
                { "name": "log in", "request": { "method": "POST", "url": "https://a.example/login" }, "event": [{ "listen": "test", "script": { "exec": [
                    "pm.response.to.have.status(201);", "var body = pm.response.json();", "pm.environment.set('token', body.data.token);"] } }] },
                { "name": "log in", "request": "https://a.example/again" }] },
            { "name": "read", "request": "https://b.example/x", "event": [{ "listen": "prerequest", "script": { "exec": ["console.log(1)"] } }] },
            { "name": "odd", "request": { "method": "A B", "url": "https://a.example/" } }] });
    let found = steps(&collection);
    let names: Vec<&str> = found.iter().map(|step| step["action"].as_str().unwrap()).collect();
    assert_eq!(names, ["Users / log in", "Users / log in (2)", "read"]);
    assert_eq!(found[0]["extract"], json!({ "token": { "json": "$.data.token" } }));
    assert_eq!((&found[0]["expect"], found[0].get("headers")), (&json!({ "status": 201 }), None));
    assert_eq!(found[2]["headers"], json!({ "Authorization": "Bearer {{ token }}" }));
    assert_eq!(found[2]["target"], "b.example");
    let notes = draft(&collection).notes.join("; ");
    for part in ["1 scripts before requests", "1 requests with methods that bench cannot send"] {
        assert!(notes.contains(part), "{notes}");
    }
}

#[test]
fn secrets_are_never_written_and_what_is_missing_is_named() {
    let collection = json!({ "info": { "name": "Shop" }, "variable": [{ "key": "api_key", "value": "canary-1" }],
        "item": [{ "name": "a", "request": { "url": "{{host}}/x/{{order}}", "header": [
            { "key": "X-Api-Key", "value": "{{api_key}}" }, { "key": "Authorization", "value": "Bearer canary-2-abcdef" }],
            "auth": { "type": "oauth2" }, "body": { "mode": "raw", "raw": "{\"password\": \"canary-3\"}", "options": { "raw": { "language": "json" } } } } }] });
    let draft = draft(&collection);
    let written = draft.write("shop-deployment.yaml").unwrap();
    let all = format!("{}{}{}", written.scenario, written.deployment, written.notes.join("\n"));
    assert!(!all.contains("canary"), "{all}");
    assert_eq!(written.environment, ["API_KEY", "API_TOKEN", "PASSWORD"]);
    for part in ["order", "where {{host}} is", "authorizations that bench cannot make"] {
        assert!(written.notes.join("; ").contains(part), "{part}: {:?}", written.notes);
    }
}

#[test]
fn what_is_no_collection_is_refused() {
    for (text, what) in [
        ("", "not JSON"),
        ("[]", "not a collection"),
        ("{\"values\": []}", "not a collection"),
        ("{\"requests\": []}", "format 1"),
    ] {
        let error = from_reader(text.as_bytes()).err().unwrap().to_string();
        assert!(error.contains(what), "{text}: {error}");
    }
    let empty = draft(&json!({ "info": {}, "item": [] })).write("d.yaml").unwrap_err().to_string();
    assert!(empty.contains("no request"), "{empty}");
    let mut nested = json!({ "name": "x", "request": "http://a/" });
    for _ in 0..60 {
        nested = json!({ "name": "f", "item": [nested] });
    }
    let deep = draft(&json!({ "info": {}, "item": [nested] }));
    assert!(deep.notes.join("; ").contains("nested too deeply"), "{:?}", deep.notes);
}
