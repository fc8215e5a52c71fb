// Draws one trial over time: lanes of quantities on one axis.
import type { Option } from "./echarts.ts";
import type { Figure } from "./figure.ts";
import { axisNumber, axisSeconds, bytes, micros, number } from "./format.ts";
import { largest, LANE_HEIGHT, laneTop, middle } from "./layout.ts";
import { arrow, type Dot, longerThan } from "./marks.ts";
import type { Show } from "./quantity.ts";
import type { IntervalResult, ServerInterval } from "./schema.ts";
import { subjectColour } from "./theme.ts";

/**
 * Returns the mark in the middle of an interval whose percentile lies among the unanswered
 * requests. The percentile is p99, or p50 if the interval has few requests.
 */
function unansweredInterval(i: IntervalResult): Dot | null {
  const { longest_wait } = i.response_time_us;
  if (!(i.response_unanswered.p99 || i.response_unanswered.p50) || longest_wait === null)
    return null;
  return arrow({ value: [middle(i.start_s, i.end_s), longest_wait], note: longerThan(i) });
}

/** The chart of one trial: a lane for each quantity, over the seconds of the load. */
export const explorer: Figure = {
  option: (report, choice) => {
    const trial = report.trials[choice.trial];
    if (!trial) return { animation: false };
    const index = report.subjects.findIndex((s) => s.id === trial.subject_id);
    const colour = subjectColour(index, report.subjects[index]?.control ?? false, choice.dark);
    const load = trial.load.intervals.filter((i) => i.phase !== "drain" && i.end_s > i.start_s);
    const steps = (pick: (i: IntervalResult) => number | null): [number, number | null][] =>
      load.flatMap((i): [number, number | null][] => [
        [i.start_s, pick(i)],
        [i.end_s, pick(i)],
      ]);
    const ofServer = (pick: (i: ServerInterval) => number | null): [number, number | null][] =>
      trial.server.intervals.flatMap((i): [number, number | null][] => [
        [i.start_s, pick(i)],
        [i.end_s, pick(i)],
      ]);
    const lanes: {
      name: string;
      show: Show;
      lines: { name: string; data: [number, number | null][]; dash?: string }[];
    }[] = [
      {
        name: "requests/s",
        show: axisNumber,
        lines: [{ name: "throughput", data: steps((i) => i.throughput_rps) }],
      },
      {
        name: "response time",
        show: micros,
        lines: [
          { name: "p50", data: steps((i) => i.response_time_us.p50) },
          { name: "p99", data: steps((i) => i.response_time_us.p99), dash: "dashed" },
        ],
      },
      {
        name: "in flight",
        show: number,
        lines: [{ name: "in flight", data: steps((i) => i.in_flight_mean) }],
      },
      {
        name: "server CPUs",
        show: number,
        lines: [
          { name: "server CPU", data: ofServer((i) => i.cpu) },
          ...(trial.server.intervals.some((i) => i.cpu_jit !== null)
            ? [{ name: "JIT compilers' part", data: ofServer((i) => i.cpu_jit), dash: "dashed" }]
            : []),
        ],
      },
      {
        name: "memory",
        show: bytes,
        lines: [{ name: "memory", data: ofServer((i) => i.memory_anon_bytes) }],
      },
      {
        name: "switches/s",
        show: axisNumber,
        lines: [{ name: "context switches", data: ofServer((i) => i.context_switches_per_s) }],
      },
    ];
    const bounds: object = {
      type: "scatter",
      name: "not ok",
      xAxisIndex: 1,
      yAxisIndex: 1,
      itemStyle: { color: colour },
      data: load.flatMap((i) => unansweredInterval(i) ?? []),
      tooltip: {
        valueFormatter: (v: unknown) => (Array.isArray(v) ? `> ${micros(v[1] as number)}` : "–"),
      },
    };
    const warmup = load.filter((i) => i.phase === "warmup");
    const warmupEnds = warmup.at(-1)?.end_s ?? 0;
    // The last sample lies a little after the window's end.
    const end = largest([...load, ...trial.server.intervals].map((i) => i.end_s));
    return {
      animation: false,
      aria: { enabled: true, label: { description: `${trial.subject_id} over time` } },
      tooltip: { trigger: "axis", renderMode: "richText", confine: true },
      axisPointer: { link: [{ xAxisIndex: "all" }] },
      grid: lanes.map((_, i) => ({ left: 80, right: 24, top: laneTop(i), height: LANE_HEIGHT })),
      xAxis: lanes.map((lane, i) => ({
        type: "value" as const,
        gridIndex: i,
        min: 0,
        max: end,
        splitLine: { show: false },
        axisLabel: { show: lane === lanes.at(-1), formatter: axisSeconds, hideOverlap: true },
      })),
      yAxis: lanes.map((lane, i) => ({
        type: "value" as const,
        gridIndex: i,
        min: 0,
        name: lane.name,
        splitNumber: 2,
        nameTextStyle: { align: "left" as const },
        axisLabel: { formatter: lane.show },
      })),
      dataZoom: [
        {
          type: "slider",
          filterMode: "none",
          xAxisIndex: lanes.map((_, i) => i),
          height: 18,
          bottom: 8,
        },
        {
          type: "inside",
          filterMode: "none",
          xAxisIndex: lanes.map((_, i) => i),
          zoomOnMouseWheel: "ctrl",
        },
      ],
      series: [
        ...lanes.flatMap((lane, i) =>
          lane.lines.map((l, j) => ({
            type: "line" as const,
            name: l.name,
            xAxisIndex: i,
            yAxisIndex: i,
            symbol: "none",
            data: l.data,
            lineStyle: { width: 2, color: colour, type: l.dash ?? "solid" },
            itemStyle: { color: colour },
            tooltip: {
              valueFormatter: (v: unknown) => (typeof v === "number" ? lane.show(v) : "–"),
            },
            ...(j === 0 && warmupEnds > 0
              ? {
                  markArea: {
                    silent: true,
                    itemStyle: { color: choice.dark ? "#ffffff10" : "#00000008" },
                    data: [[{ xAxis: 0 }, { xAxis: warmupEnds }]],
                  },
                }
              : {}),
          })),
        ),
        bounds,
      ] as NonNullable<Option["series"]>,
    };
  },
};
