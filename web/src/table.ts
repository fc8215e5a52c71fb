// Adds sorting, selection and pages to the tables of the page. Without the viewer and on paper,
// tables have all of their rows.
import { button } from "./button.ts";
import { amount } from "./format.ts";
import { barEnd, barLength, pageOf, type PageOf } from "./layout.ts";
import { isShown, type PageSelection, whenOpen } from "./parts.ts";

/** Returns a function that selects rows in all tables. Call it at every change of the selection. */
export function tablesSelector(): (selection: PageSelection) => void {
  const selectors = [
    ...document.querySelectorAll<HTMLTableElement>("table:is(.sortable, .checks, .facts)"),
  ].map((table) => {
    let created: Table | undefined;
    return whenOpen(table, (selection: PageSelection) => {
      created ??= new Table(table);
      created.select(selection);
    });
  });
  return (selection) => {
    selectors.forEach((select) => {
      select(selection);
    });
  };
}

/** A table of the page: its selected rows, its order and its current page. */
export class Table {
  /** All rows, in their current order. */
  private rows: HTMLTableRowElement[];
  private selected: HTMLTableRowElement[];
  private page = 0;
  /** Whether all pages are shown at once. */
  private isWhole = false;
  private readonly pager = new Pager(
    (page) => {
      this.turnTo(page);
    },
    () => {
      this.toggleWhole();
    },
  );

  constructor(private readonly table: HTMLTableElement) {
    this.rows = [...(table.tBodies[0]?.rows ?? [])];
    this.selected = this.rows;
    if (table.classList.contains("sortable")) this.makeSortable();
    (table.closest(".scroll") ?? table).after(this.pager.element);
  }

  select(selection: PageSelection): void {
    for (const row of this.rows) row.hidden = !isShown(row, selection);
    this.page = 0;
    this.draw();
  }

  private draw(): void {
    this.selected = this.rows.filter((row) => !row.hidden);
    const range = pageOf(this.page, this.selected.length);
    const visibleRows = new Set(
      this.isWhole ? this.selected : this.selected.slice(range.from, range.to),
    );
    // Not `hidden`, because paper shows the selected rows of all pages.
    for (const row of this.rows) row.classList.toggle("elsewhere", !visibleRows.has(row));
    this.pager.draw(range, this.selected.length, this.isWhole);
    this.showRowCount();
    if (this.table.classList.contains("overview")) scaleBars(this.selected);
  }

  private turnTo(page: number): void {
    this.page = page;
    this.draw();
    // The pager is below the table, so the top of the new page is scrolled into view.
    if (this.table.getBoundingClientRect().top < 0) this.table.scrollIntoView();
  }

  /** Switches between all rows and pages. */
  private toggleWhole(): void {
    this.isWhole = !this.isWhole;
    this.page = 0;
    this.draw();
  }

  /** Shows how many rows are selected. Nothing is shown if all rows are selected. */
  private showRowCount(): void {
    this.table.deleteCaption();
    const [selectedCount, rowCount] = [this.selected.length, this.rows.length];
    const note = `${amount(selectedCount)} of ${amount(rowCount)} rows are selected`;
    if (selectedCount !== rowCount) this.table.createCaption().textContent = note;
  }

  private makeSortable(): void {
    const head = this.table.tHead?.rows[0];
    if (!head) return;
    [...head.cells].forEach((cell, column) => {
      const control = button(cell.textContent, () => {
        const descending = cell.getAttribute("aria-sort") === "ascending";
        for (const other of head.cells) other.removeAttribute("aria-sort");
        cell.setAttribute("aria-sort", descending ? "descending" : "ascending");
        this.sort(column, descending);
      });
      cell.replaceChildren(control);
    });
  }

  private sort(column: number, descending: boolean): void {
    const keyed = this.rows.map((row) => ({ row, key: keyOf(row.cells[column]) }));
    this.rows = keyed.sort((a, b) => compare(a.key, b.key, descending)).map(({ row }) => row);
    this.table.tBodies[0]?.append(...this.rows);
    this.page = 0;
    this.draw();
  }
}

/** The controls that turn the pages of a table. They are hidden if it has a single page. */
class Pager {
  readonly element = document.createElement("div");
  private readonly status = document.createElement("span");
  private readonly whole: HTMLButtonElement;
  private readonly turns: { control: HTMLButtonElement; to: "before" | "after" }[];
  private current: PageOf = pageOf(0, 0);

  constructor(turnTo: (page: number) => void, toggleWhole: () => void) {
    const turn = (
      label: string,
      to: "before" | "after",
    ): { control: HTMLButtonElement; to: "before" | "after" } => ({
      to,
      control: button(label, () => {
        turnTo(this.current[to] ?? 0);
      }),
    });
    this.turns = [turn("‹ Previous", "before"), turn("Next ›", "after")];
    this.whole = button("Show all", toggleWhole);
    this.status.setAttribute("role", "status");
    this.element.className = "pager";
    this.element.append(...this.turns.map(({ control }) => control), this.status, this.whole);
  }

  draw(current: PageOf, rows: number, isWhole: boolean): void {
    this.current = current;
    this.element.hidden = current.before === null && current.after === null;
    for (const { control, to } of this.turns) {
      control.hidden = isWhole;
      control.disabled = current[to] === null;
    }
    this.status.textContent = isWhole
      ? `all ${amount(rows)} rows`
      : `rows ${amount(current.first)}–${amount(current.to)} of ${amount(rows)}`;
    this.whole.textContent = isWhole ? "Show by pages" : "Show all";
  }
}

/** Scales the bars of each workload and column so that the longest bar fills its cell. */
export function scaleBars(rows: HTMLTableRowElement[]): void {
  for (const workload of new Set(rows.map((row) => row.dataset["workload"]))) {
    const cells = rows
      .filter((row) => row.dataset["workload"] === workload)
      .flatMap((row) => [...row.cells])
      .filter((cell) => cell.style.getPropertyValue("--bar") !== "");
    for (const column of new Set(cells.map((cell) => cell.cellIndex)))
      scale(cells.filter((cell) => cell.cellIndex === column));
  }
}

function scale(cells: HTMLTableCellElement[]): void {
  const key = (cell: HTMLTableCellElement): number => Number(cell.dataset["key"]);
  const isControl = (cell: HTMLTableCellElement): boolean =>
    cell.closest("tr")?.dataset["control"] !== undefined;
  const end = barEnd(
    cells.filter((cell) => !isControl(cell)).map(key),
    cells.filter(isControl).map(key),
  );
  for (const cell of cells) {
    cell.style.setProperty("--bar", barLength(key(cell), end));
    cell.classList.toggle("cut", key(cell) > end);
  }
}

/** Returns the sort key of a cell: its number, or else its text. */
function keyOf(cell: HTMLTableCellElement | undefined): number | string {
  const key = cell?.dataset["key"];
  return key === undefined ? (cell?.textContent ?? "") : Number(key);
}

function compare(x: number | string, y: number | string, descending: boolean): number {
  const [first, second] = descending ? [y, x] : [x, y];
  if (typeof first === "string" && typeof second === "string") return first.localeCompare(second);
  // Cells without a number come last in both directions.
  if (typeof x === "string") return 1;
  if (typeof y === "string") return -1;
  if (first === second) return 0;
  return first < second ? -1 : 1;
}
