// Controls of the page that are made here.

export function button(label: string, act: () => void): HTMLButtonElement {
  const element = document.createElement("button");
  element.type = "button";
  element.textContent = label;
  element.addEventListener("click", act);
  return element;
}

/** A choice of one of several, under its name. */
export function choose(
  name: string,
  named: [string, string][],
  chosen: string,
  act: (value: string) => void,
): HTMLElement {
  const label = document.createElement("label");
  const select = document.createElement("select");
  select.append(...options(named, chosen));
  select.addEventListener("change", () => {
    act(select.value);
  });
  label.append(`${name} `, select);
  return label;
}

/** Gives a choice other things to choose from. */
export function offer(choice: HTMLElement, named: [string, string][], chosen: string): void {
  choice.querySelector("select")?.replaceChildren(...options(named, chosen));
}

function options(named: [string, string][], chosen: string): HTMLOptionElement[] {
  return named.map(([value, text]) => new Option(text, value, false, value === chosen));
}

/** A row of switches of which one is on. */
export class Radios {
  readonly element = document.createElement("div");
  private readonly radios = new Map<string, HTMLInputElement>();

  constructor(name: string, named: [string, string][], act: (value: string) => void) {
    this.element.className = "radios";
    this.element.setAttribute("role", "radiogroup");
    this.element.setAttribute("aria-label", name);
    this.element.append(
      name,
      ...named.map(([value, text]) => this.radio(name.toLowerCase(), value, text, act)),
    );
  }

  /** Shows what is chosen, and what there is to choose from. */
  show(chosen: string, offered: (value: string) => boolean): void {
    for (const [value, radio] of this.radios) {
      radio.checked = value === chosen;
      if (radio.parentElement) radio.parentElement.hidden = !offered(value);
    }
  }

  private radio(
    name: string,
    value: string,
    text: string,
    act: (value: string) => void,
  ): HTMLElement {
    const radio = document.createElement("input");
    radio.type = "radio";
    radio.name = name;
    radio.addEventListener("change", () => {
      act(value);
    });
    this.radios.set(value, radio);
    const shown = document.createElement("span");
    shown.textContent = text;
    const label = document.createElement("label");
    label.append(radio, shown);
    return label;
  }
}

export function download(url: string, name: string): void {
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => {
    URL.revokeObjectURL(url);
  }, 1000);
}
