//! Defines the rows of the table of the USE method ([`crate::use_method`]). Modules that compute a
//! resource's counters also make its rows.

use schemars::JsonSchema;
use serde::Serialize;

use crate::unit::Unit;

/// A row of the table: one resource.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct UseRow {
    pub resource: String,
    pub utilisation: UseCell,
    pub saturation: UseCell,
    pub errors: UseCell,
}

/// A measured value, or the reason why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct UseCell {
    pub value: Option<f64>,
    pub unit: Unit,
    /// Meaning of the value. Without a value: the reason why it is unknown.
    pub note: &'static str,
}

/// The reason why a value is unknown if the kernel lacks its counter.
pub(crate) const NO_COUNTER: &str = "the kernel did not report this value";

/// Returns the row of a resource.
pub(crate) fn row(
    resource: &str,
    utilisation: UseCell,
    saturation: UseCell,
    errors: UseCell,
) -> UseRow {
    UseRow { resource: resource.into(), utilisation, saturation, errors }
}

/// Returns a cell with a value, or with the reason why it is not known.
pub(crate) fn cell(
    value: Option<f64>,
    unit: Unit,
    note_of_value: &'static str,
    why_not: &'static str,
) -> UseCell {
    UseCell { value, unit, note: if value.is_some() { note_of_value } else { why_not } }
}

/// Returns a cell without a value.
pub(crate) fn unknown(why_not: &'static str) -> UseCell {
    cell(None, Unit::Share, "", why_not)
}
