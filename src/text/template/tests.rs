//! The limits of templates, and that the guards do not change their results.

use std::sync::Arc;

use minijinja::{Environment, UndefinedBehavior};

use super::{CompiledText, Engine, TemplateError, Value, Variables, allowance, from_json};
use crate::digits;

fn variables() -> Variables {
    let list: Vec<i64> = (0..50).collect();
    let shared = vec![
        (Arc::from("n"), Value::from(3)),
        (Arc::from("big"), Value::from(10_000_000_000_i64)),
        (Arc::from("f"), Value::from(1.5)),
        (Arc::from("s"), Value::from("a<b'\n c")),
        (Arc::from("list"), Value::from(list)),
        (Arc::from("map"), Value::from_serialize(serde_json::json!({"b": [1, {"c": "x"}], "a": null}))),
    ];
    Variables::new(Arc::new(shared))
}

fn rendered(text: &str) -> Result<String, TemplateError> {
    let mut output = String::new();
    Engine::new().compile(text)?.render(&variables(), &mut output)?;
    Ok(output)
}

/// Texts that used up the memory or never ended, before there were limits.
const ENDLESS: &[&str] = &[
    "{{ [1] * 10000000000 }}",
    "{{ [1] * big }}",
    "{{ big * [1] }}",
    "{{ [1] * 10**10 }}",
    "{{ [[1] * 1000] * 1000 * 1000 }}",
    "{{ 'a' * 10**9 }}",
    "{{ 'a' * big }}",
    "{{ ('a' * 90000000) ~ 'b' }}",
    "{{ ([1] * 10000000000) ~ '' }}",
    "{{ [1] * 10000000000 == [1] * 10000000000 }}",
    "{{ 2 in [1] * 10000000000 }}",
    "{{ 1 < 2 in [1] * 10000000000 }}",
    "{{ ([1] * 10000000000)|join }}",
    "{{ ([1] * 10000000000)|list|length }}",
    "{{ ([1] * 10000000000)[-1] }}",
    "{{ ([1] * 10000000000)[::-1] }}",
    "{{ range(100000)|map('string')|join('x' * 1000) }}",
    "{{ ('a,' * 100000)|replace(',', 'b' * 1000) }}",
    "{{ ('a' * 100000)|replace('', 'b' * 1000) }}",
    "{{ 'a\nb'|indent(1000000000) }}",
    "{{ 'a\nb'|indent(width=1000000000) }}",
    "{{ [1]|batch(1000000000, 'x') }}",
    "{{ [1]|slice(1000000000, 'x') }}",
    "{{ [[[1]]]|tojson(100000000) }}",
    "{{ [[[1]]]|tojson(indent=100000000) }}",
    "{{ '%1000000000d'|format(1) }}",
    "{{ '%.1000000000f'|format(1.5) }}",
    "{{ '%*d'|format(1000000000, 1) }}",
    "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
    "{% for a in [1] * 10000000000 %}{% endfor %}",
    "{% for a in range(100000) %}{{ 'xxxxxxxxxx' * 1000 }}{% endfor %}",
    "{% for a in range(100000) %}{% set b %}{{ 'xxxxxxxxxx' * 1000 }}{% endset %}{% endfor %}",
    "{% set ns = namespace(s='x') %}{% for a in range(100) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
    "{% set ns = namespace(s='x') %}{% for a in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
    "{% set ns = namespace(s=[1]) %}{% for a in range(100000) %}{% set ns.s = [ns.s] %}{% endfor %}",
    "{% set ns = namespace(s=[1]) %}{% for a in range(100000) %}{% set ns.s = dict(a=ns.s) %}{% endfor %}",
    "{% set ns = namespace() %}{% set ns.s = ns %}{{ ns }}",
    "{% macro f(n) %}{% if n < 40 %}{{ f(n + 1) }}{{ f(n + 1) }}{% endif %}{% endmacro %}{{ f(0) }}",
    "{{ ('a' * 10000000)|upper ~ ('a' * 10000000)|lower }}",
];

