//! Names of kinds of trace points in a table: short, but no two alike.

use super::named::kind_of_point;

/// `db · SELECT … FROM user` for each kind, which is a point's name and its statement or path. Statements that look alike
/// so are followed by what comes after their table.
pub(super) fn distinct<'a>(kinds: &[(&'a str, &'a str)]) -> Vec<String> {
    let short: Vec<String> = kinds.iter().map(|(_, kind)| kind_of_point(kind)).collect();
    let is_ambiguous = |at: usize| {
        let same = |other: usize| kinds[other].0 == kinds[at].0 && short[other] == short[at];
        (0..kinds.len()).any(|other| other != at && same(other))
    };
    let name = |at: usize| match after_table(kinds[at].1).filter(|_| is_ambiguous(at)) {
        Some(rest) => format!("{} {rest}", short[at]),
        None if is_ambiguous(at) => kinds[at].1.to_owned(),
        None => short[at].clone(),
    };
    (0..kinds.len()).map(name).collect()
}

/// What follows `FROM t` in a statement.
fn after_table(kind: &str) -> Option<String> {
    let mut words = kind.split_whitespace().skip_while(|word| !word.eq_ignore_ascii_case("from"));
    let rest: Vec<&str> = words.by_ref().skip(2).collect();
    (!rest.is_empty()).then(|| rest.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_short_and_no_two_look_alike() {
        let kinds = [
            ("api", "db SELECT a, b FROM user WHERE id = ?"),
            ("api", "db SELECT a, c FROM user JOIN role"),
            ("jobs", "db SELECT a, b FROM user WHERE id = ?"),
            ("api", "db SELECT x, y FROM token"),
            ("api", "db SELECT x, y, z FROM token"),
            ("api", "wsgi GET /v3/users"),
            ("bench", "action log in"),
        ];
        let expected = [
            "db · SELECT … FROM user WHERE id = ?",
            "db · SELECT … FROM user JOIN role",
            "db · SELECT … FROM user",
            "db SELECT x, y FROM token",
            "db SELECT x, y, z FROM token",
            "wsgi GET /v3/users",
            "action log in",
        ];
        assert_eq!(distinct(&kinds), expected);
    }
}
