import { describe, expect, it } from "vitest";
import type { Schemas } from "@/api/client";
import { addMonths, daysOfMonth, formatDay, formatMonth, monthsBetween } from "@/views/costs/calendar";
import {
  axisEnd,
  axisTicks,
  dayBars,
  formatRough,
  formatTick,
  groupName,
  seriesOf,
} from "@/views/costs/days";
import { formatSearch, parseSearch } from "@/views/costs/search";

const NOTHING = {
  machine_s: 0,
  gpu_s: 0,
  jobs: 1,
  spot_microusd: 0,
  saved_microusd: 0,
  lost_microusd: 0,
  lost_s: 0,
  interruptions: 0,
};

function group(key: string, daily: number[]): Schemas["CostGroup"] {
  return { ...NOTHING, key, microusd: daily.reduce((a, b) => a + b, 0), daily_microusd: daily };
}

function table(groups: Schemas["CostGroup"][], totals: number[]): Schemas["CostTable"] {
  return {
    by: "backend",
    first_day: "2026-11-01",
    last_day: "2026-11-02",
    timezone: "UTC",
    days: ["2026-11-01", "2026-11-02"],
    groups,
    rest: null,
    total: { ...NOTHING, microusd: totals.reduce((a, b) => a + b, 0) },
    daily_microusd: totals,
    overlap_microusd: 0,
  };
}

describe("months and days", () => {
  it("go over the end of a year", () => {
    expect(addMonths("2026-12", 1)).toBe("2027-01");
    expect(addMonths("2026-01", -1)).toBe("2025-12");
    expect(monthsBetween("2025-11", "2026-02")).toEqual(["2026-02", "2026-01", "2025-12", "2025-11"]);
  });
  it("know leap years", () => {
    expect(daysOfMonth("2024-02")).toHaveLength(29);
    expect(daysOfMonth("2026-02").at(-1)).toBe("2026-02-28");
  });
  it("have names that do not depend on the time zone", () => {
    expect(formatMonth("2026-11")).toBe("November 2026");
    expect(formatDay("2026-11-17")).toBe("17 November");
  });
});

describe("bars by day", () => {
  it("stack the groups in their order, and stay empty for days to come", () => {
    const costs = table([group("aws", [30, 10]), group("lab", [0, 0])], [30, 10]);
    const days = dayBars(["2026-11-01", "2026-11-02", "2026-11-03"], costs, "backend", [
      { day: "2026-11-03", microusd: 20 },
    ]);
    expect(days.map((day) => day.total)).toEqual([30, 10, 0]);
    expect(days[0]!.parts).toEqual([{ name: "aws", colour: "--c1", microusd: 30, height: 30 }]);
    expect(days[2]).toMatchObject({ parts: [], expected: 20 });
  });
  it("are as high as the day's total when jobs count for several tags", () => {
    const costs = table([group("a", [40, 0]), group("b", [40, 0])], [40, 0]);
    const [first] = dayBars(["2026-11-01"], costs, "tag", []);
    expect(first!.parts.map((part) => [part.microusd, part.height])).toEqual([
      [40, 20],
      [40, 20],
    ]);
  });
  it("join the smaller groups", () => {
    const many = Array.from({ length: 9 }, (_, index) => group(`g${index}`, [10 - index, 1]));
    const costs = { ...table(many, [54, 9]), rest: { ...group("", [5, 5]), groups: 3 } };
    const series = seriesOf(costs, "gpu");
    expect(series.map((each) => each.name)).toEqual(["g0", "g1", "g2", "g3", "g4", "g5", "others"]);
    expect(series.at(-1)!.daily).toEqual([4 + 3 + 2 + 5, 3 + 5]);
  });
  it("name groups without a name", () => {
    expect(groupName("", "gpu")).toBe("no GPU");
    expect(groupName("", "tag")).toBe("no tag");
    expect(groupName("aws", "tag")).toBe("aws");
  });
});

describe("axis", () => {
  it("has round steps and covers the largest value", () => {
    expect(axisTicks(48_000_000)).toEqual([0, 10e6, 20e6, 30e6, 40e6, 50e6]);
    expect(axisTicks(0)).toEqual([0, 5e5, 1e6]);
    for (const most of [1, 3, 7.7, 999, 123_456, 9.9e9]) {
      const ticks = axisTicks(most);
      expect(ticks.at(-1)).toBeGreaterThanOrEqual(most);
      expect(ticks.length).toBeGreaterThan(2);
      expect(ticks.length).toBeLessThanOrEqual(7);
    }
  });
  it("ends so that its parts are round", () => {
    expect([12_000_000, 15_720_000, 8_000_001].map((most) => axisEnd(most, 4))).toEqual([20e6, 20e6, 20e6]);
    expect(axisEnd(0, 4)).toBe(4e6);
  });
  it("shows no fractions of a micro-dollar", () => {
    expect([0, 0.4, 99, Number.NaN].map((most) => axisTicks(most))).toEqual(Array(4).fill([0, 5e5, 1e6]));
  });
  it("labels amounts without needless cents", () => {
    expect([0, 10_000_000, 2_500_000, 2000].map(formatTick)).toEqual(["$0", "$10", "$2.50", "$0.002"]);
    expect([702_400_000, 1_234_567_000_000, 31_480_000].map(formatRough)).toEqual([
      "$702",
      "$1,234,567",
      "$31.48",
    ]);
  });
});

describe("address", () => {
  it("ignores values that make no sense", () => {
    const nothing = { month: "", by: "backend", job: "", what: "cost", table: false };
    expect(parseSearch({})).toEqual(nothing);
    expect(parseSearch({ month: "2026-13", by: "colour", what: 4, job: ["x"], table: "1" })).toEqual(nothing);
  });
  it("keeps the state and leaves out defaults", () => {
    const state = { month: "2026-10", by: "tag", job: "j", what: "time", table: true } as const;
    expect(parseSearch(formatSearch(state))).toEqual(state);
    expect(Object.values(formatSearch(parseSearch({}))).filter((value) => value !== undefined)).toEqual([]);
  });
});
