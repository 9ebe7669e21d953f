//! Profiles within records: what goes in comes out, and hostile ones are bounded.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::awkward;
use crate::functions::carried::{KEY, PACKED_BYTES_MAX, decode, encode};
use crate::functions::model::{Builder, DEPTH_MAX, Function, NAME_BYTES_MAX, SAMPLES_MAX};
use crate::record::Info;

#[test]
fn a_profile_comes_back_as_it_was() {
    let profile = awkward();
    assert_eq!(decode(&encode(&profile)).unwrap(), Some(profile));
    assert_eq!(decode(&Info::new()).unwrap(), None);
}

#[test]
fn the_rarest_stacks_of_a_large_profile_are_left_out_and_counted() {
    let mut builder = Builder::new("large", 100);
    for number in 0..20_000_u64 {
        let name = |n: u64| Function::named(&format!("{:016x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        builder.add(None, &[name(number), name(number + 1)], 20_000 - number);
    }
    let profile = builder.finish();
    let info = encode(&profile);
    let text = info[KEY]["stacks"].as_str().unwrap();
    assert!(text.len() <= PACKED_BYTES_MAX * 4 / 3 + 4, "{}", text.len());
    let back = decode(&info).unwrap().unwrap();
    assert_eq!(back.samples(), profile.samples());
    assert!(back.left_out > 0 && back.stacks.len() > 1_000, "{}", back.stacks.len());
    assert_eq!(back.stacks[0].samples, 20_000);
}

#[test]
fn hostile_records_are_refused_or_bounded() {
    let with = |stacks: Value| {
        let mut info = encode(&awkward());
        info[KEY]["stacks"] = stacks;
        info
    };
    assert!(decode(&with(json!("no base64"))).is_err());
    assert!(decode(&with(json!("AAAA"))).is_err());
    assert!(decode(&with(json!("A".repeat(1 << 20)))).is_err());
    assert!(decode(&Info::from_iter([(KEY.to_owned(), json!({"stacks": "x"}))])).is_err());
    // Another program's key of that name.
    assert_eq!(decode(&Info::from_iter([(KEY.to_owned(), json!(7))])).unwrap(), None);
    // A megabyte of names, depth and counts.
    let long = Function::named(&"n".repeat(100_000));
    let mut builder = Builder::new("x", 100);
    builder.add(None, &vec![long; 10_000], u64::MAX);
    builder.add(None, &[Function::named("y")], u64::MAX);
    let profile = builder.finish();
    assert_eq!(profile.stacks[0].frames.len(), DEPTH_MAX);
    assert!(profile.functions[0].name.len() <= NAME_BYTES_MAX + 3);
    assert_eq!(profile.samples(), SAMPLES_MAX);
    assert!(decode(&encode(&profile)).unwrap().is_some());
}

proptest! {
    #[test]
    fn any_info_is_read_without_a_panic(text in ".{0,200}", number in any::<u64>()) {
        let details = json!({"operation": text, "hz": number, "left_out": number, "too_deep": number, "stacks": text});
        let _ = decode(&Info::from_iter([(KEY.to_owned(), details)]));
    }
}
