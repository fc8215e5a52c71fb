// Defines the choice of the reader, and the workloads, steps and trials that the choice selects.
import type { Report, Summary, TrialResult, Workload } from "./schema.ts";

/** Percentiles that charts can show. */
export type Quantile = "p50" | "p90" | "p99";

/** The choice of the reader. Charts, tables and cards follow it. */
export interface Choice {
  dark: boolean;
  logY: boolean;
  /** Whether the chart is too narrow for long names on its left. */
  isNarrow: boolean;
  /** Names of hidden subjects. */
  hidden: ReadonlySet<string>;
  percentile: Quantile;
  /** The workload that is shown; null: all workloads, each in its own panel. */
  workload: string | null;
  /** The protocol whose workloads are shown; null: all protocols. */
  protocol: string | null;
  /** The step whose rows are shown, by its index in the plan; null: all steps. */
  step: number | null;
  /** The workload and the step of the charts of a single step. */
  at: { workload: string; step: number };
  /** The trial in the explorer, by its index in the report. */
  trial: number;
}

/** Returns the first choice of a page: the first workload, with all of its subjects and steps. */
export function firstChoice(report: Report, dark: boolean): Choice {
  const [firstRow] = report.overview;
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
    at: { workload: firstRow?.workload ?? "", step: firstRow?.reference_step ?? 0 },
  };
  const [firstWorkload] = workloadsOf(report);
  return firstWorkload === undefined
    ? start
    : changedChoice(report, start, { workload: firstWorkload });
}

/** Returns the choice after a change. It replaces a workload, step or trial that is now hidden. */
export function changedChoice(report: Report, previous: Choice, change: Partial<Choice>): Choice {
  const choice = { ...previous, ...change };
  const workloads = workloadsOfProtocol(report, choice.protocol);
  if (choice.workload !== null && !workloads.includes(choice.workload))
    choice.workload = workloads[0] ?? null;
  if (choice.step !== null && !stepsOf(report, choice).some((s) => s.step === choice.step))
    choice.step = null;
  if (!isStepShown(report, choice)) choice.at = firstStep(report, choice);
  const trials = shownTrials(report, choice);
  if (!trials.includes(choice.trial)) choice.trial = trials[0] ?? choice.trial;
  return choice;
}

/** Returns the workloads that were run, in the suite's order. */
export function workloadsOf(report: Report): string[] {
  const names = new Set(report.summaries.map((s) => s.workload));
  return report.run.workloads.map((w) => w.name).filter((name) => names.has(name));
}

export function hasSeveralWorkloads(report: Report): boolean {
  return workloadsOf(report).length > 1;
}

/** Returns the protocols of workloads that were run, in the suite's order. */
export function protocolsOf(report: Report): string[] {
  const names = workloadsOf(report);
  return [...new Set(report.run.workloads.filter((w) => names.includes(w.name)).map(protocolOf))];
}

/** Whether a protocol selects several workloads, so that the reader needs a separate control. */
export function hasProtocols(report: Report): boolean {
  const count = protocolsOf(report).length;
  return count > 1 && workloadsOf(report).length > count;
}

function protocolOf({ protocol, tls }: Workload): string {
  return tls ? `${protocol} over TLS` : protocol;
}

export function workloadsOfProtocol(report: Report, protocol: string | null): string[] {
  const matching = report.run.workloads
    .filter((w) => protocol === null || protocolOf(w) === protocol)
    .map((w) => w.name);
  return workloadsOf(report).filter((name) => matching.includes(name));
}

/** Returns the workloads to show. */
export function shownWorkloads(
  report: Report,
  choice: Pick<Choice, "workload" | "protocol">,
): string[] {
  return workloadsOfProtocol(report, choice.protocol).filter(
    (name) => choice.workload === null || choice.workload === name,
  );
}

/**
 * Returns the steps of the shown workloads, in the plan's order. Each step is represented by the
 * first cell that was measured at it.
 */
export function stepsOf(report: Report, choice: Pick<Choice, "workload" | "protocol">): Summary[] {
  const workloads = shownWorkloads(report, choice);
  const firstByStep = new Map<number, Summary>();
  for (const s of report.summaries)
    if (workloads.includes(s.workload) && !firstByStep.has(s.step)) firstByStep.set(s.step, s);
  return [...firstByStep.values()].sort((a, b) => (a.step < b.step ? -1 : 1));
}

/** Returns the cells that charts of a single step offer: one for each shown workload and step. */
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

/** Returns the first reference step among the shown steps, or else the first shown step. */
function firstStep(report: Report, choice: Choice): Choice["at"] {
  const steps = shownSteps(report, choice);
  const isReference = (s: Summary): boolean =>
    report.overview.some((row) => row.workload === s.workload && row.reference_step === s.step);
  const { workload, step } = steps.find(isReference) ?? steps[0] ?? choice.at;
  return { workload, step };
}

/** Returns the indices of the trials that the choice includes. */
export function shownTrials(report: Report, choice: Choice): number[] {
  const workloads = new Set(shownWorkloads(report, choice));
  const isShown = (t: TrialResult): boolean =>
    !choice.hidden.has(t.subject_id) &&
    workloads.has(t.workload) &&
    (choice.step === null || choice.step === t.step.index);
  return report.trials.flatMap((t, index) => (isShown(t) ? [index] : []));
}

/** Returns the name of a workload as a prefix; empty if the report has a single workload. */
export function workloadPrefix(report: Report, workload: string, between = ", "): string {
  return hasSeveralWorkloads(report) ? `${workload}${between}` : "";
}
