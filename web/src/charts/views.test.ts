import { describe, expect, it } from "vitest";
import { chartSearch, formatZoom, parseChartView, parseZoom } from "@/charts/chart-view";
import { currentPoint, neighbourPosition, pointsAt, stepsBetween } from "@/charts/hover";
import type { ChartLine } from "@/charts/lines";
import { defaultPins, epochMetric, groupMetrics, searchMetrics, shownPins } from "@/charts/metric-groups";
import { MAX_PINS, replacePins } from "@/charts/pins";
import { layoutPlot, type PlotModel } from "@/charts/plot-layout";
import { factorForCount } from "@/charts/smoothing";

function line(id: string, xs: number[], redone = false): ChartLine {
  const values = xs.map((x) => x / 10);
  const stretch = { xs, values, smoothed: values, steps: xs, times: xs, redone };
  return { id, label: id, color: "--c1", dash: [], stretches: [stretch] };
}

describe("chart view in the URL", () => {
  it("reads what it writes, and leaves defaults out", () => {
    const view = {
      group: "train",
      find: "loss",
      smoothing: 0.25,
      axis: "time" as const,
      logScale: true,
      zoom: [10, 20.5] as const,
      hidden: new Set(["1", "3"]),
      chart: "train/loss",
      pins: ["train/loss", "lr, scaled"],
    };
    expect(parseChartView(chartSearch(view))).toEqual(view);
    const defaults = parseChartView({});
    expect(Object.values(chartSearch(defaults)).every((value) => value === undefined)).toBe(true);
  });

  it("ignores nonsense", () => {
    const view = parseChartView({ smooth: "much", axis: "sideways", zoom: "5~1", hide: {}, group: null });
    expect(view).toMatchObject({ smoothing: 0.6, axis: "step", zoom: null, group: "pinned" });
    expect(view.hidden.size).toBe(0);
    expect(["1", "1~", "a~b", "1~2~3", "2~2"].map((text) => parseZoom(text))).toEqual([
      null,
      null,
      null,
      null,
      null,
    ]);
  });

  it("writes as many digits as the range needs", () => {
    expect(formatZoom(1000.123, 2000.456)).toBe("1000~2000");
    expect(formatZoom(0.12345678, 0.2)).toBe("0.12346~0.2");
    expect(formatZoom(1763000000.4321, 1763000020)).toBe("1763000000.43~1763000020");
  });
});

describe("metric groups", () => {
  const names = ["train/loss", "train/lr", "val/top1", "weights/layer2", "throughput"];

  it("groups by prefix", () => {
    expect(groupMetrics(["loss", ...names]).map((group) => [group.name, group.metrics.length])).toEqual([
      ["train", 2],
      ["val", 1],
      ["weights", 1],
      ["other", 2],
    ]);
  });

  it("finds all words", () => {
    expect(searchMetrics(names, "TRAIN l")).toEqual(["train/loss", "train/lr"]);
    expect(searchMetrics(names, "  ")).toEqual(names);
  });

  it("shows pinned metrics, or losses and results first", () => {
    const many = [...Array.from({ length: 50 }, (_, layer) => `weights/layer${layer}`), ...names];
    expect(defaultPins(many).slice(0, 4)).toEqual(["val/top1", "train/loss", "train/lr", "throughput"]);
    expect(shownPins(names, ["val/top1", "gone"])).toEqual(["val/top1"]);
    expect(new Set(shownPins(names, ["gone"]))).toEqual(new Set(names));
    expect(epochMetric(["train/epoch", "loss"])).toBe("train/epoch");
    expect(epochMetric(["epochs"])).toBeNull();
  });

  it("keeps the pins of other jobs", () => {
    const old = ["reward", "train/loss", "val/map"];
    expect(replacePins(old, names, ["train/loss", "val/top1"])).toEqual([
      "reward",
      "val/map",
      "train/loss",
      "val/top1",
    ]);
    expect(replacePins(old, names, [])).toEqual(["reward", "val/map"]);
    const many = Array.from({ length: MAX_PINS }, (_, number) => `metric${number}`);
    expect(replacePins(many, names, ["val/top1"])).toEqual([...many.slice(1), "val/top1"]);
  });
});

