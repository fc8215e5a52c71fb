import "./style.css";
import { selectionBar } from "./bar.ts";
import { button, choose, download, offer } from "./button.ts";
import { Chart } from "./chart.ts";
import {
  type Choice,
  chosen,
  firstChoice,
  shownSteps,
  shownTrials,
  workloadPrefix,
} from "./choice.ts";
import { reportData, readReport } from "./data.ts";
import { addFlames } from "./flame.ts";
import { foldLongTexts } from "./fold.ts";
import { stepName } from "./format.ts";
import { cardsNote, followingParts, shownOf } from "./parts.ts";
import { addPrices } from "./prices.ts";
import type { Report } from "./schema.ts";
import { followingTables } from "./table.ts";
import { isDark, onThemeChange, subjectColour } from "./theme.ts";

/** Everything the reader can change, in one place; every change redraws what depends on it. */
class Page {
  private readonly charts: Chart[] = [];
  /** Called when something else is to be shown, before the charts are drawn. */
  private readonly followers: ((choice: Choice) => void)[] = [];
  /** Called at every change. */
  private readonly pickers: ((choice: Choice) => void)[] = [];
  private choice: Choice;

  constructor(private readonly report: Report) {
    this.choice = firstChoice(report, isDark());
  }

  start(): void {
    this.followSelection();
    for (const figure of document.querySelectorAll<HTMLElement>("figure[data-chart]"))
      this.addChart(figure);
    addFlames(this.report);
    addPrices();
    this.addTrialPicker();
    this.select({});
    foldLongTexts();
    this.addThemeSwitch();
    this.addDownloads();
    this.paintSwatches();
    onThemeChange(() => {
      this.change({ dark: isDark() });
      this.paintSwatches();
    });
    addEventListener("beforeprint", () => {
      this.charts.forEach((c) => {
        c.forPrint(true);
      });
    });
    addEventListener("afterprint", () => {
      this.charts.forEach((c) => {
        c.forPrint(false);
      });
    });
  }

  private change(part: Partial<Choice>): void {
    this.choice = { ...this.choice, ...part };
    this.pickers.forEach((show) => {
      show(this.choice);
    });
    this.charts.forEach((c) => {
      c.update(this.choice);
    });
  }

  /** Another selection: of subjects, workloads, protocols or steps. */
  private select(part: Partial<Choice>): void {
    this.choice = chosen(this.report, this.choice, part);
    this.followers.forEach((follow) => {
      follow(this.choice);
    });
    this.change({});
  }

  /** One selection for all charts, tables and cards. */
  private followSelection(): void {
    const bar = document.getElementById("legend");
    if (bar)
      this.followers.push(
        selectionBar(this.report, bar, (part) => {
          this.select(part);
        }),
      );
    const [tables, parts, note] = [followingTables(), followingParts(), cardsNote()];
    this.followers.push((choice) => {
      const shown = shownOf(this.report, choice);
      tables(shown);
      parts(shown);
      note();
    });
  }

  private addChart(figure: HTMLElement): void {
    const plot = figure.querySelector<HTMLElement>(".plot");
    const tools = figure.querySelector<HTMLElement>(".tools");
    if (!plot || !tools || this.report.trials.length === 0) return;
    const chart = new Chart(this.report, figure, plot, this.choice);
    this.charts.push(chart);
    const name = figure.dataset["chart"];
    if (name === "response") tools.append(this.percentiles());
    if (name === "spectrum" || name === "over-time") tools.append(this.steps());
    chart.addTools(tools);
  }

  private percentiles(): HTMLElement {
    return choose(
      "Percentile",
      [
        ["p50", "p50"],
        ["p90", "p90"],
        ["p99", "p99"],
      ],
      this.choice.percentile,
      (value) => {
        this.change({ percentile: value as Choice["percentile"] });
      },
    );
  }

  /** What a chart of a single step is of, the same for all of them. */
  private steps(): HTMLElement {
    // Workloads may share a step, and their lines would lie on each other.
    const key = (at: Choice["at"]): string => JSON.stringify([at.workload, at.step]);
    const label = choose("Step", [], "", (value) => {
      const [workload, step] = JSON.parse(value) as [string, number];
      this.change({ at: { workload, step } });
    });
    this.pickers.push((choice) => {
      const named = shownSteps(this.report, choice).map((s): [string, string] => [
        key(s),
        `${workloadPrefix(this.report, s.workload)}${stepName(s)}`,
      ]);
      offer(label, named, key(choice.at));
    });
    return label;
  }

  private addThemeSwitch(): void {
    const label = (): string => (isDark() ? "Light" : "Dark");
    const toggle = button(label(), () => {
      document.documentElement.dataset["theme"] = isDark() ? "light" : "dark";
      toggle.textContent = label();
    });
    toggle.className = "theme";
    document.querySelector("header")?.append(toggle);
  }

  private addTrialPicker(): void {
    const picker = document.getElementById("trial") as HTMLSelectElement | null;
    if (!picker) return;
    picker.addEventListener("change", () => {
      this.change({ trial: Number(picker.value) });
      this.showCaveats();
    });
    const all = [...picker.options];
    this.followers.push((choice) => {
      const shown = new Set(shownTrials(this.report, choice).map(String));
      picker.replaceChildren(...all.filter((option) => shown.has(option.value)));
      picker.value = String(choice.trial);
      this.showCaveats();
    });
  }

  /** The caveats of the trial that is picked, beside it. */
  private showCaveats(): void {
    const list = document.createElement("ul");
    list.className = "caveats";
    for (const caveat of this.report.trials[this.choice.trial]?.caveats ?? []) {
      const item = document.createElement("li");
      item.className = caveat.severity;
      item.textContent = caveat.message;
      list.append(item);
    }
    document.getElementById("trial-caveats")?.replaceChildren(list);
  }

  private addDownloads(): void {
    document.querySelector(".downloads")?.append(
      button("Download all data (JSON)", () => {
        const url = URL.createObjectURL(new Blob([reportData()], { type: "application/json" }));
        download(url, `${this.report.run.id}.json`);
      }),
    );
  }

  private paintSwatches(): void {
    for (const swatch of document.querySelectorAll<HTMLElement>(".swatch")) {
      const index = Number(swatch.dataset["colour"]);
      swatch.style.background = subjectColour(
        index,
        this.report.subjects[index]?.control ?? false,
        this.choice.dark,
      );
    }
  }
}

// Whatever happens from here on, the page is as a whole what the style makes of it.
document.documentElement.classList.add("viewed");
const report = readReport();
// A profile alone has nothing to choose from.
if (report && report.schema === "dyno.profile/1") addFlames(report);
else if (report) new Page(report).start();
