import { describe, expect, it } from "vitest";
import { advance, LiveConnection, retryDelay, type LiveMessage } from "@/live/connection";

class TestSocket {
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
  const connection = new LiveConnection("ws://test/api/v1/live", {
    open: () => {
      const socket = new TestSocket();
      sockets.push(socket);
      return socket as unknown as WebSocket;
    },
    now: () => 1000,
    setTimer: (run, delay) => timers.push({ run, delay }),
    clearTimer: (timer) => {
      timers[timer - 1] = { run: () => undefined, delay: 0 };
    },
    random: () => 0.5,
  });
  return { connection, sockets, timers };
}

const log = (attempt: number, start: number, end: number): LiveMessage => ({
  kind: "log",
  attempt,
  start,
  log: end,
  data: "",
});

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
    expect(sockets[1]!.sent[0]).toMatchObject({ project: true, after: 41 });
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
