/** What the crosshair points at. */

import { nearestIndex } from "@/charts/align";
import type { ChartLine, Stretch } from "@/charts/lines";

export interface HoveredPoint {
  line: ChartLine;
  stretch: Stretch;
  index: number;
  x: number;
}

interface Candidate extends HoveredPoint {
  /** How far `x` is from the stretch; 0 inside of it. */
  distance: number;
}

function nearestOfLine(line: ChartLine, x: number): Candidate | null {
  let best: Candidate | null = null;
  for (const stretch of line.stretches) {
    const index = nearestIndex(stretch.xs, x);
    if (index < 0) continue;
    const distance = Math.max(0, stretch.xs[0]! - x, x - stretch.xs.at(-1)!);
    const point = { line, stretch, index, x: stretch.xs[index]!, distance };
    if (best === null || distance < best.distance) best = point;
  }
  return best;
}

/** The nearest point of each line that has points on both sides of `x`, or else of those that end within `tolerance`. */
export function pointsAt(lines: readonly ChartLine[], x: number, tolerance: number): HoveredPoint[] {
  const candidates = lines.map((line) => nearestOfLine(line, x)).filter((point) => point !== null);
  const nearest = Math.min(...candidates.map((point) => point.distance));
  if (nearest > tolerance) return [];
  return candidates.filter((point) => point.distance <= nearest);
}

/** The point that a chart of attempts names: of the newest attempt that has points here; kept points come first. */
export function currentPoint(points: readonly HoveredPoint[]): HoveredPoint | null {
  return points.findLast((point) => !point.stretch.redone) ?? points.at(-1) ?? null;
}

/** The next position to the right (1) or left (-1) of `x` at which a line has a point; `x` itself at the ends. */
export function neighbourPosition(
  lines: readonly ChartLine[],
  x: number | null,
  direction: number,
): number | null {
  let best: number | null = null;
  for (const line of lines) {
    for (const { xs } of line.stretches) {
      const candidate = x === null ? xs.at(-1) : nextPosition(xs, x, direction);
      if (candidate === undefined) continue;
      const nearer = best === null || (direction > 0 ? candidate < best : candidate > best);
      if (x === null ? best === null || candidate > best : nearer) best = candidate;
    }
  }
  return best ?? x;
}

function nextPosition(xs: readonly number[], x: number, direction: number): number | undefined {
  const nearest = nearestIndex(xs, x);
  if (nearest < 0) return undefined;
  const at = xs[nearest]!;
  if (direction > 0) return at > x ? at : xs[nearest + 1];
  return at < x ? at : xs[nearest - 1];
}

/** The steps of the points between two positions, with one point more on each side; null without points. */
export function stepsBetween(
  lines: readonly ChartLine[],
  from: number,
  to: number,
): { from: number; to: number } | null {
  let low = Infinity;
  let high = -Infinity;
  for (const line of lines) {
    for (const { xs, steps } of line.stretches) {
      let first = xs.findIndex((x) => x >= from);
      let last = xs.findLastIndex((x) => x <= to);
      if (first < 0 || last < 0) continue;
      first = Math.max(0, first - 1);
      last = Math.min(xs.length - 1, last + 1);
      for (let index = first; index <= last; index += 1) {
        low = Math.min(low, steps[index]!);
        high = Math.max(high, steps[index]!);
      }
    }
  }
  return low <= high ? { from: low, to: high } : null;
}
