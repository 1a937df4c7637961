/** Months and days as texts: "2026-11" and "2026-11-17". No time zones: a date is only a date here. */

const monthNames = {
  long: new Intl.DateTimeFormat("en-GB", { month: "long", year: "numeric", timeZone: "UTC" }),
  short: new Intl.DateTimeFormat("en-GB", { month: "short", year: "numeric", timeZone: "UTC" }),
};
const dayName = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "long", timeZone: "UTC" });

/** "November 2026", or "Nov 2026" */
export function formatMonth(month: string, length: "long" | "short" = "long"): string {
  return monthNames[length].format(new Date(`${month}-01T00:00:00Z`));
}

/** "17 November" */
export function formatDay(day: string): string {
  return dayName.format(new Date(`${day}T00:00:00Z`));
}

/** The month before (-1) or after (+1). */
export function addMonths(month: string, count: number): string {
  const [year, number] = month.split("-").map(Number) as [number, number];
  const index = year * 12 + number - 1 + count;
  return `${String(Math.floor(index / 12)).padStart(4, "0")}-${String((index % 12) + 1).padStart(2, "0")}`;
}

/** All days of a month. */
export function daysOfMonth(month: string): string[] {
  const [year, number] = month.split("-").map(Number) as [number, number];
  const count = new Date(Date.UTC(year, number, 0)).getUTCDate();
  return Array.from({ length: count }, (_, index) => `${month}-${String(index + 1).padStart(2, "0")}`);
}

/** The months from `first` to `last`, newest first; at most `limit`. */
export function monthsBetween(first: string, last: string, limit = 36): string[] {
  const months = [];
  for (let month = last; month >= first && months.length < limit; month = addMonths(month, -1)) {
    months.push(month);
  }
  return months;
}
