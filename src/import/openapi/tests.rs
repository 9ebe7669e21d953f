//! Tests: documents and the steps that they become.

use super::*;

const V3: &str = include_str!("../../../tests/vectors/import/petstore-v3.yaml");
const V2: &str = include_str!("../../../tests/vectors/import/petstore-v2.yaml");

fn imported(text: &str, options: &Options) -> Draft {
    from_reader(text.as_bytes(), options, &|_| Err("no file".to_owned()))
        .unwrap_or_else(|error| panic!("{error}"))
}

fn steps(draft: &Draft) -> Vec<Value> {
    draft.steps.iter().map(|step| Value::Object(step.keys.clone())).collect()
}

fn all() -> Options {
    Options { all_methods: true, ..Options::default() }
}

/// A document with one operation, `POST /things`, and these components.
fn document(operation: Value, components: Value) -> String {
    json!({
        "openapi": "3.1.0", "info": { "title": "T", "version": "1" }, "servers": [{ "url": "https://h/v1" }],
        "paths": { "/things": { "post": operation } }, "components": components
    })
    .to_string()
}

#[test]
fn the_pet_stores_are_imported() {
    for text in [V3, V2] {
        let draft = imported(text, &Options::default());
        assert_eq!(draft.targets[0].1, "http://petstore.swagger.io/v1");
        let names: Vec<_> = draft.steps.iter().map(|step| step.keys["action"].clone()).collect();
        assert_eq!(names, ["listPets", "showPetById"]);
        assert!(draft.notes.iter().any(|note| note.contains("1 that change something")), "{:?}", draft.notes);
        let steps = steps(&imported(text, &all()));
        assert_eq!(steps[0]["post"], "/pets");
        assert_eq!(steps[0]["expect"], json!({ "status": 201 }));
        assert_eq!(steps[2]["get"], "/pets/{{ pet_id }}");
    }
    let body = steps(&imported(V3, &all()))[0]["json"].clone();
    assert_eq!(body, json!({ "id": 1, "name": "text" }));
}

#[test]
fn operations_are_chosen_by_id_tag_and_path() {
    let chosen = |operations: &[&str], tags: &[&str], paths: &[&str]| {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        let options = Options {
            operations: texts(operations),
            tags: texts(tags),
            paths: texts(paths),
            all_methods: false,
        };
        imported(V3, &options).steps.len()
    };
    assert_eq!(
        [chosen(&["createPets"], &[], &[]), chosen(&[], &["pets"], &[]), chosen(&[], &["other"], &[])],
        [1, 2, 0]
    );
    assert_eq!([chosen(&[], &[], &["/pets/"]), chosen(&["listPets"], &["pets"], &["/pets"])], [1, 1]);
}

#[test]
fn what_is_created_is_read_under_its_id() {
    let paths = json!({
        "/orders": { "post": { "responses": { "201": { "content": { "application/json": {
            "schema": { "type": "object", "properties": { "id": { "type": "integer" } } } } } } } } },
        "/orders/{orderId}": {
            "delete": { "responses": { "204": {} } },
            "get": { "responses": { "200": {}, "202": {}, "404": {} } } },
        "/other/{id}": { "get": { "parameters": [
            { "name": "id", "in": "path", "required": true, "schema": { "type": "integer", "minimum": 5 } }] } }
    });
    let text = json!({ "openapi": "3.0.3", "info": {}, "paths": paths }).to_string();
    let draft = imported(&text, &all());
    let steps = steps(&draft);
    assert_eq!(steps[0]["extract"], json!({ "order_id": { "json": "$.id" } }));
    assert_eq!(
        (&steps[1]["get"], &steps[1]["expect"]),
        (&json!("/orders/{{ order_id }}"), &json!({ "status": [200, 202] }))
    );
    assert_eq!(steps[2]["get"], "/other/{{ other_id }}");
    assert_eq!(steps[3]["delete"], "/orders/{{ order_id }}");
    let notes = draft.notes.join("\n");
    assert!(notes.contains("names no server") && notes.contains("values that exist: other_id"), "{notes}");
    assert!(draft.write("d.yaml").unwrap().scenario.contains("other_id: 5"));
}

#[test]
fn answers_that_wrap_what_was_created_give_its_id() {
    for (schema, expected) in [
        (json!({ "properties": { "order": { "properties": { "id": {} } } } }), Some("$.order.id")),
        (json!({ "allOf": [{ "oneOf": [{ "properties": { "id": {} } }] }] }), Some("$.id")),
        (json!({ "properties": { "orderId": {}, "id": {} } }), Some("$.orderId")),
        (
            json!({ "properties": { "a": { "properties": { "id": {} } }, "b": { "properties": { "id": {} } } } }),
            None,
        ),
        (json!({ "$ref": "#/nowhere" }), None),
    ] {
        let paths = json!({
            "/orders": { "post": { "responses": { "200": {}, "201": { "content": { "application/json": { "schema": schema } } } } } },
            "/orders/{orderId}": { "put": {}, "delete": {} }
        });
        let draft = imported(&json!({ "openapi": "3.0.3", "paths": paths }).to_string(), &all());
        let extract = expected.map(|path| json!({ "order_id": { "json": path } }));
        assert_eq!(steps(&draft)[0].get("extract"), extract.as_ref(), "{schema}");
        assert_eq!(steps(&draft)[1]["put"], "/orders/{{ order_id }}");
    }
}

