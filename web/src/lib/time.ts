/** Relative and absolute times. The page shows relative times; the absolute time is the title. */

import { formatDuration } from "@/lib/format";

/** The name of the browser's time zone. The days of sums are those of this zone. */
export const TIMEZONE = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";

const MINUTE = 60;
const DAY = 24 * 60 * MINUTE;

/** "8 h ago", "just now", "in 5 m". */
export function relativeTime(iso: string, now: number): string {
  const seconds = (now - Date.parse(iso)) / 1000;
  if (Math.abs(seconds) < 5) return "just now";
  return seconds >= 0 ? `${roundedAge(seconds)} ago` : `in ${roundedAge(-seconds)}`;
}

/** The age in one unit: "40 s", "8 h", "3 d". */
export function roundedAge(seconds: number): string {
  if (seconds < MINUTE) return formatDuration(Math.floor(seconds));
  if (seconds < 60 * MINUTE) return formatDuration(Math.floor(seconds / MINUTE) * MINUTE);
  if (seconds < DAY) return formatDuration(Math.floor(seconds / 3600) * 3600);
  return formatDuration(Math.floor(seconds / DAY) * DAY);
}

const absolute = new Intl.DateTimeFormat("en-GB", {
  dateStyle: "medium",
  timeStyle: "medium",
});
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const clockWithSeconds = new Intl.DateTimeFormat("en-GB", {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
});
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

function isValid(date: Date): boolean {
  return !Number.isNaN(date.getTime());
}

/** The text of a date; "unknown" for a time that is no valid date, for which `Intl` throws an error. */
function format(formatter: Intl.DateTimeFormat, time: string | number): string {
  const date = new Date(time);
  return isValid(date) ? formatter.format(date) : "unknown";
}

/** "17 Nov 2026, 15:32:04" in local time. */
export function absoluteTime(time: string | number): string {
  return format(absolute, time);
}

/** "15:32" in local time. */
export function clockTime(time: string | number, seconds = false): string {
  return format(seconds ? clockWithSeconds : clock, time);
}

/** "17 Nov" in local time. */
export function dayText(time: string | number): string {
  return format(day, time);
}

/** "15:32" today, else "17 Nov 15:32". */
export function shortTime(time: string | number, now: number): string {
  const date = new Date(time);
  const isToday = date.toDateString() === new Date(now).toDateString();
  return isToday || !isValid(date) ? clockTime(time) : `${dayText(time)} ${clockTime(time)}`;
}
