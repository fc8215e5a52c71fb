//! Lists the behaviours of the Rust server, the program `testkit`.

use crate::behaviour::{
    BackEnd, Behaviour, ExpectedVerdict,
    LoadLevel::{Connections, Rate},
    Need, Program, RequestWork, TestConditions, ThreadModel,
};

/// Default conditions.
const PLAIN: TestConditions = TestConditions {
    quota_milli: None,
    is_on_several_cpus: false,
    memory_mib: None,
    requests_per_connection: None,
    warmup_ms: None,
    is_cold: false,
    is_machine_busy: false,
};

/// Returns the correct verdicts at a number of connections.
const fn at_connections(connections: u32, correct: &'static [&'static str]) -> ExpectedVerdict {
    ExpectedVerdict { at: Connections(connections), correct }
}

/// Returns the correct verdicts at a rate.
const fn at_rate(per_second: u32, correct: &'static [&'static str]) -> ExpectedVerdict {
    ExpectedVerdict { at: Rate(per_second), correct }
}

/// Returns a behaviour with default conditions.
const fn behaviour(
    name: &'static str,
    cause: &'static str,
    model: ThreadModel,
    work: RequestWork,
    loads: &'static [ExpectedVerdict],
) -> Behaviour {
    let program = Program::Testkit(model, work);
    Behaviour { name, cause, program, conditions: PLAIN, back_end: None, needs: &[], loads }
}

/// Adds a back end that the behaviour calls.
const fn calling(behaviour: Behaviour, back_end: &'static str, is_monitored: bool) -> Behaviour {
    Behaviour { back_end: Some(BackEnd { behaviour: back_end, is_monitored }), ..behaviour }
}

/// Requests wait independently of each other, so throughput is proportional to the number in
/// flight.
const TIMED: &[ExpectedVerdict] = &[
    at_connections(1, &["concurrency"]),
    at_connections(8, &["concurrency"]),
    at_connections(32, &["concurrency"]),
];

/// The server has one CPU, which more than one request in flight uses fully.
const CPU: &[ExpectedVerdict] = &[
    at_connections(1, &["server_cpu", "server_thread", "concurrency"]),
    at_connections(4, &["server_cpu", "server_thread"]),
    at_connections(16, &["server_cpu", "server_thread"]),
];

/// One lock. With one connection there is no contention, but the lock is still the limit, because
/// more threads would not serve more requests.
const LOCK: &[ExpectedVerdict] = &[
    at_connections(1, &["concurrency", "lock"]),
    at_connections(4, &["lock"]),
    at_connections(16, &["lock"]),
];

/// The verdicts for a spinlock. Both are correct, because waiting threads use the CPU.
const SPINS: &[&str] = &["lock", "server_cpu"];

/// There are fewer workers than requests in flight, except with one connection.
const WORKERS: &[ExpectedVerdict] = &[
    at_connections(1, &["concurrency", "workers"]),
    at_connections(8, &["workers"]),
    at_connections(32, &["workers"]),
];

/// A service that the suite does not name, so dyno does not monitor it. dyno can report "elsewhere"
/// or, if it sees threads wait for the service, "backend".
const UNMONITORED: &[ExpectedVerdict] = &[
    at_connections(1, &["concurrency", "elsewhere", "backend"]),
    at_connections(8, &["elsewhere", "backend"]),
    at_connections(32, &["elsewhere", "backend"]),
];

/// A pool of connections for which requests wait. The pool belongs to the server itself, so "lock"
/// is correct as well.
const CONNECTION_POOL: &[ExpectedVerdict] = &[
    at_connections(1, &["concurrency", "elsewhere", "lock", "backend"]),
    at_connections(8, &["elsewhere", "lock", "backend"]),
    at_connections(32, &["elsewhere", "lock", "backend"]),
];

const THREADS: ThreadModel = ThreadModel::ThreadPerConnection;

