//! Determines the role of a thread from its name and the name of its process.
//!
//! Runtimes name their threads. The kernel stores only 15 bytes of a name, so patterns end there.

/// Returns the role of a thread. `process`: name of its process's first thread; `is_first`: whether
/// this thread is the first one.
#[must_use]
pub fn thread_role(name: &str, process: &str, is_first: bool) -> &'static str {
    let known = ROLES.iter().find(|rule| rule.matches_thread(name, process, is_first));
    match known {
        Some(rule) => rule.role,
        // Programs with one thread, or runtimes such as Go that do not name their threads.
        None if name == process => WORK,
        None => OTHER,
    }
}

/// Role of threads with the name of their process.
pub const WORK: &str = "work";

/// Role of threads that match no rule.
pub const OTHER: &str = "other";

/// Role for CPU time that belongs to no known thread.
pub const UNATTRIBUTED: &str = "unattributed";

/// Whether threads of a role may serve requests.
#[must_use]
pub fn serves(role: &str) -> bool {
    !matches!(role, "jit" | "gc" | "vm" | "v8_worker")
}

/// Rule for the role of a thread.
struct Rule {
    /// Pattern of the process's name; `*` stands for any text.
    process: &'static str,
    /// Pattern of the thread's name.
    thread: &'static str,
    position: ThreadPosition,
    role: &'static str,
}

/// Threads of a process that a rule applies to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ThreadPosition {
    Any,
    /// The process's first thread.
    First,
    /// All others.
    Further,
}

impl Rule {
    /// Whether the rule applies to a thread. `process`: name of the process's first thread.
    fn matches_thread(&self, name: &str, process: &str, is_first: bool) -> bool {
        let is_at_position = match self.position {
            ThreadPosition::Any => true,
            ThreadPosition::First => is_first,
            ThreadPosition::Further => !is_first,
        };
        is_at_position
            && matches_pattern(self.process, process)
            && matches_pattern(self.thread, name)
    }
}

/// Returns a rule for threads of any process.
const fn rule(thread: &'static str, role: &'static str) -> Rule {
    Rule { process: "*", thread, position: ThreadPosition::Any, role }
}

/// Returns a rule for threads of certain processes.
const fn process_rule(
    process: &'static str,
    thread: &'static str,
    position: ThreadPosition,
    role: &'static str,
) -> Rule {
    Rule { process, thread, position, role }
}

/// Rules for the roles of threads. The first rule that matches applies.
const ROLES: &[Rule] = &[
    // HotSpot, as of JDK 17. Newer versions shorten the middle of names.
    rule("C1 Compiler*", "jit"),
    rule("C2 Compiler*", "jit"),
    rule("Sweeper thread", "jit"),
    rule("JVMCI*", "jit"),
    rule("GC Thread*", "gc"),
    rule("G1 *", "gc"),
    rule("ZGC*", "gc"),
    rule("ZDriver*", "gc"),
    rule("ZWorker*", "gc"),
    rule("Shenandoah*", "gc"),
    rule("Reference Handl", "gc"),
    rule("Finalizer", "gc"),
    rule("VM Thread", "vm"),
    rule("VM Periodic Tas", "vm"),
    rule("Signal Dispatch", "vm"),
    rule("Common-Cleaner", "vm"),
    rule("Service Thread", "vm"),
    rule("Monitor Deflati", "vm"),
    rule("Notification Th", "vm"),
    rule("Attach Listener", "vm"),
    // The thread that started the JVM only waits for the thread that runs `main`.
    process_rule("java", "java", ThreadPosition::First, "vm"),
    // .NET.
    rule(".NET Tiered Com", "jit"),
    rule(".NET Server GC", "gc"),
    rule(".NET Background", "gc"),
    rule(".NET BGC*", "gc"),
    rule(".NET Finalizer", "gc"),
    rule(".NET TP *", "worker"),
    rule(".NET Sockets", "worker"),
    rule(".NET *", "vm"),
    // V8 and libuv. V8's workers both compile and collect garbage; their name does not show which.
    rule("V8Worker*", "v8_worker"),
    rule("DelayedTaskSche", "v8_worker"),
    rule("SignalInspector", "vm"),
    rule("libuv-worker", "io_pool"),
    // Before Node.js 23 all of its threads are called `node`. The first one runs JavaScript.
    process_rule("node", "node", ThreadPosition::Further, "v8_worker"),
    process_rule("deno", "V8*", ThreadPosition::Any, "v8_worker"),
    process_rule("bun", "HeapHelper", ThreadPosition::Any, "gc"),
    process_rule("bun", "JITWorker*", ThreadPosition::Any, "jit"),
    // BEAM, of OTP 25 and later, and of earlier versions.
    rule("erts_sched_*", "scheduler"),
    rule("*_scheduler", "scheduler"),
    rule("erts_dcpus_*", "dirty_scheduler"),
    rule("erts_dios_*", "dirty_scheduler"),
    rule("*_dirty_cpu_sch*", "dirty_scheduler"),
    // The names are `1_dirty_io_sche` and `10_dirty_io_sch`: a two-digit number displaces the last
    // letter.
    rule("*_dirty_io_sch*", "dirty_scheduler"),
    rule("erts_*", "vm"),
    process_rule("beam*", "*_aux", ThreadPosition::Any, "vm"),
    process_rule("beam*", "*_poller", ThreadPosition::Any, "io_pool"),
    rule("sys_sig_dispatc", "vm"),
    rule("sys_msg_dispatc", "vm"),
    process_rule("beam*", "async_*", ThreadPosition::Any, "io_pool"),
    // Workers of frameworks.
    rule("tokio-runtime-w", "worker"),
    rule("tokio-rt-worker", "worker"),
    rule("actix-rt*", "worker"),
    rule("actix-server*", "worker"),
    rule("actix-*", "worker"),
    rule("nioEventLoopGro", "worker"),
    rule("epollEventLoopG", "worker"),
    rule("multiThreadIoEv", "worker"),
    rule("http-nio-*", "worker"),
    rule("http-*exec*", "worker"),
    rule("https-*", "worker"),
    rule("qtp*", "worker"),
    rule("XNIO-*", "worker"),
    rule("vert.x-*", "worker"),
    rule("vertx-blocked-t", "vm"),
    rule("*-akka.*", "worker"),
    rule("*-pekko.*", "worker"),
    rule("ForkJoinPool*", "worker"),
    rule("pool-*-thread-*", "worker"),
    rule("DefaultDispatch", "worker"),
    rule("eventLoopGroup*", "worker"),
    rule("*-call-thread*", "worker"),
    rule("HTTP-Dispatcher", "worker"),
    rule("granian-*", "worker"),
    // Kernel threads of io_uring work for the process that submitted the request.
    rule("iou-wrk-*", "worker"),
    rule("iou-sqp-*", "worker"),
];

