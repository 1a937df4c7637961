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
  type Json,
  type Mapping,
  type Source,
  type Strategy,
} from "@/views/new/draft";

/** Fields of a spec that the form shows or that belong to one submission. The others are kept as they are. */
const SHOWN = new Set(
  "script args command trainer config code name tags env secrets workdir setup requirements python dataset outputs checkpoint resources limits placement priority idempotency_key resume_from".split(
    " ",
  ),
);

export function draftOfJob(spec: Mapping, code: Schemas["JobCode"] | null): Draft {
  const source: Source =
    spec.trainer !== undefined ? "trainer" : spec.command !== undefined ? "command" : "code";
  const files = filesOf(spec, code);
  const section = (name: string): Mapping => asMapping(spec[name]);
  const limits = section("limits");
  const placement = section("placement");
  const draft: Draft = {
    ...emptyDraft(),
    source,
    files: files.length > 0 ? files : emptyDraft().files,
    script: text(spec.script),
    command: Array.isArray(spec.command)
      ? spec.command.map((word) => quoteWord(text(word))).join(" ")
      : text(spec.command),
    trainer: text(spec.trainer),
    settings: section("config"),
    fields: fieldsOf(spec),
    strategy: STRATEGIES.find((each) => each === placement.strategy) ?? ("cheapest" satisfies Strategy),
    order: placement.strategy === "preferred" ? list(placement.fallbacks).join(", ") : "",
    budgetMicrousd: typeof limits.max_cost_microusd === "number" ? limits.max_cost_microusd : null,
    deadlineS: typeof limits.deadline_s === "number" ? limits.deadline_s : null,
    paid: placement.paid === true,
    base: baseOf(spec, files.length > 0),
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

function fieldsOf(spec: Mapping): Fields {
  const resources = asMapping(spec.resources);
  const limits = asMapping(spec.limits);
  const checkpoint = asMapping(spec.checkpoint);
  return {
    ...EMPTY_FIELDS,
    name: text(spec.name),
    args: list(spec.args).map(quoteWord).join(" "),
    dataset: datasetText(spec.dataset),
    gpu: gpuText(resources.gpu),
    cpus: text(resources.cpus),
    memory: resources.memory_gib === undefined ? "" : `${text(resources.memory_gib)}GiB`,
    tags: list(spec.tags).join(", "),
    timeout: limits.timeout_s === undefined ? "" : `${text(limits.timeout_s)}s`,
    retries: text(limits.max_retries),
    env: pairLines(spec.env),
    secrets: pairLines(spec.secrets),
    requirements:
      typeof spec.requirements === "string" ? spec.requirements : list(spec.requirements).join("\n"),
    setup: list(spec.setup).join("\n"),
    checkpoint: list(checkpoint.paths).join(", "),
    resumeArgs: list(checkpoint.resume_args).map(quoteWord).join(" "),
    outputs: list(spec.outputs).join(", "),
    python: text(spec.python),
    priority: text(spec.priority),
  };
}

/** Return what the form does not show. A job whose files are not stored keeps its working directory. */
function baseOf(spec: Mapping, hasFiles: boolean): Mapping {
  const rest = Object.fromEntries(Object.entries(spec).filter(([name]) => !SHOWN.has(name)));
  const resources = without(spec.resources, ["gpu", "cpus", "memory_gib"]);
  const limits = without(spec.limits, [
    "timeout_s",
    "max_retries",
    "max_cost_microusd",
    "deadline_s",
    "deadline_at",
  ]);
  const checkpoint = without(spec.checkpoint, ["paths", "resume_args"]);
  const placement = without(spec.placement, ["strategy", "paid", "fallbacks", "allowed"]);
  const workdir: Mapping = hasFiles || spec.workdir === undefined ? {} : { workdir: spec.workdir };
  return { ...rest, resources, limits, checkpoint, placement, ...workdir };
}

function without(section: Json | undefined, names: readonly string[]): Mapping {
  return Object.fromEntries(Object.entries(asMapping(section)).filter(([name]) => !names.includes(name)));
}

function asMapping(value: Json | undefined): Mapping {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? value : {};
}

function text(value: Json | undefined): string {
  return value === undefined || value === null || typeof value === "object" ? "" : String(value);
}

function list(value: Json | undefined): string[] {
  return Array.isArray(value) ? value.map((each) => text(each)) : [];
}

/** Quote a word for the field of arguments, which is split as a shell does. */
export function quoteWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`;
}

function pairLines(value: Json | undefined): string {
  return Object.entries(asMapping(value))
    .map(([key, each]) => `${key}=${text(each)}`)
    .join("\n");
}

function gpuText(value: Json | undefined): string {
  const gpu = asMapping(value);
  if (value === undefined || value === null) return "";
  const memory = gpu.memory_gib === undefined ? "" : `${text(gpu.memory_gib)}GiB`;
  const parts = [text(gpu.kind), memory, text(gpu.count)].filter((part) => part !== "");
  return parts.join(":") || "1";
}

function datasetText(value: Json | undefined): string {
  const dataset = asMapping(value);
  const version = text(dataset.version);
  return text(dataset.path) || text(dataset.url) || [text(dataset.name), version].filter(Boolean).join("@");
}