/// Further such texts, which take a second or more to fail in an unoptimised build.
const ENDLESS_AND_SLOW: &[&str] = &[
    "{% set ns = namespace(s=[1]) %}{% for a in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
    "{{ range(100000)|select('in', [0] * 100000)|list }}",
    "{% set ns = namespace(s=[1]) %}{% for a in range(100) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}",
    "{% set a = [1, 1, 1, 1, 1, 1, 1, 1, 1, 1] %}{% set a = [a, a, a, a, a, a, a, a, a, a] %}\
     {% set a = [a, a, a, a, a, a, a, a, a, a] %}{% set a = [a, a, a, a, a, a, a, a, a, a] %}\
     {% set a = [a, a, a, a, a, a, a, a, a, a] %}{% set a = [a, a, a, a, a, a, a, a, a, a] %}\
     {% set a = [a, a, a, a, a, a, a, a, a, a] %}{% set a = [a, a, a, a, a, a, a, a, a, a] %}{{ a }}",
];

/// Texts without variables are refused when they are compiled, others when they are rendered.
/// Which texts are one expression and keep its type, and which are text.
#[test]
fn an_expression_alone_keeps_its_type() {
    let cases = [
        ("{{ n }}", "3", true),
        ("{{ n }}}", "3}", false),
        ("{{ n }}}}", "3}}", false),
        ("{{{'a': {}}}}", "{\"a\":{}}", true),
        ("{{ {'a': {}}.a }}", "{}", true),
        ("{{ '}}' }}", "}}", true),
        ("{{ '{#' }}}", "{#}", false),
        ("{{ '{{' ~ '}}' }}", "{{}}", true),
        ("{{ n }}{{ n }}", "33", false),
        ("{{ n }} {{ n }}", "3 3", false),
        ("{{ n -}}", "3", false),
        ("{{- n }}", "3", false),
    ];
    for (text, expected, alone) in cases {
        let compiled = Engine::new().compile(text).map_err(|error| format!("{text}: {error:?}"));
        assert_eq!(matches!(compiled.unwrap(), CompiledText::Expression(_)), alone, "{text}");
        assert_eq!(rendered(text).unwrap(), expected, "{text}");
    }
}

#[test]
fn endless_templates_fail_with_their_limit() {
    let long = std::env::var("BENCH_SLOW_TESTS").is_ok();
    for text in ENDLESS.iter().chain(ENDLESS_AND_SLOW.iter().filter(|_| long)) {
        let compiled = Engine::new().compile(text);
        assert_eq!(compiled.is_ok(), text.contains("big"), "{text}");
        let error = compiled.and_then(|text| text.render(&variables(), &mut String::new())).unwrap_err();
        assert!(error.0.contains("exceeds a limit: "), "{text}: {error}");
        assert!(["make", "shorten", "flatten"].iter().any(|remedy| error.0.contains(remedy)), "{error}");
    }
}

#[test]
fn raw_text_in_a_loop_counts_too() {
    let text = format!("{{% for a in range(100000) %}}{}{{% endfor %}}", "x".repeat(1000));
    assert!(rendered(&text).is_err_and(|error| error.0.contains("limit")));
    let captured = format!("{{% set b %}}{text}{{% endset %}}");
    assert!(rendered(&captured).is_err_and(|error| error.0.contains("limit")));
}

#[test]
fn usual_payloads_are_well_within_the_limits() {
    for (text, bytes) in [
        ("{{ 'x' * 1048576 }}", 1 << 20),
        ("{{ 'x' * 16777216 }}", 16 << 20),
        ("{{ 'x' * 1024 * 1024 }}", 1 << 20),
        ("[{% for i in range(10000) %}{\"id\": {{ i }}, \"n\": \"{{ 'a' * 20 }}\"},{% endfor %}]", 400_000),
        ("{{ range(10000)|join(', ') }}", 58_888),
        ("{% for i in range(100000) %}{{ i }}{% endfor %}", 488_890),
    ] {
        let length = rendered(text).unwrap_or_else(|error| panic!("{text}: {error}")).len();
        assert!(length >= bytes && length < bytes * 2, "{text}: {length}");
    }
}

