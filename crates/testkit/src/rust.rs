//! The behaviours of the Rust server.

use crate::behaviour::{
    At::{Connections, Rate},
    BackEnd, Behaviour, Conditions, Load, Model, Need, Program, Work,
};

/// The conditions that are all defaults.
const PLAIN: Conditions = Conditions {
    quota_milli: None,
    is_on_several_cpus: false,
    memory_mib: None,
    requests_per_connection: None,
    warmup_ms: None,
    is_cold: false,
    is_machine_busy: false,
};

const fn at(connections: u32, right: &'static [&'static str]) -> Load {
    Load { at: Connections(connections), right }
}

const fn rate(per_second: u32, right: &'static [&'static str]) -> Load {
    Load { at: Rate(per_second), right }
}

const fn of(
    name: &'static str,
    cause: &'static str,
    model: Model,
    work: Work,
    loads: &'static [Load],
) -> Behaviour {
    let program = Program::Testkit(model, work);
    Behaviour { name, cause, program, conditions: PLAIN, back_end: None, needs: &[], loads }
}

const fn calling(behaviour: Behaviour, back_end: &'static str, is_monitored: bool) -> Behaviour {
    Behaviour { back_end: Some(BackEnd { behaviour: back_end, is_monitored }), ..behaviour }
}

/// Each request waits for a time of its own: twice as many in flight serve twice as many.
const TIMED: &[Load] =
    &[at(1, &["concurrency"]), at(8, &["concurrency"]), at(32, &["concurrency"])];

/// One CPU is full from the second request in flight on.
const CPU: &[Load] = &[
    at(1, &["server_cpu", "server_thread", "concurrency"]),
    at(4, &["server_cpu", "server_thread"]),
    at(16, &["server_cpu", "server_thread"]),
];

/// One lock. At one connection it has no contention, but it still is the limit there: more threads
/// would serve no more requests.
const LOCK: &[Load] = &[at(1, &["concurrency", "lock"]), at(4, &["lock"]), at(16, &["lock"])];

/// A lock that burns the CPU of those that wait for it: both are the limit.
const SPINS: &[&str] = &["lock", "server_cpu"];

/// Fewer workers than requests. At one connection there is a worker for it.
const WORKERS: &[Load] =
    &[at(1, &["concurrency", "workers"]), at(8, &["workers"]), at(32, &["workers"])];

/// A service that the suite does not name. dyno can say no more than "elsewhere"; that the
/// threads wait for their turn at it is the same truth.
const UNMONITORED: &[Load] = &[
    at(1, &["concurrency", "elsewhere", "backend"]),
    at(8, &["elsewhere", "backend"]),
    at(32, &["elsewhere", "backend"]),
];

/// A pool of connections that requests wait for: a limit of the server's own.
const CONNECTION_POOL: &[Load] = &[
    at(1, &["concurrency", "elsewhere", "lock", "backend"]),
    at(8, &["elsewhere", "lock", "backend"]),
    at(32, &["elsewhere", "lock", "backend"]),
];

const THREADS: Model = Model::ThreadPerConnection;

