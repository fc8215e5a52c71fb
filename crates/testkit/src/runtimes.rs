//! The behaviours of servers of other runtimes, whose files are in `servers/`.

use crate::behaviour::{
    At::Connections, Behaviour, Conditions, Load, Need, Program, Runtime, Runtime::*,
};

const fn at(connections: u32, right: &'static [&'static str]) -> Load {
    Load { at: Connections(connections), right }
}

const fn of(
    name: &'static str,
    cause: &'static str,
    runtime: Runtime,
    mode: &'static str,
    loads: &'static [Load],
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

/// A JVM that has compiled what requests need before it is measured: compiled once, by the quick
/// compiler, and after a longer warm-up, since few requests come per second.
const fn warm(behaviour: Behaviour) -> Behaviour {
    let conditions = Conditions { warmup_ms: Some(5000), ..LONGER };
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

/// Compilers need some time.
const LONGER: Conditions = Conditions {
    quota_milli: None,
    is_on_several_cpus: false,
    memory_mib: None,
    requests_per_connection: None,
    warmup_ms: Some(700),
    is_cold: false,
    is_machine_busy: false,
};

const TIMED: &[Load] =
    &[at(1, &["concurrency"]), at(8, &["concurrency"]), at(32, &["concurrency"])];

pub const BEHAVIOURS: &[Behaviour] = &[
    warm(of("java-sleep", "`Thread.sleep`, a thread per request", Java, "sleep", TIMED)),
    warm(of(
        "java-pool",
        "`Thread.sleep` in four workers",
        Java,
        "pool",
        &[at(4, &["concurrency", "workers"]), at(16, &["workers"]), at(32, &["workers"])],
    )),
    warm(of(
        "java-lock",
        "`synchronized`, held while asleep",
        Java,
        "lock",
        &[at(1, &["concurrency", "lock"]), at(8, &["lock"]), at(32, &["lock"])],
    )),
    with_options(
        of("java-gc", "a heap that is nearly full", Java, "gc", &[at(4, &["gc"]), at(8, &["gc"])]),
        &["-Xms60m", "-Xmx60m", "-Xmn6m", "-XX:+UseParallelGC"],
    ),
    Behaviour {
        conditions: Conditions { is_cold: true, ..LONGER },
        ..with_options(
            of("java-jit", "new code to compile", Java, "jit", &[at(2, &["jit"]), at(4, &["jit"])]),
            &["-Xcomp", "-XX:-TieredCompilation", "-XX:CompileCommand=quiet"],
        )
    },
    of("go-sleep", "`time.Sleep`", Go, "sleep", TIMED),
    of(
        "go-lock",
        "`sync.Mutex`, held while asleep",
        Go,
        "lock",
        &[
            at(1, &["concurrency", "lock", "elsewhere"]),
            at(8, &["lock", "elsewhere"]),
            at(32, &["lock", "elsewhere"]),
        ],
    ),
    of("node-timeout", "`setTimeout`", Node, "timeout", TIMED),
    of(
        "node-pool-one",
        "a pool of one, which every request waits for",
        Node,
        "pool",
        &[
            at(1, &["concurrency", "elsewhere", "workers", "lock"]),
            at(8, &["elsewhere", "workers", "lock"]),
            at(32, &["elsewhere", "workers", "lock"]),
        ],
    ),
    of("asyncio-sleep", "`asyncio.sleep`", Python, "sleep", TIMED),
    of(
        "asyncio-cpu",
        "one thread that computes",
        Python,
        "cpu",
        &[at(4, &["server_cpu", "server_thread"]), at(16, &["server_cpu", "server_thread"])],
    ),
    Behaviour {
        conditions: Conditions { memory_mib: Some(64), ..LONGER },
        needs: &[Need::Root, Need::Disk, Need::Runtime(Python)],
        ..of(
            "memory",
            "more memory is in use than the limit of 64 MiB lets stay",
            Python,
            "memory",
            &[at(1, &["memory", "concurrency"]), at(4, &["memory"]), at(16, &["memory"])],
        )
    },
];
