// Parts of the page say what they are of, by indices in the plan: rows, columns, cards and what
// stands in them. The choice shows and hides them by that alone.
import { type Choice, shownWorkloads } from "./choice.ts";
import type { Report } from "./schema.ts";

/** What is shown, by the indices that parts of the page carry. */
export interface Shown {
  subjects: ReadonlySet<string>;
  workloads: ReadonlySet<string>;
  /** null: every step. */
  step: string | null;
}

export function shownOf(report: Report, choice: Choice): Shown {
  const workloads = shownWorkloads(report, choice);
  return {
    subjects: indicesOf(report.subjects, ({ id }) => !choice.hidden.has(id)),
    workloads: indicesOf(report.run.workloads, ({ name }) => workloads.includes(name)),
    step: choice.step === null ? null : String(choice.step),
  };
}

function indicesOf<T>(all: T[], isShown: (one: T) => boolean): Set<string> {
  return new Set(all.flatMap((one, index) => (isShown(one) ? [String(index)] : [])));
}

/** Whether a part is shown. What it does not say, it is not chosen by. */
export function isShown(part: HTMLElement, shown: Shown): boolean {
  const { subject, workload, step } = part.dataset;
  return (
    (subject === undefined || shown.subjects.has(subject)) &&
    (workload === undefined || workload.split(" ").some((one) => shown.workloads.has(one))) &&
    (step === undefined || shown.step === null || shown.step === step)
  );
}

/**
 * Everything that is shown and hidden and is no row of a table. Gives what is to be called at every
 * change.
 */
export function followingParts(): (shown: Shown) => void {
  const blocks = new Map<Element | null, HTMLElement[]>();
  for (const part of document.querySelectorAll<HTMLElement>(
    ":is([data-subject], [data-workload], [data-step]):not(tr)",
  )) {
    const block = part.closest("details");
    const own = blocks.get(block);
    if (own) own.push(part);
    else blocks.set(block, [part]);
  }
  const follow = [...blocks].map(([block, parts]) =>
    whenOpen(block, (shown: Shown) => {
      for (const part of parts) part.hidden = !isShown(part, shown);
    }),
  );
  return (shown) => {
    follow.forEach((one) => {
      one(shown);
    });
  };
}

/**
 * Does something now, or, of a folded block, when that is opened: of a large report most is never
 * looked at.
 */
export function whenOpen<T>(inside: Element | null, act: (of: T) => void): (of: T) => void {
  const block = inside?.closest("details");
  if (!block) return act;
  let due: { of: T } | null = null;
  const settle = (): void => {
    if (!block.open || !due) return;
    act(due.of);
    due = null;
  };
  block.addEventListener("toggle", settle);
  return (of) => {
    due = { of };
    settle();
  };
}

/** Says above the cards how many of them are shown. */
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
    const all = document.querySelectorAll("#why .strip li").length;
    note.hidden = shown.length === cards.length && steps.length === all;
    const some = `${shown.length} of ${cards.length} subjects`;
    note.textContent = `${some} and ${steps.length} of ${all} steps are selected.`;
  };
}
