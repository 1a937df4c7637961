/**
 * One WebSocket for the whole tab. Views follow the project or single jobs; each follow has a cursor.
 *
 * After a lost connection, all follows are sent again with their newest cursors, so that no message is missed or
 * repeated. A hidden tab keeps the connection for a while and then closes it; it connects again when it is shown.
 */

import type { ProblemBody, Schemas } from "@/api/client";

export interface JobCursor {
  after: number;
  attempt: number;
  log: number;
  point: number;
}

export type ReportKind = "events" | "logs" | "metrics" | "progress";

export interface JobProgressMessage {
  kind: "progress";
  attempt: number;
  progress: Partial<Schemas["JobProgress"]>;
  telemetry: Record<string, unknown>;
}

export type LiveMessage =
  | { kind: "position"; after: number }
  | { kind: "event"; after: number; event: Schemas["JobEvent"] }
  | { kind: "summary"; job: Schemas["JobSummary"] }
  | { kind: "log"; attempt: number; start: number; log: number; data: string }
  | { kind: "metrics"; attempt: number; point: number; points: [string, number, number, number | string][] }
  | JobProgressMessage
  | { kind: "ping" };

export interface FollowHandlers {
  onMessages: (messages: LiveMessage[]) => void;
  /** The job has ended and everything was delivered. */
  onEnd?: (status: string) => void;
  onProblem?: (problem: ProblemBody) => void;
}

interface Follow {
  id: string;
  target: { project: true } | { job: string; include: ReportKind[] };
  cursor: JobCursor;
  startsNow: boolean;
  handlers: FollowHandlers;
  finished: boolean;
}

export type ConnectionState =
  | { state: "connecting" }
  | { state: "live" }
  | { state: "lost"; since: number; nextTryAt: number; signedOut: boolean }
  | { state: "paused" };

/** The parts of the environment that tests replace. */
export interface ConnectionEnvironment {
  open: (url: string) => WebSocket;
  now: () => number;
  setTimer: (run: () => void, delayMs: number) => number;
  clearTimer: (timer: number) => void;
  random: () => number;
}

const browser: ConnectionEnvironment = {
  open: (url) => new WebSocket(url),
  now: () => Date.now(),
  setTimer: (run, delayMs) => window.setTimeout(run, delayMs),
  clearTimer: (timer) => window.clearTimeout(timer),
  random: () => Math.random(),
};

const FIRST_DELAY_MS = 250;
const MAX_DELAY_MS = 10_000;
/** The server sends a ping after 15 s of silence; a laptop that slept has an open socket without any. */
const SILENCE_MS = 40_000;
const POLICY_VIOLATION = 1008;

/** Milliseconds before the next try: doubling from 250 ms to 10 s, each varied by up to a fifth. */
export function retryDelay(failures: number, random: number): number {
  const base = Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** Math.max(0, failures - 1));
  return base * (0.8 + 0.4 * random);
}

/** Return the cursor after a message. Positions never go back. */
export function advance(cursor: JobCursor, message: LiveMessage): JobCursor {
  switch (message.kind) {
    case "position":
    case "event":
      return { ...cursor, after: Math.max(cursor.after, message.after) };
    case "log":
      return message.attempt === cursor.attempt
        ? { ...cursor, log: message.log }
        : { ...cursor, attempt: message.attempt, log: message.log, point: 0 };
    case "metrics":
      return message.attempt === cursor.attempt
        ? { ...cursor, point: message.point }
        : { ...cursor, attempt: message.attempt, log: 0, point: message.point };
    default:
      return cursor;
  }
}

export class LiveConnection {
  private socket: WebSocket | null = null;
  private follows = new Map<string, Follow>();
  private listeners = new Set<() => void>();
  private counter = 0;
  private failures = 0;
  private timer: number | null = null;
  private silenceTimer: number | null = null;
  private lostSince: number | null = null;
  private current: ConnectionState = { state: "connecting" };

  constructor(
    private readonly url: string,
    private readonly environment: ConnectionEnvironment = browser,
  ) {}

  get state(): ConnectionState {
    return this.current;
  }

  /** Call `listener` whenever the connection state changes. Returns a function that stops it. */
  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  /** Follow the events and job summaries of the project, starting now. Returns a function that stops it. */
  followProject(handlers: FollowHandlers): () => void {
    return this.add({ project: true }, { after: 0, attempt: 0, log: 0, point: 0 }, true, handlers);
  }