pub const BEHAVIOURS: &[Behaviour] = &[
    of("cpu", "every request computes for 300 µs", THREADS, Work::Burn(300), CPU),
    of("cpu-event-loop", "one thread computes", Model::EventLoop, Work::Burn(200), CPU),
    Behaviour {
        conditions: Conditions { is_on_several_cpus: true, ..PLAIN },
        ..of(
            "one-thread",
            "one thread of several does all the work, on more CPUs than it can use",
            Model::EventLoop,
            Work::BurnWithIdlers(300),
            &[at(4, &["server_thread"]), at(16, &["server_thread"])],
        )
    },
    Behaviour {
        conditions: Conditions { quota_milli: Some(300), ..PLAIN },
        needs: &[Need::Root],
        ..of(
            "quota",
            "a quota of 0.3 CPUs",
            THREADS,
            Work::Burn(300),
            &[at(4, &["cpu_quota"]), at(16, &["cpu_quota"])],
        )
    },
    of(
        "lock-sleep",
        "one mutex, held while asleep",
        THREADS,
        Work::Lock { burn: 0, sleep: 3000 },
        LOCK,
    ),
    of(
        "lock-work",
        "one mutex, held while computing and asleep",
        THREADS,
        Work::Lock { burn: 300, sleep: 1500 },
        LOCK,
    ),
    of("lock-turn", "a turn that a condition variable hands on", THREADS, Work::Turn(3000), LOCK),
    of(
        "spinlock",
        "one spinlock, held while asleep; the others burn the CPU until they have it",
        THREADS,
        Work::Spinlock(2000),
        &[at(1, &["concurrency"]), at(4, SPINS), at(16, SPINS)],
    ),
    of("wait-nanosleep", "each request sleeps 20 ms", THREADS, Work::Sleep(20_000), TIMED),
    of(
        "wait-condition",
        "each request waits 20 ms on a condition variable",
        THREADS,
        Work::ConditionWait(20_000),
        TIMED,
    ),
    of(
        "wait-channel",
        "each request waits 20 ms on a channel",
        THREADS,
        Work::ChannelWait(20_000),
        TIMED,
    ),
    of(
        "wait-epoll",
        "each request waits for a timer of epoll",
        Model::EventLoop,
        Work::Timer(20_000),
        TIMED,
    ),
    of("workers-sleep", "two workers that sleep", Model::Pool(2), Work::Sleep(5000), WORKERS),
    of(
        "workers-condition",
        "four workers that wait on a condition variable with a timeout",
        Model::Pool(4),
        Work::ConditionWait(10_000),
        WORKERS,
    ),
    of("worker-one", "an event loop that sleeps", Model::EventLoop, Work::Sleep(5000), WORKERS),
    of("workers-cpu", "two workers that compute", Model::Pool(2), Work::Burn(300), CPU),
    calling(
        of(
            "backend-serial-monitored",
            "a monitored back end that answers one request at a time",
            THREADS,
            Work::CallBackEnd,
            &[at(1, &["backend", "concurrency"]), at(8, &["backend"]), at(32, &["backend"])],
        ),
        "lock-sleep",
        true,
    ),
    calling(
        of(
            "backend-cpu-monitored",
            "a monitored back end whose CPU is full",
            THREADS,
            Work::CallBackEnd,
            &[at(4, &["backend"]), at(16, &["backend"])],
        ),
        "cpu",
        true,
    ),
    calling(
        of(
            "backend-serial",
            "a back end that answers one request at a time, unmonitored",
            THREADS,
            Work::CallBackEnd,
            UNMONITORED,
        ),
        "lock-sleep",
        false,
    ),
    calling(
        of(
            "backend-pooled",
            "a back end with two workers, unmonitored",
            THREADS,
            Work::CallBackEnd,
            UNMONITORED,
        ),
        "workers-sleep",
        false,
    ),
    calling(
        of(
            "backend-event-loop",
            "one thread that waits for an unmonitored back end",
            Model::EventLoop,
            Work::CallBackEnd,
            &[
                at(1, &["concurrency", "elsewhere", "backend", "workers"]),
                at(8, &["elsewhere", "backend", "workers"]),
                at(32, &["elsewhere", "backend", "workers"]),
            ],
        ),
        "wait-nanosleep",
        false,
    ),
    calling(
        of(
            "backend-parallel",
            "a back end that takes 20 ms for each request, any number at a time",
            THREADS,
            Work::CallBackEnd,
            &[
                at(1, &["concurrency", "elsewhere", "backend"]),
                at(8, &["concurrency", "elsewhere", "backend"]),
                at(32, &["concurrency", "elsewhere", "backend"]),
            ],
        ),
        "wait-nanosleep",
        false,
    ),
    calling(
        of(
            "connection-pool-one",
            "one connection to a back end, which all threads share",
            THREADS,
            Work::CallPooled(1),
            CONNECTION_POOL,
        ),
        "workers-condition",
        false,
    ),
    calling(
        of(
            "connection-pool-four",
            "four connections to a back end, which all threads share",
            THREADS,
            Work::CallPooled(4),
            CONNECTION_POOL,
        ),
        "wait-nanosleep",
        false,
    ),
    Behaviour {
        conditions: Conditions { requests_per_connection: Some(1), ..PLAIN },
        ..of(
            "accept-queue",
            "a connection is accepted each 5 ms, and eight may wait",
            Model::SlowAccept { every_us: 5000, backlog: 8 },
            Work::Nothing,
            &[at(12, &["accept_queue"])],
        )
    },
    Behaviour {
        needs: &[Need::Disk],
        ..of(
            "disk-sync",
            "each request writes 1 MiB to the disk, past the page cache",
            THREADS,
            Work::Sync,
            // A disk takes many writes at a time: at eight connections throughput still grows.
            &[at(1, &["disk", "concurrency"]), at(8, &["disk", "concurrency"]), at(32, &["disk"])],
        )
    },
    Behaviour {
        needs: &[Need::Disk],
        ..of(
            "disk-read",
            "each request reads from the disk, past the page cache, one thread",
            Model::EventLoop,
            Work::ReadDisk,
            &[at(1, &["disk", "concurrency"]), at(8, &["disk"]), at(32, &["disk"])],
        )
    },
    of(
        "nagle",
        "head and body are written by themselves, with Nagle's algorithm on",
        THREADS,
        Work::TwoWrites,
        &[at(1, &["delayed_ack"]), at(8, &["delayed_ack"])],
    ),
    of(
        "busy-poll",
        "a loop that asks for events without waiting, with capacity left",
        Model::BusyLoop,
        Work::Nothing,
        &[at(1, &["concurrency"]), rate(2000, &["offered_rate"])],
    ),
    of(
        "process-per-request",
        "each request starts a process",
        THREADS,
        Work::Process(500),
        &[at(4, &["server_cpu"]), at(16, &["server_cpu"])],
    ),
    of(
        "thread-per-request",
        "each request has a thread that computes",
        Model::ThreadPerRequest,
        Work::Burn(300),
        &[at(4, &["server_cpu"]), at(16, &["server_cpu"])],
    ),
    Behaviour {
        conditions: Conditions { requests_per_connection: Some(1), ..PLAIN },
        ..of(
            "thread-per-connection",
            "each request has a connection, and a thread that computes",
            THREADS,
            Work::Burn(300),
            &[at(4, &["server_cpu"]), at(16, &["server_cpu"])],
        )
    },
    of(
        "filling-cache",
        "the first 700 requests compute for 1 ms, all others for 0.3 ms",
        THREADS,
        Work::Cache { requests: 700, cold: 1000, warm: 300 },
        &[at(4, &["server_cpu", "server_thread"]), at(16, &["server_cpu", "server_thread"])],
    ),
    of("leak", "every request computes, and keeps 4 KiB", THREADS, Work::Leak(300), CPU),
    of(
        "stall",
        "everything stops for 100 ms each 500 ms, with capacity left",
        Model::EventLoop,
        Work::Stall { every_ms: 500, stop_ms: 100 },
        &[rate(300, &["offered_rate"])],
    ),
    of("drift", "requests get dearer", THREADS, Work::Dearer(200), CPU),
    of(
        "offered-rate",
        "requests compute, with capacity left",
        THREADS,
        Work::Burn(50),
        &[rate(500, &["offered_rate"]), rate(2000, &["offered_rate"])],
    ),
    of(
        "offered-wait",
        "requests sleep, with capacity left",
        THREADS,
        Work::Sleep(5000),
        &[rate(300, &["offered_rate"])],
    ),
    of(
        "overload-cpu",
        "more requests are offered than the CPU can answer",
        THREADS,
        Work::Burn(1000),
        &[rate(2000, &["server_cpu", "server_thread"])],
    ),
    Behaviour {
        conditions: Conditions { is_machine_busy: true, ..PLAIN },
        ..of(
            "other-programs",
            "other programs use all CPUs of the machine",
            THREADS,
            Work::Burn(300),
            &[at(4, &["other_programs"]), at(16, &["other_programs"])],
        )
    },
];
