// Made by types.mjs from docs/schema/report.schema.json 598ab1290bb8613fbab3409c9966f2d3008a1d70d20082258e582bedf4f147e7

/**
 * What a caveat is about, by the name that it has in every report.
 */
export type Code =
  | "fell_back"
  | "streams_not_granted"
  | "books"
  | "littles_law"
  | "longer_than_window"
  | "generator_busy"
  | "generator_crowded"
  | "generator_throttled"
  | "generator_quota"
  | "oversubscribed"
  | "priority_refused"
  | "shared_generator"
  | "wrong_answers"
  | "no_answers"
  | "refusals"
  | "dropped_packets"
  | "errors"
  | "unanswered"
  | "rate_not_reached"
  | "warmup_backlog"
  | "dropped"
  | "stalled"
  | "answered_early"
  | "generator_stopped"
  | "connections"
  | "unsolicited"
  | "queueing"
  | "generator_late"
  | "generator_starved"
  | "clumped"
  | "ceiling"
  | "partly_checked"
  | "subject_failed"
  | "checks_failed"
  | "checks_waived"
  | "still_warming"
  | "warmup_limit"
  | "warmup_without_cpu"
  | "shared_cpus"
  | "short_window"
  | "threads_ended_apart"
  | "cut_short"
  | "tcp_not_measured"
  | "server_not_observed"
  | "no_cgroup"
  | "counters_unread"
  | "left_group"
  | "not_served"
  | "limits_not_set"
  | "tick_accounting"
  | "more_threads_than_cpus"
  | "server_starved"
  | "started_for_profiles"
  | "contaminated"
  | "done_again"
  | "machine_changed"
  | "fixed_order"
  | "trend"
  | "slowdown"
  | "speedup"
  | "cyclic"
  | "cost_levels"
  | "response_levels"
  | "last_level"
  | "busy_in_others_turns"
  | "longer_than_turns"
  | "at_once"
  | "idle_duet"
  | "out_of_turn"
  | "accept_queue_full"
  | "retransmissions"
  | "many_writes"
  | "steal"
  | "thermal_throttling"
  | "not_measured"
  | "syscalls_not_measured"
  | "runtime_not_measured"
  | "probe_refused"
  | "few_repeats"
  | "mixed"
  | "resumed"
  | "peak_lower_bound"
  | "same_numbers";
/**
 * How much a caveat weighs.
 */
export type Severity = "info" | "warning" | "invalid";
/**
 * What an estimate of pairs is over.
 */
export type Over = "launches" | "rounds";
/**
 * What the ratio of two servers says where repeats of one do not count for reasons that are not
 * its own.
 */
export type RatioBound = "exact" | "at_least" | "at_most" | "unknown";
/**
 * Why there is no estimate of a ratio.
 */
export type Lack =
  | {
      a: number;
      b: number;
      why: "no_repeat";
    }
  | {
      a: number;
      b: number;
      why: "unanswered";
    }
  | {
      a: number;
      b: number;
      why: "not_measured";
    }
  | {
      a: number;
      b: number;
      why: "zero";
    }
  | {
      why: "waited";
    }
  | {
      a: number;
      b: number;
      pairs: number | null;
      why: "too_few";
    };
/**
 * What is known of a difference.
 */
export type Verdict = "higher" | "lower" | "same" | "not_shown" | "too_few" | "missing";
/**
 * How arms are set against each other.
 */
export type ExperimentKind = "ladder" | "ablation" | "toggle" | "dose" | "matrix";
/**
 * Which of two values is the better one.
 */
export type Better = ("higher" | "lower") | "neither";
/**
 * What a metric is counted in.
 */
export type Unit = ("per_second" | "microseconds" | "bytes") | "megabyte_seconds" | "share" | "count";
/**
 * The resource that limited a step.
 */
export type Resource =
  | ("server_cpu" | "disk" | "unknown")
  | "failure"
  | "dropped_packets"
  | "refusal"
  | "other_programs"
  | "generator"
  | "jit"
  | "cpu_quota"
  | "server_thread"
  | "offered_rate"
  | "concurrency"
  | "backend"
  | "gc"
  | "delayed_ack"
  | "accept_queue"
  | "link"
  | "memory"
  | "lock"
  | "workers"
  | "elsewhere";
/**
 * How sure a verdict is, the surest first.
 */
export type Confidence = "high" | "medium" | "low";
export type FunctionKind = ("kernel" | "native" | "jit" | "inlined") | "role";
/**
 * A function as it was called on one way. As JSON it is a list of these four, in this order: there are thousands.
 *
 * @minItems 4
 * @maxItems 4
 */
export type Node = [number, number, number, number];
/**
 * The version of control groups whose controllers limit CPU and memory.
 */
export type CgroupVersion = ("v1" | "v2") | "none";
/**
 * By which of the kernel's interfaces the generator does its work.
 */
export type DriverKind = "uring" | "epoll";
/**
 * The order of subjects within a block, or of workloads and steps within a start.
 */
export type Order = "random" | "fixed";
/**
 * How the kernel is to give CPUs to the generator's workers.
 */
export type Priority = "normal" | "realtime";
/**
 * A version of the PROXY protocol.
 */
export type ProxyProtocol = "v1" | "v2";
/**
 * When a connection that failed is followed by the next.
 */
export type Reconnect = "backoff" | "at-once";
/**
 * Whether the generator polls instead of sleeping where waking late would blur times.
 */
export type Spin = ("never" | "always") | "auto";
/**
 * When requests start.
 */
export type Arrivals =
  | {
      model: "closed";
    }
  | {
      model: "constant";
      rate: number;
    }
  | {
      model: "poisson";
      rate: number;
    }
  | {
      gaps: Gaps;
      model: "shaped";
      segments: Segment[];
    }
  | {
      count: number;
      file: string;
      model: "trace";
      sha256: string;
    };
/**
 * How the gaps between arrivals are distributed.
 */
export type Gaps = "even" | "exponential";
/**
 * What it means that a server gets warmer within a measured window.
 */
export type StillWarming = "refused" | "measured";
/**
 * Bytes of a body. In JSON a string if they are text, else `{"base64": …}`.
 */
export type Body =
  | string
  | {
      base64: string;
    };
/**
 * What a limit is of, under the name that archives and reports have for it.
 */
export type LimitKind = ("memory" | "open files") | "CPU quota" | "CPUs" | "CPUs (affinity)";
/**
 * A protocol, with or without TLS, and how a connection comes to speak it.
 */
export type Protocol = "h1" | "h1-tls" | "h2" | "h2c" | "h2c-upgrade" | "auto";
/**
 * The network that the parts of a start are in.
 */
export type Isolation = "none" | "netns";
/**
 * Something that is looked at only where it is asked for, because looking has a price.
 */
export type Probe = "kernel-stamps" | "syscalls" | "every-syscall" | "states" | "modes" | "profile" | "runtime";
export type FailureKind =
  | "build_failed"
  | "skipped"
  | "not_started"
  | "never_ready"
  | "wrong_answers"
  | "crashed"
  | "out_of_memory"
  | "deaf"
  | "data_failed"
  | "backend_failed"
  | "interrupted"
  | "harness";
export type WarmUpEnd = "steady" | "limit" | "unanswered" | "cut_short";
/**
 * How CPU time was split into user and system time.
 */
export type SplitBy = "kernel" | "entries";
/**
 * How the schedule of an open loop comes about, in one word.
 */
export type Arrival = "constant" | "poisson" | "trace";
/**
 * What decides when a request starts.
 */
export type Model = "closed" | "open";
/**
 * The part of a trial an instant belongs to.
 */
export type Phase = ("warmup" | "measured") | "drain";
/**
 * What a series does.
 */
export type Pattern = "flat" | "warm_up" | "none" | "slowdown" | "cyclic";

/**
 * Everything that is computed from a run's archive.
 */
export interface Report {
  /**
   * Between which rates each arm stops keeping the suite's objective; empty: it has none, or no open loops.
   */
  brackets: Bracket[];
  /**
   * How fast the machine did a fixed piece of work before each start; `None`: nobody looked.
   */
  canary: CanaryResult | null;
  /**
   * Caveats about the whole run.
   */
  caveats: Caveat[];
  comparisons: Comparison[];
  /**
   * Arms that were loaded at the same time, against the baseline; empty where an experiment sets them against each other.
   */
  duets: Effect[];
  /**
   * What the suite's experiment comes to; `None`: it has none.
   */
  experiment: ExperimentResult | null;
  /**
   * What the keys mean under which summaries, comparisons and `wire` have their metrics.
   */
  metrics: Metric[];
  /**
   * What repeats of one step differ by, by key of the metric.
   */
  noise: {
    [k: string]: NoiseFloor;
  };
  /**
   * What starts differ by beside what they are of; empty with fewer than ten starts.
   */
  nuisance: Nuisance[];
  overview: OverviewRow[];
  /**
   * By cell; empty unless profiles were asked for.
   */
  profiles: ProfileResult[];
  /**
   * HTTP/2 against HTTP/1.1, server by server; empty unless a suite has the same requests over both.
   */
  protocols: ProtocolComparison[];
  run: RunFacts;
  /**
   * How throughput grows with the requests in flight; empty without two levels of anything.
   */
  scaling: ScalingResult[];
  schema: string;
  /**
   * What was looked for at each start: the highest rate that keeps the objective; empty unless a suite asks for it (`rate = "find"`).
   */
  searches: SearchResult[];
  /**
   * One entry per arm, in the plan's order: a cell's `arm` is an index here.
   */
  subjects: SubjectResult[];
  /**
   * One entry per cell, over all repeats.
   */
  summaries: Summary[];
  tables: Table[];
  /**
   * Subjects that cannot be told apart by peak throughput, workload by workload.
   */
  ties: Tie[];
  trials: TrialResult[];
  /**
   * Arms that are the same under two names, against each other.
   */
  twins: Effect[];
  /**
   * What went over the wire, by subject and protocol.
   */
  wire: WireResult[];
}
/**
 * The rates between which an arm stops keeping the objective with a workload, over one kind of connection. A rate is decided by most of its
 * repeats, because one may be wrong by chance.
 */
export interface Bracket {
  /**
   * In each repeat alone, the highest rate below all that were missed; 0: it missed them all.
   * Without repeats that do not tell.
   */
  by_repeat_rps: number[];
  connections: number;
  /**
   * Most repeats or searches missed the objective by wrong or missing responses, whose share is
   * not shown to fall with the rate: no rate is known.
   */
  failures_at_any_rate: boolean;
  /**
   * 95 % interval of that over repeats; `None`: fewer than five.
   *
   * @minItems 2
   * @maxItems 2
   */
  interval_rps: [number, number] | null;
  /**
   * Highest rate that most repeats kept, below the first decided rate that they did not keep;
   * requests per second. `None`: there is none.
   */
  kept_rps: number | null;
  /**
   * The generator could not offer `missed_rps`, so that it may be the limit, and not the server.
   */
  limited_by_generator: boolean;
  /**
   * The lowest rate that most repeats missed; `None`: none is.
   */
  missed_rps: number | null;
  /**
   * Which of several alike, from 1. Rates that were planned are taken together.
   */
  pass: number;
  pipeline: number;
  /**
   * Empty where rates were searched.
   */
  rates: RateVotes[];
  /**
   * What rates were searched by: then bounds are medians over starts. `None`: rates were planned.
   */
  searched: Searched | null;
  streams: number;
  subject: string;
  workload: string;
}
/**
 * How the repeats at a rate stand to the objective.
 */
export interface RateVotes {
  kept: Votes;
  /**
   * What was missed, or is unknown, in the first that did not keep it.
   */
  missed: string | null;
  rate_rps: number;
}
/**
 * Loads at one rate, and how many of them agree with what is said of it.
 */
export interface Votes {
  agree: number;
  loads: number;
}
/**
 * Searches, one at each start.
 */
export interface Searched {
  /**
   * Searches whose rate was kept by a longer load, too.
   */
  confirmed: number;
  /**
   * Length of the longest load that kept the rate, the shortest of all searches, seconds.
   * `None`: none has found a rate.
   */
  holds_s: number | null;
  /**
   * Searches whose missed rate the generator could not offer.
   */
  limited_by_generator: number;
  loads: number;
  /**
   * Searches that ended with bounds as close as was asked.
   */
  settled: number;
  starts: number;
}
/**
 * The fixed piece of work over the starts of a run.
 */
export interface CanaryResult {
  /**
   * Times of these two starts' pieces, microseconds.
   */
  fastest_us: number;
  /**
   * Median over the starts of the time that a piece took, microseconds.
   */
  piece_us: number;
  /**
   * Time of the slowest start's piece, as a multiple of the fastest one's on the same CPU: the most of all CPUs.
   */
  slowest_to_fastest: number;
  slowest_us: number;
  /**
   * In order of time.
   */
  starts: CanaryStart[];
}
/**
 * Before one start.
 */
export interface CanaryStart {
  /**
   * Counted from 1.
   */
  block: number;
  /**
   * On which CPU it was done; `None`: on any.
   */
  cpu: number | null;
  /**
   * Median CPU time that it took: without what others took. Microseconds.
   */
  cpu_us: number;
  /**
   * Name of the arm that was then started.
   */
  subject: string;
  /**
   * Median time that a piece took, microseconds.
   */
  wall_us: number;
}
/**
 * A reason to distrust a number: what it means for the reader, the evidence, and what to do.
 */
export interface Caveat {
  code: Code;
  /**
   * Object with the numbers behind the message; its keys depend on the code.
   */
  evidence: {
    [k: string]: unknown;
  };
  /**
   * What is wrong and what to do about it, in sentences.
   */
  message: string;
  severity: Severity;
}
/**
 * An arm against the baseline in one cell. Ratios are arm ÷ baseline, of repeats paired by block.
 */
