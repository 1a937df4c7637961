import { describe, expect, it, vi } from "vitest";
import { noticeOf } from "@/app/notifications";
import type { LiveMessage } from "@/live/connection";
import {
  costCell,
  progressContext,
  shortMetricName,
  statusContext,
  timeCell,
  whereCell,
} from "@/views/jobs/cells";
import {
  apiFilters,
  filterChips,
  filtersOf,
  formatSearch,
  hasFilters,
  matchEvents,
  NO_FILTERS,
  parseSearch,
} from "@/views/jobs/search";
import { JobListStore, type GroupName, type JobPage, type JobSummary } from "@/views/jobs/store";

const NOW = Date.parse("2026-11-17T15:32:00Z");

function job(id: string, change: Partial<JobSummary> = {}): JobSummary {
  return {
    id,
    name: id,
    status: "running",
    phase: "training",
    reason: "",
    submitted_at: "2026-11-17T07:32:00.000Z",
    started_at: "2026-11-17T07:33:00.000Z",
    updated_at: "2026-11-17T07:40:00.000Z",
    ended_at: null,
    person: "me",
    tags: [],
    notes: "",
    backend: "local",
    place: null,
    execution_id: null,
    progress: { fraction: null, step: null, steps: null, epoch: null, epochs: null, message: null },
    attempt: 1,
    checkpoint: null,
    artifacts: 0,
    work_lost_s: 0,
    work_lost_microusd: 0,
    resume: null,
    cost_microusd: 0,
    max_cost_microusd: null,
    deadline_at: null,
    remaining: null,
    main_metric: null,
    attempt_marks: [],
    interruptions: 0,
    retries_used: 0,
    resumed_from: null,
    cancel_requested: false,
    start_requested: false,
    failure: null,
    queue_position: null,
    damaged: null,
    ...change,
  };
}

const ended = (id: string, change: Partial<JobSummary> = {}) =>
  job(id, { status: "completed", phase: "ended", ended_at: "2026-11-17T09:33:00.000Z", ...change });
const summary = (each: JobSummary): LiveMessage => ({ kind: "summary", job: each });
const event = (type: string, job_id: string): LiveMessage => ({
  kind: "event",
  after: 1,
  event: { position: 1, job_id, at: "2026-11-17T10:00:00.000Z", type, version: 1, data: {} },
});

describe("search parameters", () => {
  it("survive the way through the URL", () => {
    const search = {
      ...parseSearch({}),
      statuses: ["failed" as const],
      q: "night run",
      tag: "in1k",
      submitted: "7d" as const,
      phase: "training,recovering",
      from: "2026-11-01",
      hide: ["metric" as const],
      selected: ["a", "b"],
    };
    expect(parseSearch(formatSearch(search))).toEqual(search);
    expect(formatSearch(parseSearch({}))).toEqual({});
  });

  it("have a selection of up to 200 ids", () => {
    const ids = Array.from({ length: 201 }, (_, index) => `${index}-`.padEnd(36, "0"));
    const { selected } = parseSearch({ selected: ids.join(",") });
    expect(selected).toEqual(ids.slice(0, 200));
  });

  it("ignore values that make no sense", () => {
    const search = parseSearch({ status: "lost", phase: 7, submitted: "1y", hide: "name,cost", selected: 5 });
    expect(search).toMatchObject({ statuses: [], phase: "", submitted: "", hide: ["cost"], selected: [] });
  });

  it("become filters of the API and words", () => {
    const filters = filtersOf(parseSearch({ tag: "in1k", submitted: "24h", q: "x" }));
    expect(apiFilters(filters, NOW)).toEqual({ q: "x", tag: "in1k", after_ms: NOW - 86_400_000 });
    expect(filterChips(filters, []).map((chip) => `${chip.label} ${chip.value}`)).toEqual([
      "Tag in1k",
      "Submitted last 24 hours",
    ]);
    expect(hasFilters(filters)).toBe(true);
    const several = filtersOf(
      parseSearch({ phase: "recovering,lost,training", from: "2026-11-01", until: "2026-11-02" }),
    );
    expect(apiFilters(several, NOW)).toEqual({
      phase: ["training", "recovering"],
      after_ms: new Date(2026, 10, 1).getTime(),
      before_ms: new Date(2026, 10, 3).getTime(),
    });
    expect(filterChips(several, []).map((chip) => `${chip.label} ${chip.value}`)).toEqual([
      "Phase training, recovering",
      "Submitted 2026-11-01 to 2026-11-02",
    ]);
    expect(filtersOf(parseSearch({ from: "yesterday", until: "2026-13-01" })).until).toBe("");
    expect(hasFilters(filtersOf(parseSearch({ status: "active" })))).toBe(false);
  });

  it("can have several statuses, and all of them are no filter", () => {
    const { statuses } = parseSearch({ status: "cancelled,lost,failed" });
    expect(statuses).toEqual(["failed", "cancelled"]);
    expect(formatSearch(parseSearch({ status: "cancelled,failed" })).status).toBe("failed,cancelled");
    const [chip] = filterChips(filtersOf(parseSearch({})), statuses);
    expect(chip).toMatchObject({ label: "Status", value: "failed, cancelled", cleared: { statuses: [] } });
    expect(filterChips(filtersOf(parseSearch({})), ["failed"])).toEqual([]);
    expect(parseSearch({ status: "active,completed,failed,cancelled" }).statuses).toEqual([]);
  });
});

