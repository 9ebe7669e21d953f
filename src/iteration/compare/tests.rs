//! Conditions, from their YAML to what they say of a value.

use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::{ActualValue, Subject, check, expected};
use plan::compare::compiled;
use text::digits;
use text::template::{Value, Variables};

fn variables() -> Variables {
    Variables::new(Arc::new(vec![(Arc::from("n"), Value::from(3))]))
}

fn said(text: &str, found: ActualValue<'_>) -> String {
    let condition = compiled(text).unwrap_or_else(|faults| panic!("{text}: {faults:?}"));
    match check(&condition, &Subject::Variable("v"), found, &variables()) {
        Ok(()) => "ok".to_owned(),
        Err((_, message)) => message,
    }
}

#[test]
fn a_value_meets_a_condition_or_the_message_says_which_part_it_does_not_meet() {
    let list = json!(["a", 2, { "k": 1 }]);
    for (condition, value, message) in [
        ("3", json!(3), "ok"),
        ("3", json!(3.0), "ok"),
        ("3", json!("3"), "the variable v is not `3`"),
        ("null", json!(null), "ok"),
        ("'{{ n }}'", json!(3), "ok"),
        ("'{{ n }}'", json!(4), "the variable v is not `3`"),
        ("[1, '{{ n }}']", json!([1, 3]), "ok"),
        ("{ equals: { a: '{{ n }}' } }", json!({"a": 3}), "ok"),
        ("{ eq: x }", json!("y"), "the variable v is not `\"x\"`"),
        ("{ equals: null }", json!(0), "the variable v is not `null`"),
        ("{ ne: 3 }", json!(4), "ok"),
        ("{ ne: 3 }", json!(3), "the variable v is `3`"),
        ("{ gt: 3 }", json!(4), "ok"),
        ("{ gt: 3 }", json!(3), "the variable v is not more than `3`"),
        ("{ gt: '{{ n }}' }", json!(2.5), "the variable v is not more than `3`"),
        ("{ gt: 3 }", json!("4"), "ok"),
        ("{ gt: 3 }", json!("four"), "the variable v is not a number"),
        ("{ gt: 3 }", json!(null), "the variable v is not a number"),
        ("{ gt: 9007199254740992 }", json!(9_007_199_254_740_993_i64), "ok"),
        ("{ ge: 3, le: 3 }", json!(3), "ok"),
        ("{ ge: 3 }", json!(2), "the variable v is not at least `3`"),
        ("{ ge: 1, lt: 3 }", json!(3), "the variable v is not less than `3`"),
        ("{ le: -0.5 }", json!(0), "the variable v is not at most `-0.5`"),
        ("{ not: 3 }", json!(4), "ok"),
        ("{ not: 3 }", json!(3), "the variable v is `3`"),
        ("{ not: { gt: 3 } }", json!(3), "ok"),
        ("{ not: { gt: 3, lt: 9 } }", json!(4), "the variable v is more than `3` and is less than `9`"),
        ("{ not: { not: { contains: b } } }", json!("abc"), "ok"),
        ("{ not: { not: { contains: z } } }", json!("abc"), "the variable v does not contain `z`"),
        ("{ length: 3 }", list.clone(), "ok"),
        ("{ length: 2 }", list.clone(), "the length of the variable v is not `2`"),
        (
            "{ length: { ge: 1, lt: '{{ n }}' } }",
            list.clone(),
            "the length of the variable v is not less than `3`",
        ),
        ("{ length: 2 }", json!("äö"), "ok"),
        ("{ length: { ge: 1 } }", json!({}), "the length of the variable v is not at least `1`"),
        ("{ length: 1 }", json!(1), "the variable v has no length"),
        ("{ type: string }", json!("3"), "ok"),
        ("{ type: integer }", json!(2.0), "ok"),
        ("{ type: integer }", json!(2.5), "the variable v is not an integer"),
        ("{ type: [number, \"null\"] }", json!(null), "ok"),
        ("{ type: [number, \"null\"] }", json!(true), "the variable v is not a number or null"),
        ("{ type: object }", json!([]), "the variable v is not an object"),
        ("{ type: boolean }", json!(false), "ok"),
        ("{ contains: '{{ n }}' }", json!("a3b"), "ok"),
        ("{ contains: 2 }", list.clone(), "ok"),
        ("{ contains: { k: 1 } }", list.clone(), "ok"),
        ("{ contains: b }", list, "the variable v does not contain `b`"),
        ("{ contains: k }", json!({"k": null}), "ok"),
        ("{ contains: k }", json!(5), "the variable v does not contain `k`"),
        ("{ matches: '^a.c$' }", json!("abc"), "ok"),
        ("{ matches: '^1\\d$' }", json!(12), "ok"),
        ("{ matches: '^a$' }", json!("abc"), "the variable v does not match `^a$`"),
        ("{ one_of: [1, '{{ n }}'] }", json!(3), "ok"),
        ("{ one_of: [1, '{{ n }}', x] }", json!(2), "the variable v is none of `1`, `3`, `\"x\"`"),
        ("{ exists: true }", json!(null), "ok"),
        ("{ exists: false }", json!(null), "there is a variable v"),
        ("{ type: string, matches: '^a' }", json!(5), "the variable v is not a string"),
    ] {
        assert_eq!(said(condition, ActualValue::Json(&value)), message, "{condition} of {value}");
    }
}

