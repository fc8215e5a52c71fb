// Made by types.mjs from docs/schema/report.schema.json 993b6f0b7fb644a73163472c13b6274b4a1915c92797af2bae9b18cddc000742

/**
 * What a caveat is about, by the name in every report.
 */
export type Code =
  | "wrong_answers"
  | "no_answers"
  | "refusals"
  | "errors"
  | "unanswered"
  | "stalled"
  | "outage"
  | "answered_early"
  | "unsolicited"
  | "partly_checked"
  | "subject_failed"
  | "backend_failed"
  | "checks_failed"
  | "unchecked"
  | "checks_waived"
  | "books"
  | "littles_law"
  | "longer_than_window"
  | "rate_not_reached"
  | "warmup_backlog"
  | "warmup_failures"
  | "dropped"
  | "queueing"
  | "clumped"
  | "short_window"
  | "threads_ended_apart"
  | "cut_short"
  | "generator_busy"
  | "generator_crowded"
  | "generator_throttled"
  | "no_local_port"
  | "unstored_bodies"
  | "generator_quota"
  | "oversubscribed"
  | "priority_refused"
  | "shared_generator"
  | "generator_stopped"
  | "generator_late"
  | "generator_starved"
  | "ceiling"
  | "fell_back"
  | "streams_not_granted"
  | "dropped_packets"
  | "connections"
  | "asked_again"
  | "tcp_not_measured"
  | "accept_queue_full"
  | "retransmissions"
  | "many_writes"
  | "still_warming"
  | "warmup_limit"
  | "warmup_without_cpu"
  | "slowdown"
  | "speedup"
  | "cyclic"
  | "cost_levels"
  | "response_levels"
  | "last_level"
  | "server_not_observed"
  | "no_cgroup"
  | "counters_unread"
  | "left_group"
  | "limits_not_set"
  | "tick_accounting"
  | "more_threads_than_cpus"
  | "server_starved"
  | "started_for_profiles"
  | "not_measured"
  | "syscalls_not_measured"
  | "runtime_not_measured"
  | "probe_refused"
  | "shared_cpus"
  | "contaminated"
  | "machine_failed"
  | "done_again"
  | "machine_changed"
  | "steal"
  | "thermal_throttling"
  | "slow_clock"
  | "not_served"
  | "fixed_order"
  | "trend"
  | "busy_in_others_turns"
  | "longer_than_turns"
  | "at_once"
  | "idle_duet"
  | "out_of_turn"
  | "few_repeats"
  | "mixed"
  | "resumed"
  | "new_files"
  | "peak_lower_bound"
  | "same_numbers";
/**
 * Severity of a caveat.
 */
export type Severity = "info" | "warning" | "invalid";
/**
 * Unit of the pairs of an estimate.
 */
export type Over = "launches" | "rounds";
/**
 * Relation of the ratio of two servers to the true ratio, if repeats of one are not valid for
 * reasons outside of the server.
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
 * Verdict on a difference.
 */
export type Verdict = "higher" | "lower" | "same" | "not_shown" | "too_few" | "missing";
/**
 * How the arms of an experiment are compared.
 */
export type ExperimentKind = "ladder" | "ablation" | "toggle" | "dose" | "matrix";
/**
 * Direction in which a metric is better.
 */
export type Better = ("higher" | "lower") | "neither";
/**
 * Unit of a metric.
 */
export type Unit = ("per_second" | "microseconds" | "bytes") | "megabyte_seconds" | "share" | "count";
/**
 * The resource that limited a step.
 */
export type Resource =
  | "failure"
  | "dropped_packets"
  | "refusal"
  | "other_programs"
  | "generator"
  | "jit"
  | "cpu_quota"
  | "server_cpu"
  | "server_thread"
  | "offered_rate"
  | "concurrency"
  | "backend"
  | "gc"
  | "delayed_ack"
  | "accept_queue"
  | "open_files"
  | "link"
  | "memory"
  | "disk"
  | "lock"
  | "workers"
  | "elsewhere"
  | "unknown";
/**
 * Confidence in a verdict, the highest first.
 */
export type Confidence = "high" | "medium" | "low";
/**
 * Origin of a function.
 */
export type FunctionKind = ("kernel" | "native" | "jit" | "inlined") | "role";
/**
 * A function in one call path. In JSON, a node is a list of these four numbers in this order,
 * because there are thousands of nodes.
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
 * Id of a kind of machine: a hash of the facts that neither a reboot nor an update changes. They
 * are the model and number of the online CPUs, the installed memory and the virtualisation.
 *
 * Other facts are no part of it. The kernel and its version, the operating system, kernel settings
 * and the frequency governor are set by the user, and updates change them. The kernel chooses the
 * clock source anew in each boot. The number of usable CPUs, the limits and the privileges belong
 * to the process. Two machines of one model have the same id, because their results can be
 * compared. Serial numbers would also identify the owner of a shared report.
 */
export type MachineId = string;
/**
 * Id of a run: a random number of 128 bits, so that no two runs of any machines have the same id.
 * A resumed run and a copied archive keep it.
 */
export type RunId = string;
/**
 * Id of a workload under a load: a hash of the requests, of their expectations and of all load
 * settings except the steps. Conditions of arms, such as another driver, are no part of it.
 */
export type WorkloadId = string;
/**
 * Certificates of servers that a load accepts.
 */
export type AcceptedCertificates = "system" | "file" | "any";
/**
 * The kernel interface for I/O that the generator uses.
 */
export type DriverKind = "uring" | "epoll";
/**
 * The order of subjects within a block, or of workloads and steps within a start.
 */
export type Order = "random" | "fixed";
/**
 * Scheduling priority of the generator's workers.
 */
export type Priority = "normal" | "realtime";
/**
 * A version of the PROXY protocol.
 */
export type ProxyProtocol = "v1" | "v2";
/**
 * When a failed connection is replaced by the next one.
 */
export type Reconnect = "backoff" | "at-once";
/**
 * Whether the generator polls instead of sleeping where late wake-ups would distort times.
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
 * Treatment of a server that still becomes faster within a measured window.
 */
export type StillWarming = "refused" | "measured";
/**
 * Bytes of a body. In JSON, text is a string, and other bytes are `{"base64": …}`.
 */
export type Body =
  | string
  | {
      base64: string;
    };
/**
 * The part of a response that has an extracted value.
 */
export type ExtractionSource =
  | "body"
  | {
      header: string;
    }
  | {
      json: string;
    };
/**
 * Treatment of the cookies that responses set.
 */
export type Cookies = "ignored" | "kept";
/**
 * Kind of a limit, by its name in archives and reports.
 */
export type LimitKind = ("memory" | "open files") | "CPU quota" | "CPUs" | "CPUs (affinity)";
/**
 * A protocol, with or without TLS, and how a connection negotiates it.
 */
export type Protocol = "h1" | "h1-tls" | "h2" | "h2c" | "h2c-upgrade" | "auto";
/**
 * The network of the parts of a start.
 */
export type Isolation = "none" | "netns";
/**
 * An observation that is optional, because it has a cost.
 */
export type Probe = "kernel-stamps" | "syscalls" | "every-syscall" | "states" | "modes" | "profile" | "runtime" | "working-set";
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
/**
 * Id of a version of a subject: a hash of its definition and of the inputs of its build. The path
 * of its folder, its revision's name and the conditions of arms are no part of it.
 */
export type SubjectVersion = string;
export type WarmUpEnd = "steady" | "limit" | "unanswered" | "cut_short";
/**
 * Source of the split of CPU time into user and system time.
 */
export type SplitBy = "kernel" | "entries";
/**
 * Kind of the schedule of an open loop.
 */
export type Arrival = "constant" | "poisson" | "trace";
/**
 * Model that decides when a request starts.
 */
export type Model = "closed" | "open";
/**
 * The part of a trial to which an instant belongs.
 */
export type Phase = ("warmup" | "measured") | "drain";
/**
 * Pattern of a series.
 */
export type Pattern = "flat" | "warm_up" | "none" | "slowdown" | "cyclic";

/**
 * Everything that is computed from a run's archive.
 */
export interface Report {
  /**
   * Rates between which each arm stops meeting the suite's objective; empty without an objective
   * or open loops.
   */
  brackets: Bracket[];
  /**
   * Time of a fixed piece of work before each start; `None`: not measured.
   */
  canary: CanaryResult | null;
  /**
   * Caveats about the whole run.
   */
  caveats: Caveat[];
  comparisons: Comparison[];
  /**
   * Comparisons with the baseline, for arms that were loaded at the same time as the baseline.
   * Empty if an experiment defines the comparisons.
   */
  duets: Effect[];
  /**
   * Result of the suite's experiment; `None`: the suite has none.
   */
  experiment: ExperimentResult | null;
  /**
   * Definitions of the metrics whose keys summaries, comparisons and `wire` use.
   */
  metrics: Metric[];
  /**
   * Spread between repeats of one step, by key of the metric.
   */
  noise: {
    [k: string]: NoiseFloor;
  };
  /**
   * Influence of conditions such as the time of a start on its results; empty with fewer than
   * ten starts.
   */
  nuisance: Nuisance[];
  overview: OverviewRow[];
  /**
   * Profiles by cell; empty if no profiles were requested.
   */
  profiles: ProfileResult[];
  /**
   * Comparisons of HTTP/2 with HTTP/1.1, server by server; empty if no requests use both.
   */
  protocols: ProtocolComparison[];
  run: RunFacts;
  /**
   * Growth of throughput with the requests in flight; empty with fewer than two levels.
   */
  scaling: ScalingResult[];
  schema: string;
  /**
   * Searches of each start for the highest rate that meets the objective; empty without
   * `rate = "find"` in the suite.
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
   * Subjects whose peak throughput does not differ significantly, workload by workload.
   */
  ties: Tie[];
  trials: TrialResult[];
  /**
   * Comparisons of arms that are identical under two names.
   */
  twins: Effect[];
  /**
   * Traffic on the wire, by subject and protocol.
   */
  wire: WireResult[];
}
/**
 * The rates between which an arm stops meeting the objective with a workload, over one kind of
 * connection. Most repeats of a rate decide about it, because one may be wrong by chance.
 */
export interface Bracket {
  /**
   * For each repeat, the highest rate that it met, below all rates that it missed. 0: the repeat
   * missed all rates. Undecided repeats are excluded.
   */
  by_repeat_rps: number[];
  connections: number;
  /**
   * Whether most repeats or searches missed the objective because of incorrect or missing
   * responses that are not shown to be rarer at lower rates. If so, no rate is known.
   */
  failures_at_any_rate: boolean;
  /**
   * 95 % interval of `by_repeat_rps`. `None`: fewer than five repeats.
   *
   * @minItems 2
   * @maxItems 2
   */
  interval_rps: [number, number] | null;
  /**
   * Highest rate at which most repeats met the objective, below the first decided rate at which
   * they did not; requests per second. `None`: no such rate.
   */
  kept_rps: number | null;
  /**
   * Whether the generator could not offer `missed_rps`, so that the generator may be the limit
   * instead of the server.
   */
  limited_by_generator: boolean;
  /**
   * The lowest rate at which most repeats missed the objective. `None`: no such rate.
   */
  missed_rps: number | null;
  /**
   * Number of the pass, counted from 1, which distinguishes otherwise equal steps.
   */
  pass: number;
  pipeline: number;
  /**
   * Requests per second offered; `None` in a closed loop, or if the rate changes.
   */
  rate: number | null;
  /**
   * Votes at each planned rate. Empty: rates were searched.
   */
  rates: RateVotes[];
  /**
   * `None`: the rate does not change, or the loop is closed.
   */
  schedule: RateChange | null;
  /**
   * Counts of the searches that chose the rates. If rates were searched, the bounds are medians
   * over starts. `None`: rates were planned.
   */
  searched: Searched | null;
  streams: number;
  subject: string;
  workload: string;
}
/**
 * Verdicts of the objective on the repeats at a rate.
 */
export interface RateVotes {
  kept: Votes;
  /**
   * The missed or unknown condition of the first repeat that did not meet the objective.
   */
  missed: string | null;
  rate_rps: number;
}
/**
 * Loads at one rate, and how many of them agree with the verdict on that rate.
 */
export interface Votes {
  agree: number;
  loads: number;
}
/**
 * An open loop whose rate changes.
 */
export interface RateChange {
  /**
   * Rate at the beginning, requests per second; `None`: the start times come from a recording.
   */
  from_rps: number | null;
  /**
   * Number of periods with a constant rate, or with a rate that changes evenly.
   */
  stretches: number;
  /**
   * Rate at the end, requests per second.
   */
  to_rps: number | null;
}
/**
 * Searches, one at each start.
 */
export interface Searched {
  /**
   * Searches whose rate a longer load confirmed.
   */
  confirmed: number;
  /**
   * Starts that failed before their search. In the medians, they count as starts that met the
   * objective at no rate.
   */
  failed_starts: number;
  /**
   * Starts whose searches found incorrect or missing responses at low rates, too, so that no
   * rate is known. If these are at most half of the starts, they count in the medians as starts
   * that met the objective at no rate.
   */
  failing_starts: number;
  /**
   * Seconds for which every search met the objective at the rate that it found: the minimum over
   * the searches of their longest such load. `None`: no search found a rate.
   */
  holds_s: number | null;
  /**
   * Searches whose missed rate the generator could not offer.
   */
  limited_by_generator: number;
  loads: number;
  /**
   * Searches that ended with bounds as close as requested.
   */
  settled: number;
  /**
   * Starts with a search.
   */
  starts: number;
}
/**
 * The fixed piece of work over the starts of a run.
 */
