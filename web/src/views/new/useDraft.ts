/** The first draft of the page: the one kept in the browser, that of a cloned job, or an empty one. */

import { useQuery } from "@tanstack/react-query";
import { api, unwrap } from "@/api/client";
import { draftOfJob } from "@/views/new/clone";
import { draftKey, emptyDraft, loadDraft, type Draft, type Mapping } from "@/views/new/draft";

export interface LoadedDraft {
  draft: Draft | null;
  error: Error | null;
  retry: () => void;
}

export function useDraft(from: string | undefined): LoadedDraft {
  const query = useQuery({
    queryKey: ["draft", draftKey(from)],
    staleTime: Infinity,
    gcTime: 0,
    refetchOnWindowFocus: false,
    queryFn: () => openDraft(from),
  });
  return { draft: query.data ?? null, error: query.error, retry: () => void query.refetch() };
}

async function openDraft(from: string | undefined): Promise<Draft> {
  const kept = loadDraft(draftKey(from));
  if (kept !== null) return kept;
  if (from === undefined) return emptyDraft();
  const params = { path: { ref: from } };
  const [job, code] = await Promise.all([
    unwrap(api.GET("/api/v1/training/{ref}", { params })),
    unwrap(api.GET("/api/v1/training/{ref}/code/texts", { params })),
  ]);
  return draftOfJob(job.spec as Mapping, code.stored ? code : null);
}