export interface Comparison {
  baseline: string;
  cell: CellKey;
  connections: number;
  cpu: PairEstimate | null;
  cpu_per_request_ratio: Repeated;
  /**
   * The ratio of every metric by its key, those above included; unknown ones are left out.
   */
  metrics: {
    [k: string]: Repeated;
  };
  /**
   * Tells steps apart that are otherwise the same: which of them it is, from 1.
   */
  pass: number;
  pipeline: number;
  response_p99_ratio: Repeated;
  step: number;
  streams: number;
  subject: string;
  /**
   * The ratio of throughput, and of CPU time per request, with their intervals; `None`: too few repeats, or one has no value.
   */
  throughput: PairEstimate | null;
  /**
   * Whether `throughput_ratio` is a bound, because repeats of one of the two do not count for
   * reasons that are not its own.
   */
  throughput_bound: RatioBound;
  throughput_ratio: Repeated;
  /**
   * Whether the pairs do not tell the two apart by throughput ([`Pairs::are_apart`]), with all arms allowed for that are compared
   * with the baseline at this step. Also where they do, and the one that is behind may do more
   * (`throughput_bound`). With a fixed order of starts no pairs tell two apart.
   */
  tie: boolean;
  workload: string;
}
/**
 * An arm with a workload at a step, by their indices in the plan. Trials of one cell differ by block alone.
 */
export interface CellKey {
  /**
   * Index among the plan's arms, and among the report's `subjects`.
   */
  arm: number;
  /**
   * Index among the plan's steps.
   */
  step: number;
  /**
   * Index among the plan's workloads.
   */
  workload: number;
}
/**
 * An estimate of pairs, and what it is over.
 */
export interface PairEstimate {
  /**
   * The ratio above 1 that would have been told from 1 in four of five such comparisons, or a
   * lower one: of one alone, or, in the rows of a comparison, with all others allowed for that
   * it is judged with. The noise is an estimate, too, so it is taken at its upper bound of 80 %:
   * four of five such figures hold. `None`: with so few pairs none would have been.
   */
  detectable: number | null;
  high: number;
  /**
   * The interval that holds for all pairs of subjects of this step at once in 19 of 20 runs
   * (Bonferroni; Dunn, "Multiple comparisons among means", 1961). Where it leaves out 1, all
   * pairs tested together (Holm) tell the two apart. `None`: nothing is excluded.
   *
   * @minItems 2
   * @maxItems 2
   */
  interval_of_all: [number, number] | null;
  /**
   * The interval is to hold at every look, and the pairs are visibly skewed: then it holds less
   * often than it says.
   */
  is_skewed: boolean;
  /**
   * 95 % interval of the ratio.
   */
  low: number;
  over: Over;
  /**
   * Chance of a difference at least as large if there is none: 0 to 1, two-sided.
   */
  p: number;
  /**
   * Geometric mean of the ratios.
   */
  ratio: number;
}
/**
 * One quantity over all repeats.
 */
export interface Repeated {
  /**
   * 95 % interval of the median; `None` with fewer than [`REPEATS_FOR_INTERVAL`] repeats.
   *
   * @minItems 2
   * @maxItems 2
   */
  interval: [number, number] | null;
  /**
   * `None`: no values, or a repeat's percentile lies among the unanswered.
   */
  max: number | null;
  /**
   * `None`: no values, or the middle falls among repeats whose percentile lies among the unanswered.
   */
  median: number | null;
  min: number | null;
  /**
   * One value per repeat that has one, in the order of the blocks.
   */
  values: number[];
}
/**
 * What one change of an arm changes.
 */
export interface Effect {
  /**
   * What it comes to, cell by cell.
   */
  answers: Answer[];
  /**
   * The only thing in which they differ, in words; `None`: there is none, there are several, or
   * `fixed_order`.
   */
  because: string | null;
  /**
   * In what the two differ, as planned; nothing: one is the other's twin.
   */
  changed: Change[];
  /**
   * All blocks started the two in the same order, so a drift of the machine is part of what they
   * differ by.
   */
  fixed_order: boolean;
  /**
   * Names of the arms; ratios are `to` ÷ `from`.
   */
  from: string;
  /**
   * A limit in which the two differ could not be set in a start of one of them: they may not differ at all.
   */
  not_set: boolean;
  rows: Row[];
  to: string;
}
/**
 * What one cell of both sides comes to.
 */
export interface Answer {
  /**
   * What is said of `b`.
   */
  sentence: string;
  step: Shape;
  /**
   * Name of the arm in `a`, and in `b`.
   */
  subject_a: string;
  subject_b: string;
  workload: string;
}
/**
 * What tells one step of a workload from another.
 */
export interface Shape {
  connections: number;
  /**
   * Tells steps apart that are otherwise the same: which of them it is, from 1.
   */
  pass: number;
  pipeline: number;
  /**
   * Requests per second offered; `None` in a closed loop, and where the rate changes.
   */
  rate: number | null;
  streams: number;
}
/**
 * One condition in which two arms differ.
 */
export interface Change {
  /**
   * `None`: not told, because values of the environment and of requests may hold secrets, or not set.
   */
  from: string | null;
  to: string | null;
  what: string;
}
/**
 * One metric in one cell of both sides.
 */
export interface Row {
  a: Repeated;
  b: Repeated;
  /**
   * Most repeats of `b` do not count because its server answered wrong, failed or never came up, and most of `a` count.
   */
  b_broke: boolean;
  /**
   * A control: what it shows is how alike the machine was.
   */
  control: boolean;
  /**
   * `None`: see `lack`.
   */
  estimate: Estimate | null;
  /**
   * Why there is no estimate; `None`: there is one.
   */
  lack: Lack | null;
  /**
   * Key and name of the metric.
   */
  metric: string;
  /**
   * What the estimate is over; `None`: there is none, or the repeats are no pairs.
   */
  over: Over | null;
  /**
   * Chance that so many more repeats of `b` than of `a` fail, or have this percentile among
   * requests that got no response, if the two are alike (Fisher's exact test): 0 to 1, not
   * adjusted for other tests. `None`: no repeat of either did.
   */
  p_lost: number | null;
  /**
   * Chance of a difference at least as large if there is none, with all other rows allowed for (Holm).
   */
  p_of_all: number | null;
  /**
   * The same chance by looking at every exchange of the two sides (signs of pairs, or divisions of all values), which asks nothing of
   * how values are distributed. `None`: too many to look at, or nothing to exchange. Five pairs cannot have less than 0.0625.
   */
  p_permuted: number | null;
  /**
   * Of each pair of repeats, `b` ÷ `a`; empty: they are no pairs, or one has no value.
   */
  pairs: number[];
  /**
   * Of the medians, `b` ÷ `a`; `None`: one is not known, or 0.
   */
  ratio_of_medians: number | null;
  /**
   * The verdict in words.
   */
  sentence: string;
  step: Shape;
  /**
   * Name of the arm in `a`, and in `b`.
   */
  subject_a: string;
  subject_b: string;
  title: string;
  verdict: Verdict;
  workload: string;
}
/**
 * A ratio of two sides. It exists from [`REPEATS_FOR_INTERVAL`] repeats of each on.
 */
export interface Estimate {
  /**
   * The ratio above 1 that would have been told from 1 in four of five such comparisons, or a
   * lower one: of one alone, or, in the rows of a comparison, with all others allowed for that
   * it is judged with. The noise is an estimate, too, so it is taken at its upper bound of 80 %:
   * four of five such figures hold. `None`: with so few pairs none would have been.
   */
  detectable: number | null;
  high: number;
  /**
   * 95 % interval of the ratio.
   */
  low: number;
  /**
   * Chance of a difference at least as large if there is none: 0 to 1, two-sided.
   */
  p: number;
  /**
   * Geometric mean of the ratios.
   */
  ratio: number;
}
/**
 * An experiment of a suite.
 */
export interface ExperimentResult {
  /**
   * What the level does, over all levels; empty but for a dose.
   */
  doses: Dose[];
  effects: Effect[];
  /**
   * What was varied, in the words of whoever asked.
   */
  factor: string | null;
  kind: ExperimentKind;
}
/**
 * What the level of a dose does to a metric at one step.
 */
export interface Dose {
  /**
   * What the metric is multiplied by when the level doubles, over launches; `None`: too few, one
   * has no value, or the order of starts was fixed.
   */
  doubling: Estimate | null;
  /**
   * The same, of the median slope; `None`: no block has every level.
   */
  doubling_median: number | null;
  metric: string;
  step: Shape;
  title: string;
  workload: string;
}
/**
 * A quantity that is measured of a trial.
 */
export interface Metric {
  better: Better;
  /**
   * Name in results, such as `throughput_rps`.
   */
  key: string;
  /**
   * Name for people.
   */
  title: string;
  unit: Unit;
}
/**
 * What repeats of one and the same differ by.
 */
export interface NoiseFloor {
  /**
   * By how much a server has to differ from the baseline for four of five such runs to show it, looked at alone, the median over steps: 0.05 is 5 %.
   * `None`: fewer than five repeats, or nobody to compare.
   */
  detectable: number | null;
  /**
   * Standard deviation of the logarithms of a step's repeats, the median over steps: 0.05 is 5 %.
   */
  scatter: number;
  /**
   * Steps of all subjects with three repeats or more, of which it is the median; starts of subjects for what each start has once.
   */
  steps: number;
}
/**
 * What the starts of a run differ by in one metric.
 */
export interface Nuisance {
  factors: Share[];
  /**
   * Key and name of the metric.
   */
  metric: string;
  /**
   * Standard deviation of logarithms about each arm's mean: 0.02 is 2 %.
   */
  spread: number;
  /**
   * Starts with a known value.
   */
  starts: number;
  title: string;
}
/**
 * The share of one factor.
 */
export interface Share {
  /**
   * What it is, such as `CPUs`.
   */
  factor: string;
  /**
   * Chance of such a share or a larger one where the factor does nothing, with all factors of all metrics allowed for (Holm).
   */
  p: number;
  /**
   * Of the variance: 0 to 1.
   */
  share: number;
}
/**
 * One subject with one workload in the overview. Throughput is of the peak's step; response times, CPU and cost are of the
 * reference step.
 */
export interface OverviewRow {
  /**
   * Why there are no numbers, or not all; `None`: nothing is known to be missing.
   */
  absent: string | null;
  /**
   * The services behind the subject.
   */
  backends: BackendRow[];
  baseline: boolean;
  /**
   * Caveats of the same step.
   */
  caveats: StepCaveat[];
  checks: number;
  checks_passed: number;
  /**
   * Checks that the subject fails, and that its file lets it fail.
   */
  checks_waived: number;
  control: boolean;
  /**
   * The same, with its range and its parts.
   */
  cost: CostResult | null;
  /**
   * Price of the CPU time of 10⁹ requests at the reference step, in the currency of `[cost] per_vcpu_hour`.
   */
  cost_per_billion_requests: number | null;
  cpu_us_per_request: number | null;
  /**
   * Due requests without a right answer, over all trials with the workload.
   */
  errors: number;
  /**
   * Figures of repeats that are not valid, for those of the above that no valid repeat has: no
   * verdict rests on them. `None`: there are none.
   */
  invalid?: InvalidFigures | null;
  language: string;
  /**
   * What limited the step of the peak, or of `peak_at_least_rps`, or the reference step if there
   * is neither.
   */
  limiter: Resource | null;
  limiter_confidence: Confidence | null;
  limiter_sentence: string | null;
  /**
   * Highest anonymous memory (resident, where that is all there is) in any sample of any measured window. Not the
   * kernel's own peak, which holds page cache.
   */
  memory_peak_bytes: number | null;
  /**
   * What 10⁹ requests use at the reference step, whatever it costs; `None`: the CPU time is not known.
   */
  paid: Paid | null;
  /**
   * The same at the ends of the interval, or range, of the CPU time per request; `None`: not known, or of one repeat alone.
   *
   * @minItems 2
   * @maxItems 2
   */
  paid_between: [Paid, Paid] | null;
  /**
   * The load point of that step.
   */
  peak_at: Shape | null;
  /**
   * The load point of that.
   */
  peak_at_least_at: Shape | null;
  /**
   * Throughput that it reached at least, where that is above `peak_rps`: the repeats of the step
   * with the most, those that do not count only because of the generator included. `None`:
   * `peak_rps` is the most that is known.
   */
  peak_at_least_rps: Repeated | null;
  /**
   * The cell with the peak; `None`: no step has a valid repeat.
   */
  peak_cell: CellKey | null;
  peak_connections: number | null;
  /**
   * Whether the server may do more than `peak_rps`: the steps in `peak_open_steps` are no
   * evidence against it.
   */
  peak_is_lower_bound: boolean;
  /**
   * The peak is what was served of an offered rate, because no step is a closed loop with a
   * valid repeat.
   */
  peak_is_offered: boolean;
  /**
   * The peak, or `peak_at_least_rps`, is a mean of several levels of throughput, which the
   * server did not sustain. `None`: throughput stayed on one level.
   */
  peak_mixture: Mixture | null;
  /**
   * Steps at which it may have done more; empty: the peak is exact.
   */
  peak_open_steps: OpenStep[];
  /**
   * Throughput at the step with the highest median. Steps with too few valid repeats to tell subjects apart count only if
   * all have too few.
   */
  peak_rps: Repeated | null;
  peak_streams: number | null;
  /**
   * The places that it may have among those of its workload, by tests of all their pairs at
   * once. `None`: a control, too few valid repeats, or a fixed order of starts.
   */
  places: Places | null;
  reference_at: Shape;
  /**
   * The cell at the reference step.
   */
  reference_cell: CellKey;
  reference_connections: number;
  /**
   * Requests in flight there: connections × streams × pipeline.
   */
  reference_in_flight: number;
  /**
   * The step at which response times, CPU and cost are given: of the workload's steps, the one nearest to 64 requests in
   * flight.
   */
  reference_step: number;
  response_p50_us: number | null;
  response_p99_us: number | null;
  /**
   * From exec until it was ready: the median over the starts.
   */
  startup_ms: number | null;
  subject: string;
  /**
   * Number of the tie group, counted from 1: pairs of repeats do not show a member to be below the group's best. `None`:
   * a control, too few valid repeats, or a fixed order of starts.
   */
  tie_group: number | null;
  /**
   * The subject's title, with the workload's name where there are several.
   */
  title: string;
  /**
   * The figures above divided by those of the baseline's row of the same workload; `None` for the baseline itself, where one of the two
   * was loaded alone and the other beside others, and where the suite names none.
   */
  to_baseline: RowRatios | null;
  workload: string;
}
/**
 * A service behind a subject, in the subject's row.
 */
