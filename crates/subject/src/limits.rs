//! All limits and time-outs of builds and tools, and the effect of reaching each.

use std::time::Duration;

/// Default deadline of a build (`deadline`). A slower build is killed and has failed. A first build
/// of a large framework, with everything it downloads, takes minutes.
pub const BUILD: Duration = Duration::from_secs(30 * 60);

/// Default deadline of `version` and of a test of `requires` (`deadline`). A slower tool is killed,
/// and the version is unknown or the need unmet. A JVM that starts on a busy machine takes seconds.
pub const QUESTION: Duration = Duration::from_secs(30);

/// Most copies of a build's inputs because they changed meanwhile. After that the build has failed.
pub const COPIES: usize = 4;

/// Interval between checks whether another dyno still locks the builds of a subject.
pub const LOCK_GLANCE: Duration = Duration::from_millis(50);

/// Default deadline of the commands that load and reset a back end's data.
pub const DATA: Duration = Duration::from_secs(5 * 60);

/// Longest template of a start's file, which is read with each use of its definition.
pub const TEMPLATE_BYTES: usize = 16 << 20;

/// The longest file that is read of a server that is imported. A longer one is refused.
pub const IMPORTED_BYTES: usize = 1 << 20;

/// The longest `subject.toml` or `backend.toml`. A longer one is refused.
pub const DEFINITION_BYTES: usize = 1 << 20;
