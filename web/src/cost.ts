// What a billion requests cost at the reader's prices, which are known on the page alone.

/** The prices of an hour, and the share of its CPUs that a server uses. */
export interface Prices {
  cpu: number;
  gib: number;
  utilisation: number;
}

/** What a billion requests cost; `null`: a price that it needs is none. */
export function costOf(
  cpuHours: number,
  gibHours: number,
  { cpu, gib, utilisation }: Prices,
): number | null {
  const isPrice = (price: number): boolean => Number.isFinite(price) && price >= 0;
  if (!isPrice(cpu) || !isPrice(gib) || !(utilisation > 0 && utilisation <= 1)) return null;
  return (cpuHours * cpu + gibHours * gib) / utilisation;
}