describe("cells", () => {
  it("say what an active job does", () => {
    expect(statusContext(job("a", { attempt: 3, interruptions: 2 }))).toBe("attempt 3, 2 interruptions");
    expect(
      statusContext(job("a", { status: "queued", phase: "waiting", attempt: 0, queue_position: 1 })),
    ).toBe("first in the queue");
    expect(statusContext(job("a", { cancel_requested: true }))).toBe("cancel requested");
    const failure = { code: "user_error", message: "out of memory", blame: "user" };
    expect(statusContext(ended("a", { status: "failed", failure }))).toBe("out of memory");
  });

  it("show progress by epoch, step or neither", () => {
    const progress = (change: object) => job("a", { progress: { ...job("a").progress, ...change } });
    expect(progressContext(progress({ epoch: 24.83, epochs: 30 }))).toBe("epoch 24.8 of 30");
    expect(progressContext(progress({ step: 36400, steps: 40000 }))).toBe("step 36,400 of 40,000");
    expect(progressContext(progress({}))).toBe("no progress reported");
    expect(progressContext(job("a", { phase: "provisioning" }))).toBe("starting");
  });

  it("show the remaining time with its interval, and how long ended jobs took", () => {
    const remaining = {
      seconds: 6480,
      low_s: 5940,
      high_s: 7440,
      cost_microusd: 0,
      cost_low_microusd: 0,
      cost_high_microusd: 0,
    };
    expect(timeCell(job("a", { remaining }), NOW)).toEqual({
      value: "1\u00a0h 48\u00a0m left",
      context: "1\u00a0h 39\u00a0m – 2\u00a0h 4\u00a0m",
    });
    expect(timeCell(ended("a"), NOW).value).toBe("took 2\u00a0h");
    expect(timeCell(job("a"), NOW).value).toBe("no estimate");
  });

  it("name the place and the cost", () => {
    const place = {
      backend: "aws",
      name: "g5.xlarge",
      region: "",
      zone: "",
      gpu: "L4",
      gpus: 4,
      interruptible: true,
      price_microusd_per_hour: 1_000_000,
    };
    const rented = job("a", { place, cost_microusd: 6_630_000, max_cost_microusd: 12_000_000 });
    expect(whereCell(rented)).toEqual({ value: "aws", context: "4 × L4 spot" });
    expect(costCell(rented)).toEqual({ value: "$6.63", context: "of $12.00" });
    const own = { ...place, backend: "lab", name: "rig-1", price_microusd_per_hour: 0, interruptible: false };
    expect(whereCell(job("a", { place: own })).value).toBe("lab/rig-1");
    expect(costCell(job("a", { place: own })).value).toBe("own");
  });

  it("shorten long names of metrics to their last part", () => {
    expect(shortMetricName("val/top1")).toBe("val/top1");
    expect(shortMetricName("metrics/mAP50-95")).toBe("mAP50-95");
  });
});

/** A list whose groups are those that have pages. */
function listOf(pages: Record<GroupName, JobPage[]>, matchEvents: ReadonlySet<string> = new Set()) {
  const asked: string[] = [];
  const shown = (["active", "finished"] as const).filter((group) => pages[group].length > 0);
  const fetchPage = (group: GroupName, cursor: string | null) => {
    asked.push(`${group} ${cursor}`);
    return Promise.resolve(pages[group][cursor === null ? 0 : Number(cursor)]!);
  };
  return { store: new JobListStore(shown, fetchPage, matchEvents), asked };
}

