// Computes positions on the page: arithmetic on pixels, letters and places along an axis. Results
// are computed in crates/analysis, so nothing in this file knows the report.

/**
 * The place of a quantile on the axis of percentiles, which is stretched towards 100 %. The
 * quantile 0 is at place 1.
 */
export function percentilePlace(quantile: number): number {
  return placeFromEnd(1 - quantile);
}

/** The place of the quantile above which this share lies. */
export function placeFromEnd(share: number): number {
  return 1 / share;
}

/** The quantile at a place: the inverse of `percentilePlace`. */
export function quantileAt(place: number): number {
  return 1 - 1 / place;
}

/** The middle between two places of an axis. */
export function middle(from: number, to: number): number {
  return (from + to) / 2;
}

/** The largest of these places; 0 if there are none. */
export function largest(places: number[]): number {
  // Not `Math.max(...places)`: there may be more of them than a call can have arguments.
  return places.reduce((most, place) => (place > most ? place : most), 0);
}

/** The first and the last of these places; both are 0 where there are none. */
export function ends(places: number[]): [number, number] {
  return places.reduce(
    ([from, to], place) => [place < from ? place : from, place > to ? place : to],
    [places[0] ?? 0, places[0] ?? 0],
  );
}

/** Margin of the axis beyond the outermost ratios, as a factor. */
const BESIDE_RATIOS = 1.02;

/** The ends of a logarithmic axis that has room for all of these ratios, and 1. */
export function ratioEnds(ratios: number[]): [number, number] {
  const [least, most] = ends([1, ...ratios.filter((ratio) => ratio > 0)]);
  return [least / BESIDE_RATIOS, most * BESIDE_RATIOS];
}

/**
 * Values of controls more than this many times above all others are cut. The axis would leave
 * too little height for the others.
 */
const FAR_ABOVE = 2;

/**
 * The end of an axis that has room for all of `others`, if `controls` are far above them; null: the
 * axis needs no end.
 */
export function fittedEnd(others: number[], controls: number[]): number | null {
  const largestOther = largest(others);
  return largestOther > 0 && largest(controls) > FAR_ABOVE * largestOther
    ? roundEnd(largestOther)
    : null;
}

/** First digits of ends of an axis at which its ticks are even. */
const ROUND = [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10];

/** A round number a little above this value. */
function roundEnd(value: number): number {
  const target = 1.05 * value;
  const power = 10 ** Math.floor(Math.log10(target));
  return power * (ROUND.find((digits) => digits * power >= target) ?? 10);
}

/** The length of the longest bar that is not cut, as a share of the cell, beside a cut bar. */
const BESIDE_CUT_BAR = 0.8;

/**
 * The value of a bar that fills its cell: usually the largest. Bars of controls far above the
 * others are cut a little above these. crates/report/src/format.rs has the same rule for the page
 * without a viewer.
 */
export function barEnd(others: number[], controls: number[]): number {
  const largestOther = largest(others);
  return largestOther > 0 && largest(controls) > FAR_ABOVE * largestOther
    ? largestOther / BESIDE_CUT_BAR
    : largest([...others, ...controls]);
}

/** The length of a bar in CSS. A bar of the value `whole` fills the cell. */
export function barLength(value: number, whole: number): string {
  return `${(whole > 0 ? Math.min(1, value / whole) * 100 : 0).toFixed(1)}%`;
}

/** Rows on a page of a table. */
const PAGE = 50;

/** A page of a table: its rows `from` ≤ row < `to`, and the pages before and after it. */
export interface PageOf {
  from: number;
  to: number;
  /** The number of its first row, counted from 1. */
  first: number;
  before: number | null;
  after: number | null;
}

export function pageOf(page: number, rows: number): PageOf {
  const from = page * PAGE;
  const to = Math.min(rows, from + PAGE);
  return {
    from,
    to,
    first: from + 1,
    before: page > 0 ? page - 1 : null,
    after: to < rows ? page + 1 : null,
  };
}

