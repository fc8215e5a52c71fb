//! Types of the table of behaviours.

/// A server with a known bottleneck, and the loads under which it is tested.
#[derive(Clone, Copy, Debug)]
pub struct Behaviour {
    pub name: &'static str,
    /// The bottleneck, as a phrase.
    pub cause: &'static str,
    pub program: Program,
    pub conditions: TestConditions,
    pub back_end: Option<BackEnd>,
    pub needs: &'static [Need],
    pub loads: &'static [ExpectedVerdict],
}

/// A load, and the verdicts that are right under it.
#[derive(Clone, Copy, Debug)]
pub struct ExpectedVerdict {
    pub at: LoadLevel,
    /// Names of resources, as reports have them. Several: two names for the same truth.
    pub right: &'static [&'static str],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadLevel {
    /// A closed loop over so many connections.
    Connections(u32),
    /// Requests per second over 16 connections.
    Rate(u32),
}

/// The conditions of a start that differ from a suite's defaults.
#[derive(Clone, Copy, Debug, Default)]
pub struct TestConditions {
    /// CPU quota in thousandths of a CPU.
    pub quota_milli: Option<u32>,
    /// The server may use at least two CPUs, if need be one that it shares with the generator.
    pub is_on_several_cpus: bool,
    pub memory_mib: Option<u32>,
    pub requests_per_connection: Option<u32>,
    /// Length of the warm-up of each step. `None`: the calibration's default.
    pub warmup_ms: Option<u32>,
    /// No warm-up: the bottleneck is the work while the server gets warm.
    pub is_cold: bool,
    /// Other programs fill all CPUs of the machine meanwhile.
    pub is_machine_busy: bool,
}

/// A service that the server calls once per request.
#[derive(Clone, Copy, Debug)]
pub struct BackEnd {
    /// The behaviour of this service.
    pub behaviour: &'static str,
    /// Whether the suite names it in `[[backends]]`.
    pub is_monitored: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Control groups that limit CPU or memory.
    Root,
    /// A temporary folder on a disk, not in memory.
    Disk,
    Runtime(Runtime),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    Java,
    Go,
    Node,
    Python,
}

#[derive(Clone, Copy, Debug)]
pub enum Program {
    /// The program `testkit`.
    Testkit(ThreadModel, RequestWork),
    /// A file of `servers/`, with options of the runtime before it and arguments after the port.
    Server { runtime: Runtime, options: &'static [&'static str], mode: &'static str },
}

/// The threads of a server, and what each of them does.
#[derive(Clone, Copy, Debug)]
pub enum ThreadModel {
    ThreadPerConnection,
    /// One thread receives requests, and so many workers answer them.
    Pool(u32),
    /// One thread does everything. `RequestWork::Sleep` blocks it, `RequestWork::Timer` does not.
    EventLoop,
    /// One thread that polls for events without ever waiting for them.
    BusyLoop,
    ThreadPerRequest,
    /// A thread per connection. One connection is accepted per interval of `every_us` microseconds,
    /// and at most `backlog` wait.
    SlowAccept {
        every_us: u32,
        backlog: i32,
    },
}

/// The work of one request. Times are in microseconds.
#[derive(Clone, Copy, Debug)]
pub enum RequestWork {
    Nothing,
    /// Computes.
    Burn(u32),
    /// Computes, while three other threads do a little now and then.
    BurnWithIdlers(u32),
    /// `nanosleep`.
    Sleep(u32),
    /// A condition variable with a timeout.
    ConditionWait(u32),
    /// A channel with a timeout.
    ChannelWait(u32),
    /// The time-out of the event loop's own wait. Only in an event loop.
    Timer(u32),
    /// Computes and sleeps while it holds the one mutex.
    Lock {
        burn: u32,
        sleep: u32,
    },
    /// Waits on a condition variable until its turn has come, then sleeps.
    Turn(u32),
    /// Sleeps while it holds the one spinlock.
    Spinlock(u32),
    /// Calls the back end over a connection of the thread's own, after computing a little.
    CallBackEnd,
    /// Calls the back end over one of so many connections that all threads share.
    CallPooled(u32),
    /// Writes 4 KiB eight times, and waits each time until they are on the disk.
    Sync,
    /// Reads 4 KiB at eight places, past the page cache.
    ReadDisk,
    /// Writes head and body by themselves, with Nagle's algorithm on.
    TwoWrites,
    /// Starts a process that computes.
    Process(u32),
    /// Computes for `cold`, and after so many requests for `warm`.
    Cache {
        requests: u32,
        cold: u32,
        warm: u32,
    },
    /// Computes, and keeps 4 KiB for ever.
    Leak(u32),
    /// Stops everything for `stop_ms` each `every_ms`.
    Stall {
        every_ms: u32,
        stop_ms: u32,
    },
    /// Computes, for one per cent longer after each ten requests.
    Dearer(u32),
}
