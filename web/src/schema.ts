// Made by types.mjs from docs/schema/report.schema.json 3f974e7def048bf7fabbc00b8c2f2b206115ad3765794a7383176b4a25e0fb6b

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
  | "shared_generator"
  | "wrong_answers"
  | "no_answers"
  | "errors"
  | "unanswered"
  | "rate_not_reached"
  | "dropped"
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
  | "still_warming"
  | "warmup_limit"
  | "warmup_without_cpu"
  | "shared_cpus"
  | "short_window"
  | "cut_short"
  | "tcp_not_measured"
  | "server_not_observed"
  | "no_cgroup"
  | "not_served"
  | "limits_not_set"
  | "tick_accounting"
  | "more_threads_than_cpus"
  | "server_starved"
  | "steal"
  | "not_measured"
  | "syscalls_not_measured"
  | "few_repeats"
  | "mixed"
  | "resumed"
  | "same_numbers";
/**
 * How much a caveat weighs.
 */
export type Severity = "info" | "warning" | "invalid";
/**
 * Which of two values is the better one.
 */
export type Better = ("higher" | "lower") | "neither";
/**
 * What a quantity is counted in.
 */
export type Unit = ("per_second" | "microseconds" | "bytes") | "megabyte_seconds" | "share" | "count";
export type Resource =
  | ("server_cpu" | "unknown")
  | "failure"
  | "generator"
  | "jit"
  | "cpu_quota"
  | "server_thread"
  | "offered_rate"
  | "concurrency"
  | "elsewhere";
export type Confidence = "high" | "medium" | "low";
/**
 * The version of control groups whose controllers limit CPU and memory.
 */
export type CgroupVersion = ("v1" | "v2") | "none";
/**
 * By which of the kernel's interfaces the generator does its work.
 */
export type DriverKind = "uring" | "epoll";
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
 * Bytes of a body. In JSON a string if they are text, else `{"base64": …}`.
 */
export type Body =
  | string
  | {
      base64: string;
    };
/**
 * Something that is looked at only where it is asked for, because looking has a price.
 */
export type Probe = "kernel-stamps";
export type FailureKind =
  | "build_failed"
  | "skipped"
  | "not_started"
  | "never_ready"
  | "wrong_answers"
  | "crashed"
  | "out_of_memory"
  | "deaf"
  | "backend_failed"
  | "interrupted"
  | "harness";
/**
 * What a limit is of, under the name that archives and reports have for it.
 */
export type LimitKind = ("memory" | "open files") | "CPU quota" | "CPUs" | "CPUs (affinity)";
export type WarmUpEnd = "steady" | "limit" | "unanswered" | "cut_short";
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

export interface Report {
  /**
   * Caveats that touch everything.
   */
  caveats: Caveat[];
  comparisons: Comparison[];
  /**
   * What the keys of `metrics` mean, below.
   */
  metrics: Metric[];
  overview: OverviewRow[];
  /**
   * HTTP/2 against HTTP/1.1, server by server; empty unless a suite asks the same in both.
   */
  protocols: ProtocolComparison[];
  run: RunFacts;
  schema: string;
  /**
   * One entry per arm, in the plan's order: `arm` of a cell is a place here.
   */
  subjects: SubjectResult[];
  /**
   * One entry per arm, workload and step, over all repeats.
   */
  summaries: Summary[];
  tables: Table[];
  /**
   * Who cannot be told apart by peak throughput, workload by workload.
   */
  ties: Tie[];
  trials: TrialResult[];
  /**
   * What went over the wire, by subject and protocol.
   */
  wire: WireResult[];
}
/**
 * A reason to distrust a number: what it means for the reader, the evidence, and what to do.
 */
export interface Caveat {
  code: Code;
  evidence: unknown;
  message: string;
  severity: Severity;
}
/**
 * An arm against the baseline at one step: ratios of block-paired repeats.
 */