export interface CanaryResult {
  /**
   * Times of the pieces of the slowest and the fastest start, microseconds.
   */
  fastest_us: number;
  /**
   * Median over the starts of the time that a piece took, microseconds.
   */
  piece_us: number;
  /**
   * Time of the slowest piece of work as a multiple of the fastest on the same CPU: the maximum
   * over the CPUs.
   */
  slowest_to_fastest: number;
  slowest_us: number;
  /**
   * In order of time.
   */
  starts: CanaryStart[];
}
/**
 * The fixed piece of work before one start.
 */
export interface CanaryStart {
  /**
   * Number of the block, counted from 1.
   */
  block: number;
  /**
   * CPU that ran the piece of work. `None`: any CPU.
   */
  cpu: number | null;
  /**
   * Median CPU time of a piece, microseconds. It excludes time that other programs took.
   */
  cpu_us: number;
  /**
   * Name of the arm that was started next.
   */
  subject: string;
  /**
   * Median time that a piece took, microseconds.
   */
  wall_us: number;
}
/**
 * A reason to distrust a number: its meaning for the reader, the evidence, and the action.
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
   * The problem and its remedy, in sentences.
   */
  message: string;
  severity: Severity;
}
/**
 * Comparison of an arm with the baseline in one cell. Ratios are arm ÷ baseline, of repeats paired
 * by block.
 */
export interface Comparison {
  baseline: string;
  cell: CellKey;
  connections: number;
  /**
   * Ratio of CPU time per request, with its interval. `None`: as for throughput.
   */
  cpu: PairEstimate | null;
  /**
   * The ratio of every metric by its key, without unknown ratios.
   */
  metrics: {
    [k: string]: Repeated;
  };
  /**
   * Number of the pass, counted from 1, which distinguishes otherwise equal steps.
   */
  pass: number;
  pipeline: number;
  /**
   * Requests per second offered; `None` in a closed loop, or if the rate changes.
   */
  rate: number | null;
  /**
   * `None`: the rate does not change, or the loop is closed.
   */
  schedule: RateChange | null;
  step: number;
  streams: number;
  subject: string;
  /**
   * Ratio of throughput, with its interval. `None`: too few repeats, or a repeat has no value.
   */
  throughput: PairEstimate | null;
  /**
   * Whether the ratio of throughput is a bound, because repeats of one arm are not valid for
   * reasons outside of the server. If only one arm may do more, the ratio also uses its repeats
   * that only the generator limited: their throughput is a lower bound.
   */
  throughput_bound: RatioBound;
  /**
   * Whether the throughputs are not shown to differ. This is so in three cases:
   *
   * - They do not differ significantly ([`Pairs::are_apart`]). The test is corrected for all
   *   arms that are compared with the baseline at this step.
   * - The slower arm may do more (`throughput_bound`).
   * - The order of starts was fixed.
   *
   * `None`: no pair of valid repeats.
   */
  tie: boolean | null;
  workload: string;
}
/**
 * An arm with a workload at a step, by their indices in the plan. Each block has one trial of a
 * cell.
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
 * An estimate of a ratio from pairs, with its limits.
 */
export interface PairEstimate {
  /**
   * Smallest detectable ratio above 1: a true ratio of this size is significant in at least four
   * of five comparisons like this one. In the rows of a comparison, it is corrected for all
   * ratios that are tested together. The noise is itself an estimate, so an upper bound of the
   * noise is used: in four of five comparisons, the true noise is below this bound. `None`: with
   * so few pairs, no ratio is detectable.
   */
  detectable: number | null;
  high: number;
  /**
   * Wider interval: in 19 of 20 runs, such intervals of all pairs of subjects at this step
   * contain the true ratios (Bonferroni; Dunn, "Multiple comparisons among means", 1961). If it
   * excludes 1, the pair also differs significantly in the corrected test (Holm). `None`:
   * unbounded.
   *
   * @minItems 2
   * @maxItems 2
   */
  interval_of_all: [number, number] | null;
  /**
   * Whether the interval is meant to be valid after every repeat, and the ratios are
   * significantly skewed. If so, the interval is correct less often than stated.
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
   * `None`: no values, or a repeat's percentile lies among unanswered requests.
   */
  max: number | null;
  /**
   * `None`: no values, the middle repeat's percentile lies among unanswered requests, or some
   * repeats have too few samples for the percentile.
   */
  median: number | null;
  min: number | null;
  /**
   * Known values of the repeats, in the order of the blocks.
   */
  values: number[];
}
/**
 * Effect of the change from one arm to another.
 */
export interface Effect {
  /**
   * Results, cell by cell.
   */
  answers: Answer[];
  /**
   * The only difference between the two arms, in words. `None`: no difference, several
   * differences, `not_set` or `fixed_order`.
   */
  because: string | null;
  /**
   * Planned differences between the two arms; empty: the arms are identical (*twins*).
   */
  changed: Change[];
  /**
   * Whether all blocks started the two arms in the same order. If so, a drift of the machine
   * biases their difference.
   */
  fixed_order: boolean;
  /**
   * Names of the arms; ratios are `to` ÷ `from`.
   */
  from: string;
  /**
   * Whether a limit in which the two arms differ could not be set in one of their starts. If
   * so, the arms may be identical.
   */
  not_set: boolean;
  rows: Row[];
  to: string;
}
/**
 * Summary of the comparison in one cell of both sides.
 */
