//! Short texts that sentences and tables are made of: durations, numbers of calls, names of points.

use base::units::format_ns;
use results::client_points::QUEUE_TIME_POINT;

/// Milliseconds in three significant digits with the unit that fits. What failed or never ended counts as longer than all
/// else and has no time.
#[must_use]
pub fn duration(ms: f64) -> String {
    match ms {
        ms if ms.is_infinite() && ms > 0.0 => "no time".to_owned(),
        ms if ms > 0.0 => format_ns((ms * 1e6).round() as u64),
        _ => "0 ms".to_owned(),
    }
}

/// A share in percent with the digits that tell it from none and from all: `0.010 %`, `1.5 %`, `49 %`.
pub(super) fn percent(percent: f64) -> String {
    match percent {
        percent if percent >= 99.95 => "100 %".to_owned(),
        percent if percent >= 9.95 => format!("{percent:.0} %"),
        percent if percent >= 0.095 => format!("{percent:.1} %"),
        percent => format!("{percent:.3} %"),
    }
}

/// A difference of times with its sign: `+1.20 ms`, `−300 µs`, `0 ms`.
#[must_use]
pub fn signed(ms: f64) -> String {
    with_sign(ms, duration)
}

/// A value with its sign; `shown` writes its size. The minus is the typographic one; what is written as zero has no
/// sign.
#[must_use]
pub fn with_sign(value: f64, shown: impl FnOnce(f64) -> String) -> String {
    let text = shown(value.abs());
    let is_zero = !text.bytes().any(|byte| (b'1'..=b'9').contains(&byte));
    match value {
        _ if is_zero => text,
        value if value < 0.0 => format!("−{text}"),
        value if value > 0.0 => format!("+{text}"),
        _ => text,
    }
}

/// Microseconds in three significant digits with the unit that fits.
#[must_use]
pub fn duration_us(us: u64) -> String {
    if us == 0 { "0 ms".to_owned() } else { format_ns(us.saturating_mul(1_000)) }
}

/// What readers call a point: the client's wait for a virtual user has another name in traces.
#[must_use]
pub fn shown_name(name: &str) -> &str {
    if name == QUEUE_TIME_POINT { "queue time" } else { name }
}

/// A point in short: `db · SELECT … FROM assignment`.
#[must_use]
pub fn point_name(name: &str, detail: &str) -> String {
    let name = shown_name(name);
    match statement_in_short(detail) {
        _ if detail.is_empty() || is_route_of(name, detail) => name.to_owned(),
        // OpenTelemetry names a call by its method.
        None if detail.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')) => detail.to_owned(),
        Some(short) => format!("{name} · {short}"),
        None => format!("{name} · {detail}"),
    }
}

/// Whether a name is the method and route of this request, as OpenTelemetry names a server's span.
fn is_route_of(name: &str, request: &str) -> bool {
    let (Some((method, route)), Some((of, path))) = (name.split_once(' '), request.split_once(' ')) else {
        return false;
    };
    let path = path.split('?').next().unwrap_or(path);
    method == of && route.starts_with('/') && route.split('/').count() == path.split('/').count()
}

/// What a statement does to which table; `None` if it is not a statement.
#[must_use]
pub(super) fn statement_in_short(statement: &str) -> Option<String> {
    let words: Vec<&str> = statement.split_whitespace().collect();
    let is = |word: &str, known: &str| word.eq_ignore_ascii_case(known);
    let table_after = |known: &str| {
        // A FROM within parentheses belongs to a function or to a subquery.
        let mut depth = 0_i64;
        let at = words.iter().position(|word| {
            let found = depth == 0 && is(word, known);
            depth += word.chars().map(|c| i64::from(c == '(') - i64::from(c == ')')).sum::<i64>();
            found
        })?;
        let table = words.get(at + 1)?.trim_end_matches([',', ';', ')']);
        Some(if table.starts_with('(') { "(…)" } else { table.split('(').next().unwrap_or(table) })
    };
    let first = *words.first()?;
    let short = match () {
        () if is(first, "SELECT") && words.len() > 3 => format!("SELECT … FROM {}", table_after("FROM")?),
        () if is(first, "INSERT") => format!("INSERT INTO {}", table_after("INTO")?),
        () if is(first, "REPLACE") => format!("REPLACE INTO {}", table_after("INTO")?),
        () if is(first, "UPDATE") => format!("UPDATE {} …", table_after("UPDATE")?),
        () if is(first, "DELETE") => format!("DELETE FROM {} …", table_after("FROM")?),
        () => return None,
    };
    Some(short)
}

/// A mean number of calls: `40`, `1.2`.
#[must_use]
pub fn calls(calls: f64) -> String {
    if calls >= 9.95 { format!("{calls:.0}") } else { format!("{}", (calls * 10.0).round() / 10.0) }
}

/// The text with a capital at its beginning.
pub(super) fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| format!("{}{}", first.to_uppercase(), chars.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_have_a_sign_unless_they_are_zero() {
        for (ms, expected) in
            [(1.2, "+1.20 ms"), (-0.3, "−300 µs"), (0.0, "0 ms"), (-0.0, "0 ms"), (f64::NAN, "0 ms")]
        {
            assert_eq!(signed(ms), expected);
        }
        for (value, expected) in [(-0.04, "0.0 %"), (-12.34, "−12.3 %"), (0.06, "+0.1 %")] {
            assert_eq!(with_sign(value, |size| format!("{size:.1} %")), expected);
        }
    }

    #[test]
    fn statements_are_named_by_what_they_do_to_which_table() {
        for (detail, expected) in [
            ("SELECT a.b, c FROM assignment WHERE x = ?", "db · SELECT … FROM assignment"),
            ("select a from `t`;", "db · SELECT … FROM `t`"),
            ("SELECT * FROM (SELECT 1) AS x", "db · SELECT … FROM (…)"),
            ("INSERT INTO t(a) VALUES (?)", "db · INSERT INTO t"),
            ("UPDATE t SET a = ?", "db · UPDATE t …"),
            ("DELETE FROM t WHERE a = ?", "db · DELETE FROM t …"),
            ("SELECT 1", "db · SELECT 1"),
            ("GET /v3/users", "db · GET /v3/users"),
            ("INSERT", "db · INSERT"),
            ("", "db"),
        ] {
            assert_eq!(point_name("db", detail), expected);
        }
        for (name, detail, expected) in [
            ("GET /items/{item}", "GET /items/{id}", "GET /items/{item}"),
            ("GET /items/:id", "GET /items/{id}?page=", "GET /items/:id"),
            ("GET /items", "GET h:80/items/{id}", "GET /items · GET h:80/items/{id}"),
            ("GET", "GET /items/{id}", "GET /items/{id}"),
            ("wsgi", "GET /items/{id}", "wsgi · GET /items/{id}"),
        ] {
            assert_eq!(point_name(name, detail), expected);
        }
    }
}
