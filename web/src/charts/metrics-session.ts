/** Load the metrics of jobs and follow their live points while a view is shown. */

import { useEffect, useMemo, useState, useSyncExternalStore } from "react";
import { api, unwrap } from "@/api/client";
import { MetricsStore, type HistoryRequest, type MetricsLoader } from "@/charts/metrics-store";
import { live } from "@/live/hooks";

function metricsLoader(job: string): MetricsLoader {
  const path = { ref: job };
  return {
    overview: () => unwrap(api.GET("/api/v1/training/{ref}/metrics/summary", { params: { path } })),
    history: ({ names, points, range }: HistoryRequest) => {
      const query = { name: names, points, from_step: range?.from, to_step: range?.to };
      return unwrap(api.GET("/api/v1/training/{ref}/metrics/history", { params: { path, query } }));
    },
  };
}

export interface MetricsSession {
  store: MetricsStore;
  /** Why the metrics could not be loaded. */
  error: unknown;
  loaded: boolean;
  retry: () => void;
}

/** Follow the metrics of a job. `ended` jobs are only loaded. */
export function useMetricsSession(job: string, ended: boolean): MetricsSession {
  const store = useMemo(() => new MetricsStore(metricsLoader(job)), [job]);
  const [tries, setTries] = useState(0);
  const [outcome, setOutcome] = useState<{ store: MetricsStore; error: unknown } | null>(null);
  useEffect(() => {
    let stopped = false;
    let unfollow: (() => void) | undefined;
    const start = async () => {
      try {
        const cursor = await store.loadOverview();
        if (stopped) return;
        setOutcome({ store, error: null });
        if (!ended) unfollow = followMetrics(job, store, cursor);
      } catch (error) {
        if (!stopped) setOutcome({ store, error });
      }
    };
    void start();
    return () => {
      stopped = true;
      unfollow?.();
    };
  }, [store, job, ended, tries]);
  const current = outcome?.store === store ? outcome : null;
  return {
    store,
    error: current?.error ?? null,
    loaded: current !== null && current.error === null,
    retry: () => setTries(tries + 1),
  };
}

function followMetrics(
  job: string,
  store: MetricsStore,
  cursor: { attempt: number; point: number },
): () => void {
  return live.followJob(job, ["metrics"], cursor, {
    onMessages: (messages) => store.addMessages(messages.filter((message) => message.kind === "metrics")),
  });
}

/** The names of a store's metrics, sorted. Changes when metrics are added. */
export function useMetricNames(store: MetricsStore): string[] {
  const version = useSyncExternalStore(
    (listener) => store.subscribe("", listener),
    () => store.namesVersion,
  );
  // eslint-disable-next-line react-hooks/exhaustive-deps -- the version says when the names change
  return useMemo(() => [...store.summaries.keys()].sort(), [store, version]);
}