#[test]
fn forms_files_and_lists_become_their_keys() {
    let content = |content: Value| json!({ "requestBody": { "content": content } });
    let form = json!({ "properties": {
        "title": { "type": "string" }, "photo": { "type": "string", "format": "binary" },
        "tags": { "type": "array", "minItems": 2, "items": { "type": "string" } } } });
    let tags = |more: Value| {
        let mut tags = json!({ "name": "tag", "in": "query", "required": true, "example": ["a", "b"] });
        tags.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "parameters": [tags] })
    };
    for (operation, key, expected) in [
        (
            content(
                json!({ "multipart/form-data": { "schema": form, "encoding": { "photo": { "contentType": "image/png, image/gif" } } } }),
            ),
            "multipart",
            json!({ "title": "text", "photo": { "file": "files/photo.bin", "filename": "photo.bin", "type": "image/png" },
                "tags": ["text", "text"] }),
        ),
        (
            content(
                json!({ "application/octet-stream": { "schema": { "type": "string", "format": "binary" } } }),
            ),
            "file",
            json!("files/upload.bin"),
        ),
        (
            content(
                json!({ "application/x-www-form-urlencoded": { "example": { "t": ["a", "b"], "u": ["a", "b"], "n": 1 },
                "encoding": { "t": { "style": "form", "explode": false }, "u": { "style": "pipeDelimited", "explode": false } } } }),
            ),
            "form",
            json!({ "t": "a,b", "u": "a|b", "n": "1" }),
        ),
        (tags(json!({})), "query", json!({ "tag": ["a", "b"] })),
        (tags(json!({ "explode": false })), "query", json!({ "tag": "a,b" })),
        (tags(json!({ "style": "pipeDelimited" })), "query", json!({ "tag": "a|b" })),
        (tags(json!({ "style": "spaceDelimited" })), "query", json!({ "tag": "a b" })),
    ] {
        let draft = imported(&document(operation, json!({})), &all());
        assert_eq!(steps(&draft)[0][key], expected);
        assert_eq!(draft.stand_ins.len(), usize::from(expected.to_string().contains("files/")));
    }
    let text = json!({ "swagger": "2.0", "paths": { "/x": { "post": { "consumes": ["multipart/form-data"], "parameters": [
        { "name": "f", "in": "formData", "type": "file" }, { "name": "n", "in": "formData", "type": "integer" },
        { "name": "t", "in": "query", "required": true, "type": "array", "items": { "enum": ["a"] }, "collectionFormat": "multi" }] } } } });
    let step = steps(&imported(&text.to_string(), &all()))[0].clone();
    assert_eq!(step["multipart"], json!({ "f": { "file": "files/f.bin", "filename": "f.bin" }, "n": "1" }));
    assert_eq!(step["query"], json!({ "t": ["a"] }));
    let text = json!({ "swagger": "2.0", "paths": { "/x": { "post": { "parameters": [
        { "name": "p", "in": "formData", "type": "array", "items": { "type": "string" }, "collectionFormat": "pipes", "example": ["a", "b"] },
        { "name": "m", "in": "formData", "type": "array", "items": { "type": "string" }, "collectionFormat": "multi", "example": ["a", "b"] },
        { "name": "c", "in": "formData", "type": "array", "items": { "type": "string" }, "example": ["a", "b"] }] } } } });
    let step = steps(&imported(&text.to_string(), &all()))[0].clone();
    assert_eq!(step["form"], json!({ "p": "a|b", "m": ["a", "b"], "c": "a,b" }));
}

