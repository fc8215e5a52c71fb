// The frame, the axes and the texts that charts share.
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

/** The grid of a chart with a single panel. The names of lines stand on the right. */
export const SINGLE_PANEL = { left: 70, right: 110, top: 24, bottom: 84 };

/** Room for the values of controls between the name of a panel and its axis. */
export const roomAbove = { grid: { top: 40 }, axis: { nameGap: 28 } };

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
 * In CSS pixels. Without it ECharts measures a letter, for which few machines that render pages
 * have a font.
 */
const LABEL_HEIGHT = 13;

/** The most lines whose names are moved apart. The names of more lines have no room. */
export const MOVABLE_NAMES = 8;

/** Options that put its name at the end of a line, in a chart of `lines` lines. */
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
    // Names of a few lines move apart. Names of many would end up far from their lines, so some of
    // them are hidden instead.
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

/** A label at the end of the y axis for the values above it. It starts at `x`. */
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