pub const BEHAVIOURS: &[Behaviour] = &[
    behaviour("cpu", "every request computes for 300 µs", THREADS, RequestWork::Burn(300), CPU),
    behaviour(
        "cpu-event-loop",
        "one thread computes",
        ThreadModel::EventLoop,
        RequestWork::Burn(200),
        CPU,
    ),
    Behaviour {
        conditions: TestConditions { is_on_several_cpus: true, ..PLAIN },
        ..behaviour(
            "one-thread",
            "one of several threads does all the work, on more CPUs than this thread can use",
            ThreadModel::EventLoop,
            RequestWork::BurnWithIdlers(300),
            &[at_connections(4, &["server_thread"]), at_connections(16, &["server_thread"])],
        )
    },
    Behaviour {
        conditions: TestConditions { quota_milli: Some(300), ..PLAIN },
        needs: &[Need::Root],
        ..behaviour(
            "quota",
            "a quota of 0.3 CPUs",
            THREADS,
            RequestWork::Burn(300),
            &[at_connections(4, &["cpu_quota"]), at_connections(16, &["cpu_quota"])],
        )
    },
    behaviour(
        "lock-sleep",
        "one mutex, held while asleep",
        THREADS,
        RequestWork::Lock { burn: 0, sleep: 3000 },
        LOCK,
    ),
    behaviour(
        "lock-work",
        "one mutex, held while computing and asleep",
        THREADS,
        RequestWork::Lock { burn: 300, sleep: 1500 },
        LOCK,
    ),
    behaviour(
        "lock-turn",
        "requests run one after the other, and each wakes the next with a condition variable",
        THREADS,
        RequestWork::Turn(3000),
        LOCK,
    ),
    behaviour(
        "spinlock",
        "one spinlock, held while asleep; waiting threads use the CPU",
        THREADS,
        RequestWork::Spinlock(2000),
        &[at_connections(1, &["concurrency"]), at_connections(4, SPINS), at_connections(16, SPINS)],
    ),
    behaviour(
        "wait-nanosleep",
        "each request sleeps 20 ms",
        THREADS,
        RequestWork::Sleep(20_000),
        TIMED,
    ),
    behaviour(
        "wait-condition",
        "each request waits 20 ms on a condition variable",
        THREADS,
        RequestWork::ConditionWait(20_000),
        TIMED,
    ),
    behaviour(
        "wait-channel",
        "each request waits 20 ms on a channel",
        THREADS,
        RequestWork::ChannelWait(20_000),
        TIMED,
    ),
    behaviour(
        "wait-epoll",
        "each request waits for a timer of epoll",
        ThreadModel::EventLoop,
        RequestWork::Timer(20_000),
        TIMED,
    ),
    behaviour(
        "workers-sleep",
        "two workers that sleep",
        ThreadModel::Pool(2),
        RequestWork::Sleep(5000),
        WORKERS,
    ),
    behaviour(
        "workers-condition",
        "four workers that wait on a condition variable with a timeout",
        ThreadModel::Pool(4),
        RequestWork::ConditionWait(10_000),
        WORKERS,
    ),
    behaviour(
        "worker-one",
        "an event loop that sleeps",
        ThreadModel::EventLoop,
        RequestWork::Sleep(5000),
        WORKERS,
    ),
    behaviour(
        "workers-cpu",
        "two workers that compute",
        ThreadModel::Pool(2),
        RequestWork::Burn(300),
        CPU,
    ),
    calling(
        behaviour(
            "backend-serial-monitored",
            "a monitored back end that serves one request at a time",
            THREADS,
            RequestWork::CallBackEnd,
            &[
                at_connections(1, &["backend", "concurrency"]),
                at_connections(8, &["backend"]),
                at_connections(32, &["backend"]),
            ],
        ),
        "lock-sleep",
        true,
    ),
    calling(
        behaviour(
            "backend-cpu-monitored",
            "a monitored back end whose CPU is full",
            THREADS,
            RequestWork::CallBackEnd,
            &[at_connections(4, &["backend"]), at_connections(16, &["backend"])],
        ),
        "cpu",
        true,
    ),
    calling(
        behaviour(
            "backend-serial",
            "an unmonitored back end that serves one request at a time",
            THREADS,
            RequestWork::CallBackEnd,
            UNMONITORED,
        ),
        "lock-sleep",
        false,
    ),
    calling(
        behaviour(
            "backend-pooled",
            "an unmonitored back end with two workers",
            THREADS,
            RequestWork::CallBackEnd,
            UNMONITORED,
        ),
        "workers-sleep",
        false,
    ),
    calling(
        behaviour(
            "backend-event-loop",
            "one thread that waits for an unmonitored back end",
            ThreadModel::EventLoop,
            RequestWork::CallBackEnd,
            &[
                at_connections(1, &["concurrency", "elsewhere", "backend", "workers"]),
                at_connections(8, &["elsewhere", "backend", "workers"]),
                at_connections(32, &["elsewhere", "backend", "workers"]),
            ],
        ),
        "wait-nanosleep",
        false,
    ),
    calling(
        behaviour(
            "backend-parallel",
            "a back end that takes 20 ms for each request, and serves all requests at the same \
             time",
            THREADS,
            RequestWork::CallBackEnd,
            &[
                at_connections(1, &["concurrency", "elsewhere", "backend"]),
                at_connections(8, &["concurrency", "elsewhere", "backend"]),
                at_connections(32, &["concurrency", "elsewhere", "backend"]),
            ],
        ),
        "wait-nanosleep",
        false,
    ),
    calling(
        behaviour(
            "connection-pool-one",
            "one connection to a back end, which all threads share",
            THREADS,
            RequestWork::CallPooled(1),
            CONNECTION_POOL,
        ),
        "workers-condition",
        false,
    ),
    calling(
        behaviour(
            "connection-pool-four",
            "four connections to a back end, which all threads share",
            THREADS,
            RequestWork::CallPooled(4),
            CONNECTION_POOL,
        ),
        "wait-nanosleep",
        false,
    ),
    Behaviour {
        conditions: TestConditions { requests_per_connection: Some(1), ..PLAIN },
        ..behaviour(
            "accept-queue",
            "one connection is accepted every 5 ms, and at most eight connections wait",
            ThreadModel::SlowAccept { every_us: 5000, backlog: 8 },
            RequestWork::Nothing,
            &[at_connections(12, &["accept_queue"])],
        )
    },
    Behaviour {
        needs: &[Need::Disk],
        ..behaviour(
            "disk-sync",
            "each request writes 1 MiB to the disk, bypassing the page cache",
            THREADS,
            RequestWork::Sync,
            // A disk handles many writes at a time, so throughput still grows with eight
            // connections.
            &[
                at_connections(1, &["disk", "concurrency"]),
                at_connections(8, &["disk", "concurrency"]),
                at_connections(32, &["disk"]),
            ],
        )
    },
    Behaviour {
        needs: &[Need::Disk],
        ..behaviour(
            "disk-read",
            "each request reads from the disk, bypassing the page cache, in one thread",
            ThreadModel::EventLoop,
            RequestWork::ReadDisk,
            &[
                at_connections(1, &["disk", "concurrency"]),
                at_connections(8, &["disk"]),
                at_connections(32, &["disk"]),
            ],
        )
    },
    behaviour(
        "nagle",
        "head and body are written separately, with Nagle's algorithm on",
        THREADS,
        RequestWork::TwoWrites,
        &[at_connections(1, &["delayed_ack"]), at_connections(8, &["delayed_ack"])],
    ),
    behaviour(
        "busy-poll",
        "a loop that polls for events without waiting, with capacity left",
        ThreadModel::BusyLoop,
        RequestWork::Nothing,
        &[at_connections(1, &["concurrency"]), at_rate(2000, &["offered_rate"])],
    ),
    behaviour(
        "process-per-request",
        "each request starts a process",
        THREADS,
        RequestWork::Process(500),
        &[at_connections(4, &["server_cpu"]), at_connections(16, &["server_cpu"])],
    ),
    behaviour(
        "thread-per-request",
        "each request has its own thread, which computes",
        ThreadModel::ThreadPerRequest,
        RequestWork::Burn(300),
        &[at_connections(4, &["server_cpu"]), at_connections(16, &["server_cpu"])],
    ),
    Behaviour {
        conditions: TestConditions { requests_per_connection: Some(1), ..PLAIN },
        ..behaviour(
            "thread-per-connection",
            "each request has its own connection, and a thread that computes",
            THREADS,
            RequestWork::Burn(300),
            &[at_connections(4, &["server_cpu"]), at_connections(16, &["server_cpu"])],
        )
    },
    behaviour(
        "filling-cache",
        "the first 700 requests compute for 1 ms, all others for 0.3 ms",
        THREADS,
        RequestWork::Cache { requests: 700, cold: 1000, warm: 300 },
        &[
            at_connections(4, &["server_cpu", "server_thread"]),
            at_connections(16, &["server_cpu", "server_thread"]),
        ],
    ),
    behaviour(
        "leak",
        "every request computes, and keeps 4 KiB",
        THREADS,
        RequestWork::Leak(300),
        CPU,
    ),
    behaviour(
        "stall",
        "the server stops for 100 ms every 500 ms, with capacity left",
        ThreadModel::EventLoop,
        RequestWork::Stall { every_ms: 500, stop_ms: 100 },
        &[at_rate(300, &["offered_rate"])],
    ),
    behaviour(
        "drift",
        "the CPU time per request grows",
        THREADS,
        RequestWork::GrowingBurn(200),
        CPU,
    ),
    behaviour(
        "offered-rate",
        "requests compute, with capacity left",
        THREADS,
        RequestWork::Burn(50),
        &[at_rate(500, &["offered_rate"]), at_rate(2000, &["offered_rate"])],
    ),
    behaviour(
        "offered-wait",
        "requests sleep, with capacity left",
        THREADS,
        RequestWork::Sleep(5000),
        &[at_rate(300, &["offered_rate"])],
    ),
    behaviour(
        "overload-cpu",
        "more requests are offered than the CPU can serve",
        THREADS,
        RequestWork::Burn(1000),
        &[at_rate(2000, &["server_cpu", "server_thread"])],
    ),
    Behaviour {
        conditions: TestConditions { is_machine_busy: true, ..PLAIN },
        ..behaviour(
            "other-programs",
            "other programs use all CPUs of the machine",
            THREADS,
            RequestWork::Burn(300),
            &[at_connections(4, &["other_programs"]), at_connections(16, &["other_programs"])],
        )
    },
];
