//! Upgrades files of older versions of the format before they are parsed, so that the types need no
//! defaults for keys that older versions lack.
//!
//! Version 1 is the only one until the first release of dyno. Until then, a change of the format
//! changes the archive `tests/golden/hello/run`, which is the fixture of the version.

use serde_json::Value;

/// Version of the format, the number in [`dyno_model::run::SCHEMA`].
pub(crate) const VERSION: u32 = 1;

/// The kinds of files in a run's folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    Header,
    Start,
    Trial,
    Profile,
    Search,
}

/// Upgrades a file of one version to the next version.
type Upgrade = fn(FileKind, &mut Value);

/// Upgrades of versions 1, 2 and so on.
const UPGRADES: [Upgrade; VERSION as usize - 1] = [];

/// Returns the version of a format. `None`: the format is unknown, or is of a later version.
pub(crate) fn version(schema: &str) -> Option<u32> {
    let version = schema.strip_prefix("dyno.run/")?.parse().ok()?;
    (1..=VERSION).contains(&version).then_some(version)
}

/// Upgrades a file of a run with the format `schema` to the current version.
pub(crate) fn upgrade(schema: &str, kind: FileKind, file: Value) -> Value {
    apply(&UPGRADES, version(schema).unwrap_or(VERSION), kind, file)
}

fn apply(upgrades: &[Upgrade], version: u32, kind: FileKind, mut file: Value) -> Value {
    for upgrade in upgrades.iter().skip(version as usize - 1) {
        upgrade(kind, &mut file);
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;
    use dyno_model::run::SCHEMA;
    use serde_json::json;

    #[test]
    fn version_rejects_unknown_formats() {
        assert_eq!(version(SCHEMA), Some(VERSION));
        for other in ["dyno.run/0", "dyno.run/99", "dyno.run/", "dyno.load/1", ""] {
            assert_eq!(version(other), None, "{other}");
        }
    }

    /// Only the upgrades from a file's version on are applied, the oldest first.
    #[test]
    fn upgrades_are_applied_in_order() {
        let upgrades: [Upgrade; 2] = [
            |_, file| *file = json!([file.take(), "first"]),
            |kind, file| *file = json!([file.take(), format!("second of {kind:?}")]),
        ];
        let apply = |version| apply(&upgrades, version, FileKind::Trial, json!("old"));
        assert_eq!(apply(1), json!([["old", "first"], "second of Trial"]));
        assert_eq!(apply(2), json!(["old", "second of Trial"]));
        assert_eq!(apply(3), json!("old"));
    }
}
