//! `dyno doctor`: checks what this machine can measure, and how to fix what it cannot.

use dyno_archive::Facts;
use dyno_archive::facts::CgroupVersion;
use dyno_launch::guard::Guard;
use dyno_launch::network::Network;
use dyno_launch::supervision::{Interrupts, Supervision};
use dyno_observer::cgroup::Layout;
use dyno_observer::facts::{may_make_groups, read_facts};
use dyno_observer::tracking::TrackingTable;
use dyno_report::terminal::line;
use dyno_report::text::Style;
use dyno_runner::tracking::{self, LoopbackTracking};
use dyno_subject::definition::Definition;
use dyno_subject::definition::find::Folders;
use dyno_subject::definition::prerequisites::Prerequisites;
use dyno_workload::text::FileError;

use crate::cli::SubjectsPlace;
use crate::exit::Exit;
use crate::terminal::{self, print_text};
use crate::this_machine;

/// One finding.
struct Finding {
    good: bool,
    what: String,
    seen: String,
    /// How to fix it, if it is not good.
    hint: String,
}

pub fn run(subjects: &SubjectsPlace) -> anyhow::Result<Exit> {
    let facts = read_facts(this_machine::VERSION, this_machine::COMMIT);
    if !subjects.named_folders().is_empty() {
        subjects.find(None)?;
    }
    let findings = findings(&facts, subjects, &Guard::start()?);
    let style = terminal::style();
    let lines: String = findings.iter().map(|finding| describe(finding, style)).collect();
    let end = match findings.iter().filter(|f| !f.good).count() {
        0 => "This machine can measure everything that this version of dyno supports.".into(),
        n => format!(
            "{n} of {} checks found a problem. Reports omit what cannot be measured, and name it \
             as missing.",
            findings.len()
        ),
    };
    print_text(&format!(
        "dyno {} on {}\n\n{lines}\n{end}\n",
        this_machine::VERSION,
        this_machine::machine_name(&facts)
    ))?;
    Ok(Exit::Valid)
}

fn describe(f: &Finding, style: Style) -> String {
    let mark = match (f.good, style) {
        (true, Style::Plain) => "ok ".into(),
        (true, Style::Colour) => "\x1b[32mok\x1b[0m ".to_string(),
        (false, Style::Plain) => "-- ".into(),
        (false, Style::Colour) => "\x1b[33m--\x1b[0m ".into(),
    };
    let hint_line = |(number, text): (usize, &str)| {
        let arrow = if number == 0 { "→ " } else { "  " };
        format!("     {:<40} {arrow}{}\n", "", line(text))
    };
    let hint: String = match f.good {
        true => String::new(),
        false => f.hint.lines().enumerate().map(hint_line).collect(),
    };
    format!("  {mark} {:<40} {}\n{hint}", f.what, line(&f.seen))
}

fn findings(facts: &Facts, subjects: &SubjectsPlace, guard: &Guard) -> Vec<Finding> {
    let mut all = vec![
        driver(),
        cpus(facts),
        groups(facts),
        files(facts),
        ports(facts),
        tracking_finding(&TrackingTable::read()),
        kernel_observation(),
        stacks(),
        networks(),
    ];
    all.push(tool_chain(subjects, guard));
    for missing in facts.missing.iter().filter(|m| !m.what.starts_with("CPU and memory limits")) {
        all.push(Finding {
            good: false,
            what: missing.what.clone(),
            seen: missing.why.clone(),
            hint: missing.hint.clone(),
        });
    }
    all.push(Finding {
        good: facts.tick_accounting == Some(false),
        what: "exact user and system time".into(),
        seen: match facts.tick_accounting {
            Some(true) => "sampled by the kernel's tick. Only the sum is exact".into(),
            Some(false) => "measured".into(),
            None => "not known".into(),
        },
        hint: "If the split matters, boot with `nohz_full=` for the measured CPUs.".into(),
    });
    all
}

fn driver() -> Finding {
    let (kind, why_not) = dyno_driver::best_driver();
    Finding {
        good: why_not.is_none(),
        what: "io_uring".into(),
        seen: match why_not {
            None => "usable, with multishot receive and provided buffers".into(),
            Some(error) => format!("not usable ({error}); loads use {}", kind.name()),
        },
        hint: "Use Linux 6.0 or later with kernel.io_uring_disabled = 0. Containers often forbid \
               io_uring by seccomp."
            .into(),
    }
}

fn kernel_observation() -> Finding {
    let refusal = dyno_observer::probes::refusal();
    Finding {
        good: refusal.is_none(),
        what: "system calls and waits of servers".into(),
        seen: match &refusal {
            None => "observable with eBPF. `dyno run --help` lists the probes (--observe), and \
                     `dyno calibrate --probes` measures their cost"
                .into(),
            Some(refusal) if dyno_observer::probes::counts_calls() => {
                format!("only the number of calls by name is observable: {}", refusal.why)
            }
            Some(refusal) => refusal.why.clone(),
        },
        hint: refusal.map_or(String::new(), |refusal| refusal.hint.into()),
    }
}

fn stacks() -> Finding {
    let refusal = dyno_observer::stacks::refusal();
    Finding {
        good: refusal.is_none(),
        what: "stacks of servers, for flame graphs".into(),
        seen: match &refusal {
            None => {
                "available with `profile = true` under `[observe]`, or `--observe default,profile`"
                    .into()
            }
            Some(refusal) => refusal.why.clone(),
        },
        hint: refusal.map_or(String::new(), |refusal| refusal.hint.into()),
    }
}

