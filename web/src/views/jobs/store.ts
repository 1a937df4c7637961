/**
 * The rows of the list. Jobs update in place as messages arrive. New rows and rows that belong to the other group
 * wait until `showFresh`, so that nothing moves under the pointer.
 */

import type { Schemas } from "@/api/client";
import type { LiveMessage } from "@/live/connection";
import { isEnded } from "@/ui/Status";

export type JobSummary = Schemas["JobSummary"];
export type GroupName = "active" | "finished";

export interface JobPage {
  jobs: JobSummary[];
  next_cursor: string | null;
}

export type FetchPage = (group: GroupName, cursor: string | null) => Promise<JobPage>;

export interface JobListSnapshot {
  state: "loading" | "ready" | "failed";
  error: unknown;
  active: readonly JobSummary[];
  finished: readonly JobSummary[];
  hasMore: boolean;
  loadingMore: boolean;
  moreError: unknown;
  /** How many jobs are not shown yet, or are in the wrong group. */
  fresh: number;
}

interface Group {
  ids: string[];
  cursor: string | null;
}

const REFRESH_MS = 400;
const MIN_REFRESH_INTERVAL_MS = 2000;
/** After an absence, at most this many pages of a group are read again; the others when they are scrolled to. */
const MAX_PAGES_AGAIN = 10;
const START: JobListSnapshot = {
  state: "loading",
  error: null,
  active: [],
  finished: [],
  hasMore: false,
  loadingMore: false,
  moreError: null,
  fresh: 0,
};

/** Events after which a job belongs to another place in the list. */
const MOVING = new Set([
  "JobSubmitted",
  "JobCompleted",
  "JobFailed",
  "JobCancelled",
  "JobEdited",
  "JobDeleted",
]);

/** The greater key comes first in the list. */
function orderKey(job: JobSummary | undefined): string {
  return job === undefined ? "" : `${job.submitted_at} ${job.id}`;
}

export class JobListStore {
  private jobs = new Map<string, JobSummary>();
  private groups: Record<GroupName, Group>;
  private newest: Partial<Record<GroupName, JobPage>> = {};
  private deleted = new Set<string>();
  private listeners = new Set<() => void>();
  private snapshot = START;
  private refreshTimer: ReturnType<typeof setTimeout> | null = null;
  private refreshedAt = 0;
  /** Messages may have been missed, so that every row may be out of date. */
  private missed = false;
  /** A job may have begun or ceased to match the filters. */
  private rematch = false;
  /** Rows that no longer match the filters. */
  private unmatched = new Set<string>();

  constructor(
    /** The groups that the tab shows. */
    readonly shown: readonly GroupName[],
    private readonly fetchPage: FetchPage,
    /** The types of events after which a job may begin or cease to match the filters. */
    private readonly matchEvents: ReadonlySet<string> = new Set(),
  ) {
    const empty = () => ({ ids: [], cursor: null });
    this.groups = { active: empty(), finished: empty() };
  }

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  getSnapshot = (): JobListSnapshot => this.snapshot;

  /** Load the first page, or look for changes since the list was last shown. */
  async start(): Promise<void> {
    if (this.snapshot.state === "ready") {
      this.missed = true;
      return this.refresh();
    }
    this.publish({ state: "loading", error: null });
    try {
      const pages = await Promise.all(this.shown.map((group) => this.fetchPage(group, null)));
      this.shown.forEach((group, index) => this.addPage(group, pages[index]!));
      this.publish({ state: "ready" });
    } catch (error) {
      this.publish({ state: "failed", error });
    }
  }

  /** Load the next page of the first group that has one. */
  async loadMore(): Promise<void> {
    if (this.groupWithMore() === undefined || this.snapshot.loadingMore) return;
    this.publish({ loadingMore: true, moreError: null });
    try {
      await this.addNextPage();
      this.publish({ loadingMore: false });
    } catch (error) {
      this.publish({ loadingMore: false, moreError: error });
    }
  }

  private async addNextPage(): Promise<void> {
    for (let group = this.groupWithMore(); group !== undefined; group = this.groupWithMore()) {
      const { cursor } = this.groups[group];
      const page = await this.fetchPage(group, cursor);
      if (this.groups[group].cursor === cursor) return this.addPage(group, page);
      // Else the rows were read again meanwhile, and another page is the next one.
    }
  }

  receive(messages: readonly LiveMessage[]): void {
    let changed = false;
    for (const message of messages) {
      if (message.kind === "summary" && this.jobs.has(message.job.id)) {
        this.jobs.set(message.job.id, message.job);
        changed = true;
      }
      // The follow begins here: what happened between the last message, or the read of the list, and now is unknown.
      if (message.kind === "position") {
        this.missed = true;
        this.scheduleRefresh();
      }
      if (message.kind === "event") this.receiveEvent(message.event);
    }
    if (changed) this.publish({});
  }

  private receiveEvent(event: Schemas["JobEvent"]): void {
    const { type, job_id } = event;
    if (type === "JobDeleted") this.deleted.add(job_id);
    if (this.matchEvents.has(type)) this.rematch = true;
    if (MOVING.has(type) || this.matchEvents.has(type)) this.scheduleRefresh();
  }

  /** Replace rows by what the server said, e.g. after an edit. */
  update(jobs: readonly JobSummary[]): void {
    for (const job of jobs) if (this.jobs.has(job.id)) this.jobs.set(job.id, job);
    this.publish({});
  }

