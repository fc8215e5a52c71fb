//! `dyno plan SUITE`: shows the plan of a suite and its expected duration.

mod budget;

use std::time::Duration;

use dyno_analysis::budget::{MIN_PILOT_REPEATS, detectable};
use dyno_analysis::cell::Shape;
use dyno_analysis::report::report;
use dyno_analysis::stats::{Looks, standard_errors};
use dyno_analysis::stopping;
use dyno_archive::cpus::cpu_list_text;
use dyno_archive::dir::Run;
use dyno_archive::plan::{
    Arrivals, Backend, Conditions, Limits, Order, Plan, Priority, Request, Segment, Step, StopRule,
    Workload,
};
use dyno_launch::guard::Guard;
use dyno_launch::supervision::{Interrupts, Supervision};
use dyno_report::budget::differences;
use dyno_report::format::{bytes, common_text, micros, number, percent, phases, plural};
use dyno_report::redact::{self, Withheld};
use dyno_runner::plan::{expected_ns, resolve};
use dyno_runner::suite::SuiteFile;
use dyno_subject::definition::prerequisites::Prerequisites;

use crate::cli::{Ns, PlanArgs, PlanFormat};
use crate::clock::clock;
use crate::exit::Exit;
use crate::terminal::{print, print_text, say};
use crate::this_machine::usable_cpus;

pub fn run(args: &PlanArgs) -> anyhow::Result<Exit> {
    let suite = SuiteFile::read(&args.suite, &args.choices.profile, usable_cpus())?;
    let shares: Vec<String> = suite.shares.iter().map(|share| percent(*share)).collect();
    let subjects = args.folder_options.subjects.find(Some(&args.suite))?;
    let (guard, interrupts) = (Guard::start()?, Interrupts::new());
    let supervision = Supervision { guard: &guard, interrupts: &interrupts };
    let overrides = args.choices.overrides();
    let prerequisites = Prerequisites::new(&supervision);
    let resolve_suite = |suite: SuiteFile| {
        resolve(suite, &subjects, &overrides, &dyno_launch::allowed_cpus(), &|subject| {
            prerequisites.unmet_need(subject)
        })
    };
    if let Some(Ns(ns)) = args.budget {
        let plan_of = |suite: SuiteFile| Ok(resolve_suite(suite)?.plan);
        return budget::run(args, &suite, &plan_of, Duration::from_nanos(ns));
    }
    let planned = resolve_suite(suite.clone())?;
    match args.format {
        PlanFormat::Json => {
            let (plan, Withheld(secrets)) = redact::plan(&planned.plan)?;
            let plan = serde_json::to_string_pretty(&plan)? + "\n";
            print(&super::report::escape_for_terminal(None, &plan))?;
            if secrets > 0 {
                let count = plural(secrets as u64, "value");
                say(&format!("{count} that may be secret: replaced by {}", redact::MARK));
            }
        }
        PlanFormat::Text => {
            let plan_of = |suite: SuiteFile| Ok(resolve_suite(suite)?.plan);
            let pilot = match args.pilot {
                Some(_) => Some(budget::pilot(args, &suite, &plan_of)?),
                None => budget::latest(&args.runs, &suite, &plan_of)?.ok(),
            };
            let detectable_text =
                describe_detectable(&planned.plan, pilot.as_ref().map(|(run, _)| run));
            let text = describe(&planned.plan, detectable_text) + &describe_shares(&shares);
            print_text(&text)?;
        }
    }
    Ok(Exit::Valid)
}

