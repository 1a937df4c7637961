/** The plan of a draft, made anew while the user types. The newest answer wins, and the old one stays meanwhile. */

import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";
import { api, asProblem, unwrap, type ApiProblem } from "@/api/client";
import type { Draft, DraftFile } from "@/views/new/draft";
import { scriptOf } from "@/views/new/draft";
import type { Plan } from "@/views/new/offers";
import { isRunnable, planSpec } from "@/views/new/spec";

const DEBOUNCE_MS = 220;
const MAX_CHARACTERS = 600_000;
const MAX_FILES = 200;
const SHOWN_OFFERS = 24;
const READABLE = /(\.py|\.ya?ml|\.json|\.toml|requirements\.txt)$/;

export interface PlanState {
  plan: Plan | null;
  /** A newer plan is on its way. */
  updating: boolean;
  /** The plan belongs to the draft as it is now. */
  current: boolean;
  problem: ApiProblem | null;
}

export function usePlan(draft: Draft, providers: readonly string[]): PlanState {
  const request = useMemo(() => planRequest(draft, providers), [draft, providers]);
  const settled = useDebounced(request);
  const query = useQuery({
    queryKey: ["plan", settled],
    enabled: settled !== null,
    gcTime: 2_000,
    staleTime: 30_000,
    refetchOnWindowFocus: false,
    placeholderData: keepPreviousData,
    queryFn: ({ signal }) => askPlan(settled ?? "", signal),
  });
  const plan = settled === null || query.data === undefined ? null : query.data;
  return {
    plan,
    updating: request !== settled || query.isFetching,
    current: request === settled && !query.isPlaceholderData && query.data !== undefined,
    problem: settled === null || query.error === null ? null : asProblem(query.error),
  };
}

/** The body and query of a plan request as text; null if there is nothing to plan. */
export function planRequest(draft: Draft, providers: readonly string[]): string | null {
  if (!isRunnable(draft)) return null;
  return JSON.stringify({ spec: planSpec(draft), files: codeFiles(draft), providers });
}

async function askPlan(request: string, signal: AbortSignal): Promise<Plan> {
  const { spec, files, providers } = JSON.parse(request) as {
    spec: Record<string, unknown>;
    files: Record<string, string>;
    providers: string[];
  };
  const query = {
    limit: SHOWN_OFFERS,
    outside: true,
    ...(providers.length > 0 ? { backend: providers } : {}),
  };
  return await unwrap(api.POST("/api/v1/plan", { params: { query }, body: { spec, files }, signal }));
}

/** The text of the script and of the files that it may import or read, within the limits of a request. */
export function codeFiles(draft: Draft): Record<string, string> {
  const script = scriptOf(draft);
  const depth = (file: DraftFile) => (file.path === script ? -1 : file.path.split("/").length);
  const readable = draft.files
    .filter((file) => file.text !== null && READABLE.test(file.path))
    .sort((one, other) => depth(one) - depth(other))
    .slice(0, MAX_FILES);
  let left = MAX_CHARACTERS;
  const kept: Record<string, string> = {};
  for (const { path, text } of readable) {
    if (text !== null && text.length <= left) {
      kept[path] = text;
      left -= text.length;
    }
  }
  return kept;
}

function useDebounced(value: string | null): string | null {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), DEBOUNCE_MS);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}
