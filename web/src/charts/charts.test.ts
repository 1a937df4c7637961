import { describe, expect, it } from "vitest";
import { alignLines, ascendingIndices, firstIndexFrom, isolatedIndices, nearestIndex } from "@/charts/align";
import { appendPoint, emptyColumns, MAX_LIVE_POINTS, numberedPoints, parseColumns } from "@/charts/columns";
import { Crosshair } from "@/charts/crosshair";
import { downsampleIndices } from "@/charts/downsample";
import { logScaleProblem, percentile, valueLimits } from "@/charts/limits";
import { attemptColor, attemptStretches, epochScale, lastKeptStep, runLook } from "@/charts/lines";
import { RedrawScheduler } from "@/charts/scheduler";
import { smooth } from "@/charts/smoothing";
import {
  elapsedTicks,
  enclosingTicks,
  formatElapsedTick,
  formatTick,
  innerTicks,
  logTicks,
  roundStep,
  timeTicks,
} from "@/charts/ticks";

describe("columns", () => {
  it("reads the names of numbers that JSON lacks", () => {
    const { values } = parseColumns({
      steps: [1, 2, 3],
      times: [1, 2, 3],
      values: [0.5, "NaN", "-Infinity"],
    });
    expect(values).toEqual([0.5, NaN, -Infinity]);
  });

  it("does not know the time of a point whose stored time is no date", () => {
    const stored = [1763240000.5, "NaN", "Infinity", 1e20, -1];
    const sent = { steps: [1, 2, 3, 4, 5], times: stored, values: [1, 2, 3, 4, 5] };
    expect(parseColumns(sent).times).toEqual([1763240000.5, NaN, NaN, NaN, NaN]);
    const points = stored.map((time, step) => ["a", step, time, 1] as const);
    const live = numberedPoints({ attempt: 1, point: 5, points });
    expect(live.get("a")!.map(({ time }) => time)).toEqual([1763240000.5, NaN, NaN, NaN, NaN]);
  });

  it("numbers the points of a message in their order", () => {
    const byName = numberedPoints({
      attempt: 1,
      point: 12,
      points: [
        ["a", 1, 1, 10],
        ["b", 1, 1, "NaN"],
        ["a", 2, 2, 30],
      ],
    });
    expect(byName.get("a")).toEqual([
      { number: 10, step: 1, time: 1, value: 10 },
      { number: 12, step: 2, time: 2, value: 30 },
    ]);
    expect(byName.get("b")).toEqual([{ number: 11, step: 1, time: 1, value: NaN }]);
  });

  it("stays bounded while it grows, and keeps the extremes", () => {
    const columns = emptyColumns();
    for (let step = 0; step < 10 * MAX_LIVE_POINTS; step += 1) {
      appendPoint(columns, step, step, step === 777 ? 99 : Math.sin(step));
    }
    expect(columns.values.length).toBeLessThanOrEqual(MAX_LIVE_POINTS);
    expect(columns.values).toContain(99);
    expect(columns.steps.at(-1)).toBe(10 * MAX_LIVE_POINTS - 1);
    expect(columns.steps).toEqual([...columns.steps].sort((a, b) => a - b));
  });
});

describe("downsampleIndices", () => {
  const wave = Array.from({ length: 10_000 }, (_, index) => Math.sin(index / 50));

  it("keeps the ends, the extremes and the order", () => {
    const values = [...wave];
    values[1234] = 50;
    values[8765] = -50;
    const indices = downsampleIndices(values, 300);
    expect(indices.length).toBeLessThanOrEqual(300);
    expect(indices).toEqual([...new Set(indices)].sort((a, b) => a - b));
    expect(indices).toEqual(expect.arrayContaining([0, 1234, 8765, 9999]));
  });

  it("keeps a single NaN", () => {
    const values = [...wave];
    values[5000] = NaN;
    expect(downsampleIndices(values, 300)).toContain(5000);
  });

  it("returns everything of short series and little of tiny limits", () => {
    expect(downsampleIndices([3, 1, 2], 3)).toEqual([0, 1, 2]);
    expect(downsampleIndices([3, 1, 2], 2)).toEqual([0, 2]);
    expect(downsampleIndices([3, 1, 2], 1)).toEqual([2]);
    expect(downsampleIndices([3, 1, 2], 0)).toEqual([]);
  });
});

