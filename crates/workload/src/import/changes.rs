//! Counts the parts of imported requests that are omitted or sent in another form.

use std::collections::{BTreeMap, BTreeSet};

use dyno_model::plan::ImportChange;

/// Maximum number of names that are stored for a kind of change. All changes are counted.
const STORED_NAMES: usize = 64;

/// Maximum number of names in a line.
const LINE_NAMES: usize = 12;

/// A difference between an import and the requests that the other tool sends or recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeKind {
    Entry,
    PseudoHeader,
    ConnectionHeader,
    FramingHeader,
    UncarriedHeader,
    ToolHeader,
    HostHeader,
    CookieHeader,
    CookieJar,
    TypeHeader,
    QueryString,
    Fragment,
    DotSegments,
    FormParams,
    Charset,
    BodyLength,
    MissingBody,
    MissingStatus,
    Boundary,
    Protocol,
    Server,
    Option,
    Setting,
    ExtendedSetting,
    StatusDifference,
    Repeat,
    Order,
    Timing,
}

/// The kind in JSON, and the text for the change with its reason, in the order of [`ChangeKind`].
const WORDS: [(&str, &str); ChangeKind::Timing as usize + 1] = [
    ("entry", "entries omitted, because they are not over http or https"),
    ("pseudo-header", "pseudo-header fields omitted, because dyno writes them itself"),
    ("connection-header", "headers omitted, because they belong to the recorded connection"),
    ("framing-header", "headers omitted, because dyno writes Content-Length itself"),
    (
        "uncarried-header",
        "headers omitted, because they are not allowed in the protocol of the load",
    ),
    ("tool-header", "headers that the tool adds itself, and dyno does not (add them with -H)"),
    (
        "host-header",
        "Host headers sent although the command removes them, because HTTP/1.1 requires one (RFC \
         9112 §3.2)",
    ),
    ("cookie-header", "Cookie headers made from `cookies`, because the entry has no Cookie header"),
    ("cookie-jar", "commands without -c whose cookies are kept for later commands, too"),
    ("type-header", "Content-Type headers made from postData.mimeType, because the entry has none"),
    ("query-string", "query parameters of the HAR omitted, because its URL does not contain them"),
    ("fragment", "URL fragments omitted, because no client sends them"),
    ("dot-segments", "paths with . or .. sent as written (the tool would shorten them)"),
    ("form-params", "bodies made from postData.params, because the HAR does not have their text"),
    ("charset", "bodies sent as UTF-8, because dyno does not support their charset"),
    ("body-length", "bodies whose length differs from the recorded length"),
    ("missing-body", "bodies omitted, because the HAR does not have them"),
    (
        "missing-status",
        "requests without a recorded final status (dyno accepts any status from 200 to 399)",
    ),
    (
        "boundary",
        "form boundaries that are the same in every request (the tool makes a new one for each \
         request)",
    ),
    (
        "protocol",
        "requests recorded over a protocol that dyno does not support (dyno sends them over the \
         protocol of the load)",
    ),
    ("server", "servers replaced by the server on the command line"),
    ("option", "options of curl that have no effect on a load"),
    ("setting", "connection settings omitted"),
    ("extended-setting", "connection settings applied to all commands"),
    (
        "status-difference",
        "requests recorded with different statuses (dyno accepts any status from 200 to 399; to \
         check one status, use --expect-status)",
    ),
    (
        "repeat",
        "repeated requests merged with an equal earlier request, whose weight was increased",
    ),
    ("order", "requests sent in random order (by weight), not in the order of the import"),
    ("timing", "requests not sent at their recorded times"),
];

impl ChangeKind {
    /// Returns the kind in JSON, and the text for the change with its reason.
    const fn key_and_text(self) -> (&'static str, &'static str) {
        WORDS[self as usize]
    }
}

/// All changes of an import: by kind, their number and their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes(BTreeMap<ChangeKind, (u64, BTreeSet<String>)>);

impl Changes {
    /// Counts a change. `name`: a header, an option, or a line; several changes may have the same
    /// name.
    pub fn add(&mut self, change: ChangeKind, name: &str) {
        let (count, names) = self.0.entry(change).or_default();
        *count += 1;
        if names.len() < STORED_NAMES && !name.is_empty() {
            names.insert(name.into());
        }
    }

    /// Adds the changes of another part of the import.
    pub fn extend(&mut self, other: Changes) {
        for (change, (count, names)) in other.0 {
            let (total, stored) = self.0.entry(change).or_default();
            *total += count;
            stored.extend(names);
            while stored.len() > STORED_NAMES {
                stored.pop_last();
            }
        }
    }

    /// Returns one entry for each kind.
    #[must_use]
    pub fn list(&self) -> Vec<ImportChange> {
        let entry = |(change, (count, names)): (&ChangeKind, &(u64, BTreeSet<String>))| {
            let (kind, text) = change.key_and_text();
            ImportChange {
                kind: kind.into(),
                description: text.into(),
                count: *count,
                names: names.iter().cloned().collect(),
            }
        };
        self.0.iter().map(entry).collect()
    }

    /// Returns one line for each kind.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let line = |change: ImportChange| {
            let names: Vec<&str> =
                change.names.iter().take(LINE_NAMES).map(String::as_str).collect();
            let hidden_count = change.names.len() - names.len();
            let more =
                if hidden_count > 0 { format!(" and {hidden_count} more") } else { String::new() };
            let names = if names.is_empty() {
                String::new()
            } else {
                format!(": {}{more}", names.join(", "))
            };
            format!("import: {} ({}){names}", change.description, change.count)
        };
        self.list().into_iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_count_and_names_per_kind() {
        let mut changes = Changes::default();
        for name in ["te", "connection", "te"] {
            changes.add(ChangeKind::ConnectionHeader, name);
        }
        let mut other = Changes::default();
        (0..100).for_each(|i| other.add(ChangeKind::Option, &format!("--{i:03}")));
        changes.extend(other);
        let lines = changes.lines();
        assert_eq!(
            lines[0],
            "import: headers omitted, because they belong to the recorded connection (3): \
             connection, te"
        );
        assert!(
            lines[1].starts_with(
                "import: options of curl that have no effect on a load (100): --000, "
            ),
            "{}",
            lines[1]
        );
        assert!(lines[1].ends_with("--011 and 52 more"), "{}", lines[1]);
        assert_eq!((lines.len(), changes.list()[1].names.len()), (2, STORED_NAMES));
    }
}
