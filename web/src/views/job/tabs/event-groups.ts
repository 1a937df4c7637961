/** Fold long runs of saved checkpoints, which would hide the other events. */

import type { JobEvent } from "@/views/job/merge";

export type EventGroup = { kind: "event"; event: JobEvent } | { kind: "run"; events: JobEvent[] };

const MIN_RUN = 4;

/** Group events, newest first: runs of at least four saved checkpoints become one entry. */
export function groupEvents(events: readonly JobEvent[]): EventGroup[] {
  const groups: EventGroup[] = [];
  let run: JobEvent[] = [];
  const endRun = () => {
    if (run.length >= MIN_RUN) groups.push({ kind: "run", events: run });
    else groups.push(...run.map((event) => ({ kind: "event" as const, event })));
    run = [];
  };
  for (const event of events) {
    if (event.type === "CheckpointSaved") run.push(event);
    else {
      endRun();
      groups.push({ kind: "event", event });
    }
  }
  endRun();
  return groups;
}