export interface BackendRow {
  /**
   * Its part of the CPU time that a request cost subject and back ends together: 0 to 1.
   */
  cpu_share: number | null;
  /**
   * Per answer of the subject, at the reference step.
   */
  cpu_us_per_request: number | null;
  /**
   * The most over all trials with the workload.
   */
  memory_peak_bytes: number | null;
  name: string;
  /**
   * Until it was ready.
   */
  startup_ms: number | null;
}
/**
 * A caveat of a cell, with the number of repeats that have it.
 */
export interface StepCaveat {
  code: Code;
  /**
   * The message in the first of those repeats.
   */
  message: string;
  repeats: number;
  /**
   * The gravest of those repeats.
   */
  severity: Severity;
}
/**
 * The price of 10⁹ requests, with what it consists of.
 */
export interface CostResult {
  /**
   * The same at the ends of the interval, or range, of the CPU time per request; `None`: of one repeat alone.
   *
   * @minItems 2
   * @maxItems 2
   */
  between: [number, number] | null;
  /**
   * What of it is paid for memory.
   */
  of_memory: number;
  /**
   * In the currency of `[cost]`.
   */
  per_billion: number;
}
/**
 * Medians over repeats that are not valid. `None`: a valid repeat has such a figure, or none has.
 */
export interface InvalidFigures {
  cpu_us_per_request: number | null;
  /**
   * The load point of that step.
   */
  peak_at: Shape | null;
  /**
   * Throughput at the step with the highest median of them.
   */
  peak_rps: number | null;
  /**
   * At the reference step, as the rest.
   */
  response_p50_us: number | null;
  response_p99_us: number | null;
}
/**
 * What 10⁹ requests use of a server all of whose CPUs are used fully: of one that uses the share u of them it is paid for 1 / u times as long.
 */
export interface Paid {
  /**
   * Hours of one CPU.
   */
  cpu_hours: number;
  /**
   * Hours of a GiB of memory, which is held beside the CPUs whatever is served.
   */
  gib_hours: number;
}
/**
 * Levels between which throughput changed within the measured windows of a step: its mean is a
 * value that the server did not sustain.
 */
export interface Mixture {
  /**
   * Repeats in which throughput changed its level.
   */
  changed: number;
  highest_rps: number;
  /**
   * Medians, over the repeats in which it changed, of their lowest and of their highest level.
   */
  lowest_rps: number;
  /**
   * Repeats that count; where none does, those that the generator limited.
   */
  repeats: number;
}
/**
 * A step at which a server may have done more than its peak, because repeats do not count for
 * reasons that are not its own.
 */
export interface OpenStep {
  at: Shape;
  /**
   * `contaminated` if other programs had the CPUs in most of the refused repeats; otherwise the
   * reason in the first of them, the generator's before others. `None`: none ran.
   */
  reason: Code | null;
  /**
   * Repeats that do not count for reasons that are not the server's.
   */
  refused: number;
  /**
   * Repeats that ran; 0: the step was planned, and none ran.
   */
  repeats: number;
  /**
   * Index among the plan's steps.
   */
  step: number;
}
/**
 * The places that a series may have by its tests: counted from 1, the best first.
 */
export interface Places {
  best: number;
  worst: number;
}
/**
 * A row's figures divided by those of another; `None` where one of the two has no figure, or the other's is 0.
 */
export interface RowRatios {
  cpu_per_request: number | null;
  memory_peak: number | null;
  /**
   * `None`, too, where one of the two peaks is a lower bound.
   */
  peak_rps: number | null;
  /**
   * The least that the ratio of the peaks is, where this row's is a lower bound and the other's
   * is not.
   */
  peak_rps_at_least: number | null;
  response_p50: number | null;
  response_p99: number | null;
  startup: number | null;
}
/**
 * What is known of one cell from its profiles.
 */
export interface ProfileResult {
  cell: CellKey;
  /**
   * CPU time that the server used per answer while they were; `None`: not known.
   */
  cpu_us_per_request: number | null;
  /**
   * Why others of its trials have none, as sentences.
   */
  failures: string[];
  /**
   * How long stacks were taken.
   */
  length_s: number;
  /**
   * Where its threads ran; `None`: no sample.
   */
  running: Flame | null;
  /**
   * Part of the server's CPU time that samples of it stand for; what is missing was used by processes that came and went, or before it
   * was known that they are there. `None`: not known.
   */
  sampled_share: number | null;
  /**
   * Complete answers per second while they were.
   */
  throughput_rps: number;
  /**
   * Trials whose profiles are put together, by their places in the run.
   */
  trials: number[];
  /**
   * Why code compiled just in time may lack names, as sentences.
   */
  unnamed: string[];
  /**
   * Where they waited, for a CPU as well; `None`: no sample.
   */
  waiting: Flame | null;
}
/**
 * Stacks put together into a tree, from the thread's role to the innermost function.
 */
export interface Flame {
  /**
   * Shares of the samples by where the innermost function comes from: the kernel, a file, code compiled just in time.
   */
  by_origin: Share2[];
  functions: Function[];
  /**
   * By samples of their own, the most first.
   */
  hottest: Hot[];
  /**
   * Of each node, how much more time per answer it takes here than in another profile, from −3 (much less) to 3; 0: no difference that
   * the samples could show. `None`: there is no other.
   */
  levels: number[] | null;
  /**
   * Samples for which there was no room.
   */
  lost: number;
  /**
   * Share of the samples in which all functions have names; a place in a file is none.
   */
  named_share: number;
  /**
   * Depth first, each before its callees; those that are too small to be seen are left out.
   */
  nodes: Node[];
  samples: number;
  /**
   * Time that all samples stand for: of CPUs, or of threads that wait.
   */
  seconds: number;
  /**
   * The same per complete answer.
   */
  us_per_request: number | null;
  /**
   * Share of the samples whose stack is known from where its thread began: 0 to 1.
   */
  whole_share: number;
}
export interface Share2 {
  name: string;
  share: number;
}
/**
 * A function in a flame graph, or the role of the threads below which its functions are.
 */
export interface Function {
  kind: FunctionKind;
  /**
   * The file that it was loaded from; `None`: of none.
   */
  module: string | null;
  name: string;
}
/**
 * How much of the samples are a function's.
 */
export interface Hot {
  function: number;
  /**
   * Share of the samples in which it was the innermost: 0 to 1.
   */
  own_share: number;
  /**
   * Time of its own per complete answer.
   */
  own_us_per_request: number | null;
  /**
   * Share of the samples in which it was at all.
   */
  share: number;
}
/**
 * One server with the same requests over HTTP/2 and HTTP/1.1, both with TLS or both without. Ratios are HTTP/2 ÷ HTTP/1.1,
 * of repeats paired by block.
 */
export interface ProtocolComparison {
  /**
   * Workload over HTTP/1.1 with the same requests.
   */
  baseline: string;
  /**
   * Connections over HTTP/1.1.
   */
  baseline_connections: number;
  /**
   * Requests in flight on each of them.
   */
  baseline_pipeline: number;
  /**
   * Arm over HTTP/1.1: the same arm, or, if it has no numbers there, another variant of its server.
   */
  baseline_subject: string;
  /**
   * Connections over HTTP/2.
   */
  connections: number;
  cpu_per_request_ratio: Repeated;
  /**
   * Requests in flight, the same on both sides: connections × streams over HTTP/2, connections × pipeline over HTTP/1.1.
   */
  in_flight: number;
  /**
   * Which time these steps were asked for, counted from 1, where a suite asks more than once.
   */
  pass: number;
  response_p99_ratio: Repeated;
  /**
   * Name of the server, without its variant.
   */
  server: string;
  /**
   * Streams asked for on each of them.
   */
  streams: number;
  /**
   * Arm over HTTP/2.
   */
  subject: string;
  throughput_ratio: Repeated;
  /**
   * Workload over HTTP/2.
   */
  workload: string;
}
/**
 * What was planned and done, and where.
 */
export interface RunFacts {
  /**
   * Repeats after which the run ended, because what was asked of it was known; `None`: it was to make all of them.
   */
  answered_after: number | null;
  /**
   * Whether the run could end as soon as it was answered: intervals of ratios hold at every look.
   */
  at_every_look: boolean;
  /**
   * Names of the arms that were to be loaded at the same time; empty: each was to be alone on its CPUs, or took turns.
   */
  at_once: string[];
  /**
   * Name of the arm that others are compared with; `None`: the suite names none.
   */
  baseline: string | null;
  command: string[];
  cost: Cost | null;
  description: string;
  facts: Facts;
  id: string;
  load: Load;
  markers: Marker[];
  /**
   * What the load's rates are shares of; `None`: they were written as rates, or there are none.
   */
  measured_first: MeasuredFirst | null;
  /**
   * What servers are to keep at the rates of open loops, as it was written; `None`: nothing is asked of that.
   */
  objective: string | null;
  /**
   * Share of the measured time that was spent on reading counters, on the generator's CPUs: the median over the trials.
   * `None`: no trial tells.
   */
  observing_share: number | null;
  /**
   * Names of the arms in the order in which they were to run, block by block.
   */
  order: string[][];
  /**
   * Those of them for which other programs are why. `None`: there are none.
   */
  other_programs?: DisturbedSteps | null;
  /**
   * Names of the suite's profiles that it was read with, the later ones above the earlier.
   */
  profiles: string[];
  repeats: number;
  seed: number;
  /**
   * RFC 3339, UTC.
   */
  started: string;
  suite: string;
  suite_source: string;
  /**
   * Whether servers and generator change places from block to block; the conditions of subjects name the CPUs of the first.
   */
  swaps_cpus: boolean;
  trials_done: number;
  /**
   * Without those of a control that was to refuse, and did.
   */
  trials_invalid: number;
  trials_planned: number;
  workloads: Workload[];
}
/**
 * What it costs to have a server up.
 */
export interface Cost {
  /**
   * Hours after which a server is started anew; `None`: it never is.
   */
  lifetime_hours: number | null;
  /**
   * Price of 2³⁰ bytes of memory for an hour; `None`: memory costs nothing.
   */
  per_gib_hour: number | null;
  /**
   * Price of a CPU for an hour, used or not.
   */
  per_vcpu_hour: number;
  /**
   * Share of its CPUs that a server may use on average: above 0, up to 1. `None`: all of them.
   */
  utilisation: number | null;
}
/**
 * Facts about the machine and about this dyno, read when the run began.
 */
export interface Facts {
  cgroup: CgroupVersion;
  clock_source: string | null;
  cpu_model: string | null;
  cpus: number;
  /**
   * The commit dyno was built from, if known.
   */
  dyno_commit: string | null;
  dyno_version: string;
  /**
   * For instance `performance`; `None` where the machine does not tell.
   */
  governor: string | null;
  kernel: string | null;
  /**
   * Whether the kernel tracks connections over loopback (netfilter); `None`: not known.
   */
  loopback_tracked?: boolean | null;
  memory_bytes: number | null;
  /**
   * What could not be read or done here, each with why and how to mend it.
   */
  missing: Missing[];
  open_files_limit: number | null;
  os: string | null;
  /**
   * Whether the run had root's rights.
   */
  privileged: boolean;
  /**
   * Settings of the kernel that change what servers do, by name.
   */
  sysctls: [string, string][];
  /**
   * Whether user and system time are sampled by the tick instead of measured.
   */
  tick_accounting: boolean | null;
  /**
   * Connections that the kernel tracks at most, where it tracks loopback; `None`: it does not,
   * or that is not known.
   */
  tracking_most?: number | null;
  /**
   * For instance `kvm`; `none` on bare metal as far as can be seen.
   */
  virtualisation: string | null;
}
/**
 * Something that could not be measured or done.
 */