  /** Follow one job after a cursor. Returns a function that stops it. */
  followJob(
    job: string,
    include: ReportKind[],
    cursor: Partial<JobCursor>,
    handlers: FollowHandlers,
  ): () => void {
    const start = { after: 0, attempt: 0, log: 0, point: 0, ...cursor };
    return this.add({ job, include }, start, false, handlers);
  }

  connect(): void {
    if (this.socket !== null) return;
    this.clearTimers();
    if (this.current.state !== "lost") this.setState({ state: "connecting" });
    const socket = this.environment.open(this.url);
    this.socket = socket;
    socket.onopen = () => this.handleOpen(socket);
    socket.onmessage = (event) => this.handleText(socket, String(event.data));
    socket.onclose = (event) => this.handleClose(socket, event.code);
  }

  /** Close the connection until `connect` is called, e.g. for a hidden tab. */
  pause(): void {
    const socket = this.socket;
    this.socket = null;
    this.clearTimers();
    this.lostSince = null;
    this.failures = 0;
    socket?.close();
    this.setState({ state: "paused" });
  }

  /** Try at once instead of waiting for the next try. */
  retryNow = (): void => {
    if (this.socket === null) this.connect();
  };

  private add(
    target: Follow["target"],
    cursor: JobCursor,
    startsNow: boolean,
    handlers: FollowHandlers,
  ): () => void {
    this.counter += 1;
    const follow: Follow = { id: `f${this.counter}`, target, cursor, startsNow, handlers, finished: false };
    this.follows.set(follow.id, follow);
    if (this.current.state === "live") this.sendFollow(follow);
    return () => {
      if (this.follows.delete(follow.id) && !follow.finished) this.send({ op: "unfollow", id: follow.id });
    };
  }

  private sendFollow(follow: Follow): void {
    const { after, attempt, log, point } = follow.cursor;
    if ("project" in follow.target) {
      this.send({ op: "follow", id: follow.id, project: true, after: follow.startsNow ? "now" : after });
    } else {
      const { job, include } = follow.target;
      this.send({ op: "follow", id: follow.id, job, include, after, attempt, log, point });
    }
  }

  private send(message: object): void {
    if (this.current.state === "live") this.socket?.send(JSON.stringify(message));
  }

  private handleOpen(socket: WebSocket): void {
    if (socket !== this.socket) return;
    this.failures = 0;
    this.lostSince = null;
    this.setState({ state: "live" });
    this.watchSilence();
    for (const follow of this.follows.values()) if (!follow.finished) this.sendFollow(follow);
  }

  private handleText(socket: WebSocket, text: string): void {
    if (socket !== this.socket) return;
    this.watchSilence();
    const message = JSON.parse(text) as {
      id?: string;
      messages?: LiveMessage[];
      end?: { status: string };
      problem?: ProblemBody;
    };
    const follow = message.id === undefined ? undefined : this.follows.get(message.id);
    if (follow === undefined) return;
    if (message.messages !== undefined) this.deliver(follow, message.messages);
    if (message.end !== undefined) {
      follow.finished = true;
      follow.handlers.onEnd?.(message.end.status);
    }
    if (message.problem !== undefined) {
      follow.finished = true;
      follow.handlers.onProblem?.(message.problem);
    }
  }

  private deliver(follow: Follow, messages: LiveMessage[]): void {
    for (const message of messages) {
      follow.cursor = advance(follow.cursor, message);
      if (message.kind === "position") follow.startsNow = false;
    }
    follow.handlers.onMessages(messages);
  }

  private handleClose(socket: WebSocket, code: number): void {
    if (socket !== this.socket) return;
    this.socket = null;
    this.clearTimers();
    this.failures += 1;
    this.lostSince ??= this.environment.now();
    const delay = retryDelay(this.failures, this.environment.random());
    const nextTryAt = this.environment.now() + delay;
    this.setState({ state: "lost", since: this.lostSince, nextTryAt, signedOut: code === POLICY_VIOLATION });
    this.timer = this.environment.setTimer(() => this.connect(), delay);
  }

  private watchSilence(): void {
    if (this.silenceTimer !== null) this.environment.clearTimer(this.silenceTimer);
    this.silenceTimer = this.environment.setTimer(() => {
      const socket = this.socket;
      socket?.close();
      if (socket !== null) this.handleClose(socket, 0);
    }, SILENCE_MS);
  }

  private clearTimers(): void {
    if (this.timer !== null) this.environment.clearTimer(this.timer);
    if (this.silenceTimer !== null) this.environment.clearTimer(this.silenceTimer);
    this.timer = this.silenceTimer = null;
  }

  private setState(state: ConnectionState): void {
    this.current = state;
    for (const listener of this.listeners) listener();
  }
}
