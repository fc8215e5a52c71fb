// What charts draw of steps that come again, of a single step, over time, and over whole lives.
import assert from "node:assert/strict";
import { test } from "node:test";
import { goldenReport } from "./golden.mjs";
import { source } from "./source.mjs";

// The theme asks it once, and nothing here depends on the answer.
globalThis.matchMedia = () => ({ matches: false });
const { firstChoice } = await source("choice.ts");
const { FIGURES } = await source("figures.ts");

const hello = await goldenReport("hello");
const clean = await goldenReport("clean");
const changed = (report, change) => {
  const copy = JSON.parse(JSON.stringify(report));
  change(copy);
  return copy;
};
const drawn = (report, chart, more = {}) =>
  FIGURES[chart].option(report, { ...firstChoice(report, false), ...more });
const dots = (option) => option.series.filter((s) => s.type === "scatter").flatMap((s) => s.data);

/** The report with its first step asked once more at the end, and markers. */
const again = changed(hello, ({ run, summaries, trials }) => {
  const [{ step: first, connections }] = summaries;
  const last = Math.max(...summaries.map((s) => s.step));
  const steps = [...new Set(summaries.map((s) => s.connections))];
  run.markers = [
    { connections, label: "again" },
    { connections: Math.sqrt(steps[0] * steps[1]), label: "between" },
  ];
  summaries.push(
    ...summaries.filter((s) => s.step === first).map((s) => ({ ...s, step: last + 1, pass: 2 })),
  );
  trials.push(
    ...trials
      .filter((t) => t.step.index === first)
      .map((t) => ({ ...t, step: { ...t.step, index: last + 1, pass: 2 } })),
  );
});

test("steps that come again have places of their own, in the order of the suite", () => {
  const steps = [...new Set(hello.summaries.map((s) => s.connections))];
  const {
    xAxis: [axis],
    series,
  } = drawn(again, "throughput");
  assert.equal(axis.name, "connections, in the order of the suite");
  const names = [...steps, null].map((_, place) => axis.axisLabel.formatter(place));
  assert.deepEqual(names, [...steps.map(String), `${steps[0]} (2)`]);
  assert.deepEqual(
    [axis.min, axis.max, axis.axisLabel.formatter(0.5)],
    [-0.5, steps.length + 0.5, ""],
  );
  const line = series.find((s) => s.type === "line");
  assert.deepEqual(
    line.data.map(([place]) => place),
    names.map((_, place) => place),
  );
  assert.equal(new Set(dots({ series }).map((d) => d.value[0])).size, names.length);
});

test("markers stand where their connections are, and where those are passed", () => {
  const { series } = drawn(again, "throughput");
  const places = series[0].markLine.data.map(({ xAxis, label }) => [
    label.formatter,
    Number(xAxis.toFixed(6)),
  ]);
  const last = new Set(hello.summaries.map((s) => s.connections)).size;
  assert.deepEqual(
    places.filter(([name]) => name === "again"),
    [
      ["again", 0],
      ["again", last],
    ],
  );
  const between = places.filter(([name]) => name === "between").map(([, place]) => place);
  assert.equal(between[0], 0.5);
  assert.ok(
    between.length === 2 && between[1] > last - 1 && between[1] < last,
    "it is passed once more on the way back",
  );
});

test("of a single step there is a row for each subject, as the overview has them", () => {
  const option = drawn(clean, "throughput");
  const titles = clean.overview.map(
    (row) => clean.subjects.find((s) => s.id === row.subject).title,
  );
  assert.deepEqual(option.yAxis[0].data, titles);
  const bars = option.series.find((s) => s.type === "bar").data.map(({ value }) => value);
  assert.deepEqual(
    bars,
    clean.overview.map(
      (row) => clean.summaries.find((s) => s.subject === row.subject).metrics.throughput_rps.median,
    ),
  );
  assert.equal(dots(option).length, clean.trials.length);
  const log = drawn(clean, "response", { logY: true });
  assert.ok(
    !log.series.some((s) => s.type === "bar"),
    "a logarithmic axis has no zero for bars to begin at",
  );
  const far = changed(clean, (report) => {
    const [control] = report.subjects;
    control.control = true;
    const own = report.summaries.find((s) => s.subject === control.id);
    own.metrics.throughput_rps.median *= 1000;
    report.trials
      .filter((t) => t.subject_id === control.id)
      .forEach((t) => {
        t.load.throughput_rps *= 1000;
      });
  });
  const cut = drawn(far, "throughput");
  const end = cut.xAxis[0].max;
  const [bar] = cut.series.find((s) => s.type === "bar").data.filter((one) => one.label.show);
  assert.ok(
    bar.value === end && bar.label.formatter.startsWith("→ "),
    "a control far above the others is cut, and says its value",
  );
  const above = ({ value, note }) =>
    value[0] === end && note.includes("above the end of this axis");
  assert.equal(dots(cut).length, clean.trials.length);
  assert.ok(dots(cut).some(above), "its repeats are marked at the end of the axis");
  const refused = changed(far, (report) => {
    const [{ id }] = report.subjects;
    report.summaries
      .filter((s) => s.subject === id)
      .forEach((s) => Object.assign(s.metrics.throughput_rps, { median: null, values: [] }));
    report.trials
      .filter((t) => t.subject_id === id)
      .forEach((t) => Object.assign(t, { valid: false, refused: true }));
  });
  const unknown = drawn(refused, "throughput");
  const [label] = unknown.series.find((s) => s.type === "bar").data.filter((one) => one.label.show);
  assert.ok(label.value === end && label.itemStyle.opacity === 0, "a label without a bar");
  const notes = dots(unknown).map(({ note }) => note);
  assert.ok(
    notes.some((note) => note.endsWith("refused, as expected of this control")),
    notes[0],
  );
  assert.ok(FIGURES.throughput.height(clean, firstChoice(clean, false)) > 0);
});

