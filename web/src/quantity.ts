// Defines the quantity that a chart over steps or subjects shows.
import type { Choice } from "./choice.ts";
import { fittedEnd } from "./layout.ts";
import type { Repeated, Report, Summary, TrialResult } from "./schema.ts";

/** Formats a value of a quantity. */
export type Show = (value: number) => string;

/** The quantity of a chart, with its value for each step and for each trial. */
export interface Quantity {
  name: string;
  show: Show;
  /** null: the quantity was not measured at the step. */
  ofStep: (s: Summary) => RepeatedValue | null;
  ofTrial: (t: TrialResult) => number | null;
  bounds?: Bounds;
  /** `cut`: a linear axis ends above the other subjects if a control is far above them. */
  controls?: "cut";
}

/** A quantity over the repeats of a step. */
export type RepeatedValue = Pick<Repeated, "median" | "interval">;

/** Lower bounds, drawn in place of values that are only known to exceed a bound. */
export interface Bounds {
  /** The bound of a trial as a number and in words; null: the value is known, or no bound is. */
  ofTrial: (t: TrialResult) => { at: number; words: string } | null;
  /** Whether a step has no median because of such trials, so that the line has a gap. */
  breaks: (s: Summary) => boolean;
}

export const NO_BOUNDS: Bounds = { ofTrial: () => null, breaks: () => false };

/** Whether a value can be drawn. A logarithmic axis has no zero. */
export function isDrawable(choice: Choice, v: number | null): v is number {
  return v !== null && (!choice.logY || v > 0);
}

/** The data of a chart: a quantity of these steps and trials. */
interface ChartData {
  report: Report;
  choice: Choice;
  quantity: Quantity;
  summaries: Summary[];
  trials: TrialResult[];
}

/** Returns the end of an axis if values of controls are cut; null: it has room for all values. */
export function axisEnd({ report, choice, quantity, summaries, trials }: ChartData): number | null {
  // A logarithmic axis has room for all values.
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
