/** The lints of the newest plan that belongs to the code as it is. Older ones stay until then: the editor moves them. */

import { useState } from "react";
import type { Lint } from "@/views/new/fixes";
import type { PlanState } from "@/views/new/usePlan";

const NONE: readonly Lint[] = [];

export function useLints({ plan, current }: PlanState): readonly Lint[] {
  const [lints, setLints] = useState(NONE);
  const next = current && plan !== null ? plan.lints : plan === null ? NONE : lints;
  if (next !== lints) setLints(next);
  return next;
}
