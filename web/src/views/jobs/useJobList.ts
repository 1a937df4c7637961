/** The rows and counts of the list for the filters in the URL. */

import { keepPreviousData, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useSyncExternalStore } from "react";
import { api, unwrap } from "@/api/client";
import { useProjectMessages } from "@/live/hooks";
import { apiFilters, type JobFilters, type StatusTab } from "@/views/jobs/search";
import { JobListStore, type GroupName, type JobListSnapshot } from "@/views/jobs/store";

const PAGE_SIZE = 100;
const KEPT_LISTS = 4;
const COUNT_EVERY_MS = 2000;

/** Lists that were shown before, so that going back shows them at once. */
const lists = new Map<string, JobListStore>();

function findList(status: StatusTab, filters: JobFilters): JobListStore {
  const key = JSON.stringify([status, filters]);
  const known = lists.get(key);
  if (known !== undefined) return known;
  const groups: GroupName[] =
    status === "all" ? ["active", "finished"] : status === "active" ? ["active"] : ["finished"];
  const made = new JobListStore(groups, (group, cursor) => {
    const finished = status === "all" ? ["completed", "failed", "cancelled"] : [status];
    const query = {
      ...apiFilters(filters, Date.now()),
      status: group === "active" ? ["active"] : finished,
      limit: PAGE_SIZE,
      ...(cursor === null ? {} : { cursor }),
    };
    return unwrap(api.GET("/api/v1/training", { params: { query } }));
  });
  lists.set(key, made);
  for (const oldest of [...lists.keys()].slice(0, Math.max(0, lists.size - KEPT_LISTS))) lists.delete(oldest);
  return made;
}

export interface JobListAccess {
  store: JobListStore;
  snapshot: JobListSnapshot;
}

export function useJobList(status: StatusTab, filters: JobFilters): JobListAccess {
  const store = findList(status, filters);
  const snapshot = useSyncExternalStore(store.subscribe, store.getSnapshot);
  useEffect(() => void store.start(), [store]);
  useProjectMessages((messages) => store.receive(messages));
  return { store, snapshot };
}

/** The number of jobs by status, counted again when jobs start or end. */
export function useJobCounts(filters: JobFilters) {
  const client = useQueryClient();
  const timer = useRef<ReturnType<typeof setTimeout> | null>(null);
  useProjectMessages((messages) => {
    if (
      timer.current !== null ||
      !messages.some((each) => each.kind === "event" || each.kind === "position")
    ) {
      return;
    }
    timer.current = setTimeout(() => {
      timer.current = null;
      void client.invalidateQueries({ queryKey: ["job-counts"] });
    }, COUNT_EVERY_MS);
  });
  useEffect(() => () => clearTimeout(timer.current ?? undefined), []);
  return useQuery({
    queryKey: ["job-counts", filters],
    queryFn: () =>
      unwrap(api.GET("/api/v1/training/counts", { params: { query: apiFilters(filters, Date.now()) } })),
    placeholderData: keepPreviousData,
  });
}
