//! Requests with a valid signature but arbitrary contents: the library's middleware and ours trace the same requests,
//! with the same ids.

use bench::base::secret::Secret;
use bench::osprofiler::signing::{Signer, X_TRACE_HMAC, X_TRACE_INFO};
use bench::osprofiler::verifying::ServerKeys;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::real_osprofiler::Peer;
use crate::support::service;

const CASES: usize = 1_000;

/// Values of an id, the usual ones most often.
fn id() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => "[0-9a-f]{8}-[0-9a-f]{4}".prop_map(|id| format!("\"{id}\"")),
        1 => Just("\"\"".to_owned()),
        1 => Just("null".to_owned()),
        1 => Just("false".to_owned()),
        1 => Just("0".to_owned()),
        1 => Just("[]".to_owned()),
        1 => Just("{}".to_owned()),
        1 => "[a-zé😀]{1,5}".prop_map(|id| format!("\"{id}\"")),
    ]
}

/// JSON objects with some keys, in any order, perhaps twice, perhaps damaged.
fn json_text() -> impl Strategy<Value = String> {
    let key = prop_oneof![
        8 => Just("base_id"),
        6 => Just("parent_id"),
        1 => Just("hmac_key"),
        1 => Just("other"),
        1 => Just(""),
    ];
    let entry = (key, id()).prop_map(|(key, value)| format!("\"{key}\": {value}"));
    let entries = prop::collection::vec(entry, 0..4);
    (entries, 0_u8..16, 0_usize..60).prop_map(|(entries, damage, at)| {
        let text = format!("{{{}}}", entries.join(", "));
        match damage {
            0 => text.chars().take(at).collect(),
            1 => format!("[{text}]"),
            2 => format!(" \t{text}\n"),
            3 => "7".to_owned(),
            4 => String::new(),
            _ => text,
        }
    })
}

/// How the text is written in the header.
fn header() -> impl Strategy<Value = String> {
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE, URL_SAFE_NO_PAD};
    (json_text(), 0_u8..12).prop_map(|(json, form)| match form {
        0 => URL_SAFE_NO_PAD.encode(&json),
        1 => STANDARD.encode(&json),
        2 => format!("{}===", URL_SAFE.encode(&json)),
        3 => format!("!{}*", URL_SAFE.encode(&json)),
        _ => URL_SAFE.encode(&json),
    })
}

#[test]
fn real_middleware_and_ours_trace_the_same_requests() {
    let Some(python) = service("BENCH_TEST_PYTHON", "a Python that has OSProfiler") else { return };
    let mut peer = Peer::run(&python, "osprofiler_peer.py");
    let mut runner = TestRunner::default();
    let keys = (
        prop_oneof![3 => Just("k"), 1 => Just("other"), 1 => Just("a,b")],
        prop_oneof![2 => Just("k"), 1 => Just("x, k ,y"), 1 => Just("a,b"), 1 => Just(",")],
        prop_oneof![6 => Just(""), 1 => Just(" "), 1 => Just("0")],
    );
    let case = (header(), keys);
    let (mut traced, mut refused) = (0, 0);
    for _ in 0..CASES {
        let (info, (key, server_keys, behind)) = case.new_tree(&mut runner).unwrap().current();
        let hmac = hmac(key, &info) + behind;
        let headers = json!({X_TRACE_INFO: info, X_TRACE_HMAC: hmac});
        let theirs = peer.ask(&json!({"op": "verify", "hmac_keys": server_keys, "headers": headers}));
        let ours = ServerKeys::parse(server_keys).verify(info.as_bytes(), hmac.as_bytes());
        if theirs.get("error").is_some() {
            // What makes the library's service fail is not traced here.
            assert!(ours.is_err(), "{info} {theirs}");
            continue;
        }
        assert_eq!(theirs["accepted"] == true, ours.is_ok(), "{info} {key} {server_keys}: {theirs} {ours:?}");
        let Ok(context) = ours else {
            refused += 1;
            continue;
        };
        traced += 1;
        let made_up = |id: &Value| id.as_str().is_some_and(|id| id.len() == 36);
        if theirs["base_id"] != json!(context.base_id) {
            assert!(made_up(&theirs["base_id"]) && context.base_id.len() == 36, "{theirs} {context:?}");
        }
        if theirs["parent_id"] != json!(context.parent_id) {
            assert_eq!((&theirs["parent_id"], &context.parent_id), (&theirs["base_id"], &context.base_id));
        }
    }
    println!("{traced} traced, {refused} refused of {CASES}");
    assert!(traced > CASES / 20 && refused > CASES / 20, "{traced} {refused}");
}

/// The signature over any text; [`Signer`] itself signs ids only.
fn hmac(key: &str, info: &str) -> String {
    use hmac::{KeyInit as _, Mac as _};
    assert!(Signer::new(&Secret::new(key)).is_some());
    let mut keyed = hmac::Hmac::<sha1::Sha1>::new_from_slice(key.as_bytes()).unwrap();
    keyed.update(info.as_bytes());
    keyed.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}
