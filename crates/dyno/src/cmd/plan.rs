//! `dyno plan SUITE`: shows the plan of a suite and its expected duration.

mod budget;

use std::io::IsTerminal as _;
use std::time::Duration;

use dyno_analysis::budget::{MIN_PILOT_REPEATS, detectable};
use dyno_analysis::cell::Shape;
use dyno_analysis::report::report;
use dyno_analysis::stats::{Looks, standard_errors};
use dyno_analysis::stopping;
use dyno_lab::this_machine;
use dyno_launch::guard::Guard;
use dyno_launch::supervision::{Interrupts, Supervision};
use dyno_model::cpus::cpu_list_text;
use dyno_model::plan::{
    Arrivals, Backend, Conditions, Limits, Order, Plan, Priority, Request, Segment, Step, StopRule,
    Workload,
};
use dyno_model::run::Run;
use dyno_report::budget::differences;
use dyno_report::format::{bytes, common_text, micros, number, percent, phases, plural};
use dyno_report::json;
use dyno_report::redact::{self, RedactedPlan, Withheld};
use dyno_report::terminal::escape_line;
use dyno_subject::definition::prerequisites::Prerequisites;
use dyno_suite::file::SuiteFile;
use dyno_suite::plan::{expected_ns, resolve};

use crate::cli::{Ns, PlanArgs};
use crate::clock::clock;
use crate::exit::Exit;
use crate::terminal::{print, print_text, say};
use crate::this_machine::usable_cpus;

/// Prints the plan of a suite, or the repeats that fit a time (`--budget`).
pub fn run(args: &PlanArgs) -> anyhow::Result<Exit> {
    let suite = SuiteFile::read(&args.suite, &args.choices.profile, usable_cpus())?;
    let shares: Vec<String> = suite.shares.iter().map(|share| percent(*share)).collect();
    let subjects = args.folder_options.subjects.find(Some(&args.suite))?;
    let (guard, interrupts) = (Guard::start()?, Interrupts::new());
    let supervision = Supervision { guard: &guard, interrupts: &interrupts };
    let overrides = args.choices.overrides();
    let prerequisites = Prerequisites::new(&supervision);
    let machine = this_machine::read(dyno_launch::allowed_cpus());
    let resolve_suite = |suite: SuiteFile| {
        resolve(suite, &subjects, &overrides, &machine, &|subject| {
            prerequisites.unmet_need(subject)
        })
    };
    if let Some(Ns(ns)) = args.budget {
        let plan_of = |suite: SuiteFile| Ok(resolve_suite(suite)?.plan);
        return budget::run(args, &suite, &plan_of, Duration::from_nanos(ns));
    }
    let planned = resolve_suite(suite.clone())?;
    if !args.format.is_text() {
        let redacted = RedactedPlan::new(&planned.plan)?;
        let withheld = redacted.withheld();
        let plan = json::lines(&redacted.into_json());
        print(&super::report::escape_for_terminal(None, &plan))?;
        note_withheld(withheld);
        return Ok(Exit::Valid);
    }
    let plan_of = |suite: SuiteFile| Ok(resolve_suite(suite)?.plan);
    let pilot = match args.pilot {
        Some(_) => Some(budget::pilot(args, &suite, &plan_of)?),
        None => budget::latest(&args.runs, &suite, &plan_of)?.ok(),
    };
    let detectable_text = describe_detectable(&planned.plan, pilot.as_ref().map(|(run, _)| run));
    print_plan(&planned.plan, &|plan| {
        describe(plan, detectable_text.clone()) + &describe_shares(&shares)
    })?;
    Ok(Exit::Valid)
}

/// Prints the description of a plan. Unless standard output is a terminal, the description has no
/// secrets of the plan.
fn print_plan(plan: &Plan, describe: &dyn Fn(&Plan) -> String) -> anyhow::Result<()> {
    if std::io::stdout().is_terminal() {
        return print_text(&describe(plan));
    }
    let (text, withheld) = redacted_description(plan, describe)?;
    print_text(&text)?;
    note_withheld(withheld);
    Ok(())
}

