// A report of many subjects, trials, workloads and protocols: what is chosen holds everywhere, and
// tables have pages. REPORT names the page.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { isDeepStrictEqual } from "node:util";
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

const figure = (chart) => `figure[data-chart=${chart}]`;
const unfold = (page, chart) => page.locator(`${figure(chart)} summary`).click();
const rowsSeen = (page, chart) => page.locator(`${figure(chart)} tbody tr:visible`).count();
const of = (of, workload) => of.filter((one) => one.workload === workload);

test("charts are drawn when they come near, and all of them for paper", async () => {
  await onPage(browser, file, {}, async (page) => {
    const drawn = () => page.locator(".plot svg").count();
    const all = await page.locator(".plot").count();
    assert.ok((await drawn()) < all);
    await plot(page, "startup").scrollIntoViewIfNeeded();
    await plot(page, "startup").locator("svg").waitFor();
    assert.ok((await drawn()) < all);
    await page.evaluate(() => window.dispatchEvent(new window.Event("beforeprint")));
    assert.equal(await drawn(), all);
    await page.evaluate(() => window.dispatchEvent(new window.Event("afterprint")));
  });
});

test("the intervals of a trial are parsed when its chart is drawn", async () => {
  const page = await browser.context.newPage();
  await page.addInitScript(() => {
    const parse = JSON.parse;
    window.parsedTexts = [];
    JSON.parse = (text, ...rest) => {
      window.parsedTexts.push(text);
      return parse(text, ...rest);
    };
  });
  await page.goto(pathToFileURL(file).href);
  await page.locator("header .theme").waitFor();
  const parsed = () => page.evaluate(() => window.parsedTexts);
  assert.equal((await parsed()).length, 1, "opening parses the report without intervals");
  const { trials } = await data(page);
  const last = Number(await page.locator("#trial option").last().getAttribute("value"));
  await page.locator("#trial").selectOption(String(last));
  await plot(page, "explorer").scrollIntoViewIfNeeded();
  await plot(page, "explorer").and(page.locator("[data-drawn]")).waitFor();
  const lists = (await parsed()).slice(1).map((text) => JSON.parse(text));
  // The chart over time may have come near. It draws the trials of one step.
  assert.ok(lists.length >= 2 && lists.length <= trials.length, `${lists.length} lists`);
  const isParsed = (intervals) => lists.some((list) => isDeepStrictEqual(list, intervals));
  assert.ok(isParsed(trials[last].load.intervals) && isParsed(trials[last].server.intervals));
  await page.close();
});

test("a long table has pages, by keyboard too, and is sorted as a whole", async () => {
  await onPage(browser, file, {}, async (page) => {
    const { trials } = await data(page);
    const own = of(trials, "text").length;
    assert.ok(own > 50 && own < 100);
    await unfold(page, "spectrum");
    const pager = page.locator(`${figure("spectrum")} .pager`);
    assert.equal(await rowsSeen(page, "spectrum"), 50);
    assert.equal(await pager.getByRole("status").textContent(), `rows 1–50 of ${own}`);
    assert.deepEqual(await seen(page, `${figure("spectrum")} caption`), [
      `${own} of ${trials.length} rows are selected`,
    ]);
    const [previous, next] = [
      pager.getByRole("button", { name: "Previous" }),
      pager.getByRole("button", { name: "Next" }),
    ];
    assert.ok(await previous.isDisabled());
    await next.focus();
    await page.keyboard.press("Enter");
    assert.equal(await rowsSeen(page, "spectrum"), own - 50);
    assert.equal(await pager.getByRole("status").textContent(), `rows 51–${own} of ${own}`);
    assert.ok(await next.isDisabled());
    await page
      .locator(`${figure("spectrum")} th`)
      .nth(0)
      .getByRole("button")
      .click();
    const names = () =>
      page.locator(`${figure("spectrum")} tbody tr:visible td:first-child`).allTextContents();
    const sorted = of(trials, "text")
      .map((t) => t.subject_id)
      .toSorted();
    assert.deepEqual(
      await names(),
      sorted.slice(0, 50),
      "its first page begins with the first of all",
    );
    await pager.getByRole("button", { name: "Show all" }).click();
    assert.deepEqual(await names(), sorted);
    await pager.getByRole("button", { name: "Show by pages" }).click();
    assert.equal(await rowsSeen(page, "spectrum"), 50);
  });
});

test("on paper and without a viewer all rows are there", async () => {
  await onPage(browser, file, {}, async (page) => {
    const { trials } = await data(page);
    await unfold(page, "spectrum");
    await page.emulateMedia({ media: "print" });
    assert.equal(await rowsSeen(page, "spectrum"), of(trials, "text").length);
    assert.deepEqual(await seen(page, ".pager"), []);
    await page.emulateMedia({ media: "screen" });
    assert.equal(await rowsSeen(page, "spectrum"), 50);
  });
  const page = await browser.context.newPage();
  const devtools = await browser.context.newCDPSession(page);
  await devtools.send("Emulation.setScriptExecutionDisabled", { value: true });
  await page.goto(pathToFileURL(file).href);
  await unfold(page, "spectrum");
  const { trials, overview } = await data(page);
  assert.equal(await rowsSeen(page, "spectrum"), trials.length);
  assert.equal(await page.locator("table.overview tbody tr:visible").count(), overview.length);
  await page.close();
});

