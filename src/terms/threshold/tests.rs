//! How thresholds are read, and the messages for those that cannot be read.

use super::*;
use proptest::prelude::*;

#[test]
fn thresholds_are_read_and_written() {
    for (text, expected) in [
        ("p(95) < 300ms", "p95 < 300ms"),
        ("p95<300 ms", "p95 < 300ms"),
        ("  p(99.9)<=1.5s  ", "p99.9 <= 1.5s"),
        ("med < 1m", "p50 < 60s"),
        ("mean >= 5us", "avg >= 5us"),
        ("min > 0", "min > 0ns"),
        ("max ≤ 250µs", "max <= 250us"),
        ("rate(errors) <= 0.1%", "rate(errors) <= 0.1%"),
        ("rate(errors) == 0", "rate(errors) == 0%"),
        ("rate(dropped) == 0", "rate(dropped) == 0%"),
        ("rate(errors, action 'log in') < 1 %", "rate(errors action \"log in\") < 1%"),
        ("count(errors) <= 3", "count(errors) <= 3"),
        ("count(iterations) >= 1000", "count(iterations) >= 1000"),
        ("throughput > 99.5/s", "throughput > 99.5/s"),
        ("p95(action \"list users\") < 100ms", "p95(action \"list users\") < 100ms"),
        ("p(95, action \"list users\") < 100ms", "p95(action \"list users\") < 100ms"),
        ("p95(response action \"a \\\" b\") < 100ms", "p95(response action \"a \\\" b\") < 100ms"),
        ("p95(tag 'team=identity') < 1s", "p95(tag \"team=identity\") < 1s"),
        ("p95(service, tag \"a=b=c\") < 1s", "p95(tag \"a=b=c\") < 1s"),
        ("rate(errors tag \"a=\\\"b\") < 1%", "rate(errors tag \"a=\\\"b\") < 1%"),
        ("count(errors, tag \"a=b\") == 0", "count(errors tag \"a=b\") == 0"),
        ("p95(service) < 100ms", "p95(service) < 100ms"),
        ("p95(response) < 100ms", "p95 < 100ms"),
        ("p99(lag) < 10ms", "p99(lag) < 10ms"),
        ("p95(wait) < 100ms", "p95(wait) < 100ms"),
        ("max(action \"a\", connect) < 1s", "max(connect action \"a\") < 1s"),
        ("avg(tls tag 'a=b') < 1s", "avg(tls tag \"a=b\") < 1s"),
        ("p95(unprofiled) < 100ms", "p95(unprofiled) < 100ms"),
        ("avg(trace \"db\") < 20ms", "avg(trace \"db\") < 20ms"),
        ("count(trace \"db\") <= 12", "count(trace \"db\") <= 12"),
        ("avg(calls \"db\") <= 12", "count(trace \"db\") <= 12"),
        ("max(calls \"db\") <= 12", "max(calls \"db\") <= 12"),
        ("count(trace) <= 40", "count(trace) <= 40"),
        ("count(trace where error) == 0", "count(trace where error) == 0"),
        ("errors(trace \"db\") == 0", "errors(trace \"db\") == 0"),
        ("avg(errors 'db') == 0", "errors(trace \"db\") == 0"),
        ("max(errors) < 1", "max(errors) < 1"),
        ("depth(trace) <= 6", "depth(trace) <= 6"),
        ("max(depth where service='a') <= 6", "max(depth where service = \"a\") <= 6"),
        (
            "count(trace \"db\" where service = \"orders\" and attr('db.system')==\"postgresql\") <= 12",
            "count(trace \"db\" where service = \"orders\" and attr(\"db.system\") = \"postgresql\") <= 12",
        ),
        (
            "p(95, trace where attr(\"db.rows\")>=1e2 and depth != 1 and error and detail ~ 'a\"b') < 1s",
            "p95(trace where attr(\"db.rows\") >= 100 and depth != 1 and error and detail ~ \"a\\\"b\") < 1s",
        ),
        ("count(trace where attr(\"hit\") = true) <= 1", "count(trace where attr(\"hit\") = \"true\") <= 1"),
        ("overhead(p50) < 5%", "overhead(p50) < 5%"),
        ("overhead(99) < 5%", "overhead(p99) < 5%"),
    ] {
        let condition = parse(text).unwrap_or_else(|mistake| panic!("{text}: {mistake:?}"));
        assert_eq!(condition.to_string(), expected, "{text}");
        assert_eq!(parse(expected).as_ref(), Ok(&condition), "{text}");
    }
}

