// Creates the marks of single values. A mark shows the limiter, a trial that is not valid, or a
// value that is only known to exceed a bound.
import { longerThanWait } from "./format.ts";
import { wrap } from "./layout.ts";
import type { IntervalResult, Resource, TrialResult } from "./schema.ts";

/** A mark at a place of a chart. `note` is the text that the pointer shows. */
export interface Dot {
  value: [number, number];
  symbol?: string;
  symbolSize?: number | number[];
  symbolOffset?: (number | string)[];
  symbolRotate?: number;
  itemStyle?: object;
  label?: object;
  note: string;
}

const CROSS = "path://M0,0 L8,8 M8,0 L0,8";
const DOWN = "path://M0,0 L8,0 L4,8 Z";

/** The mark of a lower bound: the true value is above the mark. */
const ARROW = "path://M4,0 L8,6 L5,6 L5,14 L3,14 L3,6 L0,6 Z";

function limiterSymbol(resource: Resource): string {
  switch (resource) {
    case "server_cpu":
      return "circle";
    case "concurrency":
      return "triangle";
    case "generator":
      return "rect";
    case "elsewhere":
      return DOWN;
    default:
      return "diamond";
  }
}

/** Returns the mark of a trial: its limiter, or a cross with the reason if it is not valid. */
export function dot(t: TrialResult, value: [number, number], colour: string, note: string): Dot {
  if (!t.valid) {
    const reasons = t.caveats.filter((c) => c.severity === "invalid").map((c) => c.message);
    const verdict = t.refused
      ? "refused, as expected of this control"
      : `not valid: ${wrap(reasons.join(" "))}`;
    return {
      value,
      symbol: CROSS,
      symbolSize: 9,
      note: `${note}\n${verdict}`,
      itemStyle: { color: "transparent", borderColor: colour, borderWidth: 1.5 },
    };
  }
  return {
    value,
    symbol: limiterSymbol(t.limiter.resource),
    itemStyle: { color: colour },
    note: `${note}\n${wrap(t.limiter.sentence)}`,
  };
}

/** Returns the mark of a value that lies above the place of the mark. */
export function arrow(mark: Dot): Dot {
  return { ...mark, symbol: ARROW, symbolSize: [10, 16], symbolOffset: [0, "-50%"] };
}

/** Returns the mark of a value above the end of its axis, which hangs down from the end. */
export function hanging(mark: Dot): Dot {
  return { ...arrow(mark), symbolOffset: [0, "50%"] };
}

/** Returns the text of a percentile that lies among requests without a correct response. */
export function longerThan(
  result: Pick<IntervalResult, "response_time_us" | "response_unanswered">,
): string {
  return longerThanWait(result.response_time_us.longest_wait, result.response_unanswered.share);
}
