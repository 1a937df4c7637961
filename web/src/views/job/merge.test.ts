import { describe, expect, it } from "vitest";
import { isSameRun, withEvents, withProgress, type JobEvent } from "@/views/job/merge";
import { job } from "@/views/job/samples";

const event = (position: number): JobEvent => ({
  position,
  job_id: "j",
  at: "2026-11-17T07:00:00Z",
  type: "TrainingStarted",
  version: 1,
  data: {},
});

describe("withEvents", () => {
  it("adds each event once, newest first", () => {
    const known = { events: [event(4), event(2)], total: 2, after: 4 };
    const merged = withEvents(known, [event(4), event(7), event(9)]);
    expect(merged.events.map((each) => each.position)).toEqual([9, 7, 4, 2]);
    expect(merged).toMatchObject({ total: 4, after: 9 });
    expect(withEvents(merged, [event(9)])).toBe(merged);
  });
});

describe("withProgress", () => {
  const message = { kind: "progress", attempt: 2, progress: { step: 7 }, telemetry: { cpu: 1 } } as const;

  it("takes the progress of the newest attempt", () => {
    const next = withProgress(job({ attempt: 2 }), message);
    expect(next.progress).toMatchObject({ step: 7, steps: null });
    expect(next.telemetry).toEqual({ cpu: 1 });
  });

  it("ignores older attempts and ended jobs", () => {
    const newer = job({ attempt: 3 });
    expect(withProgress(newer, message)).toBe(newer);
    const ended = job({ attempt: 2, status: "completed" });
    expect(withProgress(ended, message)).toBe(ended);
  });
});

describe("isSameRun", () => {
  const progress = (values: Record<string, number>) =>
    ({ kind: "progress", attempt: 2, progress: values, telemetry: {} }) as const;

  it("is the same while only progress arrives", () => {
    const before = withProgress(job({ attempt: 2 }), progress({ step: 1, steps: 100, epochs: 4 }));
    expect(isSameRun(before, withProgress(before, progress({ step: 2, epoch: 1 })))).toBe(true);
  });

  it.each(["steps", "epochs"])("differs when the script reports the number of %s", (name) => {
    const before = job({ attempt: 2 });
    expect(isSameRun(before, withProgress(before, progress({ [name]: 4 })))).toBe(false);
  });
});