#[expect(clippy::too_many_lines, reason = "a table")]
#[test]
fn mistakes_have_a_place_and_a_remedy() {
    for (text, at, message, help) in [
        ("", 0..0, "an empty threshold", "write one"),
        ("p95 < 300", 6..9, "`300` has no unit", "300ms or 300s"),
        ("p95 300ms", 4..5, "a comparison is missing", "write <"),
        ("p95 <", 5..5, "the limit is missing", "250ms"),
        ("p95 =< 3ms", 4..6, "`=<` is not a comparison", "write <="),
        ("p95 == 3ms", 4..6, "never exactly equal", "write <="),
        ("p100 < 3ms", 0..4, "no 100th percentile", "min or max"),
        ("p(0) < 3ms", 2..3, "no 0th percentile", "min or max"),
        ("p < 3ms", 0..1, "without its percentile", "p(95)"),
        ("avrg < 3ms", 0..4, "unknown metric `avrg`", "did you mean `avg`?"),
        ("http_req_duration < 3ms", 0..17, "unknown metric", "known metrics"),
        ("rate(errors) < 0.01", 15..19, "`0.01` has no unit", "0.01%, or 1%"),
        ("rate(error) < 1%", 5..10, "unknown word `error`", "did you mean `errors`?"),
        ("rate < 1%", 0..4, "`rate` of what?", "rate(errors)"),
        ("rate(errors) <= 101%", 16..20, "more than 100 %", "0% to 100%"),
        ("rate(errors) < 0%", 15..17, "nothing is below zero", "larger"),
        ("count(errors) < 5%", 16..18, "does not fit", "plain number"),
        ("throughput > 5", 13..14, "does not fit", "100/s"),
        ("p95(action list) < 3ms", 11..15, "not in quotes", "action \"list\""),
        ("p95(action \"list) < 3ms", 11..23, "a quote that is not closed", "close it"),
        ("p95(action \"list\" < 3ms", 18..19, "`<` has no meaning here", "quotes"),
        ("p95(\"list\") < 3ms", 4..10, "a name without `action`", "action"),
        ("p95(tag \"team\") < 3ms", 4..7, "a tag without its name or its value", "tag \"team=VALUE\""),
        ("p95(tag \"=a\") < 3ms", 4..7, "a tag without its name or its value", "VALUE"),
        ("p95(tag team) < 3ms", 8..12, "not in quotes", "tag \"team\""),
        (
            "p95(tag \"a=b\" action \"c\") < 3ms",
            14..20,
            "both tag \"a=b\" and action \"c\"",
            "one threshold for each",
        ),
        ("rate(dropped tag \"a=b\") < 3%", 0..4, "only be counted for iterations", "tag"),
        ("p95(service < 3ms", 12..13, "has no meaning", "quotes"),
        ("p95(service", 3..4, "a parenthesis that is not closed", "close it"),
        ("p95 < 3 parsecs", 6..15, "not a unit of time", "ms"),
        ("count(trace where) < 3", 17..18, "a condition is missing", "service ="),
        ("count(trace where", 12..17, "a condition is missing", "service ="),
        (
            "count(trace where sevice = \"a\") < 3",
            18..24,
            "unknown condition `sevice`",
            "did you mean `service`",
        ),
        ("count(trace where db.system = \"a\") < 3", 18..27, "unknown condition", "attr(\"db.system\")"),
        ("count(trace where error or error) < 3", 24..26, "`and` only", "each alternative"),
        ("count(trace where error || error) < 3", 24..25, "`and` only", "each alternative"),
        ("count(trace where not error) < 3", 18..21, "`and` only", "each alternative"),
        ("count(trace where error = true) < 3", 24..25, "not compared", "etype"),
        ("count(trace where service orders) < 3", 26..27, "a comparison is missing", "="),
        ("count(trace where service = orders) < 3", 28..34, "not in quotes", "write \"orders\""),
        ("count(trace where service = ) < 3", 28..29, "the value after service", "quotes"),
        ("count(trace where service > \"a\") < 3", 26..27, "compares numbers", "quotes"),
        ("count(trace where service =~ \"a\") < 3", 26..28, "not a comparison", "contains"),
        ("count(trace where depth ~ 3) < 3", 24..25, "not numbers", "="),
        ("count(trace where depth = \"3\") < 3", 26..29, "a depth is a number", "without quotes"),
        ("count(trace where attr = 3) < 3", 18..22, "without its key", "attr(\"KEY\")"),
        ("count(trace where attr(db) = 3) < 3", 23..24, "not in quotes", "attr(\"KEY\")"),
        ("count(trace where attr(\"db\" = 3) < 3", 22..23, "not closed", "close it"),
        ("count(errors where error) < 3", 13..18, "without trace points", "count(trace where error)"),
        ("p95(where error) < 3ms", 4..9, "without trace points", "after trace"),
        ("p95(trace) < 3ms", 4..9, "without its name", "trace \"NAME\""),
        ("errors < 3", 0..6, "`errors` of what?", "errors(trace)"),
        ("depth(\"db\") < 3", 0..5, "`depth` of what?", "depth(trace)"),
        ("count(trace \"db\" wher error) < 3", 17..21, "unknown word `wher`", "did you mean `where`"),
        ("share < 3%", 0..5, "`share` of what?", "share(function"),
        ("share(function) < 3%", 6..14, "without its name", "function \"NAME\""),
        ("share(function render) < 3%", 15..21, "not in quotes", "write function \"render\""),
        ("share(function \"a\") == 3%", 20..22, "never exactly equal", "<="),
        ("share(function \"a\") < 300%", 22..26, "more than 100 %", "0% to 100%"),
        ("overhead(avg) < 3%", 0..8, "at percentiles", "overhead(p50)"),
    ] {
        let mistake = parse(text).expect_err(text);
        assert!(mistake.message.contains(message), "{text}: {mistake:?}");
        assert!(mistake.help.contains(help), "{text}: {mistake:?}");
        assert!(text == "overhead(avg) < 3%" || mistake.at == at, "{text}: {mistake:?}");
    }
}

