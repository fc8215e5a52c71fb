// All charts by name. Nothing is computed here, only chosen: eslint.config.js forbids arithmetic
// outside of the files that know nothing of the report.
import { split, startup } from "./bars.ts";
import type { Choice, Quantile } from "./choice.ts";
import { effects } from "./effects.ts";
import { explorer } from "./explorer.ts";
import type { Figure } from "./figure.ts";
import { axisNumber, bytes, megabyteSeconds, micros, number, percent } from "./format.ts";
import { lifetimes, overTime, spectrum } from "./lines.ts";
import { longerThan } from "./marks.ts";
import type { Bounds, Quantity } from "./quantity.ts";
import { overSubjects, subjectsHeight } from "./rows.ts";
import { isOnePlace, overSteps, stepsHeight } from "./steps.ts";

/**
 * A chart over steps, or, of a single one, over subjects; with a linear axis or a logarithmic one
 * to begin with.
 */
function ofSteps(logY: boolean, quantity: (choice: Choice) => Quantity): Figure {
  return {
    logY,
    height: (report, choice) => (isOnePlace(report) ? subjectsHeight : stepsHeight)(report, choice),
    option: (report, choice) =>
      (isOnePlace(report) ? overSubjects : overSteps)(report, choice, quantity(choice)),
  };
}

const throughput = ofSteps(false, () => ({
  name: "requests/s",
  show: axisNumber,
  ofStep: (s) => s.throughput_rps,
  ofTrial: (t) => (t.duet ? null : t.load.throughput_rps),
  controls: "cut",
}));

const errors = ofSteps(false, () => ({
  name: "share of requests",
  show: percent,
  ofStep: (s) => s.error_share,
  ofTrial: (t) => t.error_share,
}));

/** A percentile that lies among what was never answered is longer than the longest wait. */
function unanswered(q: Quantile): Bounds {
  return {
    ofTrial: ({ load, duet }) =>
      !duet && load.response_unanswered[q]
        ? { at: load.response_time_us.longest_wait ?? 1, words: longerThan(load) }
        : null,
    breaks: (s) => s.response_unanswered[q] > 0,
  };
}

const RESPONSE = {
  p50: "response_p50_us",
  p90: "response_p90_us",
  p99: "response_p99_us",
} as const;

const response = ofSteps(true, ({ percentile }) => ({
  name: `${percentile} response time`,
  show: micros,
  ofStep: (s) => s[RESPONSE[percentile]],
  ofTrial: (t) => (t.duet ? null : t.load.response_time_us[percentile]),
  bounds: unanswered(percentile),
}));

const cpu = ofSteps(true, () => ({
  name: "CPU per request",
  show: micros,
  ofStep: (s) => s.cpu_us_per_request,
  ofTrial: (t) => t.server.cpu_us_per_request,
}));

const cpus = ofSteps(false, () => ({
  name: "CPUs used",
  show: number,
  ofStep: (s) => s.metrics["server_cpus"] ?? null,
  ofTrial: (t) => (t.duet ? null : t.server.cpus),
}));

const memory = ofSteps(true, () => ({
  name: "memory",
  show: bytes,
  ofStep: (s) => s.memory_bytes,
  ofTrial: (t) => t.server.memory_held_bytes,
}));

const memoryTime = ofSteps(true, () => ({
  name: "memory × time per request",
  show: megabyteSeconds,
  ofStep: (s) => s.memory_mb_s_per_request,
  ofTrial: (t) => (t.duet ? null : t.server.memory_mb_s_per_request),
}));

export const FIGURES: Readonly<Record<string, Figure>> = {
  throughput,
  "over-time": overTime,
  errors,
  response,
  spectrum,
  cpu,
  split,
  cpus,
  memory,
  "memory-time": memoryTime,
  lifetimes,
  startup,
  explorer,
  effects,
};
