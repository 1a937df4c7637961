import type { Schemas } from "@/api/client";
import type { Job } from "@/views/job/merge";

type Offer = Schemas["OfferIdentity"];

/** What happened to the job at an offer of its plan, e.g. "attempt 1, taken back without notice". */
export function placeHistory(job: Job, offer: Offer): string {
  return job.attempts
    .filter(
      (attempt) =>
        attempt.backend === offer.backend &&
        attempt.offer === offer.name &&
        attempt.region === offer.region &&
        attempt.zone === offer.zone &&
        attempt.interruptible === offer.interruptible,
    )
    .map((attempt) => `attempt ${attempt.number}, ${attempt.end_text || "runs there"}`)
    .join("; ");
}
