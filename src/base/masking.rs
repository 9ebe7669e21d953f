//! The masking of [`osprofiler::base::masking`], and which parts of a URL are secret.

pub use osprofiler::base::masking::*;

/// Registers the password of a URL, and secrets among its options, for masking.
pub fn hide_url(url: &str) {
    let Some((_, rest)) = url.split_once("://") else { return };
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    if let Some((user_info, _)) = rest.rsplit_once('@') {
        hide_as_written(user_info.split_once(':').map_or(user_info, |(_, password)| password));
    }
    // If a password contains an unescaped question mark, its end looks like part of the query.
    if let Some((before, _)) = url.split_once("://").and_then(|(_, whole)| whole.rsplit_once('@')) {
        hide_as_written(before.split_once(':').map_or(before, |(_, password)| password));
    }
    for (name, value) in query.split(['&', '#']).filter_map(|pair| pair.split_once('=')) {
        if names_secret(name) {
            hide_as_written(value);
        }
    }
}

/// Guesses whether a name belongs to a secret, from its last words. For values that have no type, such as the variables
/// of a scenario, the members of a JSON body or the options of a URL.
#[must_use]
pub fn names_secret(name: &str) -> bool {
    const LAST_TWO: [&str; 7] =
        ["api key", "hmac key", "hmac keys", "private key", "access key", "connection string", "conn str"];
    let lower = name.to_lowercase().replace(['_', '-', '.'], " ");
    let ends = |end: &str| lower.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with(' '));
    SECRET_WORDS.into_iter().chain(LAST_TWO).any(ends)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_guessed_by_their_last_words() {
        for name in
            ["password", "user_password", "X-Auth-Token", "refresh_token", "client_secret", "X-Api-Key"]
        {
            assert!(names_secret(name), "{name}");
        }
        for name in ["user", "password_hint", "tokens", "key", "monkey", "cookies_per_jar"] {
            assert!(!names_secret(name), "{name}");
        }
    }

    #[test]
    fn a_urls_password_and_the_secrets_among_its_options_are_masked_one_by_one() {
        hide_url(
            "otlp://u:Sw0rdfish%2F1@h:1/p?password=Tr0ub4dor&ssl_ca_certs=/etc/ca.pem&sentinel_password=Xk-cd-936",
        );
        hide_url("mysql://u:qu?st10n@h/d");
        for (text, expected) in [
            ("knows Sw0rdfish%2F1 and Sw0rdfish/1", "knows *** and ***"),
            ("Tr0ub4dor, Xk-cd-936, /etc/ca.pem", "***, ***, /etc/ca.pem"),
            ("qu?st10n", "***"),
        ] {
            assert_eq!(masked(text), expected);
        }
    }
}
