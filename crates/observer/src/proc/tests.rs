use super::*;

#[test]
fn descendants_include_all_generations_once() {
    let parents = [(10, 1), (11, 10), (12, 11), (20, 1), (21, 20)];
    assert_eq!(descendants(&[10], &parents), [10, 11, 12]);
    assert_eq!(descendants(&[10, 11], &parents), [10, 11, 12], "a root below another root");
    assert_eq!(descendants(&[99], &parents), [0; 0], "a root that has ended");
}

#[test]
fn stat_line_with_parentheses_in_name_is_parsed() {
    let text = "42 (a) (b)) S 1 42 40 0 -1 4194560 10 0 0 0 150 25 0 0 20 0 1 0 100 0 0\n";
    let stat = Stat::parse(text).unwrap();
    assert_eq!((stat.name.as_str(), stat.state, stat.parent, stat.session), ("a) (b)", 'S', 1, 40));
    assert_eq!((stat.user_ticks, stat.sys_ticks), (150, 25));
    assert_eq!((stat.faults_minor, stat.faults_major), (10, 0));
    assert!(!stat.ignores_children && !stat.is_exiting);
    // PF_EXITING, with one thread left or two.
    let exiting = |threads: &str| {
        let text = text.replace(" 4194560 ", " 4194564 ").replace(" 20 0 1 ", threads);
        Stat::parse(&text).unwrap().is_exiting
    };
    assert!(exiting(" 20 0 1 ") && !exiting(" 20 0 2 "));
    let ignores = |sigignore: u64| {
        let text = format!("7 (x) S {}{sigignore} 0 0 0 0\n", "1 ".repeat(29));
        Stat::parse(&text).unwrap().ignores_children
    };
    assert!(ignores(1 << 16) && !ignores(0x7fff_ffff & !(1 << 16)));
    assert_eq!(last_cpu(text), None);
    let complete_line = format!("1 (x y) S 0 {} 7 0 0\n", "1 ".repeat(34).trim());
    assert_eq!(last_cpu(&complete_line), Some(7));
    assert!(other_processes().iter().all(|other| other.pid != std::process::id()));
    let list = process_list();
    let is_kernel = |process: &ProcessSnapshot| process.name == "kthreadd";
    assert!(!list.programs.iter().any(is_kernel));
    assert!(list.kernel_threads.is_empty() || list.kernel_threads.iter().any(is_kernel));
    assert_eq!(Stat::parse(""), None);
    assert_eq!(Stat::parse("1 (x) S 1"), None);
}

#[test]
fn memory_of_ended_thread_is_unknown() {
    assert_eq!(parse_resident_bytes("0 0 0 0 0 0 0\n"), None);
    assert_eq!(parse_resident_bytes("5664 3 1 1 0 2 0\n"), Some(3 * page_size() as u64));
    assert_eq!(other_thread_folder(std::process::id()), None);
}

#[test]
fn run_time_of_own_threads_grows_with_work() {
    let pid = std::process::id();
    let before: u64 = threads(pid).iter().map(|t| t.run_ns).sum();
    let mut x = 1u64;
    while threads(pid).iter().map(|t| t.run_ns).sum::<u64>() < before + 2_000_000 {
        x = std::hint::black_box(x.wrapping_mul(3));
    }
    assert!(rss_bytes(pid, &Files::default()).unwrap() > 100_000);
    assert!(own_rss_peak_bytes().unwrap() >= 100_000);
    assert!(session_pids(Stat::read(pid).unwrap().session).contains(&pid));
}

/// Threads that have not run since the last reading keep their cached counters.
#[test]
fn cached_counters_of_thread_end_when_it_runs() {
    let pid = std::process::id();
    let (wake, wakeups) = std::sync::mpsc::channel::<()>();
    let (sender, receiver) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        sender.send(rustix::thread::gettid().as_raw_pid() as u32).unwrap();
        while wakeups.recv().is_ok() {
            (0..200_000).for_each(|n| {
                std::hint::black_box(n);
            });
            sender.send(0).unwrap();
        }
    });
    let tid = receiver.recv().unwrap();
    let files = Files::default();
    let counters =
        |files: &Files| cached_threads(pid, files).into_iter().find(|t| t.tid == tid).unwrap();
    let mut last = counters(&files);
    for _ in 0..20 {
        wake.send(()).unwrap();
        receiver.recv().unwrap();
        // Wait until the thread sleeps again. Its counters are not cached meanwhile.
        let asleep = (0..10_000_000).find_map(|_| {
            std::thread::yield_now();
            let fresh = counters(&Files::default());
            (fresh.switches_voluntary > last.switches_voluntary).then_some(fresh)
        });
        let fresh = asleep.expect("the thread does not sleep");
        let now = counters(&files);
        assert!(now.switches_voluntary >= fresh.switches_voluntary && now.run_ns >= fresh.run_ns);
        assert!(now.run_ns > last.run_ns);
        // The third read uses the cache: two reads had the same counters.
        last = (0..3).map(|_| counters(&files)).last().unwrap();
    }
    drop(wake);
    thread.join().unwrap();
}

fn other(pid: u32, parent: u32, run_ns: u64, reaped_ns: u64) -> ProcessSnapshot {
    ProcessSnapshot {
        pid,
        parent,
        name: format!("p{pid}"),
        run_ns,
        reaped_ns,
        ..ProcessSnapshot::default()
    }
}

