//! A point's statement or path without the values that differ from call to call, to group calls of one kind.
//!
//! `SELECT * FROM t WHERE id = 7` and `… = 8` are the same statement; `/users/3f2a…/roles` and `/users/77/roles`
//! are the same path. A wrong guess only splits or joins rows of a table. No text may cause a panic.

/// A statement with `?` for each literal or list of literals.
#[must_use]
pub fn sql(statement: &str) -> String {
    let mut shown = String::with_capacity(statement.len());
    let mut chars = statement.chars().peekable();
    while let Some(c) = chars.next() {
        let in_word = shown.chars().next_back().is_some_and(|last| last.is_alphanumeric() || last == '_');
        match c {
            '\'' => {
                while let Some(inner) = chars.next() {
                    // A doubled quote is an escaped quote.
                    if inner == '\'' && chars.next_if_eq(&'\'').is_none() {
                        break;
                    }
                }
                placeholder(&mut shown);
            }
            '0'..='9' if !in_word => {
                while chars.next_if(|next| next.is_ascii_alphanumeric() || *next == '.').is_some() {}
                placeholder(&mut shown);
            }
            '%' if chars.peek() == Some(&'s') => {
                chars.next();
                placeholder(&mut shown);
            }
            '%' if chars.peek() == Some(&'(') => named(&mut chars, &mut shown),
            '?' => placeholder(&mut shown),
            '$' | ':'
                if !in_word
                    && !shown.ends_with(':')
                    && chars.peek().is_some_and(char::is_ascii_alphanumeric) =>
            {
                while chars.next_if(|next| next.is_ascii_alphanumeric() || *next == '_').is_some() {}
                placeholder(&mut shown);
            }
            _ => shown.push(c),
        }
    }
    shown
}

/// `%(name)s`, as Python's drivers write a parameter.
fn named(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, shown: &mut String) {
    let mut taken = String::from("%");
    while let Some(c) = chars.next() {
        taken.push(c);
        if c == ')' {
            if chars.next_if_eq(&'s').is_some() {
                placeholder(shown);
                return;
            }
            break;
        }
    }
    shown.push_str(&taken);
}

/// Adds a `?`, unless it continues a list that already has one.
fn placeholder(shown: &mut String) {
    if shown.trim_end().ends_with(',') {
        let before = shown.trim_end().trim_end_matches(',').trim_end();
        if before.ends_with('?') && in_parentheses(before) {
            shown.truncate(before.len());
            return;
        }
    }
    shown.push('?');
}

/// Whether the text since the last opening parenthesis consists only of parameters.
fn in_parentheses(text: &str) -> bool {
    text.trim_end_matches(['?', ',', ' ']).ends_with('(')
}

/// A method and path with `{id}` for each id, and without the query's values.
#[must_use]
pub fn path(request: &str) -> String {
    let (before, query) =
        request.split_once('?').map_or((request, None), |(path, query)| (path, Some(query)));
    let mut shown: Vec<&str> = before.split('/').collect();
    for part in shown.iter_mut().skip(1) {
        if is_id(part) {
            *part = "{id}";
        }
    }
    let mut shown = shown.join("/");
    if let Some(query) = query.filter(|_| request.contains('/')) {
        let names: Vec<String> = query
            .split('&')
            .map(|pair| match pair.split_once('=') {
                Some((name, _)) => format!("{name}="),
                None => pair.to_owned(),
            })
            .collect();
        shown = format!("{shown}?{}", names.join("&"));
    } else if query.is_some() {
        request.clone_into(&mut shown);
    }
    shown
}

/// Numbers, UUIDs and long hexadecimal texts.
fn is_id(part: &str) -> bool {
    let hex = part.chars().filter(|c| *c != '-').all(|c| c.is_ascii_hexdigit());
    let digits = part.bytes().filter(u8::is_ascii_digit).count();
    !part.is_empty() && ((digits == part.len()) || (hex && part.len() >= 16 && digits > 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn statements_lose_their_literals() {
        for (statement, expected) in [
            ("SELECT a1 FROM t2 WHERE id = 7 AND x = 'it''s'", "SELECT a1 FROM t2 WHERE id = ? AND x = ?"),
            ("IN (1, 2, 3)", "IN (?)"),
            ("IN (?, ?, ?) AND b = ?", "IN (?) AND b = ?"),
            ("VALUES (%s, %s)", "VALUES (?)"),
            ("a = %(a_1)s AND b = $1", "a = ? AND b = ?"),
            ("LIMIT 0x1F OFFSET 1.5e3", "LIMIT ? OFFSET ?"),
            ("x = :p_1 AND y::text = ''", "x = ? AND y::text = ?"),
            ("SELECT ?, ? FROM t", "SELECT ?, ? FROM t"),
            ("SELECT 'never closed", "SELECT ?"),
            ("", ""),
        ] {
            assert_eq!(sql(statement), expected, "{statement}");
        }
    }

    #[test]
    fn paths_lose_their_ids() {
        for (request, expected) in [
            ("GET /v3/users", "GET /v3/users"),
            ("GET /v3/users/0a1b2c3d4e5f60718293a4b5c6d7e8f9/roles", "GET /v3/users/{id}/roles"),
            ("GET /x/3fa85f64-5717-4562-b3fc-2c963f66afa6", "GET /x/{id}"),
            ("GET h:80/servers/42?limit=5&marker=x&all", "GET h:80/servers/{id}?limit=&marker=&all"),
            ("nova.compute.manager.ComputeManager.build", "nova.compute.manager.ComputeManager.build"),
            ("why?", "why?"),
            ("GET /deadbeef/faced", "GET /deadbeef/faced"),
        ] {
            assert_eq!(path(request), expected, "{request}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text: String, sqlish in "[a-z0-9?,'%():$ ]{0,60}") {
            for text in [&text, &sqlish] {
                let once = sql(text);
                prop_assert!(path(text).len() <= text.len() * 4 + 4);
                prop_assert!(once.len() <= text.len() + 1);
            }
        }
    }
}
