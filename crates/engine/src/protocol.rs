//! Which protocol a load speaks, and what it asks for where that has choices.

pub use dyno_archive::plan::Http2;
pub use dyno_archive::protocol::Protocol;
