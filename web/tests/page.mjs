// What tests do with a page: open it, hold that nothing went wrong on the way, and look at what is
// shown.
import assert from "node:assert/strict";

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

export const data = (page) =>
  page.evaluate(() => JSON.parse(document.getElementById("dyno-data").textContent));

/** What a person sees of these elements: their texts. */
export const seen = (page, selector) =>
  page
    .locator(selector)
    .evaluateAll((all) =>
      all.filter((one) => one.checkVisibility()).map((one) => one.textContent.trim()),
    );

export const plot = (page, chart) => page.locator(`figure[data-chart="${chart}"] .plot`);