#[test]
fn an_allowance_is_for_one_action() {
    let text = Engine::new().compile("{{ 'x' * n * 1048576 }}").unwrap();
    allowance::renew();
    let render = |text: &CompiledText| text.render(&variables(), &mut String::new());
    let first = (0..1000).find(|_| render(&text).is_err());
    assert!(first.is_some_and(|count| count >= 1), "{first:?}");
    allowance::renew();
    render(&text).unwrap();
}

/// Guards do not change the language: without them, texts and errors are the same.
#[test]
fn guarded_templates_give_what_unguarded_ones_do() {
    let mut plain = Environment::new();
    plain.set_undefined_behavior(UndefinedBehavior::Strict);
    plain.set_formatter(|output, state, value| {
        let shown = super::numbers::shown(value)?;
        minijinja::escape_formatter(output, state, shown.as_ref().unwrap_or(value))
    });
    for text in [
        "{{ n * 2 }} {{ 2 * n }} {{ n * f }} {{ f * 2 }} {{ n * n }} {{ 10**18 * 10 }} {{ 10**30 * 10 }}",
        "{{ 'ab' * n }} {{ n * 'ab' }} {{ [1, 'a'] * n }} {{ n * [] }} {{ s * 0 }} {{ true * 2 }}",
        "{{ n + n }} {{ s + s }} {{ list[:2] + list[-2:] }} {{ s ~ n }} {{ 1 ~ 2 }} {{ range(2) + [n] }}",
        "{{ n + f }} {{ n - f }} {{ f // n }} {{ n // f }} {{ n % f }} {{ n ** f }} {{ n / f }} {{ true + n }} {{ f - true }}",
        "{{ -n // n }} {{ n % -n }} {{ (0 - n) % n }} {{ 2 ** n }} {{ n ** n }} {{ n - n }} {{ big * big }} {{ n - big }}",
        "{{ n - 1 }} {{ n / 2 }} {{ n // 2 }} {{ n % 2 }} {{ n ** 2 }} {{ -n }} {{ not n }}",
        "{{ n == 3 }} {{ n != f }} {{ s < 'b' }} {{ list >= list }} {{ 1 < n <= 3 < 4 }} {{ n in list not in [] }}",
        "{{ 'a' in s }} {{ n not in list }} {{ 'b' in map }} {{ n if n > 2 else s }} {{ s if n > 5 }}",
        "{{ list[1] }} {{ list[-1] }} {{ map['b'][1].c }} {{ s[1:3] }} {{ list[::-7] }} {{ range(5)[2] }}",
        "{{ [n, [s], {'k': n}] }} {{ {'a': n, s: list[:1]} }} {{ (n, s) }} {{ dict(a=n, **{'b': 2}) }}",
        "{{ list|length }} {{ list|sum }} {{ list|join('-') }} {{ list|batch(7, 'x')|list }} {{ list|slice(3) }}",
        "{{ s|upper|replace('B', 'x')|indent(2) }} {{ map|tojson }} {{ map|tojson(2) }} {{ s|e }} {{ map|items }}",
        "{{ list|select('gt', 47)|list }} {{ list|map('string')|first }} {{ [map]|map(attribute='b')|list }}",
        "{{ '%5d|%-5s|%.2f'|format(n, 'x', f) }} {{ map|dictsort }} {{ list|groupby('x')|list if false }} {{ map|pprint }}",
        "{{ nothing|default('x') }} {{ n is odd }} {{ nothing is defined }} {{ n is eq 3 }} {{ s is startingwith 'a' }}",
        "{% set a, b = [n, s] %}{{ a }}{{ b }}{% with x = n, y = x %}{{ y }}{% endwith %}{% set c %}x{{ n }}{% endset %}{{ c|upper }}",
        "{% for k, v in map|items if v %}{{ loop.index }}{{ k }}{{ v }}{% else %}none{% endfor %}{% for x in [] %}{% else %}empty{% endfor %}",
        "{% for x in [[1], [2, [3]]] recursive %}{% if x is sequence %}<{{ loop(x) }}>{% else %}{{ x }}{% endif %}{% endfor %}",
        "{% macro f(a, b=n * 2) %}{{ a }}{{ b }}{{ caller() if caller }}{% endmacro %}{{ f(1) }}{{ f(b=1, a=2) }}{% call f(*[4, 5]) %}c{% endcall %}",
        "{% filter upper|replace('X', 'y') %}x{{ s }}{% endfilter %}{% autoescape 'html' %}{{ s }}{{ s|safe }}{% endautoescape %}",
        "{% set ns = namespace(a=1) %}{% for x in list %}{% set ns.a = ns.a + x %}{% endfor %}{{ ns.a }}{% if n == 3 %}y{% elif n %}z{% endif %}",
        "{% raw %}{{ x }}{% endraw %}{# c #} {%- if true %} t {%- endif -%} {{ s|trim }}\n",
        "{{ nobody }}",
        "{{ nobody * 2 }}",
        "{{ nobody ~ s }}",
        "{{ 2 in nobody }}",
        "{{ nobody == 1 }}",
        "{{ [nobody] }}",
        "{{ list|nofilter }}",
        "{{ list is notest }}",
        "{{ nofunction() }}",
        "{{ 'a' * 'b' }}",
        "{{ {} * 2 }}",
        "{{ 'a' * -1 }}",
        "{{ 'a' + 1 }}",
        "{{ s + n }}",
        "{{ s - s }}",
        "{{ list - n }}",
        "{{ list + n }}",
        "{{ nobody + n }}",
        "{{ n // (n - n) }}",
        "{{ n % (n - n) }}",
        "{{ big ** big }}",
        "{{ n.x.y }}",
        "{{ list|join(1, 2, 3) }}",
        "{% include 'x' %}",
        "{{ 10**30 * 10**30 }}",
        "{{ 1 / 'a' }}",
    ] {
        let expected =
            plain.template_from_str(text).and_then(|template| template.render(variables().context()));
        match (rendered(text), expected) {
            (Ok(text), Ok(expected)) => assert_eq!(text, expected),
            (Err(_), Err(_)) => {}
            (found, expected) => panic!("{text}: {found:?}, unguarded {expected:?}"),
        }
    }
}

