/** Load the metrics of jobs and follow their live points while a view is shown. */

import { useEffect, useEffectEvent, useMemo, useState, useSyncExternalStore } from "react";
import { api, unwrap } from "@/api/client";
import { MetricsStore, type HistoryRequest, type MetricsLoader } from "@/charts/metrics-store";
import { live, useReconnected } from "@/live/hooks";

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

/** The metrics of one job, and whether they could be loaded. */
export class MetricsFeed {
  readonly store: MetricsStore;
  state: "loading" | "ready" | "failed" = "loading";
  error: unknown = null;
  private unfollow: (() => void) | null = null;
  private stopped = false;

  constructor(
    private readonly job: string,
    private readonly ended: boolean,
    private readonly onChange: () => void,
  ) {
    this.store = new MetricsStore(metricsLoader(job));
    this.store.subscribe("", onChange);
    void this.load();
  }

  stop(): void {
    this.stopped = true;
    this.store.close();
    this.unfollow?.();
  }

  retry(): void {
    this.state = "loading";
    this.onChange();
    void this.load();
  }

  /** Load again what could not be loaded. */
  retryFailed(): void {
    if (this.state === "failed") this.retry();
    this.store.retryFailed();
  }

  private async load(): Promise<void> {
    try {
      const cursor = await this.store.loadOverview();
      this.state = "ready";
      if (!this.ended && !this.stopped) this.follow(cursor);
    } catch (error) {
      this.state = "failed";
      this.error = error;
    }
    this.onChange();
  }

  private follow(cursor: { attempt: number; point: number }): void {
    this.unfollow = live.followJob(this.job, ["metrics"], cursor, {
      onMessages: (messages) =>
        this.store.addMessages(messages.filter((message) => message.kind === "metrics")),
    });
  }
}

export interface FollowedJob {
  id: string;
  ended: boolean;
}

/** The feeds of the jobs of a view. Feeds of jobs that left the view are stopped. */
class FeedGroup {
  private feeds = new Map<string, MetricsFeed>();
  private listeners = new Set<() => void>();
  version = 0;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  get(job: string): MetricsFeed | undefined {
    return this.feeds.get(job);
  }

  setJobs(jobs: readonly FollowedJob[]): void {
    const wanted = new Set(jobs.map((job) => job.id));
    for (const [id, feed] of this.feeds) {
      if (wanted.has(id)) continue;
      feed.stop();
      this.feeds.delete(id);
    }
    for (const { id, ended } of jobs) {
      if (!this.feeds.has(id)) this.feeds.set(id, new MetricsFeed(id, ended, this.notify));
    }
    this.notify();
  }

  retryFailed(): void {
    for (const feed of this.feeds.values()) feed.retryFailed();
  }

  private readonly notify = (): void => {
    this.version += 1;
    for (const listener of this.listeners) listener();
  };
}

/** The feeds of jobs, by id. A job that ends is not loaded again: its stream ends by itself. */
export function useMetricsFeeds(jobs: readonly FollowedJob[]): ReadonlyMap<string, MetricsFeed> {
  const [group] = useState(() => new FeedGroup());
  const version = useSyncExternalStore(group.subscribe, () => group.version);
  const ids = jobs.map((job) => job.id).join(",");
  const update = useEffectEvent(() => group.setJobs(jobs));
  useEffect(() => update(), [ids, group]);
  useEffect(() => () => group.setJobs([]), [group]);
  useReconnected(() => group.retryFailed());
  return useMemo(() => {
    const known = ids.split(",").map((id) => [id, group.get(id)] as const);
    return new Map(known.filter((entry): entry is [string, MetricsFeed] => entry[1] !== undefined));
    // eslint-disable-next-line react-hooks/exhaustive-deps -- the version says when a feed changes
  }, [group, ids, version]);
}

/** The sorted names of a store's metrics. */
export function metricNames(feeds: Iterable<MetricsFeed>): string[] {
  const names = new Set<string>();
  for (const { store } of feeds) for (const name of store.summaries.keys()) names.add(name);
  return [...names].sort();
}
