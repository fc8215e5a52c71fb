//! `dyno doctor`: checks what this machine can measure, and how to fix what it cannot.

use dyno_config::text::FileError;
use dyno_launch::guard::Guard;
use dyno_launch::network::Network;
use dyno_launch::supervision::{Interrupts, Supervision};
use dyno_model::Facts;
use dyno_model::facts::CgroupVersion;
use dyno_observer::cgroup::Layout;
use dyno_observer::facts::{may_make_groups, read_facts};
use dyno_observer::tracking::{IpVersion, TrackingTable};
use dyno_report::present::style::Style;
use dyno_report::terminal::escape_line;
use dyno_subject::definition::Definition;
use dyno_subject::definition::prerequisites::Prerequisites;
use dyno_suite::tracking::{self, LoopbackTracking};

use crate::cli::SubjectFolders;
use crate::exit::Exit;
use crate::terminal::{self, print_text};
use crate::this_machine;

/// Beginning of the name of the missing measurement that [`groups_finding`] shows.
const MISSING_GROUPS: &str = "CPU and memory limits";

/// A finding about this machine.
struct Finding {
    is_good: bool,
    name: String,
    state: String,
    /// Instructions that fix the problem. Not shown if `is_good`.
    hint: String,
}

/// Checks this machine, and prints the findings.
pub fn run(subjects: &SubjectFolders) -> anyhow::Result<Exit> {
    let facts = read_facts(this_machine::VERSION, this_machine::COMMIT);
    if !subjects.named_folders().is_empty() {
        subjects.find(None)?;
    }
    let findings = findings(&facts, subjects, &Guard::start()?);
    let style = terminal::style();
    let lines: String = findings.iter().map(|finding| describe(finding, style)).collect();
    let end = match findings.iter().filter(|f| !f.is_good).count() {
        0 => "This machine can measure everything that this version of dyno supports.".into(),
        n => format!(
            "{n} of {} checks found a problem. Reports list the affected measurements as missing.",
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

/// Formats a finding as a line, with its hint below.
fn describe(f: &Finding, style: Style) -> String {
    let mark = match (f.is_good, style) {
        (true, Style::Plain) => "ok ".into(),
        (true, Style::Colour) => "\x1b[32mok\x1b[0m ".to_string(),
        (false, Style::Plain) => "-- ".into(),
        (false, Style::Colour) => "\x1b[33m--\x1b[0m ".into(),
    };
    let hint_line = |(number, text): (usize, &str)| {
        let arrow = if number == 0 { "→ " } else { "  " };
        format!("     {:<40} {arrow}{}\n", "", escape_line(text))
    };
    let hint: String = match f.is_good {
        true => String::new(),
        false => f.hint.lines().enumerate().map(hint_line).collect(),
    };
    format!("  {mark} {:<40} {}\n{hint}", f.name, escape_line(&f.state))
}

fn findings(facts: &Facts, subjects: &SubjectFolders, guard: &Guard) -> Vec<Finding> {
    let mut findings = vec![
        driver_finding(),
        cpus_finding(facts),
        groups_finding(facts),
        files_finding(facts),
        ports_finding(facts),
        tracking_finding(&tracking_table()),
        kernel_observation_finding(),
        stacks_finding(),
        networks_finding(),
    ];
    findings.push(subjects_finding(subjects, guard));
    for missing in facts.missing.iter().filter(|m| !m.measurement.starts_with(MISSING_GROUPS)) {
        findings.push(Finding {
            is_good: false,
            name: missing.measurement.clone(),
            state: missing.reason.clone(),
            hint: missing.hint.clone(),
        });
    }
    findings.push(Finding {
        is_good: facts.tick_accounting == Some(false),
        name: "exact user and system time".into(),
        state: match facts.tick_accounting {
            Some(true) => "sampled by the kernel at each clock tick: only the sum of user and \
                           system time is exact"
                .into(),
            Some(false) => "measured".into(),
            None => "not known".into(),
        },
        hint: "If you need exact user and system time, boot with `nohz_full=` for the measured \
               CPUs."
            .into(),
    });
    findings
}

fn driver_finding() -> Finding {
    let (kind, io_uring_error) = dyno_driver::best_driver();
    Finding {
        is_good: io_uring_error.is_none(),
        name: "io_uring".into(),
        state: match io_uring_error {
            None => "usable, with multishot receive and provided buffers".into(),
            Some(error) => format!("not usable ({error}); loads use {}", kind.name()),
        },
        hint: "Use Linux 6.0 or later with kernel.io_uring_disabled = 0. Containers often forbid \
               io_uring by seccomp."
            .into(),
    }
}

fn kernel_observation_finding() -> Finding {
    let refusal = dyno_observer::probes::refusal();
    Finding {
        is_good: refusal.is_none(),
        name: "system calls and waits of servers".into(),
        state: match &refusal {
            None => "observable with eBPF. `dyno run --help` lists the probes (--observe), and \
                     `dyno calibrate --probes` measures their cost"
                .into(),
            Some(refusal) if dyno_observer::probes::can_count_syscalls() => {
                format!("only the counts of each system call are available: {}", refusal.reason)
            }
            Some(refusal) => refusal.reason.clone(),
        },
        hint: refusal.map_or(String::new(), |refusal| refusal.hint.into()),
    }
}

fn stacks_finding() -> Finding {
    let refusal = dyno_observer::stacks::refusal();
    Finding {
        is_good: refusal.is_none(),
        name: "stacks of servers, for flame graphs".into(),
        state: match &refusal {
            None => {
                "available with `profile = true` under `[observe]`, or `--observe default,profile`"
                    .into()
            }
            Some(refusal) => refusal.reason.clone(),
        },
        hint: refusal.map_or(String::new(), |refusal| refusal.hint.into()),
    }
}

fn networks_finding() -> Finding {
    let pair = Network::pair().map(drop);
    Finding {
        is_good: pair.is_ok(),
        name: "separate networks for servers".into(),
        state: match &pair {
            Ok(()) => "available with `isolation = \"netns\"` under `[suite]`".into(),
            Err(error) => error.clone(),
        },
        hint: "Run as root (CAP_SYS_ADMIN and CAP_NET_ADMIN), with `veth` in the kernel and \
               /proc/sys writable."
            .into(),
    }
}

fn cpus_finding(facts: &Facts) -> Finding {
    Finding {
        is_good: facts.cpus >= 2,
        name: "separate CPUs for server and generator".into(),
        state: format!("{} usable", facts.cpus),
        hint: "Measure on a machine with two CPUs or more. On one CPU, server and generator slow \
             each other."
            .into(),
    }
}

fn groups_finding(facts: &Facts) -> Finding {
    let layout = Layout::read();
    let good = layout.version() != CgroupVersion::None && may_make_groups(&layout);
    Finding {
        is_good: good,
        name: "control groups".into(),
        state: match (layout.version(), good) {
            (CgroupVersion::None, _) => {
                "no control groups with the cpu and memory controllers".into()
            }
            (version, true) => format!("{}, usable", version.name()),
            (version, false) => format!(
                "{}, but this user cannot create groups, so dyno can neither set limits nor \
                 measure CPU and memory of a subject exactly",
                version.name()
            ),
        },
        hint: facts.missing.iter().find(|m| m.measurement.starts_with(MISSING_GROUPS)).map_or(
            "Run dyno as root, or in a delegated group: `systemd-run --user --scope -p \
             Delegate=yes dyno run …`."
                .into(),
            |m| m.hint.clone(),
        ),
    }
}

fn files_finding(facts: &Facts) -> Finding {
    let limit = facts.open_files_limit.unwrap_or(0);
    // About 64 of the files are not connections.
    let connections = limit.saturating_sub(64);
    Finding {
        is_good: limit >= 10_000,
        name: "open files".into(),
        state: format!("limit of {limit}: at most about {connections} connections"),
        hint: "Raise the limit with `ulimit -n 65536`, or in /etc/security/limits.conf.".into(),
    }
}

fn ports_finding(facts: &Facts) -> Finding {
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
        is_good: ports.is_some_and(|p| p >= 20_000),
        name: "local ports".into(),
        state: ports.map_or("not known".into(), |p| {
            format!("{p}, so at most {p} connections from one local address to one server")
        }),
        hint: "Widen the range with `sysctl net.ipv4.ip_local_port_range=\"15000 65000\"`. dyno \
               starts servers on ports outside of this range."
            .into(),
    }
}

/// Reads the table of tracked connections, for IPv6 if loopback is tracked in IPv6. The remedies
/// for IPv6 include the remedies for IPv4. If only IPv4 is tracked, or neither, reads the table for
/// IPv4.
fn tracking_table() -> TrackingTable {
    let v6 = TrackingTable::read(IpVersion::V6);
    if v6.has_loopback == Some(true) { v6 } else { TrackingTable::read(IpVersion::V4) }
}

fn tracking_finding(table: &TrackingTable) -> Finding {
    let remedies = format!(
        "Exempt loopback from connection tracking, or enlarge the table of tracked \
         connections:\n{}",
        tracking::remedies(table.version)
    );
    let tracked = LoopbackTracking::from_table(table);
    Finding {
        is_good: table.has_loopback == Some(false),
        name: "untracked loopback connections".into(),
        state: match (table.has_loopback, tracked) {
            (Some(false), _) => "netfilter does not track these connections".into(),
            (_, Some(tracked)) => format!(
                "tracked (netfilter), which costs time per packet. {} of {} entries of the \
                 connection table are used. A closed connection stays in the table for {} s, so \
                 {:.0} new connections/s fill the table. The kernel drops packets when the table \
                 is full",
                tracked.entries,
                tracked.max_entries,
                tracked.closed_stay_s,
                tracked.filling_rate_per_s()
            ),
            (Some(true), None) => {
                "tracked (netfilter). The size of the table is not visible here".into()
            }
            (None, None) => "not known: no connection over loopback could be opened".into(),
        },
        hint: remedies,
    }
}

fn subjects_finding(subjects: &SubjectFolders, guard: &Guard) -> Finding {
    let Ok(folders) = subjects.find(None) else {
        return Finding {
            is_good: true,
            name: "subjects".into(),
            state: "no folder `subjects` here or in a folder above. A suite in another folder can \
                    have its own subjects"
                .into(),
            hint: String::new(),
        };
    };
    let interrupts = Interrupts::new();
    match folders.definitions() {
        Ok(definitions) => {
            let supervision = Supervision { guard, interrupts: &interrupts };
            let prerequisites = Prerequisites::new(&supervision);
            let is_unavailable = |definition: &Result<Definition, FileError>| match definition {
                Ok(definition) => folders.unavailable_reason(definition, &prerequisites).is_some(),
                Err(_) => true,
            };
            let unavailable: Vec<&str> = definitions
                .iter()
                .filter(|(_, definition)| is_unavailable(definition))
                .map(|(name, _)| name.as_str())
                .collect();
            Finding {
                is_good: unavailable.is_empty(),
                name: "subjects".into(),
                state: if unavailable.is_empty() {
                    format!("all {} can be built here", definitions.len())
                } else {
                    format!(
                        "{} of {} cannot be built here: {}",
                        unavailable.len(),
                        definitions.len(),
                        unavailable.join(", ")
                    )
                },
                hint: "List what each server needs with `dyno subjects list`.".into(),
            }
        }
        Err(error) => Finding {
            is_good: false,
            name: "subjects".into(),
            state: error.to_string(),
            hint: "Fix the file that the message names.".into(),
        },
    }
}
