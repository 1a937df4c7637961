/** The draft of a job that is cloned: its spec and, if they are stored, its files. */

import type { Schemas } from "@/api/client";
import {
  EMPTY_FIELDS,
  STRATEGIES,
  emptyDraft,
  scriptOf,
  type Draft,
  type DraftFile,
  type Fields,
  type Mapping,
  type Source,
  type Strategy,
} from "@/views/new/draft";
import { FORMATS, isSame, text, words } from "@/views/new/formats";
import { asMapping, items, valueAt, withValue } from "@/views/new/spec";

/** Places of a spec that the draft has elsewhere than in the form, or that belong to one submission. */
const ELSEWHERE =
  "script command trainer config code idempotency_key resume_from limits.max_cost_microusd limits.deadline_s limits.deadline_at placement.strategy placement.paid".split(
    " ",
  );

export function draftOfJob(spec: Mapping, code: Schemas["JobCode"] | null): Draft {
  const source: Source =
    spec.trainer !== undefined ? "trainer" : spec.command !== undefined ? "command" : "code";
  const files = filesOf(spec, code);
  const limits = asMapping(spec.limits);
  const placement = asMapping(spec.placement);
  const order = orderOf(placement);
  const draft: Draft = {
    ...emptyDraft(),
    source,
    files: files.length > 0 ? files : emptyDraft().files,
    script: text(spec.script),
    command: Array.isArray(spec.command) ? words(spec.command) : text(spec.command),
    trainer: text(spec.trainer),
    settings: asMapping(spec.config),
    ...fieldsAndRest(spec, [
      ...ELSEWHERE,
      ...(files.length > 0 ? ["workdir"] : []),
      ...(order === "" ? [] : ["placement.allowed", "placement.fallbacks"]),
    ]),
    strategy: STRATEGIES.find((each) => each === placement.strategy) ?? ("cheapest" satisfies Strategy),
    order,
    budgetMicrousd: typeof limits.max_cost_microusd === "number" ? limits.max_cost_microusd : null,
    deadlineS: typeof limits.deadline_s === "number" ? limits.deadline_s : null,
    paid: placement.paid === true,
  };
  return { ...draft, open: scriptOf(draft) || (draft.files[0]?.path ?? "") };
}

function filesOf(spec: Mapping, code: Schemas["JobCode"] | null): DraftFile[] {
  if (typeof spec.code === "string") {
    const size = new TextEncoder().encode(spec.code).length;
    return [{ path: "train.py", text: spec.code, size, sha256: null, executable: false }];
  }
  return (code?.files ?? []).map((file) => ({
    path: file.path,
    text: file.text,
    size: file.size,
    sha256: file.sha256,
    executable: file.executable,
    ...(file.link === null ? {} : { link: file.link }),
  }));
}

/** The texts of the form, and the rest of the spec: what the form has no field for, or cannot express. */
function fieldsAndRest(spec: Mapping, elsewhere: readonly string[]): { fields: Fields; base: Mapping } {
  const fields = { ...EMPTY_FIELDS };
  let base = elsewhere.reduce((left, place) => withValue(left, place, undefined), spec);
  for (const { field, place, write } of FORMATS) {
    const value = valueAt(spec, place);
    if (value === undefined) continue;
    const written = write(value);
    fields[field] = written.text;
    base = withValue(base, place, written.rest);
  }
  return { fields, base };
}

/** The order of preference if the field can express it: the fallbacks are all backends that are allowed. */
function orderOf({ strategy, allowed, fallbacks }: Mapping): string {
  if (strategy !== "preferred" || !Array.isArray(fallbacks)) return "";
  const order = fallbacks.map((name) => text(name)).join(", ");
  return isSame(items(order), fallbacks) && isSame(allowed, fallbacks) ? order : "";
}