export interface Missing {
  mend: string;
  what: string;
  why: string;
}
export interface Load {
  /**
   * Of how many answers one is checked in full; 1: every one, 0: none.
   */
  check_one_in: number;
  connect_timeout_ns: number;
  /**
   * How long what is in flight may go on after the measured window.
   */
  drain_ns: number;
  driver: DriverKind;
  /**
   * 0: no set time; a load without a suite may end after so many requests, or when the user ends it.
   */
  duration_ns: number;
  /**
   * From sent to the first byte; `None`: only the whole answer has a limit.
   */
  first_byte_timeout_ns: number | null;
  /**
   * For workloads over HTTP/2.
   */
  http2: Http2;
  interval_ns: number;
  /**
   * Of workloads and steps within a start.
   */
  order: Order;
  /**
   * Of the generator's workers.
   */
  priority: Priority;
  /**
   * The PROXY protocol with which each connection begins; `None`: it begins with the first
   * request, or with TLS.
   */
  proxy_protocol?: ProxyProtocol | null;
  /**
   * Time over which connections are opened one by one; `None`: all of them before the load begins.
   */
  ramp_connections_ns: number | null;
  reconnect: Reconnect;
  /**
   * Requests in all; `None`: as many as the window allows, which is what suites ask for.
   */
  requests: number | null;
  /**
   * `None`: as long as the server likes.
   */
  requests_per_connection: number | null;
  spin: Spin;
  /**
   * Each differs from all others. Which of them a workload has, the trials say: protocols have streams or pipelines.
   */
  steps: Step[];
  still_warming: StillWarming;
  threads: number;
  timeout_ns: number;
  /**
   * Each start is warmed before its first step until it is steady; `None`: not beyond what the steps do themselves.
   */
  until_steady: UntilSteady | null;
  /**
   * Of each step; what is answered in it is not measured.
   */
  warmup_ns: number;
}
/**
 * What an HTTP/2 client says of itself at the start of each connection.
 */
export interface Http2 {
  /**
   * The same for a connection's streams together.
   */
  connection_window_bits: number;
  /**
   * Bytes of the table in which a server may keep headers of its answers (SETTINGS_HEADER_TABLE_SIZE).
   */
  header_table_size: number;
  /**
   * Each stream's window is 2^this − 1 bytes: how much of an answer a server may send before it is told to go on.
   * 10 to 30.
   */
  window_bits: number;
}
/**
 * One load point.
 */
export interface Step {
  arrivals: Arrivals;
  connections: number;
  /**
   * Tells it from steps that are otherwise the same: which of them it is, from 1.
   */
  pass: number;
  /**
   * Requests in flight per connection without waiting for answers.
   */
  pipeline: number;
  /**
   * Streams per connection; 1 for HTTP/1.1.
   */
  streams: number;
}
/**
 * A stretch of time over which the rate goes evenly from one value to another, requests per second.
 */
export interface Segment {
  duration_ns: number;
  from_rate: number;
  to_rate: number;
}
/**
 * How long a start is warmed at most that does not become steady.
 */
export interface UntilSteady {
  limit_ns: number;
}
/**
 * A vertical line on the charts, set by the user.
 */
export interface Marker {
  connections: number;
  label: string;
}
/**
 * A run that told at which rates another is to load.
 */
export interface MeasuredFirst {
  capacities: Capacity[];
  /**
   * Its id.
   */
  run: string;
  /**
   * The rates, as shares of the capacities.
   */
  shares: number[];
}
/**
 * What the slowest subject of a suite did with a workload.
 */
export interface Capacity {
  /**
   * Right answers per second in closed loops.
   */
  rps: number;
  /**
   * Name of the arm.
   */
  subject: string;
  workload: string;
}
/**
 * Steps that are not valid because other programs had the CPUs.
 */
export interface DisturbedSteps {
  /**
   * Share of this machine's CPUs that other programs used: 0 to 1, the median of those steps.
   * `None`: not known.
   */
  cpu_share: number | null;
  /**
   * Names of the programs, by their CPU time; empty: none is visible from here.
   */
  names: string[];
  trials_invalid: number;
}
/**
 * What is asked of a server: one request, or a weighted mix of them.
 */
export interface Workload {
  name: string;
  /**
   * The requests are a page: the first is its document, and the others, which it refers to, follow once it is there.
   */
  page?: Page | null;
  /**
   * `h1`, `h2`, `h2c` or `h2c-upgrade`; of a load without a suite also `auto`.
   */
  protocol: string;
  /**
   * At least one.
   */
  requests: Request[];
  /**
   * Connections are replaced after so many requests, whatever the load says; `None`: as the load says.
   */
  requests_per_connection?: number | null;
  /**
   * Over TLS.
   */
  tls: boolean;
}
/**
 * How a page is loaded.
 */
export interface Page {
  /**
   * Connections of HTTP/1.1 that load one page together; of HTTP/2 it is always one.
   */
  connections: number;
}
/**
 * A request and the answer it should get. Path, header values and body may hold placeholders (docs/suites.md).
 */
export interface Request {
  body: Body | null;
  expect: Expect;
  headers: [string, string][];
  method: string;
  name: string;
  path: string;
  /**
   * How often it is chosen, in proportion to the weights of the others.
   */
  weight: number;
}
/**
 * What a right answer is. Whatever is not named is not looked at; without a status any from 200 to 399 is right.
 */
export interface Expect {
  /**
   * The whole body, byte for byte.
   */
  body: Body | null;
  /**
   * Text that must stand in the body somewhere.
   */
  body_contains: string | null;
  /**
   * Expression that must match somewhere in the body.
   */
  body_matches: string | null;
  /**
   * SHA-256 of the body, in hexadecimal digits.
   */
  body_sha256: string | null;
  /**
   * Headers that must be there, with this value if one is given.
   */
  headers: [string, string | null][];
  /**
   * Headers that must be there, with an expression that must match in the value of one of them.
   */
  headers_match: [string, string][];
  /**
   * JSON pointers (RFC 6901) into the body, with the value that must stand there.
   */
  json: [string, unknown][];
  /**
   * JSON pointers, with an expression that must match the text or number that stands there.
   */
  json_match: [string, string][];
  status: number | null;
}
/**
 * How an arm's throughput grows with the requests in flight, over the closed loops of one workload and one kind of connection.
 */
export interface ScalingResult {
  arm: number;
  /**
   * Requests in flight from which on more of them bring little (Satopää et al. 2011); `None`:
   * fewer than four levels, no bend beyond the noise, one repeat, or a level at or above the
   * bend is among `open_levels`.
   */
  knee: number | null;
  /**
   * `None`: fewer than six levels.
   */
  law: LawResult | null;
  levels: ScalingLevel[];
  /**
   * Levels at which the server may have done more, because repeats do not count for reasons that
   * are not its own.
   */
  open_levels: number[];
  pipeline: number;
  streams: number;
  subject: string;
  workload: number;
}
/**
 * The Universal Scalability Law that a curve follows the closest (Gunther 2007): λn / (1 + σ(n − 1) + κn(n − 1)).
 */
export interface LawResult {
  /**
   * What each in flight costs each other.
   */
  kappa: Coefficient;
  /**
   * Requests per second with one in flight.
   */
  lambda: Coefficient;
  /**
   * Throughput that it reaches or nears; `None`: it grows for ever, or as above.
   */
  most_rps: number | null;
  /**
   * Requests in flight at which throughput is the highest by the law; `None`: it never falls, or
   * what the server does at its highest levels is not known (`open_levels`).
   */
  peak_at: number | null;
  /**
   * Contention: 0 to 1 and more.
   */
  sigma: Coefficient;
  /**
   * The largest residual, as a share: far above the noise, the law is not this server's.
   */
  worst_residual: number;
}
/**
 * A coefficient, with its 95 % interval over launches (the jackknife's error and Student's t, Tukey 1958). `None`: fewer than five launches, or the
 * fit holds it at 0, of all launches or without one of them: how much it may be is not known then.
 */
export interface Coefficient {
  /**
   * @minItems 2
   * @maxItems 2
   */
  interval: [number, number] | null;
  value: number;
}
/**
 * One level of a curve.
 */
export interface ScalingLevel {
  /**
   * By the law; `None`: there is none.
   */
  fitted_rps: number | null;
  in_flight: number;
  /**
   * By how much what was measured is above the law, as a share of it.
   */
  residual: number | null;
  /**
   * Median over the valid repeats.
   */
  throughput_rps: number;
}
/**
 * A search of one start.
 */
export interface SearchResult {
  cell: CellKey;
  connections: number;
  pass: number;
  pipeline: number;
  /**
   * Counted from 1.
   */
  repeat: number;
  result: CapacityResult;
  streams: number;
  /**
   * Name of the arm.
   */
  subject: string;
  workload: string;
}
/**
 * What a search for capacity came to.
 */
export interface CapacityResult {
  /**
   * Whether a longer load kept the objective at `kept_rps`, too.
   */
  confirmed: boolean;
  /**
   * At `missed_rps` half of the places for requests or more were taken on average, so that
   * others waited in the generator: that is the server's limit, or that of so few connections.
   */
  connections_taken: boolean;
  /**
   * Why the search ended before its end; `None`: it did not.
   */
  ended: string | null;
  /**
   * Wrong or missing responses missed the objective, and their share is not shown to fall with
   * the rate. Then no rate is known, and `kept_rps` and `missed_rps` are `None`. `None`:
   * something else missed it, or they are rarer at lower rates.
   */
  failures_at_any_rate: FailureShares | null;
  /**
   * Length of the longest load that kept it there, seconds: for no longer is it known to hold.
   * `None`: there is none.
   */
  holds_s: number | null;
  /**
   * What an import left out of the requests or changed in them; absent if nothing.
   */
  import_changes?: ImportChange[];
  /**
   * Of the loads at each of the two how many agree with it; zeros: there is none.
   */
  kept_by: Votes;
  /**
   * The highest rate at which all requests together kept the objective, below all at which they
   * did not; requests per second. `None`: none did.
   */
  kept_rps: number | null;
  /**
   * What all requests at each of the two come to. `None`: there is no such rate.
   */
  kept_together: CapacityTrial | null;
  /**
   * The lowest rate that is tried, because loads below it are too short for the objective's
   * percentiles; requests per second. `None`: the objective has no percentiles.
   */
  least_rps: number | null;
  /**
   * The generator, not the server, was the limit at `missed_rps`: the server may do more.
   */
  limited_by_generator: boolean;
  missed_by: Votes;
  /**
   * The lowest rate at which they missed it. `None`: none did.
   */
  missed_rps: number | null;
  missed_together: CapacityTrial | null;
  /**
   * As it was asked.
   */
  objective: string;
  /**
   * Loads with too few requests for a percentile of the objective.
   */
  percentile_unknown: number;
  schema: string;
  /**
   * Whether the two lie as close to each other as was asked, and no longer load has contradicted
   * the first.
   */
  settled: boolean;
  /**
   * Every load, in order of time.
   */
  trials: CapacityTrial[];
}
/**
 * Requests without a right response, among all, at lower and at higher rates.
 */
export interface FailureShares {
  failed_above: number;
  failed_below: number;
  requests_above: number;
  requests_below: number;
}
/**
 * The changes of one kind that an import made to what another tool sent or recorded.
 */
export interface ImportChange {
  /**
   * Occurrences.
   */
  count: number;
  /**
   * A word for the kind, such as `connection-header`.
   */
  kind: string;
  /**
   * The first 64 names of headers, options or places, each once.
   */
  names: string[];
  /**
   * The change, with its reason.
   */
  what: string;
}
/**
 * One load of a search.
 */
export interface CapacityTrial {
  /**
   * Wrong or missing responses missed it.
   */
  by_failures: boolean;
  /**
   * It is a longer load, which was to confirm what shorter ones found.
   */
  confirms: boolean;
  /**
   * Length of its window, seconds.
   */
  duration_s: number;
  /**
   * Share of the requests that were due without a right answer: 0 to 1.
   */
  error_share: number;
  /**
   * Half of the places for requests or more were taken on average.
   */
  full: boolean;
  /**
   * The generator, and not the server, missed it.
   */
  generator: boolean;
  kept: boolean;
  /**
   * What was missed or is unknown, in words; `None`: it is kept.
   */
  missed: string | null;
  /**
   * Offered, requests per second.
   */
  rate_rps: number;
  /**
   * Requests that were due.
   */
  requests: number;
  response_p50_us: number | null;
  response_p99_us: number | null;
  throughput_rps: number;
  /**
   * The load was too short for a percentile of the objective: it is neither kept nor missed.
   */
  too_short: boolean;
}
/**
 * One arm of the run: a subject under one set of conditions. A subject with a single arm has one entry.
 */
export interface SubjectResult {
  /**
   * The services that it needs, in the order in which they are started.
   */
  backends: BackendResult[];
  /**
   * What the program is that its busiest process runs; `None`: nobody looked, or may not.
   */
  binary: Binary | null;
  build: BuildResult | null;
  /**
   * Every check, summarised over all starts and moments.
   */
  checks: CheckSummary[];
  conditions: ConditionsResult;
  control: boolean;
  description: string;
  /**
   * Failures of its build and its starts, in order of time.
   */
  failures: SubjectFailure[];
  /**
   * Name of the arm: `name` or `name/variant` where the subject has one arm.
   */
  id: string;
  /**
   * What it did while nobody asked anything of it; `None`: nobody looked.
   */
  idle: Idle | null;
  language: string;
  /**
   * What its starts answered and used over their whole lives.
   */
  lifetimes: Lifetimes;
  /**
   * Limits as read back in its first start.
   */
  limits: LimitReadBack[];
  /**
   * Memory per connection, and per request in flight.
   */
  memory: MemorySlopes;
  name: string;
  /**
   * What the probes that look at it cost it; `None`: not measured.
   */
  probe_price: PriceResult | null;
  /**
   * Why the subject does not take part; `None`: it does.
   */
  skipped: string | null;
  /**
   * Start-up times over the starts, in milliseconds.
   */
  startup_ms: Startup;
  /**
   * Starts whose processes had to be killed.
   */
  stop_killed: number;
  /**
   * Stop times over the starts: from the signal to the end of the last process.
   */
  stop_ms: Repeated;
  title: string;
  variant: string | null;
  version: string | null;
  /**
   * Durations of those warm-ups.
   */
  warm_up_s: Repeated;
  /**
   * How each start was warmed before its first trial; empty unless the plan asks for it.
   */
  warm_ups: WarmUpResult[];
}
/**
 * A service that the subject needs, over all of its starts.
 */
