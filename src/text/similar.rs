//! Which of the known names was meant by one that is not known.

/// The name in `known` that was probably meant by `name`.
#[must_use]
pub fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A very long name is not a typing error, and the comparison takes quadratic time.
    const LENGTH_MAX: usize = 80;
    if name.len() > LENGTH_MAX {
        return None;
    }
    let lower = name.to_lowercase();
    let length = lower.chars().count();
    known
        .into_iter()
        .filter(|candidate| candidate.len() <= LENGTH_MAX)
        .filter_map(|candidate| {
            let most = 1 + candidate.len().min(name.len()) / 4;
            let other = candidate.to_lowercase();
            // Each character more is an edit; most candidates need no comparison.
            let is_near = other.chars().count().abs_diff(length) <= most;
            let distance = is_near.then(|| strsim::damerau_levenshtein(&lower, &other))?;
            (distance <= most).then_some((distance, candidate))
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}
