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
  node?: number;
  progress: Partial<Schemas["JobProgress"]>;
  telemetry: Record<string, unknown>;
}

export type LiveMessage =
  | { kind: "position"; after: number }
  | { kind: "event"; after: number; event: Schemas["JobEvent"] }
  | { kind: "summary"; job: Schemas["JobSummary"] }
  | { kind: "log"; attempt: number; node?: number; start: number; log: number; data: string }
  | { kind: "metrics"; attempt: number; point: number; points: [string, number, number, number | string][] }
  | JobProgressMessage
  | { kind: "ping" };

export interface FollowHandlers {
  onMessages: (messages: LiveMessage[]) => void;
  /** The job has ended and everything was delivered. */
  onEnd?: (status: string) => void;
  /** The follow has stopped for good. After a temporary problem it continues by itself. */
  onProblem?: (problem: ProblemBody) => void;
}

interface Follow {
  id: string;
  target: { project: true } | { job: string; include: ReportKind[]; node: number };
  cursor: JobCursor;
  startsNow: boolean;
  handlers: FollowHandlers;
  finished: boolean;
  /** What stopped the follow, and how often in a row. */
  problem: ProblemBody | null;
  failures: number;
  timer: number | null;
}

/** A follow that the server could not serve. */
export interface Trouble {
  problem: ProblemBody;
  /** Whether the follow is tried again by itself. */
  retrying: boolean;
}

export type ConnectionState =
  | { state: "connecting" }
  | { state: "live"; trouble: Trouble | null }
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
const PING_DUE_MS = 17_000;
const SILENCE_MS = 40_000;
const SILENCE_CHECK_MS = 10_000;
/** A follow works if no problem came for this time after it was sent. */
const SETTLED_MS = 5000;
/** A follow that fails once is tried again without a word. */
const SHOWN_FAILURES = 2;
/** After a longer absence, the views read again what they show instead of getting every event. */
const MAX_REPLAY = 2000;
const POLICY_VIOLATION = 1008;
/** The `readyState` of a socket that can send. */
const OPEN = 1;

/** Milliseconds before the next try: doubling from 250 ms to 10 s, each varied by up to a fifth. */
export function retryDelay(failures: number, random: number): number {
  const base = Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** Math.max(0, failures - 1));
  return base * (0.8 + 0.4 * random);
}

