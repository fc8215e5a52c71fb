// Places on the page, in numbers that can be checked by hand.
import assert from "node:assert/strict";
import { test } from "node:test";
import { goldenText } from "./golden.mjs";
import { source } from "./source.mjs";

const layout = await source("layout.ts");

test("an axis ends at a round number above the others if a control is twice as high", () => {
  for (const [others, controls, end] of [
    [[31_900, 27_700], [96_500], 40_000],
    [[38_300], [120_000], 50_000],
    [[95], [191], 100],
    [[98], [200], 120],
    [[0.2], [0.5], 0.25],
  ])
    assert.equal(layout.fittedEnd(others, controls), end, `${others} beside ${controls}`);
});

test("an axis has room for all where no control is far above, or there are only controls", () => {
  for (const [others, controls] of [
    [[100], [200]],
    [[100], [50]],
    [[100], []],
    [[], [845_000]],
    [[0], [845_000]],
    [[], []],
  ]) {
    assert.equal(layout.fittedEnd(others, controls), null, `${others} beside ${controls}`);
  }
});

test("a bar is a part of the one that fills its cell, and nothing where that is nothing", () => {
  assert.deepEqual(
    [layout.barLength(200, 200), layout.barLength(25, 200), layout.barLength(0, 0)],
    ["100.0%", "12.5%", "0.0%"],
  );
  assert.equal(layout.barLength(300, 200), "100.0%", "what is longer is cut");
});

test("bars are as long as the page without a viewer has them", async () => {
  for (const name of ["clean", "hello", "http2", "overload"]) {
    const page = await goldenText(name, "html");
    const [, body] = /<table class="sortable overview">.*?<tbody>(.*?)<\/tbody>/s.exec(page);
    const rows = [...body.matchAll(/<tr([^>]*)>(.*?)<\/tr>/gs)].map(([, of, cells]) => ({
      workload: / data-workload="([^"]*)"/.exec(of)?.[1] ?? "",
      cells: [...cells.matchAll(/<td([^>]*)>/g)].map(([, cell]) => ({
        key: Number(/ data-key="([^"]*)"/.exec(cell)?.[1]),
        bar: /--bar:([^"]*)"/.exec(cell)?.[1],
      })),
    }));
    let bars = 0;
    for (const workload of new Set(rows.map((row) => row.workload))) {
      const own = rows.filter((row) => row.workload === workload);
      for (const column of own[0].cells.keys()) {
        const cells = own.map((row) => row.cells[column]).filter((cell) => cell.bar !== undefined);
        const end = layout.barEnd(
          cells.map((cell) => cell.key),
          [],
        );
        for (const cell of cells) assert.equal(cell.bar, layout.barLength(cell.key, end));
        bars += cells.length;
      }
    }
    assert.ok(bars > 0, name);
  }
});

test("a control's bar ends where it would press all others flat", () => {
  assert.equal(layout.barEnd([100, 50], [190]), 190);
  assert.equal(layout.barEnd([100, 50], [300]), 125);
  assert.equal(layout.barEnd([], [300]), 300);
});

test("a table has pages of fifty rows", () => {
  assert.deepEqual(layout.pageOf(0, 50), { from: 0, to: 50, first: 1, before: null, after: null });
  assert.deepEqual(layout.pageOf(0, 51), { from: 0, to: 50, first: 1, before: null, after: 1 });
  assert.deepEqual(layout.pageOf(1, 51), { from: 50, to: 51, first: 51, before: 0, after: null });
  assert.deepEqual(layout.pageOf(0, 0), { from: 0, to: 0, first: 1, before: null, after: null });
});

test("a number stands among stops where they have it, and where they pass it", () => {
  assert.deepEqual(layout.placesAmong([1, 1, 4, 16], 1), [0, 1]);
  assert.deepEqual(
    layout.placesAmong([1, 4, 16], 8).map((place) => place.toFixed(3)),
    ["1.500"],
  );
  assert.deepEqual(
    layout.placesAmong([16, 1, 16], 4).map((place) => place.toFixed(3)),
    ["0.500", "1.500"],
  );
  assert.deepEqual(layout.placesAmong([1, 4], 8), []);
});

test("a logarithmic axis has the powers of ten around what stands on it", () => {
  assert.deepEqual(layout.decades([0, 20, 300]), { min: 10, max: 1000 });
  assert.deepEqual(layout.decades([10_500_000, 10_500_000]), { min: 1e7, max: 1e8 });
  assert.deepEqual(layout.decades([100]), { min: 100, max: 1000 });
  assert.deepEqual(layout.decades([0]), {});
});

test("rows stand below each other, with room for an axis above them", () => {
  const {
    panels: [first, second],
    height,
  } = layout.rowPanels([3, 1]);
  assert.ok(
    second.top > first.top + first.height &&
      first.height === 3 * second.height &&
      height > second.top + second.height,
  );
});

test("panels stand below each other, and the slider below them", () => {
  const bottom = (panel) => layout.panelTop(panel) + layout.PANEL_HEIGHT;
  assert.ok(layout.panelTop(1) > bottom(0) && layout.panelTop(2) > bottom(1));
  assert.equal(layout.panelsHeight(3) - bottom(2), layout.panelsHeight(2) - bottom(1));
});

test("the ends of places are the first and the last of them", () => {
  assert.deepEqual(layout.ends([8, 1, 64]), [1, 64]);
  assert.deepEqual(layout.ends([]), [0, 0]);
});
