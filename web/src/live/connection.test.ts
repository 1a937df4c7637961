import { describe, expect, it } from "vitest";
import { advance, LiveConnection, retryDelay, type LiveMessage } from "@/live/connection";

class TestSocket {
  readyState = 1;
  sent: Record<string, unknown>[] = [];
  onopen: (() => void) | null = null;
  onmessage: ((event: { data: string }) => void) | null = null;
  onclose: ((event: { code: number }) => void) | null = null;

  send(text: string): void {
    this.sent.push(JSON.parse(text) as Record<string, unknown>);
  }

  close(): void {
    this.onclose?.({ code: 1000 });
  }

  receive(message: object): void {
    this.onmessage?.({ data: JSON.stringify(message) });
  }
}

function setup() {
  const sockets: TestSocket[] = [];
  const timers: { run: () => void; delay: number }[] = [];
  const clock = { now: 1000 };
  const connection = new LiveConnection("ws://test/api/v1/live", {
    open: () => {
      const socket = new TestSocket();
      sockets.push(socket);
      return socket as unknown as WebSocket;
    },
    now: () => clock.now,
    setTimer: (run, delay) => timers.push({ run, delay }),
    clearTimer: (timer) => {
      timers[timer - 1] = { run: () => undefined, delay: 0 };
    },
    random: () => 0.5,
  });
  return { connection, sockets, timers, clock };
}

const log = (attempt: number, start: number, end: number): LiveMessage => ({
  kind: "log",
  attempt,
  start,
  log: end,
  data: "",
});

const busy = { title: "Store busy", status: 503, code: "store_busy", retryable: true };

