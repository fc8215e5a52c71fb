// Helper around playwright-core and the system's chromium.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** How long anything may take on the worst machine. Only what never comes about takes that long. */
const PATIENCE_MS = 120_000;

/** Starts chromium with a fresh profile. `close()` ends it and removes the profile. */
export async function launch() {
  const profile = await mkdtemp(join(tmpdir(), "dyno-chromium-"));
  let context;
  try {
    context = await chromium.launchPersistentContext(profile, {
      executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
      headless: true,
      args: FLAGS,
      chromiumSandbox: false,
      acceptDownloads: true,
      timeout: PATIENCE_MS,
    });
    context.setDefaultTimeout(PATIENCE_MS);
  } catch (e) {
    await rm(profile, { recursive: true, force: true });
    throw e;
  }
  return {
    context,
    open: (file, options) => openPage(context, file, options),
    async close() {
      await context.close();
      await rm(profile, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

/** Has every chart drawn: they are when they come near, which most of a long page is not. */
export async function drawAll(page) {
  for (const plot of await page.locator("figure .plot").all()) {
    await plot.scrollIntoViewIfNeeded();
    await plot.and(page.locator("[data-drawn]")).waitFor();
  }
  await page.evaluate(() => {
    window.scrollTo(0, 0);
  });
}

async function openPage(
  context,
  file,
  { width = 1280, height = 800, scheme = "light", ready = "header .theme" } = {},
) {
  const page = await context.newPage();
  const problems = [];
  page.on("console", (m) => {
    if (m.type() === "error" || m.type() === "warning")
      problems.push(`console ${m.type()}: ${m.text()}`);
  });
  page.on("pageerror", (e) => problems.push(`page error: ${e.stack ?? e.message}`));
  page.on("requestfailed", (r) =>
    problems.push(`request failed: ${r.url()} ${r.failure()?.errorText ?? ""}`),
  );
  const url = pathToFileURL(resolve(file)).href;
  // A report must not ask for anything but itself (blob: is the SVG export).
  page.on("request", (r) => {
    if (r.url() !== url && !/^(blob|data):/.test(r.url()))
      problems.push(`unexpected request: ${r.url()}`);
  });
  await page.setViewportSize({ width, height });
  await page.emulateMedia({ colorScheme: scheme });
  await page.goto(url);
  if (ready) await page.locator(ready).first().waitFor();
  return {
    page,
    problems,
    screenshot: async (path) => {
      await drawAll(page);
      // full page, but at the viewport's width
      await page.screenshot({ path, fullPage: true, animations: "disabled" });
    },
    pdf: async (path) => {
      await page.emulateMedia({ media: "print", colorScheme: "light" });
      await page.pdf({ path, format: "A4", printBackground: true });
      await page.emulateMedia({ media: "screen", colorScheme: scheme });
    },
  };
}
