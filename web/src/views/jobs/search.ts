/** What the URL of the list says: tab, filters, hidden columns and selection. */

/** The statuses to filter by: those of an ended job, and `active` for all others. */
export const STATUSES = ["active", "completed", "failed", "cancelled"] as const;
export type ListedStatus = (typeof STATUSES)[number];

export const PHASES = [
  "planning",
  "waiting",
  "provisioning",
  "preparing",
  "training",
  "checkpointing",
  "recovering",
  "finishing",
  "held",
] as const;

export const SUBMITTED = {
  "1h": "last hour",
  "24h": "last 24 hours",
  "7d": "last 7 days",
  "30d": "last 30 days",
} as const;
export type Submitted = keyof typeof SUBMITTED;

export const COLUMNS = {
  progress: "Progress",
  time: "Time",
  metric: "Main metric",
  where: "Where",
  cost: "Cost",
  age: "Submitted",
} as const;
export type ColumnName = keyof typeof COLUMNS;

/** Filters by an exact text. */
export const TEXT_FILTERS = { name: "Name", tag: "Tag", backend: "Backend", person: "Person" } as const;
export type TextFilter = keyof typeof TEXT_FILTERS;

export interface JobFilters {
  q: string;
  name: string;
  tag: string;
  backend: string;
  person: string;
  /** One or several, separated by commas. */
  phase: string;
  submitted: Submitted | "";
  /** Days such as 2026-11-17, in the time zone of the browser; both are included. */
  from: string;
  until: string;
}

export const NO_FILTERS: JobFilters = {
  q: "",
  name: "",
  tag: "",
  backend: "",
  person: "",
  phase: "",
  submitted: "",
  from: "",
  until: "",
};

export interface JobsSearch extends JobFilters {
  /** Empty if jobs of every status are listed. */
  statuses: readonly ListedStatus[];
  hide: readonly ColumnName[];
  selected: readonly string[];
}

/** The selection is part of the URL, which must not become too long. */
export const MAX_SELECTED = 200;

function text(value: unknown): string {
  return typeof value === "string" || typeof value === "number" ? String(value).slice(0, 500) : "";
}

function list(value: unknown): string[] {
  return text(value)
    .split(",")
    .filter((each) => each !== "");
}

/** Not limited by the length of the text: 200 ids have more than 7000 characters. */
function ids(value: string): string[] {
  return [...new Set(value.split(",").filter((each) => each !== ""))].slice(0, MAX_SELECTED);
}

function day(value: unknown): string {
  const found = /^\d{4}-\d{2}-\d{2}$/.exec(text(value))?.[0] ?? "";
  return Number.isNaN(startOfDay(found)) ? "" : found;
}

function startOfDay(day: string): number {
  return new Date(`${day}T00:00:00`).getTime();
}

function endOfDay(day: string): number {
  const next = new Date(startOfDay(day));
  next.setDate(next.getDate() + 1);
  return next.getTime();
}

/** Read the search parameters. Values that make no sense are ignored. */
export function parseSearch(search: Record<string, unknown>): JobsSearch {
  const submitted = text(search.submitted);
  const columns = Object.keys(COLUMNS) as ColumnName[];
  return {
    statuses: someStatuses(list(search.status)),
    q: text(search.q),
    name: text(search.name),
    tag: text(search.tag),
    backend: text(search.backend),
    person: text(search.person),
    phase: PHASES.filter((each) => list(search.phase).includes(each)).join(","),
    submitted: submitted in SUBMITTED ? (submitted as Submitted) : "",
    from: day(search.from),
    until: day(search.until),
    hide: columns.filter((each) => list(search.hide).includes(each)),
    selected: typeof search.selected === "string" ? ids(search.selected) : [],
  };
}

/** The known statuses among `chosen`. All of them together are no filter. */
export function someStatuses(chosen: readonly string[]): ListedStatus[] {
  const known = STATUSES.filter((each) => chosen.includes(each));
  return known.length === STATUSES.length ? [] : known;
}