/// Returns the description of a plan without its secrets, and the number of secrets if the
/// description had any.
fn redacted_description(
    plan: &Plan,
    describe: &dyn Fn(&Plan) -> String,
) -> anyhow::Result<(String, Withheld)> {
    let redacted = RedactedPlan::new(plan)?;
    let text = redacted.text(&describe(redacted.plan()));
    let has_marks = text.contains(redact::MARK);
    Ok((text, if has_marks { redacted.withheld() } else { Withheld(0) }))
}

/// Notes on standard error that values of a plan were replaced.
fn note_withheld(Withheld(secrets): Withheld) {
    if secrets > 0 {
        let count = plural(secrets as u64, "value");
        say(&format!("{count} that may be secret: replaced by {}", redact::MARK));
    }
}

/// Describes a plan, one fact per line. `detectable_text`: the differences that a run detects.
fn describe(plan: &Plan, detectable_text: Option<String>) -> String {
    let title = format!("{}  {}", plan.suite.name, plan.suite.description);
    // Names and descriptions of a suite may contain line feeds and colours.
    let mut lines = vec![escape_line(title.trim_end()), String::new()];
    let mut add =
        |name: &str, text: String| lines.push(format!("  {name:<12}{}", escape_line(&text)));
    if !plan.suite.profiles.is_empty() {
        add("profile", plan.suite.profiles.join(", then "));
    }
    add("order", describe_blocks(plan));
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
    add("each step", phases(&plan.load));
    for placement in placements(plan) {
        add("placement", placement);
    }
    if plan.swaps_cpus && plan.repeats > 1 {
        add("", "subjects and generator swap their CPUs after every repeat".into());
    }
    if let Some(sharing) = describe_sharing(plan) {
        add("!", sharing);
    }
    add("trials", format!("{} in {} starts", plan.trials.len(), plan.launches.len()));
    if let Some(reruns) = describe_reruns(plan) {
        add("reruns", reruns);
    }
    let warm_up = plan.load.until_steady.map_or(String::new(), |until| {
        format!(
            ", if the warm-up of each start takes about a second (it may take up to {})",
            clock(Duration::from_nanos(until.limit_ns))
        )
    });
    let expected_time = clock(Duration::from_nanos(expected_ns(plan)));
    add("time", format!("about {expected_time}, without builds{warm_up}"));
    if let Some(detectable_text) = detectable_text {
        add("finds", detectable_text);
    }
    lines.join("\n") + "\n"
}

