/** What the page computes from a plan: the offer that the job gets, the frontier, scales and summaries. */

import type { Schemas } from "@/api/client";
import { formatDuration, formatMoney } from "@/lib/format";
import type { Draft, Pin } from "@/views/new/draft";

export type Offer = Schemas["PlannedOffer"];
export type Plan = Schemas["JobPlan"];

export function isPaid(offer: Pick<Offer, "price_microusd_per_hour">): boolean {
  return offer.price_microusd_per_hour > 0;
}

/** Whether the server can start a machine of this offer. */
export function isUsable(offer: Offer): boolean {
  return offer.configured && offer.has_backend !== false;
}

export function offerKey(
  offer: Pick<Offer, "backend" | "name" | "region" | "zone" | "gpu" | "gpus" | "interruptible">,
): string {
  const { backend, name, region, zone, gpu, gpus, interruptible } = offer;
  return [backend, name, region, zone, gpu, gpus, interruptible].join("|");
}

export function pinOf(offer: Offer): Pin {
  const { backend, name, region, zone, gpu, gpus, interruptible, price_microusd_per_hour } = offer;
  return { backend, name, region, zone, gpu, gpus, interruptible, price_microusd_per_hour };
}

/** The offer on which the job runs if it is submitted now: the chosen one, else the best that it may use. */
export function chosenOffer(plan: Plan, draft: Pick<Draft, "pin" | "paid">): Offer | null {
  const { pin } = draft;
  if (pin !== null) return plan.short.find((offer) => offerKey(offer) === offerKey(pin)) ?? null;
  return plan.short.find((offer) => isUsable(offer) && (draft.paid || !isPaid(offer))) ?? null;
}

/** Offers that nothing beats in both cost and time, from the fastest to the cheapest. */
export function frontier(offers: readonly Offer[]): Offer[] {
  const byTime = [...offers].sort(
    (one, other) =>
      one.seconds.expected - other.seconds.expected ||
      one.cost_microusd.expected - other.cost_microusd.expected,
  );
  const best: Offer[] = [];
  for (const offer of byTime) {
    const last = best.at(-1);
    if (last === undefined || offer.cost_microusd.expected < last.cost_microusd.expected) best.push(offer);
  }
  return best;
}

/** The number of different offers that a plan compared, and how many of them fit. */
export function countOffers(plan: Plan): { compared: number; fitting: number } {
  const compared = (plan.compared ?? []).reduce((sum, each) => sum + each.offers, 0);
  const rejected = plan.rejected.reduce((sum, each) => sum + each.offers, 0);
  const fitting = plan.offers.length + plan.more_offers;
  return { compared: Math.max(compared, fitting + rejected), fitting };
}

export type Rejection = Plan["rejected"][number];

/** Join reasons that differ only in their numbers, such as prices. The first of them is shown. */
export function groupRejections(rejected: readonly Rejection[]): Rejection[] {
  const groups = new Map<string, Rejection>();
  for (const each of rejected) {
    const key = each.reason.replaceAll(/[$]?\d[\d.,]*/g, "#");
    const known = groups.get(key);
    groups.set(key, known === undefined ? each : { ...known, offers: known.offers + each.offers });
  }
  return [...groups.values()].sort((one, other) => other.offers - one.offers);
}

/** The cheapest paid offer, also of those outside of budget and deadline. One that can be chosen goes first. */
export function cheapest(plan: Plan): Offer | null {
  const paid = [...plan.short, ...(plan.outside ?? [])].filter(isPaid);
  const all = paid.some(isUsable) ? paid.filter(isUsable) : paid;
  return all.reduce<Offer | null>(
    (best, offer) =>
      best === null || offer.cost_microusd.expected < best.cost_microusd.expected ? offer : best,
    null,
  );
}

/** Whether no paid offer is within the budget; then the page names the cheapest. */
export function isBudgetTooLow(plan: Plan, budgetMicrousd: number | null): boolean {
  const least = cheapest(plan);
  return budgetMicrousd !== null && least !== null && least.cost_microusd.expected > budgetMicrousd;
}

/** Say which limit excludes an offer. */
export function outsideReason(offer: Offer, draft: Pick<Draft, "budgetMicrousd" | "deadlineS">): string {
  const { budgetMicrousd, deadlineS } = draft;
  if (budgetMicrousd !== null && offer.cost_microusd.expected > budgetMicrousd) return "over the budget";
  if (deadlineS !== null && offer.seconds.expected > deadlineS) return "later than the deadline";
  return "outside of the limits";
}

/** "aws A10G 24 GB spot" in one line. */
export function offerTitle(
  offer: Pick<Offer, "backend" | "name" | "gpu" | "gpus" | "interruptible"> & { nodes?: number },
): string {
  return [offer.backend, machineTitle(offer), offer.interruptible ? "spot" : ""].filter(Boolean).join(" ");
}

/** "2 × A10G", or the machine's own name if it has no GPU; "4 nodes × 2 × A10G" for several machines. */
export function machineTitle(offer: Pick<Offer, "gpu" | "gpus" | "name"> & { nodes?: number }): string {
  const gpu = offer.gpus > 1 ? `${offer.gpus} × ${offer.gpu}` : offer.gpu;
  const machine = gpu || offer.name || "CPU";
  return (offer.nodes ?? 1) > 1 ? `${offer.nodes} nodes × ${machine}` : machine;
}

export function offerSummary(offer: Offer): string {
  const cost = isPaid(offer) ? formatMoney(offer.cost_microusd.expected) : "own machine";
  return `${offerTitle(offer)}: ${cost}, ${formatDuration(offer.seconds.expected)}`;
}

/** A round number at or above a value: 1, 2, 2.5 or 5 times a power of ten. */
export function niceCeil(value: number): number {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  const step = [1, 2, 2.5, 5, 10].find((each) => each * power >= value * (1 - 1e-9)) ?? 10;
  return step * power;
}

/** Evenly spaced round values from zero to at least `max`. */
export function ticks(max: number, count: number): number[] {
  const step = niceCeil(max / count);
  const length = Math.max(1, Math.ceil(max / step - 1e-9));
  return Array.from({ length: length + 1 }, (_, index) => index * step);
}

const HOUR = 3600;
const TIME_STEPS = [60, 300, 600, 1800, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, 24 * HOUR, 48 * HOUR];

/** Evenly spaced times from zero to at least `max`, in steps that people use. */
export function timeTicks(max: number, count: number): number[] {
  const days = 24 * HOUR;
  const step = TIME_STEPS.find((each) => max / each <= count) ?? Math.ceil(max / count / days) * days;
  const length = Math.max(1, Math.ceil(max / step - 1e-9));
  return Array.from({ length: length + 1 }, (_, index) => index * step);
}

/** The value below which the given part of the values are. */
export function quantile(values: readonly number[], part: number): number {
  const sorted = [...values].sort((one, other) => one - other);
  return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? 0;
}

/** The end of a scale that shows most offers: the slowest and most expensive few are left out. */
export function scaleEnd(values: readonly number[], limit: number | null): number {
  const usual = Math.max(quantile(values, 0.5) * 1.15, quantile(values, 0.85) * 1.05);
  return Math.max(usual, limit === null ? 0 : limit * 1.1, 1e-6);
}
