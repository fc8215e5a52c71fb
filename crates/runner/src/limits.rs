//! Every bound and patience of the runner, and what happens on reaching it.

use std::time::Duration;

/// How often a starting subject's port is tried, and its first answer asked for. Short, because the resolution of
/// start-up time is this; a refused attempt on loopback costs some 10 µs.
pub const POLL: Duration = Duration::from_micros(100);

/// How long one attempt to connect to a starting subject may take: a full queue of new connections answers nothing at
/// all. Then it is tried again, until its deadline.
pub const CONNECT: Duration = Duration::from_secs(1);

/// How long one attempt to get a first answer may take before the next is made.
pub const ATTEMPT: Duration = Duration::from_secs(2);

/// How long one contract check may take. Then it has failed, unanswered.
pub const CHECK: Duration = Duration::from_secs(5);

/// How long a subject has to answer one request after a step. Then it counts as deaf.
pub const ALIVE: Duration = Duration::from_secs(3);

/// Open files that a load needs beside one per connection. With fewer it is refused before it begins.
pub const OTHER_FILES: u64 = 64;

/// How far ahead the common instants of all workers lie, in nanoseconds: long enough for each to learn of them in time.
/// One that learns of a cut too late ends its window a little later.
pub const AHEAD_NS: u64 = 2_000_000;

/// How long the control thread of a load sleeps at most before it looks around.
pub const GLANCE: Duration = Duration::from_millis(20);

/// The most resources of a page that one entry may stand for. More are refused.
pub const RESOURCES: u32 = 1000;

/// Intervals of a running load that are kept apart. With more, neighbours are joined two by two, so that a load of any
/// length needs constant memory; what is streamed while it runs is not joined.
pub const INTERVALS: usize = 1024;

/// Samples of the subject that are kept of a running load. With more, every second one is left out.
pub const SAMPLES: usize = 1024;
