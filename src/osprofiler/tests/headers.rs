//! Headers: byte-identical when written, accepted and rejected alike when read.

use proptest::prelude::*;
use serde_json::Value;
use uuid::Uuid;

use super::vectors;
use crate::signing::{Signer, traceparent};
use crate::verifying::{Rejection, ServerKeys, split};
use base::ids::span_id;
use base::secret::Secret;

fn text<'a>(case: &'a Value, key: &str) -> &'a str {
    case[key].as_str().unwrap_or_else(|| panic!("no text {key} in {case}"))
}

fn canonical(id: &str) -> Option<Uuid> {
    Uuid::parse_str(id).ok().filter(|uuid| uuid.to_string() == id)
}

#[test]
fn packed_headers_are_those_of_osprofiler() {
    let (mut fast, mut unsigned) = (0, 0);
    for case in vectors()["pack"].as_array().unwrap() {
        let Some(signer) = Signer::new(&Secret::new(text(case, "hmac_key"))) else {
            assert!(case.get("x_trace_hmac").is_none(), "{case}");
            unsigned += 1;
            continue;
        };
        let (base_id, parent_id) = (text(case, "base_id"), text(case, "parent_id"));
        let (info, hmac) = signer.sign_text(base_id, parent_id);
        assert_eq!(info, text(case, "x_trace_info"), "{case}");
        assert_eq!(hmac, text(case, "x_trace_hmac"), "{case}");
        if let (Some(base_id), Some(parent_id)) = (canonical(base_id), canonical(parent_id)) {
            let headers = signer.for_base(base_id).sign(parent_id);
            assert_eq!((headers.trace_info(), headers.hmac()), (info.as_str(), hmac.as_str()), "{case}");
            fast += 1;
        }
    }
    assert!(fast >= 15 && unsigned == 1, "{fast} {unsigned}");
}

#[test]
fn signed_pack_is_that_of_osprofiler_where_both_ids_are_there() {
    let mut checked = 0;
    for case in vectors()["signed_pack"].as_array().unwrap() {
        let data: Value = serde_json::from_str(text(case, "data_json")).unwrap();
        let (Some(base_id), Some(parent_id)) = (data["base_id"].as_str(), data["parent_id"].as_str()) else {
            continue;
        };
        match case["hmac_key"].as_str() {
            None => assert!(Signer::new(&Secret::new("")).is_none()),
            Some(key) => {
                let (info, hmac) = Signer::new(&Secret::new(key)).unwrap().sign_text(base_id, parent_id);
                assert_eq!((info.as_str(), hmac.as_str()), (text(case, "raw"), text(case, "hmac")));
                checked += 1;
            }
        }
    }
    assert_eq!(checked, 1);
}

#[test]
fn headers_are_unpacked_as_by_osprofiler() {
    // `signed_unpack` leaves keys to the middleware; here both are one step.
    let judged_later = [
        "json extra keys (signed_unpack does not judge keys)",
        "json empty object",
        // A service's keys are split first, which leaves out empty ones.
        "empty key in the list",
    ];
    for case in vectors()["signed_unpack"].as_array().unwrap() {
        let keys: Vec<&str> =
            case["hmac_keys"].as_array().unwrap().iter().map(|key| key.as_str().unwrap()).collect();
        let name = text(case, "name");
        let keys = ServerKeys::parse(&keys.join(","));
        let verdict = keys.verify(text(case, "trace_info").as_bytes(), text(case, "trace_hmac").as_bytes());
        let expected = case["accepted"] == true && !judged_later.contains(&name);
        assert_eq!(verdict.is_ok(), expected, "{name}: {verdict:?}");
        if let Ok(context) = verdict {
            assert_eq!(context.base_id, text(&case["result"], "base_id"), "{name}");
            let parent_id = case["result"]["parent_id"].as_str().unwrap_or(&context.base_id);
            assert_eq!(context.parent_id, parent_id, "{name}");
            let key = Secret::new(text(&case["result"], "hmac_key"));
            let expected = Signer::new(&key).unwrap().sign_text("a", "b");
            assert_eq!(context.signer.sign_text("a", "b"), expected, "{name}");
        }
    }
}

#[test]
fn keys_are_split_as_by_osprofiler() {
    for case in vectors()["split_hmac_keys"].as_array().unwrap() {
        let keys: Vec<&str> = split(text(case, "config")).collect();
        assert_eq!(Value::from(keys.clone()), case["keys"]);
        assert_eq!(ServerKeys::parse(text(case, "config")).is_empty(), keys.is_empty());
    }
}

#[test]
fn ids_become_the_trace_and_span_ids_of_the_otlp_driver() {
    let mut checked = 0;
    for case in vectors()["ids"].as_array().unwrap() {
        let id = match (case["input"].as_str(), case["input_int"].as_str()) {
            (Some(input), _) if case.get("random_each_time").is_none() => Uuid::parse_str(input).unwrap(),
            (_, Some(number)) => Uuid::from_u128(number.parse().unwrap()),
            _ => continue,
        };
        assert_eq!(format!("{:016x}", span_id(id)), text(case, "span_id_hex16"));
        let (trace, span) = (text(case, "trace_id_hex32"), text(case, "span_id_hex16"));
        assert_eq!(traceparent(id, id).as_str(), format!("00-{trace}-{span}-01"));
        checked += 1;
    }
    assert_eq!(checked, 14);
}

