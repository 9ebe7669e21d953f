//! A statement without its long lists of columns: what an ORM writes begins with hundreds of characters that say
//! nothing, and its table and condition would be cut off.
//!
//! A reader's aid only: it knows no SQL beyond `SELECT`, `FROM`, quotes and parentheses, and whatever it does not
//! understand stays as it is. Nothing here may fail.

/// Lists up to this many bytes stay.
const LIST_BYTES_MAX: usize = 40;
/// The number of `SELECT`s that are looked at: a statement comes from outside, and each may be read to its end.
const SELECTS_MAX: usize = 16;

/// The statement, on one line, with `…` for each long list between `SELECT` and its `FROM`.
#[must_use]
pub(super) fn shortened(statement: &str) -> String {
    let mut shown = String::with_capacity(statement.len());
    let mut rest = statement;
    for _ in 0..SELECTS_MAX {
        let Some(at) = word(rest, "SELECT") else { break };
        let (before, after) = rest.split_at(at + "SELECT".len());
        shown.push_str(before);
        match list_end(after) {
            Some(end) if end > LIST_BYTES_MAX => {
                shown.push_str(" …");
                rest = &after[end..];
            }
            Some(end) => {
                shown.push_str(&after[..end]);
                rest = &after[end..];
            }
            None => rest = after,
        }
    }
    shown.push_str(rest);
    shown
}

/// The place of a word, outside quotes and not within another word.
fn word(text: &str, wanted: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut quote = None;
    (0..bytes.len()).find(|&at| {
        quote = quoted(quote, bytes[at]);
        quote.is_none() && is_word(bytes, at, wanted)
    })
}

/// Where the ` FROM` of a list begins that starts at the beginning of `text`.
fn list_end(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut quote, mut depth) = (None, 0_usize);
    for at in 0..bytes.len() {
        quote = quoted(quote, bytes[at]);
        match (quote, bytes[at]) {
            (None, b'(') => depth += 1,
            // The list belongs to a query in parentheses, which ends without a table.
            (None, b')') => depth = depth.checked_sub(1)?,
            (None, b' ') if depth == 0 && is_word(bytes, at + 1, "FROM") => return Some(at),
            _ => {}
        }
    }
    None
}

/// The quote that is open after this byte.
fn quoted(open: Option<u8>, byte: u8) -> Option<u8> {
    match open {
        Some(quote) if quote == byte => None,
        None if matches!(byte, b'\'' | b'"' | b'`') => Some(byte),
        open => open,
    }
}

fn is_word(bytes: &[u8], at: usize, wanted: &str) -> bool {
    let inside = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
    let end = at + wanted.len();
    bytes.get(at..end).is_some_and(|word| word.eq_ignore_ascii_case(wanted.as_bytes()))
        && !inside(bytes.get(end))
        && !(at > 0 && inside(bytes.get(at - 1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn long_lists_of_columns_go() {
        let list = "a.id AS a_id, a.name AS a_name, a.description AS a_description";
        for (statement, expected) in [
            (format!("SELECT {list} FROM a WHERE a.id = ?"), "SELECT … FROM a WHERE a.id = ?".to_owned()),
            ("SELECT id, name FROM a".to_owned(), "SELECT id, name FROM a".to_owned()),
            (format!("select {list}, (SELECT max(x) FROM b) from a"), "select … from a".to_owned()),
            (
                format!("SELECT b.x FROM (SELECT {list} FROM a) AS b"),
                "SELECT b.x FROM (SELECT … FROM a) AS b".to_owned(),
            ),
            (format!("SELECT 'x FROM y', {list} FROM a"), "SELECT … FROM a".to_owned()),
            (format!("SELECT {list}"), format!("SELECT {list}")),
            (
                format!("(SELECT {list}) UNION SELECT 1 FROM a"),
                format!("(SELECT {list}) UNION SELECT 1 FROM a"),
            ),
            (
                "INSERT INTO selected (from_x) VALUES (?)".to_owned(),
                "INSERT INTO selected (from_x) VALUES (?)".to_owned(),
            ),
            (String::new(), String::new()),
        ] {
            assert_eq!(shortened(&statement), expected, "{statement}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(text: String, sqlish in "(SELECT|FROM|[a-z(),' \"…]){0,60}") {
            prop_assert!(shortened(&text).len() <= text.len() + 4);
            prop_assert!(shortened(&sqlish).len() <= sqlish.len() + 4);
        }
    }
}
