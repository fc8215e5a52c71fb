//! Every bound and patience of building a subject and asking its tools, and what happens on
//! reaching it.

use std::time::Duration;

/// How long a build may take unless it says so itself (`deadline`). Then it is ended and has
/// failed. A first build of a large framework, with everything it downloads, takes minutes.
pub const BUILD: Duration = Duration::from_secs(30 * 60);

/// How long a tool may take to answer `version` or a test of `requires` unless the subject says so
/// (`deadline`). Then it is ended, and the version is unknown or the need unmet. A JVM that starts
/// on a busy machine takes seconds.
pub const QUESTION: Duration = Duration::from_secs(30);

/// How often the inputs of a build are copied anew because somebody wrote into them meanwhile. Then
/// it has failed.
pub const COPIES: usize = 4;

/// How often it is looked whether another dyno still holds the builds of a subject.
pub const LOCK_GLANCE: Duration = Duration::from_millis(50);

/// How long the command may take that loads a back end's data, or puts it back, unless its file
/// says otherwise.
pub const DATA: Duration = Duration::from_secs(5 * 60);

/// The longest template of a start's file: it is read with each look at its definition.
pub const TEMPLATE_BYTES: usize = 16 << 20;

/// The longest file that is read of a server that is imported. A longer one is refused.
pub const IMPORTED_BYTES: usize = 1 << 20;

/// The longest `subject.toml` or `backend.toml`. A longer one is refused.
pub const DEFINITION_BYTES: usize = 1 << 20;
