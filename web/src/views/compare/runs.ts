/** The runs that are compared: from the URL to their details, looks and figures. */

import { useQueries } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo } from "react";
import { api, unwrap, type Schemas } from "@/api/client";
import { runLook } from "@/charts/lines";
import { shortId } from "@/lib/format";
import { isEnded } from "@/ui/Status";
import { flattenSettings } from "@/views/compare/settings";

export const MAX_RUNS = 40;
/** More lines than this are drawn only on request. */
export const MAX_LINES = 12;
const REFRESH_MS = 5000;

export function parseRunIds(value: unknown): string[] {
  const texts = Array.isArray(value) ? value.map(String) : String(value ?? "").split(",");
  return [...new Set(texts.map((text) => text.trim()).filter(Boolean))].slice(0, MAX_RUNS);
}

export interface Run {
  id: string;
  job: Schemas["JobDetails"];
  label: string;
  color: string;
  dash: readonly number[];
  settings: Record<string, string>;
  /** Seconds from the launch of the first machine to the end, or until now. */
  wallS: number;
}

/** The wanted runs, and functions that add and remove runs in the URL. */
export function useRunIds(): [string[], (ids: readonly string[]) => void] {
  const search: Record<string, unknown> = useSearch({ strict: false });
  const navigate = useNavigate();
  const ids = useMemo(() => parseRunIds(search.jobs), [search.jobs]);
  const setIds = (next: readonly string[]) =>
    void navigate({
      to: ".",
      search: (before: Record<string, unknown>) => ({ ...before, jobs: next.join(",") || undefined }),
      replace: true,
      resetScroll: false,
    });
  return [ids, setIds];
}

export interface LoadedRuns {
  runs: Run[];
  loading: boolean;
  /** Runs that could not be loaded. */
  failed: { id: string; error: unknown }[];
}

export function useRuns(ids: readonly string[]): LoadedRuns {
  return useQueries({
    queries: ids.map((id) => ({
      queryKey: ["compare-run", id],
      queryFn: () => unwrap(api.GET("/api/v1/training/{ref}", { params: { path: { ref: id } } })),
      refetchInterval: ({ state }: { state: { data?: Schemas["JobDetails"] } }) =>
        state.data !== undefined && isEnded(state.data.status) ? false : REFRESH_MS,
    })),
    combine: (results) => ({
      runs: toRuns(results.flatMap((result) => (result.data === undefined ? [] : [result.data]))),
      loading: results.some((result) => result.isPending),
      failed: results.flatMap((result, index) =>
        result.error === null || result.data !== undefined ? [] : [{ id: ids[index]!, error: result.error }],
      ),
    }),
  });
}

function toRuns(jobs: readonly Schemas["JobDetails"][]): Run[] {
  const names = jobs.map((job) => job.name);
  return jobs.map((job, index) => ({
    id: job.id,
    job,
    label: runLabel(job, names),
    ...runLook(index),
    settings: flattenSettings(job.spec),
    wallS: wallSeconds(job),
  }));
}

/** The name of a run; with its id when another run has the same name. */
function runLabel(job: Schemas["JobDetails"], names: readonly string[]): string {
  if (job.name === "") return shortId(job.id);
  const unique = names.filter((name) => name === job.name).length === 1;
  return unique ? job.name : `${job.name} ${shortId(job.id)}`;
}

function wallSeconds({ attempts, ended_at }: Schemas["JobDetails"]): number {
  const [first] = attempts;
  if (first === undefined) return 0;
  const end = ended_at === null ? Date.now() : Date.parse(ended_at);
  return Math.max(0, (end - Date.parse(first.launching_at)) / 1000);
}
