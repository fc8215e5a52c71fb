// Where things stand on a page: arithmetic on pixels, letters and places along an axis. What was
// measured is computed in crates/analysis and only picked here, so nothing in this file knows of
// the report.

/**
 * Response time is drawn over percentiles that are stretched towards 100 %: the place of a
 * quantile, 1 for 0.
 */
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
  // One by one: there may be more of them than a call has room for.
  return places.reduce((most, place) => (place > most ? place : most), 0);
}

/** The first and the last of these places; both are 0 where there are none. */
export function ends(places: number[]): [number, number] {
  return places.reduce(
    ([from, to], place) => [place < from ? place : from, place > to ? place : to],
    [places[0] ?? 0, places[0] ?? 0],
  );
}

/** Room beside the outermost ratios, as a factor. */
const BESIDE_RATIOS = 1.02;

/** The ends of a logarithmic axis that has room for all of these ratios, and 1. */
export function ratioEnds(ratios: number[]): [number, number] {
  const [least, most] = ends([1, ...ratios.filter((ratio) => ratio > 0)]);
  return [least / BESIDE_RATIOS, most * BESIDE_RATIOS];
}

/**
 * A control that is more than so many times as high as all others would press them to the ground.
 */
const FAR_ABOVE = 2;

/**
 * Where an axis from zero ends that has room for all of `others`, if `controls` are far above them;
 * null: it needs no end.
 */
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

/** The length of the longest other bar beside one that is cut. */
const CUT_AT = 0.8;

/**
 * The value of a bar that fills its cell: the longest one does. Bars of controls far above the
 * others would press those flat; they end a little above them instead. crates/report/src/format.rs
 * has the same for the page without a viewer.
 */
export function barEnd(others: number[], controls: number[]): number {
  const most = furthest(others);
  return most > 0 && furthest(controls) > FAR_ABOVE * most
    ? most / CUT_AT
    : furthest([...others, ...controls]);
}

/** The length of a bar in a cell that a bar of `whole` fills, in CSS. */
export function barLength(of: number, whole: number): string {
  return `${(whole > 0 ? Math.min(1, of / whole) * 100 : 0).toFixed(1)}%`;
}

/** Rows of a page of a table. */
const PAGE = 50;

/** A page of a table: its rows from one up to before another, and the pages before and after it. */
export interface PageOf {
  from: number;
  to: number;
  /** The number of its first row, for people. */
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

/**
 * The ends of an axis on which so many stops stand at 0, 1, 2 …, with half a place on either side.
 */
export function stops(count: number): { min: number; max: number } {
  return { min: -0.5, max: count - 0.5 };
}

/**
 * The places at which a number would stand on an axis of stops, of which each has a number of its
 * own: on the stops that have it, and between stops of which one has less and the other more.
 */
export function placesAmong(stops: number[], at: number): number[] {
  return stops.flatMap((here, index) => {
    const next = stops[index + 1];
    if (here === at) return [index];
    const isBetween = next !== undefined && (here < at ? at < next : next < at);
    return isBetween ? [index + Math.log(at / here) / Math.log(next / here)] : [];
  });
}

/**
 * Pixels for the names of bars on the left: what the longest needs, as far as a narrow page has
 * them.
 */
export function labelRoom(names: string[], isNarrow: boolean): number {
  return Math.min(
    isNarrow ? 130 : 320,
    Math.max(120, 16 + 7 * furthest(names.map((name) => name.length))),
  );
}

/** How names are shown in so many pixels. */
export function labelIn(room: number): { width: number; overflow: "truncate" } {
  return { width: room - 8, overflow: "truncate" };
}

/** A page on which names beside a chart would leave no room for it. */
export function isNarrow(width: number): boolean {
  return width < 560;
}

/** Pixels that a chart of so many bars needs. */
export function barsHeight(bars: number): number {
  return Math.max(300, 64 + 20 * bars);
}

/** Pixels of a row of a chart with a row for each subject. */
export const ROW_HEIGHT = 20;

/** Pixels above rows, for their axis and its name: of many rows the ends would be out of sight. */
const ABOVE_ROWS = 60;

/**
 * Where the panels of a chart of rows stand, given how many each has, and the pixels that all of
 * them need.
 */
export function rowPanels(rows: number[]): {
  all: { top: number; height: number }[];
  height: number;
} {
  const all: { top: number; height: number }[] = [];
  let top = ABOVE_ROWS;
  for (const count of rows) {
    const height = ROW_HEIGHT * Math.max(1, count);
    all.push({ top, height });
    top += height + ABOVE_ROWS;
  }
  return { all, height: top - ABOVE_ROWS + 12 };
}

/** The ends of a logarithmic axis: the powers of ten around what stands on it. */
export function decades(places: number[]): { min?: number; max?: number } {
  const own = places.filter((place) => place > 0);
  if (own.length === 0) return {};
  const [from, to] = ends(own);
  const min = 10 ** Math.floor(Math.log10(from));
  return { min, max: Math.max(10 * min, 10 ** Math.ceil(Math.log10(to))) };
}

export const PANEL_HEIGHT = 200;

/**
 * Pixels above a panel, of several under each other: for its name, and for the ticks of the one
 * above.
 */
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

/** The ends of what would not have been told from a ratio of 1, on both sides. */
export function floorEnds(detectable: number | null): [number, number] | [] {
  if (detectable === null) return [];
  return [1 / detectable, detectable];
}
