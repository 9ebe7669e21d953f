//! Lists that exist once for each virtual user of a load.

/// Adds an element; the first one gets room for itself only. Most users never have a second one, and there may be a hundred
/// thousand of them.
#[inline]
pub fn push_frugally<T>(list: &mut Vec<T>, element: T) {
    if list.capacity() == 0 {
        list.reserve_exact(1);
    }
    list.push(element);
}
