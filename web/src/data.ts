// The parts of dyno.report/1 that are drawn. docs/schema describes all of it.

export interface Repeated {
  values: number[];
  median: number | null;
  min: number | null;
  max: number | null;
  interval: [number, number] | null;
}

export interface Percentiles {
  /** Right answers. */
  count: number;
  /** What was due and got no right answer: it ranks above every right answer. */
  unanswered: number;
  /** The longest wait known, in microseconds. */
  longest_wait: number | null;
  p50: number | null;
  p90: number | null;
  p99: number | null;
}

export interface Caveat {
  code: string;
  severity: "info" | "warning" | "invalid";
  message: string;
}

export interface Interval {
  phase: "warmup" | "measured" | "drain";
  start_s: number;
  end_s: number;
  failed: number;
  throughput_rps: number;
  in_flight_mean: number;
  response_time_us: Percentiles;
}

export interface ServerInterval {
  start_s: number;
  end_s: number;
  cpu: number | null;
  memory_anon_bytes: number | null;
  context_switches_per_s: number | null;
}

export interface Trial {
  subject_id: string;
  workload: string;
  repeat: number;
  step: { index: number; connections: number; streams: number; rate: number | null; pipeline: number };
  valid: boolean;
  caveats: Caveat[];
  error_share: number;
  load: {
    throughput_rps: number;
    response_time_us: Percentiles & { p75: number | null; p95: number | null; p99_9: number | null; max: number | null };
    spectrum_us: [number, number][];
    intervals: Interval[];
  };
  server: {
    window_s: number;
    cpu_us_per_request: number | null;
    memory_anon_bytes: number | null;
    rss_bytes: number | null;
    intervals: ServerInterval[];
  };
  limiter: { resource: string; sentence: string };
}

export interface Summary {
  subject: string;
  workload: string;
  step: number;
  connections: number;
  streams: number;
  pipeline: number;
  rate: number | null;
  throughput_rps: Repeated;
  response_p50_us: Repeated;
  response_p90_us: Repeated;
  response_p99_us: Repeated;
  /** In how many valid repeats a percentile lies among what was never answered. */
  response_unanswered: { share: number; longest_wait: number | null; p50: number; p90: number; p99: number };
  cpu_us_per_request: Repeated;
  memory_bytes: Repeated;
  error_share: Repeated;
  /** Every metric that was measured, by its key. */
  metrics: Partial<Record<string, Repeated>>;
  limiter: string;
  limiter_sentence: string;
}

export interface Subject {
  id: string;
  title: string;
  control: boolean;
  startup_ms: { first_answer: Repeated };
}

export interface OverviewRow {
  subject: string;
  workload: string;
  /** The subject's; with the workload's name where there are several. */
  title: string;
  reference_step: number;
}

export interface Report {
  run: { id: string; suite: string; markers: { connections: number; label: string }[] };
  subjects: Subject[];
  trials: Trial[];
  summaries: Summary[];
  overview: OverviewRow[];
}

/** Reads the data that stands in the page. */
export function readReport(): Report | null {
  const element = document.getElementById("dyno-data");
  return element ? (JSON.parse(element.textContent) as Report) : null;
}