test("subjects are searched for and chosen in a panel, for all parts of the page", async () => {
  await onPage(browser, file, { height: TALL }, async (page) => {
    await areDrawn(page);
    const { subjects, summaries, trials } = await data(page);
    await unfold(page, "throughput");
    const opener = page.locator("#legend .opener");
    const all = subjects.length;
    assert.equal(await opener.textContent(), `Subjects (${all} of ${all})`);
    await opener.focus();
    await page.keyboard.press("Enter");
    // The search has the focus.
    await page.keyboard.type("fast 3");
    assert.deepEqual(await seen(page, "#subjects .item [data-toggle]"), ["Fast <1> 3"]);
    await page.keyboard.press("Enter");
    assert.equal(await opener.textContent(), `Subjects (1 of ${all})`);
    const own = of(summaries, "text").filter((s) => s.subject === "fast-3");
    assert.equal(await rowsSeen(page, "throughput"), own.length);
    assert.equal(await page.locator("table.overview tbody tr:visible").count(), 1);
    assert.deepEqual(await seen(page, "#why .card h3"), ["Fast <1> 3"]);
    const options = await page.locator("#trial option").allTextContents();
    assert.equal(
      options.length,
      of(trials, "text").filter((t) => t.subject_id === "fast-3").length,
    );
    assert.ok(options.every((option) => option.startsWith("fast-3 · ")));
    const named = await plot(page, "startup").locator("svg text").allTextContents();
    assert.ok(named.includes("Fast <1> 3") && !named.includes("Fast <1> 2"));
    await page.keyboard.press("Escape");
    assert.deepEqual(await seen(page, "#subjects"), []);
    assert.ok(await opener.evaluate((element) => element === document.activeElement));
    await opener.click();
    await page.getByRole("button", { name: "None", exact: true }).click();
    assert.equal(await page.locator("table.overview tbody tr:visible").count(), 0);
    await page.getByRole("button", { name: "All", exact: true }).click();
    assert.equal(await opener.textContent(), `Subjects (${all} of ${all})`);
  });
});

test("a step is chosen for tables, cards, charts of one step and trials", async () => {
  await onPage(browser, file, { height: TALL }, async (page) => {
    await areDrawn(page);
    const { summaries, trials } = await data(page);
    await unfold(page, "throughput");
    await page.locator("#legend .step select").selectOption({ label: "4 connections" });
    const own = of(summaries, "text").filter((s) => s.connections === 4);
    assert.equal(await rowsSeen(page, "throughput"), own.length);
    assert.equal((await seen(page, "#why .strip li")).length, own.length);
    assert.deepEqual(await page.locator(`${figure("spectrum")} option`).allTextContents(), [
      "text, 4 connections",
    ]);
    for (const chart of ["spectrum", "over-time"]) {
      assert.ok(
        (await plot(page, chart).locator("svg text").allTextContents()).some((text) =>
          text.startsWith("text, 4 connections · "),
        ),
      );
    }
    const shown = of(trials, "text").filter((t) => t.step.connections === 4).length;
    assert.equal(await page.locator("#trial option").count(), shown);
    const over = await plot(page, "throughput").locator("svg text").allTextContents();
    assert.ok(over.includes("4") && over.includes("16"), "charts over steps keep all of them");
  });
});

test("a protocol is chosen beside the workloads that are over it", async () => {
  await onPage(browser, file, { height: TALL }, async (page) => {
    await areDrawn(page);
    const { overview, summaries } = await data(page);
    const radios = () => seen(page, '.radios[aria-label="Workload"] label');
    assert.deepEqual(await radios(), ["text", "json", "text-h2c", "json-h2c", "all workloads"]);
    await page.getByRole("radio", { name: "h2c", exact: true }).check();
    assert.deepEqual(await radios(), ["text-h2c", "json-h2c", "all workloads"]);
    const shown = async () =>
      (await plot(page, "throughput").locator("svg text").allTextContents())
        .filter((text) => / · /.test(text))
        .map((text) => text.split(" · ")[0]);
    assert.deepEqual(await shown(), ["text-h2c"]);
    await page.getByRole("radio", { name: "all workloads" }).check();
    assert.deepEqual(await shown(), ["text-h2c", "json-h2c"]);
    // Who has no numbers at all is always there.
    const isAbsent = (row) => !summaries.some((s) => s.subject === row.subject);
    const rows = overview.filter((row) => row.workload.endsWith("h2c") || isAbsent(row)).length;
    assert.deepEqual(await seen(page, "#overview caption"), [
      `${rows} of ${overview.length} rows are selected`,
    ]);
    await page.getByRole("radio", { name: "all protocols" }).check();
    assert.equal((await shown()).length, 4);
  });
});