fn networks() -> Finding {
    let made = Network::pair().map(drop);
    Finding {
        good: made.is_ok(),
        what: "separate networks for servers".into(),
        seen: match &made {
            Ok(()) => "available with `isolation = \"netns\"` under `[suite]`".into(),
            Err(why) => why.clone(),
        },
        hint: "Run as root (CAP_SYS_ADMIN and CAP_NET_ADMIN), with `veth` in the kernel and \
               /proc/sys writable."
            .into(),
    }
}

fn cpus(facts: &Facts) -> Finding {
    Finding {
        good: facts.cpus >= 2,
        what: "separate CPUs for server and generator".into(),
        seen: format!("{} usable", facts.cpus),
        hint: "Measure on a machine with two CPUs or more. On one CPU, server and generator slow \
             each other."
            .into(),
    }
}

fn groups(facts: &Facts) -> Finding {
    let layout = Layout::read();
    let good = layout.version() != CgroupVersion::None && may_make_groups(&layout);
    Finding {
        good,
        what: "control groups".into(),
        seen: match (layout.version(), good) {
            (CgroupVersion::None, _) => "none with the cpu and memory controllers".into(),
            (version, true) => format!("{}, usable", version.name()),
            (version, false) => format!(
                "{}, but this user may not create groups: no limits, and no exact CPU and memory \
                 of a subject",
                version.name()
            ),
        },
        hint: facts.missing.iter().find(|m| m.what.starts_with("CPU and memory limits")).map_or(
            "Run dyno as root, or in a delegated group: `systemd-run --user --scope -p \
             Delegate=yes dyno run …`."
                .into(),
            |m| m.hint.clone(),
        ),
    }
}

fn files(facts: &Facts) -> Finding {
    let limit = facts.open_files_limit.unwrap_or(0);
    Finding {
        good: limit >= 10_000,
        what: "open files".into(),
        seen: format!("{limit}: at most about {} connections", limit.saturating_sub(64)),
        hint: "Raise the limit with `ulimit -n 65536`, or in /etc/security/limits.conf.".into(),
    }
}

fn ports(facts: &Facts) -> Finding {
    let range = facts
        .sysctls
        .iter()
        .find(|(n, _)| n == "net.ipv4.ip_local_port_range")
        .map(|(_, v)| v.clone());
    let ports = range.as_ref().and_then(|r| {
        let (from, to) = r.split_once(' ')?;
        Some(to.parse::<u32>().ok()? - from.parse::<u32>().ok()?)
    });
    Finding {
        good: ports.is_some_and(|p| p >= 20_000),
        what: "local ports".into(),
        seen: ports.map_or("not known".into(), |p| format!("{p} for connections to one address")),
        hint:
            "Widen the range with `sysctl net.ipv4.ip_local_port_range=\"15000 65000\"`. Subjects \
               get ports outside of it."
                .into(),
    }
}

fn tracking_finding(table: &TrackingTable) -> Finding {
    let remedies = format!("Exempt loopback, or enlarge the table:\n{}", tracking::remedies());
    let tracked = LoopbackTracking::from_table(table);
    Finding {
        good: table.has_loopback == Some(false),
        what: "untracked loopback connections".into(),
        seen: match (table.has_loopback, tracked) {
            (Some(false), _) => "netfilter does not track them".into(),
            (_, Some(tracked)) => format!(
                "tracked (netfilter), which costs time per packet. {} of {} entries are used. A \
                 closed connection stays for {} s, so {:.0} new connections/s fill the table, and \
                 then packets are dropped",
                tracked.entries,
                tracked.most,
                tracked.stays_s,
                tracked.fills_at_per_s()
            ),
            (Some(true), None) => {
                "tracked (netfilter). The size of the table is not visible here".into()
            }
            (None, None) => "not known: no connection over loopback could be opened".into(),
        },
        hint: remedies,
    }
}

fn tool_chain(subjects: &SubjectsPlace, guard: &Guard) -> Finding {
    let folders = subjects.find(None).ok();
    let all = folders.as_ref().map(Folders::all);
    let interrupts = Interrupts::new();
    match all {
        Some(Ok(all)) => {
            let supervision = Supervision { guard, interrupts: &interrupts };
            let here = Prerequisites::new(&supervision);
            let lacks = |read: &Result<Definition, FileError>| match read {
                Ok(definition) => folders
                    .iter()
                    .any(|folders| folders.unavailable_reason(definition, &here).is_some()),
                Err(_) => true,
            };
            let unmet: Vec<&str> =
                all.iter().filter(|(_, read)| lacks(read)).map(|(name, _)| name.as_str()).collect();
            Finding {
                good: unmet.is_empty(),
                what: "subjects".into(),
                seen: if unmet.is_empty() {
                    format!("all {} can be built here", all.len())
                } else {
                    format!(
                        "{} of {} cannot be built here: {}",
                        unmet.len(),
                        all.len(),
                        unmet.join(", ")
                    )
                },
                hint: "List what each needs with `dyno subjects list`.".into(),
            }
        }
        Some(Err(error)) => Finding {
            good: false,
            what: "subjects".into(),
            seen: error.to_string(),
            hint: "Fix that file.".into(),
        },
        None => Finding {
            good: true,
            what: "subjects".into(),
            seen: "no folder `subjects` here or above. Suites may have their own".into(),
            hint: String::new(),
        },
    }
}