export interface Answer {
  /**
   * Sentence on how `b` differs from `a`.
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
 * Load point of a step: the numbers that distinguish the steps of a workload.
 */
export interface Shape {
  connections: number;
  /**
   * Number of the pass, counted from 1, which distinguishes otherwise equal steps.
   */
  pass: number;
  pipeline: number;
  /**
   * Requests per second offered; `None` in a closed loop, or if the rate changes.
   */
  rate: number | null;
  /**
   * `None`: the rate does not change, or the loop is closed.
   */
  schedule: RateChange | null;
  streams: number;
}
/**
 * One condition in which two arms differ.
 */
export interface Change {
  /**
   * `None`: not set, or withheld because values of the environment and of requests may be
   * secret.
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
   * Whether most repeats of `b` are excluded because its server gave incorrect responses, failed
   * or never became ready, while the server of `a` worked in most repeats.
   */
  b_broke: boolean;
  /**
   * Whether the server is a control. Its row shows how much the machine changed.
   */
  control: boolean;
  /**
   * Estimate of the ratio; `None`: `lack` has the reason.
   */
  estimate: Estimate | null;
  /**
   * Why there is no estimate; `None`: an estimate exists.
   */
  lack: Lack | null;
  /**
   * Key and name of the metric.
   */
  metric: string;
  /**
   * Units of the estimate; `None`: no estimate, or the repeats are not pairs.
   */
  over: Over | null;
  /**
   * Chance that so many more repeats of `b` than of `a` fail if the two are alike (Fisher's
   * exact test): 0 to 1, not adjusted for other tests. A repeat whose percentile lies among
   * unanswered requests is also a failure here. `None`: no repeat failed.
   */
  p_lost: number | null;
  /**
   * p-value, adjusted for the tests of all rows (Holm): the chance of a difference at least as
   * large if there is none.
   */
  p_of_all: number | null;
  /**
   * p-value of a permutation test, which assumes nothing about the distribution of the values.
   * It exchanges the two sides in every possible way. `None`: too many ways, or nothing to
   * exchange. Five pairs cannot have a value below 0.0625.
   */
  p_permuted: number | null;
  /**
   * Ratio `b` ÷ `a` of each pair of repeats; empty: the repeats do not form pairs, or a repeat
   * has no value.
   */
  pairs: number[];
  /**
   * Ratio `b` ÷ `a` of the medians; `None`: one median is unknown or 0.
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
 * A ratio of two sides, which both have at least [`REPEATS_FOR_INTERVAL`] repeats.
 */
export interface Estimate {
  /**
   * Smallest detectable ratio above 1: a true ratio of this size is significant in at least four
   * of five comparisons like this one. In the rows of a comparison, it is corrected for all
   * ratios that are tested together. The noise is itself an estimate, so an upper bound of the
   * noise is used: in four of five comparisons, the true noise is below this bound. `None`: with
   * so few pairs, no ratio is detectable.
   */
  detectable: number | null;
  high: number;
  /**
   * Whether the interval is meant to be valid after every repeat, and the ratios are
   * significantly skewed. If so, the interval is correct less often than stated.
   */
  is_skewed: boolean;
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
   * Effect of the level, over all levels; empty if the arms have no levels.
   */
  doses: Dose[];
  effects: Effect[];
  /**
   * The varied factor, in the words of the suite's author.
   */
  factor: string | null;
  kind: ExperimentKind;
}
/**
 * Effect of the level of a dose on a metric at one step. A dose is a condition that the arms set
 * to different numbers (levels), such as a number of CPUs.
 */
export interface Dose {
  /**
   * Blocks in which the metric has a valid repeat at every level.
   */
  counted_blocks: number;
  /**
   * Factor by which the metric changes when the level doubles, over blocks. `None`: too few
   * blocks, an excluded block, a block without a value, or a fixed order of starts.
   */
  doubling: Estimate | null;
  /**
   * Median over blocks of the factor of `doubling`. `None`: an excluded block, or a block
   * without a value.
   */
  doubling_median: number | null;
  /**
   * Blocks in which any level was loaded, or its start failed. If there are more than
   * `counted_blocks`, the counted blocks may be a biased selection: the fast blocks if the
   * server failed in the others, or the slow blocks if the generator was the limit.
   */
  loaded_blocks: number;
  metric: string;
  step: Shape;
  title: string;
  workload: string;
}
/**
 * A quantity that is measured per trial.
 */
export interface Metric {
  better: Better;
  /**
   * Name in results, such as `throughput_rps`.
   */
  key: string;
  /**
   * Name in reports.
   */
  title: string;
  unit: Unit;
}
/**
 * Noise of one metric.
 */
export interface NoiseFloor {
  /**
   * Smallest difference from the baseline that four of five runs like this one would detect in a
   * single comparison, as the median over steps. 0.05 is 5 %. In an experiment, the difference
   * is between the arms that it compares. `None`: fewer than five repeats, or no subject except
   * controls to compare with the baseline.
   */
  detectable: number | null;
  /**
   * Spread between repeats: the standard deviation of the logarithms of a step's repeats, as the
   * median over steps. 0.05 is 5 %.
   */
  scatter: number;
  /**
   * Number of steps in the median: all subjects' steps with three or more repeats. For the
   * start-up time, it is the number of subjects.
   */
  steps: number;
}
/**
 * Spread of one metric between the starts of a run, and the factors that explain it.
 */
export interface Nuisance {
  factors: Share[];
  /**
   * Key and name of the metric.
   */
  metric: string;
  /**
   * Standard deviation of log values around each cell's mean: 0.02 is 2 %.
   */
  spread: number;
  /**
   * Number of starts with a known value.
   */
  starts: number;
  title: string;
}
/**
 * The share of one factor.
 */
export interface Share {
  /**
   * Name of the factor, such as `CPUs`.
   */
  factor: string;
  /**
   * p-value: the chance of this share or a larger one if the factor has no effect. It is
   * adjusted for all factors of all metrics (Holm).
   */
  p: number;
  /**
   * Share of the variance: 0 to 1.
   */
  share: number;
}
/**
 * One subject with one workload in the overview. Throughput is from the step with the peak.
 * Response times, CPU and cost are from the reference step.
 */
export interface OverviewRow {
  /**
   * Why all or some numbers are missing; `None`: no failure is known.
   */
  absent: string | null;
  /**
   * The subject's back ends.
   */
  backends: BackendRow[];
  baseline: boolean;
  /**
   * Caveats of the step of `limiter`.
   */
  caveats: StepCaveat[];
  checks: number;
  checks_passed: number;
  /**
   * Failed checks that the subject's file allows to fail.
   */
  checks_waived: number;
  control: boolean;
  /**
   * The price with its range and its parts.
   */
  cost: CostResult | null;
  /**
   * Price of the CPU time of 10⁹ requests at the reference step, in the currency of
   * `[cost] per_vcpu_hour`.
   */
  cost_per_billion_requests: number | null;
  /**
   * Requests without a correct response, over all trials of the row; `None`: no trial ran, or
   * the window of a trial had no request.
   */
  errors: number | null;
  /**
   * Known medians of metrics at the reference step.
   */
  figures: Figures;
  /**
   * Medians of invalid repeats, for the figures above that no valid repeat has. They decide no
   * verdict. `None`: no such figures.
   */
  invalid?: InvalidFigures | null;
  language: string;
  /**
   * Bottleneck at the first of these steps that is known: the step of `peak_at_least_rps`, the
   * step of the peak, the reference step.
   */
  limiter: Resource | null;
  limiter_confidence: Confidence | null;
  limiter_sentence: string | null;
  /**
   * Highest anonymous memory (resident if only that is known) in any sample of any measured
   * window. The kernel's own peak includes page cache, so it is not used.
   */
  memory_peak_bytes: number | null;
  /**
   * Resources that 10⁹ requests use at the reference step, without a price; `None`: the CPU time
   * is unknown.
   */
  paid: Paid | null;
  /**
   * `paid` at both ends of the interval of the CPU time per request. With too few repeats for an
   * interval, at the lowest and the highest repeat. `None`: unknown, or only one repeat.
   *
   * @minItems 2
   * @maxItems 2
   */
  paid_between: [Paid, Paid] | null;
  /**
   * The load point of `peak_rps`.
   */
  peak_at: Shape | null;
  /**
   * The load point of `peak_at_least_rps`.
   */
  peak_at_least_at: Shape | null;
  /**
   * Lower bound of the server's throughput, if it is above `peak_rps`. It includes repeats that
   * are invalid only because of the generator. `None`: no higher throughput than `peak_rps` is
   * known.
   */
  peak_at_least_rps: Repeated | null;
  /**
   * The cell with the peak; `None`: no step has a valid repeat.
   */
  peak_cell: CellKey | null;
  peak_connections: number | null;
  /**
   * Whether the server may do more than `peak_rps`, because `peak_open_steps` is not empty.
   */
  peak_is_lower_bound: boolean;
  /**
   * Whether the peak is the served part of an offered rate, because no closed loop has a valid
   * repeat.
   */
  peak_is_offered: boolean;
  /**
   * Levels of throughput whose mean is the peak or `peak_at_least_rps`. The server changed
   * between these levels and never sustained the mean. `None`: throughput stayed on one level.
   */
  peak_mixture: Mixture | null;
  /**
   * Steps at which the server may have done more than `peak_rps`; empty: the peak is exact.
   */
  peak_open_steps: OpenStep[];
  /**
   * Throughput at the step with the highest median. A step with too few valid repeats to
   * distinguish subjects is used only if all steps have too few.
   */
  peak_rps: Repeated | null;
  peak_streams: number | null;
  /**
   * Possible ranks in the workload, by tests of all pairs together. `None`: a control, too few
   * valid repeats, or a fixed order of starts.
   */
  places: Places | null;
  reference_at: Shape;
  /**
   * The cell (arm, workload and step) at the reference step.
   */
  reference_cell: CellKey;
  reference_connections: number;
  /**
   * Requests in flight at the reference step: connections × streams × pipeline.
   */
  reference_in_flight: number;
  /**
   * The step of the response times, CPU and cost: the workload's step nearest to 64 requests in
   * flight.
   */
  reference_step: number;
  /**
   * Time from exec until the subject was ready: the median over the starts.
   */
  startup_ms: number | null;
  subject: string;
  /**
   * Number of the tie group, counted from 1. No member is significantly below the best member.
   * `None`: a control, too few valid repeats, or a fixed order of starts.
   */
  tie_group: number | null;
  /**
   * The subject's title, with the workload's name if there are several workloads.
   */
  title: string;
  /**
   * The figures above divided by the figures of the baseline's row for the same workload.
   * `None`: this row is the baseline's, only one of the two was loaded alone, or the suite names
   * no baseline.
   */
  to_baseline: RowRatios | null;
  workload: string;
}
/**
 * A back end of a subject, in the subject's row.
 */
export interface BackendRow {
  /**
   * Share of the CPU time that a request cost the subject and its back ends together: 0 to 1.
   */
  cpu_share: number | null;
  /**
   * CPU time per response of the subject, at the reference step.
   */
  cpu_us_per_request: number | null;
  /**
   * Highest value over all trials with the workload.
   */
  memory_peak_bytes: number | null;
  name: string;
  /**
   * Time until the back end was ready.
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
   * The highest severity among those repeats.
   */
  severity: Severity;
}
/**
 * The price of 10⁹ requests, and its part for memory.
 */
export interface CostResult {
  /**
   * `per_billion` at both ends of the interval of the CPU time per request. With too few repeats
   * for an interval, at the lowest and the highest repeat. `None`: one repeat only.
   *
   * @minItems 2
   * @maxItems 2
   */
  between: [number, number] | null;
  /**
   * Part of the price for memory.
   */
  of_memory: number;
  /**
   * In the currency of `[cost]`.
   */
  per_billion: number;
}
/**
 * Known values of `FIGURES`, one per metric.
 */
export interface Figures {
  [k: string]: number;
}
/**
 * Medians over invalid repeats. A figure is `None` if a valid repeat has the figure, or an invalid
 * repeat lacks it. A percentile is also `None` if the median lies among unanswered requests.
 */
export interface InvalidFigures {
  /**
   * Medians of `FIGURES` at the reference step.
   */
  figures: Figures;
  /**
   * The load point of that step.
   */
  peak_at: Shape | null;
  /**
   * Throughput at the step with the highest median of these repeats.
   */
  peak_rps: number | null;
}
/**
 * Resources for 10⁹ requests on a server that fully uses all its CPUs. If the server uses only the
 * share u of them, it is paid for 1 / u times as long.
 */
export interface Paid {
  /**
   * Hours of one CPU.
   */
  cpu_hours: number;
  /**
   * Hours of a GiB of memory, which is paid for as long as the CPUs. `None`: the memory is
   * unknown, because no repeat of the step is valid or the memory was not measured.
   */
  gib_hours: number | null;
}
/**
 * Levels of throughput within the measured windows of a step. The server did not sustain their
 * mean.
 */
export interface Mixture {
  /**
   * Number of repeats in which throughput changed its level.
   */
  changed: number;
  /**
   * Median of the highest level, over the same repeats.
   */
  highest_rps: number;
  /**
   * Median of the lowest level, over the repeats in which throughput changed its level.
   */
  lowest_rps: number;
  /**
   * Number of valid repeats. If no repeat is valid, the number of repeats that only the
   * generator limited.
   */
  repeats: number;
}
/**
 * A step at which a server may have reached more than its peak, because repeats are not valid for
 * reasons outside of the server. *Open* means undecided, and has no relation to open loops.
 */
export interface OpenStep {
  at: Shape;
  /**
   * `contaminated` if other programs used the CPUs in most of the excluded repeats. Otherwise
   * the reason of the first of them; a limit of the generator comes before other reasons.
   * `None`: no repeat ran.
   */
  reason: Code | null;
  /**
   * Repeats that are not valid for reasons outside of the server.
   */
  refused: number;
  /**
   * Planned repeats. 0: none of them ran.
   */
  repeats: number;
  /**
   * Index among the plan's steps.
   */
  step: number;
}
/**
 * Places that a series may have by its tests. Place 1 is the best.
 */
export interface Places {
  best: number;
  worst: number;
}
/**
 * A row's figures divided by another row's figures. `None`: one of the two rows lacks the figure,
 * or the divisor is 0.
 */
export interface RowRatios {
  /**
   * Known ratios of the figures at the reference step.
   */
  figures: Figures;
  memory_peak: number | null;
  /**
   * Also `None` if one of the two peaks is a lower bound.
   */
  peak_rps: number | null;
  /**
   * Lower bound of the ratio of the peaks, if this row's peak is a lower bound and the other
   * row's peak is exact.
   */
  peak_rps_at_least: number | null;
  startup: number | null;
}
/**
 * Profiles of one cell.
 */
export interface ProfileResult {
  cell: CellKey;
  /**
   * CPU time of the server per response during that time; `None`: unknown.
   */
  cpu_us_per_request: number | null;
  /**
   * Reasons why other trials of the cell have no profile, as sentences.
   */
  failures: string[];
  /**
   * Time over which stacks were sampled.
   */
  length_s: number;
  /**
   * Stacks of running threads; `None`: no sample.
   */
  running: Flame | null;
  /**
   * Share of the server's CPU time that the samples cover. The rest was used by processes that
   * ended early or were not yet monitored. `None`: unknown.
   */
  sampled_share: number | null;
  /**
   * Complete responses per second during that time; `None`: all profiles failed.
   */
  throughput_rps: number | null;
  /**
   * Numbers of the trials whose profiles are combined, counted from 1 in the order of the plan.
   */
  trials: number[];
  /**
   * Reasons why JIT-compiled functions may have no names, as sentences.
   */
  unnamed: string[];
  /**
   * Stacks of waiting threads, including the wait for a CPU; `None`: no sample.
   */
  waiting: Flame | null;
}
/**
 * Stacks combined into a tree, from the thread's role to the innermost function.
 */
export interface Flame {
  /**
   * Shares of the samples by the origin of the innermost function: the kernel, a file, or code
   * that was compiled just in time.
   */
  by_origin: Share2[];
  functions: Function[];
  /**
   * Functions with the most own samples, in descending order.
   */
  hottest: Hot[];
  /**
   * For each node, how its time per response differs from another profile: −3 (much less) to 3
   * (much more). 0: no significant difference. `None`: no other profile.
   */
  levels: number[] | null;
  /**
   * Samples that were lost because the buffer was full.
   */
  lost: number;
  /**
   * Share of the samples in which all functions have names: 0 to 1. An address in a file is not
   * a name.
   */
  named_share: number;
  /**
   * Nodes in depth-first order, each before its callees. Invisibly small nodes are omitted.
   */
  nodes: Node[];
  samples: number;
  /**
   * Time that all samples represent: CPU time, or waiting time of threads.
   */
  seconds: number;
  /**
   * Time per complete response.
   */
  us_per_request: number | null;
  /**
   * Share of the samples whose stack is complete down to the start of its thread: 0 to 1.
   */
  whole_share: number;
}
/**
 * Share of the samples with one origin of the innermost function: 0 to 1.
 */
export interface Share2 {
  name: string;
  share: number;
}
/**
 * A function in a flame graph, or a role of threads.
 */
export interface Function {
  kind: FunctionKind;
  /**
   * The file with the function's code; `None`: no file.
   */
  module: string | null;
  name: string;
}
/**
 * Share of a function in the samples.
 */
export interface Hot {
  function: number;
  /**
   * Share of the samples in which the function is the innermost one: 0 to 1.
   */
  own_share: number;
  /**
   * Own time per complete response.
   */
  own_us_per_request: number | null;
  /**
   * Share of the samples with the function anywhere in the stack.
   */
  share: number;
}
/**
 * Comparison of HTTP/2 with HTTP/1.1 for one server and the same requests, both with TLS or both
 * without. Ratios are HTTP/2 ÷ HTTP/1.1, of repeats paired by block.
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
   * Requests in flight on each HTTP/1.1 connection.
   */
  baseline_pipeline: number;
  /**
   * Arm over HTTP/1.1: the same arm, or another variant of its server if this arm has no numbers
   * over HTTP/1.1.
   */
  baseline_subject: string;
  /**
   * Connections over HTTP/2.
   */
  connections: number;
  /**
   * Requests in flight, the same on both sides: connections × streams over HTTP/2, connections ×
   * pipeline over HTTP/1.1.
   */
  in_flight: number;
  /**
   * Known ratios of throughput, of the 99th percentile of the response time, and of CPU time per
   * request. The ratio of throughput is unknown if repeats of both protocols are not valid for
   * reasons outside of the server.
   */
  metrics: {
    [k: string]: Repeated;
  };
  /**
   * Number of the pass, counted from 1, if a suite repeats the step.
   */
  pass: number;
  /**
   * Name of the server, without its variant.
   */
  server: string;
  /**
   * Requested streams on each connection.
   */
  streams: number;
  /**
   * Arm over HTTP/2.
   */
  subject: string;
  /**
   * Whether the true ratio of throughput may be higher or lower, because something other than
   * the server limited repeats of one protocol. Repeats that only the generator limited are not
   * valid, but the ratio uses their throughput as a lower bound.
   */
  throughput_bound: RatioBound;
  /**
   * Workload over HTTP/2.
   */
  workload: string;
}
/**
 * Plan and progress of the run, and its machine.
 */
export interface RunFacts {
  /**
   * Repeats after which the run ended because its question was answered; `None`: all repeats
   * were to run.
   */
  answered_after: number | null;
  /**
   * Whether the run could end as soon as its question was answered. If so, intervals of ratios
   * are valid after every repeat.
   */
  at_every_look: boolean;
  /**
   * Names of the arms that were planned to be loaded at the same time; empty: arms ran one at a
   * time, or took turns.
   */
  at_once: string[];
  /**
   * Name of the arm with which the others are compared; `None`: the suite names no baseline.
   */
  baseline: string | null;
  command: string[];
  cost: Cost | null;
  description: string;
  /**
   * Facts of the machine. Those of the run's first part, if the run was resumed in other
   * conditions (caveat `mixed`).
   */
  facts: Facts;
  /**
   * Name of the run, unique on its machine.
   */
  id: string;
  ids: RunIds;
  load: Load;
  markers: Marker[];
  /**
   * Measurement from which the load's rates are derived; `None`: the rates are absolute, or
   * there are no rates.
   */
  measured_first: MeasuredFirst | null;
  /**
   * Objective of servers at the rates of open loops, as written; `None`: no objective.
   */
  objective: string | null;
  /**
   * Share of the measured time in which dyno read counters on the generator's CPUs: the median
   * over the trials. `None`: unknown in all trials.
   */
  observing_share: number | null;
  /**
   * Names of the arms in planned order, block by block.
   */
  order: string[][];
  /**
   * Trials that are invalid because of other programs; `None`: no such trials.
   */
  other_programs?: DisturbedSteps | null;
  /**
   * Names of the applied profiles of the suite. Later profiles override earlier ones.
   */
  profiles: string[];
  repeats: number;
  /**
   * Searches for a rate (`rate = "find"`) that are missing because the run was interrupted.
   */
  searches_missing: number;
  seed: number;
  /**
   * RFC 3339, UTC.
   */
  started: string;
  suite: string;
  suite_source: string;
  /**
   * Whether servers and generator swap CPUs from block to block. The conditions of subjects name
   * the CPUs of the first block.
   */
  swaps_cpus: boolean;
  trials_done: number;
  /**
   * Number of invalid trials, except trials of a control that refused connections as expected.
   */
  trials_invalid: number;
  trials_planned: number;
  /**
   * Trials after which the server's contract was not checked, because the run was interrupted.
   */
  trials_unchecked: number;
  workloads: Workload[];
}
/**
 * Prices of a running server.
 */
export interface Cost {
  /**
   * Hours after which a server is restarted; `None`: the server is never restarted.
   */
  lifetime_hours: number | null;
  /**
   * Price of 2³⁰ bytes of memory for an hour; `None`: memory is free.
   */
  per_gib_hour: number | null;
  /**
   * Price of a CPU for an hour, whether it is used or idle.
   */
  per_vcpu_hour: number;
  /**
   * Share of its CPUs that a server may use on average: above 0, up to 1. `None`: all its CPUs.
   */
  utilisation: number | null;
}
/**
 * Facts about the machine and this version of dyno, read when the run began.
 */
export interface Facts {
  cgroup: CgroupVersion;
  clock_source: string | null;
  cpu_model: string | null;
  /**
   * Number of CPUs that dyno may use. With a CPU quota it may be below the number of CPUs on
   * which servers may run.
   */
  cpus: number;
  /**
   * The commit from which dyno was built; `None`: unknown.
   */
  dyno_commit: string | null;
  dyno_version: string;
  /**
   * Such as `performance`; `None`: the machine does not report it.
   */
  governor: string | null;
  /**
   * Whether the CPU time of a program excludes the interrupts that the kernel handled while the
   * program ran (`CONFIG_IRQ_TIME_ACCOUNTING`); `None`: unknown.
   */
  irq_time_accounting?: boolean | null;
  kernel: string | null;
  /**
   * Whether the kernel tracks connections over loopback (netfilter); `None`: unknown.
   */
  loopback_tracked?: boolean | null;
  memory_bytes: number | null;
  /**
   * Facts that could not be read and actions that failed here, each with its cause and fix.
   */
  missing: Missing[];
  /**
   * CPUs of the machine that are online; `None`: unknown.
   */
  online_cpus?: number | null;
  open_files_limit: number | null;
  os: string | null;
  /**
   * Whether the run had root privileges.
   */
  privileged: boolean;
  /**
   * Kernel settings that affect servers, by name.
   */
  sysctls: [string, string][];
  /**
   * Whether user and system time are sampled by the tick instead of measured.
   */
  tick_accounting: boolean | null;
  /**
   * Maximum number of connections that the kernel tracks; `None`: it does not track connections
   * over loopback, or unknown.
   */
  tracking_most?: number | null;
  /**
   * Such as `kvm`; `none`: no virtualisation was detected.
   */
  virtualisation: string | null;
}
/**
 * A measurement or an action that failed.
 */
export interface Missing {
  mend: string;
  what: string;
  why: string;
}
/**
 * Ids that outlive the run. Other runs on an equal machine, and with an equal workload, have the
 * same ids of machine and workload.
 */
export interface RunIds {
  /**
   * The machine of the run's first part, if the run was resumed on another.
   */
  machine: MachineId;
  run: RunId;
  /**
   * In the order of the run's workloads; `null`: the report withholds a value of the workload,
   * which could be guessed from the id.
   */
  workloads: (WorkloadId | null)[];
}
export interface Load {
  /**
   * Interval of full checks: one in this many responses is checked in full. 1: every response;
   * 0: none.
   */
  check_one_in: number;
  connect_timeout_ns: number;
  connection?: ConnectionSettings;
  /**
   * Maximum time after the measured window in which requests in flight may end.
   */
  drain_ns: number;
  driver: DriverKind;
  /**
   * Planned length of the measured window; 0: no planned length. A load without a suite may end
   * after a number of requests, or when the user ends it.
   */
  duration_ns: number;
  /**
   * Maximum time from sending a request to the first byte of its response; `None`: only the
   * complete response has a limit.
   */
  first_byte_timeout_ns: number | null;
  /**
   * For workloads over HTTP/2.
   */
  http2: Http2;
  interval_ns: number;
  /**
   * Maximum number of arrivals of an open loop that wait for a connection; further arrivals are
   * dropped. `None`: only the generator's own limit.
   */
  max_waiting?: number | null;
  /**
   * Order of workloads and steps within a start.
   */
  order: Order;
  /**
   * Priority of the generator's workers.
   */
  priority: Priority;
  /**
   * The PROXY protocol with which each connection begins; `None`: it begins with the first
   * request, or with TLS.
   */
  proxy_protocol?: ProxyProtocol | null;
  /**
   * Time over which connections are opened one by one; `None`: all of them before the load
   * begins.
   */
  ramp_connections_ns: number | null;
  reconnect: Reconnect;
  /**
   * Total number of requests; `None`: no limit, as in all suites.
   */
  requests: number | null;
  /**
   * `None`: no limit, so that only the server ends connections.
   */
  requests_per_connection: number | null;
  spin: Spin;
  /**
   * Distinct steps. A workload has only some of these steps, because a protocol has either
   * streams or pipelines. The list of trials shows which.
   */
  steps: Step[];
  still_warming: StillWarming;
  threads: number;
  timeout_ns: number;
  /**
   * Warm-up of each start before its first step, until the server is steady; `None`: only the
   * steps' own warm-ups.
   */
  until_steady: UntilSteady | null;
  /**
   * Warm-up of each step, which is not measured.
   */
  warmup_ns: number;
}
/**
 * Settings of a load's connections that suites leave at their defaults.
 */
export interface ConnectionSettings {
  /**
   * Local addresses, which connections use in rotation; empty: the kernel chooses.
   */
  sources: string[];
  /**
   * `None`: a load without TLS.
   */
  tls: TlsSettings | null;
  /**
   * Whether connections lead to a Unix socket, not to a TCP port.
   */
  unix_socket: boolean;
}
/**
 * TLS settings of a load without a suite.
 */
export interface TlsSettings {
  certificates: AcceptedCertificates;
  /**
   * Whether the client sends a certificate if the server requests one.
   */
  client_certificate: boolean;
  /**
   * Whether later handshakes resume the session of an earlier one.
   */
  resumption: boolean;
}
/**
 * Settings that an HTTP/2 client sends at the start of each connection.
 */
export interface Http2 {
  /**
   * The window of all streams of a connection together is 2^`connection_window_bits` − 1 bytes.
   * 10 to 30.
   */
  connection_window_bits: number;
  /**
   * Bytes of the table in which a server may store headers of its responses
   * (SETTINGS_HEADER_TABLE_SIZE).
   */
  header_table_size: number;
  /**
   * Each stream's window is 2^`window_bits` − 1 bytes. A server can send this many bytes of a
   * response before it needs a window update. 10 to 30.
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
   * Number of this step among otherwise equal steps, from 1.
   */
  pass: number;
  /**
   * Requests in flight per connection of HTTP/1.1 (pipelining).
   */
  pipeline: number;
  /**
   * Streams per connection; 1 for HTTP/1.1.
   */
  streams: number;
}
/**
 * A stretch of time over which the rate changes linearly from one value to another, requests per
 * second.
 */
export interface Segment {
  duration_ns: number;
  from_rate: number;
  to_rate: number;
}
/**
 * Limit of a warm-up that runs until the server is steady.
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
 * An earlier run. Its results determined the rates of this run.
 */
export interface MeasuredFirst {
  capacities: Capacity[];
  /**
   * Subjects that failed in some repeats of the earlier run.
   */
  failures?: CapacityFailures[];
  /**
   * The id of the earlier run.
   */
  run: string;
  /**
   * The rates, as shares of the capacities.
   */
  shares: number[];
}
/**
 * Throughput of a suite's slowest subject with a workload, from which rates are computed.
 */
export interface Capacity {
  /**
   * Correct responses per second in closed loops.
   */
  rps: number;
  /**
   * Name of the arm.
   */
  subject: string;
  workload: string;
}
/**
 * Failures of a subject in the run that measured capacities. The subject's capacity comes from the
 * other repeats.
 */
export interface CapacityFailures {
  /**
   * Number of repeats with a failure: of the start, or of a load.
   */
  failed: number;
  /**
   * Planned repeats.
   */
  repeats: number;
  /**
   * Name of the arm.
   */
  subject: string;
}
/**
 * Steps that are invalid because other programs used the CPUs.
 */
export interface DisturbedSteps {
  /**
   * Share of this machine's CPUs that other programs used: 0 to 1, the median of those steps.
   * `None`: unknown.
   */
  cpu_share: number | null;
  /**
   * Names of the programs that used most CPU time. Empty: the names are not visible from here.
   */
  names: string[];
  trials_invalid: number;
}
/**
 * Requests to a server: one request, a weighted mix of them, a page, or a sequence.
 */
export interface Workload {
  name: string;
  /**
   * The requests are a page: the first request is its document. The other requests are its
   * resources, and start when the document is complete.
   */
  page?: Page | null;
  /**
   * `h1`, `h2`, `h2c` or `h2c-upgrade`; for a load without a suite also `auto`.
   */
  protocol: string;
  /**
   * Requests, at least one.
   */
  requests: Request[];
  /**
   * Connections are replaced after this many requests, overriding the load; `None`: the load's
   * setting applies.
   */
  requests_per_connection?: number | null;
  /**
   * The requests are a sequence: each visitor sends them in order, one after the other.
   */
  sequence?: Sequence | null;
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
   * Number of HTTP/1.1 connections that load one page together; with HTTP/2 always one.
   */
  connections: number;
}
/**
 * A request and its expected response. Path, header values and body may contain placeholders
 * (docs/reference/load-requests.md).
 */
export interface Request {
  body: Body | null;
  expect: Expect;
  /**
   * Values that are extracted from its responses; only in a sequence.
   */
  extract?: Extraction[];
  headers: [string, string][];
  method: string;
  name: string;
  path: string;
  /**
   * How often the request is chosen, in proportion to the weights of the other requests.
   */
  weight: number;
}
/**
 * Expectations of a correct response. Fields that are `None` or empty are not checked, except for
 * the status: if `status` is `None`, every status from 200 to 399 is correct.
 */
export interface Expect {
  /**
   * The whole body, byte for byte.
   */
  body: Body | null;
  /**
   * Text that the body must contain.
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
   * Headers that the response must have, with this value if there is one.
   */
  headers: [string, string | null][];
  /**
   * Headers that the response must have, with an expression that must match the value of one
   * header of that name.
   */
  headers_match: [string, string][];
  /**
   * JSON pointers (RFC 6901) into the body, with the expected value.
   */
  json: [string, unknown][];
  /**
   * JSON pointers, with an expression that must match the text or number at the pointer.
   */
  json_match: [string, string][];
  status: number | null;
}
/**
 * A value of a response that later requests of the same visitor use, as `{extract.NAME}`. Archives
 * have this definition, and never a value.
 */
export interface Extraction {
  /**
   * Regular expression that must match the source. Its first group is the value, or the whole
   * match if it has no group. `None`: the source is the value.
   */
  matches?: string | null;
  name: string;
  source: ExtractionSource;
}
/**
 * How visitors send the requests of a sequence.
 */
export interface Sequence {
  cookies: Cookies;
}
/**
 * Growth of an arm's throughput with the requests in flight, over the closed loops of one workload
 * and one kind of connection.
 */
export interface ScalingResult {
  arm: number;
  /**
   * Requests in flight above which more requests add little throughput (Satopää et al. 2011).
   * `None`: fewer than four levels, no bend beyond the noise, a single repeat, or a level at or
   * above the bend in `open_levels`.
   */
  knee: number | null;
  /**
   * Fit of the Universal Scalability Law; `None`: fewer than six levels without excluded repeats
   * that may have been higher.
   */
  law: LawResult | null;
  levels: ScalingLevel[];
  /**
   * Levels at which the server may have done more, because repeats are not valid for reasons
   * outside of the server.
   */
  open_levels: number[];
  pipeline: number;
  streams: number;
  subject: string;
  workload: number;
}
/**
 * The best fit of the Universal Scalability Law to a curve (Gunther 2007): λn / (1 + σ(n − 1) +
 * κn(n − 1)).
 */
export interface LawResult {
  /**
   * Coherency: cost of each pair of requests in flight.
   */
  kappa: Coefficient;
  /**
   * Requests per second with one request in flight.
   */
  lambda: Coefficient;
  /**
   * Highest throughput by the law, or its limit. `None`: throughput grows without limit, or is
   * unknown at the highest levels.
   */
  most_rps: number | null;
  /**
   * Requests in flight with the highest throughput by the law. `None`: throughput never falls,
   * or is unknown at the highest levels (`open_levels`).
   */
  peak_at: number | null;
  /**
   * Contention: 0 to 1 and more.
   */
  sigma: Coefficient;
  /**
   * Largest absolute residual, as a share. If it is far above the noise, the law does not fit
   * this server.
   */
  worst_residual: number;
}
/**
 * A coefficient of the law.
 */
export interface Coefficient {
  /**
   * 95 % interval over launches (the jackknife's error and Student's t, Tukey 1958). `None`:
   * fewer than five launches, or a coefficient of 0 in the fit with all launches or without one
   * of them.
   *
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
   * Throughput by the law; `None`: no fit.
   */
  fitted_rps: number | null;
  in_flight: number;
  /**
   * Difference of the measured throughput from the law, as a share of the law's throughput.
   * `None`: no fit, or the law is not fitted to this level, because excluded repeats may have
   * been higher.
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
  /**
   * Number of the pass, counted from 1, which distinguishes otherwise equal steps.
   */
  pass: number;
  pipeline: number;
  /**
   * Requests per second offered; `None` in a closed loop, or if the rate changes.
   */
  rate: number | null;
  /**
   * Number of the repeat, counted from 1.
   */
  repeat: number;
  result: CapacityResult;
  /**
   * `None`: the rate does not change, or the loop is closed.
   */
  schedule: RateChange | null;
  streams: number;
  /**
   * Name of the arm.
   */
  subject: string;
  workload: string;
}
/**
 * Result of a search for capacity.
 */
export interface CapacityResult {
  /**
   * Address of the connections of all loads. A name is resolved once per search. Absent: not
   * recorded.
   */
  address?: string | null;
  /**
   * Whether a longer load met the objective at `kept_rps`, too.
   */
  confirmed: boolean;
  /**
   * Whether at `missed_rps` at least half of the possible requests were in flight on average. If
   * so, requests may have waited in the generator for a free connection.
   */
  connections_taken: boolean;
  /**
   * Why the search ended early. `None`: the search was complete.
   */
  ended: string | null;
  /**
   * Shares of incorrect or missing responses, if the objective was missed because of them and
   * they are not shown to be rarer at lower rates. In this case no rate is known, so `kept_rps`
   * and `missed_rps` are `None`. `None`: not this case.
   */
  failures_at_any_rate: FailureShares | null;
  /**
   * Length of the longest load that met the objective at `kept_rps`, or at `unconfirmed_rps` if
   * that is known instead; seconds. `None`: no such load.
   */
  holds_s: number | null;
  /**
   * Changes and omissions of an import in the requests; absent if there are none.
   */
  import_changes?: ImportChange[];
  /**
   * Number of loads at each of the two rates that agree with the verdict on the rate. Zeros:
   * there is no such rate.
   */
  kept_by: Votes;
  /**
   * The highest rate at which all requests together met the objective, below all rates at which
   * they missed it; requests per second. `None`: no such rate.
   */
  kept_rps: number | null;
  /**
   * Result of all requests at each of the two rates. `None`: no such rate.
   */
  kept_together: CapacityTrial | null;
  /**
   * The lowest rate that is tried, because loads below it have too few requests for the
   * objective; requests per second. `None`: there is no such rate.
   */
  least_rps: number | null;
  /**
   * Whether the generator or the machine, and not the server, was the limit at `missed_rps`. The
   * server may reach more.
   */
  limited_by_generator: boolean;
  missed_by: Votes;
  /**
   * The lowest rate at which all requests together missed the objective. `None`: no such rate.
   */
  missed_rps: number | null;
  missed_together: CapacityTrial | null;
  /**
   * The objective as it was given.
   */
  objective: string;
  /**
   * Loads with too few requests for a percentile of the objective.
   */
  percentile_unknown: number;
  schema: string;
  /**
   * Whether the two rates are as close as requested, and no confirming load (a longer load at
   * `kept_rps`) missed the objective.
   */
  settled: boolean;
  /**
   * Every load, in order of time.
   */
  trials: CapacityTrial[];
  /**
   * The highest rate that shorter loads met, if a longer load missed the objective there and
   * `kept_rps` is `None`; requests per second. Absent: not this case.
   */
  unconfirmed_rps?: number | null;
}
/**
 * Requests without a correct response, among all, at lower and at higher rates.
 */
export interface FailureShares {
  failed_above: number;
  failed_below: number;
  requests_above: number;
  requests_below: number;
}
/**
 * The changes of one kind that an import made to the requests of another tool.
 */
export interface ImportChange {
  /**
   * Number of changes.
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
   * Whether incorrect or missing responses missed the objective.
   */
  by_failures: boolean;
  /**
   * Whether this is a longer load, which confirms the result of shorter loads.
   */
  confirms: boolean;
  /**
   * Length of the load's window, seconds.
   */
  duration_s: number;
  /**
   * Share of the window's requests without a correct response: 0 to 1.
   */
  error_share: number;
  /**
   * Whether at least half of the possible requests were in flight on average.
   */
  full: boolean;
  /**
   * Whether the objective was missed because of the generator, and not because of the server.
   */
  generator: boolean;
  kept: boolean;
  /**
   * The missed or unknown condition, in words; `None`: the objective is kept.
   */
  missed: string | null;
  /**
   * Offered, requests per second.
   */
  rate_rps: number;
  /**
   * Requests of the window: scheduled in it, or carried into it.
   */
  requests: number;
  response_p50_us: number | null;
  response_p99_us: number | null;
  throughput_rps: number;
  /**
   * Whether the load was too short for a percentile of the objective. If so, the objective is
   * neither kept nor missed.
   */
  too_short: boolean;
}
/**
 * Result of one arm of the run: a subject under one set of conditions.
 */
export interface SubjectResult {
  /**
   * The subject's back ends, in the order of their starts.
   */
  backends: BackendResult[];
  /**
   * Program of the subject's busiest process; `None`: not read, or not readable.
   */
  binary: Binary | null;
  build: BuildResult | null;
  /**
   * Every check, summarized over all starts, before, during and after the load.
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
   * Name of the arm: `name` or `name/variant` if the subject has one arm.
   */
  id: string;
  /**
   * Activity of the subject while it was idle; `None`: not measured.
   */
  idle: Idle | null;
  language: string;
  /**
   * Responses and CPU time of each start over its whole life.
   */
  lifetimes: Lifetimes;
  /**
   * Limits as read back in the arm's first start.
   */
  limits: LimitReadBack[];
  /**
   * Memory per connection, and per request in flight.
   */
  memory: MemorySlopes;
  name: string;
  /**
   * Cost of the probes to the subject; `None`: not measured.
   */
  probe_price: PriceResult | null;
  /**
   * Reason why the subject was skipped; `None`: not skipped.
   */
  skipped: string | null;
  /**
   * Start-up times over the starts, in milliseconds.
   */
  startup_ms: Startup;
  /**
   * Number of starts whose processes had to be killed.
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
   * Hash of the definition and of the inputs of the build; `null`: dyno did not start the
   * subject, or did not build it.
   */
  version_id: SubjectVersion | null;
  /**
   * Durations of the warm-ups.
   */
  warm_up_s: Repeated;
  /**
   * Warm-up of each start before its first trial; empty if the plan has no warm-ups
   * of starts.
   */
  warm_ups: WarmUpResult[];
}
/**
 * A back end of a subject, over all of its starts.
 */
export interface BackendResult {
  build: BuildResult | null;
  /**
   * Limits as read back in the back end's first start.
   */
  limits: LimitReadBack[];
  name: string;
  /**
   * Time to load the back end's data.
   */
  seeded_ms: Repeated;
  startup_ms: Startup;
  stop_ms: Repeated;
  title: string;
  version: string | null;
}
/**
 * Cost of the build that made the artefact. It may be an earlier build (`cached`).
 */
export interface BuildResult {
  artefact_bytes: number;
  cached: boolean;
  cpu_s: number | null;
  wall_s: number;
}
/**
 * A requested limit, and its value as the kernel reports it.
 */
export interface LimitReadBack {
  asked: string;
  name: LimitKind;
  /**
   * Value as the kernel reports it. `None`: the limit could not be set, for the reason in
   * `reason`.
   */
  read_back: string | null;
  reason: string | null;
}
/**
 * Start-up times in milliseconds from exec, one value per start.
 */
export interface Startup {
  /**
   * CPU time that the subject used until it was ready, in milliseconds.
   */
  cpu: Repeated;
  /**
   * Until the first response with the correct status was complete; empty if the subject defines
   * readiness in another way.
   */
  first_answer: Repeated;
  /**
   * Until the kernel accepted a connection.
   */
  listening: Repeated;
  /**
   * Until the subject was ready, however it defines readiness.
   */
  ready: Repeated;
}
/**
 * Properties of a program, from its file and its process's mappings.
 */
export interface Binary {
  /**
   * Its memory allocator: jemalloc, mimalloc, tcmalloc, Go's, musl's, glibc's; `None`: not
   * recognized.
   */
  allocator: string | null;
  bytes: number;
  debug_info: boolean;
  extensions: {
    [k: string]: number;
  };
  /**
   * Number of instructions in its code, in all and per extension of x86-64 (SSE3 and later).
   * Code that is selected at run time is included. `None`: not an x86-64 program.
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
  /**
   * Whether the file has the names of its functions.
   */
  symbols: boolean;
}
/**
 * Result of one contract check over one protocol of a subject, over all starts, before, during and
 * after the load.
 */
export interface CheckSummary {
  /**
   * The request; `null`: the archive does not have it.
   */
  asked: string | null;
  /**
   * Detail of the first failure, or of the first result if the check never failed. It has the
   * response, and for a failure also the request and the expectation.
   */
  detail: string;
  /**
   * The expected response; `null`: the archive does not have it.
   */
  expected: string | null;
  failed: number;
  /**
   * Whether the check failed only because its response came late, or because an overloaded
   * server sent no response.
   */
  late: boolean;
  /**
   * Name, followed by the protocol if it is not plain HTTP/1.1: `json`, `json over h2`.
   */
  name: string;
  /**
   * Whether the check never failed.
   */
  ok: boolean;
  passed: number;
  protocol: Protocol;
  /**
   * Whether the check failed, and the subject's file allows this failure.
   */
  waived: boolean;
}
/**
 * Planned conditions of an arm. The environment is omitted, because it may contain secrets.
 */
export interface ConditionsResult {
  isolation: Isolation;
  /**
   * The arm's value on the varied scale, such as a number of CPUs; `None`: no scale.
   */
  level: number | null;
  limits: Limits;
  /**
   * Changes to the run's load; `null` fields are unchanged.
   */
  load: LoadChanges;
  /**
   * Probes in addition to the probes that always run.
   */
  observe: Probe[];
  placement: Placement;
  /**
   * Values of `{request.NAME}` in requests to the subject, by name; `null`: the name suggests a
   * secret.
   */
  request: {
    [k: string]: string | null;
  };
}
/**
 * Resource limits of a part of a start. `None`: no limit.
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
 * Settings of an arm that override the plan's load. `None`: the plan's setting applies.
 */
export interface LoadChanges {
  driver: DriverKind | null;
  http2: Http2 | null;
  /**
   * Number of requests after which a connection is replaced.
   */
  requests_per_connection: number | null;
  spin: Spin | null;
  threads: number | null;
}
/**
 * CPUs of the subject and of the generator.
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
   * Name of the program that wrote `log_tail`: the subject's arm, or a back end; `null`: no log
   * was stored.
   */
  log_of: string | null;
  /**
   * Last lines that the server or a back end wrote; `None`: no log was stored.
   */
  log_tail: string | null;
  message: string;
  /**
   * The only protocol that the failure affects; `null`: the failure affects the whole start.
   */
  protocol: Protocol | null;
  /**
   * Repeat, counted from 1; 0: the build failed.
   */
  repeat: number;
}
/**
 * Activity of a server that received no requests, before its first load.
 */