/** The search parameters of a state, without what is empty. */
export function formatSearch(state: JobsSearch): Record<string, string | undefined> {
  const { statuses, hide, selected, ...filters } = state;
  const texts = Object.entries(filters).map(([key, value]) => [key, value === "" ? undefined : value]);
  return {
    ...(Object.fromEntries(texts) as Record<string, string | undefined>),
    status: statuses.length === 0 ? undefined : statuses.join(","),
    hide: hide.length === 0 ? undefined : hide.join(","),
    selected: selected.length === 0 ? undefined : selected.join(","),
  };
}

export function filtersOf(state: JobsSearch): JobFilters {
  const { q, name, tag, backend, person, phase, submitted, from, until } = state;
  return { q, name, tag, backend, person, phase, submitted, from, until };
}

export function hasFilters(filters: JobFilters): boolean {
  return Object.values(filters).some((each) => each !== "");
}

export interface FilterChip {
  key: keyof JobFilters | "statuses";
  label: string;
  value: string;
  /** What changes when this filter is removed. */
  cleared: Partial<JobsSearch>;
}

/** The filters that are set, in words, besides the search text and a status that has a tab. */
export function filterChips(filters: JobFilters, statuses: readonly ListedStatus[]): FilterChip[] {
  const chips: FilterChip[] = (Object.keys(TEXT_FILTERS) as TextFilter[])
    .filter((key) => filters[key] !== "")
    .map((key) => ({ key, label: TEXT_FILTERS[key], value: filters[key], cleared: { [key]: "" } }));
  if (statuses.length > 1) {
    const value = statuses.join(", ");
    chips.unshift({ key: "statuses", label: "Status", value, cleared: { statuses: [] } });
  }
  if (filters.phase !== "") {
    const value = filters.phase.split(",").join(", ");
    chips.push({ key: "phase", label: "Phase", value, cleared: { phase: "" } });
  }
  if (filters.submitted !== "") {
    const value = SUBMITTED[filters.submitted];
    chips.push({ key: "submitted", label: "Submitted", value, cleared: { submitted: "" } });
  }
  const days = daysText(filters);
  if (days !== "")
    chips.push({ key: "from", label: "Submitted", value: days, cleared: { from: "", until: "" } });
  return chips;
}

function daysText({ from, until }: JobFilters): string {
  if (from !== "" && until !== "") return from === until ? `on ${from}` : `${from} to ${until}`;
  return from !== "" ? `since ${from}` : until !== "" ? `until ${until}` : "";
}

/** The events that change the phase of a job. */
const PHASE_EVENTS = [
  "JobWaited",
  "AttemptLaunching",
  "AttemptClaimed",
  "TrainingStarted",
  "StopRequested",
  "AttemptEnded",
  "AttemptLost",
  "HoldStarted",
  "HoldEnded",
  "RecoveryStarted",
  "JobCompleted",
  "JobFailed",
  "JobCancelled",
];

/** The types of events after which a job may begin or cease to match the filters. */
export function matchEvents({ q, name, tag, backend, phase }: JobFilters): ReadonlySet<string> {
  return new Set([
    ...(q + name + tag === "" ? [] : ["JobEdited"]),
    ...(backend === "" ? [] : ["AttemptLaunching"]),
    ...(phase === "" ? [] : PHASE_EVENTS),
  ]);
}

const UNIT_MS = { h: 3_600_000, d: 86_400_000 };
const MINUTE_MS = 60_000;

/** The query parameters of the API. The time is rounded to a minute, so that answers can be shared. */
export function apiFilters(filters: JobFilters, now: number) {
  const { submitted, from, until, phase, ...rest } = filters;
  const after = submitted === "" ? startOfDay(from) : now - ageMs(submitted);
  const before = endOfDay(until);
  return {
    ...Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== "")),
    ...(phase === "" ? {} : { phase: phase.split(",") }),
    ...(Number.isNaN(after) ? {} : { after_ms: Math.floor(after / MINUTE_MS) * MINUTE_MS }),
    ...(Number.isNaN(before) ? {} : { before_ms: before }),
  };
}

function ageMs(submitted: Submitted): number {
  return Number.parseInt(submitted) * UNIT_MS[submitted.endsWith("h") ? "h" : "d"];
}
