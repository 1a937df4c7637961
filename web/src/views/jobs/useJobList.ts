/** The rows and counts of the list for the filters in the URL. */

import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect, useSyncExternalStore } from "react";
import { api, unwrap } from "@/api/client";
import { useProjectMessages } from "@/live/hooks";
import { useRefreshOnMessages } from "@/live/refresh";
import { apiFilters, matchEvents, STATUSES, type JobFilters, type ListedStatus } from "@/views/jobs/search";
import { JobListStore, type FetchPage, type GroupName, type JobListSnapshot } from "@/views/jobs/store";

const PAGE_SIZE = 100;
const KEPT_LISTS = 4;
const COUNT_EVERY_MS = 2000;

/** Lists that were shown before, so that going back shows them at once. */
const lists = new Map<string, JobListStore>();

function findList(statuses: readonly ListedStatus[], filters: JobFilters): JobListStore {
  const key = JSON.stringify([statuses, filters]);
  const known = lists.get(key);
  if (known !== undefined) return known;
  const wanted: Record<GroupName, ListedStatus[]> = { active: [], finished: [] };
  for (const each of statuses.length === 0 ? STATUSES : statuses)
    wanted[each === "active" ? "active" : "finished"].push(each);
  const groups = (["active", "finished"] as const).filter((group) => wanted[group].length > 0);
  const fetchPage: FetchPage = (group, cursor) => {
    const query = {
      ...apiFilters(filters, Date.now()),
      status: wanted[group],
      limit: PAGE_SIZE,
      ...(cursor === null ? {} : { cursor }),
    };
    return unwrap(api.GET("/api/v1/training", { params: { query } }));
  };
  const made = new JobListStore(groups, fetchPage, matchEvents(filters));
  lists.set(key, made);
  for (const oldest of [...lists.keys()].slice(0, Math.max(0, lists.size - KEPT_LISTS))) lists.delete(oldest);
  return made;
}

export interface JobListAccess {
  store: JobListStore;
  snapshot: JobListSnapshot;
}

export function useJobList(statuses: readonly ListedStatus[], filters: JobFilters): JobListAccess {
  const store = findList(statuses, filters);
  const snapshot = useSyncExternalStore(store.subscribe, store.getSnapshot);
  useEffect(() => void store.start(), [store]);
  useProjectMessages((messages) => store.receive(messages));
  return { store, snapshot };
}

/** The number of jobs by status, counted again when jobs start or end. */
export function useJobCounts(filters: JobFilters) {
  useRefreshOnMessages(["job-counts"], ({ kind }) => kind === "event" || kind === "position", COUNT_EVERY_MS);
  return useQuery({
    queryKey: ["job-counts", filters],
    queryFn: () =>
      unwrap(api.GET("/api/v1/training/counts", { params: { query: apiFilters(filters, Date.now()) } })),
    placeholderData: keepPreviousData,
  });
}
