// The marks of single values: what limited them, what is not valid, what lies above the place where
// it stands.
import { beyond } from "./format.ts";
import { wrap } from "./layout.ts";
import type { IntervalResult, Resource, TrialResult } from "./schema.ts";

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

/** Stands on a lower bound: the truth is above it. */
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

export function dot(t: TrialResult, value: [number, number], colour: string, note: string): Dot {
  const reasons = t.caveats.filter((c) => c.severity === "invalid").map((c) => c.message);
  if (!t.valid) {
    return {
      value,
      symbol: CROSS,
      symbolSize: 9,
      note: `${note}\nnot valid: ${wrap(reasons.join(" "))}`,
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

/** The mark of a value that is above where it stands. */
export function arrow(of: Dot): Dot {
  return { ...of, symbol: ARROW, symbolSize: [10, 16], symbolOffset: [0, "-50%"] };
}

/** The mark of a value above the end of its axis: it hangs from there. */
export function hanging(of: Dot): Dot {
  return { ...arrow(of), symbolOffset: [0, "50%"] };
}

/** What is known of a percentile that lies among what was never answered. */
export function longerThan(
  of: Pick<IntervalResult, "response_time_us" | "response_unanswered">,
): string {
  return beyond(of.response_time_us.longest_wait, of.response_unanswered.share);
}
