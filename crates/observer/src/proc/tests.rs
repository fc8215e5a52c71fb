use super::*;

#[test]
fn tree_is_what_descends_from_its_root() {
    let living = [(10, 1), (11, 10), (12, 11), (20, 1), (21, 20)];
    assert_eq!(descendants(&[10], &living), [10, 11, 12]);
    assert_eq!(descendants(&[10, 11], &living), [10, 11, 12], "each once");
    assert_eq!(descendants(&[99], &living), [0; 0], "it has ended");
}

#[test]
fn stat_line_is_parsed_whatever_the_name_holds() {
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
    let whole = format!("1 (x y) S 0 {} 7 0 0\n", "1 ".repeat(34).trim());
    assert_eq!(last_cpu(&whole), Some(7));
    assert!(other_processes().iter().all(|other| other.pid != std::process::id()));
    assert_eq!(Stat::parse(""), None);
    assert_eq!(Stat::parse("1 (x) S 1"), None);
}

#[test]
fn our_own_thread_is_seen_working() {
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

/// A thread that ran since the last reading is read again. The counters of others are kept.
#[test]
fn only_threads_that_ran_are_read_again() {
    let pid = std::process::id();
    let (wake, woken) = std::sync::mpsc::channel::<()>();
    let (sender, receiver) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        sender.send(rustix::thread::gettid().as_raw_pid() as u32).unwrap();
        while woken.recv().is_ok() {
            (0..200_000).for_each(|n| {
                std::hint::black_box(n);
            });
            sender.send(0).unwrap();
        }
    });
    let tid = receiver.recv().unwrap();
    let files = Files::default();
    let seen = |files: &Files| threads_in(pid, files).into_iter().find(|t| t.tid == tid).unwrap();
    let mut last = seen(&files);
    for _ in 0..20 {
        wake.send(()).unwrap();
        receiver.recv().unwrap();
        // It goes to sleep again, sooner or later.
        let asleep = (0..10_000_000).find_map(|_| {
            std::thread::yield_now();
            let (now, anew) = (seen(&files), seen(&Files::default()));
            (now == anew && now.switches_voluntary > last.switches_voluntary).then_some(now)
        });
        let now = asleep.expect("its last counters are never read");
        assert!(now.run_ns > last.run_ns);
        last = now;
    }
    drop(wake);
    thread.join().unwrap();
}

fn other(pid: u32, parent: u32, run_ns: u64, reaped_ns: u64) -> Other {
    Other { pid, parent, name: format!("p{pid}"), run_ns, reaped_ns, ..Other::default() }
}

/// CPU time of each process, by its number.
fn used(before: &[Other], after: &[Other], ours: &[u32], most_ns: u64) -> Vec<(u32, u64)> {
    let ours = ours.iter().copied().collect();
    let all = cpu_time_between(before, after, &ours, most_ns);
    all.into_iter().map(|(other, ns)| (other.pid, ns)).collect()
}

#[test]
fn ended_children_count_for_their_parent() {
    // A make with a compiler that had used 300 before, and a minder of dyno's.
    let before = [other(1, 0, 10, 1000), other(2, 1, 300, 0), other(5, 0, 0, 0)];
    // Both compilers ended: 300 + 500, and 200; a third is at work.
    let after = [other(1, 0, 11, 2000), other(4, 1, 50, 0), other(5, 0, 1, 700)];
    assert_eq!(used(&before, &after, &[5], u64::MAX), [(1, 701), (4, 50), (5, 1)]);
    assert!(own_tree().contains(&std::process::id()));
}

/// The whole life of a grandchild lands on its grandparent where its parent ended, too.
#[test]
fn earlier_use_of_ended_grandchildren_is_left_out() {
    // bash → make (20, and 40 of children) → cc (2,000) → as (600).
    let before =
        [other(1, 0, 5, 100), other(2, 1, 20, 40), other(3, 2, 2000, 0), other(4, 3, 600, 0)];
    // They used 7, 11 and 13 more until they ended.
    let lives_ns = 20 + 40 + 2000 + 600 + 7 + 11 + 13;
    let after = [other(1, 0, 6, 100 + lives_ns)];
    assert_eq!(used(&before, &after, &[], u64::MAX), [(1, 1 + 7 + 11 + 13)]);
    // make goes on.
    let after = [other(1, 0, 6, 100), other(2, 1, 22, 40 + 2600 + 24)];
    assert_eq!(used(&before, &after, &[], u64::MAX), [(1, 1), (2, 2 + 24)]);
}