describe("smooth", () => {
  it("starts at the first value and follows slowly", () => {
    expect(smooth([10, 10, 10], 0.9)).toEqual([10, 10, 10].map((value) => expect.closeTo(value)));
    const [, second] = smooth([0, 10], 0.9);
    expect(second).toBeCloseTo(10 / 1.9);
  });

  it("leaves NaN where it is and out of the average", () => {
    expect(smooth([1, NaN, 1], 0.5)).toEqual([1, NaN, 1]);
    expect(smooth([4, 2], 0)).toEqual([4, 2]);
  });
});

describe("valueLimits", () => {
  const normal = Array.from({ length: 500 }, (_, index) => 1 + (index % 10) / 10);

  it("cuts off outliers that would flatten the rest", () => {
    const limits = valueLimits([...normal, 1e6, NaN, Infinity], { showAll: false, positive: false });
    expect(limits).toMatchObject({ clipped: true });
    expect(limits!.high).toBeLessThan(3);
  });

  it("shows all on request, and when nothing is flattened", () => {
    expect(valueLimits([...normal, 1e6], { showAll: true, positive: false })).toEqual({
      low: 1,
      high: 1e6,
      clipped: false,
    });
    expect(valueLimits(normal, { showAll: false, positive: false })?.clipped).toBe(false);
    expect(valueLimits([1, 1, 500], { showAll: false, positive: false })?.high).toBe(500);
  });

  it("has no limits without finite values", () => {
    expect(valueLimits([NaN, Infinity], { showAll: false, positive: false })).toBeNull();
    expect(valueLimits([-1, 5], { showAll: true, positive: true })).toMatchObject({ low: 5, high: 5 });
  });

  it("says why a logarithmic scale is not possible", () => {
    expect(logScaleProblem(0)).toMatch(/above zero/);
    expect(logScaleProblem(0.1)).toBeNull();
    expect(percentile([1, 2, 3, 4], 0.5)).toBe(2.5);
  });
});

describe("ticks", () => {
  it("encloses a range with round numbers", () => {
    expect(enclosingTicks(1.1, 4.9, 4)).toEqual([1, 2, 3, 4, 5]);
    expect(enclosingTicks(0, 0.78, 4)).toEqual([0, 0.2, 0.4, 0.6, 0.8]);
    expect(enclosingTicks(3, 3, 4).length).toBeGreaterThan(1);
    expect(enclosingTicks(0, 0, 4)[0]).toBeLessThan(0);
    expect(roundStep(0.3)).toBe(0.5);
  });

  it("has four to six lines for any range", () => {
    for (const [low, high] of [
      [0, 1],
      [0.98, 1.02],
      [-3, 17],
      [1e-9, 2e-9],
      [1000, 1_000_000],
    ] as const) {
      const count = enclosingTicks(low, high, 4).length;
      expect(count).toBeGreaterThanOrEqual(3);
      expect(count).toBeLessThanOrEqual(7);
    }
  });

  it("stays inside the range on the horizontal axis", () => {
    expect(innerTicks(0, 130_000, 5)).toEqual([0, 50_000, 100_000]);
    expect(innerTicks(0, 3, 6, true)).toEqual([0, 1, 2, 3]);
    expect(innerTicks(5, 5, 5)).toEqual([5]);
  });

  it("uses powers of ten on a logarithmic axis, and finer ticks for short ranges", () => {
    expect(logTicks(0.003, 800)).toEqual([0.001, 0.01, 0.1, 1, 10, 100, 1000].map((n) => expect.closeTo(n)));
    expect(logTicks(1.5, 8)).toEqual([1, 2, 5, 10]);
  });

  it("puts times at round minutes", () => {
    const ticks = timeTicks(1_700_000_007, 1_700_003_000, 5);
    expect(ticks.every((tick) => tick % 60 === 0)).toBe(true);
    expect(ticks.length).toBeGreaterThan(2);
  });

  it("puts durations at round numbers", () => {
    expect(elapsedTicks(0, 7000, 4)).toEqual([0, 1800, 3600, 5400]);
    expect([0, 90, 5400, 90_000, -60].map(formatElapsedTick)).toEqual([
      "0",
      "1m 30s",
      "1h 30m",
      "1d 1h",
      "-1m",
    ]);
  });

  it("end for times beyond every date, which a hand-written address may have", () => {
    for (const ticks of [timeTicks, elapsedTicks]) {
      expect(ticks(1e17, 1e17 + 20, 5).length).toBeLessThan(10);
      expect(ticks(-1e300, 1e300, 5).length).toBeLessThan(10);
    }
  });

  it("writes short texts", () => {
    expect(formatTick(25_000, 125_000)).toBe("25k");
    expect(formatTick(1200, 1200)).toBe("1,200");
    expect(formatTick(0.75, 1)).toBe("0.75");
    expect(formatTick(0, 125_000)).toBe("0");
    expect(formatTick(2e-5, 3e-5)).toBe("2e-5");
    expect(formatTick(2_500_000, 5_000_000)).toBe("2.5M");
  });
});

