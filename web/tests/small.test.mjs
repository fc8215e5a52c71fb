// A report of one workload and few subjects: nothing to choose that is not there. REPORT names the
// page.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { launch } from "./browser.mjs";
import { areDrawn, data, onPage, plot, seen, TALL } from "./page.mjs";

const file = process.env.REPORT;
assert.ok(file, "set REPORT to the path of a report.html");

let browser;
before(async () => {
  browser = await launch();
});
after(async () => {
  await browser?.close();
});

test("a report of one workload has no switch, and shows what the page shows alone", async () => {
  await onPage(browser, file, { height: TALL }, async (page) => {
    await areDrawn(page);
    assert.equal(await page.getByRole("radio").count(), 0);
    assert.ok(
      (await plot(page, "throughput").locator("svg text").allTextContents()).includes("requests/s"),
    );
    assert.equal(await page.locator("caption").count(), 0);
    assert.deepEqual(await seen(page, ".pager"), []);
    assert.deepEqual(await seen(page, "#why > .note"), []);
    assert.equal(await page.locator("#why .reason").count(), 0);
    const [, table] = /<table class="sortable overview">.*?<tbody>(.*?)<\/tbody>/s.exec(
      await readFile(file, "utf8"),
    );
    const bars = await page
      .locator("table.overview td")
      .evaluateAll((all) =>
        all.map((cell) => cell.style.getPropertyValue("--bar")).filter((bar) => bar !== ""),
      );
    assert.deepEqual(
      bars,
      [...table.matchAll(/--bar:([^"]+)"/g)].map(([, bar]) => bar),
    );
  });
});

test("few subjects have toggles in the bar, which overview, tables and cards follow", async () => {
  await onPage(browser, file, {}, async (page) => {
    const { subjects, summaries } = await data(page);
    assert.equal(await page.locator("#legend [data-toggle]").count(), subjects.length);
    await page.locator("figure[data-chart=throughput] summary").click();
    await page.locator("#legend [data-toggle]").first().click();
    const left = subjects.slice(1).map((s) => s.title);
    const titles = await page
      .locator("table.overview tbody tr:visible td:first-child")
      .evaluateAll((all) => all.map((cell) => cell.childNodes[1].textContent.trim()));
    assert.deepEqual(titles.toSorted(), left.toSorted());
    const rows = summaries.filter((s) => s.subject !== subjects[0].id).length;
    assert.equal(
      await page.locator("figure[data-chart=throughput] tbody tr:visible").count(),
      rows,
    );
    assert.deepEqual(await seen(page, "figure[data-chart=throughput] caption"), [
      `${rows} of ${summaries.length} rows are selected`,
    ]);
    const cards = await seen(page, "#why .card h3");
    assert.deepEqual(
      cards,
      left.filter((title) =>
        summaries.some((s) => subjects.find((one) => one.id === s.subject).title === title),
      ),
    );
  });
});
