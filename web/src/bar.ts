// The bar that stays in sight: which workload, protocol, step and subjects are shown, in charts,
// tables and cards alike.
import { choose, offer, Radios } from "./button.ts";
import {
  type Choice,
  hasProtocols,
  hasSeveralWorkloads,
  protocolsOf,
  stepsOf,
  workloadsOf,
  workloadsOfProtocol,
} from "./choice.ts";
import { stepName } from "./format.ts";
import type { Report } from "./schema.ts";
import { subjectsControl } from "./subjects.ts";

/** A part of the bar: it shows the choice, and changes it. */
export interface Control {
  element: HTMLElement;
  show: (choice: Choice) => void;
}

export type Change = (part: Partial<Choice>) => void;

/** Of more workloads than these the names would fill the bar. */
const WORKLOADS_IN_A_ROW = 8;

/** What stands for all of them. */
const ALL = "";

/** Fills the bar. Gives what is to be called at every change. */
export function selectionBar(
  report: Report,
  bar: HTMLElement,
  change: Change,
): (choice: Choice) => void {
  const controls = [
    ...(hasSeveralWorkloads(report) ? [workloadControl(report, change)] : []),
    ...(hasProtocols(report) ? [protocolControl(report, change)] : []),
    ...(stepsOf(report, { workload: null, protocol: null }).length > 1
      ? [stepControl(report, change)]
      : []),
    subjectsControl(report, change),
  ];
  bar.hidden = false;
  bar.append(...controls.map(({ element }) => element));
  return (choice) => {
    controls.forEach((control) => {
      control.show(choice);
    });
  };
}

function workloadControl(report: Report, change: Change): Control {
  const named = (choice: Pick<Choice, "protocol">): [string, string][] => [
    ...workloadsOfProtocol(report, choice.protocol).map((name): [string, string] => [name, name]),
    [ALL, "all workloads"],
  ];
  const act = (value: string): void => {
    change({ workload: value === ALL ? null : value });
  };
  const all = named({ protocol: null });
  if (workloadsOf(report).length > WORKLOADS_IN_A_ROW) {
    const element = choose("Workload", all, ALL, act);
    return {
      element,
      show: (choice) => {
        offer(element, named(choice), choice.workload ?? ALL);
      },
    };
  }
  const radios = new Radios("Workload", all, act);
  return {
    element: radios.element,
    show: (choice) => {
      const offered = named(choice).map(([value]) => value);
      radios.show(choice.workload ?? ALL, (value) => offered.includes(value));
    },
  };
}

function protocolControl(report: Report, change: Change): Control {
  const named = protocolsOf(report).map((name): [string, string] => [name, name]);
  const radios = new Radios("Protocol", [...named, [ALL, "all protocols"]], (value) => {
    change({ protocol: value === ALL ? null : value });
  });
  return {
    element: radios.element,
    show: (choice) => {
      radios.show(choice.protocol ?? ALL, () => true);
    },
  };
}

function stepControl(report: Report, change: Change): Control {
  const named = (choice: Pick<Choice, "workload" | "protocol">): [string, string][] => [
    [ALL, "all steps"],
    ...stepsOf(report, choice).map((s): [string, string] => [String(s.step), stepName(s)]),
  ];
  const element = choose("Step", [], ALL, (value) => {
    change({ step: value === ALL ? null : Number(value) });
  });
  element.className = "step";
  return {
    element,
    show: (choice) => {
      offer(element, named(choice), String(choice.step ?? ALL));
    },
  };
}
