/** Cost against time. The frontier joins the offers that nothing beats in both; hatching covers what the limits exclude. */

import { useEffect, useEffectEvent, useRef, type CSSProperties } from "react";
import { formatDuration, formatMoney } from "@/lib/format";
import type { Draft } from "@/views/new/draft";
import {
  frontier,
  isUsable,
  offerKey,
  offerSummary,
  offerTitle,
  scaleEnd,
  ticks,
  timeTicks,
  type Offer,
  type Plan,
} from "@/views/new/offers";
import {
  frontierOffers,
  isAbove,
  isBeyond,
  labelSide,
  labelled,
  pointClass,
  stepPath,
  summaryOf,
  type Point,
} from "@/views/new/plan/points";

const MICRO = 1_000_000;
const NEAR_PX = 16;

interface ScatterProps {
  plan: Plan;
  draft: Draft;
  chosen: Offer | null;
  onChoose: (offer: Offer) => void;
}

export function Scatter({ plan, draft, chosen, onChoose }: ScatterProps) {
  const all = [...plan.short, ...(plan.outside ?? [])];
  const times = timeTicks(
    scaleEnd(
      all.map((offer) => offer.seconds.expected),
      draft.deadlineS,
    ),
    6,
  );
  const costs = ticks(
    scaleEnd(
      all.map((offer) => offer.cost_microusd.expected / MICRO),
      budgetOf(draft),
    ),
    4,
  );
  const maxTime = times.at(-1) ?? 1;
  const maxCost = costs.at(-1) ?? 1;
  const place = (offer: Offer, outside: boolean): Point => ({
    offer,
    x: offer.seconds.expected / maxTime,
    y: 1 - offer.cost_microusd.expected / MICRO / maxCost,
    outside,
  });
  const points = [
    ...plan.short.map((offer) => place(offer, isBeyond(offer, draft))),
    ...(plan.outside ?? []).map((offer) => place(offer, true)),
  ].filter((point) => point.x <= 1 && point.y >= 0);
  const best = frontier(frontierOffers(points));
  const host = usePointChoice(points, onChoose);
  if (all.length === 0) return null;
  const limits = { x: limitPart(draft.deadlineS, maxTime), y: limitPart(budgetOf(draft), maxCost) };
  return (
    <figure className="chart scatter">
      <Legend />
      <div ref={host} className="plot" role="img" aria-label={summaryOf(points, best)}>
        <ExcludedArea x={limits.x} y={limits.y} />
        {costs.map((cost, index) => (
          <span key={cost} style={at({ top: 1 - cost / maxCost })}>
            <span className={index === 0 ? "gl base" : "gl"} />
            <span className="y">{costLabel(cost, maxCost)}</span>
          </span>
        ))}
        <svg viewBox="0 0 1000 1000" preserveAspectRatio="none" aria-hidden="true">
          <path className="front" d={stepPath(best.map((offer) => place(offer, false)))} />
        </svg>
        {points.map((point) => (
          <span
            key={offerKey(point.offer)}
            className={pointClass(point, best, chosen)}
            title={offerSummary(point.offer)}
            style={at({ left: point.x, top: point.y })}
          />
        ))}
        <Labels points={labelled(points, best, chosen)} />
        {times.map((time, index) => (
          <span
            key={time}
            className={index === 0 ? "x first" : index === times.length - 1 ? "x last" : "x"}
            style={at({ left: time / maxTime })}
          >
            {time === 0 ? "0" : formatDuration(time)}
          </span>
        ))}
      </div>
    </figure>
  );
}

function budgetOf(draft: Draft): number | null {
  return draft.budgetMicrousd === null ? null : draft.budgetMicrousd / MICRO;
}

function limitPart(limit: number | null, max: number): number {
  return limit === null ? 1 : Math.min(1, limit / max);
}

function at(place: { left?: number; top?: number }): CSSProperties {
  return {
    ...(place.left === undefined ? {} : { "--x": `${(place.left * 100).toFixed(2)}%` }),
    ...(place.top === undefined ? {} : { "--y": `${(place.top * 100).toFixed(2)}%` }),
  } as CSSProperties;
}

function costLabel(cost: number, max: number): string {
  return max < 5 && cost > 0 ? formatMoney(cost * MICRO) : `$${cost}`;
}

function Labels({ points }: { points: readonly Point[] }) {
  return points.map((point) => (
    <span
      key={offerKey(point.offer)}
      className={`lb ${isAbove(point) ? "above" : "below"} ${labelSide(point)}`}
      style={at({ left: point.x, top: point.y })}
    >
      {offerTitle(point.offer)}
    </span>
  ));
}

function ExcludedArea({ x, y }: { x: number; y: number }) {
  const style = {
    "--x": `${(x * 100).toFixed(2)}%`,
    "--y": `${((1 - y) * 100).toFixed(2)}%`,
  } as CSSProperties;
  return (
    <span className="excluded" style={style}>
      {x < 1 && <span className="zone late" />}
      {y < 1 && <span className="zone dear" />}
      {y < 1 && <span className="lim h" />}
      {x < 1 && <span className="lim v" />}
    </span>
  );
}

function Legend() {
  return (
    <figcaption>
      <span className="name">Cost against time</span>
      <span className="key push">
        <span>
          <i className="m sp" />
          spot
        </span>
        <span>
          <i className="m od" />
          on-demand
        </span>
        <span>
          <i className="m ln2" />
          nothing is both cheaper and faster
        </span>
        <span>
          <i className="m out" />
          outside your limits
        </span>
      </span>
    </figcaption>
  );
}

/** Choose the nearest usable offer when the plot is clicked. The table below does the same with the keyboard. */
function usePointChoice(points: readonly Point[], onChoose: (offer: Offer) => void) {
  const host = useRef<HTMLDivElement>(null);
  const choose = useEffectEvent((event: MouseEvent) => {
    const box = host.current?.getBoundingClientRect();
    if (box === undefined) return;
    const distance = (point: Point) =>
      Math.hypot(
        box.left + point.x * box.width - event.clientX,
        box.top + point.y * box.height - event.clientY,
      );
    const usable = points.filter((point) => !point.outside && isUsable(point.offer));
    const nearest = usable.sort((one, other) => distance(one) - distance(other))[0];
    if (nearest !== undefined && distance(nearest) <= NEAR_PX) onChoose(nearest.offer);
  });
  useEffect(() => {
    const element = host.current;
    const listener = (event: MouseEvent) => choose(event);
    element?.addEventListener("click", listener);
    return () => element?.removeEventListener("click", listener);
  }, []);
  return host;
}
