// Creates the toggles that show and hide subjects. A few toggles are in a row, and many are in a
// panel with a search.
import type { Change, Control } from "./bar.ts";
import { button } from "./button.ts";
import type { Choice } from "./choice.ts";
import type { Report, SubjectResult } from "./schema.ts";

/** Maximum number of toggles in the bar. */
const IN_A_ROW = 12;

/** Returns the control that selects subjects. */
export function subjectsControl(report: Report, change: Change): Control {
  const toggles = new Toggles(report, change);
  if (report.subjects.length <= IN_A_ROW) {
    const element = document.createElement("div");
    element.className = "toggles";
    element.append(...toggles.all.map(({ control }) => control));
    return {
      element,
      show: (choice) => {
        toggles.show(choice);
      },
    };
  }
  return new SubjectsPanel(toggles, change);
}

/** The button that shows and hides a subject. */
interface Toggle {
  subject: SubjectResult;
  control: HTMLButtonElement;
}

/** The legend of all charts: a subject is hidden or shown everywhere at once. */
class Toggles {
  readonly all: Toggle[];
  hidden: ReadonlySet<string> = new Set();

  constructor(
    { subjects }: Report,
    private readonly change: Change,
  ) {
    this.all = subjects.map((subject, index) => ({
      subject,
      control: this.toggle(subject, index),
    }));
  }

  show({ hidden }: Choice): void {
    this.hidden = hidden;
    for (const { subject, control } of this.all)
      control.setAttribute("aria-pressed", String(!hidden.has(subject.id)));
  }

  /** Shows the subjects for which `isShown` returns true, and hides all others. */
  showOnly(isShown: (subject: SubjectResult) => boolean): void {
    this.change({
      hidden: new Set(
        this.all.filter(({ subject }) => !isShown(subject)).map(({ subject }) => subject.id),
      ),
    });
  }

  private toggle(subject: SubjectResult, index: number): HTMLButtonElement {
    const control = button("", () => {
      const hidden = new Set(this.hidden);
      if (!hidden.delete(subject.id)) hidden.add(subject.id);
      this.change({ hidden });
    });
    control.dataset["toggle"] = subject.id;
    const swatch = document.createElement("span");
    swatch.className = "swatch";
    swatch.dataset["colour"] = String(index);
    control.append(swatch, subject.title);
    return control;
  }
}

/** A button that opens a panel of toggles. */
class SubjectsPanel implements Control {
  readonly element = document.createElement("div");
  private readonly opener: HTMLButtonElement;
  private readonly panel = document.createElement("div");
  private readonly search = document.createElement("input");
  private readonly items: { subject: SubjectResult; element: HTMLElement }[];
  private readonly onlyFound: HTMLButtonElement;

  constructor(
    private readonly toggles: Toggles,
    change: Change,
  ) {
    this.opener = button("", () => {
      this.open(this.panel.hidden !== false);
    });
    this.opener.className = "opener";
    this.opener.setAttribute("aria-expanded", "false");
    this.opener.setAttribute("aria-controls", "subjects");
    this.onlyFound = button("Only matches", () => {
      toggles.showOnly((subject) => this.isFound(subject));
    });
    const all = button("All", () => {
      change({ hidden: new Set() });
    });
    const none = button("None", () => {
      toggles.showOnly(() => false);
    });
    this.items = toggles.all.map((toggle) => this.item(toggle));
    const head = document.createElement("div");
    head.className = "head";
    head.append(this.search, all, none, this.onlyFound);
    const list = document.createElement("div");
    list.className = "items";
    list.append(...this.items.map(({ element }) => element));
    this.panel.id = "subjects";
    this.panel.hidden = true;
    this.panel.append(head, list);
    this.element.className = "subjects";
    this.element.append(this.opener, this.panel);
    this.listen();
    this.find();
  }

  show(choice: Choice): void {
    this.toggles.show(choice);
    const { all } = this.toggles;
    const shown = all.filter(({ subject }) => !choice.hidden.has(subject.id));
    this.opener.textContent = `Subjects (${shown.length} of ${all.length})`;
  }

  private item({ subject, control }: Toggle): { subject: SubjectResult; element: HTMLElement } {
    const element = document.createElement("div");
    element.className = "item";
    const only = button("only", () => {
      this.toggles.showOnly((other) => other === subject);
    });
    only.className = "only";
    only.setAttribute("aria-label", `only ${subject.title}`);
    element.append(control, only);
    return { subject, element };
  }

  private listen(): void {
    this.search.type = "search";
    this.search.placeholder = "Search";
    this.search.setAttribute("aria-label", "Search subjects");
    this.search.addEventListener("input", () => {
      this.find();
    });
    this.search.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !this.onlyFound.disabled) this.onlyFound.click();
    });
    this.element.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || this.panel.hidden) return;
      this.open(false);
      this.opener.focus();
    });
    document.addEventListener("pointerdown", (event) => {
      if (!event.composedPath().includes(this.element)) this.open(false);
    });
  }

  private open(isOpen: boolean): void {
    this.panel.hidden = !isOpen;
    this.opener.setAttribute("aria-expanded", String(isOpen));
    if (isOpen) this.search.focus();
  }

  /** Hides the items that the search does not find. */
  private find(): void {
    for (const { subject, element } of this.items) element.hidden = !this.isFound(subject);
    this.onlyFound.disabled =
      this.search.value === "" || this.items.every(({ element }) => element.hidden);
  }

  /** Whether the subject contains every word of the search. */
  private isFound({ title, id, language }: SubjectResult): boolean {
    const words = this.search.value.toLowerCase().split(" ");
    const text = `${title} ${id} ${language}`.toLowerCase();
    return words.every((word) => text.includes(word));
  }
}
