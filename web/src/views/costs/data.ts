/** Data of the Costs view. */

import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { api, unwrap } from "@/api/client";
import { TIMEZONE } from "@/lib/time";
import type { CostTable } from "@/views/costs/days";
import type { Grouping } from "@/views/costs/search";

const REFRESH_MS = 30_000;
const SHOWN_GROUPS = 12;
const JUDGED_JOBS = 30;

export function useCostSummary(month: string) {
  return useQuery({
    queryKey: ["costs", "summary", month],
    queryFn: () =>
      unwrap(
        api.GET("/api/v1/costs/summary", {
          params: { query: { month: month || undefined, timezone: TIMEZONE } },
        }),
      ),
    refetchInterval: REFRESH_MS,
    placeholderData: keepPreviousData,
  });
}

export function useCostTable(by: Grouping, first: string, last: string) {
  return useQuery({
    queryKey: ["costs", "table", by, first, last],
    queryFn: async () => {
      const query = { by, from: first, to: last, daily: true, limit: SHOWN_GROUPS, timezone: TIMEZONE };
      const table = await unwrap(api.GET("/api/v1/costs", { params: { query } }));
      return table as CostTable; // a text only for CSV, which is not requested
    },
    refetchInterval: REFRESH_MS,
    placeholderData: keepPreviousData,
  });
}

/** The address of the CSV file with the same sums. */
export function csvAddress(by: Grouping, first: string, last: string): string {
  const query = new URLSearchParams({ by, from: first, to: last, timezone: TIMEZONE, format: "csv" });
  return `/api/v1/costs?${query}`;
}

export function useNewestJob(enabled: boolean) {
  return useQuery({
    queryKey: ["costs", "newest job"],
    queryFn: () => unwrap(api.GET("/api/v1/training", { params: { query: { limit: 1 } } })),
    enabled,
  });
}

export function useProviders(job: string) {
  return useQuery({
    queryKey: ["costs", "providers", job],
    queryFn: () => unwrap(api.POST("/api/v1/costs/compare", { body: { job, spec: null, files: null } })),
    enabled: job !== "",
    staleTime: REFRESH_MS,
    placeholderData: keepPreviousData,
  });
}

export function useJudgedJobs() {
  return useQuery({
    queryKey: ["costs", "judged jobs"],
    queryFn: () => unwrap(api.GET("/api/v1/accuracy/jobs", { params: { query: { limit: JUDGED_JOBS } } })),
  });
}