/// Whether a name matches a pattern, in which `*` stands for any text.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut remainder) = name.strip_prefix(first) else { return false };
    let mut ends_open = false;
    for part in parts {
        ends_open = part.is_empty();
        match remainder.find(part) {
            Some(index) => remainder = &remainder[index + part.len()..],
            None => return false,
        }
    }
    ends_open || remainder.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_role_follows_from_names() {
        for (process, name, role) in [
            ("java", "C2 CompilerThre", "jit"),
            ("java", "GC Thread#3", "gc"),
            ("java", "G1 Service", "gc"),
            ("java", "VM Thread", "vm"),
            ("java", "qtp12345-17", "worker"),
            ("java", "http-nio-8080-e", "worker"),
            ("java", "main", "other"),
            ("nginx", "nginx", "work"),
            ("h2o", "h2o", "work"),
            ("server", "server", "work"),
            ("beam.smp", "2_scheduler", "scheduler"),
            ("beam.smp", "erts_sched_1", "scheduler"),
            ("beam.smp", "erts_dcpus_1", "dirty_scheduler"),
            ("beam.smp", "1_dirty_io_sche", "dirty_scheduler"),
            ("beam.smp", "10_dirty_io_sch", "dirty_scheduler"),
            ("beam.smp", "0_poller", "io_pool"),
            ("java", "vert.x-eventloo", "worker"),
            ("java", "XNIO-1 I/O-1", "worker"),
            ("java", "nioEventLoopGro", "worker"),
            ("java", "hello-akka.acto", "worker"),
            ("uvicorn", "libuv-worker", "io_pool"),
            ("beam.smp", "erts_aux", "vm"),
            ("beam.smp", "1_aux", "vm"),
            ("Kestrel", ".NET TP Worker", "worker"),
            ("Kestrel", ".NET Tiered Com", "jit"),
            ("node", "V8Worker", "v8_worker"),
            ("actix", "actix-rt|system", "worker"),
            ("axum", "tokio-runtime-w", "worker"),
            ("anything", "no such name", "other"),
        ] {
            assert_eq!(thread_role(name, process, name == process), role, "{name}");
        }
    }

    #[test]
    fn first_thread_has_separate_role() {
        assert_eq!(
            (thread_role("node", "node", true), thread_role("node", "node", false)),
            ("work", "v8_worker")
        );
        assert_eq!(thread_role("java", "java", true), "vm");
    }
}
