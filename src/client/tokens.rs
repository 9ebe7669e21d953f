//! Tokens and how long they are valid, as services and programs state them.

use std::time::Duration;

use serde_json::Value;

use base::masking;
use base::secret::Secret;

/// The longest token.
const TOKEN_BYTES_MAX: usize = 16 << 10;

/// A token.
#[derive(Clone)]
pub struct Token {
    /// Its value.
    pub value: Secret,
    /// How long it is valid from now, if it is known.
    pub valid_for: Option<Duration>,
}

/// A token from a JSON answer that states its lifetime, or not.
pub(super) fn of_json_value(value: &str, json: &Value) -> Token {
    masking::hide_learned(value);
    Token { value: Secret::new(value), valid_for: valid_for(json) }
}

/// Reads what a program printed: a token alone; or JSON with one, such as kubectl's `ExecCredential`, or at `pointer`
/// (RFC 6901).
///
/// # Errors
/// Why there is no token.
pub fn printed(output: &[u8], pointer: Option<&str>) -> Result<Token, String> {
    const PLACES: [&str; 5] = ["/status/token", "/token", "/access_token", "/accessToken", "/id_token"];
    let text = std::str::from_utf8(output).map_err(|_| "it printed no text".to_owned())?.trim();
    let token = match serde_json::from_str::<Value>(text).ok().filter(Value::is_object) {
        Some(json) => {
            let places = pointer.as_ref().map_or(&PLACES[..], std::slice::from_ref);
            let found = places.iter().find_map(|place| json.pointer(place)?.as_str());
            let found = found.ok_or_else(|| match pointer {
                Some(pointer) => format!("the JSON that it printed has no text at {pointer}"),
                None => "the JSON that it printed has no token; name its place with `pointer`".to_owned(),
            })?;
            of_json_value(found, &json)
        }
        None if pointer.is_some() => return Err("it did not print a JSON object".to_owned()),
        None => {
            masking::hide_learned(text);
            Token { value: Secret::new(text), valid_for: None }
        }
    };
    let value = token.value.expose();
    if value.is_empty() {
        return Err("it printed nothing".to_owned());
    }
    if value.len() > TOKEN_BYTES_MAX || value == text && value.contains(char::is_whitespace) {
        return Err("what it printed is not a token: it must be one word".to_owned());
    }
    Ok(token)
}

/// The lifetime that JSON states: in seconds from now, or as a time.
fn valid_for(json: &Value) -> Option<Duration> {
    if let Some(seconds) = json.get("expires_in").and_then(number) {
        return Some(Duration::from_secs(seconds));
    }
    let now = jiff::Timestamp::now().as_second();
    let times = ["/status/expirationTimestamp", "/expirationTimestamp", "/expires_at", "/expiry"];
    let end = times.iter().find_map(|place| json.pointer(place)?.as_str()?.parse::<jiff::Timestamp>().ok());
    let end = end.map(jiff::Timestamp::as_second);
    let end = end.or_else(|| i64::try_from(number(json.get("expires_on")?)?).ok())?;
    Some(Duration::from_secs(u64::try_from(end.saturating_sub(now)).unwrap_or(0)))
}

/// A number, also as text.
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_as_programs_print_them() {
        let known =
            |seconds: i64| (jiff::Timestamp::now() + jiff::SignedDuration::from_secs(seconds)).to_string();
        let exec = format!(
            r#"{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{{"token":"Ab-1","expirationTimestamp":"{}"}}}}"#,
            known(1000)
        );
        for (printed_text, pointer, expected) in [
            ("Ab-1\n", None, Ok(("Ab-1", false))),
            (exec.as_str(), None, Ok(("Ab-1", true))),
            (r#"{"accessToken":"Ab-1","expires_on":"99999999999"}"#, None, Ok(("Ab-1", true))),
            (r#"{"access_token":"Ab-1","expires_in":3600}"#, None, Ok(("Ab-1", true))),
            (r#"{"a":{"b":"Ab-1"}}"#, Some("/a/b"), Ok(("Ab-1", false))),
            (r#"{"a":{"b":"Ab-1"}}"#, None, Err("no token")),
            (r#"{"token":1}"#, None, Err("no token")),
            (r#"{"a":1}"#, Some("/b"), Err("no text at /b")),
            ("Ab-1", Some("/b"), Err("JSON object")),
            ("", None, Err("nothing")),
            ("error: log in first", None, Err("not a token")),
            ("\u{1}\u{0}", None, Ok(("\u{1}\u{0}", false))),
        ] {
            match (printed(printed_text.as_bytes(), pointer), expected) {
                (Ok(token), Ok((value, timed))) => {
                    assert_eq!(
                        (token.value.expose(), token.valid_for.is_some()),
                        (value, timed),
                        "{printed_text}"
                    );
                }
                (Err(error), Err(part)) => assert!(error.contains(part), "{printed_text}: {error}"),
                (Ok(_), Err(part)) => panic!("{printed_text}: not {part}"),
                (Err(error), Ok(_)) => panic!("{printed_text}: {error}"),
            }
        }
        let token = printed(exec.as_bytes(), None).unwrap_or_else(|error| panic!("{error}"));
        let left = token.valid_for.unwrap_or_default().as_secs();
        assert!((1..=1000).contains(&left), "{left}");
        assert!(printed(&[0xff], None).is_err());
    }
}
