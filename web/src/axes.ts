// Provides the options that all charts share: frame, axes, zoom and texts.
import { type Choice, hasSeveralWorkloads } from "./choice.ts";
import type { Option } from "./echarts.ts";
import type { Show } from "./quantity.ts";
import type { Report } from "./schema.ts";

/** Options that all charts with lines have in common. */
export function chartBase(name: string): Option {
  return {
    animation: false,
    aria: { enabled: true, label: { description: name } },
    legend: { show: false },
    tooltip: { trigger: "item", renderMode: "richText", confine: true },
  };
}

/** The grid of a chart with a single panel. The right margin has room for the names of lines. */
export const SINGLE_PANEL = { left: 70, right: 110, top: 24, bottom: 84 };

/** Room for the values of controls between the name of a panel and its axis. */
export const roomAbove = { grid: { top: 40 }, axis: { nameGap: 28 } };

/** Returns the zoom of these x axes: by the mouse wheel and by a slider below the chart. */
export function zoomOf(xAxisIndex: number[]): NonNullable<Option["dataZoom"]> {
  return [
    { type: "inside", filterMode: "none", xAxisIndex },
    {
      type: "slider",
      filterMode: "none",
      xAxisIndex,
      height: 18,
      bottom: 10,
      showDataShadow: false,
    },
  ];
}

/** Returns a linear or logarithmic y axis, as the choice says. `show` formats its labels. */
export function yAxis(report: Report, name: string, show: Show, choice: Choice): object {
  const fontWeight = hasSeveralWorkloads(report) ? "bold" : "normal";
  const axis = {
    name,
    nameTextStyle: { align: "left", fontWeight },
    axisLabel: { formatter: show },
  };
  return choice.logY ? { type: "log", ...axis } : { type: "value", min: 0, ...axis };
}

/**
 * The height of a label in CSS pixels. Without this value ECharts measures a letter, for which few
 * machines that render pages have a font.
 */
const LABEL_HEIGHT = 13;

/** Maximum number of lines whose names are moved apart. More names would not fit. */
export const MOVABLE_NAMES = 8;

/** Returns options that put the name of a line at its end, in a chart of `lines` lines. */
export function namesOfLines(choice: Choice, lines: number): (name: string) => object {
  return (name) => ({
    endLabel: {
      show: true,
      formatter: name,
      color: textColour(choice),
      fontSize: 11,
      lineHeight: LABEL_HEIGHT,
      distance: 6,
    },
    // The names of a few lines move apart. The names of many lines would end up far from their
    // lines, so some names are hidden instead.
    labelLayout: lines > MOVABLE_NAMES ? { hideOverlap: true } : { moveOverlap: "shiftY" },
  });
}

/** A series of texts without marks. */
export function textSeries(choice: Choice, data: object[]): object {
  return {
    type: "scatter",
    silent: true,
    symbolSize: 0,
    z: 3,
    data,
    tooltip: { show: false },
    label: { show: true, position: "top", distance: 4, fontSize: 11, color: textColour(choice) },
  };
}

/** Returns a label at the end of the y axis for the values above the axis. It starts at `x`. */
export function atEnd(choice: Choice, end: number | null, x: number, texts: string[]): object[] {
  if (end === null || texts.length === 0) return [];
  return [
    textSeries(choice, [
      { value: [x, end], label: { formatter: `↑ ${texts.join(", ")}`, align: "left" } },
    ]),
  ];
}

export function textColour(choice: Choice): string {
  return choice.dark ? "#c9d1d9" : "#24292f";
}
