// Starts the viewer: it connects charts, tables, selection bar and other parts of the page.
import "./style.css";
import { selectionBar } from "./bar.ts";
import { button, labelledSelect, download, replaceOptions } from "./button.ts";
import { Chart } from "./chart.ts";
import {
  type Choice,
  changedChoice,
  firstChoice,
  shownSteps,
  shownTrials,
  workloadPrefix,
} from "./choice.ts";
import { reportData, readReport } from "./data.ts";
import { addFlames } from "./flame.ts";
import { foldLongTexts } from "./fold.ts";
import { stepName } from "./format.ts";
import { cardsNote, partsSelector, selectionOf } from "./parts.ts";
import { addPrices } from "./prices.ts";
import type { Report } from "./schema.ts";
import { tablesSelector } from "./table.ts";
import { isDark, onThemeChange, subjectColour } from "./theme.ts";

/** The page and the choice of the reader. Every change redraws the parts that depend on it. */
class Page {
  private readonly charts: Chart[] = [];
  /** Functions to call when the selection changes, before the charts are drawn. */
  private readonly followers: ((choice: Choice) => void)[] = [];
  /** Functions to call at every change of the choice. */
  private readonly pickers: ((choice: Choice) => void)[] = [];
  private choice: Choice;

  constructor(private readonly report: Report) {
    this.choice = firstChoice(report, isDark());
  }

  /** Fills the page, and redraws it for themes and print. */
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
        c.setPrinting(true);
      });
    });
    addEventListener("afterprint", () => {
      this.charts.forEach((c) => {
        c.setPrinting(false);
      });
    });
  }

  /** Changes the choice within the selection, and redraws the charts. */
  private change(part: Partial<Choice>): void {
    this.choice = { ...this.choice, ...part };
    this.pickers.forEach((show) => {
      show(this.choice);
    });
    this.charts.forEach((c) => {
      c.update(this.choice);
    });
  }

  /** Changes the selection of subjects, workloads, protocols or steps. */
  private select(part: Partial<Choice>): void {
    this.choice = changedChoice(this.report, this.choice, part);
    this.followers.forEach((follow) => {
      follow(this.choice);
    });
    this.change({});
  }

  /** Connects the selection bar with tables, cards and other parts of the page. */
  private followSelection(): void {
    const bar = document.getElementById("legend");
    if (bar)
      this.followers.push(
        selectionBar(this.report, bar, (part) => {
          this.select(part);
        }),
      );
    const [tables, parts, note] = [tablesSelector(), partsSelector(), cardsNote()];
    this.followers.push((choice) => {
      const selection = selectionOf(this.report, choice);
      tables(selection);
      parts(selection);
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
    if (name === "response") tools.append(this.percentileSelect());
    if (name === "spectrum" || name === "over-time") tools.append(this.stepSelect());
    chart.addTools(tools);
  }

  private percentileSelect(): HTMLElement {
    return labelledSelect(
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

  /** Returns the select of the step that all charts of a single step show. */
  private stepSelect(): HTMLElement {
    // Workloads may share a step, so the key has the workload and the step.
    const key = (at: Choice["at"]): string => JSON.stringify([at.workload, at.step]);
    const label = labelledSelect("Step", [], "", (value) => {
      const [workload, step] = JSON.parse(value) as [string, number];
      this.change({ at: { workload, step } });
    });
    this.pickers.push((choice) => {
      const entries = shownSteps(this.report, choice).map((s): [string, string] => [
        key(s),
        `${workloadPrefix(this.report, s.workload)}${stepName(s)}`,
      ]);
      replaceOptions(label, entries, key(choice.at));
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
    const options = [...picker.options];
    this.followers.push((choice) => {
      const shownIndices = new Set(shownTrials(this.report, choice).map(String));
      picker.replaceChildren(...options.filter((option) => shownIndices.has(option.value)));
      picker.value = String(choice.trial);
      this.showCaveats();
    });
  }

  /** Shows the caveats of the selected trial below its picker. */
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

// The class selects the styles of the viewer. It is set first, so that an error does not prevent
// it.
document.documentElement.classList.add("viewed");
const report = readReport();
// A page of a profile has flame graphs only, and no selection.
if (report && report.schema === "dyno.profile/1") addFlames(report);
else if (report) new Page(report).start();
