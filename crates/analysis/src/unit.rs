//! Units of the values in reports.

use schemars::JsonSchema;
use serde::Serialize;

/// Unit of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    PerSecond,
    Microseconds,
    Bytes,
    /// 10⁶ bytes, times seconds.
    MegabyteSeconds,
    /// 0 to 1, or more where several CPUs are used.
    Share,
    /// A plain number.
    Count,
}
