import { describe, expect, test } from "vitest";
import {
  cheapest,
  chosenOffer,
  frontier,
  groupRejections,
  isBudgetTooLow,
  niceCeil,
  pinOf,
  ticks,
  timeTicks,
  type Offer,
  type Plan,
} from "@/views/new/offers";
import { STEPS, limitAt, parseDollars, parseHours } from "@/views/new/plan/amounts";
import { labelled } from "@/views/new/plan/points";

function offer(name: string, dollars: number, hours: number, more: Partial<Offer> = {}): Offer {
  const span = (value: number) => ({ expected: value, low: value * 0.8, high: value * 1.5 });
  return {
    backend: "aws",
    name,
    region: "us-east-1",
    zone: "",
    gpu: "A10G",
    gpus: 1,
    interruptible: false,
    configured: true,
    needs_consent: false,
    has_backend: true,
    price_date: "",
    doubt: "",
    score: 1,
    price_microusd_per_hour: dollars > 0 ? 1_000_000 : 0,
    nodes: 1,
    total_price_microusd_per_hour: dollars > 0 ? 1_000_000 : 0,
    interconnect: "",
    nodes_reason: "",
    seconds: span(hours * 3600),
    cost_microusd: span(dollars * 1_000_000),
    out_of_pocket_microusd: span(dollars * 1_000_000),
    credit_microusd: 0,
    runs: 1,
    max_run_s: null,
    setup_s: 0,
    transfer_s: 0,
    interruptions_s: 0,
    checkpoint_every_s: null,
    confidence: "high",
    basis: "code",
    free: null,
    wait: "",
    pros: [],
    cons: [],
    ...more,
  };
}

function plan(short: Offer[], outside: Offer[] = []): Plan {
  return {
    strategy: "cheapest",
    choice: short[0] ?? null,
    short,
    offers: short,
    more_offers: 0,
    rejected: [],
    outside,
    workload: [],
    lints: [],
  };
}

const own = offer("own", 0, 20, { backend: "local" });
const cheap = offer("cheap", 4, 10);
const fast = offer("fast", 8, 2);
const poor = offer("poor", 9, 12);

describe("the chosen offer", () => {
  test("without consent it is the best own machine", () => {
    expect(chosenOffer(plan([cheap, own]), { pin: null, paid: false })).toBe(own);
    expect(chosenOffer(plan([cheap]), { pin: null, paid: false })).toBeNull();
  });

  test("with consent it is the best that can be rented", () => {
    const catalog = offer("catalog", 1, 1, { configured: false });
    expect(chosenOffer(plan([catalog, cheap]), { pin: null, paid: true })).toBe(cheap);
  });

  test("a chosen one stays chosen, and is missing when the plan no longer has it", () => {
    expect(chosenOffer(plan([cheap, fast]), { pin: pinOf(fast), paid: false })).toBe(fast);
    expect(chosenOffer(plan([cheap]), { pin: pinOf(fast), paid: false })).toBeNull();
  });
});

test("the frontier has what nothing beats in both cost and time", () => {
  expect(frontier([poor, cheap, fast, own]).map((each) => each.name)).toEqual(["fast", "cheap", "own"]);
});

describe("a budget", () => {
  test("below every rented machine names the cheapest", () => {
    const found = plan([own], [fast, cheap]);
    expect(isBudgetTooLow(found, 1_000_000)).toBe(true);
    expect(cheapest(found)).toBe(cheap);
    expect(isBudgetTooLow(found, 5_000_000)).toBe(false);
    expect(isBudgetTooLow(found, null)).toBe(false);
  });
});

test("reasons that differ only in numbers are one", () => {
  const grouped = groupRejections([
    { reason: "costs $10.56 a day", offers: 3, examples: [] },
    { reason: "no GPU", offers: 5, examples: [] },
    { reason: "costs $1,102.96 a day", offers: 4, examples: [] },
  ]);
  expect(grouped.map((each) => [each.reason, each.offers])).toEqual([
    ["costs $10.56 a day", 7],
    ["no GPU", 5],
  ]);
});

test("scales have round steps", () => {
  expect(niceCeil(13)).toBe(20);
  expect(niceCeil(0.03)).toBeCloseTo(0.05);
  expect(ticks(15, 4)).toEqual([0, 5, 10, 15]);
  expect(timeTicks(15 * 3600, 6)).toEqual([0, 3, 6, 9, 12, 15].map((hours) => hours * 3600));
});

describe("exact limits", () => {
  test.each([
    ["12", 12_000_000],
    ["$12.50", 12_500_000],
    ["1,000 USD", 1_000_000_000],
    ["", null],
    ["-1", undefined],
    ["many", undefined],
  ])("%j dollars", (text, micros) => expect(parseDollars(text)).toBe(micros));

  test.each([
    ["14", 50_400],
    ["1h30m", 5400],
    ["2d", 172_800],
    ["", null],
    ["0", undefined],
    ["soon", undefined],
  ])("%j hours", (text, seconds) => expect(parseHours(text)).toBe(seconds));
});

describe("every position of a slider", () => {
  const positions = Array.from({ length: STEPS }, (_, position) => position);
  const powers = [1e5, 1e6, 1e7, 1e8, 1e9];
  const ends = powers.flatMap((power) => [1, 2, 2.5, 5].map((step) => niceCeil(step * power)));

  test.each(ends)("that ends at %d is a whole number, and the budget of its place", (end) => {
    for (const position of positions) {
      const budget = limitAt(position, end, 0);
      expect(Number.isInteger(budget), `position ${position}`).toBe(true);
      expect(budget).toBeCloseTo((position / STEPS) * end, -1);
    }
    expect(limitAt(STEPS, end, 0)).toBeNull();
  });

  test.each([60, 120, 300, 3600, 36_000, 9_000_000])("that ends at %d is a deadline above zero", (end) => {
    for (const position of positions) expect(limitAt(position, end, 1)).toBeGreaterThanOrEqual(1);
    expect(limitAt(STEPS, end, 1)).toBeNull();
  });
});

test("labels of points that would overlap are left out, and the chosen offer keeps its label", () => {
  const [near, long, far] = [offer("a", 1, 1), offer("b", 1.1, 1.3), offer("c", 9, 9)];
  const points = [
    { offer: near, x: 0.4, y: 0.5, outside: false },
    { offer: long, x: 0.48, y: 0.52, outside: false },
    { offer: far, x: 0.6, y: 0.1, outside: false },
  ];
  const names = (chosen: Offer) =>
    labelled(points, [near, long, far], chosen).map((point) => point.offer.name);
  expect(names(near)).toEqual(["a", "c"]);
  expect(names(long)).toEqual(["b", "c"]);
});
