//! Cases: windows that hold several levels.

use dyno_archive::interval::WorkerUse;
use dyno_archive::plan::{Arrivals, Gaps, Segment, StillWarming};

use super::Case;
use super::world::{CommandKind, JudgedWorld, MS, S, same};
use crate::caveat::{Code, Severity};

/// Five seconds with so many responses each for each rate, for half of a CPU.
fn levels<const N: usize>(w: &mut JudgedWorld, rates: [u64; N]) {
    let seconds = rates.into_iter().flat_map(|rate| [(rate, 500 * MS); 5]);
    w.set_seconds(&seconds.collect::<Vec<_>>());
}

/// Five seconds for each of these CPU times, in milliseconds a second, with 400 responses each.
fn costs<const N: usize>(w: &mut JudgedWorld, cpu_ms: [u64; N]) {
    let seconds = cpu_ms.into_iter().flat_map(|ms| [(400, ms * MS); 5]);
    w.set_seconds(&seconds.collect::<Vec<_>>());
}

/// The same at an offered rate.
fn costs_at_rate<const N: usize>(w: &mut JudgedWorld, cpu_ms: [u64; N]) {
    costs(w, cpu_ms);
    w.set_rate(400.0);
}

/// The generator used so many milliseconds in each second before the sixth, and after it.
fn generate(w: &mut JudgedWorld, before: u64, after: u64) {
    for (second, interval) in w.record.intervals.iter_mut().enumerate() {
        let run_ms = if second < 5 { before } else { after };
        interval.workers.insert(0, WorkerUse { run_ns: run_ms * MS, spun_ns: 0 });
    }
}

/// At 400/s, responses took so long before the sixth second, and after it; milliseconds.
fn respond(w: &mut JudgedWorld, before: u64, after: u64) {
    costs_at_rate(w, [200, 200, 200]);
    for (second, interval) in w.record.intervals.iter_mut().enumerate() {
        let ms = if second < 5 { before } else { after };
        interval.times.response = same(400, ms * MS / 10);
    }
}

/// The rate goes up over the window.
fn shaped(w: &mut JudgedWorld) {
    let segments = vec![Segment { from_rate: 800.0, to_rate: 1100.0, duration_ns: 15 * S }];
    w.step.arrivals = Arrivals::Shaped { segments, gaps: Gaps::Even };
}

const fn case(
    code: Code,
    trips: fn(&mut JudgedWorld),
    just_not: fn(&mut JudgedWorld),
) -> Case<JudgedWorld> {
    let severity = Severity::Warning;
    Case { code, severity, says: "", evidence: "{}", trips, just_not, otherwise: None }
}

