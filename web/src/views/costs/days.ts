/** The parts of the bars by day, and the axis. Pure functions. */

import type { Schemas } from "@/api/client";
import { formatMoney } from "@/lib/format";
import type { Grouping } from "@/views/costs/search";

export type CostTable = Schemas["CostTable"];
export type CostGroup = Schemas["CostGroup"];

const COLOURS = 6;
const REST_COLOUR = "--c-rest";
const EMPTY_NAMES: Record<Grouping, string> = {
  backend: "unknown",
  person: "unknown",
  gpu: "no GPU",
  tag: "no tag",
};

/** The name of a group, also of the group without a name. */
export function groupName(key: string, by: Grouping): string {
  return key === "" ? EMPTY_NAMES[by] : key;
}

export interface Series {
  name: string;
  /** A token such as `--c1`. */
  colour: string;
  /** Micro-dollars by day, in the order of the table's days. */
  daily: readonly number[];
}

/** The most expensive groups in the series colours, and all others as one. Groups without a cost are left out. */
export function seriesOf(table: CostTable, by: Grouping): Series[] {
  const paid = table.groups.filter((group) => group.microusd > 0);
  const named = paid.slice(0, COLOURS).map((group, index) => ({
    name: groupName(group.key, by),
    colour: `--c${index + 1}`,
    daily: group.daily_microusd ?? [],
  }));
  const others = [...paid.slice(COLOURS).map((group) => group.daily_microusd ?? [])];
  if (table.rest?.daily_microusd && table.rest.microusd > 0) others.push(table.rest.daily_microusd);
  if (others.length === 0) return named;
  const sums = (table.days ?? []).map((_, day) => others.reduce((sum, each) => sum + (each[day] ?? 0), 0));
  return [...named, { name: "others", colour: REST_COLOUR, daily: sums }];
}

/** The colour of each group of the table, by key. */
export function colourOf(table: CostTable, index: number): string {
  return index < COLOURS && (table.groups[index]?.microusd ?? 0) > 0 ? `--c${index + 1}` : REST_COLOUR;
}

export interface Part {
  name: string;
  colour: string;
  microusd: number;
  /** Height in micro-dollars. Less than the amount if groups overlap, because a job has several tags. */
  height: number;
}

export interface Day {
  day: string;
  total: number;
  parts: Part[];
  /** What the day will probably cost; null for days until today. */
  expected: number | null;
}

/** One entry for each day of the month, with the parts of its bar from bottom to top. */
export function dayBars(
  month: readonly string[],
  table: CostTable,
  by: Grouping,
  expected: readonly { day: string; microusd: number }[],
): Day[] {
  const series = seriesOf(table, by);
  const position = new Map((table.days ?? []).map((day, index) => [day, index]));
  const toCome = new Map(expected.map((each) => [each.day, each.microusd]));
  return month.map((day) => {
    const index = position.get(day);
    const total = index === undefined ? 0 : (table.daily_microusd?.[index] ?? 0);
    const amounts = index === undefined ? [] : series.map((each) => ({ each, cost: each.daily[index] ?? 0 }));
    const counted = amounts.reduce((sum, { cost }) => sum + cost, 0);
    const scale = counted > total && counted > 0 ? total / counted : 1;
    const parts = amounts
      .filter(({ cost }) => cost > 0)
      .map(({ each, cost }) => ({
        name: each.name,
        colour: each.colour,
        microusd: cost,
        height: cost * scale,
      }));
    return { day, total, parts, expected: toCome.get(day) ?? null };
  });
}

const DOLLAR = 1_000_000;
/** Less than this, $0.0001, is shown on an axis of one dollar, because its ticks would all be the same text. */
const LEAST = 100;
const STEPS = [1, 2, 5, 10];

/** Round steps from zero to a round number that is at least `most`, at most `count` of them. */
export function axisTicks(most: number, count = 6): number[] {
  if (!(most >= LEAST)) return [0, DOLLAR / 2, DOLLAR];
  const rough = most / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * (STEPS.find((each) => each * power >= rough * (1 - 1e-9)) ?? 10);
  const lines = Math.max(1, Math.ceil(most / step - 1e-9));
  return Array.from({ length: lines + 1 }, (_, index) => index * step);
}

/** The end of an axis with `parts` equal round steps that is at least `most`. */
export function axisEnd(most: number, parts: number): number {
  const step = axisTicks(most / parts, 1).at(-1)!;
  return step * parts;
}

/** A tick of an axis: "$10", "$2.50", "$0.002". */
export function formatTick(microusd: number): string {
  if (microusd === 0) return "$0";
  return formatMoney(microusd).replace(/\.00$/, "");
}

/** A large amount without cents: "$702"; others as usual. */
export function formatRough(microusd: number): string {
  if (Math.abs(microusd) < 100_000_000) return formatMoney(microusd);
  return formatMoney(Math.round(microusd / 1_000_000) * 1_000_000).replace(/\.00$/, "");
}
