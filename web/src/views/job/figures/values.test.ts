import { describe, expect, it } from "vitest";
import type { Schemas } from "@/api/client";
import { costFigure, pace, progressParts, remainingTime } from "@/views/job/figures/values";
import { attempt, job, START } from "@/views/job/samples";

const at = (seconds: number) => new Date(START + seconds * 1000).toISOString();
const prediction = {
  wall_s: 1000,
  wall_low_s: 800,
  wall_high_s: 1500,
  cost_microusd: 900,
  cost_low_microusd: 500,
  cost_high_microusd: 2000,
  basis: "history",
  confidence: "medium",
};

describe("remainingTime", () => {
  it("is the predicted time without what has passed since the first launch", () => {
    const running = job({ attempts: [attempt()], prediction });
    expect(remainingTime(running, START + 300_000)).toEqual({ seconds: 700, low: 500, high: 1200 });
    expect(remainingTime(running, START + 2000_000)).toEqual({ seconds: 0, low: 0, high: 0 });
    expect(remainingTime({ ...running, status: "failed" }, START)).toBeNull();
    expect(remainingTime({ ...running, phase: "held" }, START)).toBeNull();
    expect(remainingTime({ ...running, prediction: null }, START)).toBeNull();
  });
});

describe("costFigure", () => {
  it("never expects less than was spent", () => {
    const running = job({ attempts: [attempt()], prediction, cost_microusd: 700 });
    expect(costFigure(running).expected).toEqual({ value: 900, low: 700, high: 2000 });
  });

  it("has the price of a held machine, and expects nothing of a script that has ended", () => {
    const place = { price_microusd_per_hour: 430 } as Schemas["JobDetails"]["place"];
    const held = job({ attempts: [attempt()], prediction, phase: "held", place });
    expect(costFigure(held)).toMatchObject({ expected: null, hourly: 430 });
  });

  it("is drawn against the budget, or else against the highest expected cost", () => {
    const running = job({ attempts: [attempt()], prediction, cost_microusd: 700 });
    expect(costFigure(running).scale).toBe(2000);
    expect(costFigure({ ...running, max_cost_microusd: 5000 }).scale).toBe(5000);
    expect(costFigure({ ...running, status: "completed" })).toMatchObject({ expected: null, hourly: 0 });
  });
});

describe("progressParts", () => {
  const trained = (number: number) => attempt({ number, training_at: at(0) });
  const progress = { fraction: 0.8, step: null, steps: null, epoch: null, epochs: null, message: null };

  it("cuts the bar where the machine changed and skips attempts that never trained", () => {
    const attempts = [trained(1), attempt({ number: 2 }), trained(3)];
    expect(progressParts(job({ attempts, progress, attempt_marks: [0.5] }))).toEqual([
      { from: 0, to: 0.5, attempt: 1 },
      { from: 0.5, to: 0.8, attempt: 3 },
    ]);
  });

  it("gives the work of an attempt that lost everything to the next one", () => {
    const steps = { ...progress, step: 80, steps: 100 };
    const attempts = [trained(1), { ...trained(2), resume_step: 50 }, trained(3)];
    expect(progressParts(job({ attempts, progress: steps, attempt_marks: [0.5] }))).toEqual([
      { from: 0, to: 0.8, attempt: 3 },
    ]);
  });

  it("shows no part of an attempt that has just resumed", () => {
    const attempts = [trained(1), { ...trained(2), resume_step: 80 }];
    expect(progressParts(job({ attempts, progress, attempt_marks: [0.8] }))).toEqual([
      { from: 0, to: 0.8, attempt: 1 },
    ]);
  });
});

describe("pace", () => {
  const progress = { fraction: null, step: 150, steps: 400, epoch: null, epochs: null, message: null };

  it("counts from the checkpoint that the attempt started with", () => {
    const resumed = attempt({ training_at: at(0), resume_step: 50 });
    expect(pace(job({ attempts: [resumed], progress }), START + 10_000)).toBe(10);
    expect(pace(job({ attempts: [attempt()], progress }), START + 10_000)).toBeNull();
  });
});
