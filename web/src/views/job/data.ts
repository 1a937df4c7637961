/** The data of the job page: read once, then kept current by the tab's connection. */

import { useQuery, useQueryClient, type QueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { api, asProblem, unwrap } from "@/api/client";
import type { JobProgressMessage, LiveMessage } from "@/live/connection";
import { useJobMessages, useReconnected } from "@/live/hooks";
import { isEnded } from "@/ui/Status";
import { withEvents, withProgress, type EventLog, type Job, type JobEvent } from "@/views/job/merge";

const REFRESH_MS = 10_000;
const EVENT_REFRESH_MS = 250;
const EVENT_PAGE = 200;
const NEWEST = Number.MAX_SAFE_INTEGER;

export const jobKey = (ref: string) => ["job", ref] as const;
const eventsKey = (id: string) => ["job-events", id] as const;
export const checkpointsKey = (id: string) => ["job-checkpoints", id] as const;
export const artifactsKey = (id: string) => ["job-artifacts", id] as const;
export const planKey = (id: string) => ["job-plan", id] as const;

function path(ref: string) {
  return { params: { path: { ref } } };
}

/** Read a job again while it runs, because its cost and its prediction change without an event. */
export function useJob(ref: string) {
  return useQuery({
    queryKey: jobKey(ref),
    queryFn: () => unwrap(api.GET("/api/v1/training/{ref}", path(ref))),
    refetchInterval: (query) => {
      const job = query.state.data;
      return job === undefined || isEnded(job.status) ? false : REFRESH_MS;
    },
    retry: (count, error) => count < 2 && asProblem(error).body.retryable === true,
  });
}

async function readEvents(id: string, before: number): Promise<EventLog> {
  const query = { before, limit: EVENT_PAGE };
  const page = await unwrap(
    api.GET("/api/v1/training/{ref}/events", { params: { path: { ref: id }, query } }),
  );
  return { events: page.events.toReversed(), total: page.total ?? 0, after: page.next_after };
}

/** Events of a job, newest first, and a function that reads earlier ones. */
export function useEvents(id: string) {
  const client = useQueryClient();
  const query = useQuery({
    queryKey: eventsKey(id),
    queryFn: () => readEvents(id, NEWEST),
    staleTime: Infinity,
    refetchOnWindowFocus: false,
  });
  const [loadingEarlier, setLoadingEarlier] = useState(false);
  const loadEarlier = async () => {
    const oldest = query.data?.events.at(-1);
    if (oldest === undefined) return;
    setLoadingEarlier(true);
    try {
      const page = await readEvents(id, oldest.position);
      client.setQueryData<EventLog>(eventsKey(id), (known) =>
        known === undefined ? known : { ...known, events: [...known.events, ...page.events] },
      );
    } finally {
      setLoadingEarlier(false);
    }
  };
  return { ...query, loadEarlier, loadingEarlier };
}

/** Keep the job, its events and its files current while the page is shown. */
export function useLiveJob(job: Job, ref: string): void {
  const client = useQueryClient();
  const events = useQuery<EventLog>({
    queryKey: eventsKey(job.id),
    queryFn: () => readEvents(job.id, NEWEST),
    staleTime: Infinity,
    refetchOnWindowFocus: false,
  }).data;
  const refresh = useThrottled(() => void client.invalidateQueries({ queryKey: jobKey(ref) }));
  const latest = useRef<JobProgressMessage | null>(null);
  const flush = useThrottled(() => {
    const message = latest.current;
    if (message !== null)
      client.setQueryData<Job>(jobKey(ref), (known) => known && withProgress(known, message));
  });
  const showProgress = (message: JobProgressMessage) => {
    latest.current = message;
    flush();
  };
  const newest = events?.events[0];
  const isStale = newest !== undefined && newest.at > job.updated_at;
  useEffect(() => {
    if (isStale) refresh();
  }, [isStale, refresh]);
  useJobMessages(job.id, {
    include: ["events", "progress"],
    cursor: events === undefined ? null : { after: events.after, attempt: job.attempt },
    onMessages: (messages) => apply(client, job.id, messages, refresh, showProgress),
    onEnd: refresh,
    onProblem: refresh,
  });
  // Its cost and progress went on meanwhile.
  useReconnected(refresh);
}

function apply(
  client: QueryClient,
  id: string,
  messages: readonly LiveMessage[],
  refresh: () => void,
  showProgress: (message: JobProgressMessage) => void,
): void {
  const arrived = messages.flatMap((message) => (message.kind === "event" ? [message.event] : []));
  if (arrived.length > 0) {
    client.setQueryData<EventLog>(eventsKey(id), (known) => known && withEvents(known, arrived));
    invalidateFiles(client, id, arrived);
    refresh();
  }
  const progress = messages.findLast((message) => message.kind === "progress");
  if (progress?.kind === "progress") showProgress(progress);
}

const FILE_EVENTS: Record<string, (id: string) => readonly string[]> = {
  CheckpointSaved: checkpointsKey,
  CheckpointRejected: checkpointsKey,
  AttemptLaunching: checkpointsKey,
  ArtifactSaved: artifactsKey,
  JobPlanned: planKey,
};

function invalidateFiles(client: QueryClient, id: string, arrived: readonly JobEvent[]): void {
  const types = new Set(arrived.map((event) => event.type));
  for (const [type, key] of Object.entries(FILE_EVENTS)) {
    if (types.has(type)) void client.invalidateQueries({ queryKey: key(id) });
  }
}

/** A function that runs `run` soon, and at most four times a second. */
function useThrottled(run: () => void): () => void {
  const latest = useRef(run);
  const timer = useRef<ReturnType<typeof setTimeout> | null>(null);
  useEffect(() => {
    latest.current = run;
  });
  useEffect(() => () => clearTimeout(timer.current ?? undefined), []);
  const [throttled] = useState(() => () => {
    if (timer.current !== null) return;
    timer.current = setTimeout(() => {
      timer.current = null;
      latest.current();
    }, EVENT_REFRESH_MS);
  });
  return throttled;
}