fn describe(plan: &Plan, detectable_text: Option<String>) -> String {
    let title = format!("{}  {}", plan.suite.name, plan.suite.description);
    let mut lines = vec![title.trim_end().to_string(), String::new()];
    let mut add = |name: &str, text: String| lines.push(format!("  {name:<12}{text}"));
    if !plan.suite.profiles.is_empty() {
        add("profile", plan.suite.profiles.join(", then "));
    }
    add("blocks", describe_blocks(plan));
    for subject in &plan.subjects {
        add("subject", format!("{:<22} {}", subject.id(), availability(&subject.skipped)));
    }
    for backend in &plan.backends {
        add("back end", describe_backend(backend));
    }
    for workload in &plan.workloads {
        for request in &workload.requests {
            add("workload", describe_request(workload, request));
        }
    }
    for (i, step) in plan.load.steps.iter().enumerate() {
        add("step", format!("{}{}", describe_step(step), describe_workloads_of_step(plan, i)));
    }
    for unserved in &plan.not_served {
        let (subject, workload) =
            (plan.subjects[unserved.subject].id(), &plan.workloads[unserved.workload].name);
        add("not loaded", format!("{subject:<22} {workload}: {}", unserved.reason));
    }
    if let Some(stop) = &plan.stop {
        add("ends early", describe_stop(plan, stop));
    }
    if let Some(find) = describe_search(plan) {
        add("find", find);
    }
    add("each", phases(&plan.load));
    for placement in placements(plan) {
        add("placement", placement);
    }
    if plan.swaps_cpus && plan.repeats > 1 {
        add("", "subjects and generator swap CPUs in every second block".into());
    }
    if let Some(sharing) = describe_sharing(plan) {
        add("!", sharing);
    }
    add("trials", format!("{} in {} starts", plan.trials.len(), plan.launches.len()));
    if let Some(reruns) = describe_reruns(plan) {
        add("again", reruns);
    }
    let warm_up = plan.load.until_steady.map_or(String::new(), |until| {
        format!(
            ", and warm-ups only up to about a second per start (the limit is {})",
            clock(Duration::from_nanos(until.limit_ns))
        )
    });
    let expected_time = clock(Duration::from_nanos(expected_ns(plan)));
    add("time", format!("about {expected_time}, builds not counted{warm_up}"));
    if let Some(detectable_text) = detectable_text {
        add("finds", detectable_text);
    }
    lines.join("\n") + "\n"
}

/// Describes the smallest differences that the run is expected to detect, given the variance of an
/// earlier one.
fn describe_detectable(plan: &Plan, pilot: Option<&Run>) -> Option<String> {
    let servers = (0..plan.arms.len()).filter(|arm| !plan.subject_of(*arm).control).count();
    if (servers < 2 && plan.experiment.is_none()) || plan.order == Order::Fixed {
        return None;
    }
    let Some(run) = pilot else {
        let (_, errors) = standard_errors(Looks::from_plan(plan), plan.repeats);
        if !errors.is_finite() {
            return Some("no differences: one repeat shows no scatter (use --repeats 5)".into());
        }
        return Some(format!(
            "differences of {} times the scatter of pairs of repeats, which is known after a run \
             of this suite with {MIN_PILOT_REPEATS} repeats or more",
            number(errors / f64::from(plan.repeats).sqrt())
        ));
    };
    let (changes, id) = (detectable(run, &report(run), plan.repeats), &run.header.id);
    Some(if changes.is_empty() {
        format!(
            "not known: in {id} no two servers have {MIN_PILOT_REPEATS} valid repeats of one step"
        )
    } else {
        format!(
            "differences of {}, in four of five such runs (median over comparisons, with the \
             variance of {id})",
            differences(&changes)
        )
    })
}

fn describe_backend(backend: &Backend) -> String {
    let (cpus, limits) = (cpu_list_text(&backend.cpus), limits_text(&backend.limits));
    format!("{:<22} {}, on CPU {cpus}{limits}", backend.name, availability(&backend.skipped))
}

fn describe_search(plan: &Plan) -> Option<String> {
    let (search, objective) = (plan.search?, plan.report.objective.as_ref()?);
    let width = percent(search.width);
    Some(format!(
        "the highest rate that meets {}, within {width}, after each closed loop of each start",
        objective.text
    ))
}