export interface BackendResult {
  build: BuildResult | null;
  /**
   * Limits as read back in its first start.
   */
  limits: LimitReadBack[];
  name: string;
  /**
   * How long its data took to be loaded.
   */
  seeded_ms: Repeated;
  startup_ms: Startup;
  stop_ms: Repeated;
  title: string;
  version: string | null;
}
/**
 * Cost of the build that made the artefact, even if that was an earlier one (`cached`).
 */
export interface BuildResult {
  artefact_bytes: number;
  cached: boolean;
  cpu_s: number | null;
  wall_s: number;
}
/**
 * A limit that was asked for, and what the kernel says it is.
 */
export interface LimitReadBack {
  asked: string;
  name: LimitKind;
  /**
   * `None`: it could not be set here; `reason` says why.
   */
  read_back: string | null;
  reason: string | null;
}
/**
 * Start-up times in milliseconds from exec, one value per start.
 */
export interface Startup {
  /**
   * CPU time used until it was ready, in milliseconds.
   */
  cpu: Repeated;
  /**
   * Until the first answer with the right status was complete; empty where readiness has another sign.
   */
  first_answer: Repeated;
  /**
   * Until the kernel accepted a connection.
   */
  listening: Repeated;
  /**
   * Until it was ready, by whatever sign.
   */
  ready: Repeated;
}
/**
 * What a program is, by its own bytes and by what its process has mapped.
 */
export interface Binary {
  /**
   * Whose `malloc` it has: jemalloc, mimalloc, tcmalloc, Go's, musl's, glibc's; `None`: none of those that are known by a sign.
   */
  allocator: string | null;
  bytes: number;
  /**
   * Whether it has what debuggers need, and names of its functions.
   */
  debug_info: boolean;
  extensions: {
    [k: string]: number;
  };
  /**
   * Instructions of its code, and of which extensions of x86-64 (SSE3 and later) how many; what is chosen while it runs counts as well.
   * `None`: it is no program of x86-64.
   */
  instructions: number | null;
  /**
   * Shared libraries that are mapped, by name of their file, in order.
   */
  libraries: string[];
  /**
   * Name of its file.
   */
  name: string;
  symbols: boolean;
}
/**
 * One contract check at one of a subject's protocols, over all starts and moments.
 */
export interface CheckSummary {
  /**
   * `null`: the archive does not tell.
   */
  asked: string | null;
  /**
   * Of its first failure, or of its first result if it never failed: what was seen, and of a failure what was asked and
   * expected.
   */
  detail: string;
  /**
   * `null`: the archive does not tell.
   */
  expected: string | null;
  failed: number;
  /**
   * It failed only by coming late, or not at all while the server was full.
   */
  late: boolean;
  /**
   * With the protocol, but over plain HTTP/1.1: `json`, `json over h2`.
   */
  name: string;
  /**
   * It never failed.
   */
  ok: boolean;
  passed: number;
  protocol: Protocol;
  /**
   * It failed, and the subject's file lets it.
   */
  waived: boolean;
}
/**
 * The conditions of an arm, as planned. The environment is left out, because it may hold secrets.
 */
export interface ConditionsResult {
  isolation: Isolation;
  /**
   * The arm's value on the scale that is varied, such as a number of CPUs; `None`: there is no scale.
   */
  level: number | null;
  limits: Limits;
  /**
   * Changes to the run's load; what is `null` is as in the run.
   */
  load: LoadChanges;
  /**
   * Probes beside those that always run.
   */
  observe: Probe[];
  placement: Placement;
  /**
   * What requests to it have where they say `{request.NAME}`, by name; `null`: the name says that it may be secret.
   */
  request: {
    [k: string]: string | null;
  };
}
/**
 * What a part of a start may use. `None`: no limit.
 */
export interface Limits {
  /**
   * CPU quota in CPUs.
   */
  cpus: number | null;
  memory_bytes: number | null;
  open_files: number | null;
}
/**
 * What of the plan's load is otherwise in an arm. `None`: as the plan has it.
 */
export interface LoadChanges {
  driver: DriverKind | null;
  http2: Http2 | null;
  /**
   * Connections are replaced after so many requests.
   */
  requests_per_connection: number | null;
  spin: Spin | null;
  threads: number | null;
}
/**
 * Which CPUs who runs on.
 */
export interface Placement {
  generator: number[];
  subject: number[];
}
/**
 * A failed build or start of a subject.
 */
export interface SubjectFailure {
  kind: FailureKind;
  /**
   * The part whose log it is: the subject's arm, or a back end; `null`: none was kept.
   */
  log_of: string | null;
  /**
   * Last lines that the server, or else a back end, wrote; `None`: none were kept.
   */
  log_tail: string | null;
  message: string;
  /**
   * The only protocol that it concerns; `null`: the start as a whole.
   */
  protocol: Protocol | null;
  /**
   * Counted from 1; 0: the build.
   */
  repeat: number;
}
/**
 * What a server did while nobody asked anything of it, before its first load.
 */
export interface Idle {
  /**
   * CPU time per second.
   */
  cpus: number | null;
  length_s: number;
  /**
   * Times per second that its threads were woken up.
   */
  wakeups_per_s: number | null;
}
/**
 * The lives of an arm's starts. Empty where no control group tells the CPU time of what has ended.
 */
export interface Lifetimes {
  /**
   * Price of the CPU time of 10⁹ requests of such a life, at the median, in the currency of `[cost] per_vcpu_hour`; `null`:
   * the suite names no price.
   */
  cost_per_billion_requests: number | null;
  /**
   * CPU time ÷ right answers at the end of each whole life, in microseconds: start-up and warm-up included.
   */
  cpu_us_per_request: Repeated;
  starts: Lifetime[];
}
/**
 * The life of one start.
 */
export interface Lifetime {
  /**
   * In the order of time: when it was ready, when it was warm if it was warmed, and the end of each trial.
   */
  points: LifePoint[];
  /**
   * Counted from 1.
   */
  repeat: number;
  /**
   * All trials of its launch are in it. One that was cut off or gone on with is no repeat of others.
   */
  whole: boolean;
}
/**
 * Running totals of a start.
 */
export interface LifePoint {
  /**
   * CPU time since exec, in seconds.
   */
  cpu_s: number;
  /**
   * Right answers to loads since exec, those in warm-ups included: all that came before the CPU time was read.
   */
  requests: number;
  /**
   * Index among the plan's steps.
   */
  step: number | null;
  /**
   * Index among the plan's workloads, of the trial that had ended; `null`: none had.
   */
  workload: number | null;
}
/**
 * Slopes of a server's memory over the steps of a start, one per start: bytes per thing more. Servers seldom give memory back, so that the
 * order of the steps is in them, too.
 */
export interface MemorySlopes {
  per_connection: Repeated;
  per_request_in_flight: Repeated;
}
/**
 * What probes cost a server. Ratios are of a pair of neighbouring slices, with probes ÷ without.
 */
export interface PriceResult {
  /**
   * The server's CPU time per complete answer.
   */
  cpu_per_request: Repeated;
  /**
   * Why there is no price; `None`: there is.
   */
  failure: string | null;
  probes: Probe[];
  /**
   * Complete answers per second.
   */
  throughput: Repeated;
}
/**
 * The warm-up of one start of an arm.
 */
export interface WarmUpResult {
  ended: WarmUpEnd;
  /**
   * Whether it was judged by throughput and CPU time per request; else by throughput alone.
   */
  judged_by_cpu: boolean;
  /**
   * Counted from 1.
   */
  repeat: number;
  slices: WarmUpPoint[];
  took_s: number;
}
/**
 * One short load of one workload within a warm-up.
 */
export interface WarmUpPoint {
  cpu_us_per_request: number | null;
  end_s: number;
  /**
   * Share of the server's CPU time that compiler threads used: 0 to 1. `None`: not known, or no CPU time was used.
   */
  jit_share: number | null;
  /**
   * Since the warm-up began, in seconds.
   */
  start_s: number;
  /**
   * Index among the plan's steps.
   */
  step: number;
  throughput_rps: number;
  /**
   * Index among the plan's workloads.
   */
  workload: number;
}
/**
 * One cell over all its repeats. Trials that are not valid are counted in `invalid`, and left out of all metrics but
 * `error_share`.
 */
export interface Summary {
  /**
   * The services behind the subject.
   */
  backends: BackendSummary[];
  /**
   * Caveats of any repeat, of severity `warning` or `invalid`.
   */
  caveats: StepCaveat[];
  cell: CellKey;
  connections: number;
  context_switches_per_request: Repeated;
  cpu_us_per_request: Repeated;
  /**
   * Share of due requests without a right answer: 0 to 1. Over all repeats, valid or not.
   */
  error_share: Repeated;
  /**
   * Requests in flight: connections × streams × pipeline.
   */
  in_flight: number;
  inside: Inside;
  invalid: number;
  /**
   * What limited most of the repeats; without a majority a guess.
   */
  limiter: Resource;
  limiter_confidence: Confidence;
  limiter_sentence: string;
  /**
   * What the machine did in the same repeat.
   */
  machine: MachineResult;
  /**
   * Anonymous memory (resident, where that is all there is), highest sample of the window.
   */
  memory_bytes: Repeated;
  /**
   * Page cache, and what the kernel holds for the server.
   */
  memory_file_bytes: Repeated;
  memory_kernel_bytes: Repeated;
  memory_mb_s_per_request: Repeated;
  /**
   * Every metric by its key, those above included; unknown ones are left out.
   */
  metrics: {
    [k: string]: OverStep;
  };
  /**
   * Tells steps apart that are otherwise the same: which of them it is, from 1.
   */
  pass: number;
  pipeline: number;
  /**
   * Requests per second offered; `None` in a closed loop, and where the rate changes.
   */
  rate: number | null;
  response_p50_us: Repeated;
  response_p90_us: Repeated;
  response_p99_us: Repeated;
  /**
   * The unanswered requests. A percentile of the response time that falls among them is longer than their `longest_wait`.
   */
  response_unanswered: StepUnanswered;
  /**
   * Index among the plan's steps.
   */
  step: number;
  streams: number;
  subject: string;
  throughput_rps: Repeated;
  trials: number;
  /**
   * Of the valid repeat with the median throughput, or the first of all.
   */
  use_table: UseRow[];
  workload: string;
}
/**
 * The same over the repeats of a cell.
 */
export interface BackendSummary {
  cpu_share: Repeated;
  /**
   * Per answer of the subject.
   */
  cpu_us_per_request: Repeated;
  cpu_utilisation: Repeated;
  /**
   * Anonymous memory (resident, where that is all there is), highest sample of the window.
   */
  memory_bytes: Repeated;
  name: string;
}
/**
 * What was seen inside a server, over the valid repeats of a cell.
 */
export interface Inside {
  by_thread_role: {
    [k: string]: RoleSummary;
  };
  /**
   * What its runtime says of itself; empty: nobody asked it, or it did not tell.
   */
  runtime: RuntimeSummary[];
  /**
   * By name; empty: they were not counted. One that a repeat did not make counts as 0 there.
   */
  syscalls: {
    [k: string]: CallSummary;
  };
}
/**
 * Threads of one role.
 */
export interface RoleSummary {
  cpu_us_per_request: Repeated;
  /**
   * Of the time that its threads lived, by state: 0 to 1. Empty: nobody looked.
   */
  states: {
    [k: string]: Repeated;
  };
  threads: Repeated;
}
/**
 * A value of the server's runtime.
 */
export interface RuntimeSummary {
  /**
   * Without what only says how it is counted: `gc`, `event_loop`, `heap`.
   */
  name: string;
  /**
   * Of the time that something took: its share of the window.
   */
  unit: Unit;
  value: Repeated;
}
/**
 * System calls of one name.
 */
export interface CallSummary {
  per_response: Repeated;
  /**
   * Mean of the amounts that those returned which did not fail: bytes, events, threads woken.
   */
  returned_mean: Repeated;
}
/**
 * The whole machine between the samples nearest to the measured window's edges. `None`: the kernel does not show it, or nobody looked.
 */
export interface MachineResult {
  /**
   * The network device that carried the most of what it can; `None`: none says what it can.
   */
  busiest_link: BusiestLink | null;
  context_switches_per_s: number | null;
  disk_read_bytes_per_s: number | null;
  /**
   * Share of the time in which the busiest disk had something to do.
   */
  disk_utilisation: number | null;
  disk_written_bytes_per_s: number | null;
  /**
   * Packets and connections that it dropped, from before the load to after it. `None`: not
   * read.
   */
  drops: MachineDrops | null;
  /**
   * Of the first CPU, the mean of the samples.
   */
  frequency_mhz: number | null;
  interrupts_per_s: number | null;
  /**
   * All network devices but loopback.
   */
  network_in_bytes_per_s: number | null;
  network_out_bytes_per_s: number | null;
  /**
   * Processes that are none of the run's and used a fiftieth of a CPU or more, from before the load to after it, the most first.
   */
  others: OtherCpu[] | null;
  /**
   * Shares of the time in which some thread waited for a CPU, for memory, for a disk (PSI): 0 to 1.
   */
  pressure_cpu: number | null;
  pressure_io: number | null;
  pressure_memory: number | null;
  /**
   * Threads that ran or were ready to run, on all CPUs: the mean of the samples.
   */
  runnable_mean: number | null;
  /**
   * Time that the CPU (or package) which was throttled for heat most had of it, as a share of that from before the load to after it: at most 1. The
   * kernel counts such a time when it ends, so that its beginning may lie before.
   */
  throttled_for_heat: number | null;
}
/**
 * A network device, and how full it was.
 */