/// Describes the smallest differences that the run is expected to detect, given the variance of an
/// earlier run.
fn describe_detectable(plan: &Plan, pilot: Option<&Run>) -> Option<String> {
    // Without two servers there is no comparison. A fixed order allows no verdict.
    let servers = (0..plan.arms.len()).filter(|arm| !plan.subject_of(*arm).control).count();
    if (servers < 2 && plan.experiment.is_none()) || plan.order == Order::Fixed {
        return None;
    }
    let Some(run) = pilot else {
        let (_, errors) = standard_errors(Looks::from_plan(plan), plan.repeats);
        if !errors.is_finite() {
            return Some(
                "no differences, because one repeat shows no variance (use --repeats 5)".into(),
            );
        }
        return Some(format!(
            "differences of at least {} times the standard deviation between pairs of repeats. The \
             deviation is not known yet. To see percentages here, first run this suite with \
             {MIN_PILOT_REPEATS} repeats or more",
            number(errors / f64::from(plan.repeats).sqrt())
        ));
    };
    let (changes, id) = (detectable(run, &report(run), plan.repeats), &run.header.id);
    Some(if changes.is_empty() {
        format!(
            "unknown: in run {id}, no step has {MIN_PILOT_REPEATS} valid repeats of two servers"
        )
    } else {
        format!(
            "differences of {} (median over comparisons; each is found with a probability of 80 %, \
             if the variance is as in run {id})",
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
        "the highest rate that meets {}, with a precision of {width}. Each start of a subject has \
         one search after each closed-loop step",
        objective.text
    ))
}

/// Describes when the run ends early.
fn describe_stop(plan: &Plan, stop: &StopRule) -> String {
    if !stopping::has_question(plan) {
        return "never, because no two different servers are compared".into();
    }
    let same = stop
        .same_within
        .map_or(String::new(), |s| format!(", or that they are the same within {}", percent(s)));
    format!(
        "when the repeats so far show whether subjects differ in {}{same}",
        stop.metrics.join(", ")
    )
}

fn describe_reruns(plan: &Plan) -> Option<String> {
    let n = plan.again.min(u32::try_from(plan.trials.len()).unwrap_or(u32::MAX));
    (n > 0).then(|| format!("at most {n} trials are repeated if other programs disturb them"))
}

/// Warns if the generator shares CPUs with subjects or back ends.
fn describe_sharing(plan: &Plan) -> Option<String> {
    if plan.arms.iter().any(|arm| !arm.conditions.placement.is_disjoint()) {
        let text = "subjects and generator share CPUs, so they slow each other down. Use a machine \
                    with more CPUs, or separate subjects and generator (cpuset under [limits])";
        return Some(text.into());
    }
    let effect = match plan.load.priority {
        Priority::Normal => "so each slows the other",
        Priority::Realtime => {
            "and the generator has real-time priority, so back ends wait for the generator"
        }
    };
    let has_separate_cpus = (0..plan.arms.len()).all(|arm| plan.has_separate_generator_cpus(arm));
    (!has_separate_cpus).then(|| {
        format!(
            "back ends and generator share CPUs, {effect}. Give the back ends other CPUs (cpuset \
             under [[backends]])"
        )
    })
}

/// Describes the shares of capacity that the main run offers after the closed loops.
fn describe_shares(shares: &[String]) -> String {
    if shares.is_empty() {
        return String::new();
    }
    format!(
        "\n  These closed loops run first, with at most 3 repeats. They measure the capacity of \
         the slowest subject. Then the main run offers {} of that capacity, each as an open loop \
         of about the same length.\n",
        shares.join(", ")
    )
}

fn describe_blocks(plan: &Plan) -> String {
    let subjects = match plan.order {
        Order::Random => "in balanced random order",
        Order::Fixed => {
            "in the suite's order (so the report can neither rank subjects nor name causes)"
        }
    };
    let steps = match plan.load.order {
        Order::Random => "in random order",
        Order::Fixed => "in the suite's order",
    };
    let Plan { repeats, seed, .. } = plan;
    if let Some(slice_ns) = plan.sharing.slice_ns() {
        let slice = Duration::from_nanos(slice_ns);
        return format!(
            "{repeats} repeats, in which all subjects run at the same time. The load changes to \
             another subject every {slice:?}. The steps run {steps}. Seed {seed}"
        );
    }
    // `duet`: the subjects that are loaded at the same time. Each other subject runs alone.
    if !plan.sharing.duet().is_empty() {
        let is_alone = |arm: &usize| !plan.sharing.duet().contains(arm) && plan.takes_part(*arm);
        let alone: Vec<&str> =
            (0..plan.arms.len()).filter(is_alone).map(|arm| &*plan.arms[arm].name).collect();
        let alone = if alone.is_empty() {
            String::new()
        } else {
            format!(" (except these, which run alone: {})", alone.join(", "))
        };
        return format!(
            "{repeats} repeats, in which the subjects run and are loaded at the same time{alone}. \
             The steps run {steps}. Seed {seed}"
        );
    }
    format!(
        "{repeats} repeats of all subjects {subjects}. Each start of a subject runs all steps \
         {steps}. Seed {seed}"
    )
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

/// Names the workloads that have a step: ` · json, h2`. Empty if all loaded workloads have it.
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
        (Some(_), None) => ", a response body with values of each subject".into(),
    };
    let more_checks = if request.expect.has_sampled_part() { ", and more" } else { "" };
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
            format!("open loop, {count} requests at the times in {file}")
        }
        Arrivals::Shaped { segments, .. } => {
            let segment_text = |s: &Segment| {
                let length = micros(s.duration_ns as f64 / 1e3);
                if s.from_rate == s.to_rate {
                    format!("{} for {length}", number(s.from_rate))
                } else {
                    format!("{} to {} over {length}", number(s.from_rate), number(s.to_rate))
                }
            };
            let texts: Vec<String> = segments.iter().map(segment_text).collect();
            format!("open loop, requests/s: {}", texts.join(", then "))
        }
    }
}

