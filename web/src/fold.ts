// Folds long texts at the top of the page to their first lines. On paper and without the viewer
// they are whole.
import { button } from "./button.ts";

/** The most letters of a text that is not folded. */
const AT_A_GLANCE = 600;

export function foldLongTexts(): void {
  for (const text of document.querySelectorAll<HTMLElement>(".answer, #answer .caveats li")) {
    if (text.textContent.length <= AT_A_GLANCE) continue;
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
