//! Which of the known names was meant by one that is not known.

/// The name in `known` that was probably meant by `name`.
#[must_use]
pub fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A very long name is not a typing error, and the comparison takes quadratic time.
    const LENGTH_MAX: usize = 80;
    if name.len() > LENGTH_MAX {
        return None;
    }
    known
        .into_iter()
        .filter(|candidate| candidate.len() <= LENGTH_MAX)
        .map(|candidate| {
            (strsim::damerau_levenshtein(&name.to_lowercase(), &candidate.to_lowercase()), candidate)
        })
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len().min(name.len()) / 4)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}