/// Swagger 2, "Items Object": a list in a list has a `collectionFormat` of its own.
#[test]
fn lists_are_joined_in_each_place_as_their_format_says() {
    let list = |place: &str, format: &str, inner: Option<&str>| {
        let items = match inner {
            Some(format) => {
                json!({ "type": "array", "items": { "type": "string" }, "collectionFormat": format })
            }
            None => json!({ "type": "string" }),
        };
        let example = if inner.is_some() { json!([["a,1", "b"], ["c"]]) } else { json!(["a,1", "b"]) };
        json!({ "name": "l", "in": place, "required": true, "type": "array", "items": items,
            "collectionFormat": format, "example": example })
    };
    for (parameter, expected) in [
        (list("path", "csv", None), "/x/a%2C1,b"),
        (list("path", "ssv", None), "/x/a%2C1%20b"),
        (list("path", "tsv", None), "/x/a%2C1%09b"),
        (list("path", "pipes", None), "/x/a%2C1%7Cb"),
        (list("path", "pipes", Some("csv")), "/x/a%2C1,b%7Cc"),
        (list("query", "pipes", Some("csv")), r#"{"l":"a,1,b|c"}"#),
        (list("query", "csv", Some("ssv")), r#"{"l":"a,1 b,c"}"#),
        (list("query", "multi", Some("pipes")), r#"{"l":["a,1|b","c"]}"#),
        (list("header", "csv", Some("pipes")), r#"{"l":"a,1|b,c"}"#),
        (list("formData", "ssv", Some("csv")), r#"{"l":"a,1,b c"}"#),
    ] {
        let text = json!({ "swagger": "2.0", "host": "h", "paths": { "/x/{l}": { "post": { "parameters": [parameter] } } } });
        let draft = imported(&text.to_string(), &all());
        let (place, step) = (parameter["in"].as_str().unwrap(), &steps(&draft)[0]);
        let found = match place {
            "path" => draft.write("d.yaml").unwrap().scenario,
            "header" => step["headers"].to_string(),
            "formData" => step["form"].to_string(),
            _ => step["query"].to_string(),
        };
        let expected =
            expected.strip_prefix("/x/").map_or(expected.to_owned(), |value| format!("l: {value}"));
        assert!(found.contains(&expected), "{parameter}: {found}");
    }
}

#[test]
fn a_document_without_a_request_says_why() {
    for (text, expected) in [
        (
            r#"{"openapi":"3.0.0","paths":{}}"#,
            "there is no request to import: the document has no operations",
        ),
        (
            r#"{"openapi":"3.0.0","paths":{"/a":{"post":{}}}}"#,
            "operations were left out: 1 that change something",
        ),
        (r#"{"openapi":"3"}"#, "write one such as 3.0.3"),
        (r#"{"openapi":"4.1.0"}"#, "version `4.1.0` of OpenAPI is not supported"),
    ] {
        let read = from_reader(text.as_bytes(), &Options::default(), &|_| Err("no file".to_owned()));
        let error = read.and_then(|draft| draft.write("d.yaml").map(drop)).unwrap_err();
        assert!(error.what.contains(expected), "{text}: {error}");
    }
}

#[test]
fn what_fields_and_values_lose_is_counted() {
    let form = |kind: &str, encoding: Value| {
        let schema = json!({ "properties": { "a": { "type": "string", "example": "x/y" } } });
        json!({ "requestBody": { "content": { kind: { "schema": schema, "encoding": { "a": encoding } } } } })
    };
    let query = |more: Value| {
        let mut one = json!({ "name": "q", "in": "query", "required": true, "example": "x/y" });
        one.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "parameters": [one] })
    };
    for (operation, expected) in [
        (
            form("multipart/form-data", json!({ "headers": { "X-A": {} } })),
            Some("1 headers of a form's fields"),
        ),
        (
            form("multipart/form-data", json!({ "contentType": "application/json" })),
            Some("1 content types of"),
        ),
        (form("multipart/form-data", json!({ "contentType": "text/plain" })), None),
        (
            form("application/x-www-form-urlencoded", json!({ "allowReserved": true })),
            Some("1 fields whose reserved"),
        ),
        (query(json!({ "allowReserved": true })), Some("1 parameters whose reserved")),
        (query(json!({})), None),
    ] {
        let notes = imported(&document(operation.clone(), json!({})), &all()).notes.join("\n");
        match expected {
            Some(part) => assert!(notes.contains(part), "{operation}: {notes}"),
            None => assert!(!notes.contains("not in the scenario"), "{operation}: {notes}"),
        }
    }
    let cookie = json!({ "parameters": [{ "name": "c", "in": "cookie", "required": true,
        "example": { "R": 100, "G": "a" } }] });
    let step = steps(&imported(&document(cookie, json!({})), &all()))[0].clone();
    assert_eq!(step["headers"], json!({ "Cookie": "R=100; G=a" }));
}

#[test]
fn samples_fit_their_schemas() {
    let components = json!({ "schemas": {
        "Node": { "type": "object", "properties": { "next": { "$ref": "#/components/schemas/Node" }, "n": { "type": "integer" } } },
        "Circle": { "$ref": "#/components/schemas/Circle" },
        "Base": { "type": "object", "required": ["a"], "properties": { "a": { "type": "string" } } }
    }});
    for (schema, expected) in [
        (json!({ "type": "integer", "minimum": 3, "multipleOf": 5 }), json!(5)),
        (json!({ "type": "number", "exclusiveMaximum": 1 }), json!(0.0)),
        (json!({ "type": ["null", "string"], "format": "email" }), json!("someone@example.com")),
        (json!({ "type": "string", "format": "uuid" }), json!("{{ uuid() }}")),
        (json!({ "type": "string", "minLength": 6 }), json!("textxx")),
        (json!({ "type": "string", "maxLength": 2 }), json!("te")),
        (json!({ "enum": ["a", "b"] }), json!("a")),
        (json!({ "const": 7 }), json!(7)),
        (json!({ "type": "string", "example": "{{ x }}" }), json!("{{ '{{' }} x }}")),
        (json!({ "type": "array", "minItems": 2, "items": { "type": "boolean" } }), json!([true, true])),
        (
            json!({ "allOf": [{ "$ref": "#/components/schemas/Base" }, { "properties": { "b": { "type": "integer" } } }] }),
            json!({ "a": "text", "b": 1 }),
        ),
        (json!({ "oneOf": [{ "type": "null" }, { "type": "integer" }] }), json!(1)),
        (
            json!({ "required": ["a"], "properties": { "a": { "type": "integer" }, "b": { "type": "integer" },
                "c": { "type": "integer", "example": 3 }, "d": { "type": "integer", "readOnly": true } } }),
            json!({ "a": 1, "c": 3 }),
        ),
        (json!({ "$ref": "#/components/schemas/Circle" }), Value::Null),
        (json!({ "$ref": "#/nowhere" }), Value::Null),
        (json!({ "$ref": "http://evil/schema" }), Value::Null),
    ] {
        let operation = json!({ "requestBody": { "content": { "application/json": { "schema": schema } } } });
        let draft = imported(&document(operation, components.clone()), &all());
        assert_eq!(steps(&draft)[0]["json"], expected, "{schema}");
    }
    // A list without an end is cut off.
    let operation = json!({ "requestBody": { "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Node" } } } } });
    let body = steps(&imported(&document(operation, components), &all()))[0]["json"].to_string();
    assert!(body.len() < 1000 && body.matches("next").count() > 3, "{body}");
}

#[test]
fn ways_to_authenticate_become_the_deployments() {
    for (scheme, expected) in [
        (
            json!({ "type": "http", "scheme": "bearer" }),
            json!({ "auth": { "bearer": { "token": { "env": "API_TOKEN" } } } }),
        ),
        (
            json!({ "type": "http", "scheme": "basic" }),
            json!({ "auth": { "basic": { "username": { "env": "API_USER" }, "password": { "env": "API_PASSWORD" } } } }),
        ),
        (
            json!({ "type": "apiKey", "in": "header", "name": "X-Key" }),
            json!({ "headers": { "X-Key": { "env": "API_KEY" } } }),
        ),
        (
            json!({ "type": "apiKey", "in": "cookie", "name": "sid" }),
            json!({ "headers": { "Cookie": { "env": "API_COOKIE" } } }),
        ),
        (json!({ "type": "apiKey", "in": "query", "name": "key" }), json!({})),
        (
            json!({ "type": "oauth2", "flows": { "clientCredentials": { "tokenUrl": "http://t/x", "scopes": { "a": "", "b c": "" } } } }),
            json!({ "auth": { "oauth2": { "token_url": "http://t/x", "client_id": { "env": "CLIENT_ID" },
                "client_secret": { "env": "CLIENT_SECRET" }, "scope": "a" } } }),
        ),
        (
            json!({ "type": "oauth2", "flows": { "clientCredentials": { "tokenUrl": "/token" } } }),
            json!({ "auth": { "oauth2": { "token_url": "https://h/token", "client_id": { "env": "CLIENT_ID" },
                "client_secret": { "env": "CLIENT_SECRET" } } } }),
        ),
        (
            json!({ "type": "oauth2", "flows": { "authorizationCode": { "tokenUrl": "http://t" } } }),
            json!({ "auth": { "bearer": { "token": { "env": "API_TOKEN" } } } }),
        ),
    ] {
        let operation = json!({ "security": [{ "one": [] }] });
        let draft = imported(&document(operation, json!({ "securitySchemes": { "one": scheme } })), &all());
        assert_eq!(Value::Object(draft.deployment.clone()), expected, "{scheme}");
        let query = steps(&draft)[0].get("query").cloned();
        assert_eq!(query.is_some(), scheme["in"] == "query", "{scheme}");
    }
}

#[test]
fn hostile_documents_are_refused_or_bounded() {
    let bomb =
        "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
            .to_owned()
            + "d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n"
            + "g: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\nh: [*g,*g,*g,*g,*g,*g,*g,*g,*g]\n";
    for (text, part) in [
        (String::new(), "not an OpenAPI document"),
        ("[1]".to_owned(), "not an OpenAPI document"),
        ("{".to_owned(), "this is not JSON"),
        ("a: [".to_owned(), "this is not YAML"),
        ("openapi: 4.0.0".to_owned(), "version `4.0.0`"),
        (format!("{{\"a\":{}", "[".repeat(100_000)), "recursion limit"),
        (format!("a: {}", "[".repeat(100_000)), "nested too deeply"),
        ("- ".repeat(100_000), "recursion limit"),
        ("? ".repeat(20_000), ""),
        (format!("a: {}", "[".repeat(200)), "recursion limit"),
        (bomb, "repetition limit"),
    ] {
        let error = from_reader(text.as_bytes(), &all(), &|_| Err("no file".to_owned()))
            .err()
            .map(|error| error.what)
            .unwrap_or_default();
        assert!(error.contains(part), "{part}: {error}");
    }
    // Wrong types are no panic.
    for text in [
        r#"{"openapi":"3.0.0","paths":5}"#,
        r#"{"openapi":"3.0.0","paths":{"x":{"get":{"parameters":{"a":1},"responses":[],"tags":5,"security":{}}}},"servers":{}}"#,
        r##"{"openapi":"3.0.0","info":[],"paths":{"/{a":{"get":{}},"{b}":{"$ref":"#/paths/{b}"},"/c{":{"post":{"requestBody":{"content":[]}}}}}"##,
    ] {
        let draft = imported(text, &all());
        let _ = draft.write("d.yaml");
    }
}

/// The table of "Style Examples" in the specification, and Swagger's formats.
#[test]
fn parameters_are_written_in_their_styles() {
    let list = json!(["blue", "black"]);
    let map = json!({ "R": 100, "G": 200 });
    let of = |place: &str, style: &str, explode: Option<bool>, example: &Value| {
        let mut parameter = json!({ "name": "color", "in": place, "required": true, "example": example });
        for (key, value) in [("style", json!(style)), ("explode", json!(explode))] {
            if value != json!("") && !value.is_null() {
                parameter[key] = value;
            }
        }
        let path = if place == "path" { "/c/{color}" } else { "/c" };
        let document = json!({
            "openapi": "3.1.0", "info": { "title": "T", "version": "1" },
            "paths": { path: { "get": { "parameters": [parameter] } } }
        });
        let draft = imported(&document.to_string(), &all());
        match place {
            "path" => draft.variables.written(&mut text::yaml_text::Comments::new())["color"].clone(),
            "query" => steps(&draft)[0]["query"].clone(),
            _ => steps(&draft)[0]["headers"].clone(),
        }
    };
    for (place, style, explode, example, expected) in [
        ("path", "", None, &list, json!("blue,black")),
        ("path", "simple", Some(true), &map, json!("R=100,G=200")),
        ("path", "simple", Some(false), &map, json!("R,100,G,200")),
        ("path", "label", Some(false), &list, json!(".blue,black")),
        ("path", "label", Some(true), &list, json!(".blue.black")),
        ("path", "label", Some(true), &map, json!(".R=100.G=200")),
        ("path", "label", None, &json!("blue"), json!(".blue")),
        ("path", "matrix", None, &json!("blue"), json!(";color=blue")),
        ("path", "matrix", Some(false), &list, json!(";color=blue,black")),
        ("path", "matrix", Some(true), &list, json!(";color=blue;color=black")),
        ("path", "matrix", Some(false), &map, json!(";color=R,100,G,200")),
        ("path", "matrix", Some(true), &map, json!(";R=100;G=200")),
        ("path", "", None, &json!(7), json!(7)),
        ("query", "", None, &list, json!({ "color": ["blue", "black"] })),
        ("query", "form", Some(false), &list, json!({ "color": "blue,black" })),
        ("query", "", None, &map, json!({ "R": "100", "G": "200" })),
        ("query", "form", Some(false), &map, json!({ "color": "R,100,G,200" })),
        ("query", "spaceDelimited", None, &list, json!({ "color": "blue black" })),
        ("query", "pipeDelimited", None, &list, json!({ "color": "blue|black" })),
        ("query", "pipeDelimited", None, &map, json!({ "color": "R|100|G|200" })),
        ("query", "deepObject", Some(true), &map, json!({ "color[R]": "100", "color[G]": "200" })),
        ("header", "", None, &list, json!({ "color": "blue,black" })),
        ("header", "simple", Some(true), &map, json!({ "color": "R=100,G=200" })),
        ("cookie", "", None, &json!("blue"), json!({ "Cookie": "color=blue" })),
        ("cookie", "", None, &json!("dark blue;"), json!({ "Cookie": "color=dark%20blue%3B" })),
    ] {
        assert_eq!(of(place, style, explode, example), expected, "{place} {style} {explode:?} {example}");
    }
}

#[test]
fn bodies_keep_their_content_type() {
    let of = |document: Value| {
        let draft = imported(&document.to_string(), &all());
        let step = steps(&draft)[0].clone();
        (
            step["headers"]["Content-Type"].clone(),
            step.get("json").is_some(),
            step["body"].clone(),
            draft.notes.join("\n"),
        )
    };
    let other = "bodies whose type is neither JSON nor a form";
    for (mime, media, content_type, is_json, body, note) in [
        ("application/json", json!({ "example": { "a": 1 } }), Value::Null, true, Value::Null, ""),
        (
            "application/json; charset=utf-8",
            json!({ "example": { "a": 1 } }),
            json!("application/json; charset=utf-8"),
            true,
            Value::Null,
            "",
        ),
        (
            "application/json-patch+json",
            json!({ "example": [] }),
            json!("application/json-patch+json"),
            true,
            Value::Null,
            "",
        ),
        ("application/jsonl", json!({ "example": "x" }), json!("application/jsonl"), false, json!("x"), ""),
        ("application/json", json!({ "example": null }), json!("application/json"), false, json!("null"), ""),
        ("application/octet-stream", json!({}), json!("application/octet-stream"), false, Value::Null, ""),
        ("*/*", json!({ "example": { "a": 1 } }), Value::Null, false, Value::Null, other),
        (
            "text/plain",
            json!({ "examples": { "one": { "externalValue": "ex.txt" } } }),
            json!("text/plain"),
            false,
            json!("null"),
            "in other files",
        ),
    ] {
        let operation = json!({ "requestBody": { "content": { mime: media } } });
        let document = json!({ "openapi": "3.1.0", "info": {}, "paths": { "/x": { "post": operation } } });
        let found = of(document);
        assert_eq!((&found.0, found.1), (&content_type, is_json), "{mime}: {found:?}");
        assert!(found.2 == body || mime == "text/plain", "{mime}: {found:?}");
        assert!(
            found.3.contains(note) && (note.is_empty() != found.3.contains(note) || note.is_empty()),
            "{mime}: {found:?}"
        );
    }
    for (consumes, content_type, is_json, note) in [
        (json!(["application/json"]), Value::Null, true, ""),
        (json!(["application/vnd.x+json"]), json!("application/vnd.x+json"), true, ""),
        (json!(["application/xml"]), Value::Null, false, other),
    ] {
        let parameter = json!({ "name": "b", "in": "body", "schema": { "example": { "a": 1 } } });
        let operation = json!({ "consumes": consumes, "parameters": [parameter] });
        let found = of(json!({ "swagger": "2.0", "info": {}, "paths": { "/x": { "post": operation } } }));
        assert_eq!((&found.0, found.1), (&content_type, is_json), "{consumes}: {found:?}");
        assert!(found.3.contains(note), "{consumes}: {found:?}");
    }
}

#[test]
fn numbers_of_yaml_keep_their_digits() {
    let yaml = "openapi: 3.0.3\ninfo: {}\npaths:\n  /x:\n    post:\n      responses: { 200: { description: '' } }\n      requestBody:\n        content:\n          application/json:\n            \
        example: { a: 0.12345678901234567, b: 9007199254740993.0, c: 1E400, d: 1e3, e: 1.50 }\n";
    let draft = imported(yaml, &all());
    let body = text::digits::to_text(&steps(&draft)[0]["json"]);
    assert_eq!(body, r#"{"a":0.12345678901234567,"b":9007199254740993.0,"c":1E400,"d":1e3,"e":1.50}"#);
}

#[test]
fn references_may_be_percent_encoded() {
    let document = json!({ "openapi": "3.0.3", "info": {}, "paths": { "/x": { "get": { "parameters": [
        { "$ref": "#/components/parameters/p%20q" } ] } } },
        "components": { "parameters": { "p q": { "name": "limit", "in": "query", "required": true, "example": 5 } } } });
    let draft = imported(&document.to_string(), &all());
    assert_eq!(steps(&draft)[0]["query"], json!({ "limit": "5" }));
}

#[test]
fn what_a_parameter_cannot_say_is_noted() {
    let (many, long): (Vec<u64>, String) = ((0..21).collect(), "x".repeat(201));
    let none = "parameters without a value: nothing is sent for them";
    let cut = "parameters whose example was cut";
    for (place, style, example, expected) in [
        ("query", "deepObject", json!({}), none),
        ("query", "form", json!({}), none),
        ("query", "form", json!([]), ""),
        ("query", "deepObject", json!({ "a": 1 }), ""),
        ("query", "form", json!(many), cut),
        ("path", "simple", json!(many), cut),
        ("path", "simple", json!(long), cut),
        ("query", "form", json!(long), ""),
        ("header", "simple", json!("a\nb"), cut),
        ("path", "simple", json!("a\nb"), ""),
    ] {
        let parameter =
            json!({ "name": "color", "in": place, "required": true, "style": style, "example": example });
        let path = if place == "path" { "/x/{color}" } else { "/x" };
        let document = json!({ "openapi": "3.0.3", "info": {}, "paths": { path: { "get": { "parameters": [parameter] } } } });
        let notes = imported(&document.to_string(), &all()).notes.join("\n");
        let found = [none, cut].into_iter().find(|note| notes.contains(note)).unwrap_or_default();
        assert_eq!(found, expected, "{place} {style} {example}: {notes}");
    }
}

#[test]
fn tuples_and_empty_titles() {
    let tuple =
        json!({ "prefixItems": [{ "type": "integer" }, { "enum": ["a"] }], "items": { "type": "boolean" } });
    let operation = json!({ "requestBody": { "content": { "application/json": { "schema": tuple } } } });
    let mut text: Value = serde_json::from_str(&document(operation, json!({}))).unwrap();
    text["info"]["title"] = json!(" ");
    let draft = imported(&text.to_string(), &all());
    assert_eq!(steps(&draft)[0]["json"], json!([1, "a"]));
    assert_eq!(draft.title, "API");
}

#[test]
fn the_nearest_server_counts() {
    let of = |servers: Value, item: Value, operation: Value| {
        let mut path = json!({ "get": { "operationId": "y" } });
        path["servers"] = item;
        path["get"]["servers"] = operation;
        let document = json!({ "openapi": "3.0.3", "info": {}, "servers": servers,
            "paths": { "/x": { "get": { "operationId": "x" } }, "/y": path } });
        let draft = imported(&document.to_string(), &all());
        let target = steps(&draft)[1].get("target").cloned();
        let url = draft.targets.iter().find(|(name, _)| target.as_ref().is_some_and(|target| target == name));
        (url.map(|(_, url)| url.clone()), draft.notes.join("\n"))
    };
    let base = || json!([{ "url": "https://h/a" }]);
    for (item, operation, expected) in [
        (json!([]), json!([]), None),
        (json!([{ "url": "https://g/b/" }]), json!(null), Some("https://g/b")),
        (json!([{ "url": "https://g/b" }]), json!([{ "url": "https://f" }]), Some("https://f")),
        (json!(null), json!([{ "url": "/v2" }]), Some("https://h/v2")),
        (json!(null), json!([{ "url": "https://h/a" }]), None),
        (
            json!(null),
            json!([{ "url": "{u}/b", "variables": { "u": { "default": "http://e" } } }]),
            Some("http://e/b"),
        ),
    ] {
        let (url, _) = of(base(), item.clone(), operation.clone());
        assert_eq!(url.as_deref(), expected, "{item} {operation}");
    }
    let (url, notes) = of(base(), json!(null), json!([{ "url": "ftp://g" }]));
    assert!(url.is_none() && notes.contains("1 servers that are no URLs"), "{notes}");
}

#[test]
fn objects_say_of_which_schema_they_are() {
    let pet = json!({ "required": ["kind"], "properties": { "kind": { "type": "string" } },
        "discriminator": { "propertyName": "kind", "mapping": { "feline": "#/components/schemas/Cat" } } });
    let below =
        |own: Value| json!({ "allOf": [{ "$ref": "#/components/schemas/Pet" }, { "properties": own }] });
    let components = json!({ "schemas": {
        "Pet": pet, "Cat": below(json!({ "lives": { "type": "integer" } })), "Dog": below(json!({})),
        "Fish": { "properties": { "fins": { "type": "integer" } } } } });
    let of = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
    let one_of = |names: &[&str], more: Value| {
        let mut discriminator = json!({ "propertyName": "type" });
        discriminator["mapping"] = more;
        json!({ "oneOf": names.iter().map(|name| of(name)).collect::<Vec<_>>(), "discriminator": discriminator })
    };
    for (schema, expected) in [
        (of("Cat"), json!({ "kind": "feline", "lives": 1 })),
        (of("Dog"), json!({ "kind": "Dog" })),
        (
            one_of(&["Fish", "Cat"], json!({ "f": "#/components/schemas/Fish" })),
            json!({ "fins": 1, "type": "f" }),
        ),
        (one_of(&["Fish"], json!({ "f": "Fish" })), json!({ "fins": 1, "type": "f" })),
        (one_of(&["Fish"], json!(null)), json!({ "fins": 1, "type": "Fish" })),
    ] {
        let operation = json!({ "requestBody": { "content": { "application/json": { "schema": schema } } } });
        let draft = imported(&document(operation, components.clone()), &all());
        assert_eq!(steps(&draft)[0]["json"], expected, "{schema}");
    }
}

/// What becomes of a field.
enum FieldFate {
    /// The scenario or the deployment differs.
    Carried,
    /// A note has these words.
    Named(&'static str),
    /// It says nothing about the request.
    WithoutEffect,
}

/// Where fields are, with a value and what becomes of it.
#[expect(clippy::too_many_lines, reason = "a table")]
fn fields() -> Vec<(&'static str, &'static str, Value, FieldFate)> {
    use FieldFate::{Carried, Named, WithoutEffect};
    let (path, operation, parameter) =
        ("/paths/~1things", "/paths/~1things/post", "/paths/~1things/post/parameters/0");
    let body = "/paths/~1things/post/requestBody";
    let media = "/paths/~1things/post/requestBody/content/application~1json";
    let two = json!([{ "url": "https://h" }, { "url": "https://g" }]);
    vec![
        ("", "openapi", json!("3.0.0"), WithoutEffect),
        ("", "info", json!({ "title": "U", "version": "2" }), Carried),
        ("", "jsonSchemaDialect", json!("https://spec.openapis.org/oas/3.1/dialect/base"), WithoutEffect),
        ("", "servers", json!([{ "url": "https://g" }]), Carried),
        ("", "servers", two.clone(), Named("1 further servers of the document")),
        ("", "paths", json!({ "/other": { "get": {} } }), Carried),
        ("", "webhooks", json!({ "w": { "post": {} } }), Named("1 webhooks")),
        (
            "",
            "components",
            json!({ "securitySchemes": { "a": { "type": "http", "scheme": "basic" } } }),
            Carried,
        ),
        ("", "security", json!([{ "a": [] }]), WithoutEffect),
        ("", "tags", json!([{ "name": "t" }]), WithoutEffect),
        ("", "externalDocs", json!({ "url": "https://d" }), WithoutEffect),
        (path, "summary", json!("s"), WithoutEffect),
        (path, "description", json!("s"), WithoutEffect),
        (path, "get", json!({}), Carried),
        (path, "trace", json!({}), Carried),
        (path, "servers", json!([{ "url": "https://g" }]), Carried),
        (path, "servers", two, Named("1 further servers of operations")),
        (path, "parameters", json!([{ "name": "p", "in": "query", "required": true }]), Carried),
        (operation, "tags", json!(["t"]), WithoutEffect),
        (operation, "summary", json!("s"), Carried),
        (operation, "description", json!("s"), Carried),
        (operation, "externalDocs", json!({ "url": "https://d" }), WithoutEffect),
        (operation, "operationId", json!("o"), Carried),
        (operation, "parameters", json!([]), Carried),
        (
            operation,
            "parameters",
            json!([{ "name": "p", "in": "header" }]),
            Named("1 optional parameters without an example"),
        ),
        (operation, "requestBody", json!({ "content": {} }), Carried),
        (operation, "responses", json!({ "202": {} }), Carried),
        (operation, "callbacks", json!({ "c": {} }), Named("1 callbacks")),
        (operation, "deprecated", json!(true), Carried),
        (
            operation,
            "security",
            json!([{ "a": [] }, { "b": [] }]),
            Named("1 further ways to authenticate of operations"),
        ),
        (operation, "servers", json!([{ "url": "https://g" }]), Carried),
        (parameter, "name", json!("r"), Carried),
        (parameter, "in", json!("header"), Carried),
        (parameter, "description", json!("d"), WithoutEffect),
        (parameter, "required", json!(true), WithoutEffect),
        (parameter, "deprecated", json!(true), WithoutEffect),
        (parameter, "allowEmptyValue", json!(true), WithoutEffect),
        (parameter, "style", json!("pipeDelimited"), Carried),
        (parameter, "explode", json!(false), Carried),
        (
            parameter,
            "allowReserved",
            json!(true),
            Named("1 parameters whose reserved characters are not to be encoded"),
        ),
        (parameter, "schema", json!({ "type": "array" }), WithoutEffect),
        (parameter, "example", json!("c"), Carried),
        (parameter, "content", json!({ "application/json": { "example": { "a": 1 } } }), Carried),
        (body, "description", json!("d"), WithoutEffect),
        (body, "required", json!(true), WithoutEffect),
        (body, "content", json!({ "application/json": { "example": 7 } }), Carried),
        (
            body,
            "content",
            json!({ "application/json": { "schema": {} }, "text/csv": {} }),
            Named("1 further types of bodies"),
        ),
        (
            body,
            "content",
            json!({ "application/xml": { "schema": { "type": "object" } } }),
            Named("1 bodies whose type is neither JSON nor a form"),
        ),
        (media, "schema", json!({ "type": "boolean" }), Carried),
        (media, "example", json!(7), Carried),
        (media, "examples", json!({ "one": { "value": 7 } }), Carried),
        (media, "encoding", json!({ "a": { "contentType": "text/plain" } }), WithoutEffect),
    ]
}

/// Every fixed field of the objects of OpenAPI 3.1 that describe requests; the tests of samples check the fields of
/// schemas.
#[test]
fn each_field_is_carried_named_or_without_effect() {
    let plain = json!({
        "openapi": "3.1.0", "info": { "title": "T", "version": "1" }, "servers": [{ "url": "https://h" }],
        "paths": { "/things": { "post": {
            "parameters": [{ "name": "q", "in": "query", "example": ["a", "b c/d"] }],
            "requestBody": { "content": { "application/json": { "schema": { "type": "integer" } } } }
        } } }
    });
    for (place, field, value, fate) in fields() {
        let mut changed = plain.clone();
        changed.pointer_mut(place).unwrap()[field] = value;
        let [with, without] = [&changed, &plain].map(|document| {
            let draft = imported(&document.to_string(), &all());
            let written = draft.write("d.yaml").map(|written| (written.scenario, written.deployment));
            (written.ok(), draft.notes.join("\n"))
        });
        match fate {
            FieldFate::Carried => assert_ne!(with.0, without.0, "{place} {field}"),
            FieldFate::Named(words) => assert!(with.1.contains(words), "{place} {field}: {}", with.1),
            FieldFate::WithoutEffect => assert_eq!(with, without, "{place} {field}"),
        }
    }
}