pub(super) const CASES: &[Case<JudgedWorld>] = &[
    Case {
        says: "Throughput fell within the measured window to 0.90 times its highest level: 1000 \
               requests/s until 5.0 s after the load began, then 900 requests/s. The mean (933 \
               requests/s) describes none of these levels.",
        evidence: r#"{"last_to_first": 0.9}"#,
        ..case(Code::Slowdown, |w| levels(w, [1000, 900, 900]), |w| levels(w, [1000, 960, 960]))
    },
    // Its mirror image.
    Case {
        says: "Throughput rose within the measured window to 1.11 times its lowest level: 900 \
               requests/s until 10.0 s after the load began, then 1000 requests/s. The mean (933 \
               requests/s) describes none of these levels.",
        evidence: "{}",
        ..case(Code::Speedup, |w| levels(w, [900, 900, 1000]), |w| levels(w, [960, 960, 1000]))
    },
    // A cache that is full, with 400/s before and 1,900/s after that, shows in no CPU time.
    Case {
        says: "to 4.75 times its lowest level: 400 requests/s until 5.0 s after the load began, \
               then 1900 requests/s. The mean (1400 requests/s) describes none",
        ..case(
            Code::Speedup,
            |w| w.set_seconds(&[[(400, 100 * MS); 5].as_slice(), &[(1900, 475 * MS); 10]].concat()),
            |w| levels(w, [1900, 1900, 1900]),
        )
    },
    // It rose at the very end.
    Case {
        says: "1000 requests/s until 17.0 s after the load began, then 1600 requests/s",
        ..case(
            Code::Speedup,
            |w| {
                w.set_seconds(
                    &[[(1000, 500 * MS); 17].as_slice(), &[(1600, 500 * MS); 3]].concat(),
                );
            },
            |w| {
                w.set_seconds(
                    &[[(1000, 500 * MS); 18].as_slice(), &[(1600, 500 * MS); 2]].concat(),
                );
            },
        )
    },
    // CPU time per request is reported with it, and not by itself.
    Case {
        says: "CPU time per request went from 1000 to 500 µs meanwhile.",
        ..case(Code::Speedup, |w| levels(w, [500, 1000, 1000]), |w| levels(w, [1000, 1000, 1000]))
    },
    case(
        Code::CostLevels,
        |w| costs(w, [200, 300, 300]),
        |w| w.set_seconds(&[[(500, 500 * MS); 5].as_slice(), &[(1000, 500 * MS); 10]].concat()),
    ),
    // At a constant offered rate, throughput describes the server, too.
    case(
        Code::Slowdown,
        |w| {
            levels(w, [1000, 900, 900]);
            w.set_rate(1000.0);
        },
        |w| {
            levels(w, [1000, 900, 900]);
            shaped(w);
        },
    ),
    case(
        Code::Speedup,
        |w| {
            levels(w, [900, 900, 1000]);
            w.set_rate(1000.0);
        },
        |w| {
            levels(w, [900, 900, 1000]);
            shaped(w);
        },
    ),
    // More connections serve more.
    case(
        Code::Speedup,
        |w| {
            levels(w, [900, 900, 1000]);
            (w.plan.warmup_ns, w.plan.ramp_connections_ns) = (S, Some(S));
        },
        |w| {
            levels(w, [900, 900, 1000]);
            (w.plan.warmup_ns, w.plan.ramp_connections_ns) = (S, Some(S + 1));
        },
    ),
    // 1.3 times as fast: where the generator needs for a request, too, less by half of that in
    // logarithms, a factor of 1.14, it is the machine.
    case(
        Code::Speedup,
        |w| {
            levels(w, [1000, 1300, 1300]);
            generate(w, 300, 343);
        },
        |w| {
            levels(w, [1000, 1300, 1300]);
            generate(w, 300, 341);
        },
    ),
    case(
        Code::Slowdown,
        |w| {
            levels(w, [1300, 1000, 1000]);
            generate(w, 343, 300);
        },
        |w| {
            levels(w, [1300, 1000, 1000]);
            generate(w, 341, 300);
        },
    ),
    // No machine does that.
    case(
        Code::Speedup,
        |w| {
            levels(w, [1000, 1500, 1500]);
            generate(w, 300, 300);
        },
        |w| {
            levels(w, [1000, 1499, 1499]);
            generate(w, 300, 300);
        },
    ),
    // Where warming is what is measured, it is the result.
    Case {
        severity: Severity::Info,
        ..case(
            Code::Speedup,
            |w| {
                levels(w, [900, 900, 1000]);
                w.plan.still_warming = StillWarming::Measured;
            },
            |_| {},
        )
    },
    // A server that is still warming up is reported once.
    Case {
        severity: Severity::Invalid,
        ..case(
            Code::StillWarming,
            |w| levels(w, [1000, 1250, 1500]),
            |w| levels(w, [1000, 1000, 1500]),
        )
    },
    case(Code::Speedup, |w| levels(w, [1000, 1000, 1500]), |w| levels(w, [1000, 1250, 1500])),
    // `dyno load` looks at levels, too.
    case(
        Code::Speedup,
        |w| {
            levels(w, [900, 900, 1000]);
            w.command = CommandKind::Load;
        },
        |w| {
            levels(w, [960, 960, 1000]);
            w.command = CommandKind::Load;
        },
    ),
    Case {
        says: "Throughput went up and down within the measured window: 1000 requests/s until 5.0 s \
               after the load began, 900 requests/s until 10.0 s, 1000 requests/s until 15.0 s, \
               then 900 requests/s. The mean (950 requests/s) describes none",
        ..case(
            Code::Cyclic,
            |w| levels(w, [1000, 900, 1000, 900]),
            |w| levels(w, [900, 900, 1000, 1000]),
        )
    },
    Case {
        severity: Severity::Info,
        says: "became 2.00 times as fast within the measured window",
        evidence: r#"{"last_to_first": 2.0}"#,
        ..case(
            Code::LastLevel,
            |w| {
                levels(w, [500, 1000, 1000]);
                w.counts_from = Some(5 * S);
            },
            |w| levels(w, [500, 1000, 1000]),
        )
    },
    case(
        Code::Speedup,
        |w| levels(w, [500, 1000, 1000]),
        |w| {
            levels(w, [500, 1000, 1000]);
            w.counts_from = Some(5 * S);
        },
    ),
    // Requests that get dearer at the same rate.
    Case {
        says: "CPU time per request rose within the measured window to 1.53 times its lowest \
               level: 450 µs until 5.0 s after the load began, 565 µs until 10.0 s, then 690 µs. \
               The mean (568 µs) describes none of these levels.",
        ..case(
            Code::CostLevels,
            |w| costs_at_rate(w, [180, 226, 276]),
            |w| costs_at_rate(w, [180, 222, 222]),
        )
    },
    Case {
        says: "CPU time per request fell within the measured window to 0.67 times its highest \
               level: 750 µs until 5.0 s after the load began, then 500 µs.",
        ..case(
            Code::CostLevels,
            |w| costs_at_rate(w, [300, 200, 200]),
            // Gradually: it is still warming up.
            |w| costs_at_rate(w, [300, 250, 200]),
        )
    },
    Case {
        says: "CPU time per request went up and down",
        ..case(
            Code::CostLevels,
            |w| costs_at_rate(w, [200, 300, 200, 300]),
            |w| costs_at_rate(w, [200, 240, 200, 240]),
        )
    },
    case(
        Code::CostLevels,
        |w| {
            costs_at_rate(w, [200, 300, 300]);
            generate(w, 100, 120);
        },
        |w| {
            costs_at_rate(w, [200, 290, 290]);
            generate(w, 100, 121);
        },
    ),
    // Response times of an open loop; tenths of milliseconds. A closed loop shows it in throughput.
    Case {
        says: "the median was 20.0 ms until 5.0 s after the load began, then 5.00 ms. Percentiles \
               of the whole window mix both levels.",
        ..case(
            Code::ResponseLevels,
            |w| respond(w, 200, 50),
            |w| {
                respond(w, 200, 50);
                w.step.arrivals = Arrivals::Closed;
            },
        )
    },
    case(Code::ResponseLevels, |w| respond(w, 50, 102), |w| respond(w, 50, 98)),
];
