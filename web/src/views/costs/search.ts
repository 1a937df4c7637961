/** What the URL of the page says: month, grouping, job to compare, and how figures are shown. */

export const GROUPINGS = ["backend", "gpu", "person", "tag"] as const;
export type Grouping = (typeof GROUPINGS)[number];

export interface CostsSearch {
  /** "2026-11"; empty for this month. */
  month: string;
  by: Grouping;
  /** Id of the job that is compared at other providers; empty for the newest. */
  job: string;
  /** Which predictions are shown. */
  what: "cost" | "time";
  /** Show the days as a table. */
  table: boolean;
}

const MONTH = /^\d{4}-(0[1-9]|1[0-2])$/;

function oneOf<T extends string>(value: unknown, known: readonly T[], otherwise: T): T {
  return known.includes(value as T) ? (value as T) : otherwise;
}

/** Read the search parameters. Values that make no sense are ignored. */
export function parseSearch(search: Record<string, unknown>): CostsSearch {
  const month = typeof search.month === "string" ? search.month : "";
  return {
    month: MONTH.test(month) ? month : "",
    by: oneOf(search.by, GROUPINGS, "backend"),
    job: typeof search.job === "string" ? search.job.slice(0, 200) : "",
    what: oneOf(search.what, ["cost", "time"], "cost"),
    table: search.table === true,
  };
}

/** The search parameters of a state, without what is the default. */
export function formatSearch(state: CostsSearch): Record<string, string | boolean | undefined> {
  return {
    month: state.month || undefined,
    by: state.by === "backend" ? undefined : state.by,
    job: state.job || undefined,
    what: state.what === "cost" ? undefined : state.what,
    table: state.table || undefined,
  };
}
