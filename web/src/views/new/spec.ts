/** The job spec of a draft, the draft of a job spec, and the form field of an error. */

import { scriptOf, type Draft, type FieldName, type Json, type Mapping, type Pin } from "@/views/new/draft";

const WORD = /^[A-Za-z0-9][A-Za-z0-9._/:+-]*$/;

/** The name of a job whose field is empty: that of its script or trainer, as `anygpu run` names it. */
export function defaultName(draft: Draft): string {
  const runs = {
    code: scriptOf(draft),
    trainer: draft.trainer,
    command: draft.command.trim().split(/\s+/)[0] ?? "",
  }[draft.source];
  const file = runs.split(":")[0]?.split("/").at(-1) ?? "";
  const stem = file.replace(/(?<=.)\.[^.]*$/, "");
  const name = stem.replaceAll(/[^A-Za-z0-9._-]+/g, "-").replaceAll(/^[._-]+|[._-]+$/g, "");
  return name === "last" ? "" : name.slice(0, 100);
}

/** Whether the draft is a clone of a job whose files are not stored: it runs in the directory of that job. */
export function keepsDirectory(draft: Draft): boolean {
  return draft.base.workdir !== undefined && draft.files.every((file) => file.text === "");
}

/** Whether the draft says what to run, so that it can be planned. */
export function isRunnable(draft: Draft): boolean {
  if (draft.source === "trainer") return draft.trainer !== "";
  if (draft.source === "command") return draft.command.trim() !== "";
  if (keepsDirectory(draft)) return draft.script !== "";
  const script = draft.files.find((file) => file.path === scriptOf(draft));
  return script !== undefined && (script.text === null || script.text.trim() !== "");
}

/** Whether the job needs the files of the draft. */
export function sendsFiles(draft: Draft): boolean {
  if (keepsDirectory(draft)) return false;
  if (draft.source === "code") return true;
  return draft.files.some((file) => file.text === null || file.text !== "");
}

/** The spec to plan: the job without its uploaded files and without a chosen offer. */
export function planSpec(draft: Draft): Mapping {
  return withoutEmpty({
    ...draft.base,
    ...withoutEmpty(fieldsOf(draft)),
    ...whatToRun(draft),
    placement: merged(draft.base.placement, placementOf(draft)),
    workdir: sendsFiles(draft) ? { snapshot: true } : (draft.base.workdir ?? null),
  });
}

/** The spec to submit. `manifest` is the hash of the uploaded list of files. */
export function submitSpec(draft: Draft, manifest: string | null, pinnedPaid: boolean): Mapping {
  const spec = planSpec(draft);
  const consent = { paid: draft.paid || pinnedPaid };
  const placement = withoutEmpty({
    ...(spec.placement as Mapping | undefined),
    ...consent,
    ...pinned(draft.pin),
  });
  const workdir = manifest === null ? spec.workdir : { manifest, snapshot: true };
  return withoutEmpty({ ...spec, placement, workdir: workdir ?? null });
}

function whatToRun(draft: Draft): Mapping {
  if (draft.source === "trainer") return { trainer: draft.trainer, config: draft.settings, args: null };
  if (draft.source === "command") return { command: draft.command.trim(), args: null };
  const args = draft.fields.args.trim() || (draft.base.args ?? null);
  return { script: keepsDirectory(draft) ? draft.script : scriptOf(draft), args };
}

/** The values of the form. An empty field leaves what a cloned job has there. */
function fieldsOf(draft: Draft): Mapping {
  const { fields, base } = draft;
  return {
    name: fields.name.trim() || defaultName(draft),
    dataset: fields.dataset.trim(),
    tags: items(fields.tags),
    env: { ...asMapping(base.env), ...pairs(fields.env) },
    secrets: { ...asMapping(base.secrets), ...secretsOf(fields.secrets) },
    requirements: requirementsOf(fields.requirements),
    setup: lines(fields.setup),
    outputs: items(fields.outputs),
    python: fields.python.trim(),
    priority: fields.priority.trim(),
    resources: merged(base.resources, {
      gpu: fields.gpu.trim(),
      cpus: fields.cpus.trim(),
      memory: fields.memory.trim(),
    }),
    limits: merged(base.limits, {
      timeout: fields.timeout.trim(),
      max_retries: fields.retries.trim(),
      max_cost_microusd: draft.budgetMicrousd,
      deadline_s: draft.deadlineS,
    }),
    checkpoint: merged(base.checkpoint, {
      paths: items(fields.checkpoint),
      resume_args: fields.resumeArgs.trim(),
    }),
  };
}

