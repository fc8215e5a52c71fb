//! What a thread is for, by its name. Runtimes name their threads; the kernel keeps 15 bytes of a name.

/// The role of a thread of that name: `jit`, `gc`, `runtime` or `work`.
#[must_use]
pub fn of(name: &str) -> &'static str {
    ROLES.iter().find(|(pattern, _)| matches(pattern, name)).map_or("work", |(_, role)| role)
}

/// Patterns and roles; the first match wins. `*` stands for any text.
const ROLES: &[(&str, &str)] = &[
    // HotSpot.
    ("C1 CompilerThre*", "jit"),
    ("C2 CompilerThre*", "jit"),
    ("C1 Compiler*", "jit"),
    ("C2 Compiler*", "jit"),
    ("Sweeper thread", "jit"),
    ("GC Thread*", "gc"),
    ("G1 *", "gc"),
    ("ZGC*", "gc"),
    ("Z*Worker*", "gc"),
    ("Shenandoah*", "gc"),
    ("Reference Handl", "gc"),
    ("Finalizer", "gc"),
    ("VM Thread", "runtime"),
    ("VM Periodic Tas", "runtime"),
    ("Signal Dispatch", "runtime"),
    ("Common-Cleaner", "runtime"),
    ("Service Thread", "runtime"),
    ("Monitor Deflati", "runtime"),
    // .NET.
    (".NET Tiered Com", "jit"),
    (".NET Server GC", "gc"),
    (".NET Background", "gc"),
    (".NET *", "runtime"),
    // V8 and libuv. V8's workers both compile and collect garbage; their name does not tell which.
    ("V8Worker*", "runtime"),
    ("DelayedTaskSche", "runtime"),
    ("SignalInspector", "runtime"),
    ("libuv-worker", "work"),
    // BEAM.
    ("*_scheduler", "work"),
    ("erts_sched_*", "work"),
    ("*_dirty_*", "work"),
    ("*_aux", "runtime"),
    ("sys_sig_dispatc", "runtime"),
    ("sys_msg_dispatc", "runtime"),
];

fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut open = false;
    for part in parts {
        open = part.is_empty();
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    open || rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_told_apart_by_their_names() {
        for (name, role) in [
            ("C2 CompilerThre", "jit"),
            ("GC Thread#3", "gc"),
            ("G1 Service", "gc"),
            ("VM Thread", "runtime"),
            ("qtp12345-17", "work"),
            ("nginx", "work"),
            ("2_scheduler", "work"),
            ("1_aux", "runtime"),
            (".NET TP Worker", "runtime"),
            ("V8Worker", "runtime"),
        ] {
            assert_eq!(of(name), role, "{name}");
        }
    }
}