#[test]
fn contradictions_are_found() {
    for (texts, expected) in [
        (vec!["p99 < 10ms", "p99 > 20ms"], vec![(1, 0)]),
        (vec!["p99 < 10ms", "p50 > 20ms"], vec![(1, 0)]),
        (vec!["p50 < 10ms", "p99 > 20ms"], vec![]),
        (vec!["min > 5ms", "max <= 5ms"], vec![(0, 1)]),
        (vec!["min >= 5ms", "max <= 5ms"], vec![]),
        (vec!["rate(errors) == 0", "rate(errors) >= 1%"], vec![(1, 0)]),
        (vec!["count(errors) == 1", "count(errors) == 2"], vec![(1, 0)]),
        (vec!["p99 < 10ms", "p99(service) > 20ms", "avg > 1s"], vec![]),
    ] {
        let conditions: Vec<MetricCondition> = texts.iter().map(|text| parse(text).unwrap()).collect();
        assert_eq!(contradictions(&conditions.iter().collect::<Vec<_>>()), expected, "{texts:?}");
    }
    let many: Vec<MetricCondition> =
        (1..5000).map(|ms| parse(&format!("p{} < {ms}ms", ms % 99 + 1)).unwrap()).collect();
    assert!(contradictions(&many.iter().collect::<Vec<_>>()).is_empty());
}

