// Shows and hides rows, columns, cards and other parts of the page. Their data attributes hold the
// indices of their subject, workload and step in the plan, and only these attributes decide.
import { type Choice, shownWorkloads } from "./choice.ts";
import type { Report } from "./schema.ts";

/** The indices of the subjects, workloads and step that are shown. */
export interface PageSelection {
  subjects: ReadonlySet<string>;
  workloads: ReadonlySet<string>;
  /** null: every step. */
  step: string | null;
}

/** Returns the parts of the page that a choice shows. */
export function selectionOf(report: Report, choice: Choice): PageSelection {
  const workloads = shownWorkloads(report, choice);
  return {
    subjects: indicesOf(report.subjects, ({ id }) => !choice.hidden.has(id)),
    workloads: indicesOf(report.run.workloads, ({ name }) => workloads.includes(name)),
    step: choice.step === null ? null : String(choice.step),
  };
}

function indicesOf<T>(items: T[], isShown: (item: T) => boolean): Set<string> {
  return new Set(items.flatMap((item, index) => (isShown(item) ? [String(index)] : [])));
}

/** Whether a part is shown. A missing attribute does not hide a part. */
export function isShown(part: HTMLElement, selection: PageSelection): boolean {
  const { subject, workload, step } = part.dataset;
  return (
    (subject === undefined || selection.subjects.has(subject)) &&
    (workload === undefined || workload.split(" ").some((name) => selection.workloads.has(name))) &&
    (step === undefined || selection.step === null || selection.step === step)
  );
}

/**
 * Returns a function to call at every change of the selection. The function shows and hides all
 * parts of the page except rows of tables.
 */
export function partsSelector(): (selection: PageSelection) => void {
  const blocks = new Map<Element | null, HTMLElement[]>();
  for (const part of document.querySelectorAll<HTMLElement>(
    ":is([data-subject], [data-workload], [data-step]):not(tr)",
  )) {
    const block = part.closest("details");
    const known = blocks.get(block);
    if (known) known.push(part);
    else blocks.set(block, [part]);
  }
  const selectors = [...blocks].map(([block, parts]) =>
    whenOpen(block, (selection: PageSelection) => {
      for (const part of parts) part.hidden = !isShown(part, selection);
    }),
  );
  return (selection) => {
    selectors.forEach((select) => {
      select(selection);
    });
  };
}

/**
 * Returns a function that calls `act` once the block around the element is open. It saves time,
 * because most blocks of a large report are never opened.
 */
export function whenOpen<T>(element: Element | null, act: (value: T) => void): (value: T) => void {
  const block = element?.closest("details");
  if (!block) return act;
  let pending: { value: T } | null = null;
  const actIfOpen = (): void => {
    if (!block.open || !pending) return;
    act(pending.value);
    pending = null;
  };
  block.addEventListener("toggle", actIfOpen);
  return (value) => {
    pending = { value };
    actIfOpen();
  };
}

/** Adds a note above the cards: how many are shown. Returns a function that updates the note. */
export function cardsNote(): () => void {
  const note = document.createElement("p");
  note.className = "note";
  document.querySelector("#why .cards")?.before(note);
  const cards = [...document.querySelectorAll<HTMLElement>("#why .card")];
  return () => {
    const shown = cards.filter((card) => !card.hidden);
    const steps = shown.flatMap((card) => [
      ...card.querySelectorAll<HTMLElement>(".strip li:not([hidden])"),
    ]);
    const stepCount = document.querySelectorAll("#why .strip li").length;
    note.hidden = shown.length === cards.length && steps.length === stepCount;
    const subjectsText = `${shown.length} of ${cards.length} subjects`;
    note.textContent = `${subjectsText} and ${steps.length} of ${stepCount} steps are selected.`;
  };
}
