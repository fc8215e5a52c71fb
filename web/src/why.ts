// The cards of the section "Why" where there are several workloads: what limited a subject in each of those that are shown.
import { type Choice, shownWorkloads, workloadsOf } from "./choice.ts";
import { amount, bytes, micros, number, percent, stepName } from "./format.ts";
import type { CellKey, OverviewRow, Report, Summary } from "./schema.ts";

/** Metrics under names that are short enough for a card, in the order and the words of the page without a viewer. */
const COUNTERS: [name: string, key: string, show: (value: number) => string][] = [
  ["user CPU", "server_cpu_user_us_per_request", micros],
  ["system CPU", "server_cpu_sys_us_per_request", micros],
  ["context switches", "server_context_switches_per_request", amount],
  ["waiting for a CPU", "server_run_delay_us_per_request", micros],
  ["bytes received", "bytes_in_per_response", bytes],
  ["segments received", "segments_per_response", amount],
  ["busiest thread", "server_busiest_thread", percent],
  ["threads", "server_threads", amount],
];

/** What a card says of one workload. */
export interface Reason {
  sentence: string;
  /** The table of counters, beside those of the reference if that is another. */
  head: string[];
  rows: string[][];
}

/** The limit at a subject's busiest step of a workload, and the counters there; null: it has no step of it. */
export function reasonOf(report: Report, subject: string, workload: string): Reason | null {
  const here = busiest(report.summaries.filter((s) => s.subject === subject && s.workload === workload));
  if (!here) return null;
  const reference = referenceOf(report, here.cell);
  const head = reference ? [reference.title, "Ratio of pairs"] : [];
  return {
    sentence: `At ${stepName(here)} of ${workload}: ${here.limiter_sentence}`,
    head: ["Per response", "Here", ...head],
    rows: counters(report, here, reference),
  };
}

/** The step with the highest throughput; of equals the last. */
function busiest(steps: Summary[]): Summary | undefined {
  const rate = (s: Summary): number => s.throughput_rps.median ?? 0;
  return steps.find((s, index) => steps.every((other, at) => rate(other) < rate(s) || (rate(other) === rate(s) && at <= index)));
}

/** The reference's row in the workload of a cell; undefined: there is none, or the cell is its own. */
function referenceOf(report: Report, cell: CellKey): OverviewRow | undefined {
  return report.overview.find(({ baseline, reference_cell: { arm, workload } }) =>
    baseline && workload === cell.workload && arm !== cell.arm);
}

function counters(report: Report, here: Summary, reference: OverviewRow | undefined): string[][] {
  const there = report.summaries.find((s) => reference && isSame(s.cell, { ...here.cell, arm: reference.reference_cell.arm }));
  const ratios = report.comparisons.find((c) => isSame(c.cell, here.cell) && c.baseline === reference?.subject)?.metrics;
  return COUNTERS.map(([name, key, show]) => {
    const own = [name, orDash(here.metrics[key]?.median, show)];
    if (!reference) return own;
    return [...own, orDash(there?.metrics[key]?.median, show), orDash(ratios?.[key]?.median, (r) => `× ${number(r)}`)];
  });
}

function isSame(a: CellKey, b: CellKey): boolean {
  return a.arm === b.arm && a.workload === b.workload && a.step === b.step;
}

function orDash(value: number | null | undefined, show: (value: number) => string): string {
  return value === null || value === undefined ? "–" : show(value);
}

/** A card of the page, with its parts: the steps of its strip, and a reason for each workload. */
interface Card {
  element: HTMLElement;
  steps: Part[];
  reasons: Part[];
}

interface Part {
  element: HTMLElement;
  workload: string;
}

/** Lets the cards follow the switch. Gives what is to be called at every change of the workload. */
export function followingCards(report: Report): (choice: Choice) => void {
  const cards = [...document.querySelectorAll<HTMLElement>("#why .card")].flatMap((element) => cardOf(report, element));
  const note = document.createElement("p");
  note.className = "note";
  document.querySelector("#why .cards")?.before(note);
  return (choice) => {
    const shown = shownWorkloads(report, choice);
    cards.forEach((card) => { showCard(card, shown); });
    note.hidden = choice.workload === null;
    note.textContent = `${String(choice.workload)}: ${shares(cards)}`;
  };
}

/** The card of a subject, with a reason for each workload in place of the one that it came with; one of no workload is left alone. */
function cardOf(report: Report, element: HTMLElement): Card[] {
  const subject = report.subjects[Number(element.querySelector<HTMLElement>(".swatch")?.dataset["subject"])]?.id ?? "";
  const own = report.summaries.filter((s) => s.subject === subject);
  const steps = [...element.querySelectorAll<HTMLElement>(".strip li")]
    .map((step, index) => ({ element: step, workload: own[index]?.workload ?? "" }));
  const reasons = workloadsOf(report).flatMap((workload) => {
    const reason = reasonOf(report, subject, workload);
    return reason ? [{ element: reasonElement(reason), workload }] : [];
  });
  if (reasons.length === 0) return [];
  element.querySelectorAll("p, .scroll").forEach((old) => { old.remove(); });
  element.append(...reasons.map((part) => part.element));
  return [{ element, steps, reasons }];
}

function showCard({ element, steps, reasons }: Card, shown: string[]): void {
  for (const part of [...steps, ...reasons]) part.element.hidden = !shown.includes(part.workload);
  element.hidden = reasons.every((part) => part.element.hidden);
}

/** How much of the section is shown: `2 of 3 subjects, 4 of 10 steps`. */
function shares(cards: Card[]): string {
  const share = (all: HTMLElement[], what: string): string => `${all.filter((e) => !e.hidden).length} of ${all.length} ${what}`;
  const steps = cards.flatMap((card) => card.steps.map((part) => part.element));
  return `${share(cards.map((card) => card.element), "subjects")}, ${share(steps, "steps")}`;
}

function reasonElement(reason: Reason): HTMLElement {
  const element = document.createElement("div");
  element.className = "reason";
  const sentence = document.createElement("p");
  sentence.textContent = reason.sentence;
  const scroll = document.createElement("div");
  scroll.className = "scroll";
  scroll.append(counterTable(reason));
  element.append(sentence, scroll);
  return element;
}

/** A table like those of the page: the first column names, all others hold numbers. */
function counterTable({ head, rows }: Reason): HTMLTableElement {
  const table = document.createElement("table");
  table.className = "counters";
  const top = table.createTHead().insertRow();
  top.append(...head.map((text, column) => textCell("th", text, column)));
  top.querySelectorAll("th").forEach((cell) => { cell.scope = "col"; });
  const body = table.createTBody();
  for (const row of rows) body.insertRow().append(...row.map((text, column) => textCell("td", text, column)));
  return table;
}

function textCell(kind: "td" | "th", text: string, column: number): HTMLTableCellElement {
  const cell = document.createElement(kind);
  if (column > 0) cell.className = "n";
  cell.textContent = text;
  return cell;
}
