/** Which part of the horizontal axis a chart shows after zooming. */

export type Range = readonly [number, number];

/** A step in or out by a key. */
export const ZOOM_STEP = 2;
/** A range narrower than this part of the whole cannot be reached: floating point has no finer positions. */
const MIN_PART = 1e-9;

/** The range that is `factor` times as wide, with `x` at the same place; null if it is everything. */
export function zoomAround(range: Range, x: number, factor: number, whole: Range | null): Range | null {
  const [low, high] = range;
  return within([x - (x - low) * factor, x + (high - x) * factor], whole, range);
}

/**
 * The range after two fingers moved, so that the values under them stay under them. `before` and `now` are the places
 * of the fingers as fractions of the width. Null if it is everything.
 */
export function pinch(
  range: Range,
  before: readonly [number, number],
  now: readonly [number, number],
  whole: Range | null,
): Range | null {
  const [low, high] = range;
  const [first, second] = before.map((part) => low + part * (high - low)) as [number, number];
  const apart = now[1] - now[0];
  if (apart === 0 || Math.sign(apart) !== Math.sign(before[1] - before[0])) return range;
  const width = (second - first) / apart;
  const start = first - now[0] * width;
  return within([start, start + width], whole, range);
}

/** Keep a range inside the whole axis, as wide as it is if possible. */
function within([low, high]: Range, whole: Range | null, otherwise: Range): Range | null {
  const limit = whole ?? otherwise;
  if (!(high - low > (limit[1] - limit[0]) * MIN_PART)) return otherwise;
  if (whole === null) return [low, high];
  if (high - low >= whole[1] - whole[0]) return null;
  const shift = Math.max(0, whole[0] - low) - Math.max(0, high - whole[1]);
  return [low + shift, high + shift];
}
