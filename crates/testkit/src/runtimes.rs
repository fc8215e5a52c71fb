//! Lists the behaviours of servers in other languages, whose files are in `servers/`.

use crate::behaviour::{
    Behaviour, ExpectedVerdict, LoadLevel::Connections, Need, Program, Runtime, Runtime::*,
    TestConditions,
};

/// Returns the correct verdicts at a number of connections.
const fn at_connections(connections: u32, correct: &'static [&'static str]) -> ExpectedVerdict {
    ExpectedVerdict { at: Connections(connections), correct }
}

/// Returns a behaviour with a longer warm-up.
const fn behaviour(
    name: &'static str,
    cause: &'static str,
    runtime: Runtime,
    mode: &'static str,
    loads: &'static [ExpectedVerdict],
) -> Behaviour {
    let needs: &[Need] = match runtime {
        Java => &[Need::Runtime(Java)],
        Go => &[Need::Runtime(Go)],
        Node => &[Need::Runtime(Node)],
        Python => &[Need::Runtime(Python)],
    };
    let program = Program::Server { runtime, options: &[], mode };
    Behaviour { name, cause, program, conditions: LONGER, back_end: None, needs, loads }
}

/// Uses only the quick compiler of a JVM, and a longer warm-up, so that all code of requests is
/// compiled before the measured window. Few requests arrive per second, so compilation takes long.
const fn warm(behaviour: Behaviour) -> Behaviour {
    let conditions = TestConditions { warmup_ms: Some(5000), ..LONGER };
    Behaviour { conditions, ..with_options(behaviour, &["-XX:TieredStopAtLevel=1"]) }
}

/// Sets the options of the runtime.
const fn with_options(behaviour: Behaviour, options: &'static [&'static str]) -> Behaviour {
    match behaviour.program {
        Program::Server { runtime, mode, .. } => {
            Behaviour { program: Program::Server { runtime, options, mode }, ..behaviour }
        }
        Program::Testkit(..) => behaviour,
    }
}

/// Conditions with a longer warm-up, because just-in-time compilers need time.
const LONGER: TestConditions = TestConditions {
    quota_milli: None,
    is_on_several_cpus: false,
    memory_mib: None,
    requests_per_connection: None,
    warmup_ms: Some(700),
    is_cold: false,
    is_machine_busy: false,
};

/// Requests wait independently of each other, so throughput is proportional to the number in
/// flight.
const TIMED: &[ExpectedVerdict] = &[
    at_connections(1, &["concurrency"]),
    at_connections(8, &["concurrency"]),
    at_connections(32, &["concurrency"]),
];

pub const BEHAVIOURS: &[Behaviour] = &[
    warm(behaviour("java-sleep", "`Thread.sleep`, a thread per request", Java, "sleep", TIMED)),
    warm(behaviour(
        "java-pool",
        "`Thread.sleep` in four workers",
        Java,
        "pool",
        &[
            at_connections(4, &["concurrency", "workers"]),
            at_connections(16, &["workers"]),
            at_connections(32, &["workers"]),
        ],
    )),
    warm(behaviour(
        "java-lock",
        "`synchronized`, held while asleep",
        Java,
        "lock",
        &[
            at_connections(1, &["concurrency", "lock"]),
            at_connections(8, &["lock"]),
            at_connections(32, &["lock"]),
        ],
    )),
    with_options(
        behaviour(
            "java-gc",
            "a heap that is nearly full",
            Java,
            "gc",
            &[at_connections(4, &["gc"]), at_connections(8, &["gc"])],
        ),
        &["-Xms60m", "-Xmx60m", "-Xmn6m", "-XX:+UseParallelGC"],
    ),
    Behaviour {
        conditions: TestConditions { is_cold: true, ..LONGER },
        ..with_options(
            behaviour(
                "java-jit",
                "new code to compile",
                Java,
                "jit",
                &[at_connections(2, &["jit"]), at_connections(4, &["jit"])],
            ),
            &["-Xcomp", "-XX:-TieredCompilation", "-XX:CompileCommand=quiet"],
        )
    },
    behaviour("go-sleep", "`time.Sleep`", Go, "sleep", TIMED),
    behaviour(
        "go-lock",
        "`sync.Mutex`, held while asleep",
        Go,
        "lock",
        &[
            at_connections(1, &["concurrency", "lock", "elsewhere"]),
            at_connections(8, &["lock", "elsewhere"]),
            at_connections(32, &["lock", "elsewhere"]),
        ],
    ),
    behaviour("node-timeout", "`setTimeout`", Node, "timeout", TIMED),
    behaviour(
        "node-pool-one",
        "a pool with one object, for which every request waits",
        Node,
        "pool",
        &[
            at_connections(1, &["concurrency", "elsewhere", "workers", "lock"]),
            at_connections(8, &["elsewhere", "workers", "lock"]),
            at_connections(32, &["elsewhere", "workers", "lock"]),
        ],
    ),
    behaviour("asyncio-sleep", "`asyncio.sleep`", Python, "sleep", TIMED),
    behaviour(
        "asyncio-cpu",
        "one thread that computes",
        Python,
        "cpu",
        &[
            at_connections(4, &["server_cpu", "server_thread"]),
            at_connections(16, &["server_cpu", "server_thread"]),
        ],
    ),
    Behaviour {
        conditions: TestConditions { memory_mib: Some(64), ..LONGER },
        needs: &[Need::Root, Need::Disk, Need::Runtime(Python)],
        ..behaviour(
            "memory",
            "more memory is in use than the limit of 64 MiB",
            Python,
            "memory",
            &[
                at_connections(1, &["memory", "concurrency"]),
                at_connections(4, &["memory"]),
                at_connections(16, &["memory"]),
            ],
        )
    },
];
