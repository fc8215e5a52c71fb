// Tables that sort by a click on a column, show what is chosen, and show that by pages where there
// is much of it. Without a viewer and on paper all rows are there.
import { button } from "./button.ts";
import { amount } from "./format.ts";
import { barEnd, barLength, pageOf, type PageOf } from "./layout.ts";
import { isShown, type Shown, whenOpen } from "./parts.ts";

/** All tables that follow the choice. Gives what is to be called at every change. */
export function followingTables(): (shown: Shown) => void {
  const all = [
    ...document.querySelectorAll<HTMLTableElement>("table:is(.sortable, .checks, .facts)"),
  ].map((table) => {
    let made: Table | undefined;
    return whenOpen(table, (shown: Shown) => {
      made ??= new Table(table);
      made.select(shown);
    });
  });
  return (shown) => {
    all.forEach((follow) => {
      follow(shown);
    });
  };
}

export class Table {
  /** All rows, in the order in which they are sorted. */
  private rows: HTMLTableRowElement[];
  private selected: HTMLTableRowElement[];
  private page = 0;
  private isWhole = false;
  private readonly pager = new Pager(
    (page) => {
      this.turnTo(page);
    },
    () => {
      this.showWhole();
    },
  );

  constructor(private readonly table: HTMLTableElement) {
    this.rows = [...(table.tBodies[0]?.rows ?? [])];
    this.selected = this.rows;
    if (table.classList.contains("sortable")) this.makeSortable();
    (table.closest(".scroll") ?? table).after(this.pager.element);
  }

  select(shown: Shown): void {
    for (const row of this.rows) row.hidden = !isShown(row, shown);
    this.page = 0;
    this.draw();
  }

  private draw(): void {
    this.selected = this.rows.filter((row) => !row.hidden);
    const at = pageOf(this.page, this.selected.length);
    const here = new Set(this.isWhole ? this.selected : this.selected.slice(at.from, at.to));
    // A class of its own: on paper what is selected is there as a whole.
    for (const row of this.rows) row.classList.toggle("elsewhere", !here.has(row));
    this.pager.draw(at, this.selected.length, this.isWhole);
    this.say();
    if (this.table.classList.contains("overview")) scaleBars(this.selected);
  }

  private turnTo(page: number): void {
    this.page = page;
    this.draw();
    // The pager stands below the table; who turns a page wants to read on at its top.
    if (this.table.getBoundingClientRect().top < 0) this.table.scrollIntoView();
  }

  private showWhole(): void {
    this.isWhole = !this.isWhole;
    this.page = 0;
    this.draw();
  }

  /** How many rows are selected, where not all are. */
  private say(): void {
    this.table.deleteCaption();
    const [some, all] = [this.selected.length, this.rows.length];
    const note = `${amount(some)} of ${amount(all)} rows are selected`;
    if (some !== all) this.table.createCaption().textContent = note;
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

/** What turns the pages of a table; it is not there where all rows are on one. */
class Pager {
  readonly element = document.createElement("div");
  private readonly said = document.createElement("span");
  private readonly whole: HTMLButtonElement;
  private readonly turns: { control: HTMLButtonElement; to: "before" | "after" }[];
  private at: PageOf = pageOf(0, 0);

  constructor(turnTo: (page: number) => void, showWhole: () => void) {
    const turn = (
      label: string,
      to: "before" | "after",
    ): { control: HTMLButtonElement; to: "before" | "after" } => ({
      to,
      control: button(label, () => {
        turnTo(this.at[to] ?? 0);
      }),
    });
    this.turns = [turn("‹ Previous", "before"), turn("Next ›", "after")];
    this.whole = button("Show all", showWhole);
    this.said.setAttribute("role", "status");
    this.element.className = "pager";
    this.element.append(...this.turns.map(({ control }) => control), this.said, this.whole);
  }

  draw(at: PageOf, rows: number, isWhole: boolean): void {
    this.at = at;
    this.element.hidden = at.before === null && at.after === null;
    for (const { control, to } of this.turns) {
      control.hidden = isWhole;
      control.disabled = at[to] === null;
    }
    this.said.textContent = isWhole
      ? `all ${amount(rows)} rows`
      : `rows ${amount(at.first)}–${amount(at.to)} of ${amount(rows)}`;
    this.whole.textContent = isWhole ? "Show by pages" : "Show all";
  }
}

/**
 * Makes the longest bar among these rows fill its cell, column by column, for each workload by
 * itself.
 */
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

/** What a cell sorts by: its number, or else its text. */
function keyOf(cell: HTMLTableCellElement | undefined): number | string {
  const key = cell?.dataset["key"];
  return key === undefined ? (cell?.textContent ?? "") : Number(key);
}

function compare(x: number | string, y: number | string, descending: boolean): number {
  const [first, second] = descending ? [y, x] : [x, y];
  if (typeof first === "string" && typeof second === "string") return first.localeCompare(second);
  // What has no number comes last, whichever way it goes.
  if (typeof x === "string") return 1;
  if (typeof y === "string") return -1;
  if (first === second) return 0;
  return first < second ? -1 : 1;
}
