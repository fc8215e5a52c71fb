// Tables that sort by a click on a column, or by the keyboard on its button, and that show the rows of one workload.
import { barLength, furthest } from "./layout.ts";

export function makeSortable(table: HTMLTableElement): void {
  const head = table.tHead?.rows[0];
  const body = table.tBodies[0];
  if (!head || !body) return;
  [...head.cells].forEach((cell, column) => {
    const control = document.createElement("button");
    control.type = "button";
    control.textContent = cell.textContent;
    cell.replaceChildren(control);
    control.addEventListener("click", () => {
      const descending = cell.getAttribute("aria-sort") === "ascending";
      for (const other of head.cells) other.removeAttribute("aria-sort");
      cell.setAttribute("aria-sort", descending ? "descending" : "ascending");
      const rows = [...body.rows].sort((a, b) => compare(a.cells[column], b.cells[column]));
      body.append(...(descending ? rows.reverse() : rows));
    });
  });
}

/** Shows the rows that are of any of these workloads, given by their indices. `only`: the one that is chosen, if not all are. */
export function showRows(table: HTMLTableElement, indices: number[], only: string | null): void {
  const rows = [...table.querySelectorAll<HTMLTableRowElement>("tr[data-workload]")];
  for (const row of rows) {
    const own = row.dataset["workload"]?.split(" ") ?? [];
    row.hidden = !indices.some((index) => own.includes(String(index)));
  }
  table.deleteCaption();
  if (only === null) return;
  const shown = rows.filter((row) => !row.hidden).length;
  table.createCaption().textContent = `${only}: ${shown} of ${rows.length} rows`;
}

/** Makes the longest bar among these rows fill its cell, column by column. */
export function scaleBars(rows: HTMLTableRowElement[]): void {
  const cells = rows.flatMap((row) => [...row.cells]).filter((cell) => cell.style.getPropertyValue("--bar") !== "");
  const key = (cell: HTMLTableCellElement): number => Number(cell.dataset["key"]);
  for (const column of new Set(cells.map((cell) => cell.cellIndex))) {
    const own = cells.filter((cell) => cell.cellIndex === column);
    const most = furthest(own.map(key));
    for (const cell of own) cell.style.setProperty("--bar", barLength(key(cell), most));
  }
}

function compare(a: HTMLTableCellElement | undefined, b: HTMLTableCellElement | undefined): number {
  const [x, y] = [a?.dataset["key"], b?.dataset["key"]];
  if (x !== undefined && y !== undefined) return compareNumbers(Number(x), Number(y));
  // What has no number comes last.
  if (x !== undefined) return -1;
  if (y !== undefined) return 1;
  return (a?.textContent ?? "").localeCompare(b?.textContent ?? "");
}

function compareNumbers(x: number, y: number): number {
  if (x === y) return 0;
  return x < y ? -1 : 1;
}
