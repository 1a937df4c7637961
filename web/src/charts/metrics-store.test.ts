import { describe, expect, it } from "vitest";
import { ApiProblem, type Schemas } from "@/api/client";
import { MetricsStore, type HistoryRequest } from "@/charts/metrics-store";

type Point = [string, number, number, number];

/** A server with one attempt: it stores points, and answers requests when the test says so. */
class TestServer {
  stored: Point[] = [];
  requests: HistoryRequest[] = [];
  private answers: (() => void)[] = [];

  overview = async (): Promise<Schemas["MetricsOverview"]> => ({
    attempt: 1,
    cursor: this.stored.length,
    metrics: [...new Set(this.stored.map(([name]) => name))].map((name) => ({
      name,
      count: this.stored.filter((point) => point[0] === name).length,
      min: 0,
      max: 0,
      last: 0,
      last_step: 0,
      attempts: [1],
    })),
  });

  history = (request: HistoryRequest): Promise<Schemas["MetricsHistory"]> => {
    this.requests.push(request);
    const cursor = this.stored.length;
    const series = request.names.map((name) => {
      const points = this.stored.filter((point) => point[0] === name);
      return {
        name,
        count: points.length,
        steps: points.map((point) => point[1]),
        times: points.map((point) => point[2]),
        values: points.map((point) => point[3]),
      };
    });
    const answer = { attempts: [{ attempt: 1, cursor, series }] };
    return new Promise((resolve) => this.answers.push(() => resolve(answer)));
  };

  /** Store points and return the live message about them. */
  report(...points: Point[]) {
    this.stored.push(...points);
    return { attempt: 1, point: this.stored.length, points };
  }

  async answerAll(): Promise<void> {
    for (const answer of this.answers.splice(0)) answer();
    await new Promise((resolve) => setTimeout(resolve, 0));
  }
}

function setup() {
  const server = new TestServer();
  const deferred: (() => void)[] = [];
  const store = new MetricsStore(server, (run) => void deferred.push(run));
  const values = (name: string) => store.read(name).attempts.get(1)?.values ?? [];
  return { server, store, values, runDeferred: () => deferred.splice(0).forEach((run) => run()) };
}

describe("MetricsStore", () => {
  it("loads the points of several charts in one request", async () => {
    const { server, store, values, runDeferred } = setup();
    server.report(["a", 1, 1, 10], ["b", 1, 1, 20]);
    expect(await store.loadOverview()).toEqual({ attempt: 1, point: 2 });
    expect(store.read("a").state).toBe("loading");
    store.read("b");
    runDeferred();
    expect(server.requests.map((request) => request.names)).toEqual([["a", "b"]]);
    await server.answerAll();
    expect([values("a"), values("b")]).toEqual([[10], [20]]);
  });

  it("takes each point once, also those that arrive while the chart loads", async () => {
    const { server, store, values, runDeferred } = setup();
    await store.loadOverview();
    const before = server.report(["a", 1, 1, 1], ["b", 1, 1, 5]);
    store.read("a");
    runDeferred();
    store.addMessages([before]);
    store.addMessages([server.report(["a", 2, 2, 2])]);
    await server.answerAll();
    store.addMessages([server.report(["b", 2, 2, 6], ["a", 3, 3, 3])]);
    expect(values("a")).toEqual([1, 2, 3]);
    expect(store.summaries.get("a")).toMatchObject({ count: 3, min: 1, max: 3, last: 3, lastStep: 3 });
  });

  it("ignores points that it has", async () => {
    const { server, store, values, runDeferred } = setup();
    const message = server.report(["a", 1, 1, 1], ["a", 2, 2, 2]);
    store.read("a");
    runDeferred();
    await server.answerAll();
    store.addMessages([message]);
    expect(values("a")).toEqual([1, 2]);
  });

  it("tells charts about their own points only, and the panel about new metrics", async () => {
    const { server, store, runDeferred } = setup();
    const heard: string[] = [];
    for (const name of ["", "a", "b"]) store.subscribe(name, () => heard.push(name));
    store.read("a");
    store.read("b");
    runDeferred();
    await server.answerAll();
    heard.length = 0;
    store.addMessages([server.report(["a", 1, 1, 1])]);
    expect(heard).toEqual(["", "a"]);
    heard.length = 0;
    store.addMessages([server.report(["a", 2, 2, 1])]);
    expect(heard).toEqual(["a"]);
  });

  it("shows the whole while a range loads, then the range with its live points", async () => {
    const { server, store, runDeferred } = setup();
    server.report(["a", 1, 1, 1], ["a", 2, 2, 2]);
    store.read("a");
    runDeferred();
    await server.answerAll();
    const range = { from: 2, to: 5 };
    expect(store.readRange("a", range, 500).range).toBeNull();
    await server.answerAll();
    store.addMessages([server.report(["a", 4, 4, 4], ["a", 9, 9, 9])]);
    expect(store.readRange("a", range, 500).attempts.get(1)!.steps).toEqual([1, 2, 4]);
    expect(server.requests.at(-1)).toEqual({ names: ["a"], points: 500, range });
  });

  it("loads again after a failure", async () => {
    let fail = true;
    const server = new TestServer();
    const failing = {
      overview: server.overview,
      history: (request: HistoryRequest) =>
        fail ? Promise.reject(new Error("no connection")) : server.history(request),
    };
    const store = new MetricsStore(failing, (run) => run());
    store.read("a");
    await new Promise((resolve) => setTimeout(resolve, 0));
    fail = false;
    store.retryFailed();
    await server.answerAll();
    expect(store.read("a").state).toBe("ready");
  });

  it("loads again by itself after a temporary failure, with growing pauses", async () => {
    const server = new TestServer();
    const later: { run: () => void; ms: number }[] = [];
    let fail = true;
    const noAnswer = { title: "", status: 0, code: "unreachable", detail: "", retryable: true };
    const restarting = {
      overview: server.overview,
      history: (request: HistoryRequest) =>
        fail ? Promise.reject(new ApiProblem(noAnswer)) : server.history(request),
    };
    const store = new MetricsStore(restarting, (run, ms) =>
      ms === 0 ? run() : void later.push({ run, ms }),
    );
    const settle = () => new Promise((resolve) => setTimeout(resolve, 0));
    store.read("a");
    await settle();
    later[0]!.run();
    await settle();
    expect(later.map((each) => each.ms)).toEqual([2000, 4000]);
    fail = false;
    later[1]!.run();
    await server.answerAll();
    expect(store.read("a").state).toBe("ready");
  });
});
