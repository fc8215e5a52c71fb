// The report in a real browser. REPORT names the page; `make test` makes one by a real run.
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { launch } from "./browser.mjs";
import { areDrawn, onPage as onPageOf, plot, TALL } from "./page.mjs";
import { source } from "./unit/source.mjs";

const { wholeReport } = await source("data.ts");

const file = process.env.REPORT;
assert.ok(file, "set REPORT to the path of a report.html");

let browser;
before(async () => {
  browser = await launch();
});
after(async () => {
  await browser?.close();
});

/** The page with all of its charts drawn. */
const onPage = (options, act) =>
  onPageOf(browser, file, { height: TALL, ...options }, async (page) => {
    await areDrawn(page);
    await act(page);
  });

/** The page with other data. `expected`: complaints that belong to the test. */
async function onChanged(change, act, expected = []) {
  const html = await readFile(file, "utf8");
  const textOf = (id) => new RegExp(`id="${id}">(.*?)</script>`, "s").exec(html)[1];
  const data = textOf("dyno-data");
  const report = JSON.parse(wholeReport(data, textOf("dyno-intervals")));
  change(report);
  const changed = JSON.stringify(report).replaceAll("<", "\\u003c");
  const folder = await mkdtemp(join(tmpdir(), "dyno-page-"));
  try {
    const path = join(folder, "report.html");
    await writeFile(
      path,
      html.replace(data, () => changed),
    );
    const opened = await browser.open(path, { height: TALL });
    await areDrawn(opened.page);
    await act(opened.page);
    assert.deepEqual(
      opened.problems.filter((p) => !expected.some((e) => e.test(p))),
      [],
    );
    await opened.page.close();
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

const paths = (page, chart) => plot(page, chart).locator("svg path").count();

test("every chart is drawn, with its table one click away", async () => {
  await onPage({}, async (page) => {
    const charts = await page.$$eval("figure[data-chart]", (all) =>
      all.map((f) => f.dataset.chart),
    );
    const [failed, lived, counted, hasModes] = await page.evaluate(() => {
      const { trials, subjects, summaries } = JSON.parse(
        document.getElementById("dyno-data").textContent,
      );
      return [
        trials.some((t) => t.error_share > 0),
        subjects.some((s) => s.lifetimes.starts.length > 0),
        summaries.some((s) => s.metrics["server_syscalls_per_request"]?.median != null),
        summaries.some((s) => s.metrics["server_cpu_user_us_per_request"]?.median != null),
      ];
    });
    assert.deepEqual(
      charts.toSorted(),
      [
        "cpu",
        "cpus",
        ...(failed ? ["errors"] : []),
        "explorer",
        ...(lived ? ["lifetimes"] : []),
        "memory",
        "memory-time",
        "over-time",
        "response",
        "spectrum",
        "split",
        "startup",
        ...(counted ? ["system-calls"] : []),
        "throughput",
      ],
      "charts of errors, lives and system calls stand where there are any, and only there",
    );
    for (const chart of charts) {
      // User and system time are unknown if no step is valid, such as on a busy machine.
      if (chart !== "split" || hasModes) {
        assert.ok((await paths(page, chart)) > 3, `${chart} holds nothing`);
      }
      const figure = page.locator(`figure[data-chart="${chart}"]`);
      await figure.locator("summary").click();
      assert.ok(
        (await figure.locator("details table tbody tr").count()) > 0,
        `${chart} has no table`,
      );
    }
  });
});

test("the legend hides a subject in every chart of several, by keyboard too", async () => {
  await onPage({}, async (page) => {
    const toggle = page.locator("#legend button").first();
    // By colour: the number of all shapes may even grow, for an axis has other lines for what is
    // left on it.
    const colour = await toggle
      .locator(".swatch")
      .evaluate((swatch) => window.getComputedStyle(swatch).backgroundColor);
    const shapes = () =>
      page.evaluate(
        (colour) =>
          Object.fromEntries(
            [...document.querySelectorAll("figure[data-chart]")].map((figure) => [
              figure.dataset.chart,
              [...figure.querySelectorAll(".plot svg path")]
                .map((path) => window.getComputedStyle(path))
                .filter((style) => style.fill === colour || style.stroke === colour).length,
            ]),
          ),
        colour,
      );
    const shown = await shapes();
    for (const chart of ["throughput", "startup"])
      assert.ok(shown[chart] > 0, `${chart} lacks the subject`);
    await toggle.focus();
    await page.keyboard.press("Space");
    assert.equal(await toggle.getAttribute("aria-pressed"), "false");
    assert.deepEqual(
      await shapes(),
      Object.fromEntries(Object.keys(shown).map((chart) => [chart, 0])),
    );
    await page.keyboard.press("Enter");
    assert.equal(await toggle.getAttribute("aria-pressed"), "true");
    // The explorer is of one trial, and stays at that of another subject.
    assert.deepEqual({ ...(await shapes()), explorer: 0 }, { ...shown, explorer: 0 });
  });
});

test("a chart zooms, keeps its zoom through a change of theme, and resets", async () => {
  await onPage({}, async (page) => {
    const chart = plot(page, "throughput");
    await chart.scrollIntoViewIfNeeded();
    const zoom = () => chart.getAttribute("data-zoom");
    const whole = await zoom();
    const box = await chart.boundingBox();
    await page.mouse.move(box.x + box.width / 2, box.y + 150);
    await page.mouse.wheel(0, -400);
    await page.waitForFunction(
      (was) => document.querySelector('figure[data-chart="throughput"] .plot').dataset.zoom !== was,
      whole,
    );
    const zoomed = await zoom();
    await page.getByRole("button", { name: "Dark", exact: true }).click();
    await page.waitForFunction(() => document.documentElement.dataset.theme === "dark");
    assert.equal(await zoom(), zoomed);
    await page
      .locator('figure[data-chart="throughput"]')
      .getByRole("button", { name: "Reset zoom" })
      .click();
    assert.equal(await zoom(), whole);
  });
});

test("scales, percentiles, steps and trials can be chosen", async () => {
  await onPage({}, async (page) => {
    const text = (chart) => plot(page, chart).locator("svg").textContent();
    const figure = (chart) => page.locator(`figure[data-chart="${chart}"]`);
    const changes = async (chart, act) => {
      const before = await text(chart);
      await act();
      await page.waitForFunction(
        ([c, was]) =>
          document.querySelector(`figure[data-chart="${c}"] .plot svg`).textContent !== was,
        [chart, before],
      );
    };
    await changes("throughput", () =>
      figure("throughput").getByRole("button", { name: "Log scale" }).click(),
    );
    await changes("response", () => figure("response").locator("select").selectOption("p50"));
    const choice = figure("spectrum").locator("select");
    const steps = async () => (await choice.locator("option").allTextContents()).toSorted();
    assert.deepEqual(await steps(), ["json, 2 connections", "json, 4 connections"]);
    const some = await page.locator("#trial option").count();
    await page.getByRole("radio", { name: "all workloads" }).check();
    const names = await steps();
    assert.deepEqual(names, [
      "json, 2 connections",
      "json, 4 connections",
      "plaintext, 2 connections",
      "plaintext, 4 connections",
    ]);
    for (const name of names) {
      await choice.selectOption(name);
      const trials = await page.evaluate(
        (name) =>
          JSON.parse(document.getElementById("dyno-data").textContent).trials.filter(
            (t) => `${t.workload}, ${t.step.connections} connections` === name,
          ).length,
        name,
      );
      await page.waitForFunction(
        (n) =>
          document.querySelectorAll('figure[data-chart="spectrum"] svg path[stroke-width="1.5"]')
            .length === n,
        trials,
      );
    }
    const trials = await page.locator("#trial option").count();
    assert.ok(some > 1 && trials > some);
    await changes("explorer", () => page.locator("#trial").selectOption(String(trials - 1)));
    assert.ok(
      (await page.locator("#trial-caveats li").count()) > 0,
      "the caveats of the trial stand beside it",
    );
  });
});

test("a workload is chosen once for every chart and table, by keyboard too", async () => {
  await onPage({}, async (page) => {
    const over = ["throughput", "response", "cpu", "memory"];
    const texts = (chart) => plot(page, chart).locator("svg text").allTextContents();
    const named = async (chart) =>
      (await texts(chart)).filter((text) => / · /.test(text)).map((text) => text.split(" · ")[0]);
    const rows = (chart) =>
      page
        .locator(`figure[data-chart="${chart}"] tr[data-workload]`)
        .evaluateAll((all) =>
          [
            ...new Set(
              all.filter((row) => row.checkVisibility()).map((row) => row.cells[1].textContent),
            ),
          ].toSorted(),
        );
    // What is folded follows when it is opened.
    await page.locator("details").evaluateAll((all) => {
      all.forEach((block) => {
        block.open = true;
      });
    });
    const holds = async (shown) => {
      for (const chart of over) {
        assert.deepEqual((await named(chart)).toSorted(), shown, `${chart} is of what is chosen`);
        assert.deepEqual(await rows(chart), shown, `and its table of ${chart}`);
      }
    };
    await holds(["json"]);
    const radio = (name) => page.getByRole("radio", { name, exact: true });
    await radio("json").focus();
    await page.keyboard.press("ArrowRight");
    assert.ok(await radio("plaintext").isChecked());
    await holds(["plaintext"]);
    assert.match(
      await page.locator("#wire caption").first().textContent(),
      /^\d+ of \d+ rows are selected$/,
    );
    await page.keyboard.press("ArrowRight");
    assert.ok(await radio("all workloads").isChecked());
    await holds(["json", "plaintext"]);
    assert.equal(
      await page.locator("caption").count(),
      0,
      "nothing is left out, and nothing says so",
    );
  });
});

/** What is shown of the overview, and of the cards. */
const chosen = (page) =>
  page.evaluate(() => {
    const shown = (selector) =>
      [...document.querySelectorAll(selector)].filter((element) => element.checkVisibility());
    const bars = (row) =>
      [...row.cells].map((cell) => [
        cell.style.getPropertyValue("--bar"),
        Number(cell.dataset.key),
      ]);
    return {
      rows: shown("table.overview tbody tr").map((row) => ({
        title: row.cells[0].childNodes[1].textContent.trim(),
        isControl: "control" in row.dataset,
        bars: bars(row),
      })),
      steps: shown("#why .strip li b").map((step) => step.textContent.split(" ")[0]),
      reasons: shown("#why .reason p").map((reason) => / of (\w+):/.exec(reason.textContent)[1]),
      note: shown("#why > .note").map((note) => note.textContent),
    };
  });

/**
 * Holds that in every column with bars the longest one fills its cell, but for a control far above
 * all others, and others in proportion.
 */
function areScaled(rows) {
  const cells = rows
    .flatMap(({ bars, isControl }) =>
      bars.map(([bar, key], column) => ({ bar, key, column, isControl })),
    )
    .filter(({ bar }) => bar !== "");
  const columns = [...new Set(cells.map(({ column }) => column))].map((column) =>
    cells.filter((cell) => cell.column === column),
  );
  // Of a step that a busy machine spoils, start-up and memory are still known.
  assert.ok(
    columns.some((own) => own.length > 1),
    "there are bars to compare",
  );
  for (const own of columns) {
    const most = (is) =>
      Math.max(0, ...own.filter((cell) => cell.isControl === is).map((cell) => cell.key));
    const end =
      most(false) > 0 && most(true) > 2 * most(false)
        ? most(false) / 0.8
        : Math.max(most(true), most(false));
    for (const { bar, key } of own)
      assert.equal(bar, `${(Math.min(1, key / end) * 100).toFixed(1)}%`);
  }
}

test("the overview and the cards follow the workload, with bars scaled within it", async () => {
  await onPage({}, async (page) => {
    const { overview, summaries } = await page.evaluate(() =>
      JSON.parse(document.getElementById("dyno-data").textContent),
    );
    for (const workload of ["json", "plaintext"]) {
      await page.getByRole("radio", { name: workload, exact: true }).check();
      const { rows, steps, reasons, note } = await chosen(page);
      assert.deepEqual(
        rows.map((row) => row.title),
        overview.filter((row) => row.workload === workload).map((row) => row.title),
      );
      areScaled(rows);
      const own = summaries.filter((s) => s.workload === workload);
      assert.deepEqual(
        steps,
        own.map(() => workload),
      );
      const subjects = new Set(own.map((s) => s.subject)).size;
      assert.deepEqual(reasons, Array(subjects).fill(workload));
      const all = new Set(summaries.map((s) => s.subject)).size;
      assert.deepEqual(note, [
        `${subjects} of ${all} subjects and ` +
          `${own.length} of ${summaries.length} steps are selected.`,
      ]);
    }
    await page.getByRole("radio", { name: "all workloads" }).check();
    const { rows, steps, reasons, note } = await chosen(page);
    assert.deepEqual(
      rows.map((row) => row.title),
      overview.map((row) => row.title),
    );
    for (const workload of ["json", "plaintext"])
      areScaled(rows.filter((_, index) => overview[index].workload === workload));
    assert.equal(steps.length, summaries.length);
    assert.deepEqual(new Set(reasons), new Set(["json", "plaintext"]));
    assert.deepEqual(note, [], "nothing is left out, and nothing says so");
  });
});

test("a percentile among the unanswered is an arrow, and no point of the line", async () => {
  await onChanged(
    (report) => {
      for (const t of report.trials) {
        const p = t.load.response_time_us;
        Object.assign(p, { p50: p.p50 ?? 1000, p99: null, longest_wait: 1.2e6 });
        t.load.response_unanswered = { share: 0.2, p50: false, p90: false, p99: true };
        for (const i of t.load.intervals) {
          Object.assign(i.response_time_us, { p99: null, longest_wait: 5e5 });
          i.response_unanswered = { share: 0.5, p50: false, p90: true, p99: true };
        }
      }
      for (const s of report.summaries) {
        s.metrics.response_p99_us = {
          values: [],
          median: null,
          min: null,
          max: null,
          interval: null,
          beyond: s.trials,
        };
        s.response_unanswered = { share: 0.2, longest_wait: 1.2e6, p50: 0, p90: 0, p99: s.trials };
      }
    },
    async (page) => {
      const arrows = (chart) =>
        plot(page, chart)
          .locator("svg path")
          .evaluateAll(
            (all) =>
              all.filter((path) => path.getAttribute("d").startsWith("M0 -1L1 -0.1429L")).length,
          );
      const trials = await page.locator("#trial option").count();
      assert.equal(await arrows("response"), trials);
      assert.ok((await arrows("explorer")) > 0 && (await arrows("spectrum")) > 0);
      await page.locator('figure[data-chart="response"] select').selectOption("p50");
      await page.waitForFunction(
        () =>
          ![...document.querySelectorAll('figure[data-chart="response"] svg path')].some((path) =>
            path.getAttribute("d").startsWith("M0 -1L1 -0.1429L"),
          ),
      );
    },
  );
});

test("what stands in the data is never run", async () => {
  const hostile =
    '</script><script>document.title="owned"</script>' +
    "<img src=x onerror=\"document.title='owned'\">";
  await onChanged(
    (report) => {
      report.subjects.forEach((s) => {
        s.title = `${hostile} ${s.id}`;
      });
      report.run.markers = [{ connections: 2, label: hostile }];
      report.trials.forEach((t) => {
        t.limiter.sentence = hostile;
      });
      report.summaries.forEach((s) => {
        s.limiter_sentence = hostile;
      });
      report.trials.forEach((t) => {
        t.caveats.push({ code: "x", severity: "invalid", message: hostile });
      });
    },
    async (page) => {
      assert.equal(
        await page.evaluate(
          () => document.title.includes("owned") || document.querySelector("img") !== null,
        ),
        false,
      );
      assert.ok((await page.locator("#legend").textContent()).includes("<img src=x"));
      // The policy itself: a script that is put into the page does not run.
      const ran = await page.evaluate(() => {
        const script = document.createElement("script");
        script.textContent = 'document.title = "owned"';
        document.body.append(script);
        return document.title;
      });
      assert.ok(!ran.includes("owned"), "the policy lets any script run");
    },
    [/Content Security Policy/],
  );
});

test("a chart saves as a picture of its own", async () => {
  await onPage({}, async (page) => {
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page
        .locator('figure[data-chart="throughput"]')
        .getByRole("button", { name: "Save SVG" })
        .click(),
    ]);
    assert.match(download.suggestedFilename(), /-throughput\.svg$/);
    const svg = await readFile(await download.path(), "utf8");
    // Elsewhere: the page's policy would hold for what it parses, and a picture brings a style of
    // its own.
    const elsewhere = await page.context().newPage();
    const error = await elsewhere.evaluate(
      (text) =>
        new DOMParser().parseFromString(text, "image/svg+xml").querySelector("parsererror")
          ?.textContent ?? null,
      svg,
    );
    await elsewhere.close();
    assert.equal(error, null);
    assert.match(svg, /xmlns="http:\/\/www.w3.org\/2000\/svg"/);
  });
});

