// Places on the page, in numbers that can be checked by hand.
import assert from "node:assert/strict";
import { test } from "node:test";
import { source } from "./source.mjs";

const layout = await source("layout.ts");

test("an axis ends above the others where a control is more than twice as high, at a round number", () => {
  for (const [others, controls, end] of [
    [[31_900, 27_700], [96_500], 40_000],
    [[38_300], [120_000], 50_000],
    [[95], [191], 100],
    [[98], [200], 120],
    [[0.2], [0.5], 0.25],
  ]) assert.equal(layout.fittedEnd(others, controls), end, `${others} beside ${controls}`);
});

test("an axis has room for all where no control is far above, or nobody else is there", () => {
  for (const [others, controls] of [[[100], [200]], [[100], [50]], [[100], []], [[], [845_000]], [[0], [845_000]], [[], []]]) {
    assert.equal(layout.fittedEnd(others, controls), null, `${others} beside ${controls}`);
  }
});

test("a bar is a part of the longest one, and nothing where that is nothing", () => {
  assert.deepEqual([layout.barLength(200, 200), layout.barLength(25, 200), layout.barLength(0, 0)], ["100.0%", "12.5%", "0.0%"]);
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