const ids = (jobs: readonly JobSummary[]) => jobs.map((each) => each.id);

describe("JobListStore", () => {
  it("loads the next page of the first group that has one", async () => {
    const { store, asked } = listOf({
      active: [{ jobs: [job("a")], next_cursor: null }],
      finished: [
        { jobs: [ended("c"), ended("b")], next_cursor: "1" },
        { jobs: [ended("b"), ended("0")], next_cursor: null },
      ],
    });
    await store.start();
    expect(store.getSnapshot()).toMatchObject({ state: "ready", hasMore: true, fresh: 0 });
    await store.loadMore();
    await store.loadMore();
    expect(asked).toEqual(["active null", "finished null", "finished 1"]);
    expect(ids(store.getSnapshot().finished)).toEqual(["c", "b", "0"]);
  });

  it("loads the next page although the rows are read again meanwhile", async () => {
    const first: JobPage = { jobs: [ended("d"), ended("c")], next_cursor: "old" };
    const later: Record<string, JobPage> = {
      old: { jobs: [ended("b"), ended("a")], next_cursor: null },
      new: { jobs: [ended("c"), ended("b"), ended("a")], next_cursor: null },
    };
    let release = () => {};
    const held = new Promise<void>((resolve) => (release = resolve));
    const store = new JobListStore(["finished"], async (_, cursor) => {
      if (cursor === "old") await held;
      return cursor === null ? { ...first } : later[cursor]!;
    });
    await store.start();
    const again = store.start();
    const more = store.loadMore();
    first.jobs = [ended("e"), ended("d")];
    first.next_cursor = "new";
    await again;
    release();
    await more;
    expect(ids(store.getSnapshot().finished)).toEqual(["d", "c", "b", "a"]);
    expect(store.getSnapshot()).toMatchObject({ hasMore: false, loadingMore: false });
  });

  it("updates a row in place and lets it wait in its group when it ends", async () => {
    const { store } = listOf({
      active: [{ jobs: [job("b"), job("a")], next_cursor: null }],
      finished: [{ jobs: [], next_cursor: null }],
    });
    await store.start();
    store.receive([summary(ended("b"))]);
    expect(ids(store.getSnapshot().active)).toEqual(["b", "a"]);
    expect(store.getSnapshot()).toMatchObject({ fresh: 1 });
    store.showFresh();
    expect(ids(store.getSnapshot().active)).toEqual(["a"]);
    expect(ids(store.getSnapshot().finished)).toEqual(["b"]);
    expect(store.getSnapshot().fresh).toBe(0);
  });

  it("keeps new jobs back until they are asked for", async () => {
    const first: JobPage = { jobs: [job("a")], next_cursor: null };
    const { store } = listOf({ active: [first], finished: [{ jobs: [], next_cursor: null }] });
    await store.start();
    first.jobs = [job("b", { submitted_at: "2026-11-17T08:00:00.000Z" }), job("a")];
    await store.start();
    expect(ids(store.getSnapshot().active)).toEqual(["a"]);
    expect(store.getSnapshot().fresh).toBe(1);
    store.showFresh();
    expect(ids(store.getSnapshot().active)).toEqual(["b", "a"]);
  });

  it("looks again when the follow begins, for jobs that were submitted in between", async () => {
    vi.useFakeTimers();
    const first: JobPage = { jobs: [], next_cursor: null };
    const { store } = listOf({ active: [first], finished: [{ jobs: [], next_cursor: null }] });
    await store.start();
    first.jobs = [job("a")];
    store.receive([{ kind: "position", after: 7 }]);
    await vi.runAllTimersAsync();
    vi.useRealTimers();
    expect(store.getSnapshot().fresh).toBe(1);
  });

  it("reads all shown rows again after missed messages, and removes those that are gone", async () => {
    const pages: Record<GroupName, JobPage[]> = {
      active: [
        { jobs: [job("d"), job("c")], next_cursor: "1" },
        { jobs: [job("b"), job("a")], next_cursor: "2" },
      ],
      finished: [{ jobs: [], next_cursor: null }],
    };
    const { store, asked } = listOf(pages);
    await store.start();
    await store.loadMore();
    pages.active[1]!.jobs = [job("a", { name: "renamed" })];
    pages.active[1]!.next_cursor = null;
    pages.finished[0]!.jobs = [ended("c")];
    asked.length = 0;
    await store.start();
    expect(asked.toSorted()).toEqual(["active 1", "active null", "finished null"]);
    const shown = store.getSnapshot();
    expect(ids(shown.active)).toEqual(["d", "c", "a"]);
    expect(shown.active[1]!.status).toBe("completed");
    expect(shown.active[2]!.name).toBe("renamed");
    expect(shown).toMatchObject({ fresh: 1, hasMore: false });
  });

  it("lets jobs appear and go when an event changes whether they match the filters", async () => {
    vi.useFakeTimers();
    const first: JobPage = { jobs: [job("b"), job("a")], next_cursor: null };
    const { store } = listOf(
      { active: [first], finished: [] },
      matchEvents({ ...NO_FILTERS, phase: "held" }),
    );
    await store.start();
    first.jobs = [job("c"), job("b")];
    store.receive([event("HoldStarted", "c"), event("AttemptLost", "a")]);
    await vi.runAllTimersAsync();
    vi.useRealTimers();
    expect(ids(store.getSnapshot().active)).toEqual(["b", "a"]);
    expect(store.getSnapshot().fresh).toBe(2);
    store.showFresh();
    expect(ids(store.getSnapshot().active)).toEqual(["c", "b"]);
    expect(store.getSnapshot().fresh).toBe(0);
  });

  it("keeps rows that were not read again because more pages come before them", async () => {
    vi.useFakeTimers();
    const pages = [
      { jobs: [job("d"), job("c")], next_cursor: "1" },
      { jobs: [job("b"), job("a")], next_cursor: "2" },
    ];
    const { store } = listOf({ active: pages, finished: [] }, matchEvents({ ...NO_FILTERS, tag: "night" }));
    await store.start();
    await store.loadMore();
    pages[0]!.jobs = [job("f"), job("e"), job("d")];
    pages[1]!.jobs = [job("b")];
    store.receive([event("JobEdited", "c")]);
    await vi.runAllTimersAsync();
    vi.useRealTimers();
    store.showFresh();
    expect(ids(store.getSnapshot().active)).toEqual(["f", "e", "d", "b", "a"]);
  });

  it.each([
    ["", []],
    ["held", ["active null"]],
  ])(
    "with the phase %j as filter, many events of attempts cause the requests %j",
    async (phase, requests) => {
      vi.useFakeTimers();
      const pages = { active: [{ jobs: [job("a")], next_cursor: null }], finished: [] };
      const { store, asked } = listOf(pages, matchEvents({ ...NO_FILTERS, phase }));
      await store.start();
      asked.length = 0;
      for (let each = 0; each < 100; each += 1) store.receive([event("AttemptClaimed", "a")]);
      await vi.runAllTimersAsync();
      vi.useRealTimers();
      expect(asked).toEqual(requests);
    },
  );

  it("says when the list cannot be loaded, and loads it again", async () => {
    let fails = true;
    const store = new JobListStore(["active"], () =>
      fails ? Promise.reject(new Error("down")) : Promise.resolve({ jobs: [job("a")], next_cursor: null }),
    );
    await store.start();
    expect(store.getSnapshot().state).toBe("failed");
    fails = false;
    await store.start();
    expect(store.getSnapshot()).toMatchObject({ state: "ready", active: [{ id: "a" }] });
  });
});

describe("noticeOf", () => {
  it("tells about ends, interruptions and budgets, once each", () => {
    const before = job("a", { max_cost_microusd: 10_000_000, cost_microusd: 8_000_000 });
    expect(noticeOf(before, ended("a"))?.title).toBe("a completed");
    expect(noticeOf(ended("a"), ended("a"))).toBeNull();
    expect(noticeOf(before, { ...before, interruptions: 1 })?.title).toBe("a was interrupted");
    const near = { ...before, cost_microusd: 9_100_000 };
    expect(noticeOf(before, near)).toEqual({
      title: "a nears its budget",
      text: "$9.10 of $10.00 spent. At the limit it saves and stops.",
    });
    expect(noticeOf(near, { ...near, cost_microusd: 9_200_000 })).toBeNull();
  });
});
