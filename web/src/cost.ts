// Computes the cost of a billion requests at the prices that the reader enters on the page.

/** The prices of a CPU and of a GiB for an hour, and the share of its CPUs that a server uses. */
export interface Prices {
  cpu: number;
  gib: number;
  utilisation: number;
}

/**
 * The cost of a billion requests. `gibHours`: `null` if the memory is not known. `null`: a price or
 * the utilisation is not valid, or memory that is not known has a price.
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