test("throughput over time is of all repeats of the chosen step, with its warm-up shaded", () => {
  const choice = firstChoice(clean, false);
  const own = clean.trials.filter(
    (t) => t.step.index === choice.at.step && t.workload === choice.at.workload,
  );
  const [shade, ...lines] = drawn(clean, "over-time").series;
  assert.equal(lines.length, own.length);
  const warmup = own[0].load.intervals.filter((i) => i.phase === "warmup").at(-1);
  assert.deepEqual(shade.markArea.data, [[{ xAxis: 0 }, { xAxis: warmup.end_s }]]);
  const [first] = own;
  const measured = first.load.intervals.filter((i) => i.phase !== "drain");
  const line = lines.find((l) => l.data[0][1] === measured[0].throughput_rps);
  assert.deepEqual(
    line.data.slice(0, -1),
    measured.map((i) => [i.start_s, i.throughput_rps]),
  );
  assert.deepEqual(line.data.at(-1), [measured.at(-1).end_s, measured.at(-1).throughput_rps]);
  const hidden = new Set([first.subject_id]);
  assert.equal(
    drawn(clean, "over-time", { hidden }).series.length - 1,
    own.filter((t) => !hidden.has(t.subject_id)).length,
  );
});

test("the list beside the pointer is cut where it would cover the chart", () => {
  const { tooltip } = drawn(clean, "over-time");
  const point = (n) => ({ seriesName: `line ${n}`, value: [1, n], data: [1, n] });
  const text = tooltip.formatter(Array.from({ length: 30 }, (_, n) => point(n))).split("\n");
  assert.deepEqual(
    [text[0], text[1], text.at(-1)],
    ["1 s", "line 29: 29", "the highest 20 of 30 lines"],
  );
  assert.deepEqual(tooltip.formatter([point(1), point(2)]).split("\n"), [
    "1 s",
    "line 2: 2",
    "line 1: 1",
  ]);
});

test("a life is a line through its running totals, and each point says whose and when", () => {
  const lived = changed(clean, ({ run, summaries, subjects }) => {
    const [{ step }] = summaries;
    const points = [
      { workload: null, step: null, cpu_s: 0.25, requests: 0 },
      { workload: null, step: null, cpu_s: 1, requests: 5000 },
      { workload: 0, step, cpu_s: 2, requests: 15000 },
    ];
    subjects.forEach((s) => {
      s.lifetimes = {
        cpu_us_per_request: { values: [] },
        cost_per_billion_requests: null,
        starts: [],
      };
    });
    subjects[0].lifetimes.starts = [
      { repeat: 1, points },
      { repeat: 2, points: points.slice(0, 2) },
    ];
    run.workloads = run.workloads.slice(0, 1);
  });
  const { series } = drawn(lived, "lifetimes");
  assert.equal(series.length, 2);
  assert.deepEqual(
    series[0].data.map((d) => d.value),
    [
      [0.25, 0],
      [1, 5000],
      [2, 15000],
    ],
  );
  const notes = series[0].data.map((d) => d.note.split("\n"));
  assert.deepEqual(
    notes.map(([who]) => who),
    Array(3).fill(`${lived.subjects[0].title}, repeat 1`),
  );
  assert.deepEqual(
    notes.map(([, what]) => what.split(":")[0]),
    ["ready", "warm", `after ${clean.summaries[0].connections} connections`],
  );
  assert.equal(notes[2][1].split(": ")[1], "15,000 requests in 2.00 s of CPU time");
});