  /** Show new jobs, remove those that no longer match, and put each of the others into its group. */
  showFresh(): void {
    const shown = this.shown.flatMap((group) => this.groups[group].ids);
    for (const group of this.shown) {
      const added = this.newest[group]?.jobs ?? [];
      for (const job of added) this.jobs.set(job.id, job);
      const all = [...new Set([...shown, ...added.map((job) => job.id)])];
      this.groups[group].ids = this.inOrder(all.filter((id) => this.belongsTo(id, group)));
    }
    this.newest = {};
    this.unmatched.clear();
    this.publish({});
  }

  /** The newest submission first; jobs of the same moment keep one order. */
  private inOrder(ids: readonly string[]): string[] {
    const keyed = ids.map((id) => ({ id, key: orderKey(this.jobs.get(id)) }));
    return keyed.sort((a, b) => (a.key < b.key ? 1 : -1)).map((each) => each.id);
  }

  private belongsTo(id: string, group: GroupName): boolean {
    const job = this.jobs.get(id);
    if (job === undefined || this.deleted.has(id) || this.unmatched.has(id)) return false;
    return isEnded(job.status) === (group === "finished");
  }

  private scheduleRefresh(): void {
    if (this.refreshTimer !== null) return;
    const since = Date.now() - this.refreshedAt;
    const delay = Math.max(REFRESH_MS, MIN_REFRESH_INTERVAL_MS - since);
    this.refreshTimer = setTimeout(() => void this.refresh(), delay);
  }

  private async refresh(): Promise<void> {
    if (this.refreshTimer !== null) clearTimeout(this.refreshTimer);
    this.refreshTimer = null;
    this.refreshedAt = Date.now();
    if (this.snapshot.state !== "ready") return;
    if (this.snapshot.loadingMore) return this.scheduleRefresh();
    const { missed, rematch } = this;
    this.missed = this.rematch = false;
    try {
      const pages = await Promise.all(this.shown.map((group) => this.readNewest(group, missed || rematch)));
      if (missed) this.keepOnly(pages);
      if (rematch) this.findUnmatched(pages);
      this.shown.forEach((group, index) => {
        this.newest[group] = pages[index];
        for (const job of pages[index]!.jobs) if (this.jobs.has(job.id)) this.jobs.set(job.id, job);
      });
      this.publish({});
    } catch {
      this.missed ||= missed;
      this.rematch ||= rematch;
      this.scheduleRefresh(); // the connection banner says that the server does not answer
    }
  }

  /** Read the newest page of a group, or all that are shown. */
  private async readNewest(group: GroupName, all: boolean): Promise<JobPage> {
    let { jobs, next_cursor } = await this.fetchPage(group, null);
    const count = all ? this.groups[group].ids.length : 0;
    for (let read = 1; read < MAX_PAGES_AGAIN && next_cursor !== null && jobs.length < count; read += 1) {
      const page = await this.fetchPage(group, next_cursor);
      jobs = [...jobs, ...page.jobs];
      next_cursor = page.next_cursor;
    }
    return { jobs, next_cursor };
  }

  /** Remove rows that were not read again: they left the list, or they come again with the next pages. */
  private keepOnly(pages: readonly JobPage[]): void {
    const read = new Set(pages.flatMap((page) => page.jobs.map((job) => job.id)));
    this.shown.forEach((name, index) => {
      const group = this.groups[name];
      group.ids = group.ids.filter((id) => read.has(id));
      group.cursor = pages[index]!.next_cursor;
    });
  }

  /** Find the rows that were not read again although their place in the list was. They wait for `showFresh`. */
  private findUnmatched(pages: readonly JobPage[]): void {
    const read = new Set(pages.flatMap((page) => page.jobs.map((job) => job.id)));
    this.unmatched.clear();
    this.shown.forEach((group, index) => {
      const { jobs, next_cursor } = pages[index]!;
      const end = next_cursor === null ? "" : orderKey(jobs.at(-1));
      for (const id of this.groups[group].ids)
        if (!read.has(id) && orderKey(this.jobs.get(id)) >= end) this.unmatched.add(id);
    });
  }

  private addPage(group: GroupName, page: JobPage): void {
    const target = this.groups[group];
    const known = new Set(target.ids);
    for (const job of page.jobs) {
      this.jobs.set(job.id, job);
      if (!known.has(job.id)) target.ids.push(job.id);
    }
    target.cursor = page.next_cursor;
  }

  private groupWithMore(): GroupName | undefined {
    return this.shown.find((group) => this.groups[group].cursor !== null);
  }

  private rows(group: GroupName): JobSummary[] {
    return this.groups[group].ids.flatMap((id) => this.jobs.get(id) ?? []);
  }

  private countFresh(): number {
    const shown = new Set(this.shown.flatMap((group) => this.groups[group].ids));
    const added = this.shown
      .flatMap((group) => this.newest[group]?.jobs ?? [])
      .filter((job) => !shown.has(job.id));
    const moved = this.shown.flatMap((group) =>
      this.groups[group].ids.filter((id) => !this.belongsTo(id, group)),
    );
    return new Set([...added.map((job) => job.id), ...moved]).size;
  }

  private publish(change: Partial<JobListSnapshot>): void {
    this.snapshot = {
      ...this.snapshot,
      ...change,
      active: this.rows("active"),
      finished: this.rows("finished"),
      hasMore: this.groupWithMore() !== undefined,
      fresh: this.countFresh(),
    };
    for (const listener of this.listeners) listener();
  }
}
