// Where calls stand in a flame graph, from the top down: arithmetic on samples and pixels. Nothing
// in this file knows of the report.

/** The height of a call in pixels. */
export const ROW = 19;
/** The least width in pixels that is drawn, and that is written on. */
const LEAST = 0.5;
const LEAST_TEXT = 28;
/** The width of a letter in a picture, and of the space before the first. */
const LETTER = 6.6;
const MARGIN = 3;

/** A call, with its place among all of them. */
export interface Call {
  index: number;
  name: string;
  kind: string;
  module: string | null;
  depth: number;
  start: number;
  samples: number;
}

/** A call where it is drawn: in shares of the width, 0 to 1. */
export interface Placed {
  call: Call;
  left: number;
  width: number;
}

/**
 * What is seen when one call takes the whole width: it, those that led to it, and all that it
 * calls. null: everything.
 */
export function placed(calls: Call[], samples: number, at: Call | null): Placed[] {
  const [from, width] = at ? [at.start, at.samples] : [0, samples];
  const isSeen = (c: Call): boolean =>
    c.start < from + width &&
    c.start + c.samples > from &&
    (at === null || c.depth !== at.depth || c === at);
  return calls.filter(isSeen).map((call) => {
    const left = Math.max(call.start, from);
    const right = Math.min(call.start + call.samples, from + width);
    return { call, left: (left - from) / width, width: (right - left) / width };
  });
}

/** Samples in which any of the calls that are found takes part. One within another counts once. */
export function samplesFound(calls: Call[], isFound: (name: string) => boolean): number {
  let [sum, until] = [0, 0];
  for (const call of calls) {
    // They come depth first: what lies within one that was found ends before it does.
    if (call.start < until || !isFound(call.name)) continue;
    sum += call.samples;
    until = call.start + call.samples;
  }
  return sum;
}

/** The call that an arrow key leads to. */
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

/** A part as a share of the whole: 0 to 1. */
export function share(part: number, whole: number): number {
  return part / whole;
}

/** What falls to a part of the samples where `all` falls to the whole. */
export function partOf(all: number, samples: number, whole: number): number {
  return (all * samples) / whole;
}

/** Those that are wide enough to be seen. */
export function visible(all: Placed[], pixels: number): Placed[] {
  return all.filter(({ width }) => width * pixels >= LEAST);
}

/** The height that calls take, in pixels. */
export function heightOf(all: Placed[]): number {
  return ROW * (1 + Math.max(0, ...all.map(({ call }) => call.depth)));
}

/** Where a call stands on the page, as its style says it. */
export function boxOf(
  { call, left, width }: Placed,
  pixels: number,
): { left: string; width: string; top: string; hasText: boolean } {
  return {
    left: `${left * 100}%`,
    width: `calc(${width * 100}% - 1px)`,
    top: `${call.depth * ROW}px`,
    hasText: width * pixels >= LEAST_TEXT,
  };
}

/** Where a call stands in a picture, in pixels, and how much of its name has room. */
export function rectOf(
  { call, left, width }: Placed,
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