export interface BusiestLink {
  /**
   * What it can carry each way.
   */
  bits_per_s: number;
  name: string;
  /**
   * Share of that which it carried in the fuller direction: 0 to 1. Frames alone, without the gaps between them, so that a full
   * Ethernet with large frames is at 0.98.
   */
  utilisation: number;
}
/**
 * The drops of the machine between two readings. `None`: the kernel does not show that counter.
 */
export interface MachineDrops {
  /**
   * Packets that found the queue of received packets of their CPU full.
   */
  backlog: number | null;
  /**
   * Neighbours (ARP, NDP) for which the table had no room.
   */
  neighbours: number | null;
  /**
   * Packets dropped and connections aborted because TCP had no memory.
   */
  tcp_memory: number | null;
  tcp_memory_most_pages: number | null;
  /**
   * Memory of all TCP sockets at the end, and its limit, in pages.
   */
  tcp_memory_pages: number | null;
  /**
   * Packets dropped by connection tracking.
   */
  tracking: number | null;
  /**
   * Most entries that were seen in its table, and that it may have.
   */
  tracking_entries: number | null;
  /**
   * Entries of unanswered connections that were evicted from its table to make room.
   */
  tracking_evictions: number | null;
  tracking_most: number | null;
}
/**
 * A process that has nothing to do with the run.
 */
export interface OtherCpu {
  /**
   * CPU time per second.
   */
  cpus: number;
  name: string;
  pid: number;
}
/**
 * A metric over the trials of one step.
 */
export interface OverStep {
  /**
   * Number of repeats in which the percentile lies among the unanswered, above every known value.
   */
  beyond: number;
  /**
   * 95 % interval of the median; `None` with fewer than [`REPEATS_FOR_INTERVAL`] repeats.
   *
   * @minItems 2
   * @maxItems 2
   */
  interval: [number, number] | null;
  /**
   * `None`: no values, or a repeat's percentile lies among the unanswered.
   */
  max: number | null;
  /**
   * `None`: no values, or the middle falls among repeats whose percentile lies among the unanswered.
   */
  median: number | null;
  min: number | null;
  /**
   * One value per repeat that has one, in the order of the blocks.
   */
  values: number[];
}
/**
 * The unanswered requests of one cell over its valid repeats, and in how many repeats percentiles lie among them.
 */
export interface StepUnanswered {
  /**
   * The longest wait known, of these and of right answers, in microseconds.
   */
  longest_wait: number | null;
  /**
   * Repeats in which the percentile lies among the unanswered.
   */
  p50: number;
  p90: number;
  p99: number;
  /**
   * Share of all requests that were due in those repeats: 0 to 1.
   */
  share: number;
}
/**
 * A resource.
 */
export interface UseRow {
  errors: UseCell;
  resource: string;
  saturation: UseCell;
  utilisation: UseCell;
}
/**
 * What was measured, or why it was not.
 */
export interface UseCell {
  /**
   * What the value is of; without a value why there is none.
   */
  note: string;
  unit: Unit;
  value: number | null;
}
/**
 * A table for people and for spreadsheets.
 */
export interface Table {
  columns: string[];
  name: string;
  rows: unknown[][];
  title: string;
}
/**
 * The best subject of a tie group, with those that pairs of repeats do not tell apart from it by peak throughput.
 */
export interface Tie {
  /**
   * The group's best.
   */
  best: string;
  /**
   * Those of all of them, the best included, whose peak is a lower bound: they may be above the
   * others.
   */
  lower_bounds: string[];
  /**
   * Whether these are not told apart from each other either.
   */
  mutual: boolean;
  /**
   * Subjects that are not told apart from the best, best first; at least one.
   */
  with: string[];
  workload: string;
}
export interface TrialResult {
  /**
   * Use of the services behind the subject; `per_request` is per answer of the subject.
   */
  backends: BackendUse[];
  /**
   * Counted from 1.
   */
  block: number;
  caveats: Caveat[];
  cell: CellKey;
  /**
   * `None`: its server was the only one that was loaded then.
   */
  duet: DuetResult | null;
  /**
   * Share of due requests without a right answer: 0 to 1.
   */
  error_share: number;
  limiter: Limiter;
  load: LoadResult;
  machine: MachineResult;
  /**
   * Its place in the order of time, counted from 1 over the whole plan.
   */
  place: number;
  /**
   * Every connection was refused, for which its subject is there: the trial says nothing about answers, and nothing is wrong.
   */
  refused: boolean;
  /**
   * Counted from 1.
   */
  repeat: number;
  /**
   * What the subject used; empty if it was not watched.
   */
  server: ServerUse;
  /**
   * What throughput did within the measured window; `None`: too few intervals to tell, or other servers were loaded besides.
   */
  steadiness: Steadiness | null;
  step: StepResult;
  subject: string;
  /**
   * Name of its arm: the subject's id, `name` or `name/variant`, where the subject has one arm.
   */
  subject_id: string;
  /**
   * `None`: the load had all the time.
   */
  turns: TurnsResult | null;
  valid: boolean;
  variant: string | null;
  workload: string;
}
/**
 * The use of a service that the subject needs, in one trial.
 */
export interface BackendUse {
  /**
   * Its part of the CPU time that a request cost in all, subject and back ends together: 0 to 1. `null`: not all of them are
   * known.
   */
  cpu_share: number | null;
  name: string;
  server: ServerUse;
  /**
   * It may use the same CPUs as the subject, and no others, and neither has a quota of their time.
   */
  shares_cpus: boolean;
}
/**
 * The server's use, `None` where it could not be measured (a caveat of the trial says why).
 */
export interface ServerUse {
  /**
   * Share of one CPU that its busiest thread used.
   */
  busiest_thread_utilisation: number | null;
  /**
   * Threads that ran, or waited for a CPU, for a quarter of the window or more.
   */
  busy_threads: number | null;
  by_thread_role: {
    [k: string]: RoleUse;
  };
  /**
   * `None`: they were not counted.
   */
  calls: Calls | null;
  context_switches_involuntary: number | null;
  context_switches_voluntary: number | null;
  /**
   * CPU time that its quota and its CPUs allowed in that window.
   */
  cpu_allowed_s: number | null;
  /**
   * How the split of its CPU time was had; `None`: it was not.
   */
  cpu_split_by: SplitBy | null;
  cpu_sys_s: number | null;
  /**
   * Per complete answer, right or wrong.
   */
  cpu_us_per_request: number | null;
  cpu_user_s: number | null;
  /**
   * CPU time used ÷ allowed.
   */
  cpu_utilisation: number | null;
  /**
   * CPU time ÷ length of the window: in CPUs.
   */
  cpus: number | null;
  intervals: ServerInterval[];
  /**
   * Anonymous memory: the highest sample of the window. If the control group reports 0 (cgroup
   * v1 charges in batches), the sum over its processes.
   */
  memory_anon_bytes: number | null;
  /**
   * Page cache, shared memory included: the highest sample of the window.
   */
  memory_file_bytes: number | null;
  /**
   * What the server itself holds: anonymous and shared memory, or resident memory where that is
   * all there is.
   */
  memory_held_bytes: number | null;
  /**
   * What the kernel holds for it (stacks, page tables, its own objects, buffers of sockets): the highest sample of the window.
   */
  memory_kernel_bytes: number | null;
  /**
   * `memory_held_bytes` × time per answer, in MB·s (10⁶ bytes × s).
   */
  memory_mb_s_per_request: number | null;
  /**
   * Highest memory of its control group in the window, page cache included.
   */
  memory_peak_bytes: number | null;
  /**
   * Shared memory, memfd, and files of a tmpfs, part of `memory_file_bytes`; resident shared
   * memory where there is no control group. The highest sample of the window.
   */
  memory_shmem_bytes?: number | null;
  migrations: number | null;
  /**
   * Of the network that the server is in, which it may share with others. `None`: not read.
   */
  network: Network | null;
  /**
   * Times that its memory limit killed a process in the window; `None`: not known.
   */
  oom_kills: number | null;
  /**
   * CPU time of the whole machine that neither the server nor dyno used.
   */
  others_cpu_s: number | null;
  page_faults_major: number | null;
  /**
   * Page faults that were served without, and with, reading from a disk; of threads that lived through the window.
   */
  page_faults_minor: number | null;
  per_request: PerRequest;
  /**
   * Time spent on taking the samples.
   */
  probe_s: number | null;
  /**
   * At the end of the window.
   */
  processes: number | null;
  /**
   * Resident memory: the highest sample of the window.
   */
  rss_bytes: number | null;
  /**
   * Time that threads were runnable but waited for a CPU, summed over threads.
   */
  run_delay_s: number | null;
  /**
   * What its runtime says of itself; `None`: it was not asked, or did not tell.
   */
  runtime: Runtime | null;
  /**
   * Its TCP sockets, looked at once in the window; `None`: nobody looked, or it has none.
   */
  sockets: Sockets | null;
  /**
   * Share of the machine's CPU time that the hypervisor took.
   */
  steal_share: number | null;
  /**
   * At the end of the window.
   */
  threads: number | null;
  /**
   * Time that the CPU quota held it back. The kernel sums it over CPUs, so it may be longer than the window.
   */
  throttled_s: number | null;
  /**
   * `None` without a quota.
   */
  throttling: Throttling | null;
  /**
   * Threads and processes that ended before their counters were read; `None`: no counter is
   * unknown because of it.
   */
  unread_counters?: UnreadCounters | null;
  /**
   * Times that its threads were woken up, and moved to another CPU.
   */
  wakeups: number | null;
  /**
   * Length of the observed window: between the samples nearest to the measured window's edges.
   */
  window_s: number;
  /**
   * The threads that served, and what they did with their time; `None`: nobody looked.
   */
  working: Working | null;
}
/**
 * What all threads of one role used in the window.
 */
export interface RoleUse {
  /**
   * CPU time; of threads that ended in the window, too, where somebody saw them end.
   */
  cpu_s: number;
  /**
   * Per complete answer, right or wrong.
   */
  cpu_us_per_request: number | null;
  /**
   * Threads that ended in the window; `None`: nobody saw threads end.
   */
  ended: number | null;
  run_delay_s: number | null;
  /**
   * Seconds in each state, threads added up: `running`, `runnable`, `lock`, `network`, `disk`, `sleep`, `other`. Their sum is the
   * window times the number of threads that lived through it. `None`: nobody looked.
   */
  states_s: {
    [k: string]: number;
  } | null;
  /**
   * At the end of the window.
   */
  threads: number;
  /**
   * Times that its threads were woken up.
   */
  wakeups: number | null;
}
/**
 * The system calls of a server in the measured window.
 */
export interface Calls {
  /**
   * Complete answers that came in that time. All that is per answer is of these.
   */
  answers: number;
  /**
   * By name; futex calls by what they are for. The most frequent ones have the most to say.
   */
  by_name: {
    [k: string]: Call;
  };
  /**
   * Time in which they were counted: all of the window, or slices of it.
   */
  counted_s: number;
  /**
   * Events that a wait for events returned, on average (`epoll_wait`, `poll`, `io_getevents`; of `io_uring_enter` what it submitted).
   */
  events_per_wait: number | null;
  /**
   * All calls.
   */
  per_response: number;
  /**
   * All calls per second in which they were counted.
   */
  per_s: number;
  /**
   * `None`: it made no such calls.
   */
  reads: Transfers | null;
  slices: number;
  writes: Transfers | null;
}
/**
 * System calls of one name.
 */
export interface Call {
  /**
   * Part of the errors that had to be tried again later (EAGAIN).
   */
  again: number | null;
  count: number;
  /**
   * `None`: what they returned was not looked at, as all below.
   */
  errors: number | null;
  per_response: number;
  /**
   * Mean of the amounts that those returned which did not fail: bytes of reads and writes, events of waits, threads woken. `None`: it
   * returns none.
   */
  returned_mean: number | null;
}
/**
 * Reads, or writes, of all names together.
 */
export interface Transfers {
  /**
   * Bytes of a call that did not fail, on average.
   */
  bytes_per_call: number | null;
  bytes_per_response: number | null;
  per_response: number;
}
/**
 * The server between two samples, for showing it over time.
 */
export interface ServerInterval {
  context_switches_per_s: number | null;
  /**
   * CPU time ÷ time between the samples: in CPUs.
   */
  cpu: number | null;
  /**
   * Its just-in-time compilers' threads, in CPUs; `None`: it has none that are known by their names.
   */
  cpu_jit: number | null;
  cpu_sys: number | null;
  cpu_user: number | null;
  end_s: number;
  /**
   * All of dyno's own threads, in CPUs.
   */
  generator_cpu: number | null;
  /**
   * At the interval's end; resident memory where there is no anonymous memory to read.
   */
  memory_anon_bytes: number | null;
  memory_bytes: number | null;
  memory_file_bytes: number | null;
  /**
   * Time runnable but waiting for a CPU, summed over threads.
   */
  run_delay_s: number | null;
  /**
   * Since the load began, in seconds.
   */
  start_s: number;
  threads: number;
  throttled_s: number | null;
}
/**
 * What TCP counted in the measured window; `None` where the kernel has no such counter.
 */
export interface Network {
  delayed_acks: number | null;
  /**
   * Connections that a listener dropped, for whatever reason.
   */
  listen_drops: number | null;
  /**
   * Connections that found the queue of a listener full.
   */
  listen_overflows: number | null;
  /**
   * Retransmissions after a time-out.
   */
  retransmit_timeouts: number | null;
  segments_out: number | null;
  segments_retransmitted: number | null;
  /**
   * Connections that found the queue of half-open ones full and were dropped, without cookies.
   */
  syn_queue_drops: number | null;
}
/**
 * The server's use per complete answer, right or wrong; `None` where it could not be measured.
 */
