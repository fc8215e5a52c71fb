import "./style.css";
import { button, Chart, download } from "./chart.ts";
import { type Choice, chosen, firstChoice, hasSeveralWorkloads, shownWorkloads, workloadPrefix, workloadsOf } from "./choice.ts";
import { readReport } from "./data.ts";
import { stepName } from "./format.ts";
import { splitOverview } from "./overview.ts";
import type { Report } from "./schema.ts";
import { makeSortable, showRows } from "./table.ts";
import { isDark, onThemeChange, subjectColour } from "./theme.ts";
import { followingCards } from "./why.ts";

/** Everything the reader can change, in one place; every change redraws what depends on it. */
class Page {
  private readonly charts: Chart[] = [];
  /** Called when another workload is chosen, before the charts are drawn. */
  private readonly followers: (() => void)[] = [];
  private choice: Choice;

  constructor(private readonly report: Report) {
    this.choice = firstChoice(report, isDark());
  }

  start(): void {
    for (const figure of document.querySelectorAll<HTMLElement>("figure[data-chart]")) this.addChart(figure);
    this.addWorkloadSwitch();
    this.addLegend();
    this.addThemeSwitch();
    this.addTrialPicker();
    this.addDownloads();
    this.paintSwatches();
    document.querySelectorAll<HTMLTableElement>("table.sortable").forEach(makeSortable);
    this.addTables();
    this.addCards();
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
    const named = (): [string, string][] => {
      const shown = shownWorkloads(this.report, this.choice);
      return [...all].filter(([, s]) => shown.includes(s.workload))
        .map(([k, s]) => [k, `${workloadPrefix(this.report, s.workload)}${stepName(s)}`]);
    };
    const label = choose("Step", named(), key(this.choice.at), (value) => {
      const at = all.get(value);
      if (at) this.change({ at: { workload: at.workload, step: at.step } });
    });
    this.followers.push(() => { label.querySelector("select")?.replaceChildren(...options(named(), key(this.choice.at))); });
    return label;
  }

  /** One switch for all charts, tables and cards; none where there is nothing to choose. */
  private addWorkloadSwitch(): void {
    const legend = document.getElementById("legend");
    if (!legend || !hasSeveralWorkloads(this.report)) return;
    const group = document.createElement("div");
    group.className = "workloads";
    group.setAttribute("role", "radiogroup");
    group.setAttribute("aria-label", "Workload");
    group.append("Workload", ...workloadsOf(this.report).map((name) => this.workloadRadio(name, name)),
      this.workloadRadio("all workloads", null));
    legend.append(group);
  }

  private workloadRadio(text: string, workload: string | null): HTMLElement {
    const radio = document.createElement("input");
    radio.type = "radio";
    radio.name = "workload";
    radio.checked = this.choice.workload === workload;
    radio.addEventListener("change", () => {
      this.choice = { ...this.choice, ...chosen(this.report, workload) };
      this.followers.forEach((follow) => { follow(); });
      this.change({});
    });
    const shown = document.createElement("span");
    shown.textContent = text;
    const label = document.createElement("label");
    label.append(radio, shown);
    return label;
  }

  /** Tables whose rows name workloads follow the switch. */
  private addTables(): void {
    if (!hasSeveralWorkloads(this.report)) return;
    splitOverview(this.report);
    const names = this.report.run.workloads.map((w) => w.name);
    const tables = new Set([...document.querySelectorAll("tr[data-workload]")].map((row) => row.closest("table")));
    const follow = (): void => {
      const shown = shownWorkloads(this.report, this.choice).map((name) => names.indexOf(name));
      tables.forEach((table) => { if (table) showRows(table, shown, this.choice.workload); });
    };
    this.followers.push(follow);
    follow();
  }

  /** The reasons that cards give are of a workload, too. */
  private addCards(): void {
    if (!hasSeveralWorkloads(this.report)) return;
    const show = followingCards(this.report);
    const follow = (): void => { show(this.choice); };
    this.followers.push(follow);
    follow();
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
    const all = [...picker.options];
    const follow = (): void => {
      const shown = shownWorkloads(this.report, this.choice);
      picker.replaceChildren(...all.filter((o) => shown.includes(this.report.trials[Number(o.value)]?.workload ?? "")));
      picker.value = String(this.choice.trial);
      show();
    };
    this.followers.push(follow);
    follow();
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

function options(named: [string, string][], chosen: string): HTMLOptionElement[] {
  return named.map(([value, text]) => new Option(text, value, false, value === chosen));
}

function choose(name: string, named: [string, string][], chosen: string, act: (value: string) => void): HTMLElement {
  const label = document.createElement("label");
  const select = document.createElement("select");
  select.append(...options(named, chosen));
  select.addEventListener("change", () => { act(select.value); });
  label.append(`${name} `, select);
  return label;
}

const report = readReport();
if (report) new Page(report).start();
