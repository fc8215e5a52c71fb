// Numbers as people read them, like crates/report/src/format.rs.

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

/** Short labels for axes. */
export function axisNumber(x: number): string {
  if (Math.abs(x) >= 1e6) return `${+(x / 1e6).toPrecision(3)}M`;
  if (Math.abs(x) >= 1e3) return `${+(x / 1e3).toPrecision(3)}k`;
  return String(+x.toPrecision(3));
}