export interface Comparison {
  baseline: string;
  cell: CellKey;
  connections: number;
  cpu_per_request_ratio: Repeated;
  /**
   * The ratio of every metric by its key, those above among them; without those of which no ratio is known.
   */
  metrics: {
    [k: string]: Repeated;
  };
  pipeline: number;
  response_p99_ratio: Repeated;
  step: number;
  streams: number;
  subject: string;
  throughput_ratio: Repeated;
  /**
   * Whether the pairs do not tell the two apart ([`are_apart`]).
   */
  tie: boolean;
  workload: string;
}
/**
 * An arm with a workload at a step, by their places in the plan. Results of one cell differ by block alone.
 */
export interface CellKey {
  /**
   * Place among the plan's arms, which is that among the report's subjects.
   */
  arm: number;
  /**
   * Place among the plan's steps.
   */
  step: number;
  /**
   * Place among the plan's workloads.
   */
  workload: number;
}
/**
 * One quantity over all repeats.
 */
export interface Repeated {
  /**
   * 95 % bootstrap interval of the median; `None` with fewer than [`REPEATS_FOR_INTERVAL`] repeats.
   *
   * @minItems 2
   * @maxItems 2
   */
  interval: [number, number] | null;
  max: number | null;
  median: number | null;
  min: number | null;
  /**
   * One value per repeat that has one, in the order of the blocks.
   */
  values: number[];
}
/**
 * One quantity of a trial.
 */
export interface Metric {
  better: Better;
  /**
   * As results call it.
   */
  key: string;
  /**
   * As people do.
   */
  title: string;
  unit: Unit;
}
/**
 * One subject in the overview. Its figures are of two steps at most, and each says of which.
 */
export interface OverviewRow {
  /**
   * Why there are no numbers.
   */
  absent: string | null;
  baseline: boolean;
  /**
   * What touches the step of the peak, or the reference step if there is no peak.
   */
  caveats: StepCaveat[];
  checks: number;
  checks_passed: number;
  control: boolean;
  /**
   * Price of the CPU time of 10⁹ requests at the reference step, in the currency of `[cost] per_vcpu_hour`.
   */
  cost_per_billion_requests: number | null;
  cpu_us_per_request: number | null;
  errors: number;
  language: string;
  /**
   * Of the step of the peak, or of the reference step if there is no peak.
   */
  limiter: Resource | null;
  limiter_confidence: Confidence | null;
  limiter_sentence: string | null;
  /**
   * Highest anonymous memory (resident, where that is all there is) in any sample of any measured window. Not the
   * kernel's own peak, which holds page cache.
   */
  memory_peak_bytes: number | null;
  peak_at: Shape | null;
  /**
   * Of the peak; `None`: no step has a valid repeat.
   */
  peak_cell: CellKey | null;
  peak_connections: number | null;
  /**
   * Best valid throughput over the steps, and the step; of steps with repeats enough to tell subjects apart, if there are any.
   */
  peak_rps: Repeated | null;
  peak_streams: number | null;
  reference_at: Shape;
  /**
   * Of the reference step.
   */
  reference_cell: CellKey;
  reference_connections: number;
  /**
   * Requests in flight there: connections × streams × pipeline.
   */
  reference_in_flight: number;
  /**
   * The step at which response times, CPU and cost are given: the one of the workload that is nearest to 64 in flight.
   */
  reference_step: number;
  response_p50_us: number | null;
  response_p99_us: number | null;
  startup_ms: number | null;
  subject: string;
  /**
   * Subjects of the same number are not told apart from the first of them by peak throughput; `None`: too few valid repeats.
   */
  tie_group: number | null;
  /**
   * The subject's; with the workload's name where there are several.
   */
  title: string;
  /**
   * The figures above divided by those of the baseline's row of the same workload; `None` for the baseline itself, and where
   * the suite names none.
   */
  to_baseline: RowRatios | null;
  workload: string;
}
/**
 * A caveat that touches a step, with the repeats it touches.
 */
