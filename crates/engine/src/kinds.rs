//! Counts of events by name.

use std::collections::BTreeMap;

/// Counts an event by name, or as `other` if there are too many names.
pub(crate) fn count_kind(kinds: &mut BTreeMap<String, u64>, name: &str, max_kinds: usize) {
    if let Some(n) = kinds.get_mut(name) {
        *n += 1;
    } else {
        let name = if kinds.len() < max_kinds { name } else { "other" };
        *kinds.entry(name.into()).or_default() += 1;
    }
}
