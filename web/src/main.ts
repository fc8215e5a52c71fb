import "./style.css";
import { button, Chart, download } from "./chart.ts";
import { readReport } from "./data.ts";
import { type Choice, workloadPrefix } from "./figures.ts";
import { stepName } from "./format.ts";
import type { Report } from "./schema.ts";
import { makeSortable } from "./table.ts";
import { isDark, onThemeChange, subjectColour } from "./theme.ts";

/** Everything the reader can change, in one place; every change redraws what depends on it. */
class Page {
  private readonly charts: Chart[] = [];
  private choice: Choice;

  constructor(private readonly report: Report) {
    const [row] = report.overview;
    const at = { workload: row?.workload ?? "", step: row?.reference_step ?? 0 };
    this.choice = { dark: isDark(), logY: false, hidden: new Set(), percentile: "p99", at, trial: 0 };
  }

  start(): void {
    for (const figure of document.querySelectorAll<HTMLElement>("figure[data-chart]")) this.addChart(figure);
    this.addLegend();
    this.addThemeSwitch();
    this.addTrialPicker();
    this.addDownloads();
    this.paintSwatches();
    document.querySelectorAll<HTMLTableElement>("table.sortable").forEach(makeSortable);
    onThemeChange(() => { this.change({ dark: isDark() }); });
    addEventListener("beforeprint", () => { this.charts.forEach((c) => { c.forPrint(true); }); });
    addEventListener("afterprint", () => { this.charts.forEach((c) => { c.forPrint(false); }); });
  }

  private change(part: Partial<Choice>): void {
    this.choice = { ...this.choice, ...part };
    this.charts.forEach((c) => { c.update(this.choice); });
    this.paintSwatches();
  }

  private addChart(figure: HTMLElement): void {
    const plot = figure.querySelector<HTMLElement>(".plot");
    const tools = figure.querySelector<HTMLElement>(".tools");
    if (!plot || !tools || this.report.trials.length === 0) return;
    const chart = new Chart(this.report, figure, plot, this.choice);
    this.charts.push(chart);
    if (figure.dataset["chart"] === "response") tools.append(this.percentiles());
    if (figure.dataset["chart"] === "spectrum") tools.append(this.steps());
    chart.addTools(tools);
  }

  private percentiles(): HTMLElement {
    return choose("Percentile", [["p50", "p50"], ["p90", "p90"], ["p99", "p99"]], this.choice.percentile, (value) => {
      this.change({ percentile: value as Choice["percentile"] });
    });
  }

  private steps(): HTMLElement {
    // Workloads may share a step, and their lines would lie on each other.
    const key = (at: Choice["at"]): string => JSON.stringify([at.workload, at.step]);
    const all = new Map(this.report.summaries.map((s) => [key(s), s]));
    const names = [...all].map(([k, s]): [string, string] => [k, `${workloadPrefix(this.report, s.workload)}${stepName(s)}`]);
    return choose("Step", names, key(this.choice.at), (value) => {
      const chosen = all.get(value);
      if (chosen) this.change({ at: { workload: chosen.workload, step: chosen.step } });
    });
  }

  /** One legend for all charts: a subject is hidden or shown everywhere at once. */
  private addLegend(): void {
    const legend = document.getElementById("legend");
    if (!legend) return;
    legend.hidden = false;
    this.report.subjects.forEach((subject, index) => {
      const toggle = button("", () => {
        const hidden = new Set(this.choice.hidden);
        if (!hidden.delete(subject.id)) hidden.add(subject.id);
        toggle.setAttribute("aria-pressed", String(!hidden.has(subject.id)));
        this.change({ hidden });
      });
      toggle.setAttribute("aria-pressed", "true");
      toggle.dataset["toggle"] = subject.id;
      const swatch = document.createElement("span");
      swatch.className = "swatch";
      swatch.dataset["subject"] = String(index);
      toggle.append(swatch, subject.title);
      legend.append(toggle);
    });
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
    const caveats = document.getElementById("trial-caveats");
    if (!picker || !caveats) return;
    const show = (): void => {
      const list = document.createElement("ul");
      list.className = "caveats";
      for (const caveat of this.report.trials[this.choice.trial]?.caveats ?? []) {
        const item = document.createElement("li");
        item.className = caveat.severity;
        item.textContent = caveat.message;
        list.append(item);
      }
      caveats.replaceChildren(list);
    };
    picker.addEventListener("change", () => {
      this.change({ trial: Number(picker.value) });
      show();
    });
    show();
  }

  private addDownloads(): void {
    const place = document.querySelector(".downloads");
    const data = document.getElementById("dyno-data")?.textContent ?? "";
    place?.append(button("Download all data (JSON)", () => {
      const url = URL.createObjectURL(new Blob([data], { type: "application/json" }));
      download(url, `${this.report.run.id}.json`);
    }));
  }

  private paintSwatches(): void {
    for (const swatch of document.querySelectorAll<HTMLElement>(".swatch")) {
      const index = Number(swatch.dataset["subject"]);
      swatch.style.background = subjectColour(index, this.report.subjects[index]?.control ?? false, this.choice.dark);
    }
  }
}

function choose(name: string, options: [string, string][], chosen: string, act: (value: string) => void): HTMLElement {
  const label = document.createElement("label");
  const select = document.createElement("select");
  for (const [value, text] of options) select.append(new Option(text, value, false, value === chosen));
  select.addEventListener("change", () => { act(select.value); });
  label.append(`${name} `, select);
  return label;
}

const report = readReport();
if (report) new Page(report).start();