fn describe_stop(plan: &Plan, stop: &StopRule) -> String {
    if !stopping::has_question(plan) {
        return "never: no two different servers are compared".into();
    }
    let same = stop
        .same_within
        .map_or(String::new(), |s| format!(", or are the same within {}", percent(s)));
    format!("as soon as it is known whether subjects differ in {}{same}", stop.metrics.join(", "))
}

fn describe_reruns(plan: &Plan) -> Option<String> {
    let n = plan.again.min(u32::try_from(plan.trials.len()).unwrap_or(u32::MAX));
    (n > 0).then(|| format!("at most {n} of them, if other programs disturb the machine"))
}

fn describe_sharing(plan: &Plan) -> Option<String> {
    if plan.arms.iter().any(|arm| !arm.conditions.placement.is_disjoint()) {
        let text = "subjects and generator share CPUs, so each slows the other. Use a machine with \
                    more CPUs, or separate them (cpuset under [limits])";
        return Some(text.into());
    }
    let effect = match plan.load.priority {
        Priority::Normal => "so each slows the other",
        Priority::Realtime => "and the generator has real-time priority, so back ends wait for it",
    };
    let has_separate_cpus = (0..plan.arms.len()).all(|arm| plan.has_separate_generator_cpus(arm));
    (!has_separate_cpus).then(|| {
        format!(
            "back ends and generator share CPUs, {effect}. Give the back ends other CPUs (cpuset \
             under [[backends]])"
        )
    })
}

/// Describes the shares of capacity that are offered after the closed loops.
fn describe_shares(shares: &[String]) -> String {
    if shares.is_empty() {
        return String::new();
    }
    format!(
        "\n  This part comes first, with 3 repeats at most: it finds the capacity of the slowest \
         subject. The run itself offers {} of that capacity, each as an open loop of about the \
         same length.\n",
        shares.join(", ")
    )
}

fn describe_blocks(plan: &Plan) -> String {
    let subjects = match plan.order {
        Order::Random => "in balanced random order",
        Order::Fixed => "in the suite's order (no ranking, no causes)",
    };
    let steps = match plan.load.order {
        Order::Random => "in random order",
        Order::Fixed => "in the suite's order",
    };
    let Plan { repeats, seed, .. } = plan;
    if let Some(slice_ns) = plan.slice_ns {
        let slice = Duration::from_nanos(slice_ns);
        return format!(
            "{repeats} of all subjects, running together and loaded in turns of {slice:?}, at all \
             steps {steps}, seed {seed}"
        );
    }
    if !plan.duet.is_empty() {
        let is_alone = |arm: &usize| !plan.duet.contains(arm) && plan.takes_part(*arm);
        let alone: Vec<&str> =
            (0..plan.arms.len()).filter(is_alone).map(|arm| &*plan.arms[arm].name).collect();
        let alone = if alone.is_empty() {
            String::new()
        } else {
            format!(" (alone: {})", alone.join(", "))
        };
        return format!(
            "{repeats} of all subjects, running together and loaded at the same time{alone}, at \
             all steps {steps}, seed {seed}"
        );
    }
    format!("{repeats} of all subjects {subjects}, in each start all steps {steps}, seed {seed}")
}

/// Describes the availability of a subject, as far as it is known before a build.
fn availability(skipped: &Option<String>) -> String {
    skipped.as_ref().map_or("available".into(), |reason| format!("skipped: {reason}"))
}

/// Formats limits: `, quota 1.5 CPUs, memory 537 MB`. Empty without limits.
fn limits_text(limits: &Limits) -> String {
    let quota = limits.cpus.map_or(String::new(), |c| format!(", quota {c} CPUs"));
    let memory =
        limits.memory_bytes.map_or(String::new(), |size| format!(", memory {}", size_text(size)));
    quota + &memory
}

/// Formats a size: `13 bytes`, `12.3 kB`.
fn size_text(size: u64) -> String {
    if size < 1000 { plural(size, "byte") } else { bytes(size as f64) }
}

/// Formats a number of generator threads: `one thread`, `2 threads`.
fn threads_text(threads: u32) -> String {
    if threads == 1 { "one thread".into() } else { plural(u64::from(threads), "thread") }
}

