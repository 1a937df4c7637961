import { describe, expect, it } from "vitest";
import { possibleActions } from "@/views/job/possible";
import { attempt, job } from "@/views/job/samples";

const ended = "2026-11-17T08:00:00Z";

describe("possibleActions", () => {
  it("offers to cancel and migrate a running job", () => {
    const possible = possibleActions(job({ attempts: [attempt()] }));
    expect(possible).toMatchObject({
      cancel: true,
      migrate: true,
      start: false,
      resume: false,
      remove: false,
    });
  });

  it("offers to start a waiting job", () => {
    const waiting = job({ status: "queued", phase: "waiting", start_requested: false });
    expect(possibleActions(waiting)).toMatchObject({ start: true, migrate: false });
    expect(possibleActions({ ...waiting, start_requested: true }).start).toBe(false);
  });

  it("offers to resume an ended job that has a checkpoint", () => {
    const failed = job({ status: "failed", ended_at: ended, attempts: [attempt({ ended_at: ended })] });
    expect(possibleActions({ ...failed, checkpoint: null }).resume).toBe(false);
    const saved = { step: 4, saved_at: ended };
    expect(possibleActions({ ...failed, checkpoint: saved })).toMatchObject({ resume: true, remove: true });
  });

  it("offers to release a held machine", () => {
    const held = attempt({ ended_at: ended, held_until: ended });
    expect(possibleActions(job({ phase: "held", attempts: [held] }))).toMatchObject({
      release: true,
      start: false,
    });
  });

  it("offers nothing twice to a job that is being cancelled", () => {
    const cancelling = job({ cancel_requested: true, attempts: [attempt()] });
    expect(possibleActions(cancelling)).toMatchObject({ cancel: false, migrate: false });
  });
});
