/** What a cloned job has and the form cannot show: the new job keeps it until the user removes it. */

import type { Draft, Json } from "@/views/new/draft";
import { isSame } from "@/views/new/formats";
import { asMapping, items, submitSpec, valueAt, withValue } from "@/views/new/spec";

export interface KeptValue {
  /** The place in the spec, such as `placement.region`. */
  place: string;
  text: string;
}

/** Sections whose fields can be removed one by one. */
const SECTIONS = new Set(["resources", "limits", "checkpoint", "placement", "env", "secrets", "track"]);

/** Values that are submitted as the cloned job has them. What the form or a chosen offer replaces is not among them. */
export function keptValues(draft: Draft): KeptValue[] {
  const spec = submitSpec(draft, null, false);
  return Object.entries(draft.base)
    .flatMap(([name, value]) =>
      SECTIONS.has(name) ? Object.keys(asMapping(value)).map((key) => `${name}.${key}`) : [name],
    )
    .filter((place) => isSame(valueAt(spec, place), valueAt(draft.base, place)))
    .map((place) => ({ place, text: textOf(valueAt(draft.base, place) ?? null) }));
}

export function withoutKept(draft: Draft, place: string): Draft {
  return { ...draft, base: withValue(draft.base, place, undefined) };
}

function textOf(value: Json): string {
  if (typeof value === "string") return value;
  const joined = Array.isArray(value) ? value.join(", ") : "";
  return joined !== "" && isSame(items(joined), value) ? joined : JSON.stringify(value);
}