describe("hover", () => {
  const first = line("1", [0, 10, 20, 30]);
  const second = line("2", [25, 35, 45]);

  it("names the newest attempt that has points there", () => {
    expect(currentPoint(pointsAt([first, second], 12, 5))).toMatchObject({ x: 10, line: { id: "1" } });
    expect(currentPoint(pointsAt([first, second], 28, 5))).toMatchObject({ x: 25, line: { id: "2" } });
    expect(currentPoint(pointsAt([first, second], 48, 5))).toMatchObject({ x: 45 });
    expect(pointsAt([first, second], 90, 5)).toEqual([]);
    expect(currentPoint(pointsAt([first, line("2", [25, 35], true)], 28, 5))).toMatchObject({
      line: { id: "1" },
    });
    expect(currentPoint([])).toBeNull();
  });

  it("moves by one point of any line", () => {
    expect(neighbourPosition([first, second], 20, 1)).toBe(25);
    expect(neighbourPosition([first, second], 25, -1)).toBe(20);
    expect(neighbourPosition([first, second], 45, 1)).toBe(45);
    expect(neighbourPosition([first, second], null, -1)).toBe(45);
    expect(neighbourPosition([], null, 1)).toBeNull();
  });

  it("finds the steps of a range, with a point more on each side", () => {
    expect(stepsBetween([first], 8, 22)).toEqual({ from: 0, to: 30 });
    expect(stepsBetween([first], 100, 200)).toBeNull();
  });
});

describe("layoutPlot", () => {
  const model: PlotModel = {
    lines: [line("1", [0, 10, 20])],
    axis: "step",
    logScale: false,
    smoothing: true,
    showAll: false,
    zoom: null,
    changes: [],
    overlaid: false,
  };

  it("draws the reported values behind the smoothed ones", () => {
    const layout = layoutPlot(model, 400);
    expect(layout.strokes.map(({ width, alpha }) => [width, alpha])).toEqual([
      [1, 0.28],
      [1.6, 1],
    ]);
    expect(layout).toMatchObject({ xRange: [0, 20], yRange: [0, 2], points: 3, clipped: false });
  });

  it("marks NaN and infinities, and leaves a gap", () => {
    const odd = line("1", [0, 10, 20]);
    odd.stretches[0]!.values = [1, NaN, Infinity];
    const layout = layoutPlot({ ...model, smoothing: false, lines: [odd] }, 400);
    expect(layout.marks.map((mark) => mark.x)).toEqual([10, 20]);
    expect(layout.table[1]).toEqual([1, null, null]);
  });

  it("uses the zoomed part for the vertical range", () => {
    const layout = layoutPlot({ ...model, zoom: [9, 11] }, 400);
    expect(layout.xRange).toEqual([9, 11]);
    expect(layout.yRange[0]).toBeGreaterThan(0.5);
    expect(layoutPlot({ ...model, lines: [] }, 400)).toMatchObject({ xRange: [0, 1], yRange: [0, 1] });
  });

  it("leaves out what a logarithmic scale cannot show", () => {
    const layout = layoutPlot({ ...model, smoothing: false, logScale: true }, 400);
    expect(layout.table[1]).toEqual([null, 1, 2]);
    expect(layout.yRange).toEqual([1, 2]);
  });
});

describe("factorForCount", () => {
  it("smooths long series more and short ones less", () => {
    expect(factorForCount(0.6, 300)).toBeCloseTo(0.6);
    expect(factorForCount(0.6, 3000)).toBeGreaterThan(0.9);
    expect(factorForCount(0.6, 30)).toBeLessThan(0.01);
    expect(factorForCount(0, 30)).toBe(0);
  });
});