#[test]
fn ids_of_any_text_are_escaped_as_by_python() {
    let signer = Signer::new(&Secret::new("K")).unwrap();
    let (info, hmac) = signer.sign_text("é漢😀\"\\\u{7f}\n\u{1}/", "p");
    let json = super::super::base64url::decode_lenient(info.as_bytes()).unwrap();
    let expected = r#"{"base_id": "\u00e9\u6f22\ud83d\ude00\"\\\u007f\n\u0001/", "parent_id": "p"}"#;
    assert_eq!(String::from_utf8(json).unwrap(), expected);
    let context = ServerKeys::parse("K").verify(info.as_bytes(), hmac.as_bytes()).unwrap();
    assert_eq!(context.base_id, "é漢😀\"\\\u{7f}\n\u{1}/");
}

#[test]
fn rejections_say_why() {
    let keys = ServerKeys::parse("K");
    let signer = Signer::new(&Secret::new("K")).unwrap();
    let (info, hmac) = signer.sign_text("b", "p");
    let long = "a".repeat(9000);
    for (info, hmac, expected) in [
        ("", hmac.as_str(), Rejection::Missing),
        (&info, " \t", Rejection::Missing),
        (&info, "00", Rejection::WrongSignature),
        (&long, &hmac, Rejection::TooLong { len: 9000 }),
        ("é", &hmac, Rejection::NotAscii),
    ] {
        assert_eq!(keys.verify(info.as_bytes(), hmac.as_bytes()).unwrap_err(), expected);
    }
    let no_keys = ServerKeys::parse(" , ").verify(info.as_bytes(), hmac.as_bytes());
    assert_eq!(no_keys.unwrap_err(), Rejection::NoKeys);
}

#[test]
fn nothing_shows_a_key() {
    let signer = Signer::new(&Secret::new("hunter2")).unwrap();
    let shown = format!("{signer:?} {:?} {:?}", signer.for_base(Uuid::nil()), ServerKeys::parse("hunter2"));
    assert!(!shown.contains("hunter2"), "{shown}");
}

fn signed(json: &[u8]) -> (Vec<u8>, String) {
    use hmac::{Hmac, KeyInit, Mac};
    let info = super::super::base64url::encode(json).into_bytes();
    let mut hmac = Hmac::<sha1::Sha1>::new_from_slice(b"K").unwrap();
    hmac.update(&info);
    let digest = hmac.finalize().into_bytes();
    (info, digest.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[test]
fn what_python_takes_as_no_id_is_made_up_and_other_types_are_rejected() {
    let keys = ServerKeys::parse("K");
    for empty in ["null", "false", "0", "0.0", "\"\"", "[]", "{}"] {
        let (info, hmac) = signed(format!("{{\"base_id\": {empty}}}").as_bytes());
        let context = keys.verify(&info, hmac.as_bytes()).unwrap();
        assert!(canonical(&context.base_id).is_some(), "{empty}");
        assert_eq!(context.parent_id, context.base_id);
    }
    for other in ["1", "true", "[1]", "{\"a\": 1}"] {
        let (info, hmac) = signed(format!("{{\"base_id\": {other}}}").as_bytes());
        let rejection = keys.verify(&info, hmac.as_bytes()).unwrap_err();
        assert_eq!(rejection, Rejection::IdNotText { key: "base_id" });
    }
}

proptest! {
    #[test]
    fn any_ids_survive_the_headers(base_id in ".+", parent_id in ".+", key in "[^,\\s][^,]{0,80}[^,\\s]") {
        let (info, hmac) = Signer::new(&Secret::new(key.clone())).unwrap().sign_text(&base_id, &parent_id);
        let context = ServerKeys::parse(&format!("other, {key}")).verify(info.as_bytes(), hmac.as_bytes());
        let context = context.unwrap();
        prop_assert_eq!((context.base_id, context.parent_id), (base_id, parent_id));
    }

    #[test]
    fn the_fast_path_signs_what_the_plain_one_signs(base: u128, parent: u128, key in ".{1,80}") {
        let signer = Signer::new(&Secret::new(key)).unwrap();
        let (base, parent) = (Uuid::from_u128(base), Uuid::from_u128(parent));
        let headers = signer.for_base(base).sign(parent);
        let expected = signer.sign_text(&base.to_string(), &parent.to_string());
        prop_assert_eq!((headers.trace_info(), headers.hmac()), (expected.0.as_str(), expected.1.as_str()));
    }

    #[test]
    fn verifying_never_panics(info: Vec<u8>, hmac: Vec<u8>, json: Vec<u8>) {
        let keys = ServerKeys::parse("K");
        prop_assert!(keys.verify(&info, &hmac).is_err());
        let (info, hmac) = signed(&json);
        let _ = keys.verify(&info, hmac.as_bytes());
    }

    #[test]
    fn verifying_signed_json_never_panics(json in "[{}\\[\\]\",:a-z0-9\\\\]{0,60}") {
        let (info, hmac) = signed(json.as_bytes());
        let _ = ServerKeys::parse("K").verify(&info, hmac.as_bytes());
    }
}