function placementOf(draft: Draft): Mapping {
  const order = draft.strategy === "preferred" ? items(draft.order) : [];
  return { strategy: draft.strategy, ...(order.length > 0 ? { allowed: order, fallbacks: order } : {}) };
}

/**
 * The fields that bind a job to one offer. Null clears what the spec has: it may contradict the offer. Machine types
 * that a spec cannot name are left out.
 */
function pinned(pin: Pin | null): Mapping {
  if (pin === null) return {};
  const paid = pin.price_microusd_per_hour > 0;
  return {
    allowed: [pin.backend],
    fallbacks: null,
    instance_type: paid && WORD.test(pin.name) ? pin.name : null,
    region: paid && WORD.test(pin.region) ? pin.region : null,
    zone: paid && WORD.test(pin.zone) ? pin.zone : null,
    interruptible: paid ? (pin.interruptible ? "yes" : "no") : null,
  };
}

function merged(base: Json | undefined, over: Mapping): Mapping {
  return withoutEmpty({ ...asMapping(base), ...withoutEmpty(over) });
}

export function asMapping(value: Json | undefined): Mapping {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? value : {};
}

/** The value at a place of a spec, such as `tags` or `placement.region`. */
export function valueAt(spec: Mapping, place: string): Json | undefined {
  const [name = "", key] = place.split(".");
  return key === undefined ? spec[name] : asMapping(spec[name])[key];
}

/** Return the spec with another value at a place, or without the place. */
export function withValue(spec: Mapping, place: string, value: Json | undefined): Mapping {
  const [name = "", key] = place.split(".");
  const after = key === undefined ? value : withValue(asMapping(spec[name]), key, value);
  if (after !== undefined) return { ...spec, [name]: after };
  return Object.fromEntries(Object.entries(spec).filter(([each]) => each !== name));
}

/** Return the mapping without empty values, which mean the default. */
export function withoutEmpty(mapping: Mapping): Mapping {
  return Object.fromEntries(Object.entries(mapping).filter(([, value]) => !isEmpty(value)));
}

function isEmpty(value: Json): boolean {
  if (value === null || value === "") return true;
  return typeof value === "object" && Object.keys(value).length === 0;
}

/** Split at commas and line breaks. */
export function items(text: string): string[] {
  return text
    .split(/[,\n]/)
    .map((item) => item.trim())
    .filter((item) => item !== "");
}

export function lines(text: string): string[] {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
}

/** Parse lines of KEY=VALUE. A line without = is a key with an empty value, which the server explains. */
export function pairs(text: string): Record<string, string> {
  const entries = lines(text).map((line): [string, string] => {
    const at = line.indexOf("=");
    return at < 0 ? [line, ""] : [line.slice(0, at).trim(), line.slice(at + 1)];
  });
  return Object.fromEntries(entries);
}

export function secretsOf(text: string): Record<string, string> {
  const entries = items(text).map((item): [string, string] => {
    const [variable = "", name] = item.split("=");
    return [variable.trim(), (name ?? variable).trim()];
  });
  return Object.fromEntries(entries);
}

export function requirementsOf(text: string): Json {
  const given = lines(text);
  const isFile = given.length === 1 && /\.(txt|in)$/.test(given[0] ?? "");
  return isFile ? (given[0] ?? "") : given;
}

/** The beginning of the place of an error, and the form field that it is about. */
const PLACES: readonly [string, FieldName | "script" | "command" | "trainer"][] = [
  ["resources.gpu", "gpu"],
  ["resources.cpus", "cpus"],
  ["resources.memory", "memory"],
  ["limits.timeout", "timeout"],
  ["limits.max_retries", "retries"],
  ["checkpoint.paths", "checkpoint"],
  ["checkpoint.resume_args", "resumeArgs"],
  ["name", "name"],
  ["args", "args"],
  ["dataset", "dataset"],
  ["tags", "tags"],
  ["env", "env"],
  ["secrets", "secrets"],
  ["requirements", "requirements"],
  ["setup", "setup"],
  ["outputs", "outputs"],
  ["python", "python"],
  ["priority", "priority"],
  ["script", "script"],
  ["command", "command"],
  ["trainer", "trainer"],
];

/** Return the form field that shows an error at `place` of the spec; `config.x` for a setting of a trainer. */
export function fieldOfPlace(place: string): string | null {
  if (place.startsWith("config.")) return place;
  const match = PLACES.find(
    ([start]) =>
      place === start ||
      place.startsWith(`${start}.`) ||
      place.startsWith(`${start}[`) ||
      place.startsWith(`${start}_`),
  );
  return match?.[1] ?? null;
}
