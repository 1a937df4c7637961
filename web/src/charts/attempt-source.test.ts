import { describe, expect, it } from "vitest";
import { attemptSource, toEpochs } from "@/charts/attempt-source";
import { MetricsStore, type HistoryRequest } from "@/charts/metrics-store";

const ZOOMED = { steps: [2], times: [2], values: [20] };
const WHOLE = { steps: [0, 10], times: [0, 10], values: [0, 1] };

/** A server with two points of each metric. Its answers can be made to fail. */
class TestServer {
  failing = false;
  requests: HistoryRequest[] = [];

  overview = async () => ({ attempt: 1, cursor: 2, metrics: [] });

  history = async (request: HistoryRequest) => {
    this.requests.push(request);
    if (this.failing) throw new Error("no connection");
    const columns = request.range === null ? WHOLE : ZOOMED;
    const series = request.names.map((name) => ({ name, count: 2, ...structuredClone(columns) }));
    return { attempts: [{ attempt: 1, cursor: 2, series }] };
  };
}

function setup() {
  const server = new TestServer();
  return { server, store: new MetricsStore(server, (run) => run()) };
}

async function answers(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 0));
}

describe("toEpochs", () => {
  it("returns the same scale until points are added", async () => {
    const { store } = setup();
    const epochs = { metric: "epoch" };
    expect(toEpochs(epochs, store)).toBeNull();
    await answers();
    const scale = toEpochs(epochs, store)!;
    expect(scale(20)).toBe(2);
    expect(toEpochs(epochs, store)).toBe(scale);
    store.addMessages([{ attempt: 1, point: 3, points: [["epoch", 20, 20, 5]] }]);
    expect(toEpochs(epochs, store)!(20)).toBe(5);
  });
});

describe("a zoomed chart", () => {
  it("says that the points of the zoom could not be loaded, and loads them again", async () => {
    const { server, store } = setup();
    const view = {
      axis: "step",
      smoothing: 0,
      logScale: false,
      zoom: [1, 3],
      hidden: new Set<string>(),
    } as const;
    const source = attemptSource({ store, name: "loss", view, attempts: [], epochs: null });
    const read = () => {
      const { model, state } = source.read();
      return { steps: model.lines.flatMap((line) => line.stretches.flatMap(({ steps }) => steps)), state };
    };
    store.read("loss");
    await answers();
    server.failing = true;
    expect(read()).toEqual({ steps: [0, 10], state: "ready" });
    await answers();
    expect(read()).toEqual({ steps: [0, 10], state: "failed" });
    server.failing = false;
    source.retry();
    expect(read()).toEqual({ steps: [0, 10], state: "ready" });
    await answers();
    expect(read()).toEqual({ steps: [2], state: "ready" });
    expect(server.requests.filter(({ range }) => range === null)).toHaveLength(1);
  });
});
