/** Points of the chart of cost against time: which are outside, which are labelled, and how they are drawn. */

import { plural } from "@/lib/format";
import type { Draft } from "@/views/new/draft";
import { isPaid, isUsable, offerKey, offerSummary, offerTitle, type Offer } from "@/views/new/offers";

const MAX_LABELS = 5;

export interface Point {
  offer: Offer;
  /** Parts of the plot's width and height, from the top left. */
  x: number;
  y: number;
  outside: boolean;
}

/** The offers that the frontier joins: those that can be chosen, or all if there are none. */
export function frontierOffers(points: readonly Point[]): Offer[] {
  const offers = points.filter((point) => !point.outside).map((point) => point.offer);
  const usable = offers.filter(isUsable);
  return usable.some(isPaid) ? usable : offers;
}

/** Rough predictions stay in the list although they are beyond a limit. */
export function isBeyond(offer: Offer, draft: Draft): boolean {
  const overBudget = draft.budgetMicrousd !== null && offer.cost_microusd.expected > draft.budgetMicrousd;
  return overBudget || (draft.deadlineS !== null && offer.seconds.expected > draft.deadlineS);
}

export function pointClass(point: Point, best: readonly Offer[], chosen: Offer | null): string {
  const { offer, outside } = point;
  const isChosen = chosen !== null && offerKey(chosen) === offerKey(offer);
  return [
    "sc",
    outside ? "out" : offer.interruptible ? "sp" : "od",
    !outside && best.includes(offer) ? "fr" : "",
    isUsable(offer) ? "" : "no",
    isChosen ? "sel" : "",
  ]
    .filter(Boolean)
    .join(" ");
}

/** A line that goes right, then down, from each offer of the frontier to the next. */
export function stepPath(points: readonly Point[]): string {
  return points
    .map(({ x, y }, index) => {
      const [px, py] = [(x * 1000).toFixed(1), (y * 1000).toFixed(1)];
      return index === 0 ? `M${px} ${py}` : `H${px}V${py}`;
    })
    .join("");
}

/** The size of the smallest plot that shows several labels, and of a character and a line of a label, in pixels. */
const PLOT = { width: 420, height: 170 };
const CHARACTER_PX = 6.2;
const LINE_PX = 14;

/** On which side of its point a label is, so that it stays inside of the plot. */
export function labelSide(point: Point): "left" | "right" | "" {
  return point.x > 0.85 ? "left" : point.x < 0.12 ? "right" : "";
}

/** Whether the labels of two points would overlap. */
function overlap(one: Point, other: Point): boolean {
  const [a, b] = [labelBox(one), labelBox(other)];
  return a.left < b.right && b.left < a.right && Math.abs(a.top - b.top) < LINE_PX;
}

function labelBox(point: Point): { left: number; right: number; top: number } {
  const width = offerTitle(point.offer).length * CHARACTER_PX + CHARACTER_PX;
  const shift = { left: 1, right: 0, "": 0.5 }[labelSide(point)];
  const left = point.x * PLOT.width - shift * width;
  return { left, right: left + width, top: point.y * PLOT.height + (isAbove(point) ? -20 : 10) };
}

export function isAbove(point: Point): boolean {
  return point.y > 0.8;
}

/** The chosen offer and the best ones that have room for a label. */
export function labelled(points: readonly Point[], best: readonly Offer[], chosen: Offer | null): Point[] {
  const isChosen = (point: Point) => chosen !== null && offerKey(chosen) === offerKey(point.offer);
  const wanted = points.filter((point) => isChosen(point) || (!point.outside && best.includes(point.offer)));
  wanted.sort((one, other) => Number(isChosen(other)) - Number(isChosen(one)) || one.x - other.x);
  const kept: Point[] = [];
  for (const point of wanted) {
    const hasRoom = kept.every((other) => !overlap(other, point));
    if (hasRoom && kept.length < MAX_LABELS) kept.push(point);
  }
  return kept;
}

export function summaryOf(points: readonly Point[], best: readonly Offer[]): string {
  const outside = points.filter((point) => point.outside).length;
  const named = best.slice(0, 4).map(offerSummary).join("; ");
  return `Cost against time of ${plural(points.length, "offer")}, ${outside} outside your limits. On the frontier: ${named}`;
}