#[test]
fn a_text_without_a_type_counts_as_the_number_that_it_spells() {
    for (condition, text, message) in [
        ("3", "3", "ok"),
        ("3", "3.0", "ok"),
        ("3", "4", "the variable v is not `3`"),
        ("abc", "abc", "ok"),
        ("abc", "abd", "the variable v is not `abc`"),
        ("'{{ n }}'", "3", "ok"),
        ("{ gt: 10 }", " 11 ", "ok"),
        ("{ gt: 10 }", "9", "the variable v is not more than `10`"),
        ("{ lt: 10 }", "soon", "the variable v is not a number"),
        ("{ one_of: [gzip, br] }", "br", "ok"),
        ("{ type: integer }", "3", "the variable v is not an integer"),
        ("{ type: string, length: 1 }", "3", "ok"),
        ("{ contains: b, not: { contains: c } }", "abc", "the variable v contains `c`"),
    ] {
        assert_eq!(said(condition, ActualValue::Text(text)), message, "{condition} of {text}");
    }
}

#[test]
fn numbers_are_compared_with_all_their_digits() {
    let big = "123456789012345678901234567890";
    for (condition, found, holds) in [
        ("9007199254740993", "9007199254740993", true),
        ("9007199254740992", "9007199254740993", false),
        ("{ ne: 9007199254740992 }", "9007199254740993", true),
        ("{ one_of: [1, 2733382000000000051] }", "2733382000000000049", false),
        ("2733382000000000000", "2733382000000000049", false),
        ("2733382000000000049.0", "2733382000000000049", true),
        ("{ ge: 2733382000000000050 }", "2733382000000000049", false),
        ("{ not: { ne: 2733382000000000050 } }", "2733382000000000049", false),
        ("{ gt: 9007199254740992 }", "9007199254740993", true),
        ("{ le: 9007199254740992 }", "9007199254740993", false),
        ("{ gt: 12345678901234567889 }", "12345678901234567890", true),
        ("123456789012345678901234567890", big, true),
        ("123456789012345678901234567891", big, false),
        ("{ lt: 123456789012345678901234567891 }", big, true),
        ("{ gt: 1e400 }", "1E401", true),
        ("1e400", "1E400", true),
        ("1", "1.0", true),
        ("100", "1e2", true),
        ("1.5", "1.50", true),
        ("0.3", "0.30000000000000004", false),
        ("0.1234567890123456789", "0.1234567890123456789", true),
        ("0.1234567890123456788", "0.1234567890123456789", false),
        ("0x1F", "31", true),
        ("-9223372036854775808", "-9223372036854775809", false),
        ("{ equals: { a: [1.50] } }", "{\"a\": [1.5]}", true),
        ("{ contains: 18446744073709551616 }", "[18446744073709551617]", false),
        ("{ contains: 18446744073709551616 }", "[18446744073709551616]", true),
        ("[18446744073709551616]", "[18446744073709551617]", false),
        ("{ type: integer }", "18446744073709551616", true),
        ("{ type: integer }", "1E400", true),
        ("{ type: integer }", "1.50", false),
        ("{ type: number }", "1E400", true),
        ("{ type: object }", "1E400", false),
        ("{ length: 1 }", "1E400", false),
        ("{ contains: '5' }", "1.50", false),
        ("{ matches: '^1[.]50$' }", "1.50", true),
        ("'{{ 18446744073709551616 }}'", "18446744073709551617", false),
        ("'{{ 18446744073709551616 }}'", "18446744073709551616", true),
    ] {
        let value = digits::parse(found.as_bytes()).unwrap();
        assert_eq!(said(condition, ActualValue::Json(&value)) == "ok", holds, "{condition} of {found}");
    }
    for (condition, text, holds) in [
        ("9007199254740993", "9007199254740992", false),
        ("1.50", "01.5", true),
        ("18446744073709551616", "18446744073709551617", false),
        ("{ lt: 18446744073709551616 }", "18446744073709551615", true),
        ("{ gt: 1 }", "1E400", true),
        ("{ gt: 1 }", "inf", false),
    ] {
        assert_eq!(said(condition, ActualValue::Text(text)) == "ok", holds, "{condition} of the text {text}");
    }
    let value = digits::parse(b"2733382000000000049").unwrap();
    assert_eq!(
        said("2733382000000000050.10", ActualValue::Json(&value)),
        "the variable v is not `2733382000000000050.10`"
    );
}

#[test]
fn what_is_missing_meets_only_its_absence_and_negations() {
    for (condition, message) in [
        ("{ exists: false }", "ok"),
        ("{ not: 3 }", "ok"),
        ("{ not: { exists: true } }", "ok"),
        ("{ not: { length: { ge: 1 } } }", "ok"),
        ("{ exists: true }", "there is no variable v"),
        ("{ ne: 3 }", "there is no variable v"),
        ("{ gt: 3 }", "there is no variable v"),
        ("{ length: 0 }", "there is no variable v"),
        ("{ type: 'null' }", "there is no variable v"),
    ] {
        assert_eq!(said(condition, ActualValue::Nothing), message, "{condition}");
    }
}

#[test]
fn a_bound_must_become_a_number_and_expectations_are_said_in_full() {
    let condition = compiled("{ gt: '{{ n }}x' }").ok().unwrap();
    let failed = check(&condition, &Subject::Body, ActualValue::Text("1"), &variables()).unwrap_err();
    assert_eq!(failed.0.as_str(), "template");
    let value = Json::from(1);
    for (text, words) in [
        (
            "{ ge: 1, not: { length: { gt: 2 } } }",
            "is at least `1` and has a length that is not more than `2`",
        ),
        ("{ exists: true, contains: [1] }", "exists and contains `[1]`"),
        ("{ matches: a, one_of: [1, b] }", "matches `a` and is one of `1`, `\"b\"`"),
    ] {
        let condition = compiled(text).ok().unwrap();
        assert_eq!(expected(&condition, ActualValue::Json(&value), &variables()).unwrap(), words);
    }
}
