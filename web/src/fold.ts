// Folds long texts at the top of the page to their first lines. On paper and without the viewer the
// whole text is shown.
import { button } from "./button.ts";

/** Maximum length of a text that is not folded, in characters. */
const MAX_UNFOLDED = 600;

/** Folds the long texts, and adds a button to each. */
export function foldLongTexts(): void {
  for (const text of document.querySelectorAll<HTMLElement>(".answer, #answer .caveats li")) {
    if (text.textContent.length <= MAX_UNFOLDED) continue;
    const body = document.createElement("span");
    body.className = "folded";
    body.append(...text.childNodes);
    const toggle = button("More", () => {
      const isFolded = body.classList.toggle("folded");
      toggle.textContent = isFolded ? "More" : "Less";
      toggle.setAttribute("aria-expanded", String(!isFolded));
    });
    toggle.className = "more";
    toggle.setAttribute("aria-expanded", "false");
    text.append(body, toggle);
  }
}
