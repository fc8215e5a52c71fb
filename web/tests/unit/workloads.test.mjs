// What is drawn of several workloads, of one of them, and of a report that has but one.
import assert from "node:assert/strict";
import { test } from "node:test";
import { goldenReport } from "./golden.mjs";
import { source } from "./source.mjs";

// The theme asks it once, and nothing here depends on the answer.
globalThis.matchMedia = () => ({ matches: false });
const {
  changedChoice,
  firstChoice,
  hasProtocols,
  protocolsOf,
  shownTrials,
  shownWorkloads,
  stepsOf,
} = await source("choice.ts");
const { FIGURES } = await source("figures.ts");

const http2 = await goldenReport("http2");
const hello = await goldenReport("hello");

const changed = (report, change) => {
  const copy = JSON.parse(JSON.stringify(report));
  change(copy);
  return copy;
};
const choose = (report, part) => changedChoice(report, firstChoice(report, false), part);

/** A chart after this choice of a workload. */
function drawn(report, chart, workload, more = {}) {
  const choice = { ...choose(report, { workload }), ...more };
  return {
    ...FIGURES[chart].option(report, choice),
    height: FIGURES[chart].height?.(report, choice),
  };
}

const OVER_STEPS = [
  "throughput",
  "errors",
  "response",
  "cpu",
  "cpus",
  "system-calls",
  "memory",
  "memory-time",
];

test("a page begins with the first workload, its reference step and its first trial", () => {
  const choice = firstChoice(http2, false);
  assert.equal(choice.workload, "h1");
  assert.deepEqual(shownWorkloads(http2, choice), ["h1"]);
  for (const workload of ["h1", "h2"]) {
    const { at, trial } = choose(http2, { workload });
    assert.equal(at.workload, workload);
    assert.equal(at.step, http2.overview.find((row) => row.workload === workload).reference_step);
    assert.equal(http2.trials[trial].workload, workload);
  }
});

test("a workload has one pair of axes, and all of them have one each with the same x", () => {
  for (const chart of OVER_STEPS) {
    for (const workload of ["h1", "h2"]) {
      const { grid, yAxis, series } = drawn(http2, chart, workload);
      assert.equal(grid.length, 1);
      assert.ok(yAxis[0].name.startsWith(`${workload} · `), yAxis[0].name);
      assert.ok(series.every((s) => s.xAxisIndex === 0 && s.yAxisIndex === 0));
    }
    const { grid, xAxis, yAxis, series, height } = drawn(http2, chart, null);
    assert.deepEqual(
      yAxis.map((axis) => axis.name.split(" · ")[0]),
      ["h1", "h2"],
    );
    assert.deepEqual([grid.length, xAxis.length], [2, 2]);
    assert.deepEqual([xAxis[0].min, xAxis[0].max], [xAxis[1].min, xAxis[1].max]);
    assert.deepEqual([...new Set(series.map((s) => s.yAxisIndex))], [0, 1]);
    assert.ok(height > grid[1].top + grid[1].height);
  }
});

test("all workloads together show every trial once, in the panel of its workload", () => {
  const dots = (option, panel) =>
    option.series
      .filter((s) => s.type === "scatter" && s.yAxisIndex === panel)
      .flatMap((s) => s.data);
  const all = drawn(http2, "throughput", null);
  assert.deepEqual(dots(all, 0), dots(drawn(http2, "throughput", "h1"), 0));
  assert.deepEqual(dots(all, 1), dots(drawn(http2, "throughput", "h2"), 0));
  assert.equal(dots(all, 0).length + dots(all, 1).length, http2.trials.length);
});

test("bars are of the rows of a workload, and the spectrum says which step of which it is", () => {
  const names = (workload) => drawn(http2, "split", workload).yAxis.data;
  assert.deepEqual([...names("h1"), ...names("h2")].toSorted(), names(null).toSorted());
  assert.match(drawn(http2, "spectrum", "h2").yAxis.name, /^h2, .* · response time$/);
});

test("where there is one workload, none is named", () => {
  assert.equal(drawn(hello, "throughput", "plaintext").yAxis[0].name, "requests/s");
  assert.equal(drawn(hello, "throughput", "plaintext").height, null);
  assert.equal(drawn(hello, "spectrum", "plaintext").yAxis.name, "response time");
});