export interface StepCaveat {
  code: Code;
  /**
   * As it stands at the first of them.
   */
  message: string;
  repeats: number;
  severity: Severity;
}
/**
 * What tells one step of a workload from another.
 */
export interface Shape {
  connections: number;
  pipeline: number;
  /**
   * Requests per second offered; `None` in a closed loop, and where the rate changes.
   */
  rate: number | null;
  streams: number;
}
/**
 * A row's figures divided by those of another; `None` where one of the two has no figure, or the other's is 0.
 */
export interface RowRatios {
  cpu_per_request: number | null;
  memory_peak: number | null;
  peak_rps: number | null;
  response_p50: number | null;
  response_p99: number | null;
  startup: number | null;
}
/**
 * One server asked the same in another protocol: ratios of block-paired repeats, HTTP/1.1 without or with TLS being one.
 */
export interface ProtocolComparison {
  baseline: string;
  baseline_connections: number;
  baseline_pipeline: number;
  baseline_subject: string;
  /**
   * Connections on each side, and what each had in flight.
   */
  connections: number;
  cpu_per_request_ratio: Repeated;
  /**
   * Requests in flight: connections × streams, and connections × pipeline of HTTP/1.1. It is the same on both sides.
   */
  in_flight: number;
  response_p99_ratio: Repeated;
  /**
   * The server, whatever its variant.
   */
  server: string;
  streams: number;
  /**
   * Subjects that are compared: the same one, or, if it has no numbers over HTTP/1.1, another variant of its server.
   */
  subject: string;
  throughput_ratio: Repeated;
  /**
   * Workload that is compared, and the one of HTTP/1.1 that it is compared with.
   */
  workload: string;
}
export interface RunFacts {
  baseline: string | null;
  command: string[];
  cost: Cost | null;
  description: string;
  facts: Facts;
  id: string;
  load: Load;
  markers: Marker[];
  /**
   * Of the measured time, spent on reading the counters, on the generator's CPUs: the median over the trials.
   */
  observing_share: number | null;
  /**
   * The order in which subjects ran, block by block.
   */
  order: string[][];
  repeats: number;
  seed: number;
  /**
   * RFC 3339, UTC.
   */
  started: string;
  suite: string;
  suite_source: string;
  trials_done: number;
  trials_invalid: number;
  trials_planned: number;
  workloads: Workload[];
}
/**
 * What CPU time costs.
 */
export interface Cost {
  per_vcpu_hour: number;
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
   * Time over which connections are opened one by one; `None`: all of them before the load begins.
   */
  ramp_connections_ns: number | null;
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
   * SHA-256 of the body, in hexadecimal digits.
   */
  body_sha256: string | null;
  /**
   * Headers that must be there, with this value if one is given.
   */
  headers: [string, string | null][];
  /**
   * JSON pointers (RFC 6901) into the body, with the value that must stand there.
   */
  json: [string, unknown][];
  status: number | null;
}
/**
 * A subject in one arm of the run. Where it has one arm, that is the subject in the whole run.
 */
export interface SubjectResult {
  build: BuildResult | null;
  /**
   * Every check with its worst result over all starts and moments.
   */
  checks: CheckSummary[];
  conditions: ConditionsResult;
  control: boolean;
  description: string;
  failures: SubjectFailure[];
  /**
   * Name of the arm: `name` or `name/variant` where the subject has one arm.
   */
  id: string;
  language: string;
  limits: LimitReadBack[];
  name: string;
  /**
   * Why it does not take part, or where it failed: one sentence each.
   */
  skipped: string | null;
  /**
   * From exec to the first right answer, over the starts.
   */
  startup_ms: Startup;
  /**
   * Starts that had to be killed.
   */
  stop_killed: number;
  /**
   * From the signal to the end of the process, over the starts.
   */
  stop_ms: Repeated;
  title: string;
  variant: string | null;
  version: string | null;
  /**
   * How long they took.
   */
  warm_up_s: Repeated;
  /**
   * How each start was warmed before its first trial; empty unless the plan asks for it.
   */
  warm_ups: WarmUpResult[];
}
export interface BuildResult {
  artefact_bytes: number;
  cached: boolean;
  cpu_s: number | null;
  wall_s: number;
}
export interface CheckSummary {
  detail: string;
  failed: number;
  name: string;
  ok: boolean;
  passed: number;
}
/**
 * The conditions of an arm, as they were planned. Its environment may hold secrets, and stays in the archive.
 */
