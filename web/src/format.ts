// Numbers as people read them, like crates/report/src/format.rs.
import type { Percentiles } from "./schema.ts";

/** Three significant digits, thousands apart. */
export function number(x: number): string {
  if (!Number.isFinite(x)) return "–";
  if (x === 0) return "0";
  const magnitude = Math.floor(Math.log10(Math.abs(x)));
  if (magnitude >= 2) {
    const unit = 10 ** (magnitude - 2);
    return (Math.round(x / unit) * unit).toLocaleString("en");
  }
  return x.toPrecision(3);
}

export function micros(us: number): string {
  const u = Math.abs(us);
  if (u < 1) return `${number(us * 1e3)} ns`;
  if (u < 999.5) return `${number(us)} µs`;
  if (u < 999_500) return `${number(us / 1e3)} ms`;
  return `${number(us / 1e6)} s`;
}

export function bytes(b: number): string {
  if (b < 1e3) return `${number(b)} B`;
  if (b < 1e6) return `${number(b / 1e3)} kB`;
  if (b < 1e9) return `${number(b / 1e6)} MB`;
  return `${number(b / 1e9)} GB`;
}

export function percent(share: number): string {
  return `${number(share * 100)} %`;
}

/** Percentiles that charts are drawn of. */
export type Quantile = "p50" | "p90" | "p99";

const SHARES: Readonly<Record<Quantile, number>> = { p50: 0.5, p90: 0.9, p99: 0.99 };

/** Whether a percentile lies among what was never answered, as analysis::load::place has it. */
export function isBeyond(p: Percentiles, q: Quantile): boolean {
  const rank = Math.max(1, Math.ceil(SHARES[q] * (p.count + p.unanswered) - 1e-9));
  return p[q] === null && p.unanswered > 0 && rank > p.count;
}

/** A percentile's time, or what it is longer than. */
export function wait(p: Percentiles, q: Quantile): string {
  if (isBeyond(p, q)) return beyond(p.longest_wait, p.unanswered / (p.count + p.unanswered));
  const us = p[q];
  return us === null ? "–" : micros(us);
}

/** Longer than the longest wait known: `> 1.20 s (5.9 % not answered)`. */
export function beyond(longestWait: number | null, share: number): string {
  const percents = share * 100;
  const shown = percents >= 9.95 ? percents.toFixed(0) : percents >= 0.1 ? percents.toFixed(1) : number(percents);
  return `${longestWait === null ? "–" : `> ${micros(longestWait)}`} (${shown} % not answered)`;
}

/** Short labels for axes. */
export function axisNumber(x: number): string {
  if (Math.abs(x) >= 1e6) return `${+(x / 1e6).toPrecision(3)}M`;
  if (Math.abs(x) >= 1e3) return `${+(x / 1e3).toPrecision(3)}k`;
  return String(+x.toPrecision(3));
}
