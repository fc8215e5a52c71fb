// Computes the cost of a billion requests at the prices that the reader enters on the page.

/** The prices of an hour of a CPU and of a GiB, and the share of its CPUs that a server uses. */
export interface Prices {
  cpu: number;
  gib: number;
  utilisation: number;
}

/**
 * Returns the cost of a billion requests. It is null if a price or the utilisation is not valid, or
 * if memory has a price and `gibHours` is null (the memory is not known).
 */
export function costOf(
  cpuHours: number,
  gibHours: number | null,
  { cpu, gib, utilisation }: Prices,
): number | null {
  const isPrice = (price: number): boolean => Number.isFinite(price) && price >= 0;
  if (!isPrice(cpu) || !isPrice(gib) || !(utilisation > 0 && utilisation <= 1)) return null;
  if (gibHours === null && gib > 0) return null;
  return (cpuHours * cpu + (gibHours ?? 0) * gib) / utilisation;
}
