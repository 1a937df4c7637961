/** What can be done with a job in its state. */

import { isEnded } from "@/ui/Status";
import type { Job } from "@/views/job/merge";

export interface PossibleActions {
  cancel: boolean;
  migrate: boolean;
  start: boolean;
  release: boolean;
  resume: boolean;
  remove: boolean;
}

/** The actions that the server would accept for a job in this state. */
export function possibleActions(job: Job): PossibleActions {
  const ended = isEnded(job.status);
  const newest = job.attempts.at(-1);
  const hasMachine = newest !== undefined && newest.ended_at === null;
  return {
    cancel: !ended && !job.cancel_requested,
    migrate: !ended && !job.cancel_requested && hasMachine,
    start: !ended && !hasMachine && !job.cancel_requested && !job.start_requested && job.phase !== "held",
    release: newest !== undefined && newest.held_until !== null,
    resume: ended && job.checkpoint !== null,
    remove: ended,
  };
}