export interface ConditionsResult {
  /**
   * Where the arm stands on the scale of what is varied; `None`: on none.
   */
  level: number | null;
  limits: Limits;
  /**
   * What of the run's load is otherwise in it; `null`: as the run has it.
   */
  load: LoadChanges;
  /**
   * What is looked at beside what always is.
   */
  observe: Probe[];
  placement: Placement;
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
 * Why a start failed.
 */
export interface SubjectFailure {
  kind: FailureKind;
  log_tail: string | null;
  message: string;
  repeat: number;
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
export interface Startup {
  /**
   * CPU time used by the first answer.
   */
  cpu: Repeated;
  first_answer: Repeated;
  listening: Repeated;
}
/**
 * How one start of a subject was warmed.
 */
export interface WarmUpResult {
  ended: WarmUpEnd;
  /**
   * By throughput and CPU time per request, or by throughput alone.
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
   * What compiler threads used of the server's CPU time.
   */
  jit_share: number | null;
  /**
   * Since the warm-up began.
   */
  start_s: number;
  step: number;
  throughput_rps: number;
  workload: number;
}
/**
 * One arm, workload and step over all its repeats. Values of trials that are not valid are left out of the
 * quantities and counted.
 */
export interface Summary {
  /**
   * Warnings, and reasons to refuse, that any of the repeats has.
   */
  caveats: StepCaveat[];
  cell: CellKey;
  connections: number;
  context_switches_per_request: Repeated;
  cpu_us_per_request: Repeated;
  /**
   * Failed or wrongly answered, of those due, over all repeats: 0 to 1.
   */
  error_share: Repeated;
  /**
   * Requests in flight: connections × streams × pipeline.
   */
  in_flight: number;
  invalid: number;
  /**
   * What limited most of the repeats; a guess where no verdict has most.
   */
  limiter: Resource;
  limiter_confidence: Confidence;
  limiter_sentence: string;
  /**
   * Anonymous memory (resident, where that is all there is), highest sample of the window.
   */
  memory_bytes: Repeated;
  memory_mb_s_per_request: Repeated;
  /**
   * Every metric by its key, those above among them; without those of which nothing is known.
   */
  metrics: {
    [k: string]: OverStep;
  };
  pipeline: number;
  rate: number | null;
  response_p50_us: Repeated;
  response_p90_us: Repeated;
  response_p99_us: Repeated;
  /**
   * Percentiles of it that are missing above are longer than its longest wait.
   */
  response_unanswered: StepUnanswered;
  step: number;
  streams: number;
  subject: string;
  throughput_rps: Repeated;
  trials: number;
  workload: string;
}
/**
 * A metric over the trials of one step.
 */
export interface OverStep {
  /**
   * Repeats in which it lies among what was never answered, above every value that is known.
   */
  beyond: number;
  /**
   * 95 % bootstrap interval of the median; `None` with fewer than [`REPEATS_FOR_INTERVAL`] repeats.
   *
   * @minItems 2
   * @maxItems 2
   */
  interval: [number, number] | null;
  max: number | null;
  median: number | null;
  min: number | null;
  /**
   * One value per repeat that has one, in the order of the blocks.
   */
  values: number[];
}
/**
 * What was never answered at one step, over its valid repeats, and how many of them it keeps from having a percentile.
 */
export interface StepUnanswered {
  /**
   * The longest wait known, in microseconds.
   */
  longest_wait: number | null;
  /**
   * Repeats in which the percentile lies among what was never answered.
   */
  p50: number;
  p90: number;
  p99: number;
  /**
   * Of all requests that were due in those repeats: 0 to 1.
   */
  share: number;
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
 * Subjects of one tie group of a workload that pairs of repeats do not tell apart by peak throughput.
 */
export interface Tie {
  /**
   * The group's best.
   */
  best: string;
  /**
   * Whether they are not told apart from each other either.
   */
  mutual: boolean;
  /**
   * Those that are not told apart from it, best first; at least one.
   */
  with: string[];
  workload: string;
}
export interface TrialResult {
  /**
   * What the services behind it used; per answer of the subject.
   */
  backends: BackendUse[];
  /**
   * Counted from 1.
   */
  block: number;
  caveats: Caveat[];
  cell: CellKey;
  /**
   * Not answered or wrongly answered, of those that were due: 0 to 1.
   */
  error_share: number;
  limiter: Limiter;
  load: LoadResult;
  /**
   * Its place in the order of time, counted from 1 over the whole plan.
   */
  place: number;
  /**
   * Counted from 1.
   */
  repeat: number;
  server: ServerUse;
  step: StepResult;
  subject: string;
  /**
   * Name of its arm: the subject's id, `name` or `name/variant`, where the subject has one arm.
   */
  subject_id: string;
  valid: boolean;
  variant: string | null;
  workload: string;
}
/**
 * A service that the subject needs.
 */
export interface BackendUse {
  name: string;
  server: ServerUse;
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
  context_switches_involuntary: number | null;
  context_switches_voluntary: number | null;
  /**
   * CPU time that its quota and its CPUs allowed.
   */
  cpu_allowed_s: number | null;
  cpu_sys_s: number | null;
  cpu_us_per_request: number | null;
  cpu_user_s: number | null;
  /**
   * Used ÷ allowed.
   */
  cpu_utilisation: number | null;
  intervals: ServerInterval[];
  memory_anon_bytes: number | null;
  memory_file_bytes: number | null;
  /**
   * What the server itself holds: anonymous memory, or resident memory where that is all there is.
   */
  memory_held_bytes: number | null;
  /**
   * That × time per answer, in MB·s.
   */
  memory_mb_s_per_request: number | null;
  memory_peak_bytes: number | null;
  /**
   * CPU time of the whole machine that neither the server nor dyno used.
   */
  others_cpu_s: number | null;
  per_request: PerRequest;
  /**
   * What looking cost: the samples' own time.
   */
  probe_s: number | null;
  processes: number | null;
  rss_bytes: number | null;
  run_delay_s: number | null;
  /**
   * Share of the machine's CPU time that the hypervisor took.
   */
  steal_share: number | null;
  threads: number | null;
  /**
   * Summed over CPUs by the kernel, so it may be longer than the window.
   */
  throttled_s: number | null;
  /**
   * `None` without a quota.
   */
  throttling: Throttling | null;
  /**
   * Length of the observed window: between the samples nearest to the measured window's edges.
   */
  window_s: number;
}
export interface RoleUse {
  cpu_s: number;
  run_delay_s: number | null;
  threads: number;
}
/**
 * The server between two samples, for showing it over time.
 */
export interface ServerInterval {
  context_switches_per_s: number | null;
  /**
   * In CPUs.
   */
  cpu: number | null;
  cpu_sys: number | null;
  cpu_user: number | null;
  end_s: number;
  /**
   * All of dyno's own threads, in CPUs.
   */
  generator_cpu: number | null;
  memory_anon_bytes: number | null;
  memory_bytes: number | null;
  memory_file_bytes: number | null;
  /**
   * Time runnable but waiting for a CPU, summed over threads.
   */
  run_delay_s: number | null;
  /**
   * Since the load began.
   */
  start_s: number;
  threads: number;
  throttled_s: number | null;
}
export interface PerRequest {
  context_switches: number | null;
  cpu_sys_us: number | null;
  cpu_user_us: number | null;
  run_delay_us: number | null;
  syscalls: {
    [k: string]: number;
  } | null;
}
/**
 * Periods of a CPU quota, and those in which the server was held back by it.
 */
export interface Throttling {
  periods: number;
  throttled_periods: number;
}
export interface Limiter {
  confidence: Confidence;
  evidence: unknown;
  resource: Resource;
  sentence: string;
}
export interface LoadResult {
  bytes: Bytes;
  caveats: Caveat[];
  /**
   * What this generator reached on this machine, if that was measured before.
   */
  ceiling: Ceiling | null;
  /**
   * Answers that were checked in full.
   */
  checked: number;
  client: Client;
  config: Config;
  connect_us: Percentiles;
  /**
   * Connections that were lost, or did not come about, by the outcome of the oldest exchange on them.
   */
  connection_failures: {
    [k: string]: number;
  };
  connections: Connections;
  duration_s: number;
  exchanges: Exchanges;
  first_byte_us: Percentiles;
  /**
   * `None` in a closed loop, which has no gaps to keep.
   */
  gaps: GapsResult | null;
  /**
   * `null` unless HTTP/2 was asked for, or spoken.
   */
  http2: Http2Result | null;
  in_flight: InFlight;
  intervals: IntervalResult[];
  /**
   * Response time by the kernel's receive stamps; `None` unless they were asked for. An answer without a stamp counts among
   * the unanswered: nobody knows when it came.
   */
  kernel_response_time_us: Percentiles | null;
  outcomes: {
    [k: string]: number;
  };
  /**
   * `null` unless pages were loaded.
   */
  pages: Pages | null;
  protocol_errors: {
    [k: string]: number;
  };
  /**
   * By request name; empty if there is only one.
   */
  requests: RequestResult[];
  response_time_us: Percentiles;
  /**
   * Percentiles of it that lie among what was never answered.
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
   * `None` without TLS.
   */
  tls: TlsUse | null;
  tls_handshake_us: Percentiles;
  /**
   * How long what got no right answer had waited when it ended, or when the load did, by outcome: from the intended start.
   */
  unanswered_us: {
    [k: string]: Percentiles;
  };
  /**
   * How answers failed what was checked in full, with counts.
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
   * Complete answers, right or wrong, that arrived within the window, whenever they were asked for: what these are the bytes of.
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
   * Of a whole CPU, polling left out.
   */
  busiest_thread_utilisation: number;
  /**
   * CPU time spent polling instead of sleeping; it is part of `cpu_user_s` and `cpu_sys_s`.
   */
  cpu_spun_s: number;
  cpu_sys_s: number;
  cpu_us_per_exchange: number | null;
  cpu_user_s: number;
  driver: DriverKind;
  loop_lag_us: Percentiles;
  /**
   * What was left of the CPUs on which it stood.
   */
  room: Room;
  rss_peak_bytes: number | null;
  run_delay_s: number | null;
  /**
   * That time, of one CPU over the measured window; `None`: nothing was measured.
   */
  spun_share: number | null;
  /**
   * The same for every thread, in their order.
   */
  thread_utilisation: number[];
  threads: number;
  wake_lag_us: Percentiles;
}
/**
 * A distribution of times in microseconds. `count`, `min`, `mean`, `stdev` and `max` are of right answers; percentiles are of
 * all that was due, in which whatever got no right answer ranks above every right answer. A percentile that falls among
 * those, or that has too few samples beyond it, is `None`.
 */
export interface Percentiles {
  count: number;
  /**
   * The longest wait known, of right answers and of what got none; microseconds. It bounds the percentiles that fall
   * among the unanswered from below.
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
 * The CPUs of the generator over the window, and what was left of them.
 */
export interface Room {
  /**
   * Share of the time of those CPUs in which they were not free: used by anybody, or taken by the hypervisor. Polling is
   * left out. `None` where the kernel does not tell, or the window is too short to.
   */
  busy: number | null;
  /**
   * CPUs on which its threads might run; `None` where that is not recorded.
   */
  cpus: number[] | null;
  /**
   * Of one CPU, the most that a thread worked and waited for a CPU, or that the threads of one CPU worked together.
   * Polling is left out. Near 1 there is nothing left.
   */
  need: number;
  /**
   * What of it was work; the rest is waiting.
   */
  need_work: number;
  /**
   * Share of their time that something other than dyno used.
   */
  others: number | null;
  /**
   * Processes that were seen there, the most first.
   */
  others_named: OtherProcess[];
  /**
   * CPU time per time that dyno's own control group may use; `None`: no quota.
   */
  quota_cpus: number | null;
  /**
   * Share of the quota's periods in which it held the generator back.
   */
  throttled: number | null;
  /**
   * The most that one thread waited for a CPU, of the window; `None` where the kernel does not tell.
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
 * What was asked, all defaults filled in.
 */
export interface Config {
  /**
   * `None` in a closed loop.
   */
  arrival: Arrival | null;
  /**
   * Of how many answers one was checked in full; `None` if there is nothing that only a full look can tell.
   */
  check_one_in: number | null;
  connect_timeout_s: number;
  connections: number;
  driver: DriverKind;
  duration_s: number | null;
  expect_body_bytes: number | null;
  expect_status: number | null;
  first_byte_timeout_s: number | null;
  interval_s: number;
  method: string;
  model: Model;
  /**
   * Connections over which a visitor loads a page; `None`: no pages are loaded. `connections` are visitors then.
   */
  page_connections: number | null;
  pipeline: number;
  /**
   * `h1`, `h2`, `h2c` or `h2c-upgrade`; of a load without a suite also `auto`.
   */
  protocol: string;
  ramp_connections_s: number | null;
  /**
   * Requests per second offered; `None` in a closed loop.
   */
  rate: number | null;
  /**
   * How the rate changes over time, where it is not one number.
   */
  rate_over_time: Segment[] | null;
  requests: number | null;
  /**
   * The mix, if there is more than one request.
   */
  requests_mixed: MixedRequest[];
  requests_per_connection: number | null;
  seed: number;
  spin: Spin;
  streams: number;
  threads: number;
  timeout_s: number;
  /**
   * Over TLS.
   */
  tls: boolean;
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
   * Bytes that arrived with no request outstanding: answers without a request.
   */
  unsolicited: number;
}
/**
 * The books of the measured window: counts of exchanges that were intended in it (docs/terminology.md).
 */
export interface Exchanges {
  /**
   * Under way when the window of a closed loop opened: `carried_in + scheduled = started + dropped`.
   */
  carried_in: number;
  completed: number;
  dropped: number;
  failed: number;
  in_flight_at_end: number;
  scheduled: number;
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
 * HTTP/2 within the measured window; connections and streams of the whole load. Quotients are `None` where there is
 * nothing to divide by.
 */
export interface Http2Result {
  /**
   * Connections that came to speak HTTP/2.
   */
  connections: number;
  /**
   * Connections that were to speak HTTP/2 and came to speak HTTP/1.1: by ALPN, or because an upgrade was declined.
   */
  fallen_back: number;
  /**
   * By type; types of which there were none are left out.
   */
  frames_in: {
    [k: string]: number;
  };
  frames_out: {
    [k: string]: number;
  };
  /**
   * By type.
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
   * Those that we sent: as a matter of form where we close, and with a code where the server broke a rule.
   */
  goaways_out: {
    [k: string]: number;
  };
  header_fields_in: HeaderBytes;
  header_fields_out: HeaderBytes;
  pings_in: number;
  /**
   * RST_STREAM frames by code.
   */
  resets_in: {
    [k: string]: number;
  };
  resets_out: {
    [k: string]: number;
  };
  /**
   * Complete responses per receive: how far a server, or the network, gathers answers.
   */
  responses_per_receive: number | null;
  /**
   * Requests sent again because the server had said that it did not deal with them.
   */
  retried: number;
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
 * What HPACK made of header fields.
 */
export interface HeaderBytes {
  /**
   * Bytes of names and values.
   */
  fields: number;
  /**
   * 1 − wire / fields.
   */
  saved: number | null;
  /**
   * Bytes that they took on the wire.
   */
  wire: number;
}
/**
 * Streams per connection.
 */
export interface Streams {
  asked: number;
  /**
   * The fewest that the server announced to allow on a connection; `None`: any number.
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
   * λ·W: what the distributions hold (times of right answers, ages of all others) within the window, summed and divided by
   * its length. A request that fell out of the distributions is missing here. `null` in archives of before.
   */
  by_littles_law: number | null;
  /**
   * L: the time integral of the number in flight, divided by the window. It is counted as requests start and end, and knows
   * nothing of what they took.
   */
  mean: number;
  /**
   * How far the law's side may be off because histograms keep three digits of each time.
   */
  resolution: number;
}
export interface IntervalResult {
  /**
   * Of how much of a CPU the busiest generator thread made use, polling left out; `None` where it is not known.
   */
  busiest_thread_utilisation: number | null;
  connections_open: number;
  /**
   * Arrivals that were dropped because too many were waiting.
   */
  dropped: number;
  end_s: number;
  failed: number;
  in_flight_mean: number;
  ok: number;
  phase: Phase;
  response_time_us: Percentiles;
  /**
   * Percentiles of it that lie among what was never answered.
   */
  response_unanswered: LoadUnanswered;
  service_time_us: Percentiles;
  start_s: number;
  /**
   * Taken on here: sent, or waiting for a connection.
   */
  started: number;
  throughput_rps: number;
}
/**
 * What was never answered in one load, or one interval of it, and which percentiles lie among it.
 */
export interface LoadUnanswered {
  /**
   * Whether the percentile lies among what was never answered: it is longer than the longest wait known.
   */
  p50: boolean;
  p90: boolean;
  p99: boolean;
  /**
   * Of all requests that were due: 0 to 1.
   */
  share: number;
}
/**
 * Documents with their resources, over the measured window and its drain. A page is measured if its document was
 * intended in the window.
 */
export interface Pages {
  /**
   * Pages of which everything was answered as expected.
   */
  completed: number;
  /**
   * Connections over which a page was loaded.
   */
  connections_each: number;
  /**
   * Pages of which something failed.
   */
  failed: number;
  /**
   * Pages that were complete within the window, per second.
   */
  per_second: number;
  resources: number;
  /**
   * From the intended start of the document to the end of the last resource.
   */
  time_us: Percentiles;
  /**
   * Pages that were not complete when the window and what was in flight at its end were over.
   */
  unfinished: number;
}
/**
 * What became of the requests of one name.
 */
export interface RequestResult {
  name: string;
  /**
   * Only those that occurred.
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
  segments_in: number | null;
  segments_out: number | null;
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
export interface StepResult {
  connections: number;
  duration_s: number;
  /**
   * Requests in flight: connections × streams × pipeline.
   */
  in_flight: number;
  index: number;
  pipeline: number;
  rate: number | null;
  streams: number;
}
/**
 * One subject in one protocol, over all its trials, valid or not: what a server sends does not depend on how well it was loaded.
 */
export interface WireResult {
  /**
   * Metrics by key: a value per trial that has one.
   */
  metrics: {
    [k: string]: Repeated;
  };
  /**
   * `h1`, `h2`, `h2c` or `h2c-upgrade`; of a load without a suite also `auto`.
   */
  protocol: string;
  subject: string;
  /**
   * Over TLS.
   */
  tls: boolean;
  trials: number;
}