/** Whether the same follow may succeed later. An internal error may come from a race, so it is tried again too. */
export function isTemporary(problem: ProblemBody): boolean {
  return problem.retryable === true || problem.code === "internal";
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
  /** When the server was last heard, or the connection was begun. */
  private heardAt = 0;
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

  /**
   * Follow one job after a cursor. Returns a function that stops it.
   *
   * @param node the machine whose log and telemetry are followed, of a job on several machines
   */
  followJob(
    job: string,
    include: ReportKind[],
    cursor: Partial<JobCursor>,
    handlers: FollowHandlers,
    node = 0,
  ): () => void {
    const start = { after: 0, attempt: 0, log: 0, point: 0, ...cursor };
    return this.add({ job, include, node }, start, false, handlers);
  }

  connect(): void {
    if (this.socket !== null) return;
    this.clearTimers();
    if (this.current.state !== "lost") this.setState({ state: "connecting" });
    const socket = this.environment.open(this.url);
    this.socket = socket;
    this.heardAt = this.environment.now();
    this.watchSilence();
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

  /** Connect at once, without waiting for the next try. A connection whose ping is overdue is replaced. */
  retryNow = (): void => {
    if (this.socket !== null && this.silentFor() < PING_DUE_MS) return;
    this.drop();
    this.connect();
  };

  private add(
    target: Follow["target"],
    cursor: JobCursor,
    startsNow: boolean,
    handlers: FollowHandlers,
  ): () => void {
    this.counter += 1;
    const follow: Follow = {
      id: `f${this.counter}`,
      target,
      cursor,
      startsNow,
      handlers,
      finished: false,
      problem: null,
      failures: 0,
      timer: null,
    };
    this.follows.set(follow.id, follow);
    if (this.current.state === "live") this.sendFollow(follow);
    return () => {
      if (!this.follows.delete(follow.id)) return;
      this.clearFollowTimer(follow);
      if (!follow.finished) this.send({ op: "unfollow", id: follow.id });
      this.publishTrouble();
    };
  }

  private sendFollow(follow: Follow): void {
    const { after, attempt, log, point } = follow.cursor;
    if ("project" in follow.target) {
      const from = { after: follow.startsNow ? "now" : after, max_replay: MAX_REPLAY };
      this.send({ op: "follow", id: follow.id, project: true, ...from });
    } else {
      const { job, include, node } = follow.target;
      const selected = node > 0 ? { node } : {};
      this.send({ op: "follow", id: follow.id, job, include, after, attempt, log, point, ...selected });
    }
  }

  private send(message: object): void {
    const { socket } = this;
    // A socket that is closing stays current until its close event. The follows are then sent on the next one.
    if (this.current.state !== "live" || socket?.readyState !== OPEN) return;
    socket.send(JSON.stringify(message));
  }

  private handleOpen(socket: WebSocket): void {
    if (socket !== this.socket) return;
    this.failures = 0;
    this.lostSince = null;
    this.heardAt = this.environment.now();
    this.setState({ state: "live", trouble: this.findTrouble() });
    for (const follow of this.follows.values()) if (!follow.finished) this.tryAgain(follow);
  }

  private handleText(socket: WebSocket, text: string): void {
    if (socket !== this.socket) return;
    this.heardAt = this.environment.now();
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
    if (message.problem !== undefined) this.handleProblem(follow, message.problem);
  }

  private handleProblem(follow: Follow, problem: ProblemBody): void {
    follow.problem = problem;
    follow.failures += 1;
    if (isTemporary(problem)) {
      const delay = retryDelay(follow.failures, this.environment.random());
      this.setFollowTimer(follow, () => this.tryAgain(follow), delay);
    } else {
      this.clearFollowTimer(follow);
      follow.finished = true;
      follow.handlers.onProblem?.(problem);
    }
    this.publishTrouble();
  }

  /** Send a follow with its newest cursor. If no problem follows soon, it works. */
  private tryAgain(follow: Follow): void {
    this.clearFollowTimer(follow);
    this.sendFollow(follow);
    if (follow.problem === null) return;
    const settle = () => {
      follow.problem = null;
      follow.failures = 0;
      this.publishTrouble();
    };
    this.setFollowTimer(follow, settle, SETTLED_MS);
  }

  private setFollowTimer(follow: Follow, run: () => void, delayMs: number): void {
    this.clearFollowTimer(follow);
    follow.timer = this.environment.setTimer(run, delayMs);
  }

  private clearFollowTimer(follow: Follow): void {
    if (follow.timer !== null) this.environment.clearTimer(follow.timer);
    follow.timer = null;
  }

  private findTrouble(): Trouble | null {
    for (const { problem, finished, failures } of this.follows.values()) {
      if (problem !== null && (finished || failures >= SHOWN_FAILURES))
        return { problem, retrying: !finished };
    }
    return null;
  }

  private publishTrouble(): void {
    if (this.current.state !== "live") return;
    const trouble = this.findTrouble();
    if (trouble?.problem !== this.current.trouble?.problem) this.setState({ state: "live", trouble });
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
    this.lostSince ??= this.heardAt;
    const delay = retryDelay(this.failures, this.environment.random());
    const nextTryAt = this.environment.now() + delay;
    this.setState({ state: "lost", since: this.lostSince, nextTryAt, signedOut: code === POLICY_VIOLATION });
    this.timer = this.environment.setTimer(() => this.connect(), delay);
  }

  /** Look regularly, because timers stand still while the machine sleeps. */
  private watchSilence(): void {
    this.silenceTimer = this.environment.setTimer(() => {
      if (this.silentFor() >= SILENCE_MS) this.drop();
      else this.watchSilence();
    }, SILENCE_CHECK_MS);
  }

  private silentFor(): number {
    return this.environment.now() - this.heardAt;
  }

  private drop(): void {
    const { socket } = this;
    socket?.close();
    if (socket !== null) this.handleClose(socket, 0);
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
