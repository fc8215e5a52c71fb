//! Schemas of types whose values are names with meanings.

use schemars::{Schema, json_schema};

/// Returns the schema of a type. `names`: each value with its meaning.
pub(crate) fn schema<'a>(
    description: &str,
    names: impl Iterator<Item = (&'a str, &'a str)>,
) -> Schema {
    let values: Vec<Schema> = names
        .map(|(name, meaning)| {
            json_schema!({"description": meaning, "type": "string", "const": name})
        })
        .collect();
    json_schema!({"description": description, "oneOf": values})
}