describe("align", () => {
  it("joins lines without inventing gaps", () => {
    const table = alignLines([
      { xs: [1, 3], ys: [10, 30] },
      { xs: [2, 3], ys: [200, null] },
    ]);
    expect(table).toEqual([
      [1, 2, 3],
      [10, undefined, 30],
      [undefined, 200, null],
    ]);
  });

  it("sorts positions and keeps the last of equal ones", () => {
    expect(ascendingIndices([1, 2, 3])).toEqual([0, 1, 2]);
    expect(ascendingIndices([3, 1, 3, 2])).toEqual([1, 3, 2]);
  });

  it("leaves out positions that cannot be drawn", () => {
    expect(ascendingIndices([NaN, 3, Infinity, 1, -Infinity, 2])).toEqual([3, 5, 1]);
    expect(ascendingIndices([NaN])).toEqual([]);
    const table = alignLines([
      { xs: [1, NaN, 2], ys: [10, 20, 30] },
      { xs: [3, 2], ys: [30, 20] },
    ]);
    expect(table.slice(1).map((column) => column.filter((value) => value !== undefined))).toEqual([
      [10, 30],
      [30],
    ]);
  });

  it("finds points without neighbours", () => {
    expect(isolatedIndices([1, undefined, 2, null, 5, null, 6])).toEqual([4, 6]);
    expect(isolatedIndices([undefined, 3])).toEqual([1]);
    expect(isolatedIndices([1, 2, null])).toEqual([]);
  });

  it("finds the nearest position", () => {
    expect([-5, 1.4, 1.6, 9].map((x) => nearestIndex([1, 2, 3], x))).toEqual([0, 0, 1, 2]);
    expect(nearestIndex([], 1)).toBe(-1);
  });

  it("finds a position among thousands by reading few of them", () => {
    let reads = 0;
    const positions = Array.from({ length: 4000 }, (_, index) => index * 10);
    const counted = new Proxy(positions, {
      get: (target, key) => {
        if (key !== "length") reads += 1;
        return Reflect.get(target, key) as unknown;
      },
    });
    expect([-1, 0, 5, 39_990, 40_000].map((x) => firstIndexFrom(counted, x))).toEqual([0, 0, 1, 3999, 4000]);
    expect(reads).toBeLessThan(5 * 15);
  });
});