/// Describes the CPUs and limits of arms: one line if all arms agree, else one per arm.
fn placements(plan: &Plan) -> Vec<String> {
    let placement_text = |index: usize| {
        let Conditions { limits, placement, .. } = &plan.arms[index].conditions;
        let (subject, generator) =
            (cpu_list_text(&placement.subject), cpu_list_text(&placement.generator));
        let load = plan.load_of(index);
        format!(
            "on CPU {subject}{}; generator on CPU {generator} ({}, {})",
            limits_text(limits),
            threads_text(load.threads),
            load.driver.title()
        )
    };
    let texts: Vec<String> = (0..plan.arms.len()).map(placement_text).collect();
    match common_text(&texts) {
        Some(text) => vec![format!("subjects {text}")],
        None => plan
            .arms
            .iter()
            .zip(texts)
            .map(|(arm, text)| format!("{:<22} {text}", arm.name))
            .collect(),
    }
}

fn describe_step(step: &Step) -> String {
    let shape = Shape::from_step(step);
    let arrivals = describe_arrivals(&step.arrivals);
    format!("{}, {arrivals}{}", shape.connections_text(), shape.pass_text())
}

/// Names the workloads that have a step: ` · json, h2`. Empty if all have it.
fn describe_workloads_of_step(plan: &Plan, step: usize) -> String {
    let has_step =
        |workload: usize| plan.trials.iter().any(|t| t.workload == workload && t.step == step);
    let is_loaded = |workload: usize| plan.trials.iter().any(|t| t.workload == workload);
    let workloads = 0..plan.workloads.len();
    if workloads.clone().filter(|w| is_loaded(*w)).all(has_step) {
        return String::new();
    }
    let names: Vec<&str> =
        workloads.filter(|w| has_step(*w)).map(|w| plan.workloads[w].name.as_str()).collect();
    format!(" · {}", names.join(", "))
}

fn describe_request(workload: &Workload, request: &Request) -> String {
    let expect = request.expect.status.map_or("200–399".into(), |s| s.to_string());
    let body = match (&request.expect.body, request.expect.body_bytes()) {
        (None, _) => String::new(),
        (Some(_), Some(bytes)) => format!(", a body of {}", size_text(bytes as u64)),
        (Some(_), None) => ", a body that each subject defines".into(),
    };
    let more_checks = if request.expect.is_deep() { ", and more" } else { "" };
    let share = match workload.requests.len() {
        1 => String::new(),
        _ => format!(" (weight {}, {})", request.weight, request.name),
    };
    let tls = if workload.protocol.is_tls() { " (TLS)" } else { "" };
    let connection_limit = workload
        .requests_per_connection
        .map_or(String::new(), |n| format!(", {} on each connection", plural(n, "request")));
    format!(
        "{}{share}: {} {} over {}{tls}{connection_limit}, expecting {expect}{body}{more_checks}",
        workload.name,
        request.method,
        request.path,
        workload.protocol.base_name()
    )
}

fn describe_arrivals(arrivals: &Arrivals) -> String {
    match arrivals {
        Arrivals::Closed => "closed loop".into(),
        Arrivals::Constant { rate } => format!("open loop, {} requests/s", number(*rate)),
        Arrivals::Poisson { rate } => {
            format!("open loop, {} requests/s at random times", number(*rate))
        }
        Arrivals::Trace { file, count, .. } => {
            format!("open loop, {count} recorded times from {file}")
        }
        Arrivals::Shaped { segments, .. } => {
            let stretch = |s: &Segment| {
                let length = micros(s.duration_ns as f64 / 1e3);
                if s.from_rate == s.to_rate {
                    format!("{} for {length}", number(s.from_rate))
                } else {
                    format!("{} to {} over {length}", number(s.from_rate), number(s.to_rate))
                }
            };
            let stretches: Vec<String> = segments.iter().map(stretch).collect();
            format!("open loop, requests/s: {}", stretches.join(", then "))
        }
    }
}
