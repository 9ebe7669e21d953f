//! Command lines that other programs have taught people, in the way that bench writes them.

use std::ffi::OsString;

use harness::url_run::UrlRun;

use super::url::receive_address;

/// The arguments, with what follows from them written out: a URL as the command means `bench run URL`, and an address after
/// `--receive` belongs to it.
pub(super) fn written_out(arguments: Vec<OsString>) -> Vec<OsString> {
    let mut written: Vec<OsString> = Vec::with_capacity(arguments.len() + 1);
    let mut arguments = arguments.into_iter().peekable();
    written.extend(arguments.next());
    if arguments.peek().and_then(|first| first.to_str()).is_some_and(UrlRun::is_url) {
        written.push("run".into());
    }
    while let Some(mut argument) = arguments.next() {
        if argument == "--" {
            written.push(argument);
            break;
        }
        if argument == "--receive"
            && let Some(address) = arguments.next_if(|next| next.to_str().is_some_and(is_address))
        {
            argument.push("=");
            argument.push(address);
        }
        written.push(argument);
    }
    written.extend(arguments);
    written
}

/// Whether a word can be nothing but the address of a receiver: a scenario may have any other name.
fn is_address(word: &str) -> bool {
    word.contains(':') && receive_address(word).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_write_is_written_out_and_nothing_else_changes() {
        for (typed, means) in [
            ("bench http://h:1/ -c 2", "bench run http://h:1/ -c 2"),
            ("bench grpcs://h/p.S/M", "bench run grpcs://h/p.S/M"),
            ("bench run http://h:1/", "bench run http://h:1/"),
            (
                "bench run s.yaml --receive 127.0.0.1:4318 -n 1",
                "bench run s.yaml --receive=127.0.0.1:4318 -n 1",
            ),
            ("bench run --receive [::1]:0 s.yaml", "bench run --receive=[::1]:0 s.yaml"),
            ("bench run --receive s.yaml", "bench run --receive s.yaml"),
            ("bench run s.yaml --receive", "bench run s.yaml --receive"),
            (
                "bench import curl -- curl --receive 127.0.0.1:1",
                "bench import curl -- curl --receive 127.0.0.1:1",
            ),
            ("bench", "bench"),
        ] {
            let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
            assert_eq!(written_out(words(typed)), words(means), "{typed}");
        }
    }
}
