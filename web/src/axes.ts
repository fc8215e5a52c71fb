// What charts share: their frame, their axes, and texts that stand in them.
import { type Choice, hasSeveralWorkloads } from "./choice.ts";
import type { Option } from "./echarts.ts";
import type { Show } from "./quantity.ts";
import type { Report } from "./schema.ts";

/** What charts with lines share. */
export function base(name: string): Option {
  return {
    animation: false,
    aria: { enabled: true, label: { description: name } },
    legend: { show: false },
    tooltip: { trigger: "item", renderMode: "richText", confine: true },
  };
}

/**
 * The place of the one panel of a chart, with room on the right for the names at the ends of the
 * lines.
 */
export const ALONE = { left: 70, right: 110, top: 24, bottom: 84 };

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
 * In CSS pixels. Left to itself, ECharts takes it from the width of a letter that few servers have
 * a font for.
 */
const LABEL_HEIGHT = 13;

/** Of so many lines the names still find room beside each other. */
export const NAMES_MOVED = 8;

/** How lines have their names at their ends, of so many. */
export function namesOfLines(choice: Choice, lines: number): (name: string) => object {
  return (name) => ({
    endLabel: {
      show: true,
      formatter: name,
      color: ink(choice),
      fontSize: 11,
      lineHeight: LABEL_HEIGHT,
      distance: 6,
    },
    // Names of a few lines move apart. Those of many would end up far from their lines: better some
    // than wrong ones.
    labelLayout: lines > NAMES_MOVED ? { hideOverlap: true } : { moveOverlap: "shiftY" },
  });
}

/** Texts at places of a chart, without marks. */
export function written(choice: Choice, data: object[]): object {
  return {
    type: "scatter",
    silent: true,
    symbolSize: 0,
    z: 3,
    data,
    tooltip: { show: false },
    label: { show: true, position: "top", distance: 4, fontSize: 11, color: ink(choice) },
  };
}

/** What lies above the end of an axis, written there from a place on. */
export function atEnd(
  choice: Choice,
  end: number | null,
  place: number,
  texts: string[],
): object[] {
  if (end === null || texts.length === 0) return [];
  return [
    written(choice, [
      { value: [place, end], label: { formatter: `↑ ${texts.join(", ")}`, align: "left" } },
    ]),
  ];
}

export function ink(choice: Choice): string {
  return choice.dark ? "#c9d1d9" : "#24292f";
}
