//! Texts as words of a POSIX shell, for commands and scripts that are printed to be run.
//!
//! Every such place uses these: a name that another user chose must not be read as a command.

use std::fmt::Write as _;
use std::path::Path;

use base::visible::is_deceptive;

/// A text as one word: as it is if every shell takes it literally, otherwise in quotes.
#[must_use]
pub fn word(text: &str) -> String {
    bytes_word(text.as_bytes())
}

/// A path as one word that no program takes for an option.
#[must_use]
pub fn path(path: &Path) -> String {
    let bytes = path.as_os_str().as_encoded_bytes();
    if bytes.starts_with(b"-") { bytes_word(&[b"./", bytes].concat()) } else { bytes_word(bytes) }
}

fn bytes_word(bytes: &[u8]) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-./:=,@%+".contains(byte);
    match std::str::from_utf8(bytes) {
        // Some shells look up what is behind an equals sign at the beginning.
        Ok(text) if !text.is_empty() && !text.starts_with('=') && bytes.iter().all(plain) => text.to_owned(),
        _ => quoted(bytes),
    }
}

/// The bytes as one word in quotes. What a terminal would obey, or would not show, is written as octal digits for
/// `printf`.
#[must_use]
pub fn quoted(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "''".to_owned();
    }
    let mut shown = String::new();
    for chunk in bytes.utf8_chunks() {
        for part in split(chunk.valid()) {
            match part {
                ShellSegment::Plain(text) => {
                    let _ = write!(shown, "'{}'", text.replace('\'', "'\\''"));
                }
                ShellSegment::Hidden(text) => {
                    let _ = write!(shown, "\"$(printf '{}')\"", octal(text.as_bytes()));
                }
            }
        }
        if !chunk.invalid().is_empty() {
            let _ = write!(shown, "\"$(printf '{}')\"", octal(chunk.invalid()));
        }
    }
    shown
}

enum ShellSegment<'t> {
    Plain(&'t str),
    Hidden(&'t str),
}

/// Parts that can be shown and parts that cannot.
fn split(text: &str) -> Vec<ShellSegment<'_>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let hidden = is_deceptive(first);
        let end = rest.find(|c| is_deceptive(c) != hidden).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        parts.push(if hidden { ShellSegment::Hidden(part) } else { ShellSegment::Plain(part) });
        rest = after;
    }
    parts
}

/// Bytes for the format of `printf`, between single quotes.
#[must_use]
pub fn octal(bytes: &[u8]) -> String {
    let mut shown = String::new();
    for byte in bytes {
        match byte {
            b'%' => shown.push_str("%%"),
            // At the beginning, a dash would be an option.
            b' '..=b'~' if !matches!(byte, b'\'' | b'\\' | b'-') => shown.push(char::from(*byte)),
            _ => {
                let _ = write!(shown, "\\{byte:03o}");
            }
        }
    }
    shown
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    fn read_by_a_shell(word: &str) -> Vec<u8> {
        let mut command = std::process::Command::new("sh");
        command
            .arg("-c")
            .arg(format!("printf %s {word}"))
            .output()
            .map(|ended| ended.stdout)
            .unwrap_or_default()
    }

    #[test]
    fn a_word_is_what_the_shell_reads() {
        for text in [
            "plain",
            "",
            "two words",
            "it's",
            "$HOME `x` \\ \"q\"",
            "a\nb",
            "*",
            "~",
            "#",
            "ä",
            "o$(touch PWN)",
            "=ls",
            "a;b&c|d>e",
            "!!",
            "a\u{1b}[2Jb\u{202e}c",
            "line\r\n",
            "{a,b}",
            "-n",
        ] {
            assert_eq!(String::from_utf8(read_by_a_shell(&word(text))).unwrap(), text, "{}", word(text));
            assert!(!word(text).contains(is_deceptive), "{text:?}");
        }
        for (text, expected) in [("-n", "./-n"), ("a b", "a b"), ("/x/-n", "/x/-n")] {
            assert_eq!(read_by_a_shell(&path(Path::new(text))), expected.as_bytes());
        }
        let odd = std::ffi::OsStr::from_bytes(b"-\xff'x");
        assert_eq!(read_by_a_shell(&path(Path::new(odd))), b"./-\xff'x");
    }
}