/// What a template makes of `price`, `list` and the others, which come from JSON.
fn of_json(text: &str) -> Result<String, TemplateError> {
    let json = r#"{"price": 1.50, "cent": 1e-2, "id": 9007199254740993, "huge": 1E400,
        "list": [2, 1.50, 1e0, 10.0, 1.5], "rows": [{"p": 2.50, "n": "b"}, {"p": 1e0, "n": "a"}, {"p": 2.5, "n": "c"}],
        "of": {"a": 2.50, "b": 1e0}}"#;
    let json = digits::parse(json.as_bytes()).unwrap();
    let shared =
        json.as_object().unwrap().iter().map(|(name, value)| (Arc::from(name.as_str()), from_json(value)));
    let mut output = String::new();
    Engine::new().compile(text)?.render(&Variables::new(Arc::new(shared.collect())), &mut output)?;
    Ok(output)
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn filters_return_numbers_as_they_came() {
    for (text, expected) in [
        ("{{ list | max }} {{ list | min }} {{ list | sort }}", "10.0 1e0 [1e0,1.50,1.5,2,10.0]"),
        ("{{ list | sort(reverse=true) }} {{ list | unique }}", "[10.0,2,1.50,1.5,1e0] [2,1.50,1e0,10.0]"),
        ("{{ [huge, id] | max }} {{ (list + [id, huge]) | sort | last }}", "1E400 1E400"),
        ("{{ rows | sort(attribute='p') | map(attribute='n') }}", r#"["a","b","c"]"#),
        ("{{ rows | sort(attribute='p') | map(attribute='p') }}", "[1e0,2.50,2.5]"),
        ("{{ rows | unique(attribute='p') | map(attribute='p') }}", "[2.50,1e0]"),
        ("{% for p, all in rows | groupby('p') %}{{ p }}:{{ all | length }} {% endfor %}", "1e0:1 2.5:2 "),
        (
            "{{ of | dictsort(by='value') }} {{ of | items }}",
            r#"[["b",1e0],["a",2.50]] [["a",2.50],["b",1e0]]"#,
        ),
        ("{{ list | first }} {{ list | batch(2, price) }}", "2 [[2,1.50],[1e0,10.0],[1.5,1.50]]"),
        (
            "{{ list | slice(2, price) }} {{ list | reverse }}",
            "[[2,1.50,1e0],[10.0,1.5,1.50]] [1.5,10.0,1e0,1.50,2]",
        ),
        (
            "{{ nothing | default(price) }} {{ price | default(1) }} {{ [price] | chain([cent]) }}",
            "1.50 1.50 [1.50,1e-2]",
        ),
        (
            "{{ list | select('gt', 1.5) }} {{ rows | selectattr('p', 'eq', 2.5) | map(attribute='p') }}",
            "[2,10.0] [2.50,2.5]",
        ),
        ("{{ '%s|%.1f|%05.2f|%d' | format(price, price, cent, id) }}", "1.50|1.5|00.01|9007199254740993"),
        ("{{ '%(p)s %(p)s %(q).1f' | format({'p': price, 'q': price}) }}", "1.50 1.50 1.5"),
        (
            "{{ price | string }} {{ price | tojson }} {{ price | pprint }} {{ [price] | zip([cent]) }}",
            "1.50 1.50 1.50 [[1.50,1e-2]]",
        ),
        (
            "{{ price + cent }} {{ price == 1.5 }} {{ price in list }} {{ price * 2 }} {{ -price }}",
            "1.51 true true 3.0 -1.5",
        ),
        (
            "{{ id + 1 }} {{ id * id }} {{ id % 10 }} {{ id // 10 }} {{ id - id }} {{ id ** 2 }}",
            "9007199254740994 81129638414606699710187514626049 3 900719925474099 0 81129638414606699710187514626049",
        ),
        (
            "{{ id > price }} {{ huge > id }} {{ id <= huge }} {{ huge < 5 }} {{ id >= 9007199254740993.5 }}",
            "true true true false false",
        ),
        (
            "{{ 0.12345678901234567 }} {{ -1.50 }} {{ 1e3 }} {{ [1.50, 2.5] }} {{ 1_0.5 }}",
            "0.12345678901234567 -1.50 1e3 [1.50,2.5] 10.5",
        ),
        (
            "{{ 0.1234567890123456789 == 0.1234567890123456788 }} {{ price == 1.500 }} {{ 1.50 + 1 }} {{ -1.50 * 2 }}",
            "false true 2.5 -3.0",
        ),
        (
            "{{ price is string }} {{ list is string }} {{ 'a' is string }} {{ [1, 'a', price] | select('string') }}",
            "false false true [\"a\"]",
        ),
        (
            "{{ list | select('gt', 1.50) }} {{ [huge, 1] | select('gt', id) }} {{ 1.50 ~ '' }}",
            "[2,10.0] [1E400] 1.50",
        ),
        (
            "{{ 2.50 | round(1) }} {{ 1 < 2.50 < 3 }} {{ random_float(1.50, 2.50) < 3 }} {{ random_int(1e0, 1e0) }} \
             {{ random_bool(1.00) }} {{ weighted_choice({'a': 0.50}) }}",
            "2.5 true true 1 true a",
        ),
        (
            "{{ id > price }} {{ [id, price] | max }} {{ price | abs }} {{ price | round }} {{ list | sum }}",
            "true 9007199254740993 1.5 2.0 16.0",
        ),
    ] {
        assert_eq!(of_json(text).unwrap_or_else(|error| panic!("{text}: {error:?}")), expected, "{text}");
    }
    for text in [
        "id / 2",
        "id + price",
        "price - id",
        "id * price",
        "id % 1.5",
        "id // price",
        "id ** 0.5",
        "2 / id",
        "price / id",
    ] {
        let error = of_json(&format!("{{{{ {text} }}}}")).expect_err(text);
        let expected = "templates cannot calculate with 9007199254740993: they would change its digits";
        assert!(format!("{error:?}").contains(expected), "{text}: {error:?}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn values_show_as_json_has_them() {
    for (text, expected) in [
        ("{{ true }}", "true"),
        ("x{{ false }}{{ none }}", "xfalsenull"),
        ("{{ [true, none, 'a', 1.5] }}", "[true,null,\"a\",1.5]"),
        ("x{{ [true, {'b': none}] }}", "x[true,{\"b\":null}]"),
        ("{{ 'ab' ~ true ~ none ~ [n] ~ 1 }}", "abtruenull[3]1"),
        ("{{ [true, none, [1], 'a'] | join('-') }}", "true-null-[1]-a"),
        (
            "{{ true | string }} {{ none | upper }} {{ true | replace('t', 'x') }} {{ false | title }}",
            "true NULL xrue False",
        ),
        ("{{ '%s' | format(true) }} {{ '%s %d' | format(none, n) }}", "true null 3"),
        ("{{ 17 | urlencode }} {{ true | urlencode }} {{ 1.5 | urlencode }}", "17 true 1.5"),
        (
            "{{ {'a': 1, 'b/c': 'x y'} | urlencode }} {{ [['a', true], ['a', 'ü']] | urlencode }}",
            "a=1&b%2Fc=x+y a=true&a=%C3%BC",
        ),
        ("{{ {'a': 1} | items | urlencode }} {{ ['a'] | zip([1]) | urlencode }}", "a=1 a=1"),
        ("{{ 'a b/ü' | urlencode }} {{ [1, 'a'] | urlencode }}", "a%20b/%C3%BC %5B1%2C%22a%22%5D"),
        (
            "{{ 17 | md5 == '17' | md5 }} {{ 17 | sha256 == '17' | sha256 }} {{ 17 | hash('sha1') == '17' | hash('sha1') }}",
            "true true true",
        ),
        (
            "{{ 17 | base64encode }} {{ true | hmac('k') == 'true' | hmac('k') }} {{ 170 | trim }}",
            "MTc= true 170",
        ),
        (
            "{{ 2733382000000000049 | int }} {{ '123456789012345678901234567890' | int }} {{ 7.9 | int }}",
            "2733382000000000049 123456789012345678901234567890 7",
        ),
        (
            "{{ '0.5' | float }} {{ 3 | float }} {{ 2733382000000000049 | round }} {{ 1.55 | round(1) }}",
            "0.5 3.0 2733382000000000049 1.6",
        ),
        (
            "{{ 18446744073709551616 + 1 }} {{ 18446744073709551616 | tojson }}",
            "18446744073709551617 18446744073709551616",
        ),
        (
            "{{ [18446744073709551616, 1] | sum }} {{ [2733382000000000049, 2733382000000000049] | sum }}",
            "18446744073709551617 5466764000000000098",
        ),
        (
            "{{ -7 // 2 }} {{ 7 // -2 }} {{ -7 // -2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ -7 % -3 }} {{ 6 % -3 }}",
            "-4 -4 3 2 -2 -1 0",
        ),
        (
            "{{ -7.5 // 2 }} {{ 7.5 // -2 }} {{ -7.5 % 2 }} {{ 7.5 % -2 }} {{ 2 ** -1 }} {{ 7 / 2 }} {{ 4 / 2 }}",
            "-4.0 -4.0 0.5 -0.5 0.5 3.5 2.0",
        ),
        (
            "{{ true >= 1 }} {{ false < 1 }} {{ true is le 1 }} {{ true < 1.50 }} {{ 0 < true <= 1.50 }}",
            "true true true true true",
        ),
        (
            "{{ 9007199254740992 < 9007199254740993.5 < 1E400 }} {{ [1] < [2] }} {{ 'a' < 'b' > 'a' }} {{ 3 > 2 > 2 }}",
            "true true true false",
        ),
        (
            "{{ 0 > -1E400 != 2 }} {{ true >= 1 != 5 }} {{ 1 < 2 in [2] }} {{ 1 < 2 not in [2] == true }} {{ 1 == 1.0 < 2 }}",
            "true true true false true",
        ),
        (
            "{{ [true] < [1] }} {{ [1, 2.50] < [1, 3] }} {{ [1] < [1, 0] }} {{ [[2], 1] > [[1], 9] }} {{ [] <= [] }}",
            "false true true true true",
        ),
        ("{{ '%d %x' | format(true, false) }}", "1 0"),
        (
            "{{ '%d %i' | format(3.0, -3.9) }} {{ '%d' | format(3.50) }} {{ '%.1f' | format(3) }}",
            "3 -3 3 3.0",
        ),
        ("{{ counter(8.00) }} {{ random_hex(0.00) }}", "8 "),
        ("{% autoescape 'html' %}{{ ['<'] }}{% endautoescape %}", "[&quot;&lt;&quot;]"),
        ("{% set x %}{{ true }}{% endset %}{{ x | length }}", "4"),
    ] {
        assert_eq!(rendered(text).unwrap_or_else(|error| panic!("{text}: {error:?}")), expected, "{text}");
    }
}

#[test]
fn what_cannot_be_calculated_or_put_in_order_is_an_error() {
    for (text, part) in [
        ("{{ n | urlencode | nothing_such }}", "nothing_such"),
        ("{{ 9007199254740993 | float }}", "more digits than 64 bits can keep"),
        ("{{ '1e400' | int }}", "cannot be kept as a whole number"),
        ("{{ 10.0 ** 400 }}", "unable to calculate 10 ** 400"),
        ("{{ ('1e4' | float) ** 400 }}", "unable to calculate"),
        ("{{ 1 / 0 }}", "unable to calculate 1 / 0"),
        ("{{ 1.5 // 0 }}", "unable to calculate 1.5 // 0"),
        ("{{ 1.5 % 0 }}", "unable to calculate 1.5 % 0"),
        ("{{ 0 ** -1 }}", "unable to calculate 0 ** -1"),
        ("{{ '9' > 12 }}", "cannot put 12 and the text '9' in order"),
        ("{{ 12 >= '9' }}", "cannot put the text '9' and 12 in order"),
        ("{{ 1 < '2' < 3 }}", "`<` cannot put 1 and the text '2' in order"),
        ("{{ '9' > 12 != 5 }}", "`>` cannot put the text '9' and 12 in order"),
        ("{{ [1] < ['a'] }}", "cannot put 1 and the text 'a' in order"),
        ("{{ '%d' | format(1e300) }}", "would change its digits"),
        ("{{ none < 1 }}", "cannot put nothing and 1 in order"),
        ("{{ {} < {} }}", "cannot put a map and a map in order"),
        ("{{ '9' is gt 12 }}", "`>` cannot put the text '9' and 12 in order"),
        ("{{ ['9', 12] | max }}", "max cannot put the text '9' and 12 in order"),
        ("{{ ['9', 12.50] | sort }}", "sort cannot put the text '9' and 12.50 in order"),
        ("{{ ['9', 12] | sum }}", "`+` does not work with number and string"),
        ("{{ counter(1.50) }}", "number"),
        ("{{ 1.50 | length }}", "number"),
        ("{{ n - s }}", "in {{ n - s }}"),
    ] {
        let error = rendered(text).expect_err(text);
        assert!(format!("{error:?}").contains(part), "{text}: {error:?}");
    }
}
