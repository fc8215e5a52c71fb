// What tests do with a page: open it, hold that nothing went wrong on the way, and look at what is
// shown.
import assert from "node:assert/strict";
import { source } from "./unit/source.mjs";

const { wholeReport } = await source("data.ts");

/** So tall that every chart is in sight: they are drawn when they come near. */
export const TALL = 20_000;

/** Opens the page, does something with it, and holds that nothing went wrong on the way. */
export async function onPage(browser, file, options, act) {
  const opened = await browser.open(file, options);
  try {
    await act(opened.page);
    assert.deepEqual(opened.problems, []);
  } finally {
    await opened.page.close();
  }
}

export async function areDrawn(page) {
  await page.waitForFunction(() =>
    [...document.querySelectorAll("figure .plot")].every((plot) => plot.dataset.drawn === "1"),
  );
}

/** The whole report of a page. */
export async function data(page) {
  const texts = await page.evaluate(() =>
    ["dyno-data", "dyno-intervals"].map((id) => document.getElementById(id)?.textContent ?? ""),
  );
  return JSON.parse(wholeReport(...texts));
}

/** What a person sees of these elements: their texts. */
export const seen = (page, selector) =>
  page
    .locator(selector)
    .evaluateAll((all) =>
      all.filter((one) => one.checkVisibility()).map((one) => one.textContent.trim()),
    );

export const plot = (page, chart) => page.locator(`figure[data-chart="${chart}"] .plot`);