test("tables sort by a click on a column", async () => {
  await onPage({}, async (page) => {
    const overview = page.locator("table.overview");
    const column = () => overview.locator("tbody tr td:nth-child(1)").allTextContents();
    const sort = overview.locator("thead th").first().getByRole("button");
    await sort.click();
    const ascending = await column();
    await sort.click();
    assert.deepEqual(await column(), ascending.toReversed());
    assert.equal(
      await overview.locator("thead th").first().getAttribute("aria-sort"),
      "descending",
    );
  });
});

test("what has no number comes last, whichever way a column is sorted", async () => {
  let without = 0;
  await onPage({}, async (page) => {
    const overview = page.locator("table.overview");
    for (let column = 1; column <= (await overview.locator("thead th").count()); column++) {
      const cells = overview.locator(`tbody tr td:nth-child(${column})`);
      const haveNumbers = () =>
        cells.evaluateAll((all) => all.map((cell) => cell.dataset.key !== undefined));
      if (!(await haveNumbers()).includes(true)) continue;
      for (const way of ["up", "down"]) {
        await overview
          .locator("thead th")
          .nth(column - 1)
          .getByRole("button")
          .click();
        const seen = await haveNumbers();
        without += seen.filter((hasNumber) => !hasNumber).length;
        assert.deepEqual(
          seen,
          seen.toSorted((a, b) => Number(b) - Number(a)),
          `column ${column}, ${way}`,
        );
      }
    }
  });
  assert.ok(without > 0, "the page has no cell without a number");
});

test("failures show what the server wrote, and invalid steps show their reason", async () => {
  await onPage({}, async (page) => {
    const life = await page.locator("#life").textContent();
    assert.match(life, /crashed/);
    assert.match(life, /out of luck/);
  });
});

for (const scheme of ["light", "dark"]) {
  for (const width of [1280, 1920]) {
    test(`nothing overflows at ${width} pixels, ${scheme}`, async () => {
      await onPage({ width, scheme }, async (page) => {
        const beyond = await page.evaluate(
          () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
        );
        assert.ok(beyond <= 0, `the page is ${beyond} pixels too wide`);
      });
    });
  }
}
