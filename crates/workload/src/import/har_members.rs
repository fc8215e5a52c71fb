//! Members of a HAR's requests that have a type of their own.

use serde::Deserialize;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PostData {
    #[serde(default)]
    pub(super) mime_type: String,
    #[serde(default)]
    pub(super) text: String,
    pub(super) encoding: Option<String>,
    #[serde(default)]
    pub(super) params: Vec<NameValue>,
}

/// A header, a cookie, or a parameter of a query or form.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct NameValue {
    pub(super) name: String,
    #[serde(default)]
    pub(super) value: String,
}
