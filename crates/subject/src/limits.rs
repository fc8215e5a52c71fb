//! Limits and time-outs of builds and tools, each with the effect of reaching it.

use std::time::Duration;

/// Default deadline of a build (`deadline`). A slower build is killed and has failed. The first
/// build of a large framework takes minutes, with its downloads.
pub const BUILD: Duration = Duration::from_secs(30 * 60);

/// Default deadline of `version` and of a test of `requires` (`deadline`). A slower tool is killed,
/// and the version is unknown, or the requirement is not met. A JVM on a busy machine takes seconds
/// to start.
pub const QUERY: Duration = Duration::from_secs(30);

/// Maximum number of copies of a build's inputs. If inputs change during a copy, they are copied
/// again. After the last copy the build has failed.
pub const COPIES: usize = 4;

/// Interval between attempts to lock the builds of a subject while another dyno has the lock.
pub const LOCK_POLL: Duration = Duration::from_millis(50);

/// Default deadline of the commands that load and reset a back end's data.
pub const DATA: Duration = Duration::from_secs(5 * 60);

/// Longest template of a file that is rendered before each start. A longer template is refused.
pub const TEMPLATE_BYTES: usize = 16 << 20;

/// Longest file that an import reads. A longer file is refused.
pub const IMPORTED_BYTES: usize = 1 << 20;

/// Longest `subject.toml` or `backend.toml`. A longer file is refused.
pub const DEFINITION_BYTES: usize = 1 << 20;