export interface Idle {
  /**
   * CPU time per second.
   */
  cpus: number | null;
  length_s: number;
  /**
   * Wake-ups of the server's threads per second.
   */
  wakeups_per_s: number | null;
}
/**
 * Lifetimes of an arm's starts. Empty without a cgroup (the kernel's group of processes), because
 * only a cgroup includes the CPU time of ended processes.
 */
export interface Lifetimes {
  /**
   * Price of the CPU time of 10⁹ requests of a life with the median cost, in the currency of
   * `[cost] per_vcpu_hour`; `null`: the suite names no price.
   */
  cost_per_billion_requests: number | null;
  /**
   * CPU time ÷ correct responses at the end of each whole life, in microseconds. Start-up and
   * warm-up are included.
   */
  cpu_us_per_request: Repeated;
  starts: Lifetime[];
}
/**
 * The life of one start.
 */
export interface Lifetime {
  /**
   * Points in order of time: the server was ready, the server was warm, and the end of each
   * trial. The last point is before the first load whose responses are not recorded.
   */
  points: LifePoint[];
  /**
   * Number of the repeat, counted from 1.
   */
  repeat: number;
  /**
   * Whether the life includes all trials of its launch, so that it is comparable with others. It
   * does not if the launch was interrupted or resumed, or if responses before its last trial are
   * not recorded (in loads for a profile, a search or the price of probes, and in a load that
   * ended because the server of a load at the same time failed).
   */
  whole: boolean;
}
/**
 * Totals of a start up to one instant.
 */
