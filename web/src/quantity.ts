// What charts over steps and over subjects are of.
import type { Choice } from "./choice.ts";
import { fittedEnd } from "./layout.ts";
import type { Repeated, Report, Summary, TrialResult } from "./schema.ts";

export type Show = (value: number) => string;

/** What a chart shows of each step, and of each of its trials. */
export interface Quantity {
  name: string;
  show: Show;
  /** null: it was not measured there. */
  ofStep: (s: Summary) => Over | null;
  ofTrial: (t: TrialResult) => number | null;
  bounds?: Bounds;
  /**
   * Whether a linear axis ends where the others do if a control is far above them; else it has room
   * for all.
   */
  controls?: "cut";
}

/** A quantity over the repeats of a step. */
export type Over = Pick<Repeated, "median" | "interval">;

/** What is drawn in place of a value that is only known to be exceeded. */
export interface Bounds {
  /** The bound of a trial, in words and as a number; null if its value is known, or nothing is. */
  ofTrial: (t: TrialResult) => { at: number; words: string } | null;
  /** Whether a step has no median because of such trials: the line must not pass over it. */
  breaks: (s: Summary) => boolean;
}

export const NO_BOUNDS: Bounds = { ofTrial: () => null, breaks: () => false };

/** Whether a value can be drawn: a logarithmic axis has no zero. */
export function isDrawable(choice: Choice, v: number | null): v is number {
  return v !== null && (!choice.logY || v > 0);
}

/** What is shown of a chart: a quantity of these steps and trials. */
interface Measured {
  report: Report;
  choice: Choice;
  quantity: Quantity;
  summaries: Summary[];
  trials: TrialResult[];
}

/** Where an axis ends although controls go on; null: it has room for all. */
export function endOf({ report, choice, quantity, summaries, trials }: Measured): number | null {
  // A logarithmic axis has room for all.
  if (quantity.controls !== "cut" || choice.logY) return null;
  const controls = new Set(report.subjects.filter((s) => s.control).map((s) => s.id));
  const highest = (isControl: boolean): number[] => [
    ...trials
      .filter((t) => controls.has(t.subject_id) === isControl)
      .map((t) => quantity.ofTrial(t) ?? 0),
    ...summaries
      .filter((s) => controls.has(s.subject) === isControl)
      .map((s) => quantity.ofStep(s)?.interval?.[1] ?? 0),
  ];
  return fittedEnd(highest(false), highest(true));
}