describe("LiveConnection", () => {
  it("follows again with the newest cursor after a lost connection", () => {
    const { connection, sockets, timers } = setup();
    const seen: LiveMessage[] = [];
    connection.followJob("job", ["logs"], { attempt: 1 }, { onMessages: (each) => seen.push(...each) });
    connection.connect();
    sockets[0]!.onopen?.();
    expect(sockets[0]!.sent[0]).toMatchObject({ op: "follow", job: "job", attempt: 1, log: 0 });
    sockets[0]!.receive({ id: "f1", messages: [log(1, 0, 512)] });
    sockets[0]!.onclose?.({ code: 1012 });
    expect(connection.state).toMatchObject({ state: "lost", since: 1000, signedOut: false });
    timers.at(-1)!.run();
    sockets[1]!.onopen?.();
    expect(sockets[1]!.sent[0]).toMatchObject({ op: "follow", job: "job", attempt: 1, log: 512 });
    expect(seen).toHaveLength(1);
  });

  it("sends nothing on a socket that is closing", () => {
    const { connection, sockets } = setup();
    const stop = connection.followJob("first", [], {}, { onMessages: () => undefined });
    connection.connect();
    sockets[0]!.onopen?.();
    sockets[0]!.readyState = 2;
    stop();
    connection.followJob("second", [], {}, { onMessages: () => undefined });
    expect(sockets[0]!.sent).toHaveLength(1);
    sockets[0]!.onclose?.({ code: 1012 });
    connection.retryNow();
    sockets[1]!.onopen?.();
    expect(sockets[1]!.sent).toMatchObject([{ op: "follow", job: "second" }]);
  });

  it("follows the chosen machine again after a lost connection", () => {
    const { connection, sockets } = setup();
    connection.followJob("job", ["logs"], {}, { onMessages: () => undefined }, 3);
    connection.followJob("job", ["logs"], {}, { onMessages: () => undefined });
    connection.connect();
    sockets[0]!.onopen?.();
    sockets[0]!.onclose?.({ code: 1012 });
    connection.retryNow();
    sockets[1]!.onopen?.();
    for (const { sent } of sockets) {
      expect(sent[0]).toMatchObject({ job: "job", node: 3 });
      expect(sent[1]).not.toHaveProperty("node");
    }
  });

  it("starts a project follow now and continues at the reported position", () => {
    const { connection, sockets } = setup();
    connection.followProject({ onMessages: () => undefined });
    connection.connect();
    sockets[0]!.onopen?.();
    expect(sockets[0]!.sent[0]).toMatchObject({ project: true, after: "now" });
    sockets[0]!.receive({ id: "f1", messages: [{ kind: "position", after: 41 }] });
    sockets[0]!.onclose?.({ code: 1006 });
    connection.retryNow();
    sockets[1]!.onopen?.();
    expect(sockets[1]!.sent[0]).toMatchObject({ project: true, after: 41, max_replay: 2000 });
  });

  it("does not follow an ended job again", () => {
    const { connection, sockets } = setup();
    let status = "";
    connection.followJob(
      "job",
      ["events"],
      {},
      { onMessages: () => undefined, onEnd: (each) => (status = each) },
    );
    connection.connect();
    sockets[0]!.onopen?.();
    sockets[0]!.receive({ id: "f1", end: { status: "completed" } });
    sockets[0]!.onclose?.({ code: 1006 });
    connection.retryNow();
    sockets[1]!.onopen?.();
    expect(status).toBe("completed");
    expect(sockets[1]!.sent).toEqual([]);
  });

  it("follows again from its cursor after a temporary problem", () => {
    const { connection, sockets, timers } = setup();
    const problems: unknown[] = [];
    const handlers = { onMessages: () => undefined, onProblem: (each: unknown) => problems.push(each) };
    connection.followJob("job", ["logs"], { attempt: 1 }, handlers);
    connection.connect();
    sockets[0]!.onopen?.();
    sockets[0]!.receive({ id: "f1", messages: [log(1, 0, 512)] });
    sockets[0]!.receive({ id: "f1", problem: busy });
    expect(sockets[0]!.sent).toHaveLength(1);
    expect(timers.at(-1)!.delay).toBe(250);
    timers.at(-1)!.run();
    expect(sockets[0]!.sent[1]).toMatchObject({ op: "follow", id: "f1", job: "job", attempt: 1, log: 512 });
    expect(connection.state).toEqual({ state: "live", trouble: null });
    sockets[0]!.receive({ id: "f1", problem: { ...busy, code: "internal", retryable: false } });
    expect(timers.at(-1)!.delay).toBe(500);
    expect(connection.state).toMatchObject({ trouble: { retrying: true, problem: { code: "internal" } } });
    timers.at(-1)!.run();
    expect(sockets[0]!.sent).toHaveLength(3);
    timers.at(-1)!.run();
    expect(connection.state).toEqual({ state: "live", trouble: null });
    expect(problems).toEqual([]);
  });

  it("follows once on a new connection, also when it waited to follow again", () => {
    const { connection, sockets, timers } = setup();
    connection.followProject({ onMessages: () => undefined });
    connection.connect();
    sockets[0]!.onopen?.();
    sockets[0]!.receive({ id: "f1", messages: [{ kind: "position", after: 41 }] });
    sockets[0]!.receive({ id: "f1", problem: busy });
    sockets[0]!.onclose?.({ code: 1012 });
    connection.retryNow();
    sockets[1]!.onopen?.();
    expect(sockets[1]!.sent).toMatchObject([{ project: true, after: 41 }]);
    timers.at(-1)!.run();
    expect(sockets[1]!.sent).toHaveLength(1);
  });

  it("stops a follow after a lasting problem, and says so until it is given up", () => {
    const { connection, sockets } = setup();
    const problems: unknown[] = [];
    const handlers = { onMessages: () => undefined, onProblem: (each: unknown) => problems.push(each) };
    const stop = connection.followJob("job", ["logs"], {}, handlers);
    connection.connect();
    sockets[0]!.onopen?.();
    const gone = { title: "Not found", status: 404, code: "not_found", retryable: false };
    sockets[0]!.receive({ id: "f1", problem: gone });
    expect(problems).toEqual([gone]);
    expect(connection.state).toEqual({ state: "live", trouble: { problem: gone, retrying: false } });
    sockets[0]!.onclose?.({ code: 1006 });
    connection.retryNow();
    sockets[1]!.onopen?.();
    expect(sockets[1]!.sent).toEqual([]);
    stop();
    expect(connection.state).toEqual({ state: "live", trouble: null });
  });

  it("replaces a connection whose ping is overdue when the machine wakes up", () => {
    const { connection, sockets, clock } = setup();
    connection.followJob("job", ["logs"], { attempt: 1 }, { onMessages: () => undefined });
    connection.connect();
    sockets[0]!.onopen?.();
    clock.now += 15_000;
    sockets[0]!.receive({ kind: "ping" });
    clock.now += 16_000;
    connection.retryNow();
    expect(sockets).toHaveLength(1);
    clock.now += 3_600_000;
    connection.retryNow();
    expect(sockets).toHaveLength(2);
    expect(connection.state).toMatchObject({ state: "lost", since: 16_000 });
    sockets[1]!.onopen?.();
    expect(connection.state.state).toBe("live");
    expect(sockets[1]!.sent).toMatchObject([{ op: "follow", job: "job" }]);
  });

  it("notices a silent connection by the clock, also if its timers stood still", () => {
    const { connection, sockets, timers, clock } = setup();
    connection.connect();
    sockets[0]!.onopen?.();
    timers.at(-1)!.run();
    expect(connection.state.state).toBe("live");
    clock.now += 60_000;
    timers.at(-1)!.run();
    expect(connection.state).toMatchObject({ state: "lost", since: 1000 });
  });

  it("ignores messages of a socket that it has replaced", () => {
    const { connection, sockets } = setup();
    const seen: LiveMessage[] = [];
    connection.followJob("job", ["logs"], {}, { onMessages: (each) => seen.push(...each) });
    connection.connect();
    sockets[0]!.onopen?.();
    connection.pause();
    connection.connect();
    sockets[0]!.receive({ id: "f1", messages: [log(1, 0, 10)] });
    expect(seen).toEqual([]);
  });
});

describe("advance", () => {
  it("starts the log and point cursors again with the next attempt", () => {
    const cursor = { after: 7, attempt: 1, log: 900, point: 40 };
    expect(advance(cursor, log(2, 0, 10))).toEqual({ after: 7, attempt: 2, log: 10, point: 0 });
  });
});

describe("retryDelay", () => {
  it("doubles up to ten seconds", () => {
    expect([1, 2, 3, 10].map((failures) => retryDelay(failures, 0.5))).toEqual([250, 500, 1000, 10_000]);
  });
});
