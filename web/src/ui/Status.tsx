/** The status of a job as icon, colour and word. */

import type { ReactElement } from "react";
import { sentenceCase } from "@/lib/format";

const SHAPES = {
  planning: <circle cx="8" cy="8" r="5.6" strokeDasharray="2.2 2.2" />,
  cancelled: (
    <>
      <circle cx="8" cy="8" r="5.6" />
      <path d="m4.2 11.8 7.6-7.6" />
    </>
  ),
  completed: (
    <>
      <circle cx="8" cy="8" r="6.4" fill="currentColor" stroke="none" />
      <path d="m5.2 8.3 2 2 3.6-4.3" stroke="var(--surface)" />
    </>
  ),
  failed: (
    <>
      <path d="M5.3 1.8h5.4l3.5 3.5v5.4l-3.5 3.5H5.3l-3.5-3.5V5.3z" fill="currentColor" stroke="none" />
      <path d="m5.9 5.9 4.2 4.2M10.1 5.9l-4.2 4.2" stroke="var(--surface)" />
    </>
  ),
  held: (
    <>
      <rect x="2.4" y="2.4" width="11.2" height="11.2" rx="2" />
      <path d="M6.25 5.8v4.4M9.75 5.8v4.4" />
    </>
  ),
  provisioning: (
    <>
      <circle cx="8" cy="8" r="5.6" opacity=".3" />
      <path className="spin" d="M8 2.4a5.6 5.6 0 0 1 5.6 5.6" />
    </>
  ),
  recovering: (
    <>
      <path d="M13.2 8.7a5.3 5.3 0 1 1-1.4-4.4M13.3 1.9v3.2h-3.2" />
    </>
  ),
  saving: (
    <>
      <circle cx="8" cy="8" r="5.6" />
      <path d="M8 5v5M5.9 8.1 8 10.2l2.1-2.1" />
    </>
  ),
  training: (
    <>
      <circle cx="8" cy="8" r="5.6" />
      <circle className="beat" cx="8" cy="8" r="2.4" fill="currentColor" stroke="none" />
    </>
  ),
  waiting: (
    <>
      <circle cx="8" cy="8" r="5.6" strokeDasharray="2.2 2.2" />
      <path d="M8 5.25V8l1.75 1.25" />
    </>
  ),
} satisfies Record<string, ReactElement>;

export type StatusTone = "run" | "done" | "fail" | "rec" | "held" | "idle";

interface StatusLook {
  shape: keyof typeof SHAPES;
  tone: StatusTone;
}

const LOOKS: Record<string, StatusLook> = {
  planning: { shape: "planning", tone: "idle" },
  waiting: { shape: "waiting", tone: "idle" },
  queued: { shape: "waiting", tone: "idle" },
  provisioning: { shape: "provisioning", tone: "run" },
  preparing: { shape: "provisioning", tone: "run" },
  training: { shape: "training", tone: "run" },
  running: { shape: "training", tone: "run" },
  checkpointing: { shape: "saving", tone: "run" },
  finishing: { shape: "saving", tone: "run" },
  recovering: { shape: "recovering", tone: "rec" },
  held: { shape: "held", tone: "held" },
  completed: { shape: "completed", tone: "done" },
  failed: { shape: "failed", tone: "fail" },
  cancelled: { shape: "cancelled", tone: "idle" },
  cancelling: { shape: "cancelled", tone: "idle" },
};

const UNKNOWN: StatusLook = { shape: "planning", tone: "idle" };

interface JobState {
  status: string;
  phase: string;
}

/** The phase of an active job, the status of an ended one. */
export function statusWord({ status, phase }: JobState): string {
  return isEnded(status) || phase === "" ? status : phase;
}

export function isEnded(status: string): boolean {
  return status === "completed" || status === "failed" || status === "cancelled";
}

export function statusTone(state: JobState): StatusTone {
  return (LOOKS[statusWord(state)] ?? UNKNOWN).tone;
}

export function StatusIcon(state: JobState) {
  const look = LOOKS[statusWord(state)] ?? UNKNOWN;
  return (
    <svg className={`si ${look.tone}`} viewBox="0 0 16 16" aria-hidden="true">
      {SHAPES[look.shape]}
    </svg>
  );
}

/** Icon and word; `pill` adds the background for headers. */
export function Status({ pill = false, ...state }: JobState & { pill?: boolean }) {
  return (
    <span className={pill ? `st pill ${statusTone(state)}` : "st"}>
      <StatusIcon {...state} />
      {sentenceCase(statusWord(state))}
    </span>
  );
}
