/** The options of the charts on a page. They are search parameters of the URL, so that a link shows the same. */

import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback, useMemo } from "react";
import type { HorizontalAxis } from "@/charts/lines";
import { PINNED_GROUP } from "@/charts/metric-groups";
import { MAX_PINS } from "@/charts/pins";

export interface ChartView {
  group: string;
  find: string;
  /** 0 to 0.99 */
  smoothing: number;
  axis: HorizontalAxis;
  logScale: boolean;
  zoom: readonly [number, number] | null;
  /** Ids of hidden lines: numbers of attempts, or ids of jobs. */
  hidden: ReadonlySet<string>;
  /** The enlarged chart. */
  chart: string | null;
  /** The pinned metrics of a link; null: those of this browser. */
  pins: readonly string[] | null;
}

export const DEFAULT_SMOOTHING = 0.6;
const MAX_SMOOTHING = 0.99;

type Search = Record<string, unknown>;

function text(value: unknown): string {
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
}

export function parseChartView(search: Search): ChartView {
  const smoothing = search.smooth === undefined ? DEFAULT_SMOOTHING : Number(search.smooth);
  const axis = search.axis === "epoch" || search.axis === "time" ? search.axis : "step";
  return {
    group: text(search.group) || PINNED_GROUP,
    find: text(search.metrics),
    smoothing: Number.isFinite(smoothing)
      ? Math.min(MAX_SMOOTHING, Math.max(0, smoothing))
      : DEFAULT_SMOOTHING,
    axis,
    logScale: search.scale === "log",
    zoom: parseZoom(text(search.zoom)),
    hidden: new Set(text(search.hide).split(",").filter(Boolean)),
    chart: text(search.chart) || null,
    pins: Array.isArray(search.pins) ? search.pins.map(text).filter(Boolean).slice(0, MAX_PINS) : null,
  };
}

/** "100~250" is the range from 100 to 250. */
export function parseZoom(value: string): readonly [number, number] | null {
  const [from, to, more] = value.split("~").map(Number);
  if (from === undefined || to === undefined || more !== undefined) return null;
  return Number.isFinite(from) && Number.isFinite(to) && from < to ? [from, to] : null;
}

/** A zoom for the URL, with as many digits as the range needs. */
export function formatZoom(from: number, to: number): string {
  const digits = Math.max(0, 3 - Math.floor(Math.log10(to - from)));
  const rounded = (value: number) => String(Number(value.toFixed(Math.min(digits, 12))));
  return `${rounded(from)}~${rounded(to)}`;
}

/** A text of digits as a number, because the router writes such a text with quotation marks. */
function unquoted(text: string): string | number {
  return /^[1-9]\d{0,14}$/.test(text) ? Number(text) : text;
}

/** The search parameters of a changed view. A value that is the default is not in the URL. */
export function chartSearch(change: Partial<ChartView>): Search {
  const search: Search = {};
  if (change.group !== undefined) search.group = change.group === PINNED_GROUP ? undefined : change.group;
  if (change.find !== undefined) search.metrics = unquoted(change.find) || undefined;
  if (change.smoothing !== undefined)
    search.smooth = change.smoothing === DEFAULT_SMOOTHING ? undefined : change.smoothing;
  if (change.axis !== undefined) search.axis = change.axis === "step" ? undefined : change.axis;
  if (change.logScale !== undefined) search.scale = change.logScale ? "log" : undefined;
  if (change.zoom !== undefined) search.zoom = change.zoom === null ? undefined : formatZoom(...change.zoom);
  if (change.hidden !== undefined) search.hide = unquoted([...change.hidden].join(",")) || undefined;
  if (change.chart !== undefined) search.chart = change.chart ?? undefined;
  if (change.pins !== undefined) search.pins = change.pins ?? undefined;
  return search;
}

/** The view in the URL, and a function that changes it. */
export function useChartView(): [ChartView, (change: Partial<ChartView>) => void] {
  const search = useSearch({ strict: false });
  const navigate = useNavigate();
  const view = useMemo(() => parseChartView(search), [search]);
  const change = useCallback(
    (part: Partial<ChartView>) =>
      void navigate({
        to: ".",
        search: (before: Search) => ({ ...before, ...chartSearch(part) }),
        replace: true,
        resetScroll: false,
      }),
    [navigate],
  );
  return [view, change];
}