export interface PerRequest {
  context_switches: number | null;
  cpu_sys_us: number | null;
  cpu_user_us: number | null;
  page_faults: number | null;
  run_delay_us: number | null;
  /**
   * By name; futex calls by what they are for.
   */
  syscalls: {
    [k: string]: number;
  } | null;
  wakeups: number | null;
}
/**
 * What the runtime said, between the first and the last reading within the measured window.
 */
export interface Runtime {
  /**
   * From the first to the last of these readings.
   */
  between_s: number;
  /**
   * The highest of all other values.
   */
  highest: {
    [k: string]: number;
  };
  /**
   * Growth per second of what only grows (`NAME_total`); of lengths of time (`NAME_seconds_total`) the share of the time, which is
   * more than 1 where several threads take part.
   */
  per_second: {
    [k: string]: number;
  };
  /**
   * Processes that told; values are sums over them.
   */
  processes: number;
  readings: number;
  /**
   * Busy share of what is told as time or work that is active and idle (`NAME_active_…_total`, `NAME_idle_…_total`): 0 to 1.
   */
  utilisation: {
    [k: string]: number;
  };
}
/**
 * A server's TCP sockets at one instant of the window.
 */
export interface Sockets {
  buffer_limited: number | null;
  connections: number;
  cork: number | null;
  listeners: Listener[];
  /**
   * Shares of the connections looked at that have TCP_NODELAY, and TCP_CORK: 0 to 1. `None`: this user may not look.
   */
  nodelay: number | null;
  /**
   * Segments that the server sent again on these connections since they are there.
   */
  retransmitted: number;
  /**
   * Shares of the time in which it had something to send that the client's window, and its own send buffer, held it up: 0 to 1. `None`:
   * it had nothing to send.
   */
  window_limited: number | null;
}
/**
 * A socket that takes connections.
 */
export interface Listener {
  backlog: number;
  port: number;
  /**
   * Connections that wait to be accepted, and the most that may.
   */
  queued: number;
}
/**
 * Periods of a CPU quota, and those in which the server was held back by it.
 */
export interface Throttling {
  periods: number;
  throttled_periods: number;
}
/**
 * Threads and processes that ended before their counters were read, and the counters that are
 * unknown because of it.
 */
export interface UnreadCounters {
  /**
   * CPU time of ended threads and processes in the window; `None`: unknown.
   */
  cpu_s: number | null;
  /**
   * The same of processes.
   */
  processes: number;
  /**
   * Threads that a sample of the window shows, and its last sample does not.
   */
  threads: number;
  /**
   * Names of the unknown counters.
   */
  unknown: string[];
}
/**
 * The threads that serve, of those that lived through the window: not those of compilers, garbage collectors and virtual machines,
 * and not those that slept through it.
 */
export interface Working {
  /**
   * Seconds in each state, threads added up.
   */
  states_s: {
    [k: string]: number;
  };
  threads: number;
}
/**
 * A trial whose load ran at the same time as those of other subjects.
 */
export interface DuetResult {
  /**
   * When the load began, on the machine's monotonic clock: loads that began at the same instant ran together.
   */
  began_ns: number;
  /**
   * Names of the others, as far as their trials are known.
   */
  beside: string[];
  /**
   * Mean number of CPUs that the servers of the duet used together; `None`: that of one is
   * unknown.
   */
  cpus: number | null;
  /**
   * Whether they are those that most often ran at the same time at this step: what a request costs beside others is no repeat of
   * what it costs beside these.
   */
  is_usual: boolean;
  /**
   * How many loads ran at the same time, this one among them.
   */
  loads: number;
  /**
   * How many were to.
   */
  planned: number;
  /**
   * Pieces of the measured window in order of time: those of one number are compared with each other.
   */
  rounds: RoundResult[];
}
/**
 * A round of turns: two of each subject, in mirrored order.
 */
export interface RoundResult {
  /**
   * The subject's CPU time between the samples nearest to the round's edges, per answer; microseconds.
   */
  cpu_us_per_request: number | null;
  /**
   * Right answers per second of the own turns, without the first quarter of each.
   */
  throughput_rps: number | null;
}
/**
 * The verdict on what limited a step.
 */
export interface Limiter {
  confidence: Confidence;
  evidence: unknown;
  /**
   * The observation that would refute it, as a sentence. Empty: it names nothing.
   */
  refutation: string;
  resource: Resource;
  sentence: string;
}
/**
 * The result of one load, with the caveats about it. docs/terminology.md defines the times and counts.
 */
export interface LoadResult {
  /**
   * The address to which all connections went; `None`: it was not recorded.
   */
  address?: string | null;
  bytes: Bytes;
  caveats: Caveat[];
  /**
   * Most that this generator reached on this machine (`dyno calibrate`); `None`: not known.
   */
  ceiling: Ceiling | null;
  /**
   * Answers that were checked in full.
   */
  checked: number;
  client: Client;
  config: Config;
  /**
   * Time to connect, over the whole load.
   */
  connect_us: Percentiles;
  /**
   * Connections that were lost or could not be opened, by the outcome of the oldest exchange on them.
   */
  connection_failures: {
    [k: string]: number;
  };
  connections: Connections;
  /**
   * `None`: no request expected 100 (Continue).
   */
  continues?: ContinuesResult | null;
  /**
   * Length of the measured window.
   */
  duration_s: number;
  exchanges: Exchanges;
  first_byte_us: Percentiles;
  /**
   * How evenly requests left; `None` in a closed loop, which has no schedule.
   */
  gaps: GapsResult | null;
  /**
   * `null` unless HTTP/2 was asked for, or spoken.
   */
  http2: Http2Result | null;
  in_flight: InFlight;
  intervals: IntervalResult[];
  /**
   * Response time by the kernel's receive stamps. An answer without a stamp counts as unanswered. `None`: no stamps were
   * asked for, or none came.
   */
  kernel_response_time_us: Percentiles | null;
  /**
   * How the exchanges of the measured window ended.
   */
  outcomes: {
    [k: string]: number;
  };
  /**
   * `null` unless pages were loaded.
   */
  pages: Pages | null;
  /**
   * How answers broke the protocol, with counts.
   */
  protocol_errors: {
    [k: string]: number;
  };
  /**
   * One entry per request of a mix; empty if there is only one, or if the mix is too large to be recorded by request.
   */
  requests: RequestResult[];
  response_time_us: Percentiles;
  /**
   * Which percentiles of the response time lie among the unanswered.
   */
  response_unanswered: LoadUnanswered;
  schema: string;
  send_lag_us: Percentiles;
  service_time_us: Percentiles;
  /**
   * Response time by quantile, for drawing: `[quantile, µs]`, cut where samples end.
   */
  spectrum_us: [number, number][];
  tcp: Tcp;
  /**
   * Answers that met every expectation and arrived within the window, per second.
   */
  throughput_rps: number;
  /**
   * How far responses had come when their requests timed out, over the whole load; `None`: none
   * timed out.
   */
  timeouts?: Timeouts | null;
  /**
   * `None` without TLS.
   */
  tls: TlsUse | null;
  /**
   * TLS handshake time, over the whole load.
   */
  tls_handshake_us: Percentiles;
  /**
   * Ages of the exchanges without a right answer, by outcome: from intended to their end, or to the end of the load.
   */
  unanswered_us: {
    [k: string]: Percentiles;
  };
  /**
   * What full checks found wrong, with counts.
   */
  unexpected: {
    [k: string]: number;
  };
  valid: boolean;
}
/**
 * Bytes on the wire within the window, heads included, and bytes of bodies alone.
 */
export interface Bytes {
  body_received: number;
  received: number;
  /**
   * Complete answers, right or wrong, that arrived within the window, whenever their requests were intended: the divisor
   * for bytes per answer.
   */
  responses: number;
  sent: number;
}
/**
 * The most that the generator reached on this machine, as `dyno calibrate` measured it.
 */
export interface Ceiling {
  /**
   * When it was measured, as a date.
   */
  measured: string;
  throughput_rps: number;
}
/**
 * The generator's own cost within the measured window.
 */
export interface Client {
  /**
   * Share of one CPU that the busiest thread used, polling left out.
   */
  busiest_thread_utilisation: number;
  /**
   * CPU time spent polling instead of sleeping; it is part of `cpu_user_s` and `cpu_sys_s`.
   */
  cpu_spun_s: number;
  cpu_sys_s: number;
  /**
   * CPU time per complete answer, polling included; `None` without answers.
   */
  cpu_us_per_exchange: number | null;
  cpu_user_s: number;
  driver: DriverKind;
  loop_lag_us: Percentiles;
  /**
   * How much room was left on the generator's CPUs.
   */
  room: Room;
  rss_peak_bytes: number | null;
  /**
   * Time that threads were runnable but waited for a CPU, summed; `None`: the kernel does not tell.
   */
  run_delay_s: number | null;
  /**
   * `cpu_spun_s` ÷ length of the window: in CPUs. `None`: the window has no length.
   */
  spun_share: number | null;
  /**
   * The same for every thread, in the order of threads.
   */
  thread_utilisation: number[];
  threads: number;
  wake_lag_us: Percentiles;
}
/**
 * A distribution of times in microseconds. `count`, `min`, `mean`, `stdev` and `max` are of right answers. Percentiles are
 * of all that was due: the unanswered rank above every right answer. A percentile is `None` if it falls among them, or if
 * fewer than 20 samples lie beyond it.
 */
export interface Percentiles {
  /**
   * 95 % intervals of the percentiles p50 to p99.9, by their names; empty where nobody asked. They take requests for independent, which those
   * of one stall are not: so this is the least that a percentile of one load may be off.
   */
  bounds_us?: {
    [k: string]: Bounds;
  };
  count: number;
  /**
   * The longest wait known, of right answers and unanswered; microseconds. Percentiles that fall among the unanswered are
   * longer.
   */
  longest_wait: number | null;
  max: number | null;
  mean: number | null;
  min: number | null;
  p50: number | null;
  p75: number | null;
  p90: number | null;
  p95: number | null;
  p99: number | null;
  p99_9: number | null;
  p99_99: number | null;
  stdev: number | null;
  /**
   * Exchanges that were due and got no right answer; 0 where the distribution is of something that cannot fail.
   */
  unanswered: number;
}
/**
 * Values between which a percentile lies, microseconds; `None`: no value of so small a sample bounds it, or an unanswered request does.
 */
export interface Bounds {
  high: number | null;
  low: number | null;
}
/**
 * The CPUs of the generator over the window, and what was left of them.
 */
export interface Room {
  /**
   * Share of those CPUs' time that was used by anybody or taken by the hypervisor, polling left out. `None`: the kernel
   * does not tell, or the window is too short.
   */
  busy: number | null;
  /**
   * CPUs on which the generator's threads might run; `None`: not recorded.
   */
  cpus: number[] | null;
  /**
   * Share of a CPU that was needed where it was tightest: the work and waiting of one thread, or the work of all threads
   * of one CPU, whichever is most. Polling is left out. Near 1 nothing is left.
   */
  need: number;
  /**
   * Part of `need` that was work; the rest was waiting for a CPU.
   */
  need_work: number;
  /**
   * Share of those CPUs' time that something other than dyno used; `None` as for `busy`.
   */
  others: number | null;
  /**
   * Other processes that used those CPUs, by CPU time, most first.
   */
  others_named: OtherProcess[];
  /**
   * CPU quota of dyno's own control group, in CPUs; `None`: no quota.
   */
  quota_cpus: number | null;
  /**
   * Share of the quota's periods in which it held the generator back; `None`: no quota, or no period.
   */
  throttled: number | null;
  /**
   * Largest share of the window that a thread waited for a CPU; `None`: the kernel does not tell.
   */
  waiting: number | null;
}
/**
 * A process that used CPUs of the generator.
 */
export interface OtherProcess {
  /**
   * CPU time over the whole load, in seconds.
   */
  cpu_s: number;
  name: string;
  pid: number;
}
/**
 * What was asked of a load, with all defaults filled in.
 */
export interface Config {
  /**
   * `None` in a closed loop.
   */
  arrival: Arrival | null;
  /**
   * One answer in this many is checked in full: 1 is every one, 0 none. `None`: no expectation needs a full check.
   */
  check_one_in: number | null;
  connect_timeout_s: number;
  connections: number;
  driver: DriverKind;
  /**
   * Length of the measured window; `None`: no set end.
   */
  duration_s: number | null;
  /**
   * Length of the expected body; `None`: no body is expected, or several requests.
   */
  expect_body_bytes: number | null;
  /**
   * `None`: any status from 200 to 399, or several requests.
   */
  expect_status: number | null;
  first_byte_timeout_s: number | null;
  /**
   * What an import left out of the requests or changed in them; absent if nothing.
   */
  import_changes?: ImportChange[];
  interval_s: number;
  method: string;
  model: Model;
  /**
   * Connections over which a visitor loads a page; `connections` then counts visitors. `None`: no pages are loaded.
   */
  page_connections: number | null;
  /**
   * Requests in flight per connection without waiting for answers.
   */
  pipeline: number;
  /**
   * Of the generator's workers, as it was asked for.
   */
  priority: Priority;
  /**
   * `h1`, `h2`, `h2c` or `h2c-upgrade`; of a load without a suite also `auto`.
   */
  protocol: string;
  /**
   * Time over which connections are opened one by one; `None`: all before the load begins.
   */
  ramp_connections_s: number | null;
  /**
   * Requests per second offered; `None` in a closed loop, and where the rate is not one number.
   */
  rate: number | null;
  /**
   * How the rate changes over time, where it is not one number.
   */
  rate_over_time: Segment[] | null;
  reconnect: Reconnect;
  /**
   * Requests in all; `None`: as many as the duration allows.
   */
  requests: number | null;
  /**
   * The requests of a mix or a page; empty if there is only one.
   */
  requests_mixed: MixedRequest[];
  /**
   * Requests after which a connection is replaced; `None`: no limit.
   */
  requests_per_connection: number | null;
  seed: number;
  spin: Spin;
  /**
   * What it means that the server gets warmer within the window.
   */
  still_warming: StillWarming;
  /**
   * Streams per connection; 1 for HTTP/1.1.
   */
  streams: number;
  threads: number;
  timeout_s: number;
  /**
   * Over TLS.
   */
  tls: boolean;
  /**
   * Address of the request, or of a page's document; empty for a mix.
   */
  url: string;
  warmup_s: number;
}
/**
 * A request of a mix.
 */
