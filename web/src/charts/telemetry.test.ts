import { describe, expect, it } from "vitest";
import { addSample, joinAttempts, machineRows, plotPaths, shortGpuName } from "@/charts/telemetry";

const series = (name: string, unit: string, points: [number, number][], limit: number | null = null) => ({
  name,
  unit,
  points,
  limit,
  label: name.startsWith("gpu") ? "NVIDIA A10" : "",
});

const history = {
  attempts: [
    { attempt: 1, series: [series("cpu.utilisation", "fraction", [[10, 0.5]])] },
    {
      attempt: 2,
      series: [
        series("cpu.utilisation", "fraction", [[30, 0.25]]),
        series("gpu0.utilisation", "fraction", [[30, 0.9]]),
        series("gpu1.utilisation", "fraction", [[30, 0.7]]),
        series("gpu0.memory_used", "bytes", [[30, 2 ** 30]], 24 * 2 ** 30),
        series("network.sent", "bytes_per_s", [
          [30, 1024],
          [31, 4096],
        ]),
      ],
    },
  ],
};

describe("machineRows", () => {
  it("joins attempts with a gap, and GPUs as lines of one row", () => {
    const rows = machineRows(joinAttempts(history));
    expect(rows.map((row) => [row.title, row.note, row.value.replaceAll("\u00a0", " ")])).toEqual([
      ["GPU", "2 × A10", "80 %"],
      ["GPU memory", "of 24\u00a0GiB", "1 GiB"],
      ["CPU", "all cores", "25 %"],
      ["Network", "out", "4 KiB/s"],
    ]);
    expect(rows[0]!.lines).toHaveLength(2);
    expect(rows[2]!.lines[0]).toEqual([
      [10, 0.5],
      [30, null],
      [30, 0.25],
    ]);
    expect(rows[3]!.top).toBe(4096);
  });

  it("has no rows without measurements", () => {
    expect(machineRows(joinAttempts({ attempts: [] }))).toEqual([]);
    expect(shortGpuName("NVIDIA GeForce RTX 4090")).toBe("RTX 4090");
  });
});

describe("plotPaths", () => {
  it("interrupts the path at gaps and stays inside the box", () => {
    const line = [
      [0, 0],
      [5, 2],
      [6, null],
      [10, 1],
    ] as const;
    expect(plotPaths(line, { from: 0, to: 10, top: 1, width: 100, height: 20 })).toEqual([
      "M0.0 20.0L50.0 0.0",
      "M100.0 0.0",
    ]);
  });
});

describe("gaps", () => {
  const cpu = (times: number[]) => ({
    attempts: [
      {
        attempt: 1,
        series: [
          series(
            "cpu.utilisation",
            "fraction",
            times.map((time) => [time, 0.5]),
          ),
        ],
      },
    ],
  });
  const gapsOf = (map: ReadonlyMap<string, { points: readonly (readonly [number, number | null])[] }>) =>
    map.get("cpu.utilisation")!.points.flatMap(([time, value]) => (value === null ? [time] : []));

  it("are where nothing was measured for much longer than usual", () => {
    expect(gapsOf(joinAttempts(cpu([0, 10, 20, 30, 330, 340])))).toEqual([330]);
    expect(gapsOf(joinAttempts(cpu([0, 10, 20, 70, 80])))).toEqual([]);
    expect(gapsOf(joinAttempts(cpu([0, 360, 700, 1500, 1600])))).toEqual([]);
  });

  it("separate live samples from a history that ended long before", () => {
    const history = joinAttempts(cpu([0, 10, 20, 30]));
    const soon = addSample(history, { at: 50, cpu: 1 });
    expect(gapsOf(soon)).toEqual([]);
    expect(gapsOf(addSample(soon, { at: 500, cpu: 1 }))).toEqual([500]);
  });
});

describe("addSample", () => {
  it("adds newer values once and ignores what it cannot read", () => {
    const start = joinAttempts(history);
    const sample = {
      at: 40,
      cpu: 0.75,
      memory: { used: 5, total: 10 },
      gpus: [{ use: "much" }, null],
      net: 3,
    };
    const next = addSample(addSample(start, sample), sample);
    expect(next.get("cpu.utilisation")!.points.at(-1)).toEqual([40, 0.75]);
    expect(next.get("cpu.utilisation")!.points).toHaveLength(4);
    expect(addSample(next, sample)).toBe(next);
    expect(next.get("memory.used")).toMatchObject({ limit: 10, points: [[40, 5]] });
    expect(addSample(start, { at: "now", cpu: 1 })).toBe(start);
  });
});
