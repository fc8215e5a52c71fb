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

/** The first and the last of these places; both are 0 where there are none. */
export function ends(places: number[]): [number, number] {
  return places.length === 0 ? [0, 0] : [Math.min(...places), Math.max(...places)];
}

/** A control that is more than so many times as high as all others would press them to the ground. */
const FAR_ABOVE = 2;

/** Where an axis from zero ends that has room for all of `others`, if `controls` are far above them; null: it needs no end. */
export function fittedEnd(others: number[], controls: number[]): number | null {
  const most = furthest(others);
  return most > 0 && furthest(controls) > FAR_ABOVE * most ? roundEnd(most) : null;
}

/** First digits at which an axis may end, so that it has even ticks up to there. */
const ROUND = [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10];

/** A round number that leaves some room above this one. */
function roundEnd(most: number): number {
  const wanted = 1.05 * most;
  const power = 10 ** Math.floor(Math.log10(wanted));
  return power * (ROUND.find((digits) => digits * power >= wanted) ?? 10);
}

/** The length of a bar in a cell that the longest one fills, in CSS. */
export function barLength(of: number, longest: number): string {
  return `${(longest > 0 ? (of / longest) * 100 : 0).toFixed(1)}%`;
}

/** Pixels that the longest of the names of bars needs on the left. */
export function labelRoom(names: string[]): number {
  return Math.min(300, Math.max(120, 16 + 7 * furthest(names.map((name) => name.length))));
}

/** Pixels that a chart of so many bars needs. */
export function barsHeight(bars: number): number {
  return Math.max(300, 64 + 20 * bars);
}

export const PANEL_HEIGHT = 200;

/** Pixels above a panel, of several under each other: for its name, and for the ticks of the one above. */
export function panelTop(panel: number): number {
  return 44 + panel * (PANEL_HEIGHT + 76);
}

/** Pixels that a chart of so many panels needs, with the slider below them. */
export function panelsHeight(panels: number): number {
  return panelTop(panels - 1) + PANEL_HEIGHT + 84;
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
