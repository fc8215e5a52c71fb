import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { launch } from "./browser.mjs";
import { sample, writePage } from "./fixture.mjs";

let b, dir, file;
before(async () => {
  dir = await mkdtemp(join(tmpdir(), "dyno-page-"));
  file = join(dir, "report.html");
  await writePage(file, sample);
  b = await launch();
});
after(async () => {
  await b?.close();
  await rm(dir, { recursive: true, force: true });
});

// Lines of a series: stroke-width 2 tells them from the slider's data shadow (0.5), which is clipped too.
const seriesLines = (page) => page.locator("#chart-1 svg g[clip-path] > path[fill='none'][stroke-width='2']").count();
const paths = (page) => page.locator("#chart-1 svg path").count();

test("draws, toggles by keyboard, zooms, resizes, changes theme", async () => {
  const t = await b.open(file);
  const { page } = t;
  console.log("paths", await paths(page), "series lines", await seriesLines(page));
  assert.ok((await paths(page)) > 20);
  assert.equal(await seriesLines(page), 3);
  console.log("aria", await page.locator("#chart-1").getAttribute("aria-label"), "role", await page.locator("#chart-1").getAttribute("role"));

  const btn = page.getByRole("button", { name: "hyper" });
  await btn.focus();
  await page.keyboard.press("Space");
  assert.equal(await btn.getAttribute("aria-pressed"), "false");
  await assert.doesNotReject(page.waitForFunction(() => document.querySelectorAll("#chart-1 svg g[clip-path] > path[fill='none'][stroke-width='2']").length === 2));

  const before = await page.locator("#chart-1").getAttribute("data-zoom");
  const box = await page.locator("#chart-1").boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + 120);
  await page.mouse.wheel(0, -400);
  // Leave the chart, or hover's emphasis changes the stroke widths.
  await page.mouse.move(0, 0);
  await page.waitForFunction((z) => document.querySelector("#chart-1").dataset.zoom !== z, before);
  console.log("zoom", before, "->", await page.locator("#chart-1").getAttribute("data-zoom"));

  const w = () => page.locator("#chart-1 svg").getAttribute("width");
  const w0 = await w();
  await page.setViewportSize({ width: 700, height: 800 });
  await page.waitForFunction((o) => document.querySelector("#chart-1 svg").getAttribute("width") !== o, w0);
  console.log("width", w0, "->", await w());

  const zoomed = await page.locator("#chart-1").getAttribute("data-zoom");
  const strokes = () => page.$$eval("#chart-1 svg g[clip-path] > path[fill='none'][stroke-width='2']", (e) => e.map((p) => p.getAttribute("stroke")));
  const s0 = await strokes();
  await page.emulateMedia({ colorScheme: "dark" });
  await page.waitForFunction(() => document.querySelector("#chart-1 svg g[clip-path] > path[fill='none'][stroke-width='2']")?.getAttribute("stroke")?.toLowerCase() === "#56b4e9");
  console.log("strokes", s0, "->", await strokes());
  const opt = await page.evaluate(() => { const o = [...window.dynoCharts.values()][0].getOption().dataZoom[0]; return [o.start.toFixed(3), o.end.toFixed(3)].join(); });
  assert.equal(opt, zoomed, "zoom survives setTheme");
  assert.equal(await seriesLines(page), 2, "hidden series stays hidden");
  await btn.focus();
  await page.keyboard.press("Enter");
  assert.equal(await btn.getAttribute("aria-pressed"), "true");
  console.log("aria after theme", (await page.locator("#chart-1").getAttribute("aria-label"))?.slice(0, 60));

  const [dl] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Save SVG" }).click()]);
  const svg = await readFile(await dl.path(), "utf8");
  console.log(dl.suggestedFilename(), svg.length, svg.slice(0, 300));
  assert.match(svg, /^<svg [^>]*xmlns="http:\/\/www.w3.org\/2000\/svg"/);
  if (process.env.KEEP_SVG) await writeFile(process.env.KEEP_SVG, svg);
  const parsed = await page.evaluate((s) => new DOMParser().parseFromString(s, "image/svg+xml").querySelector("parsererror")?.textContent ?? null, svg);
  assert.equal(parsed, null);
  console.log(await page.evaluate(() => [...window.dynoCharts.values()][0].getDataURL({ type: "svg", backgroundColor: "#fff" }).slice(0, 80)));
  assert.deepEqual(t.problems, []);
});
