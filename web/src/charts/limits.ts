/** The range of the vertical axis. */

export interface Limits {
  low: number;
  high: number;
  /** Whether outliers are outside of the range. */
  clipped: boolean;
}

const OUTER_SHARE = 0.01;
/** Outliers are cut off when they would make the range of the other points this many times smaller. */
const FLATTENING = 3;
const FEWEST_POINTS = 40;

/** The value below which a share of the sorted values lies. */
export function percentile(sorted: ArrayLike<number>, share: number): number {
  const place = share * (sorted.length - 1);
  const below = Math.floor(place);
  const rest = place - below;
  return sorted[below]! * (1 - rest) + sorted[Math.min(below + 1, sorted.length - 1)]! * rest;
}

/**
 * The range of finite values. Outliers beyond the 1st and 99th percentile are left out when they would flatten the
 * rest. Returns null without any finite value. With `positive`, only values above zero count (logarithmic axis).
 */
export function valueLimits(
  values: readonly number[],
  options: { showAll: boolean; positive: boolean },
): Limits | null {
  const finite = Float64Array.from(
    values.filter((value) => Number.isFinite(value) && (!options.positive || value > 0)),
  );
  if (finite.length === 0) return null;
  finite.sort();
  const whole = { low: finite[0]!, high: finite.at(-1)!, clipped: false };
  if (options.showAll || options.positive || finite.length < FEWEST_POINTS) return whole;
  const low = percentile(finite, OUTER_SHARE);
  const high = percentile(finite, 1 - OUTER_SHARE);
  const flattened = high > low && whole.high - whole.low > FLATTENING * (high - low);
  return flattened ? { low, high, clipped: true } : whole;
}

/** Why a logarithmic axis is not possible, or null if it is. */
export function logScaleProblem(lowest: number | null): string | null {
  if (lowest === null || lowest > 0) return null;
  return "A logarithmic scale needs values above zero.";
}
