/** The first draft of the page: the one kept in the browser, that of a cloned job, or an empty one. */

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, unwrap } from "@/api/client";
import { showError } from "@/app/toasts";
import { draftOfJob } from "@/views/new/clone";
import { emptyDraft, type Draft, type Mapping } from "@/views/new/draft";
import { draftKey, forgetDraft, loadDraft } from "@/views/new/draft-storage";

/** A draft as it was opened. */
export interface OpenedDraft {
  draft: Draft;
  /** When the user changed the draft that the browser kept, in milliseconds; null: no draft was kept. */
  changedAt: number | null;
}

interface LoadedDraft {
  opened: OpenedDraft | null;
  /** Identifies what was opened. */
  version: number;
  error: Error | null;
  retry: () => void;
  /** Read the cloned job again, and forget the changes that the browser kept. */
  restart: () => void;
}

export function useDraft(from: string | undefined): LoadedDraft {
  const client = useQueryClient();
  const key = draftKey(from);
  const queryKey = ["draft", key];
  const query = useQuery({
    queryKey,
    staleTime: Infinity,
    gcTime: 0,
    refetchOnWindowFocus: false,
    queryFn: async (): Promise<OpenedDraft> => loadDraft(key) ?? (await readDraft(from)),
  });
  const restart = useMutation({
    mutationFn: () => readDraft(from),
    onSuccess: (opened) => {
      forgetDraft(key);
      client.setQueryData(queryKey, opened);
    },
    onError: (error) => showError("The job could not be loaded", error),
  });
  return {
    opened: query.data ?? null,
    version: query.dataUpdatedAt,
    error: query.error,
    retry: () => void query.refetch(),
    restart: () => restart.mutate(),
  };
}

async function readDraft(from: string | undefined): Promise<OpenedDraft> {
  if (from === undefined) return { draft: emptyDraft(), changedAt: null };
  const params = { path: { ref: from } };
  const [job, code] = await Promise.all([
    unwrap(api.GET("/api/v1/training/{ref}", { params })),
    unwrap(api.GET("/api/v1/training/{ref}/code/texts", { params })),
  ]);
  return { draft: draftOfJob(job.spec as Mapping, code.stored ? code : null), changedAt: null };
}