export interface MixedRequest {
  method: string;
  name: string;
  path: string;
  weight: number;
}
/**
 * Connections over the whole trial.
 */
export interface Connections {
  asked: number;
  /**
   * Requests of HTTP/1.1 that were asked for again because the server ended their pipeline in good order before them.
   */
  asked_again: number;
  closed_by_server: number;
  closed_by_us: number;
  /**
   * Open at the end of the measured window.
   */
  established: number;
  opened: number;
  /**
   * Connections on which bytes came that answer no request. Each was closed at once.
   */
  unsolicited: number;
  /**
   * Complete responses that had been counted on those connections before. Which requests they
   * answered is not known. `None`: there was no such connection, or the archive is older.
   */
  unsolicited_after?: number | null;
}
/**
 * Requests with `Expect: 100-continue` and a body, over the whole load.
 */
export interface ContinuesResult {
  /**
   * A final response came instead, and the body was not sent.
   */
  answered_instead: number;
  asked: number;
  /**
   * The server sent 100, and the body was sent after it.
   */
  continued: number;
  /**
   * Final responses among these with status 417.
   */
  refused: number;
  /**
   * Times from sending a head to its 100.
   */
  wait_us: Percentiles;
  /**
   * No 100 came within a second, and the body was sent without it.
   */
  waited_in_vain: number;
}
/**
 * The books of the measured window: counts of exchanges that were intended in it (docs/terminology.md).
 */
export interface Exchanges {
  /**
   * Under way when the window of a closed loop opened: `carried_in + scheduled = started + dropped`.
   */
  carried_in: number;
  /**
   * With a complete answer, right or wrong.
   */
  completed: number;
  dropped: number;
  /**
   * Ended without a complete answer.
   */
  failed: number;
  in_flight_at_end: number;
  scheduled: number;
  /**
   * Sent, or waiting for a connection: `started = completed + failed + in_flight_at_end`.
   */
  started: number;
  /**
   * Answered but not measured: intended before the window.
   */
  warmup_completed: number;
}
/**
 * How evenly requests left. A coefficient of variation (standard deviation over mean) is 0 for even gaps and 1 for
 * those of a Poisson process. Gaps are between requests of the same generator thread.
 */
export interface GapsResult {
  achieved_cv: number | null;
  achieved_us: Percentiles;
  intended_cv: number | null;
  intended_us: Percentiles;
}
/**
 * HTTP/2 use within the measured window; connections and streams are of the whole load. Quotients are `None` where there is
 * nothing to divide by.
 */
export interface Http2Result {
  /**
   * Connections that spoke HTTP/2.
   */
  connections: number;
  /**
   * Connections that were to speak HTTP/2 and did not: ALPN chose something else, or an upgrade was declined.
   */
  fallen_back: number;
  /**
   * Frames that came, by type; types that did not occur are left out.
   */
  frames_in: {
    [k: string]: number;
  };
  /**
   * Frames that we sent, by type.
   */
  frames_out: {
    [k: string]: number;
  };
  /**
   * Frames that came, per response, by type.
   */
  frames_per_response: {
    [k: string]: number;
  };
  /**
   * Frames that came, per TCP segment with data.
   */
  frames_per_segment: number | null;
  /**
   * GOAWAY frames that came, by code.
   */
  goaways: {
    [k: string]: number;
  };
  /**
   * GOAWAY frames that we sent, by code: when we close a connection, or because the server broke a rule.
   */
  goaways_out: {
    [k: string]: number;
  };
  header_fields_in: HeaderBytes;
  header_fields_out: HeaderBytes;
  pings_in: number;
  /**
   * RST_STREAM frames that came, by code.
   */
  resets_in: {
    [k: string]: number;
  };
  /**
   * RST_STREAM frames that we sent, by code.
   */
  resets_out: {
    [k: string]: number;
  };
  /**
   * Complete responses per receive: how far answers arrive together.
   */
  responses_per_receive: number | null;
  /**
   * Requests sent again because the server had said that it did not deal with them.
   */
  retried: number;
  /**
   * TCP segments with data that came, per response.
   */
  segments_per_response: number | null;
  streams: Streams;
  /**
   * Streams that the server refused (RST_STREAM with REFUSED_STREAM).
   */
  streams_refused: number;
  /**
   * TLS records with data per response; `None` without TLS.
   */
  tls_records_per_response: number | null;
  /**
   * How long flow-control windows held request bodies up; `count` is how often.
   */
  window_stall_us: Percentiles;
  /**
   * WINDOW_UPDATE frames that we sent, per response.
   */
  window_updates_out_per_response: number | null;
}
/**
 * Size of header fields before and after HPACK.
 */
export interface HeaderBytes {
  /**
   * Bytes of names and values.
   */
  fields: number;
  /**
   * Share of bytes saved: 1 − wire / fields. `None` without fields.
   */
  saved: number | null;
  /**
   * Bytes of the header blocks on the wire.
   */
  wire: number;
}
/**
 * Streams per connection.
 */
export interface Streams {
  /**
   * Streams that the load wants open at once.
   */
  asked: number;
  /**
   * Fewest that the server announced to allow (SETTINGS_MAX_CONCURRENT_STREAMS); `None`: any number.
   */
  granted: number | null;
  /**
   * Most that were open at once on one connection.
   */
  most: number;
}
/**
 * Both sides of Little's law (L = λ·W) over the measured window.
 */
export interface InFlight {
  /**
   * λ·W: the sum of all times in the distributions (of right answers; ages of all others), as far as they lie within the
   * window, ÷ its length. A request that is missing from the distributions is missing here. `null` in older archives, and where only the last
   * level of a window counts.
   */
  by_littles_law: number | null;
  /**
   * L: the time integral of the number in flight ÷ length of the window. It counts starts and ends of requests, and uses
   * none of their times.
   */
  mean: number;
  /**
   * Most by which `by_littles_law` may be off because histograms keep three digits of each time.
   */
  resolution: number;
}
export interface IntervalResult {
  /**
   * Share of one CPU that the busiest generator thread used, polling left out; `None`: not known.
   */
  busiest_thread_utilisation: number | null;
  connections_open: number;
  /**
   * Arrivals that were dropped because too many were waiting.
   */
  dropped: number;
  end_s: number;
  /**
   * Exchanges that ended here without a right answer: failed or wrongly answered.
   */
  failed: number;
  in_flight_mean: number;
  ok: number;
  phase: Phase;
  response_time_us: Percentiles;
  /**
   * Which percentiles of the response time lie among the unanswered.
   */
  response_unanswered: LoadUnanswered;
  service_time_us: Percentiles;
  /**
   * Since the load began.
   */
  start_s: number;
  /**
   * Requests taken on in this interval: sent, or waiting for a connection.
   */
  started: number;
  throughput_rps: number;
}
/**
 * The unanswered requests of one load, or of one interval, and which percentiles lie among them.
 */
export interface LoadUnanswered {
  /**
   * Whether the percentile lies among the unanswered: then it is longer than the longest wait known.
   */
  p50: boolean;
  p90: boolean;
  p99: boolean;
  /**
   * Share of all requests that were due: 0 to 1.
   */
  share: number;
}
/**
 * Documents with their resources, over the measured window and its drain. A page is measured if its document was
 * intended in the window.
 */
export interface Pages {
  /**
   * Pages whose requests all got a right answer.
   */
  completed: number;
  /**
   * Connections over which a page was loaded.
   */
  connections_each: number;
  /**
   * Pages with at least one request that got no right answer.
   */
  failed: number;
  /**
   * Pages that were completed within the window, per second.
   */
  per_second: number;
  /**
   * Resources of each page.
   */
  resources: number;
  /**
   * Page time: from the intended start of the document to the end of the last resource.
   */
  time_us: Percentiles;
  /**
   * Pages that were still incomplete when the drain ended.
   */
  unfinished: number;
}
/**
 * The results of one request of a mix.
 */
export interface RequestResult {
  name: string;
  /**
   * Outcomes that occurred, with counts.
   */
  outcomes: {
    [k: string]: number;
  };
  response_time_us: Percentiles;
  service_time_us: Percentiles;
  throughput_rps: number;
  weight: number;
}
/**
 * Segments over the measured window, `None` where the kernel does not count them for us.
 */
export interface Tcp {
  data_segments_in: number | null;
  data_segments_per_response: number | null;
  retransmits: number | null;
  retransmits_per_million_responses: number | null;
  segments_in: number | null;
  segments_out: number | null;
}
/**
 * How far responses had come when their requests timed out: requests of each class.
 */
export interface Timeouts {
  /**
   * A part of a body without an announced length had come.
   */
  body_without_length: number;
  /**
   * Bytes of body that had come in one of the two classes before, as an example.
   */
  example_bytes: number | null;
  /**
   * Announced length of that example; `None`: without one.
   */
  example_length: number | null;
  /**
   * The whole head had come, and no byte of the body.
   */
  head: number;
  /**
   * Not one byte of the response had come.
   */
  nothing: number;
  /**
   * A part of a body whose length was announced had come.
   */
  part_of_body: number;
  /**
   * A part of the head had come, or interim responses only.
   */
  part_of_head: number;
  /**
   * The request had not left: the server had not read what was sent before it.
   */
  unsent: number;
}
/**
 * What TLS connections agreed on, over the whole trial. Of several answers the first is kept.
 */
export interface TlsUse {
  /**
   * The protocol that ALPN chose; `None` if the server chose none.
   */
  alpn: string | null;
  cipher_suite: string | null;
  /**
   * Failures by the alert's name or the reason, exact counts.
   */
  errors: {
    [k: string]: number;
  };
  handshakes_full: number;
  handshakes_resumed: number;
  /**
   * Such as `TLSv1.3`.
   */
  version: string | null;
}
/**
 * What throughput did within the measured window.
 */
export interface Steadiness {
  /**
   * The same of the CPU time of an answer; `None`: it is not known of every interval.
   */
  cost: CostSteadiness | null;
  /**
   * From when on the window counts, since the load began: a server that got faster counts by its last level. `None`: all of it does.
   */
  counts_from_s: number | null;
  /**
   * Level of the last piece, as a multiple of the first.
   */
  last_to_first: number;
  pattern: Pattern;
  /**
   * Pieces of one level each, in order of time.
   */
  pieces: Piece[];
}
/**
 * What the CPU time of an answer did within the measured window. It warms up where it falls.
 */
export interface CostSteadiness {
  pattern: Pattern;
  /**
   * Pieces of one level each, in order of time.
   */
  pieces: CostPiece[];
}
/**
 * A stretch of time in which answers cost alike.
 */
export interface CostPiece {
  /**
   * Of an answer, the mean of the intervals; microseconds.
   */
  cpu_us_per_request: number;
  end_s: number;
  /**
   * Since the load began.
   */
  start_s: number;
}
/**
 * A stretch of time on one level.
 */
export interface Piece {
  end_s: number;
  /**
   * Since the load began.
   */
  start_s: number;
  /**
   * Mean of the intervals.
   */
  throughput_rps: number;
}
export interface StepResult {
  connections: number;
  /**
   * Length of the measured window.
   */
  duration_s: number;
  /**
   * Requests in flight: connections × streams × pipeline.
   */
  in_flight: number;
  /**
   * Index among the plan's steps.
   */
  index: number;
  /**
   * Tells steps apart that are otherwise the same: which of them it is, from 1.
   */
  pass: number;
  pipeline: number;
  /**
   * Requests per second offered; `None` in a closed loop, and where the rate changes.
   */
  rate: number | null;
  streams: number;
}
/**
 * A trial whose load took turns with those of other subjects that were up at the same time.
 */
export interface TurnsResult {
  /**
   * When the load began, on the machine's monotonic clock: loads that began at the same instant took turns with each other.
   */
  began_ns: number;
  /**
   * The CPU time that it used so in all of others' turns, as a share of that in its own: CPU time per request is higher by so much.
   */
  carried_share: number | null;
  /**
   * CPUs that the subject used in others' turns, without the first quarter of a turn after each own one. `None`: its CPU time could
   * not be read, or it had no rest that long.
   */
  idle_cpus: number | null;
  /**
   * Those, as a share of what it used in its own turns.
   */
  idle_share: number | null;
  /**
   * In order of time: those of one number are compared with each other.
   */
  rounds: RoundResult[];
  /**
   * Length of a turn.
   */
  slice_s: number;
  /**
   * Right answers per second of the own turns, without the first quarter of each.
   */
  throughput_rps: number | null;
}
/**
 * One arm with one protocol, over all its trials, valid or not: what a server sends does not depend on how well it was
 * loaded.
 */
export interface WireResult {
  /**
   * Metrics by key, each with one value per trial in which it is known.
   */
  metrics: {
    [k: string]: Repeated;
  };
  /**
   * `h1`, `h2`, `h2c` or `h2c-upgrade`; of a load without a suite also `auto`.
   */
  protocol: string;
  /**
   * Name of the arm.
   */
  subject: string;
  /**
   * Over TLS.
   */
  tls: boolean;
  /**
   * Number of its trials with this protocol.
   */
  trials: number;
}
