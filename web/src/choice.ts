// What the reader has chosen, and what of the report it leaves to be shown.
import type { Report, Summary, TrialResult, Workload } from "./schema.ts";

/** Percentiles that charts are drawn of. */
export type Quantile = "p50" | "p90" | "p99";

/** What the reader has chosen, for charts, tables and cards alike. */
export interface Choice {
  dark: boolean;
  logY: boolean;
  /** Whether a chart has little room beside it. */
  isNarrow: boolean;
  /** Names of hidden subjects. */
  hidden: ReadonlySet<string>;
  percentile: Quantile;
  /** The one workload that is shown; null: each of them, in charts in a panel of its own. */
  workload: string | null;
  /** The one protocol whose workloads are shown; null: any. */
  protocol: string | null;
  /**
   * The one step that is shown where there is a row for each, by its index in the plan; null: all
   * of them.
   */
  step: number | null;
  /** What charts of a single step are of. */
  at: { workload: string; step: number };
  trial: number;
}

/** How a page begins: with the first workload of the suite, and all of its subjects and steps. */
export function firstChoice(report: Report, dark: boolean): Choice {
  const [row] = report.overview;
  const start: Choice = {
    dark,
    logY: false,
    isNarrow: false,
    hidden: new Set(),
    percentile: "p99",
    workload: null,
    protocol: null,
    step: null,
    trial: 0,
    at: { workload: row?.workload ?? "", step: row?.reference_step ?? 0 },
  };
  const [first] = workloadsOf(report);
  return first === undefined ? start : chosen(report, start, { workload: first });
}

/**
 * The choice after a change of a part of it. What would no longer be shown gives way to what is.
 */
export function chosen(report: Report, before: Choice, part: Partial<Choice>): Choice {
  const choice = { ...before, ...part };
  const of = workloadsOfProtocol(report, choice.protocol);
  if (choice.workload !== null && !of.includes(choice.workload)) choice.workload = of[0] ?? null;
  if (choice.step !== null && !stepsOf(report, choice).some((s) => s.step === choice.step))
    choice.step = null;
  if (!isStepShown(report, choice)) choice.at = firstStep(report, choice);
  const trials = shownTrials(report, choice);
  if (!trials.includes(choice.trial)) choice.trial = trials[0] ?? choice.trial;
  return choice;
}

/** Workloads that were run, in the suite's order. */
export function workloadsOf(report: Report): string[] {
  const run = new Set(report.summaries.map((s) => s.workload));
  return report.run.workloads.map((w) => w.name).filter((name) => run.has(name));
}

export function hasSeveralWorkloads(report: Report): boolean {
  return workloadsOf(report).length > 1;
}

/** Protocols of workloads that were run, in the suite's order. */
export function protocolsOf(report: Report): string[] {
  const run = workloadsOf(report);
  return [...new Set(report.run.workloads.filter((w) => run.includes(w.name)).map(protocolOf))];
}

/** Whether a choice of the protocol is another than that of the workload. */
export function hasProtocols(report: Report): boolean {
  const all = protocolsOf(report).length;
  return all > 1 && workloadsOf(report).length > all;
}

function protocolOf({ protocol, tls }: Workload): string {
  return tls ? `${protocol} over TLS` : protocol;
}

export function workloadsOfProtocol(report: Report, protocol: string | null): string[] {
  const own = report.run.workloads
    .filter((w) => protocol === null || protocolOf(w) === protocol)
    .map((w) => w.name);
  return workloadsOf(report).filter((name) => own.includes(name));
}

/** The workloads to show. */
export function shownWorkloads(
  report: Report,
  choice: Pick<Choice, "workload" | "protocol">,
): string[] {
  return workloadsOfProtocol(report, choice.protocol).filter(
    (name) => choice.workload === null || choice.workload === name,
  );
}

/**
 * The steps of the shown workloads, in the plan's order: of each the first cell that was measured
 * at it.
 */
export function stepsOf(report: Report, choice: Pick<Choice, "workload" | "protocol">): Summary[] {
  const shown = shownWorkloads(report, choice);
  const first = new Map<number, Summary>();
  for (const s of report.summaries)
    if (shown.includes(s.workload) && !first.has(s.step)) first.set(s.step, s);
  return [...first.values()].sort((a, b) => (a.step < b.step ? -1 : 1));
}

/** The cells that charts of a single step may be of: one for each shown workload and step. */
export function shownSteps(
  report: Report,
  choice: Pick<Choice, "workload" | "protocol" | "step">,
): Summary[] {
  return shownWorkloads(report, choice)
    .flatMap((workload) => stepsOf(report, { workload, protocol: null }))
    .filter((s) => choice.step === null || s.step === choice.step);
}

function isStepShown(report: Report, choice: Choice): boolean {
  const { at } = choice;
  return shownSteps(report, choice).some((s) => s.workload === at.workload && s.step === at.step);
}

/** The reference step of the first workload that is shown, or the step that is chosen. */
function firstStep(report: Report, choice: Choice): Choice["at"] {
  const shown = shownSteps(report, choice);
  const isReference = (s: Summary): boolean =>
    report.overview.some((row) => row.workload === s.workload && row.reference_step === s.step);
  const { workload, step } = shown.find(isReference) ?? shown[0] ?? choice.at;
  return { workload, step };
}

/** Trials that are left to be picked, by their indices. */
export function shownTrials(report: Report, choice: Choice): number[] {
  const workloads = new Set(shownWorkloads(report, choice));
  const isShown = (t: TrialResult): boolean =>
    !choice.hidden.has(t.subject_id) &&
    workloads.has(t.workload) &&
    (choice.step === null || choice.step === t.step.index);
  return report.trials.flatMap((t, index) => (isShown(t) ? [index] : []));
}

/** The name of a workload before something of it, where there are several. */
export function workloadPrefix(report: Report, workload: string, between = ", "): string {
  return hasSeveralWorkloads(report) ? `${workload}${between}` : "";
}