describe("lines", () => {
  const columns = { steps: [0, 10, 20, 30], times: [0, 1, 2, 3], values: [4, 3, 2, 1] };
  const options = { axis: "step", smoothing: 0, epochOf: null } as const;

  it("splits points that were computed again, and joins the parts", () => {
    const [kept, redone] = attemptStretches(columns, 10, options);
    expect(kept).toMatchObject({ xs: [0, 10], redone: false });
    expect(redone).toMatchObject({ xs: [10, 20, 30], redone: true });
    expect(attemptStretches(columns, Infinity, options)).toHaveLength(1);
    expect(attemptStretches(columns, -1, options)).toMatchObject([{ xs: [0, 10, 20, 30], redone: true }]);
    expect(attemptStretches({ steps: [], times: [], values: [] }, Infinity, options)).toEqual([]);
  });

  it("knows up to which step an attempt counts", () => {
    const resumes = new Map([
      [2, 100],
      [3, 40],
    ]);
    expect([1, 2, 3].map((attempt) => lastKeptStep(attempt, resumes))).toEqual([40, 40, Infinity]);
  });

  it("draws over time and epochs", () => {
    expect(attemptStretches(columns, Infinity, { ...options, axis: "time" })[0]!.xs).toEqual([0, 1, 2, 3]);
    const epochOf = epochScale([0, 10], [0, 1]);
    expect(attemptStretches(columns, Infinity, { ...options, axis: "epoch", epochOf })[0]!.xs).toEqual([
      0, 1, 2, 3,
    ]);
    expect(epochScale([5], [1])).toBeNull();
    const uneven = epochScale([10, 0, 30, 20], [1, 0, 9, 3])!;
    expect([-10, 0, 5, 10, 15, 20, 25, 40].map(uneven)).toEqual([-1, 0, 0.5, 1, 2, 3, 6, 15]);
  });

  it("leaves out points of unknown time or epoch, but not on the other axes", () => {
    const odd = { ...columns, times: [NaN, 1, NaN, 3] };
    expect(attemptStretches(odd, Infinity, { ...options, axis: "time" })[0]!.xs).toEqual([1, 3]);
    expect(attemptStretches(odd, Infinity, options)[0]!.xs).toEqual([0, 10, 20, 30]);
    const epochOf = epochScale([0, 10], [1.7e308, -1.7e308]);
    expect(attemptStretches(columns, Infinity, { ...options, axis: "epoch", epochOf })).toEqual([]);
  });

  it("gives attempts and runs their looks", () => {
    expect([1, 6, 7].map(attemptColor)).toEqual(["--c1", "--c6", "--c1"]);
    expect(runLook(3)).toEqual({ color: "--c4", dash: [] });
    expect(runLook(4)).toEqual({ color: "--c5", dash: [4, 2] });
    const looks = new Set(Array.from({ length: 12 }, (_, index) => JSON.stringify(runLook(index))));
    expect(looks.size).toBe(12);
  });
});

describe("RedrawScheduler", () => {
  function setup() {
    let now = 0;
    const frames: (() => void)[] = [];
    const scheduler = new RedrawScheduler({ now: () => now, requestFrame: (run) => void frames.push(run) });
    const runFrame = (at: number) => {
      now = at;
      frames.shift()?.();
    };
    return { scheduler, runFrame, frames, advance: (by: number) => (now += by) };
  }

  it("draws once per frame, and at most twenty times a second", () => {
    const { scheduler, runFrame } = setup();
    let drawn = 0;
    const draw = () => void (drawn += 1);
    scheduler.schedule(draw);
    scheduler.schedule(draw);
    runFrame(0);
    expect(drawn).toBe(1);
    scheduler.schedule(draw);
    runFrame(16);
    expect(drawn).toBe(1);
    runFrame(60);
    expect(drawn).toBe(2);
  });

  it("continues in the next frame when a frame takes long", () => {
    const { scheduler, runFrame, advance } = setup();
    const drawn: string[] = [];
    for (const name of ["a", "b"]) {
      scheduler.schedule(() => {
        drawn.push(name);
        advance(40);
      });
    }
    runFrame(0);
    expect(drawn).toEqual(["a"]);
    runFrame(100);
    expect(drawn).toEqual(["a", "b"]);
  });
});

describe("Crosshair", () => {
  it("tells every chart the position, and moves by the chart that was pointed at", () => {
    const crosshair = new Crosshair();
    const seen: (number | null)[] = [];
    crosshair.subscribe((position) => seen.push(position?.x ?? null));
    crosshair.set({ x: 5, source: "a" });
    crosshair.set(null);
    expect(seen).toEqual([5, null]);
    expect(crosshair.step(1)).toBe(false);
    let moved = 0;
    let zoomed = 0;
    crosshair.setKeys({
      step: (direction) => (moved += direction),
      zoom: (direction) => (zoomed += direction),
    });
    expect(crosshair.zoom(1)).toBe(true);
    expect(zoomed).toBe(1);
    expect(crosshair.step(-1)).toBe(true);
    expect(moved).toBe(-1);
  });
});
