import { describe, expect, it } from "vitest";
import type { Schemas } from "@/api/client";
import { attempt, job, START } from "@/views/job/samples";
import { lossOf } from "@/views/job/timeline/LaneRow";
import { buildJoins, buildTicks, buildTimeline, mainLanes, secondsBetween } from "@/views/job/timeline/model";

const at = (seconds: number) => new Date(START + seconds * 1000).toISOString();
const first = attempt({
  number: 1,
  launching_at: at(0),
  training_at: at(60),
  ended_at: at(1000),
  end_kind: "interrupted",
  work_lost_s: 100,
  checkpoints: [{ step: 1, saved_at: at(900) }],
});
const second = attempt({ number: 2, launching_at: at(1000), training_at: at(1200), resume_step: 1 });

describe("buildTimeline", () => {
  it("shows what an interruption lost and how the job continued", () => {
    const timeline = buildTimeline(job({ attempts: [first, second] }), null, START + 2000_000);
    const [one, two] = timeline.lanes;
    const span = 2000 * 1.04;
    expect(one!.training!.from).toBeCloseTo(60 / span);
    expect(one!.lost!.from).toBeCloseTo(900 / span);
    expect(one!.checkpoints[0]).toBeCloseTo(900 / span);
    expect(one!.note).toMatchObject({ side: "right" });
    expect(two!.training!.to).toBeCloseTo(2000 / span);
    expect(two!.note).toBeNull();
    const joins = buildJoins(timeline.lanes);
    expect(joins).toHaveLength(1);
    expect(joins[0]!.to).toBeCloseTo(1200 / span);
    expect(timeline.now).toBeCloseTo(2000 / span);
  });

  it("shows the expected end with its interval", () => {
    const now = START + 2000_000;
    const remaining = { seconds: 1000, low: 800, high: 2000 };
    const { lanes } = buildTimeline(job({ attempts: [first, second] }), remaining, now);
    const span = 4000 * 1.2;
    expect(lanes[0]!.expected).toBeNull();
    expect(lanes[1]!.expected).toMatchObject({ at: now + 1000_000 });
    expect(lanes[1]!.expected!.high).toBeCloseTo(4000 / span);
  });

  it("places a better machine after the move, and up to its earlier end", () => {
    const now = START + 2000_000;
    const remaining = { seconds: 1000, low: 800, high: 2000 };
    const span = 4000 * 1.2;
    const better = (sooner_s: number) => ({ sooner_s }) as NonNullable<Schemas["JobDetails"]["better"]>;
    const build = (fields: Parameters<typeof job>[0]) =>
      buildTimeline(job({ attempts: [first, second], ...fields }), remaining, now).better;
    const sooner = build({ better: better(400) })!;
    expect(sooner.from).toBeCloseTo(2180 / span);
    expect(sooner.to).toBeCloseTo(2600 / span);
    expect(sooner.at).toBe(now + 600_000);
    expect(build({ better: better(-500) })!.to).toBeCloseTo(3500 / span);
    const tooSoon = build({ better: better(5000) })!;
    expect([tooSoon.from, tooSoon.to]).toEqual([2000 / span, 2000 / span]);
    expect(build({ better: null })).toBeNull();
    expect(build({ better: better(400), ended_at: at(2000), status: "completed" })).toBeNull();
    expect(buildTimeline(job({ attempts: [second], better: better(400) }), null, now).better).toBeNull();
  });

  it("ends with an ended job", () => {
    const ended = job({ attempts: [{ ...first, end_kind: "failed" }], status: "failed", ended_at: at(1000) });
    const timeline = buildTimeline(ended, null, START + 9000_000);
    expect(timeline.now).toBeNull();
    expect(timeline.lanes[0]!.training!.to).toBeCloseTo(1 / 1.04);
  });

  it("has an empty axis before the first attempt", () => {
    const timeline = buildTimeline(job({ attempts: [] }), null, START);
    expect(timeline.lanes).toEqual([]);
    expect(timeline.now).toBe(0);
  });
});

describe("mainLanes", () => {
  it("leaves out attempts that never trained, and joins the others", () => {
    const waits = Array.from({ length: 10 }, (_, index) =>
      attempt({ number: index + 2, launching_at: at(1000), training_at: null, ended_at: at(1001) }),
    );
    const last = { ...second, number: 12 };
    const { lanes } = buildTimeline(job({ attempts: [first, ...waits, last] }), null, START + 2000_000);
    const shown = mainLanes(lanes);
    expect(shown.map((lane) => lane.attempt.number)).toEqual([1, 12]);
    expect(buildJoins(shown)).toHaveLength(1);
  });
});

describe("buildTicks", () => {
  it("chooses round steps for any span", () => {
    for (const hours of [0.003, 0.1, 1, 9, 30, 500, 20_000]) {
      const ticks = buildTicks(START, hours * 3600_000);
      expect(ticks.length).toBeGreaterThan(1);
      expect(ticks.length).toBeLessThanOrEqual(9);
      expect(ticks.every((tick) => tick.at >= 0 && tick.at <= 1)).toBe(true);
    }
  });
});

describe("secondsBetween", () => {
  it("counts from the end of a machine to the training on the next", () => {
    expect(secondsBetween([first, second], null)).toBe(200);
    const refused = attempt({ number: 2, launching_at: at(1000), ended_at: at(1010) });
    const third = attempt({ number: 3, launching_at: at(1010), training_at: at(1300) });
    expect(secondsBetween([first, refused, third], null)).toBe(300);
    expect(secondsBetween([first], null)).toBe(0);
    expect(secondsBetween([first], START + 1400_000)).toBe(400);
  });
});

describe("lossOf", () => {
  it("says the lost work as time and money", () => {
    expect(lossOf(attempt({ work_lost_s: 960, work_lost_microusd: 120_000 }))).toBe("16\u00a0m, $0.12");
    expect(lossOf(attempt({ work_lost_s: 960 }))).toBe("16\u00a0m");
  });
});
