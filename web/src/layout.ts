// Where things stand on a page: arithmetic on pixels, letters and places along an axis. What was measured is computed in
// crates/analysis and only picked here, so nothing in this file knows of the report.

/** Response time is drawn over percentiles that are stretched towards 100 %: the place of a quantile, 1 for 0. */
export function stretched(quantile: number): number {
  return stretchedFromEnd(1 - quantile);
}

/** The place of the quantile above which this share lies. */
export function stretchedFromEnd(share: number): number {
  return 1 / share;
}

/** The quantile at a place of [`stretched`]. */
export function quantileAt(place: number): number {
  return 1 - 1 / place;
}

/** The middle of a stretch of an axis. */
export function middle(from: number, to: number): number {
  return (from + to) / 2;
}

/** The end of an axis that has room for all of these. */
export function furthest(places: number[]): number {
  return Math.max(0, ...places);
}

/** Pixels that the longest of the names of bars needs on the left. */
export function labelRoom(names: string[]): number {
  return Math.min(300, Math.max(120, 16 + 7 * furthest(names.map((name) => name.length))));
}

/** Pixels that a chart of so many bars needs. */
export function barsHeight(bars: number): number {
  return Math.max(300, 64 + 20 * bars);
}

export const LANE_HEIGHT = 84;

/** Pixels above a lane, of several under each other. */
export function laneTop(lane: number): number {
  return 20 + lane * (LANE_HEIGHT + 30);
}

/** Breaks a text into lines of no more letters than these, where its words allow. */
export function wrap(text: string, width = 60): string {
  const lines: string[] = [""];
  for (const word of text.split(" ")) {
    const last = lines[lines.length - 1] ?? "";
    if (last.length + word.length > width) lines.push(word);
    else lines[lines.length - 1] = last === "" ? word : `${last} ${word}`;
  }
  return lines.join("\n");
}