export interface LifePoint {
  /**
   * CPU time since exec, in seconds.
   */
  cpu_s: number;
  /**
   * Correct responses since exec, including responses in warm-ups, until the CPU time was read.
   */
  requests: number;
  /**
   * Index among the plan's steps.
   */
  step: number | null;
  /**
   * Index of the ended trial's workload in the plan; `null`: before the end of the first trial.
   */
  workload: number | null;
}
/**
 * Slopes of a server's memory over the steps of a repeat, one slope per repeat: bytes per
 * additional connection or request. A repeat is one start of the server. Servers seldom release
 * memory, so the order of the steps affects the slopes.
 */
export interface MemorySlopes {
  per_connection: Repeated;
  per_request_in_flight: Repeated;
}
/**
 * Cost of probes to a server. Ratios are with probes ÷ without probes, of two neighbouring slices.
 */
export interface PriceResult {
  /**
   * Ratio of the server's CPU time per complete response.
   */
  cpu_per_request: Repeated;
  /**
   * Reason why the cost is unknown; `None`: known.
   */
  failure: string | null;
  probes: Probe[];
  /**
   * Ratio of complete responses per second.
   */
  throughput: Repeated;
}
/**
 * The warm-up of one start of an arm.
 */
export interface WarmUpResult {
  ended: WarmUpEnd;
  /**
   * Requests without a correct response, over all workloads. The steps' numbers exclude them.
   */
  failed: number;
  /**
   * Whether both throughput and CPU time per request decided when the server was warm. If not,
   * throughput alone decided.
   */
  judged_by_cpu: boolean;
  /**
   * Number of the repeat, counted from 1.
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
   * Share of the server's CPU time that compiler threads used: 0 to 1. `None`: unknown, or no
   * CPU time was used.
   */
  jit_share: number | null;
  /**
   * Seconds since the warm-up began.
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
 * One cell over all its repeats. Invalid trials are excluded from all metrics except the share of
 * errors, and those that only the generator limited are included in the cost of a request
 * ([`crate::metric::TrialSelection`]).
 */
export interface Summary {
  /**
   * The subject's back ends.
   */
  backends: BackendSummary[];
  /**
   * Caveats of severity `warning` or `invalid` that any repeat has.
   */
  caveats: StepCaveat[];
  cell: CellKey;
  connections: number;
  /**
   * Requests in flight: connections × streams × pipeline.
   */
  in_flight: number;
  inside: Inside;
  invalid: number;
  /**
   * Bottleneck of most repeats; without a majority, the most frequent one with low confidence.
   */
  limiter: Resource;
  limiter_confidence: Confidence;
  limiter_sentence: string;
  /**
   * Activity of the machine in the repeat of `use_table`.
   */
  machine: MachineResult;
  /**
   * Every known metric by its key.
   */
  metrics: {
    [k: string]: OverStep;
  };
  /**
   * Number of the pass, counted from 1, which distinguishes otherwise equal steps.
   */
  pass: number;
  pipeline: number;
  /**
   * Requests per second offered; `None` in a closed loop, or if the rate changes.
   */
  rate: number | null;
  /**
   * Unanswered requests. A percentile of the response time that lies among them is longer than
   * their `longest_wait`.
   */
  response_unanswered: StepUnanswered;
  /**
   * `None`: the rate does not change, or the loop is closed.
   */
  schedule: RateChange | null;
  /**
   * Index among the plan's steps.
   */
  step: number;
  streams: number;
  subject: string;
  trials: number;
  /**
   * USE table (utilisation, saturation, errors) of the valid repeat with the median throughput,
   * or of the first repeat.
   */
  use_table: UseRow[];
  workload: string;
}
/**
 * Resources that a back end used, over the valid repeats of a cell.
 */
export interface BackendSummary {
  cpu_share: Repeated;
  /**
   * CPU time per response of the subject.
   */
  cpu_us_per_request: Repeated;
  cpu_utilisation: Repeated;
  /**
   * Anonymous memory (resident if only that is known), highest sample of the window.
   */
  memory_bytes: Repeated;
  name: string;
}
/**
 * Observations inside a server, over the valid repeats of a cell.
 */
export interface Inside {
  by_thread_role: {
    [k: string]: RoleSummary;
  };
  /**
   * Metrics that the server's runtime reports; empty: not requested, or none reported.
   */
  runtime: RuntimeSummary[];
  /**
   * System calls by name; empty: not counted. A name that is missing in a repeat counts as 0
   * there.
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
   * Share of the threads' time by state: 0 to 1. Empty: states were not observed.
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
   * Name without the suffix of its unit: `gc`, `event_loop`, `heap`.
   */
  name: string;
  /**
   * Unit. Periods of time are shares of the window.
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
   * Mean return value of the calls that did not fail, such as bytes, events or woken threads.
   */
  returned_mean: Repeated;
}
/**
 * Activity of the whole machine between the samples nearest to the measured window's edges.
 * `None`: the kernel does not show it, or it was not read.
 */
export interface MachineResult {
  /**
   * The network device with the highest utilisation; `None`: no device reports its capacity.
   */
  busiest_link: BusiestLink | null;
  context_switches_per_s: number | null;
  disk_read_bytes_per_s: number | null;
  /**
   * Share of the time in which the busiest disk had work.
   */
  disk_utilisation: number | null;
  disk_written_bytes_per_s: number | null;
  /**
   * Packets and connections that the machine dropped, from before the load to after it. `None`:
   * not read.
   */
  drops: MachineDrops | null;
  /**
   * Frequency of the first CPU, the mean of the samples.
   */
  frequency_mhz: number | null;
  interrupts_per_s: number | null;
  /**
   * Over all network devices except loopback.
   */
  network_in_bytes_per_s: number | null;
  network_out_bytes_per_s: number | null;
  /**
   * Processes outside of the run that used a fiftieth of a CPU or more, from before the load to
   * after it. The process with the most CPU time is first.
   */
  others: OtherCpu[] | null;
  /**
   * Shares of the time in which a thread waited for a CPU, for memory, for a disk (PSI): 0 to 1.
   */
  pressure_cpu: number | null;
  pressure_io: number | null;
  pressure_memory: number | null;
  /**
   * Threads that ran or were ready to run, on all CPUs: the mean of the samples.
   */
  runnable_mean: number | null;
  /**
   * Longest time for which a CPU (or package) was throttled for heat, as a share of the time
   * from before the load to after it: at most 1. The kernel adds a throttled time when it ends,
   * so the throttling may have begun before the load.
   */
  throttled_for_heat: number | null;
}
/**
 * A network device and its utilisation.
 */
export interface BusiestLink {
  /**
   * Capacity in each direction.
   */
  bits_per_s: number;
  name: string;
  /**
   * Used share of the capacity in the busier direction: 0 to 1. It counts frames without the
   * gaps between them, so a full Ethernet with large frames is at 0.98.
   */
  utilisation: number;
}
/**
 * Packets and connections that the machine dropped between two readings. `None`: the kernel does
 * not show that counter.
 */
export interface MachineDrops {
  /**
   * Packets dropped because the receive queue of their CPU was full.
   */
  backlog: number | null;
  /**
   * Neighbours (ARP, NDP) that did not fit in the table.
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
   * Highest number of entries in the tracking table over the samples, and the limit.
   */
  tracking_entries: number | null;
  /**
   * Entries of connections without a reply that were evicted from the tracking table.
   */
  tracking_evictions: number | null;
  tracking_most: number | null;
}
/**
 * A process outside of the run.
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
 * A metric over the repeats of one cell.
 */
export interface OverStep {
  /**
   * Number of repeats in which the percentile lies among the unanswered requests, which rank
   * above every known value.
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
   * `None`: no values, or a repeat's percentile lies among unanswered requests.
   */
  max: number | null;
  /**
   * `None`: no values, the middle repeat's percentile lies among unanswered requests, or some
   * repeats have too few samples for the percentile.
   */
  median: number | null;
  min: number | null;
  /**
   * Known values of the repeats, in the order of the blocks.
   */
  values: number[];
}
/**
 * The unanswered requests of one cell over its valid repeats, and in how many repeats percentiles
 * lie among them.
 */
export interface StepUnanswered {
  /**
   * The longest known wait over unanswered requests and correct responses, in microseconds.
   */
  longest_wait: number | null;
  /**
   * Repeats in which the percentile lies among the unanswered.
   */
  p50: number;
  p90: number;
  p99: number;
  /**
   * Share of all requests of those repeats: 0 to 1.
   */
  share: number;
}
/**
 * A row of the table: one resource.
 */
export interface UseRow {
  errors: UseCell;
  resource: string;
  saturation: UseCell;
  utilisation: UseCell;
}
/**
 * A measured value, or the reason why there is none.
 */
export interface UseCell {
  /**
   * Meaning of the value. Without a value: the reason why it is unknown.
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
 * The best subject of a tie group, and the subjects whose peak throughput does not differ
 * significantly from it.
 */
export interface Tie {
  /**
   * The best subject of the group.
   */
  best: string;
  /**
   * Subjects of the tie, including the best, whose peak is a lower bound. They may be above the
   * others.
   */
  lower_bounds: string[];
  /**
   * Whether the subjects in `with` do not differ significantly from each other either.
   */
  mutual: boolean;
  /**
   * Subjects that do not differ significantly from the best, best first; at least one.
   */
  with: string[];
  workload: string;
}
/**
 * The result of one trial: one repeat of an arm, workload and step.
 */
export interface TrialResult {
  /**
   * Resources that the subject's back ends used. `per_request` is per response of the subject.
   */
  backends: BackendUse[];
  /**
   * Number of the block, counted from 1. A block has one repeat of each arm, so the number is
   * equal to `repeat`.
   */
  block: number;
  caveats: Caveat[];
  cell: CellKey;
  /**
   * `None`: no other server was loaded at the same time.
   */
  duet: DuetResult | null;
  /**
   * Share of the window's requests without a correct response: 0 to 1. `None`: the window had no
   * request, for example because the server failed in the warm-up.
   */
  error_share: number | null;
  limiter: Limiter;
  load: LoadResult;
  machine: MachineResult;
  /**
   * Planned place of the trial in order of time, counted from 1 over the whole plan. A resumed
   * run measures missing trials later.
   */
  place: number;
  /**
   * Whether every connection was refused by a control that is expected to refuse. If so, the
   * trial has no responses, as intended.
   */
  refused: boolean;
  /**
   * Number of the repeat, counted from 1.
   */
  repeat: number;
  /**
   * Resources that the subject used. Empty: the subject was not monitored.
   */
  server: ServerUse;
  /**
   * Levels of throughput within the measured window; `None`: too few intervals, or other servers
   * were loaded at the same time.
   */
  steadiness: Steadiness | null;
  step: StepResult;
  subject: string;
  /**
   * Name of the arm. If the subject has one arm: the subject's id, `name` or `name/variant`.
   */
  subject_id: string;
  /**
   * `None`: the load did not take turns.
   */
  turns: TurnsResult | null;
  valid: boolean;
  variant: string | null;
  workload: string;
}
/**
 * Resources that a back end used in one trial.
 */
export interface BackendUse {
  /**
   * Share of the CPU time that a request cost the subject and its back ends together: 0 to 1.
   * `null`: the CPU time of the subject or a back end is unknown.
   */
  cpu_share: number | null;
  name: string;
  server: ServerUse;
  /**
   * Whether the back end has the same CPUs as the subject, and neither has a quota of CPU time.
   */
  shares_cpus: boolean;
}
/**
 * The server's use of resources. `None`: the value could not be measured. A caveat of the trial
 * gives the reason.
 */
export interface ServerUse {
  /**
   * Share of one CPU that the server's busiest thread used.
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
   * `None`: system calls were not counted.
   */
  calls: Calls | null;
  context_switches_involuntary: number | null;
  context_switches_voluntary: number | null;
  /**
   * CPU time that the quota and the CPUs allow in the window.
   */
  cpu_allowed_s: number | null;
  /**
   * Source of the split of CPU time; `None`: no split is known.
   */
  cpu_split_by: SplitBy | null;
  /**
   * As for `cpu_user_s`.
   */
  cpu_sys_s: number | null;
  /**
   * Per complete response, correct or incorrect.
   */
  cpu_us_per_request: number | null;
  /**
   * `None` also if a thread or process ended before its user and system time were read. In this
   * case, only their sum is known (`cpus`).
   */
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
   * Memory that the server accessed in the window, with shared pages once per process. `None`:
   * not observed (the probe `working-set`).
   */
  memory_accessed_bytes?: number | null;
  /**
   * Anonymous memory: the highest sample of the window. If the control group reports 0 (cgroup
   * v1 charges in batches), the sum over its processes.
   */
  memory_anon_bytes: number | null;
  /**
   * Page cache, including shared memory: the highest sample of the window.
   */
  memory_file_bytes: number | null;
  /**
   * Memory of the server itself: anonymous and shared memory, or resident memory if only that is
   * known.
   */
  memory_held_bytes: number | null;
  /**
   * Memory that the kernel uses for the server (stacks, page tables, kernel objects, socket
   * buffers): the highest sample of the window.
   */
  memory_kernel_bytes: number | null;
  /**
   * `memory_held_bytes` × time per response, in MB·s (10⁶ bytes × s).
   */
  memory_mb_s_per_request: number | null;
  /**
   * Highest memory of the server's control group in the window, including page cache.
   */
  memory_peak_bytes: number | null;
  /**
   * Shared memory, memfd, and files of a tmpfs: part of `memory_file_bytes`. Without a control
   * group: resident shared memory. It is the highest sample of the window.
   */
  memory_shmem_bytes?: number | null;
  migrations: number | null;
  /**
   * Counters of the server's network namespace, which may be shared with others. `None`: not
   * read.
   */
  network: Network | null;
  /**
   * Processes that the kernel killed for lack of memory in the window; `None`: unknown.
   */
  oom_kills: number | null;
  /**
   * CPU time of the whole machine that neither the server nor dyno used. The kernel's own
   * threads are excluded if they are visible, and interrupts if the kernel bills them to no
   * program.
   */
  others_cpu_s: number | null;
  /**
   * Upper bound of the part of `others_cpu_s` that was used on the server's CPUs.
   */
  others_on_its_cpus_s: number | null;
  page_faults_major: number | null;
  /**
   * Page faults without (minor) and with (major) reading from a disk, of threads that lived
   * through the window.
   */
  page_faults_minor: number | null;
  per_request: PerRequest;
  /**
   * Time spent on taking the samples.
   */
  probe_s: number | null;
  /**
   * Processes at the end of the window.
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
   * Metrics that the server's runtime reports; `None`: not requested, or none reported.
   */
  runtime: Runtime | null;
  /**
   * TCP sockets, read once in the window; `None`: not read, or there are none.
   */
  sockets: Sockets | null;
  /**
   * Share of the machine's CPU time that the hypervisor took.
   */
  steal_share: number | null;
  /**
   * Threads at the end of the window.
   */
  threads: number | null;
  /**
   * Time for which the CPU quota throttled the server. The kernel sums it over CPUs, so it may
   * exceed the window.
   */
  throttled_s: number | null;
  /**
   * `None` without a quota.
   */
  throttling: Throttling | null;
  /**
   * Threads and processes that ended before their counters were read. `None`: no counter is
   * unknown for this reason.
   */
  unread_counters?: UnreadCounters | null;
  /**
   * Number of times that the server's threads were woken up, and moved to another CPU.
   */
  wakeups: number | null;
  /**
   * Length of the observed window: between the samples nearest to the measured window's edges.
   */
  window_s: number;
  /**
   * The threads that served, and their time by state; `None`: states were not observed.
   */
  working: Working | null;
}
/**
 * Resources that all threads of one role used in the window.
 */
export interface RoleUse {
  /**
   * CPU time, including that of threads that ended in the window if their end was observed.
   */
  cpu_s: number;
  /**
   * Per complete response, correct or incorrect.
   */
  cpu_us_per_request: number | null;
  /**
   * Threads that ended in the window; `None`: ends of threads were not observed.
   */
  ended: number | null;
  run_delay_s: number | null;
  /**
   * Seconds in each state, summed over threads: `running`, `runnable`, `lock`, `network`,
   * `disk`, `sleep`, `other`. Their sum is the window times the number of threads that lived
   * through it. `None`: states were not observed.
   */
  states_s: {
    [k: string]: number;
  } | null;
  /**
   * Number of threads at the end of the window.
   */
  threads: number;
  /**
   * Number of times that threads of the role were woken up.
   */
  wakeups: number | null;
}
/**
 * The system calls of a server in the measured window.
 */
export interface Calls {
  /**
   * Complete responses in the counted time: the divisor of all values per response.
   */
  answers: number;
  /**
   * Calls by name. Futex calls are listed by purpose, such as `futex(wait)`.
   */
  by_name: {
    [k: string]: Call;
  };
  /**
   * Time in which calls were counted: the whole window, or slices of it.
   */
  counted_s: number;
  /**
   * Mean number of events that a wait for events returned (`epoll_wait`, `poll`,
   * `io_getevents`). For `io_uring_enter`, the mean number of submissions.
   */
  events_per_wait: number | null;
  /**
   * All calls.
   */
  per_response: number;
  /**
   * All calls, per second of counted time.
   */
  per_s: number;
  /**
   * `None`: the server made no reads (or no writes), or too many calls have no name (`other`),
   * and may be reads (or writes).
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
   * Part of the errors that were EAGAIN: there was nothing to read or no space to write.
   */
  again: number | null;
  count: number;
  /**
   * `None`: return values were not observed, as for all fields below.
   */
  errors: number | null;
  per_response: number;
  /**
   * Mean result of the calls that did not fail: bytes of reads and writes, events of waits,
   * threads woken. `None`: the call returns no amount.
   */
  returned_mean: number | null;
}
/**
 * All reads, or all writes, regardless of their names.
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
 * The server's use between two samples, for charts over time.
 */
export interface ServerInterval {
  context_switches_per_s: number | null;
  /**
   * CPU time ÷ time between the samples: in CPUs.
   */
  cpu: number | null;
  /**
   * CPU use of the JIT compiler's threads, in CPUs. `None`: no thread has the name of a known
   * compiler.
   */
  cpu_jit: number | null;
  cpu_sys: number | null;
  cpu_user: number | null;
  end_s: number;
  /**
   * CPU use of all of dyno's threads, in CPUs.
   */
  generator_cpu: number | null;
  /**
   * Anonymous memory at the interval's end; resident memory if no anonymous memory can be read.
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
 * TCP counters of the measured window; `None`: the kernel has no such counter.
 */
export interface Network {
  delayed_acks: number | null;
  /**
   * Connections that a listener dropped, for any reason.
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
   * Connections that were dropped because the queue of half-open connections was full, without
   * cookies.
   */
  syn_queue_drops: number | null;
}
/**
 * The server's use per complete response, correct or incorrect; `None` where it could not be
 * measured.
 */
export interface PerRequest {
  context_switches: number | null;
  cpu_sys_us: number | null;
  cpu_user_us: number | null;
  page_faults: number | null;
  run_delay_us: number | null;
  /**
   * System calls by name; futex calls by their purpose.
   */
  syscalls: {
    [k: string]: number;
  } | null;
  wakeups: number | null;
}
/**
 * Metrics that the runtime reported, between the first and the last reading within the measured
 * window.
 */
export interface Runtime {
  /**
   * Time from the first to the last reading, in seconds. In turns: time between successive
   * readings in the server's own turns.
   */
  between_s: number;
  /**
   * Maximum of each of the other values over the readings.
   */
  highest: {
    [k: string]: number;
  };
  /**
   * Growth per second of counters (`NAME_total`). For times (`NAME_seconds_total`) the growth is
   * a share of the time. It exceeds 1 if several threads add to the counter.
   */
  per_second: {
    [k: string]: number;
  };
  /**
   * Processes that reported metrics; values are sums over them.
   */
  processes: number;
  readings: number;
  /**
   * Busy share (0 to 1), by name, of values that are reported as active and idle amounts
   * (`NAME_active_…_total`, `NAME_idle_…_total`).
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
   * Shares of the connections with TCP_NODELAY, and with TCP_CORK: 0 to 1. `None`: this user
   * cannot read them.
   */
  nodelay: number | null;
  /**
   * Open files of the process that has the smallest part of its limit left; `None`: this user
   * cannot read them.
   */
  open_files: OpenFiles | null;
  /**
   * Segments that the server retransmitted on these connections since they were opened.
   */
  retransmitted: number;
  /**
   * Shares of the time with data to send in which the client's receive window, or the server's
   * own send buffer, delayed sending: 0 to 1. `None`: the server had nothing to send.
   */
  window_limited: number | null;
}
/**
 * A listening socket and its queue.
 */
export interface Listener {
  backlog: number;
  port: number;
  /**
   * Connections that wait to be accepted, and the maximum (`backlog`).
   */
  queued: number;
}
/**
 * Open files of a process, and their limit.
 */
export interface OpenFiles {
  /**
   * Maximum of `open` (RLIMIT_NOFILE).
   */
  limit: number;
  /**
   * Sockets, files and all other descriptors.
   */
  open: number;
}
/**
 * Periods of a CPU quota, and the throttled ones among them.
 */
export interface Throttling {
  periods: number;
  throttled_periods: number;
}
/**
 * Threads and processes that ended before their counters were read, and the counters that are
 * unknown for this reason.
 */
export interface UnreadCounters {
  /**
   * CPU time of ended threads and processes in the window; `None`: unknown.
   */
  cpu_s: number | null;
  /**
   * Processes in a sample of the window that are missing in its last sample.
   */
  processes: number;
  /**
   * Threads in a sample of the window that are missing in its last sample.
   */
  threads: number;
  /**
   * Names of the unknown counters.
   */
  unknown: string[];
}
/**
 * The serving threads (`working` in JSON): the threads of roles that serve, if they lived through
 * the window and did not sleep through it. Threads of compilers, garbage collectors and virtual
 * machines are excluded.
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
 * A trial whose load ran at the same time as the loads of other subjects.
 */
export interface DuetResult {
  /**
   * Start of the load, on the machine's monotonic clock. Loads with the same start ran at the
   * same time.
   */
  began_ns: number;
  /**
   * Names of the other subjects, as far as their trials are known.
   */
  beside: string[];
  /**
   * Mean number of CPUs that the servers of the duet used together; `None`: the number of a
   * server is unknown.
   */
  cpus: number | null;
  /**
   * Whether most repeats of this step had the same set of subjects. The cost of a request
   * depends on the other subjects, so a repeat with a different set is not comparable.
   */
  is_usual: boolean;
  /**
   * Number of loads that ran at the same time, including this one.
   */
  loads: number;
  /**
   * Number of loads that were planned for the same time.
   */
  planned: number;
  /**
   * Pieces of the measured window in order of time. Pieces with the same number are compared
   * with each other.
   */
  rounds: RoundResult[];
}
/**
 * A round of turns: two of each subject, in mirrored order (such as A, B, B, A).
 */
export interface RoundResult {
  /**
   * The subject's CPU time per response, between the samples nearest to the ends of the round.
   */
  cpu_us_per_request: number | null;
  /**
   * Correct responses per second of the subject's own turns, without the first quarter of each
   * turn.
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
   * The observation that would refute the limiter, as a sentence. Empty: the limiter is unknown.
   */
  refutation: string;
  resource: Resource;
  /**
   * The claim. If the confidence is not high, its first word is the confidence.
   */
  sentence: string;
}
/**
 * The result of one load, with the caveats about it. docs/terminology.md defines the times and
 * counts.
 */
export interface LoadResult {
  /**
   * Address of all connections; `None`: not recorded.
   */
  address?: string | null;
  bytes: Bytes;
  caveats: Caveat[];
  /**
   * Highest throughput of this generator on this machine (`dyno calibrate`); `None`: unknown.
   */
  ceiling: Ceiling | null;
  /**
   * Responses that were checked in full.
   */
  checked: number;
  client: Client;
  config: Config;
  /**
   * Time to connect, over the whole load.
   */
  connect_us: Percentiles;
  /**
   * Connections that were lost or could not be opened, by the outcome of the oldest exchange on
   * them.
   */
  connection_failures: {
    [k: string]: number;
  };
  connections: Connections;
  /**
   * Outcomes of the exchanges after the window with which its visits and pages continued. No
   * other number includes them. `null`: no such exchange.
   */
  continued?: {
    [k: string]: number;
  } | null;
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
   * Evenness of the sent requests; `None` in a closed loop, which has no schedule.
   */
  gaps: GapsResult | null;
  /**
   * `null`: HTTP/2 was neither requested nor used.
   */
  http2: Http2Result | null;
  in_flight: InFlight;
  intervals: IntervalResult[];
  /**
   * Response time by the kernel's receive stamps. A response without a stamp is included as
   * unanswered. `None`: stamps were not requested, or no response had one.
   */
  kernel_response_time_us: Percentiles | null;
  /**
   * Outcomes of the exchanges of the measured window.
   */
  outcomes: {
    [k: string]: number;
  };
  /**
   * `null`: no pages were loaded.
   */
  pages: Pages | null;
  /**
   * Protocol violations in responses, with counts.
   */
  protocol_errors: {
    [k: string]: number;
  };
  /**
   * One entry per request of a mix; empty if there is only one, or if the mix is too large to be
   * recorded by request.
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
   * Response time by quantile, for charts: `[quantile, µs]`. It ends where too few samples are
   * left.
   */
  spectrum_us: [number, number][];
  tcp: Tcp;
  /**
   * Responses that met every expectation and arrived within the window, per second.
   */
  throughput_rps: number;
  /**
   * Progress of responses when their requests timed out, over the whole load; `None`: none timed
   * out.
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
   * Ages of the exchanges without a correct response, by outcome: from intended to their end, or
   * to the end of the load.
   */
  unanswered_us: {
    [k: string]: Percentiles;
  };
  /**
   * Failures of full checks, with counts.
   */
  unexpected: {
    [k: string]: number;
  };
  valid: boolean;
  /**
   * Absent: no sequence, or an open loop.
   */
  visits?: Visits | null;
}
/**
 * Bytes on the wire within the window, heads included, and bytes of bodies alone.
 */
export interface Bytes {
  body_received: number;
  received: number;
  /**
   * Complete responses, correct or incorrect, that arrived within the window, including
   * responses to earlier requests. It is the divisor for bytes per response.
   */
  responses: number;
  sent: number;
}
/**
 * Highest throughput of the generator on this machine, as `dyno calibrate` measured it.
 */
export interface Ceiling {
  /**
   * Date of the measurement.
   */
  measured: string;
  throughput_rps: number;
}
/**
 * The generator's own cost within the measured window.
 */
export interface Client {
  /**
   * Share of one CPU that the busiest thread used, without polling.
   */
  busiest_thread_utilisation: number;
  /**
   * CPU time spent polling instead of sleeping. It is a part of `cpu_user_s` and `cpu_sys_s`.
   */
  cpu_spun_s: number;
  cpu_sys_s: number;
  /**
   * CPU time per complete response, including polling. `None`: no responses.
   */
  cpu_us_per_exchange: number | null;
  cpu_user_s: number;
  driver: DriverKind;
  loop_lag_us: Percentiles;
  /**
   * Unused capacity of the generator's CPUs.
   */
  room: Room;
  rss_peak_bytes: number | null;
  /**
   * Time that threads were runnable but waited for a CPU, summed; `None`: the kernel does not
   * report it.
   */
  run_delay_s: number | null;
  /**
   * Mean number of CPUs used for polling: `cpu_spun_s` ÷ length of the window. `None`: the
   * window has no length.
   */
  spun_share: number | null;
  /**
   * Share of one CPU that each thread used, without polling, in the order of threads.
   */
  thread_utilisation: number[];
  threads: number;
  wake_lag_us: Percentiles;
}
/**
 * A distribution of times in microseconds. `count`, `min`, `mean`, `stdev` and `max` cover correct
 * responses. Percentiles cover all requests of the window: unanswered requests rank above every
 * correct response. A percentile is `None` if it falls among them, or if fewer than 20 samples lie
 * beyond it.
 */
export interface Percentiles {
  /**
   * 95 % intervals of the percentiles p50 to p99.9, by name; empty unless requested. They assume
   * independent requests, but a stall affects many at once. The real uncertainty of one load's
   * percentiles is at least this large.
   */
  bounds_us?: {
    [k: string]: Bounds;
  };
  count: number;
  /**
   * The longest known wait over correct responses and unanswered requests, microseconds.
   * Percentiles that fall among the unanswered are longer.
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
   * Requests of the window that got no correct response. 0: the distribution covers events that
   * cannot fail.
   */
  unanswered: number;
}
/**
 * Values between which a percentile lies, microseconds; `None`: the sample is too small for this
 * bound, or the bound is among the unanswered requests.
 */
export interface Bounds {
  high: number | null;
  low: number | null;
}
/**
 * The CPUs of the generator over the window, and their unused capacity.
 */
export interface Room {
  /**
   * Share of the time of `cpus` that any program used or the hypervisor took, without polling.
   * `None`: the kernel does not report it, or the window is too short.
   */
  busy: number | null;
  /**
   * CPUs on which the generator's threads were allowed to run. `None`: not recorded.
   */
  cpus: number[] | null;
  /**
   * Largest share of a CPU that the generator needed, without polling. With a value near 1,
   * there is no headroom. If the kernel bills the time of interrupts to no program, interrupts
   * are included. It is the maximum of:
   *
   * - the work and the waiting of each thread
   * - the work of all threads of each CPU
   */
  need: number;
  /**
   * Part of `need_work` that was interrupts. `None`: the kernel bills them to programs, or
   * this is unknown.
   */
  need_interrupts?: number | null;
  /**
   * Part of `need` that was work, or interrupts; the rest was waiting for a CPU.
   */
  need_work: number;
  /**
   * Share of the time of `cpus` that other programs used; `None` as for `busy`.
   */
  others: number | null;
  /**
   * Other processes that used `cpus`, the process with the most CPU time first.
   */
  others_named: OtherProcess[];
  /**
   * CPU quota of dyno's own control group, in CPUs; `None`: no quota.
   */
  quota_cpus: number | null;
  /**
   * Share of the time of `cpus` that the hypervisor took (steal); `None` as for `busy`.
   */
  stolen: number | null;
  /**
   * Share of the quota's periods in which it throttled the generator; `None`: no quota, or no
   * period.
   */
  throttled: number | null;
  /**
   * Largest share of the window for which a thread waited for a CPU. `None`: the kernel does not
   * report it.
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
 * The requested load, with all defaults filled in.
 */
export interface Config {
  /**
   * `None` in a closed loop.
   */
  arrival: Arrival | null;
  /**
   * N, if one in N responses is checked in full. 1: every response is, 0: none is. `None`: no
   * expectation needs a full check.
   */
  check_one_in: number | null;
  connect_timeout_s: number;
  connections: number;
  driver: DriverKind;
  /**
   * Length of the measured window. `None`: the load ends after a number of requests.
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
   * Parts that an import omitted from the requests or changed in them. Absent: there are none.
   */
  import_changes?: ImportChange[];
  interval_s: number;
  /**
   * Maximum number of requests of an open loop that wait for a connection; further requests are
   * dropped. Absent: only the generator's own limit.
   */
  max_waiting?: number | null;
  method: string;
  model: Model;
  /**
   * Connections over which a visitor loads a page; `connections` then counts visitors. `None`:
   * no pages are loaded.
   */
  page_connections: number | null;
  /**
   * Pipeline depth: requests that are sent on a connection without waiting for responses.
   */
  pipeline: number;
  /**
   * Requested priority of the generator's workers.
   */
  priority: Priority;
  /**
   * `h1`, `h2`, `h2c` or `h2c-upgrade`; for a load without a suite also `auto`.
   */
  protocol: string;
  /**
   * Time over which connections are opened one by one; `None`: all before the load begins.
   */
  ramp_connections_s: number | null;
  /**
   * Requests per second offered. `None`: a closed loop, or a rate that changes.
   */
  rate: number | null;
  /**
   * Changes of the rate over time; `None`: the rate is one number.
   */
  rate_over_time: Segment[] | null;
  reconnect: Reconnect;
  /**
   * Total number of requests. `None`: as many as the duration allows.
   */
  requests: number | null;
  /**
   * The requests of a mix, page or sequence; empty if there is only one.
   */
  requests_mixed: MixedRequest[];
  /**
   * Requests after which a connection is replaced; `None`: no limit.
   */
  requests_per_connection: number | null;
  seed: number;
  /**
   * How visitors send the requests in order. Absent: the requests are no sequence.
   */
  sequence?: Sequence | null;
  spin: Spin;
  /**
   * Treatment of a server that is still warming up within the window.
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
   * Address of the request, or of a page's document. Empty: a mix of requests.
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
   * Requests of HTTP/1.1 that were sent again, because the server properly ended the pipeline
   * before it responded to them, or closed an idle connection when they arrived.
   */
  asked_again: number;
  /**
   * Those of `asked_again` that were the first on a connection after it had been idle. The
   * server closed the connection without a response to them, or answered 408.
   */
  asked_again_idle?: number;
  /**
   * Connections that the server closed, or announced to close (`Connection: close`). dyno closes
   * an announced connection without waiting for the server.
   */
  closed_by_server: number;
  closed_by_us: number;
  /**
   * Open at the end of the measured window.
   */
  established: number;
  opened: number;
  /**
   * Connections that were closed because they received bytes that belong to no request.
   */
  unsolicited: number;
  /**
   * Complete responses that had arrived earlier on the connections of `unsolicited`. It is
   * unknown which requests they belong to. `None`: no such connection.
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
   * Final responses of `answered_instead` with status 417.
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
 * The books of the measured window: counts of exchanges that were intended in it
 * (docs/terminology.md).
 */
export interface Exchanges {
  /**
   * In flight when the window of a closed loop opened: `carried_in + scheduled = started +
   * dropped`.
   */
  carried_in: number;
  /**
   * With a complete response, correct or incorrect.
   */
  completed: number;
  /**
   * Requests in flight at an early end of the load that had waited at most as long as the
   * slowest correct response. They are counted neither as failed nor as lost.
   */
  cut_off: number;
  dropped: number;
  /**
   * Ended without a complete response.
   */
  failed: number;
  in_flight_at_end: number;
  scheduled: number;
  /**
   * Sent, or waiting for a connection: `started = completed + failed + in_flight_at_end`.
   */
  started: number;
  /**
   * Complete responses to requests of the warm-up, which are not measured.
   */
  warmup_completed: number;
  /**
   * Requests of the warm-up without a correct response. No other number includes them.
   */
  warmup_failed: number;
}
/**
 * Evenness of the sent requests. A coefficient of variation (standard deviation over mean) is 0
 * for even gaps and 1 for the gaps of a Poisson process. Gaps are between requests of the same
 * generator thread. With n threads, each thread sends every nth request of the schedule: its gaps
 * are n times as long, and vary by 1/√n in a Poisson process.
 */
export interface GapsResult {
  achieved_cv: number | null;
  achieved_us: Percentiles;
  intended_cv: number | null;
  intended_us: Percentiles;
}
/**
 * HTTP/2 use within the measured window; `connections` and `streams` cover the whole load.
 * Quotients are `None` if the divisor is 0.
 */
export interface Http2Result {
  /**
   * Connections that spoke HTTP/2.
   */
  connections: number;
  /**
   * Connections that should speak HTTP/2 and did not: ALPN chose another protocol, or an upgrade
   * was declined.
   */
  fallen_back: number;
  /**
   * Frames received, by type. Types that did not occur are omitted.
   */
  frames_in: {
    [k: string]: number;
  };
  /**
   * Frames sent, by type.
   */
  frames_out: {
    [k: string]: number;
  };
  /**
   * Frames received, per response, by type.
   */
  frames_per_response: {
    [k: string]: number;
  };
  /**
   * Frames received, per received TCP segment with data.
   */
  frames_per_segment: number | null;
  /**
   * GOAWAY frames received, by code.
   */
  goaways: {
    [k: string]: number;
  };
  /**
   * GOAWAY frames sent, by code: dyno closed a connection, or the server broke a rule.
   */
  goaways_out: {
    [k: string]: number;
  };
  header_fields_in: HeaderBytes;
  header_fields_out: HeaderBytes;
  pings_in: number;
  /**
   * RST_STREAM frames received, by code.
   */
  resets_in: {
    [k: string]: number;
  };
  /**
   * RST_STREAM frames sent, by code.
   */
  resets_out: {
    [k: string]: number;
  };
  /**
   * Complete responses per receive. Above 1, several responses arrive together.
   */
  responses_per_receive: number | null;
  /**
   * Requests retried because the server had stated that it did not process them.
   */
  retried: number;
  /**
   * Received TCP segments with data, per response.
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
   * Time for which flow-control windows held up request bodies; `count` is the number of stalls.
   */
  window_stall_us: Percentiles;
  /**
   * WINDOW_UPDATE frames sent, per response.
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
   * Streams per connection that the load asks for.
   */
  asked: number;
  /**
   * Lowest limit that the server announced (SETTINGS_MAX_CONCURRENT_STREAMS); `None`: no limit.
   */
  granted: number | null;
  /**
   * Most streams that were open at once on one connection.
   */
  most: number;
}
/**
 * Both sides of Little's law (L = λ·W) over the measured window.
 */
export interface InFlight {
  /**
   * λ·W: the sum of all times within the window ÷ its length. The times are those of correct
   * responses and the ages of all others, from the distributions. A request that is missing in
   * the distributions is also missing in this product. `null` in older archives, and if only the
   * last level of a window is used.
   */
  by_littles_law: number | null;
  /**
   * L: the time integral of the number in flight ÷ length of the window. It counts starts and
   * ends of requests, without their times.
   */
  mean: number;
  /**
   * Largest error of `by_littles_law`, because histograms store three digits of each time.
   */
  resolution: number;
}
export interface IntervalResult {
  /**
   * Share of one CPU that the busiest generator thread used, without polling. `None`: unknown.
   */
  busiest_thread_utilisation: number | null;
  connections_open: number;
  /**
   * Requests that were dropped because too many were waiting for a connection.
   */
  dropped: number;
  end_s: number;
  /**
   * Exchanges that ended here without a correct response: failed, or with an incorrect response.
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
   * Requests started in this interval: sent, or waiting for a connection.
   */
  started: number;
  throughput_rps: number;
}
/**
 * The unanswered requests of one load, or of one interval, and the percentiles that lie among
 * them.
 */
export interface LoadUnanswered {
  /**
   * Whether the percentile lies among the unanswered. If so, it is longer than the longest known
   * wait.
   */
  p50: boolean;
  p90: boolean;
  p99: boolean;
  /**
   * Share of the window's requests: 0 to 1.
   */
  share: number;
}
/**
 * Pages: a document with its resources.
 */
export interface Pages {
  /**
   * Pages or visits whose requests all got a correct response.
   */
  completed: number;
  /**
   * Connections over which a page was loaded.
   */
  connections_each: number;
  /**
   * Pages or visits with a request that got no correct response.
   */
  failed: number;
  /**
   * Pages or visits that were completed within the window, per second.
   */
  per_second: number;
  /**
   * Resources of each page.
   */
  resources: number;
  /**
   * Time from the intended start of the first request to the end of the last one.
   */
  time_us: Percentiles;
  /**
   * Pages or visits that still waited for a response when the drain ended.
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
 * TCP segments over the measured window. `None`: the kernel does not count them.
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
 * Number of requests that timed out, by how much of the response had arrived.
 */
export interface Timeouts {
  /**
   * A part of a body without an announced length had arrived.
   */
  body_without_length: number;
  /**
   * Bytes of the body that had arrived for one request of `part_of_body` or
   * `body_without_length`.
   */
  example_bytes: number | null;
  /**
   * Announced length of the body of `example_bytes`; `None`: no length was announced.
   */
  example_length: number | null;
  /**
   * The whole head had arrived, and no byte of the body.
   */
  head: number;
  /**
   * No byte of the response had arrived.
   */
  nothing: number;
  /**
   * A part of a body of known length had arrived.
   */
  part_of_body: number;
  /**
   * A part of the head had arrived, or only interim responses.
   */
  part_of_head: number;
  /**
   * The request had not been sent, because the server had not read the bytes before it.
   */
  unsent: number;
}
/**
 * Negotiated TLS parameters, over the whole trial. If connections differ, the first value is
 * stored.
 */
export interface TlsUse {
  /**
   * The protocol that ALPN chose; `None`: the server chose none.
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
 * Visits: passes through a sequence.
 */
export interface Visits {
  /**
   * Pages or visits whose requests all got a correct response.
   */
  completed: number;
  /**
   * Pages or visits with a request that got no correct response.
   */
  failed: number;
  /**
   * Pages or visits that were completed within the window, per second.
   */
  per_second: number;
  /**
   * Requests of each visit.
   */
  steps: number;
  /**
   * Time from the intended start of the first request to the end of the last one.
   */
  time_us: Percentiles;
  /**
   * Pages or visits that still waited for a response when the drain ended.
   */
  unfinished: number;
}
/**
 * Levels of throughput within the measured window.
 */
export interface Steadiness {
  /**
   * Levels of the CPU time per response; `None`: unknown in some interval.
   */
  cost: CostSteadiness | null;
  /**
   * Instant from which the window is used, in seconds since the load began: if a server got
   * faster, only its last level is used. `None`: the whole window is used.
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
 * Levels of the CPU time per response within the measured window. A fall of the cost has the
 * pattern [`Pattern::WarmUp`].
 */
export interface CostSteadiness {
  pattern: Pattern;
  /**
   * Pieces of one level each, in order of time.
   */
  pieces: CostPiece[];
}
/**
 * A stretch of time with one cost per response.
 */
export interface CostPiece {
  /**
   * CPU time per response, the mean of the intervals; microseconds.
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
/**
 * The step that a trial measured.
 */
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
   * Number of the pass, counted from 1, which distinguishes otherwise equal steps.
   */
  pass: number;
  pipeline: number;
  /**
   * Requests per second offered; `None` in a closed loop, or if the rate changes.
   */
  rate: number | null;
  /**
   * `None`: the rate does not change, or the loop is closed.
   */
  schedule: RateChange | null;
  streams: number;
}
/**
 * A trial whose load took turns with the loads of other subjects.
 */
export interface TurnsResult {
  /**
   * Start of the load, on the machine's monotonic clock. Loads with the same start took turns
   * with each other.
   */
  began_ns: number;
  /**
   * CPU time used in all turns of other subjects, as a share of the CPU time in its own turns.
   * CPU time per request is higher by this share.
   */
  carried_share: number | null;
  /**
   * CPUs that the subject used in other subjects' turns. A quarter of a turn after each of its
   * own turns is excluded. `None`: the CPU time could not be read, or no pause was that long.
   */
  idle_cpus: number | null;
  /**
   * `idle_cpus` as a share of the CPUs that the subject used in its own turns.
   */
  idle_share: number | null;
  /**
   * Rounds in order of time. Rounds with the same number are compared with each other.
   */
  rounds: RoundResult[];
  /**
   * Length of a turn.
   */
  slice_s: number;
  /**
   * Correct responses per second of its own turns, without the first quarter of each turn.
   */
  throughput_rps: number | null;
}
/**
 * Traffic of one arm with one protocol. Invalid trials are included, because the bytes that a
 * server sends do not depend on the quality of the load.
 */
export interface WireResult {
  /**
   * Metrics by key, each with one value per trial in which it is known.
   */
  metrics: {
    [k: string]: Repeated;
  };
  /**
   * `h1`, `h2`, `h2c` or `h2c-upgrade`; for a load without a suite also `auto`.
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
   * Number of the arm's trials with this protocol.
   */
  trials: number;
}