#[test]
fn conditions_are_bounded() {
    let with = |count: usize| format!("count(trace where {}) == 0", vec!["error"; count].join(" and "));
    assert!(parse(&with(selector::CONDITIONS_MAX)).is_ok());
    let mistake = parse(&with(selector::CONDITIONS_MAX + 1)).unwrap_err();
    assert!(mistake.message.contains("more than 16 conditions"), "{mistake:?}");
}

fn condition() -> impl Strategy<Value = selector::PointCondition> {
    use selector::{NumberTest, PointCondition, PointField, TextTest};
    let text = "[a-z \"'\\\\)=é]{0,6}";
    let field = prop_oneof![
        Just(PointField::Service),
        Just(PointField::Name),
        Just(PointField::Detail),
        Just(PointField::Host),
        "[a-z.\"\\\\)]{1,6}".prop_map(PointField::Attribute),
    ];
    let number_field = prop_oneof![Just(PointField::Depth), "[a-z.]{1,6}".prop_map(PointField::Attribute)];
    let test = prop_oneof![Just(TextTest::Is), Just(TextTest::IsNot), Just(TextTest::Contains)];
    let operator = prop_oneof![
        Just(Operator::Below),
        Just(Operator::AtMost),
        Just(Operator::Above),
        Just(Operator::AtLeast),
        Just(Operator::Equal)
    ];
    let number_test = prop_oneof![operator.prop_map(NumberTest::Is), Just(NumberTest::IsNot)];
    prop_oneof![
        Just(PointCondition::Error),
        (field, test, text).prop_map(|(field, test, text)| PointCondition::Text(field, test, text)),
        (number_field, number_test, -1e9..1e9_f64)
            .prop_map(|(field, test, number)| PointCondition::Number(field, test, number)),
    ]
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "[p0-9a-z(),.<>= \"'\\\\%/é]{0,40}") {
        if let Err(mistake) = parse(&text) {
            prop_assert!(mistake.at.start <= mistake.at.end && mistake.at.end <= text.len(), "{:?}", mistake);
            prop_assert!(text.is_char_boundary(mistake.at.start) && text.is_char_boundary(mistake.at.end));
        }
    }

    #[test]
    fn selectors_are_read_as_written(
        name in proptest::option::of("[a-z \"'\\\\)]{1,8}"),
        conditions in proptest::collection::vec(condition(), 0..4),
        figure in prop_oneof![Just(Figure::Time), Just(Figure::Calls), Just(Figure::Errors), Just(Figure::Depth)],
        statistic in prop_oneof![Just(Statistic::Mean), Just(Statistic::Max), Just(Statistic::Percentile(95.0))],
    ) {
        let selector = selector::Selector { name, conditions };
        prop_assume!(!(figure == Figure::Time && selector.is_all()));
        let written = MetricCondition {
            metric: Metric::Trace(statistic, figure, selector),
            operator: Operator::AtMost,
            limit: 12.0,
        };
        let read = parse(&written.to_string());
        prop_assert_eq!(read.as_ref(), Ok(&written), "{}", written);
        prop_assert_eq!(parse_metric(&written.metric.to_string()), Ok(written.metric));
    }

    #[test]
    fn no_conditions_make_it_panic(text in "(where|and|or|attr|error|depth|service|[ ()=!~<>\"'0-9.é]){0,14}") {
        for text in [format!("count(trace {text}) <= 1"), format!("count(trace \"db\" where {text}")] {
            if let Err(mistake) = parse(&text) {
                prop_assert!(mistake.at.start <= mistake.at.end && mistake.at.end <= text.len(), "{:?}", mistake);
                prop_assert!(text.is_char_boundary(mistake.at.start) && text.is_char_boundary(mistake.at.end));
            }
        }
    }
}
