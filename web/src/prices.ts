// Prices that the reader sets: what a billion requests cost is a sum of hours that are paid for, each at its price.
import { costOf } from "./cost.ts";
import { number } from "./format.ts";

/** Lets the reader change the prices; every cost on the page follows. */
export function addPrices(): void {
  const form = document.getElementById("prices");
  if (!(form instanceof HTMLFormElement)) return;
  const field = (name: string): number => {
    const input = form.elements.namedItem(name);
    return input instanceof HTMLInputElement && input.value !== "" ? input.valueAsNumber : Number.NaN;
  };
  const show = (): void => {
    // Memory is free of charge, and CPUs are used fully, where nothing is said of them.
    const or = (value: number, other: number): number => (Number.isNaN(value) ? other : value);
    const prices = { cpu: field("cpu"), gib: or(field("gib"), 0), utilisation: or(field("utilisation"), 1) };
    for (const cost of document.querySelectorAll<HTMLElement>("[data-cpu-hours]")) {
      const of = costOf(Number(cost.dataset["cpuHours"]), Number(cost.dataset["gibHours"] ?? 0), prices);
      cost.textContent = of === null ? "–" : number(of);
      const cell = cost.closest("td");
      if (cell && of !== null) cell.dataset["key"] = String(of);
    }
  };
  form.hidden = false;
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => { event.preventDefault(); });
}
