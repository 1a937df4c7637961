/** Find metrics among hundreds: groups by prefix, search, and those that are shown first. */

export const OTHER_GROUP = "other";
export const PINNED_GROUP = "pinned";
export const DEFAULT_PINS = 6;

/** "train/loss" is in the group "train"; a name without a prefix is in "other". */
export function groupOf(name: string): string {
  const end = name.search(/[/:]/);
  return end > 0 ? name.slice(0, end) : OTHER_GROUP;
}

export interface MetricGroup {
  name: string;
  metrics: string[];
}

/** Groups with their metrics. The order is that of the names, "other" last. */
export function groupMetrics(names: readonly string[]): MetricGroup[] {
  const groups = new Map<string, string[]>();
  for (const name of names) {
    const group = groupOf(name);
    groups.set(group, [...(groups.get(group) ?? []), name]);
  }
  return [...groups]
    .map(([name, metrics]) => ({ name, metrics }))
    .sort((a, b) => Number(a.name === OTHER_GROUP) - Number(b.name === OTHER_GROUP));
}

/** The metrics whose names contain every word of the query. */
export function searchMetrics(names: readonly string[], query: string): string[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  return names.filter((name) => words.every((word) => name.toLowerCase().includes(word)));
}

const INTERESTING: readonly [pattern: RegExp, score: number][] = [
  [/loss/, 8],
  [/(^|[/_])(val|valid|eval|test)/, 6],
  [/acc|top1|perplexity|reward|(^|[/_])(map|f1|auc|r2|bleu|rouge|iou)/, 6],
  [/(^|[/_])train/, 3],
  [/(^|[/_])lr$|learning_rate/, 3],
  [/per_s|throughput|norm/, 2],
  [/^epoch$|^step$|time/, -6],
];

/** The metrics that most people look at first: losses, validation results, learning rate. */
export function defaultPins(names: readonly string[]): string[] {
  const score = (name: string) =>
    INTERESTING.reduce((sum, [pattern, points]) => sum + (pattern.test(name.toLowerCase()) ? points : 0), 0);
  return names
    .map((name, place) => ({ name, place, score: score(name) - groupDepth(name) }))
    .sort((a, b) => b.score - a.score || a.place - b.place)
    .slice(0, DEFAULT_PINS)
    .map(({ name }) => name);
}

function groupDepth(name: string): number {
  return name.split("/").length;
}

/** The pinned metrics that a job has, or the default ones. */
export function shownPins(names: readonly string[], pins: readonly string[]): string[] {
  const known = new Set(names);
  const own = pins.filter((name) => known.has(name));
  return own.length > 0 ? own : defaultPins(names);
}

/** The metric that holds epochs, if a script reports one. */
export function epochMetric(names: readonly string[]): string | null {
  return names.find((name) => name === "epoch") ?? names.find((name) => /[/:]epoch$/.test(name)) ?? null;
}

/** The metrics of the view: found by the search, or of the chosen group. */
export function shownMetrics(
  view: { find: string; group: string },
  names: readonly string[],
  groups: readonly MetricGroup[],
  pins: readonly string[],
): readonly string[] {
  if (view.find !== "") return searchMetrics(names, view.find);
  return groups.find((group) => group.name === view.group)?.metrics ?? pins;
}
