// Computes positions on the page: arithmetic on pixels, letters and places along an axis. This file
// does not know the report, because results are computed in crates/analysis.

/**
 * Returns the place of a quantile on the axis of percentiles, which is stretched towards 100 %. The
 * quantile 0 is at place 1.
 */
export function percentilePlace(quantile: number): number {
  return placeFromEnd(1 - quantile);
}

/** Returns the place of the quantile above which this share lies. */
export function placeFromEnd(share: number): number {
  return 1 / share;
}

/** Returns the quantile at a place: the inverse of `percentilePlace`. */
export function quantileAt(place: number): number {
  return 1 - 1 / place;
}

/** Returns the middle between two places of an axis. */
export function middle(from: number, to: number): number {
  return (from + to) / 2;
}

/** Returns the largest of these places, which are positive; 0 if there are none. */
export function largest(places: number[]): number {
  // Not `Math.max(...places)`: there may be more places than a call can have arguments.
  return places.reduce((most, place) => (place > most ? place : most), 0);
}

/** Returns the first and the last of these places; both are 0 if there are none. */
export function ends(places: number[]): [number, number] {
  return places.reduce(
    ([from, to], place) => [place < from ? place : from, place > to ? place : to],
    [places[0] ?? 0, places[0] ?? 0],
  );
}

/** Margin of the axis beyond the outermost ratios, as a factor. */
const RATIO_MARGIN = 1.02;

/** Returns the ends of a logarithmic axis that has room for 1 and all of these ratios. */
export function ratioEnds(ratios: number[]): [number, number] {
  const [least, most] = ends([1, ...ratios.filter((ratio) => ratio > 0)]);
  return [least / RATIO_MARGIN, most * RATIO_MARGIN];
}

/**
 * Values of controls are cut if they exceed all other values by more than this factor. Otherwise
 * the axis would leave too little height for the other values.
 */
const FAR_ABOVE = 2;

/**
 * Returns the end of an axis that has room for all of `others`, if `controls` are far above them.
 * null: the axis needs no fixed end.
 */
export function fittedEnd(others: number[], controls: number[]): number | null {
  const largestOther = largest(others);
  return largestOther > 0 && largest(controls) > FAR_ABOVE * largestOther
    ? roundEnd(largestOther)
    : null;
}

/** First digits of axis ends that give even ticks. */
const ROUND = [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10];

/** Returns a round number a little above this value. */
function roundEnd(value: number): number {
  const target = 1.05 * value;
  const power = 10 ** Math.floor(Math.log10(target));
  return power * (ROUND.find((digits) => digits * power >= target) ?? 10);
}

/** The length of the longest uncut bar next to a cut bar, as a share of the cell. */
const LONGEST_UNCUT = 0.8;

/**
 * Returns the value of a bar that fills its cell: usually the largest value. Bars of controls far
 * above all other bars are cut a little above the longest other bar. crates/report/src/format.rs
 * has the same rule for the page without a viewer.
 */
export function barEnd(others: number[], controls: number[]): number {
  const largestOther = largest(others);
  return largestOther > 0 && largest(controls) > FAR_ABOVE * largestOther
    ? largestOther / LONGEST_UNCUT
    : largest([...others, ...controls]);
}

/** Returns the length of a bar in CSS. A bar of the value `whole` fills the cell. */
export function barLength(value: number, whole: number): string {
  return `${(whole > 0 ? Math.min(1, value / whole) * 100 : 0).toFixed(1)}%`;
}

/** Number of rows on a page of a table. */
const PAGE_ROWS = 50;

/** A page of a table: its rows `from` ≤ row < `to`, and the pages before and after it. */
export interface PageOf {
  from: number;
  to: number;
  /** The number of its first row, counted from 1. */
  first: number;
  before: number | null;
  after: number | null;
}

/** Returns a page of a table, by its number (from 0) and the number of rows. */
export function pageOf(page: number, rows: number): PageOf {
  const from = page * PAGE_ROWS;
  const to = Math.min(rows, from + PAGE_ROWS);
  return {
    from,
    to,
    first: from + 1,
    before: page > 0 ? page - 1 : null,
    after: to < rows ? page + 1 : null,
  };
}

/** Returns the ends of an axis of stops at 0, 1, 2 …, with half a place on either side. */
export function stops(count: number): { min: number; max: number } {
  return { min: -0.5, max: count - 0.5 };
}

/**
 * Returns the places of a value on an axis of stops, each of which has a number. They are stops
 * with the same number, and places between two neighbours if one is less and the other is more.
 */
export function placesAmong(stops: number[], value: number): number[] {
  return stops.flatMap((stop, index) => {
    const next = stops[index + 1];
    if (stop === value) return [index];
    const isBetween = next !== undefined && (stop < value ? value < next : next < value);
    return isBetween ? [index + Math.log(value / stop) / Math.log(next / stop)] : [];
  });
}

/** Returns the width for the names of bars on the left, in pixels. It has an upper limit. */
export function labelRoom(names: string[], isNarrow: boolean): number {
  return Math.min(
    isNarrow ? 130 : 320,
    Math.max(120, 16 + 7 * largest(names.map((name) => name.length))),
  );
}

/** Returns options of labels that have `room` pixels. */
export function labelIn(room: number): { width: number; overflow: "truncate" } {
  return { width: room - 8, overflow: "truncate" };
}

/** Whether a chart of this width has no room for long names on its left. */
export function isNarrow(width: number): boolean {
  return width < 560;
}

/** Returns the height of a chart of bars, in pixels. */
export function barsHeight(bars: number): number {
  return Math.max(300, 64 + 20 * bars);
}

/** The height of a row of a chart with a row for each subject, in pixels. */
export const ROW_HEIGHT = 20;

/** Height of the axis, which is above the rows: below many rows it would be out of sight. */
const ABOVE_ROWS = 60;

/** Returns the positions of the panels of a chart of rows, and their total height, in pixels. */
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

/** Returns the ends of a logarithmic axis: the powers of ten around its values. */
export function decades(places: number[]): { min?: number; max?: number } {
  const positive = places.filter((place) => place > 0);
  if (positive.length === 0) return {};
  const [from, to] = ends(positive);
  const min = 10 ** Math.floor(Math.log10(from));
  return { min, max: Math.max(10 * min, 10 ** Math.ceil(Math.log10(to))) };
}

/** The height of a panel in a column of panels, in pixels. */
export const PANEL_HEIGHT = 200;

/** Returns the top of a panel, in pixels. Names and ticks have room between panels. */
export function panelTop(panel: number): number {
  return 44 + panel * (PANEL_HEIGHT + 76);
}

/** Returns the height of a chart of `panels` panels and a slider, in pixels. */
export function panelsHeight(panels: number): number {
  return panelTop(panels - 1) + PANEL_HEIGHT + 84;
}

/** The height of a lane in the explorer, in pixels. */
export const LANE_HEIGHT = 84;

/** Returns the top of a lane in a column of lanes, in pixels. */
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

/** Returns the range of ratios that the comparison does not distinguish from 1 (noise floor). */
export function floorEnds(detectable: number | null): [number, number] | [] {
  if (detectable === null) return [];
  return [1 / detectable, detectable];
}