#[cfg(test)]
mod tests {
    use dyno_archive::RunDir;
    use dyno_model::plan::{Arrival, Objective, SearchOptions};

    use super::*;

    fn golden_run() -> Run {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/hello/run");
        RunDir::open(folder).unwrap().read().unwrap()
    }

    /// Names and descriptions come from a suite, which another person may have written.
    #[test]
    fn control_characters_of_suite_are_visible() {
        let mut plan = golden_run().header.plan;
        let lines = describe(&plan, None).lines().count();
        plan.suite.description = "a\u{1b}[31mred\u{1b}]52;c;x\u{7}\nsecond".into();
        plan.workloads[0].requests[0].path = "/\nb\u{9b}1m".into();
        plan.subjects[0].skipped = Some("no\n  subject     fake\u{202e}".into());
        let text = describe(&plan, None);
        let is_visible = |c: char| !c.is_control() || c == '\n';
        assert!(text.chars().all(is_visible) && !text.contains('\u{202e}'), "{text}");
        assert_eq!(text.lines().count(), lines, "{text}");
        assert!(text.contains("ared␛]52;c;x␇ second"), "{text}");
    }

    #[test]
    fn search_is_described_with_its_precision() {
        let mut plan = golden_run().header.plan;
        plan.search = Some(SearchOptions { width: 0.6, arrival: Arrival::Constant });
        plan.report.objective =
            Some(Objective { text: "errors<1%".into(), conditions: Vec::new() });
        let expected = "the highest rate that meets errors<1%, with a precision of 60.0 %. Each \
                        start of a subject has one search after each closed-loop step";
        assert!(describe(&plan, None).contains(expected), "{}", describe(&plan, None));
    }

    #[test]
    fn detectable_differences_depend_on_earlier_run() {
        let run = golden_run();
        let text = |repeats: u32, order: Order, pilot: Option<&Run>| {
            let plan = Plan { repeats, order, ..run.header.plan.clone() };
            describe_detectable(&plan, pilot)
        };
        // A fixed order compares nothing.
        assert_eq!(text(5, Order::Fixed, Some(&run)), None);
        let once = text(1, Order::Random, None).unwrap();
        assert!(once.starts_with("no differences, because one repeat shows no variance"), "{once}");
        let unknown = text(3, Order::Random, None).unwrap();
        let begin = "differences of at least 3.33 times the standard deviation between pairs of";
        assert!(unknown.starts_with(begin), "{unknown}");
        let known = text(5, Order::Random, Some(&run)).unwrap();
        let begin = "differences of 2.16 % in throughput and 2.16 % in CPU time per request (";
        assert!(known.starts_with(begin), "{known}");
        assert!(known.ends_with("is as in run golden-20260102-030405)"), "{known}");
        let invalid = Run { trials: Vec::new(), ..run.clone() };
        let unusable = text(5, Order::Random, Some(&invalid)).unwrap();
        assert!(unusable.ends_with("no step has 3 valid repeats of two servers"), "{unusable}");
    }

    /// The text repeats a path that has the value of a secret header. In CI such a text is shared.
    #[test]
    fn description_withholds_values_of_secret_headers() {
        let mut plan = golden_run().header.plan;
        let describe = |plan: &Plan| describe(plan, None);
        assert_eq!(redacted_description(&plan, &describe).unwrap().1, Withheld(0));
        plan.workloads[0].requests[0].headers = vec![("X-Api-Key".into(), "abc125xyz".into())];
        let without_secret = redacted_description(&plan, &describe).unwrap().1;
        assert_eq!(without_secret, Withheld(0), "the description has no headers");
        plan.workloads[0].requests[0].path = "/plaintext?page=abc125xyz".into();
        let (text, withheld) = redacted_description(&plan, &describe).unwrap();
        assert!(text.contains("/plaintext?page=(withheld) over"), "{text}");
        assert!(!text.contains("abc125xyz") && withheld == Withheld(1), "{text}");
    }
}