/// CPU time between two lists of processes, by PID.
fn cpu_ns_by_pid(
    before: &[ProcessSnapshot],
    after: &[ProcessSnapshot],
    ours: &[u32],
    max_ns: u64,
) -> Vec<(u32, u64)> {
    let ours = ours.iter().copied().collect();
    let times = cpu_time_between(before, after, &ours, max_ns);
    times.into_iter().map(|(other, ns)| (other.pid, ns)).collect()
}

#[test]
fn ended_children_count_for_their_parent() {
    // 1 is a `make` whose compiler, 2, had used 300 before. 5 is a minder of dyno.
    let before = [other(1, 0, 10, 1000), other(2, 1, 300, 0), other(5, 0, 0, 0)];
    // Two compilers have ended, with 300 + 500 and with 200. A third, 4, still runs.
    let after = [other(1, 0, 11, 2000), other(4, 1, 50, 0), other(5, 0, 1, 700)];
    assert_eq!(cpu_ns_by_pid(&before, &after, &[5], u64::MAX), [(1, 701), (4, 50), (5, 1)]);
    assert!(own_tree().contains(&std::process::id()));
}

/// If a parent has ended too, the whole CPU time of its child is in the grandparent's totals.
#[test]
fn earlier_use_of_ended_grandchildren_is_subtracted() {
    // bash → make (20, and 40 of children) → cc (2,000) → as (600).
    let before =
        [other(1, 0, 5, 100), other(2, 1, 20, 40), other(3, 2, 2000, 0), other(4, 3, 600, 0)];
    // They used 7, 11 and 13 more until they ended.
    let whole_ns = 20 + 40 + 2000 + 600 + 7 + 11 + 13;
    let after = [other(1, 0, 6, 100 + whole_ns)];
    assert_eq!(cpu_ns_by_pid(&before, &after, &[], u64::MAX), [(1, 1 + 7 + 11 + 13)]);
    // make still runs.
    let after = [other(1, 0, 6, 100), other(2, 1, 22, 40 + 2600 + 24)];
    assert_eq!(cpu_ns_by_pid(&before, &after, &[], u64::MAX), [(1, 1), (2, 2 + 24)]);
}

/// The parent of cc ended first. cc ended as a child of init, which waited for it.
#[test]
fn earlier_use_of_ended_orphans_is_subtracted() {
    let before = [other(1, 0, 5, 100), other(9, 1, 0, 0), other(2, 9, 20, 0), other(3, 2, 2000, 0)];
    let after = [other(1, 0, 5, 100 + 2011), other(9, 1, 0, 23)];
    assert_eq!(cpu_ns_by_pid(&before, &after, &[], u64::MAX), [(1, 11 + 3), (9, 0)]);
    // A living parent that ignores its children does not wait for them.
    let before = [other(1, 0, 5, 100), other(2, 1, 20, 0), other(3, 2, 2000, 0)];
    let after = [other(1, 0, 5, 400), other(2, 1, 20, 0)];
    assert_eq!(cpu_ns_by_pid(&before, &after, &[], u64::MAX), [(1, 300), (2, 0)]);
}

#[test]
fn process_with_reused_pid_is_not_matched() {
    let before = [other(1, 0, 0, 0), other(2, 1, 300, 0)];
    let later = ProcessSnapshot { began_ticks: 7, ..other(2, 1, 350, 0) };
    let after = [other(1, 0, 0, 310), later];
    assert_eq!(cpu_ns_by_pid(&before, &after, &[], u64::MAX), [(1, 10), (2, 350)]);
}

#[test]
fn cyclic_parents_do_not_loop_forever() {
    let before = [other(2, 3, 10, 0), other(3, 2, 10, 0)];
    assert_eq!(cpu_ns_by_pid(&before, &[], &[], u64::MAX), []);
}

/// Two CPUs for a second, of which 600 ms are the own time of processes.
#[test]
fn children_time_is_bounded_by_time_of_cpus() {
    const MS: u64 = 1_000_000;
    let before = [other(1, 0, 0, 0), other(2, 0, 0, 0), other(3, 0, 0, 0)];
    let after = |children_ms: [u64; 2]| {
        [
            other(1, 0, 600 * MS, 0),
            other(2, 0, 0, children_ms[0] * MS),
            other(3, 0, 0, children_ms[1] * MS),
        ]
    };
    let in_ms = |children_ms| {
        let used = cpu_ns_by_pid(&before, &after(children_ms), &[], 2000 * MS);
        used.into_iter().map(|(_, ns)| ns / MS).collect::<Vec<_>>()
    };
    assert_eq!(in_ms([300, 900]), [600, 300, 900]);
    assert_eq!(in_ms([300, 1800]), [600, 300, 1100]);
    // 27 s in one second: the total includes an unknown amount of earlier use.
    assert_eq!(in_ms([300, 27_000]), [600, 300, 0]);
}

#[test]
fn kernel_time_is_growth_of_visible_threads() {
    let list = |threads: &[(u32, &str, u64)]| ProcessList {
        kernel_threads: threads
            .iter()
            .map(|(pid, name, run_ns)| ProcessSnapshot {
                pid: *pid,
                name: (*name).into(),
                run_ns: *run_ns,
                ..ProcessSnapshot::default()
            })
            .collect(),
        ..ProcessList::default()
    };
    let before = list(&[(2, "kthreadd", 5), (14, "ksoftirqd/0", 100), (30, "kworker/0:1", 70)]);
    let after = list(&[(2, "kthreadd", 5), (14, "ksoftirqd/0", 400), (31, "kworker/0:2", 20)]);
    assert_eq!(kernel_time(&before, &after, false), Some(320));
    assert_eq!(kernel_time(&before, &after, true), Some(20));
    assert_eq!(kernel_time(&list(&[]), &list(&[]), false), None);
}