test("a chosen step holds for charts of one step and for the trials to pick from", () => {
  const other = http2.summaries.find(
    (s) => s.workload === "h1" && s.step !== firstChoice(http2, false).at.step,
  );
  const choice = choose(http2, { step: other.step });
  assert.deepEqual(choice.at, { workload: "h1", step: other.step });
  const shown = shownTrials(http2, choice);
  assert.ok(shown.length > 0 && shown.includes(choice.trial));
  assert.ok(
    shown.every(
      (trial) =>
        http2.trials[trial].step.index === other.step && http2.trials[trial].workload === "h1",
    ),
  );
  const ofH2 = stepsOf(http2, { workload: "h2", protocol: null }).map((s) => s.step);
  assert.ok(!ofH2.includes(other.step), "HTTP/2 has steps of its own");
  assert.equal(
    changedChoice(http2, choice, { workload: "h2" }).step,
    null,
    "a step that is not there any more is not chosen",
  );
});

test("trials of hidden subjects are not picked from", () => {
  const hidden = new Set(["old"]);
  const choice = choose(http2, { hidden });
  assert.ok(shownTrials(http2, choice).every((trial) => http2.trials[trial].subject_id !== "old"));
  assert.ok(shownTrials(http2, choice).includes(choice.trial));
});

test("a protocol is chosen where that is not the choice of a workload", () => {
  assert.deepEqual([protocolsOf(http2), hasProtocols(http2)], [["h1", "h2 over TLS"], false]);
  // Two requests over each protocol.
  const four = changed(http2, ({ run, summaries, trials, overview }) => {
    for (const list of [summaries, trials, overview])
      list.push(...list.map((of) => ({ ...of, workload: `${of.workload}-json` })));
    run.workloads.push(...run.workloads.map((w) => ({ ...w, name: `${w.name}-json` })));
  });
  assert.ok(hasProtocols(four));
  const choice = choose(four, { protocol: "h2 over TLS" });
  assert.deepEqual(
    [choice.workload, choice.at.workload],
    ["h2", "h2"],
    "what is not of it gives way",
  );
  assert.deepEqual(shownWorkloads(four, { workload: null, protocol: "h2 over TLS" }), [
    "h2",
    "h2-json",
  ]);
  assert.equal(drawn(four, "throughput", null, { protocol: "h2 over TLS" }).grid.length, 2);
});

/** The report with a control that serves so many times what it did. */
function withControl(times) {
  const report = JSON.parse(JSON.stringify(hello));
  const control = report.subjects[0];
  control.control = true;
  const of = (q) => {
    for (const key of ["median", "min", "max"]) q[key] = q[key] === null ? null : q[key] * times;
  };
  for (const s of report.summaries.filter((s) => s.subject === control.id)) {
    of(s.metrics.throughput_rps);
    s.metrics.throughput_rps.interval = null;
  }
  for (const t of report.trials.filter((t) => t.subject_id === control.id))
    t.load.throughput_rps *= times;
  return { report, control, trials: report.trials.filter((t) => t.subject_id === control.id) };
}

test("a control far above the others is cut, with an arrow and a value for each trial", () => {
  const { report, control, trials } = withControl(1000);
  const { yAxis, series } = drawn(report, "throughput", "plaintext");
  const end = yAxis[0].max;
  const others = report.trials
    .filter((t) => t.subject_id !== control.id)
    .map((t) => t.load.throughput_rps);
  assert.ok(end > Math.max(...others) && end < 2 * Math.max(...others));
  const dots = series.find((s) => s.type === "scatter").data;
  assert.equal(
    dots.filter((d) => d.value[1] === end && d.note.includes("above the end of this axis")).length,
    trials.length,
  );
  const line = series.find((s) => s.type === "line" && s.name === control.id);
  assert.equal(line.endLabel, undefined);
  const labels = series.at(-1).data.map((d) => d.label.formatter);
  assert.equal(labels.filter((text) => text.startsWith(control.title)).length, 1);
  assert.ok(labels.every((text) => /\d/.test(text)));
});

test("a control is whole on a logarithmic axis, alone, and where it is not far above", () => {
  const far = withControl(1000);
  const others = new Set(far.report.subjects.filter((s) => s !== far.control).map((s) => s.id));
  for (const { yAxis } of [
    drawn(far.report, "throughput", "plaintext", { logY: true }),
    drawn(far.report, "throughput", "plaintext", { hidden: others }),
    drawn(withControl(0.001).report, "throughput", "plaintext"),
  ])
    assert.ok(
      (yAxis[0].max ?? Infinity) > Math.max(...far.trials.map((t) => t.load.throughput_rps)),
    );
});
