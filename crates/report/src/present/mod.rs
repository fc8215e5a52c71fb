//! Parts that several forms of output share: tables as data, colours and the escaping of text.

pub(crate) mod block;
pub(crate) mod escape;
pub(crate) mod exposition;
pub(crate) mod markdown;
pub(crate) mod part_scope;
pub(crate) mod sentence;
pub mod style;
pub(crate) mod table;
pub mod text;
