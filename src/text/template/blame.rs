//! Which expression of a text has no value.

/// Longer expressions are not quoted.
const QUOTED_BYTES_MAX: usize = 100;
/// More expressions are not quoted.
const QUOTED_MAX: usize = 3;

/// ` in {{ a.b }}`: the expressions of `source` that may have no value. Constants in them may be secrets; such
/// expressions are not quoted.
pub(super) fn place(source: &str) -> String {
    let (mut rest, mut found) = (source, Vec::new());
    while let Some((_, after)) = rest.split_once("{{") {
        let Some((expression, after)) = after.split_once("}}") else { break };
        rest = after;
        let expression = expression.trim_matches(['-', '+', ' ']);
        if expression.contains(['"', '\'']) || expression.len() > QUOTED_BYTES_MAX {
            return String::new();
        }
        let quoted = format!("{{{{ {expression} }}}}");
        if !found.contains(&quoted) {
            found.push(quoted);
        }
    }
    match found.as_slice() {
        [] => String::new(),
        [one] => format!(" in {one}"),
        several if several.len() <= QUOTED_MAX => format!(" in one of {}", several.join(", ")),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_without_constants_are_quoted() {
        for (source, expected) in [
            ("{{users.nme}}", " in {{ users.nme }}"),
            ("/a/{{ b.c }}?d={{- b.c -}}", " in {{ b.c }}"),
            ("{{ a }}{{ b }}", " in one of {{ a }}, {{ b }}"),
            ("{{ a }}{{ b }}{{ c }}{{ d }}", ""),
            ("{{ a['hunter2'] }}", ""),
            ("{% if a %}{% endif %}", ""),
            ("{{ a", ""),
        ] {
            assert_eq!(place(source), expected, "{source}");
        }
        assert_eq!(place(&format!("{{{{ {} }}}}", "a".repeat(200))), "");
    }
}
