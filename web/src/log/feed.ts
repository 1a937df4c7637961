/** Reads the log of a job: the tail first, then pages on request and new lines from the tab's connection. */

import { api, asProblem, unwrap } from "@/api/client";
import { isTemporary, type LiveMessage } from "@/live/connection";
import { live } from "@/live/hooks";
import { decodeBase64 } from "@/log/lines";
import { LogStore, PAGE_LINES, type LinesAnswer } from "@/log/store";

const MAX_REQUESTS = 2;
const RETRY_MS = 2000;

/** The log that a feed reads: of an attempt, or of the newest (null), on one of its machines. */
export interface LogSource {
  job: string;
  attempt: number | null;
  node: number;
}

async function readLines({ job, attempt, node }: LogSource, from: number): Promise<LinesAnswer> {
  const query = { attempt: attempt ?? undefined, node: node || undefined, from, count: PAGE_LINES };
  return unwrap(api.GET("/api/v1/training/{ref}/logs/lines", { params: { path: { ref: job }, query } }));
}

export class LogFeed {
  store: LogStore | null = null;
  error: unknown = null;
  complete = false;
  /** No new output arrives, because the server does not serve this log, or did not answer when it was read again. */
  stopped = false;
  private listeners = new Set<() => void>();
  private changes = 0;
  private requests = new Set<number>();
  private wanted: [number, number] = [0, -1];
  private retryAt = 0;
  private reload: ReturnType<typeof setTimeout> | undefined;
  private unfollow: (() => void) | null = null;
  private active = false;

  /** @param source with the number of an attempt, or null for the newest, whatever that becomes */
  constructor(readonly source: LogSource) {}

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  /** Changes with every change; for `useSyncExternalStore`. */
  snapshot = (): number => this.changes;

  /** Start reading. Returns a function that stops it. */
  start = (): (() => void) => {
    this.active = true;
    void this.load();
    return () => {
      this.active = false;
      clearTimeout(this.reload);
      this.unfollow?.();
      this.unfollow = null;
    };
  };

  /** Read the newest lines and follow the log from there. After a temporary problem, try again by itself. */
  load = async (): Promise<void> => {
    clearTimeout(this.reload);
    this.unfollow?.();
    this.unfollow = null;
    try {
      const answer = await readLines(this.source, -PAGE_LINES);
      if (!this.active) return;
      const store = new LogStore(answer.attempt);
      const offset = store.start(answer);
      this.store = store;
      this.error = null;
      this.complete = answer.complete;
      this.stopped = false;
      if (this.source.attempt === null || !answer.complete) this.follow(answer.attempt, offset);
    } catch (error) {
      if (!this.active) return;
      this.error = error;
      this.stopped = true;
      if (isTemporary(asProblem(error).body)) {
        clearTimeout(this.reload);
        this.reload = setTimeout(() => void this.load(), RETRY_MS);
      }
    }
    this.notify();
  };

  /** Ask for the lines that are shown. Only the newest wish is fulfilled. */
  want(first: number, last: number): void {
    this.wanted = [first, last];
    this.request();
  }

  private request(): void {
    const store = this.store;
    if (store === null || !this.active || Date.now() < this.retryAt) return;
    for (const start of store.missing(...this.wanted)) {
      if (this.requests.size >= MAX_REQUESTS) return;
      if (!this.requests.has(start)) void this.readPage(store, start);
    }
  }

  private async readPage(store: LogStore, start: number): Promise<void> {
    this.requests.add(start);
    try {
      const answer = await readLines({ ...this.source, attempt: store.attempt }, start);
      if (this.store === store) store.take(answer, start);
    } catch {
      this.retryAt = Date.now() + RETRY_MS;
      setTimeout(() => this.request(), RETRY_MS);
    } finally {
      this.requests.delete(start);
    }
    this.notify();
    this.request();
  }

  private follow(attempt: number, log: number): void {
    this.unfollow?.(); // of another load that ended just before
    const cursor = { attempt: Math.max(1, attempt), log };
    const handlers = {
      onMessages: (messages: LiveMessage[]) => this.takeMessages(messages),
      onEnd: () => this.finish({ complete: true }),
      onProblem: () => this.finish({ stopped: true }),
    };
    this.unfollow = live.followJob(this.source.job, ["logs"], cursor, handlers, this.source.node);
  }

  private finish(how: { complete: true } | { stopped: true }): void {
    Object.assign(this, how);
    this.notify();
  }

  private takeMessages(messages: LiveMessage[]): void {
    for (const message of messages) {
      if (message.kind !== "log") continue;
      if (!this.enterAttempt(message.attempt)) continue;
      if (this.store!.add(message.start, decodeBase64(message.data), Date.now()) === "gap") {
        void this.load();
        return;
      }
    }
    this.notify();
  }

  /** Show the next attempt when its first output arrives. Returns whether the shown attempt is this one. */
  private enterAttempt(attempt: number): boolean {
    if (attempt === this.store?.attempt) return true;
    if (this.source.attempt !== null || attempt < (this.store?.attempt ?? 0)) return false;
    this.store = new LogStore(attempt);
    this.store.start(EMPTY);
    this.complete = false;
    return true;
  }

  private notify(): void {
    if (!this.active) return;
    this.changes += 1;
    for (const listener of this.listeners) listener();
  }
}

const EMPTY: LinesAnswer = {
  attempt: 0,
  total_lines: 0,
  total_bytes: 0,
  unfinished_from: 0,
  complete: false,
  lines: [],
};
