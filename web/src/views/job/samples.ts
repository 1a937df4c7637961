/** Jobs and attempts for unit tests. */

import type { Schemas } from "@/api/client";

export const START = Date.parse("2026-11-17T07:00:00Z");

export function attempt(fields: Partial<Schemas["AttemptDetails"]> = {}): Schemas["AttemptDetails"] {
  return {
    number: 1,
    name: "anygpu-1",
    backend: "aws",
    offer: "g5.xlarge",
    region: "us-east-2",
    zone: "us-east-2a",
    gpu: "A10G",
    gpus: 1,
    own: false,
    interruptible: true,
    price_microusd_per_hour: 430_000,
    cost_microusd: 1_650_000,
    metered_microusd: null,
    phase: "training",
    outcome: null,
    exit_code: null,
    signal: null,
    message: "",
    launching_at: new Date(START).toISOString(),
    started_at: null,
    training_at: null,
    ended_at: null,
    released_at: null,
    held_until: null,
    end_kind: null,
    end_text: "",
    notice: null,
    work_lost_s: 0,
    work_lost_microusd: 0,
    restart_lost_s: 0,
    restart_lost_microusd: 0,
    checkpoints_saved: 0,
    checkpoints: [],
    resume_step: null,
    resume_state: null,
    nodes: [],
    processes_per_node: 1,
    ...fields,
  };
}

export function job(fields: Partial<Schemas["JobDetails"]> = {}): Schemas["JobDetails"] {
  const base: Partial<Schemas["JobDetails"]> = {
    id: "0198f3c2-7a10-7c3e-9d2b-5b1f6f0c1a2e",
    name: "resnet50",
    status: "running",
    phase: "training",
    reason: "",
    submitted_at: new Date(START).toISOString(),
    updated_at: new Date(START).toISOString(),
    ended_at: null,
    person: "ada",
    tags: [],
    progress: { fraction: null, step: null, steps: null, epoch: null, epochs: null, message: null },
    attempts: [],
    attempt_marks: [],
    max_cost_microusd: null,
    cost_microusd: 0,
    place: null,
    prediction: null,
    better: null,
    failure: null,
    spec: {},
  };
  return { ...base, ...fields } as Schemas["JobDetails"];
}
