// Draws the effects of the changes of an experiment: a row for each metric of each change. Pairs
// are dots and intervals are lines, on a logarithmic axis of ratios.
import { type Choice, shownWorkloads } from "./choice.ts";
import type { Option } from "./echarts.ts";
import type { Figure } from "./figure.ts";
import { number, stepName } from "./format.ts";
import { barsHeight, floorEnds, labelIn, labelRoom, ratioEnds } from "./layout.ts";
import type { Report, Row } from "./schema.ts";
import { subjectColour } from "./theme.ts";

/** A row of the chart: an effect of a change on a metric. */
interface Line {
  name: string;
  row: Row;
  arm: number;
}

/** Returns the rows of the shown workloads and subjects that have values. */
function linesOf(report: Report, choice: Choice): Line[] {
  const shown = shownWorkloads(report, choice);
  const effects = report.experiment?.effects ?? [];
  return effects
    .filter(({ to }) => !choice.hidden.has(to))
    .flatMap(({ to, rows }) =>
      rows.flatMap((row) => {
        if (!shown.includes(row.workload) || (row.pairs.length === 0 && row.estimate === null))
          return [];
        const arm = report.subjects.findIndex(({ id }) => id === to);
        return [{ name: `${to}: ${row.title}, ${stepName(row.step)}`, row, arm }];
      }),
    );
}

/**
 * Whether the interval is valid for these few starts alone. Such an interval is only given in
 * words, because a line would look like an interval that is valid for other starts, too.
 */
const isOfStarts = ({ row }: Line): boolean => row.over === "rounds";

/** The chart of effects. */
export const effects: Figure = {
  height: (report, choice) => barsHeight(linesOf(report, choice).length),
  option: (report, choice) => {
    const lines = linesOf(report, choice);
    const left = labelRoom(
      lines.map(({ name }) => name),
      choice.isNarrow,
    );
    const colour = ({ arm }: Line): string => subjectColour(arm, false, choice.dark);
    const ends = ratioEnds(
      lines.flatMap(({ row }) => [...row.pairs, row.estimate?.low ?? 1, row.estimate?.high ?? 1]),
    );
    const noteOf = ({ name, row }: Line): string => `${name}\n${row.sentence}`;
    const intervals = lines.flatMap((line, place) => {
      const { estimate } = line.row;
      if (estimate === null || isOfStarts(line)) return [];
      return [
        {
          type: "line",
          symbol: "none",
          silent: true,
          lineStyle: { width: 3, color: colour(line) },
          data: [
            [estimate.low, place],
            [estimate.high, place],
          ],
        },
      ];
    });
    // The noise floor: fewer than four of five such comparisons detect smaller effects.
    const floors = lines.flatMap((line, place) => {
      const { estimate } = line.row;
      if (estimate === null || isOfStarts(line)) return [];
      return [
        {
          type: "line",
          symbol: "none",
          silent: true,
          lineStyle: { width: 9, color: "#8888", cap: "butt" },
          data: floorEnds(estimate.detectable).map((ratio) => [ratio, place]),
        },
      ];
    });
    const unityLine = {
      type: "line",
      symbol: "none",
      silent: true,
      data: [],
      markLine: {
        symbol: "none",
        silent: true,
        label: { show: false },
        lineStyle: { type: "dashed" },
        data: [{ xAxis: 1 }],
      },
    };
    const dots = lines.flatMap((line, place) =>
      line.row.pairs.map((ratio) => ({
        value: [ratio, place],
        itemStyle: { color: colour(line), opacity: 0.5 },
        note: `${noteOf(line)}\n${number(ratio)} in one pair`,
      })),
    );
    const means = lines.flatMap((line, place) =>
      line.row.estimate === null
        ? []
        : [
            {
              value: [line.row.estimate.ratio, place],
              itemStyle: { color: colour(line) },
              note: noteOf(line),
            },
          ],
    );
    const noteTooltip = {
      tooltip: { formatter: (p: unknown) => (p as { data: { note: string } }).data.note },
    };
    return {
      animation: false,
      aria: {
        enabled: true,
        label: { description: "Ratios of metrics by change, with intervals" },
      },
      grid: { left, right: 40, top: 10, bottom: 40 },
      tooltip: { trigger: "item", renderMode: "richText", confine: true },
      xAxis: {
        type: "log",
        min: ends[0],
        max: ends[1],
        name: "ratio (left of 1: less, right of 1: more)",
        nameLocation: "middle",
        nameGap: 24,
        axisLabel: { formatter: number, hideOverlap: true },
      },
      yAxis: {
        type: "category",
        inverse: true,
        data: lines.map(({ name }) => name),
        axisLabel: { interval: 0, ...labelIn(left) },
        splitLine: { show: false },
      },
      series: [
        ...floors,
        unityLine,
        ...intervals,
        { type: "scatter", symbolSize: 6, data: dots, ...noteTooltip },
        { type: "scatter", symbol: "diamond", symbolSize: 11, data: means, ...noteTooltip },
      ] as NonNullable<Option["series"]>,
    };
  },
};
