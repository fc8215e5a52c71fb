// Computes positions of calls in a flame graph, callers above callees: arithmetic on samples and
// pixels. This file does not know the report.

/** The height of a call in pixels. */
export const ROW = 19;
/** Minimum width of a drawn box, and of a box with a text, in pixels. */
const MIN_WIDTH = 0.5;
const MIN_TEXT_WIDTH = 28;
/** The width of a letter in a saved picture, and of the space before the text, in pixels. */
const LETTER = 6.6;
const MARGIN = 3;

/** A call of the tree. `start` is the number of samples to the left of it. */
export interface Call {
  index: number;
  name: string;
  kind: string;
  module: string | null;
  depth: number;
  start: number;
  samples: number;
}

/** A call and its position, as shares of the width (0 to 1). */
export interface PlacedCall {
  call: Call;
  left: number;
  width: number;
}

/**
 * Returns the calls to draw while `focus` takes the whole width: the focus, its callers and its
 * callees. Without a focus, all calls are drawn.
 */
export function placeCalls(calls: Call[], samples: number, focus: Call | null): PlacedCall[] {
  const [from, width] = focus ? [focus.start, focus.samples] : [0, samples];
  const isVisible = (c: Call): boolean =>
    c.start < from + width &&
    c.start + c.samples > from &&
    (focus === null || c.depth !== focus.depth || c === focus);
  return calls.filter(isVisible).map((call) => {
    const left = Math.max(call.start, from);
    const right = Math.min(call.start + call.samples, from + width);
    return { call, left: (left - from) / width, width: (right - left) / width };
  });
}

/** Returns the number of samples with a found call. Samples with several such calls count once. */
export function samplesFound(calls: Call[], isFound: (name: string) => boolean): number {
  let [sum, end] = [0, 0];
  for (const call of calls) {
    // Calls are in depth-first order, so calls within a found call start before its end.
    if (call.start < end || !isFound(call.name)) continue;
    sum += call.samples;
    end = call.start + call.samples;
  }
  return sum;
}

/** Returns the call to which an arrow key moves the focus. */
export function neighbour(calls: Call[], from: Call, key: string): Call | undefined {
  const within = (outer: Call, inner: Call): boolean =>
    inner.start >= outer.start && inner.start < outer.start + outer.samples;
  switch (key) {
    case "ArrowUp":
      return calls.find((c) => c.depth === from.depth - 1 && within(c, from));
    case "ArrowDown":
      return calls.find((c) => c.depth === from.depth + 1 && within(from, c));
    case "ArrowRight":
      return calls.find((c) => c.depth === from.depth && c.start >= from.start + from.samples);
    case "ArrowLeft":
      return calls.filter((c) => c.depth === from.depth && c.start < from.start).at(-1);
    default:
      return undefined;
  }
}

/** Returns a part as a share of the whole: 0 to 1. */
export function share(part: number, whole: number): number {
  return part / whole;
}

/** Returns the part of `total` that belongs to `samples` of all `whole` samples. */
export function proportionalAmount(total: number, samples: number, whole: number): number {
  return (total * samples) / whole;
}

/** Returns the calls that are wide enough to be drawn. */
export function visible(calls: PlacedCall[], pixels: number): PlacedCall[] {
  return calls.filter(({ width }) => width * pixels >= MIN_WIDTH);
}

/** Returns the height that calls take, in pixels. */
export function heightOf(calls: PlacedCall[]): number {
  return ROW * (1 + Math.max(0, ...calls.map(({ call }) => call.depth)));
}

/** Returns the position of a call on the page, in CSS. */
export function boxOf(
  { call, left, width }: PlacedCall,
  pixels: number,
): { left: string; width: string; top: string; hasText: boolean } {
  return {
    left: `${left * 100}%`,
    width: `calc(${width * 100}% - 1px)`,
    top: `${call.depth * ROW}px`,
    hasText: width * pixels >= MIN_TEXT_WIDTH,
  };
}

/** Returns the position of a call in a saved picture, in pixels, and how many letters fit. */
export function rectOf(
  { call, left, width }: PlacedCall,
  pixels: number,
): {
  x: number;
  y: number;
  wide: number;
  high: number;
  textX: number;
  textY: number;
  letters: number;
} {
  const [x, y, wide] = [left * pixels, call.depth * ROW, width * pixels];
  const letters = Math.floor((wide - 2 * MARGIN) / LETTER);
  return {
    x,
    y,
    wide,
    high: ROW - 1,
    textX: x + MARGIN,
    textY: y + ROW - 6,
    letters: letters >= 3 ? letters : 0,
  };
}