/** The ends of an axis of stops at 0, 1, 2 …, with half a place on either side. */
export function stops(count: number): { min: number; max: number } {
  return { min: -0.5, max: count - 0.5 };
}

/**
 * The places of a value on an axis of stops, each of which has a number. The value stands on stops
 * of the same number, and between neighbours of which one is less and the other more.
 */
export function placesAmong(stops: number[], value: number): number[] {
  return stops.flatMap((stop, index) => {
    const next = stops[index + 1];
    if (stop === value) return [index];
    const isBetween = next !== undefined && (stop < value ? value < next : next < value);
    return isBetween ? [index + Math.log(value / stop) / Math.log(next / stop)] : [];
  });
}

/** Pixels for the names of bars on the left: enough for the longest, up to a limit. */
export function labelRoom(names: string[], isNarrow: boolean): number {
  return Math.min(
    isNarrow ? 130 : 320,
    Math.max(120, 16 + 7 * largest(names.map((name) => name.length))),
  );
}

/** Options of labels that have `room` pixels. */
export function labelIn(room: number): { width: number; overflow: "truncate" } {
  return { width: room - 8, overflow: "truncate" };
}

/** Whether a chart of this width has no room for names beside it. */
export function isNarrow(width: number): boolean {
  return width < 560;
}

/** The height of a chart of bars, in pixels. */
export function barsHeight(bars: number): number {
  return Math.max(300, 64 + 20 * bars);
}

/** The height of a row of a chart with a row for each subject, in pixels. */
export const ROW_HEIGHT = 20;

/** Pixels above rows for their axis. Below many rows, it would be out of sight. */
const ABOVE_ROWS = 60;

/** Positions of the panels of a chart of rows, and the height of all, in pixels. */
export function rowPanels(rows: number[]): {
  panels: { top: number; height: number }[];
  height: number;
} {
  const panels: { top: number; height: number }[] = [];
  let top = ABOVE_ROWS;
  for (const count of rows) {
    const height = ROW_HEIGHT * Math.max(1, count);
    panels.push({ top, height });
    top += height + ABOVE_ROWS;
  }
  return { panels, height: top - ABOVE_ROWS + 12 };
}

/** The ends of a logarithmic axis: the powers of ten around its values. */
export function decades(places: number[]): { min?: number; max?: number } {
  const positive = places.filter((place) => place > 0);
  if (positive.length === 0) return {};
  const [from, to] = ends(positive);
  const min = 10 ** Math.floor(Math.log10(from));
  return { min, max: Math.max(10 * min, 10 ** Math.ceil(Math.log10(to))) };
}

export const PANEL_HEIGHT = 200;

/** The top of a panel in a column of panels, in pixels. Names and ticks stand between panels. */
export function panelTop(panel: number): number {
  return 44 + panel * (PANEL_HEIGHT + 76);
}

/** The height of a chart of `panels` panels with the slider below them, in pixels. */
export function panelsHeight(panels: number): number {
  return panelTop(panels - 1) + PANEL_HEIGHT + 84;
}

export const LANE_HEIGHT = 84;

/** The top of a lane in a column of lanes, in pixels. */
export function laneTop(lane: number): number {
  return 20 + lane * (LANE_HEIGHT + 30);
}

/** Breaks a text between words into lines of about `width` letters. */
export function wrap(text: string, width = 60): string {
  const lines: string[] = [""];
  for (const word of text.split(" ")) {
    const last = lines[lines.length - 1] ?? "";
    if (last.length + word.length > width) lines.push(word);
    else lines[lines.length - 1] = last === "" ? word : `${last} ${word}`;
  }
  return lines.join("\n");
}

/** The range of ratios that the comparison would not have distinguished from 1. */
export function floorEnds(detectable: number | null): [number, number] | [] {
  if (detectable === null) return [];
  return [1 / detectable, detectable];
}
