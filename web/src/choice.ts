// What the reader has chosen, and the workloads that it leaves to be drawn.
import type { Report } from "./schema.ts";

/** Percentiles that charts are drawn of. */
export type Quantile = "p50" | "p90" | "p99";

/** What the reader has chosen for a chart. */
export interface Choice {
  dark: boolean;
  logY: boolean;
  /** Names of hidden subjects. */
  hidden: ReadonlySet<string>;
  percentile: Quantile;
  /** The workload of all charts; null: each of them, in a panel of its own. */
  workload: string | null;
  /** What the spectrum is of. */
  at: { workload: string; step: number };
  trial: number;
}

/** How a page begins: with the first workload of the suite. */
export function firstChoice(report: Report, dark: boolean): Choice {
  const [row] = report.overview;
  const start: Choice = {
    dark, logY: false, hidden: new Set(), percentile: "p99", workload: null, trial: 0,
    at: { workload: row?.workload ?? "", step: row?.reference_step ?? 0 },
  };
  const [first] = workloadsOf(report);
  return first === undefined ? start : { ...start, ...chosen(report, first) };
}

/** What follows from the choice of a workload: its reference step and its first trial. All of them leave both as they are. */
export function chosen(report: Report, workload: string | null): Partial<Choice> {
  if (workload === null) return { workload };
  const row = report.overview.find((r) => r.workload === workload);
  const trial = report.trials.findIndex((t) => t.workload === workload);
  return { workload, at: { workload, step: row?.reference_step ?? 0 }, trial };
}

/** Workloads that were run, in the suite's order. */
export function workloadsOf(report: Report): string[] {
  const run = new Set(report.summaries.map((s) => s.workload));
  return report.run.workloads.map((w) => w.name).filter((name) => run.has(name));
}

export function hasSeveralWorkloads(report: Report): boolean {
  return workloadsOf(report).length > 1;
}

/** The workloads to draw. */
export function shownWorkloads(report: Report, choice: Pick<Choice, "workload">): string[] {
  return workloadsOf(report).filter((name) => choice.workload === null || choice.workload === name);
}

/** The name of a workload before something of it, where there are several. */
export function workloadPrefix(report: Report, workload: string, between = ", "): string {
  return hasSeveralWorkloads(report) ? `${workload}${between}` : "";
}