/// cc lost its parent first, and ended as a child of init, which waits for it.
#[test]
fn earlier_use_of_ended_orphans_is_left_out() {
    let before = [other(1, 0, 5, 100), other(9, 1, 0, 0), other(2, 9, 20, 0), other(3, 2, 2000, 0)];
    let after = [other(1, 0, 5, 100 + 2011), other(9, 1, 0, 23)];
    assert_eq!(used(&before, &after, &[], u64::MAX), [(1, 11 + 3), (9, 0)]);
    // A living parent that ignores its children does not wait for them.
    let before = [other(1, 0, 5, 100), other(2, 1, 20, 0), other(3, 2, 2000, 0)];
    let after = [other(1, 0, 5, 400), other(2, 1, 20, 0)];
    assert_eq!(used(&before, &after, &[], u64::MAX), [(1, 300), (2, 0)]);
}

#[test]
fn process_of_a_used_number_is_another() {
    let before = [other(1, 0, 0, 0), other(2, 1, 300, 0)];
    let later = Other { began_ticks: 7, ..other(2, 1, 350, 0) };
    let after = [other(1, 0, 0, 310), later];
    assert_eq!(used(&before, &after, &[], u64::MAX), [(1, 10), (2, 350)]);
}

#[test]
fn parents_in_a_circle_are_followed_to_an_end() {
    let before = [other(2, 3, 10, 0), other(3, 2, 10, 0)];
    assert_eq!(used(&before, &[], &[], u64::MAX), []);
}

/// 2 CPUs for a second, of which 600 ms are known.
#[test]
fn programs_use_no_more_than_the_cpus_had() {
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
        let all = used(&before, &after(children_ms), &[], 2000 * MS);
        all.into_iter().map(|(_, ns)| ns / MS).collect::<Vec<_>>()
    };
    assert_eq!(in_ms([300, 900]), [600, 300, 900]);
    assert_eq!(in_ms([300, 1800]), [600, 300, 1100]);
    // 27 s in one second: the share from before is unknown.
    assert_eq!(in_ms([300, 27_000]), [600, 300, 0]);
}

#[test]
fn listener_is_found_by_its_port() {
    for at in ["127.0.0.1:0", "0.0.0.0:0", "[::]:0"] {
        let Ok(listener) = std::net::TcpListener::bind(at) else { continue };
        let port = listener.local_addr().unwrap().port();
        let here = SocketAddrV4::new([127, 0, 0, 1].into(), port);
        let us = std::process::id();
        assert_eq!(listener_at(here).map(|(pid, _)| pid), Some(us), "{at}");
        assert_eq!(listener_in_network_of(us, here), listener_at(here));
        drop(listener);
        assert_eq!(listener_at(here), None);
    }
}

#[test]
fn all_listeners_of_a_process_are_found() {
    let us = std::process::id();
    let four = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let six = std::net::TcpListener::bind("[::1]:0");
    let mut wanted = vec![four.local_addr().unwrap()];
    wanted.extend(six.iter().map(|six| six.local_addr().unwrap()));
    let found = listeners(&[us]);
    // Other tests listen as well.
    assert!(wanted.iter().all(|addr| found.contains(addr)), "{wanted:?} {found:?}");
    assert_eq!(listeners(&[]), []);
    let gone = wanted[0];
    drop(four);
    assert!(!listeners(&[us]).contains(&gone));
}

#[test]
fn listener_at_another_address_is_not_found() {
    let elsewhere = std::net::TcpListener::bind("127.0.0.2:0").unwrap();
    let port = elsewhere.local_addr().unwrap().port();
    assert_eq!(listener_at(SocketAddrV4::new([127, 0, 0, 1].into(), port)), None);
    assert!(listener_at(SocketAddrV4::new([127, 0, 0, 2].into(), port)).is_some());
}
