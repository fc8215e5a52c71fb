//! Defines the types of the list of behaviours: a server, its conditions, and the correct verdicts
//! for each load.

/// A server with a known bottleneck, and the loads under which it is tested.
#[derive(Clone, Copy, Debug)]
pub struct Behaviour {
    pub name: &'static str,
    /// The bottleneck, as a phrase for readers of the table.
    pub cause: &'static str,
    pub program: Program,
    pub conditions: TestConditions,
    pub back_end: Option<BackEnd>,
    pub needs: &'static [Need],
    pub loads: &'static [ExpectedVerdict],
}

/// A load, and the correct verdicts for it.
#[derive(Clone, Copy, Debug)]
pub struct ExpectedVerdict {
    pub at: LoadLevel,
    /// Names of limiters in reports. If there are several, each name is correct.
    pub correct: &'static [&'static str],
}

/// The size of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadLevel {
    /// A closed loop with this number of connections.
    Connections(u32),
    /// Requests per second over 16 connections.
    Rate(u32),
}

/// The conditions of a start that can differ from a suite's defaults.
#[derive(Clone, Copy, Debug, Default)]
pub struct TestConditions {
    /// CPU quota in thousandths of a CPU.
    pub quota_milli: Option<u32>,
    /// Whether the server has at least two CPUs. If necessary, it shares a CPU with the generator.
    pub is_on_several_cpus: bool,
    pub memory_mib: Option<u32>,
    pub requests_per_connection: Option<u32>,
    /// Length of the warm-up of each step. `None`: the calibration's default.
    pub warmup_ms: Option<u32>,
    /// Whether there is no warm-up, because the bottleneck is the work of a cold server.
    pub is_cold: bool,
    /// Whether other programs use all CPUs of the machine during the load.
    pub is_machine_busy: bool,
}

/// A service that the server calls once per request.
#[derive(Clone, Copy, Debug)]
pub struct BackEnd {
    /// The behaviour of this service.
    pub behaviour: &'static str,
    /// Whether the suite names the service in `[[backends]]`.
    pub is_monitored: bool,
}

/// Requirement of a behaviour on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Permission to limit CPU or memory by control groups.
    Root,
    /// A temporary folder on a disk instead of in memory.
    Disk,
    Runtime(Runtime),
}

/// Runtime of a server in `servers/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    Java,
    Go,
    Node,
    Python,
}

/// The program that a behaviour starts.
#[derive(Clone, Copy, Debug)]
pub enum Program {
    /// The program `testkit`.
    Testkit(ThreadModel, RequestWork),
    /// A file in `servers/`. Command line: RUNTIME OPTIONS FILE PORT MODE.
    Server { runtime: Runtime, options: &'static [&'static str], mode: &'static str },
}

/// Threading model of a server.
#[derive(Clone, Copy, Debug)]
pub enum ThreadModel {
    ThreadPerConnection,
    /// One thread receives requests, and this number of workers respond to them.
    Pool(u32),
    /// One thread does all work. `RequestWork::Sleep` blocks this thread, `RequestWork::Timer` does
    /// not.
    EventLoop,
    /// One thread polls for events without waiting.
    BusyLoop,
    ThreadPerRequest,
    /// A thread per connection. One connection is accepted every `every_us` microseconds, and at
    /// most `backlog` connections wait.
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
    /// Computes, while three other threads do a little work from time to time.
    BurnWithIdlers(u32),
    /// Waits with `nanosleep`.
    Sleep(u32),
    /// Waits on a condition variable with a timeout.
    ConditionWait(u32),
    /// Waits on a channel with a timeout.
    ChannelWait(u32),
    /// Waits for a timer of the event loop. Only for `ThreadModel::EventLoop`.
    Timer(u32),
    /// Computes and sleeps while it holds the server's only mutex.
    Lock {
        burn: u32,
        sleep: u32,
    },
    /// Takes a turn: waits on a condition variable until no other request has the turn, sleeps, and
    /// passes the turn on.
    Turn(u32),
    /// Sleeps while it holds the server's only spinlock.
    Spinlock(u32),
    /// Computes a little, and then calls the back end over the thread's own connection.
    CallBackEnd,
    /// Calls the back end over one of this number of connections, which all threads share.
    CallPooled(u32),
    /// Writes 1 MiB, bypassing the page cache, and waits until it is on the disk.
    Sync,
    /// Reads 4 KiB at eight offsets, bypassing the page cache.
    ReadDisk,
    /// Writes head and body separately, with Nagle's algorithm enabled.
    TwoWrites,
    /// Starts a process that computes.
    Process(u32),
    /// Each of the first `requests` requests computes for `cold`, later ones for `warm`.
    Cache {
        requests: u32,
        cold: u32,
        warm: u32,
    },
    /// Computes, and leaks 4 KiB.
    Leak(u32),
    /// Stops the server for `stop_ms` every `every_ms`.
    Stall {
        every_ms: u32,
        stop_ms: u32,
    },
    /// Computes. The time grows by one per cent after every ten requests.
    GrowingBurn(u32),
}
