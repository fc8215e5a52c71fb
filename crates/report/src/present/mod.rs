//! Parts that several forms of output share: colours, tables and the escaping of text.

pub(crate) mod escape;
pub mod style;
pub(crate) mod table;
