/** React access to the tab's connection. */

import { useEffect, useEffectEvent, useRef, useSyncExternalStore } from "react";
import type { ProblemBody } from "@/api/client";
import {
  LiveConnection,
  type ConnectionState,
  type FollowHandlers,
  type JobCursor,
  type LiveMessage,
  type ReportKind,
} from "@/live/connection";

const HIDDEN_PAUSE_MS = 60_000;

function liveUrl(): string {
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  return `${scheme}://${location.host}/api/v1/live`;
}

export const live = new LiveConnection(liveUrl());

/** Keep the connection open while the app is shown. A tab that is hidden for a minute closes it until it is shown. */
export function useLiveConnection(): void {
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const retryIfShown = () => {
      if (!document.hidden) live.retryNow();
    };
    const update = () => {
      clearTimeout(timer);
      if (document.hidden) timer = setTimeout(() => live.pause(), HIDDEN_PAUSE_MS);
      retryIfShown();
    };
    live.connect();
    update(); // a tab that was opened in the background has not been shown yet
    document.addEventListener("visibilitychange", update);
    window.addEventListener("online", retryIfShown);
    return () => {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", update);
      window.removeEventListener("online", retryIfShown);
      live.pause();
    };
  }, []);
}

export function useConnectionState(): ConnectionState {
  return useSyncExternalStore(live.subscribe, () => live.state);
}

/** Call `run` when the connection is back, for what changes without messages or cursors. */
export function useReconnected(run: () => void): void {
  const { state } = useConnectionState();
  const away = useRef(false);
  const handle = useEffectEvent(run);
  useEffect(() => {
    if (state === "lost" || state === "paused") away.current = true;
    if (state !== "live" || !away.current) return;
    away.current = false;
    handle();
  }, [state]);
}

const projectListeners = new Set<FollowHandlers["onMessages"]>();
let stopProject: (() => void) | null = null;

/** Listen to the project. All listeners of the tab share one follow. */
function listenToProject(listener: FollowHandlers["onMessages"]): () => void {
  projectListeners.add(listener);
  stopProject ??= live.followProject({
    onMessages: (messages) => projectListeners.forEach((each) => each(messages)),
  });
  return () => {
    projectListeners.delete(listener);
    if (projectListeners.size === 0) {
      stopProject?.();
      stopProject = null;
    }
  };
}

/** Follow the project while the component is shown. */
export function useProjectMessages(onMessages: FollowHandlers["onMessages"]): void {
  const handle = useEffectEvent(onMessages);
  useEffect(() => listenToProject((messages) => handle(messages)), []);
}

interface JobFollowOptions extends FollowHandlers {
  include: ReportKind[];
  /** Where to start. The follow begins when it is not null, e.g. after the first page was loaded. */
  cursor: Partial<JobCursor> | null;
  /** The machine whose log and telemetry are followed, of a job on several machines. */
  node?: number;
}

/** Follow a job while the component is shown. A changed cursor does not start it again. */
export function useJobMessages(job: string, options: JobFollowOptions): void {
  const ready = options.cursor !== null;
  const kinds = options.include.join(",");
  const onMessages = useEffectEvent(options.onMessages);
  const onEnd = useEffectEvent((status: string) => options.onEnd?.(status));
  const onProblem = useEffectEvent((problem: ProblemBody) => options.onProblem?.(problem));
  const { node = 0 } = options;
  const start = useEffectEvent(() => {
    const handlers = {
      onMessages: (messages: LiveMessage[]) => onMessages(messages),
      onEnd: (status: string) => onEnd(status),
      onProblem: (problem: ProblemBody) => onProblem(problem),
    };
    return live.followJob(job, options.include, options.cursor ?? {}, handlers, node);
  });
  useEffect(() => (ready ? start() : undefined), [job, kinds, ready, node]);
}
