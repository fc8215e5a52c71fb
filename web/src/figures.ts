// Lists all charts by name. This file selects values and does not compute, because results are
// computed in crates/analysis. eslint.config.js forbids arithmetic in files that know the report.
import { split, startup } from "./bars.ts";
import type { Choice, Quantile } from "./choice.ts";
import { effects } from "./effects.ts";
import { explorer } from "./explorer.ts";
import type { Figure } from "./figure.ts";
import { axisNumber, bytes, megabyteSeconds, micros, number, percent } from "./format.ts";
import { lifetimes, overTime, spectrum } from "./lines.ts";
import { longerThan } from "./marks.ts";
import type { Bounds, Quantity } from "./quantity.ts";
import { subjectsChart, subjectsHeight } from "./rows.ts";
import { hasSinglePlace, stepsChart, stepsHeight } from "./steps.ts";

/** Returns a chart over steps, or over subjects if there is a single step. `logY`: first scale. */
function stepsFigure(logY: boolean, quantity: (choice: Choice) => Quantity): Figure {
  return {
    logY,
    height: (report, choice) =>
      (hasSinglePlace(report) ? subjectsHeight : stepsHeight)(report, choice),
    option: (report, choice) =>
      (hasSinglePlace(report) ? subjectsChart : stepsChart)(report, choice, quantity(choice)),
  };
}

const throughput = stepsFigure(false, () => ({
  name: "requests/s",
  show: axisNumber,
  ofStep: (s) => s.metrics["throughput_rps"] ?? null,
  ofTrial: (t) => (t.duet ? null : t.load.throughput_rps),
  controls: "cut",
}));

const errors = stepsFigure(false, () => ({
  name: "share of requests",
  show: percent,
  ofStep: (s) => s.metrics["error_share"] ?? null,
  ofTrial: (t) => t.error_share,
}));

/** Returns bounds of a percentile among the unanswered requests, which exceeds the longest wait. */
function unanswered(q: Quantile): Bounds {
  return {
    ofTrial: ({ load, duet }) =>
      !duet && load.response_unanswered[q]
        ? { at: load.response_time_us.longest_wait ?? 1, words: longerThan(load) }
        : null,
    breaks: (s) => s.response_unanswered[q] > 0,
  };
}

/** The keys of the percentiles in a summary. */
const RESPONSE = {
  p50: "response_p50_us",
  p90: "response_p90_us",
  p99: "response_p99_us",
} as const;

const response = stepsFigure(true, ({ percentile }) => ({
  name: `${percentile} response time`,
  show: micros,
  ofStep: (s) => s.metrics[RESPONSE[percentile]] ?? null,
  ofTrial: (t) => (t.duet ? null : t.load.response_time_us[percentile]),
  bounds: unanswered(percentile),
}));

const cpu = stepsFigure(true, () => ({
  name: "CPU per request",
  show: micros,
  ofStep: (s) => s.metrics["server_cpu_us_per_request"] ?? null,
  ofTrial: (t) => t.server.cpu_us_per_request,
}));

const cpus = stepsFigure(false, () => ({
  name: "CPUs used",
  show: number,
  ofStep: (s) => s.metrics["server_cpus"] ?? null,
  ofTrial: (t) => (t.duet ? null : t.server.cpus),
}));

const systemCalls = stepsFigure(false, () => ({
  name: "system calls per request",
  show: number,
  ofStep: (s) => s.metrics["server_syscalls_per_request"] ?? null,
  ofTrial: (t) => (t.duet ? null : (t.server.calls?.per_response ?? null)),
}));

const memory = stepsFigure(true, () => ({
  name: "memory",
  show: bytes,
  ofStep: (s) => s.metrics["server_memory_bytes"] ?? null,
  ofTrial: (t) => t.server.memory_held_bytes,
}));

const memoryTime = stepsFigure(true, () => ({
  name: "memory × time per request",
  show: megabyteSeconds,
  ofStep: (s) => s.metrics["server_memory_mb_s_per_request"] ?? null,
  ofTrial: (t) => (t.duet ? null : t.server.memory_mb_s_per_request),
}));

/** All charts, by the name in the attribute `data-chart`. */
export const FIGURES: Readonly<Record<string, Figure>> = {
  throughput,
  "over-time": overTime,
  errors,
  response,
  spectrum,
  cpu,
  split,
  cpus,
  "system-calls": systemCalls,
  memory,
  "memory-time": memoryTime,
  lifetimes,
  startup,
  explorer,
  effects,
};
