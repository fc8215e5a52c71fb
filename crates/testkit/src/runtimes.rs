//! Lists the behaviours of servers in other languages, whose files are in `servers/`.

use crate::behaviour::{
    Behaviour, ExpectedVerdict, LoadLevel::Connections, Need, Program, Runtime, Runtime::*,
    TestConditions,
};

const fn expected_verdict(connections: u32, right: &'static [&'static str]) -> ExpectedVerdict {
    ExpectedVerdict { at: Connections(connections), right }
}

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

/// Lets a JVM compile all code of requests before it is measured. It uses only the quick compiler,
/// and a longer warm-up, because few requests arrive per second.
const fn warm(behaviour: Behaviour) -> Behaviour {
    let conditions = TestConditions { warmup_ms: Some(5000), ..LONGER };
    Behaviour { conditions, ..with_options(behaviour, &["-XX:TieredStopAtLevel=1"]) }
}

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

const TIMED: &[ExpectedVerdict] = &[
    expected_verdict(1, &["concurrency"]),
    expected_verdict(8, &["concurrency"]),
    expected_verdict(32, &["concurrency"]),
];

pub const BEHAVIOURS: &[Behaviour] = &[
    warm(behaviour("java-sleep", "`Thread.sleep`, a thread per request", Java, "sleep", TIMED)),
    warm(behaviour(
        "java-pool",
        "`Thread.sleep` in four workers",
        Java,
        "pool",
        &[
            expected_verdict(4, &["concurrency", "workers"]),
            expected_verdict(16, &["workers"]),
            expected_verdict(32, &["workers"]),
        ],
    )),
    warm(behaviour(
        "java-lock",
        "`synchronized`, held while asleep",
        Java,
        "lock",
        &[
            expected_verdict(1, &["concurrency", "lock"]),
            expected_verdict(8, &["lock"]),
            expected_verdict(32, &["lock"]),
        ],
    )),
    with_options(
        behaviour(
            "java-gc",
            "a heap that is nearly full",
            Java,
            "gc",
            &[expected_verdict(4, &["gc"]), expected_verdict(8, &["gc"])],
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
                &[expected_verdict(2, &["jit"]), expected_verdict(4, &["jit"])],
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
            expected_verdict(1, &["concurrency", "lock", "elsewhere"]),
            expected_verdict(8, &["lock", "elsewhere"]),
            expected_verdict(32, &["lock", "elsewhere"]),
        ],
    ),
    behaviour("node-timeout", "`setTimeout`", Node, "timeout", TIMED),
    behaviour(
        "node-pool-one",
        "a pool of one, which every request waits for",
        Node,
        "pool",
        &[
            expected_verdict(1, &["concurrency", "elsewhere", "workers", "lock"]),
            expected_verdict(8, &["elsewhere", "workers", "lock"]),
            expected_verdict(32, &["elsewhere", "workers", "lock"]),
        ],
    ),
    behaviour("asyncio-sleep", "`asyncio.sleep`", Python, "sleep", TIMED),
    behaviour(
        "asyncio-cpu",
        "one thread that computes",
        Python,
        "cpu",
        &[
            expected_verdict(4, &["server_cpu", "server_thread"]),
            expected_verdict(16, &["server_cpu", "server_thread"]),
        ],
    ),
    Behaviour {
        conditions: TestConditions { memory_mib: Some(64), ..LONGER },
        needs: &[Need::Root, Need::Disk, Need::Runtime(Python)],
        ..behaviour(
            "memory",
            "more memory is in use than the limit of 64 MiB lets stay",
            Python,
            "memory",
            &[
                expected_verdict(1, &["memory", "concurrency"]),
                expected_verdict(4, &["memory"]),
                expected_verdict(16, &["memory"]),
            ],
        )
    },
];
