/** The draft of a job: what the page edits. */

import type { Schemas } from "@/api/client";

export type Source = "code" | "trainer" | "command";
export type Strategy = "cheapest" | "fastest" | "balanced" | "preferred" | "queue";
export type Json = string | number | boolean | null | Json[] | { [key: string]: Json };
export type Mapping = Record<string, Json>;

export const SOURCES: readonly Source[] = ["code", "trainer", "command"];
export const STRATEGIES: readonly Strategy[] = ["cheapest", "fastest", "balanced", "preferred", "queue"];

/** A file of the working directory. `text` is null for a file that the editor does not show. */
export interface DraftFile {
  path: string;
  text: string | null;
  size: number;
  /** Hash of the content, known for files without text. */
  sha256: string | null;
  executable: boolean;
  /** Target of a symbolic link, for files of a cloned job. */
  link?: string;
}

/** The offer that the user chose. The job runs only there. */
export type Pin = Pick<
  Schemas["PlannedOffer"],
  "backend" | "name" | "region" | "zone" | "gpu" | "gpus" | "interruptible" | "price_microusd_per_hour"
>;

export interface Draft {
  source: Source;
  files: DraftFile[];
  /** Path of the file in the editor. */
  open: string;
  /** Path of the file that runs; empty: chosen by its name. */
  script: string;
  command: string;
  trainer: string;
  settings: Mapping;
  fields: Fields;
  strategy: Strategy;
  /** Backends in the order of preference, for the strategy `preferred`. */
  order: string;
  budgetMicrousd: number | null;
  deadlineS: number | null;
  paid: boolean;
  pin: Pin | null;
  /** What the form cannot show of a cloned job. The new job keeps it. */
  base: Mapping;
}

/** Fields of the form, as the user wrote them. */
export interface Fields {
  name: string;
  args: string;
  dataset: string;
  gpu: string;
  cpus: string;
  memory: string;
  tags: string;
  timeout: string;
  retries: string;
  env: string;
  secrets: string;
  requirements: string;
  setup: string;
  checkpoint: string;
  resumeArgs: string;
  outputs: string;
  python: string;
  priority: string;
}

export type FieldName = keyof Fields;

export const EMPTY_FIELDS: Fields = {
  name: "",
  args: "",
  dataset: "",
  gpu: "",
  cpus: "",
  memory: "",
  tags: "",
  timeout: "",
  retries: "",
  env: "",
  secrets: "",
  requirements: "",
  setup: "",
  checkpoint: "",
  resumeArgs: "",
  outputs: "",
  python: "",
  priority: "",
};

export const FIRST_FILE = "train.py";

export function textFile(path: string, text: string): DraftFile {
  const size = new TextEncoder().encode(text).length;
  return { path, text, size, sha256: null, executable: text.startsWith("#!") };
}

export function emptyDraft(): Draft {
  return {
    source: "code",
    files: [textFile(FIRST_FILE, "")],
    open: FIRST_FILE,
    script: "",
    command: "",
    trainer: "",
    settings: {},
    fields: EMPTY_FIELDS,
    strategy: "cheapest",
    order: "",
    budgetMicrousd: null,
    deadlineS: null,
    paid: false,
    pin: null,
    base: {},
  };
}

/** Names of scripts that usually start a training, best first. */
const USUAL_SCRIPTS = ["train.py", "main.py", "run.py"];

/** Return the path of the file that the job runs; empty if there is no Python file. */
export function scriptOf(draft: Draft): string {
  const python = draft.files.filter((file) => file.path.endsWith(".py")).map((file) => file.path);
  if (python.includes(draft.script)) return draft.script;
  return USUAL_SCRIPTS.find((name) => python.includes(name)) ?? python[0] ?? "";
}

/** Return the draft with a file added, or replaced if there is one with this path. */
export function withFile(draft: Draft, file: DraftFile): Draft {
  const others = draft.files.filter((each) => each.path !== file.path);
  const files = [...others, file].sort((one, other) => (one.path < other.path ? -1 : 1));
  return { ...draft, files };
}

/** Return the draft with files added. A first file that is still empty makes room for them. */
export function withFiles(draft: Draft, added: readonly DraftFile[]): Draft {
  if (added.length === 0) return draft;
  const kept = draft.files.filter((file) => !(file.path === FIRST_FILE && file.text === ""));
  const next = added.reduce(withFile, { ...draft, files: kept });
  const opened = scriptOf(next) || (next.files.find((file) => file.text !== null)?.path ?? "");
  return { ...next, open: kept.some((file) => file.path === draft.open) ? draft.open : opened };
}

export function withText(draft: Draft, path: string, text: string): Draft {
  const file = draft.files.find((each) => each.path === path);
  if (file === undefined || file.text === text) return draft;
  return withFile(draft, { ...textFile(path, text), executable: file.executable || text.startsWith("#!") });
}

export function withoutFile(draft: Draft, path: string): Draft {
  const files = draft.files.filter((file) => file.path !== path);
  const left = files.length > 0 ? files : [textFile(FIRST_FILE, "")];
  const open = draft.open === path ? (left.find((file) => file.text !== null)?.path ?? "") : draft.open;
  return { ...draft, files: left, open };
}

/** Say why a path cannot be used, or return an empty text. The server has the same rules. */
export function pathProblem(draft: Draft, path: string, renamed: string | null = null): string {
  const parts = path.split("/");
  if (path.trim() === "") return "Write a path, such as data/load.py.";
  if (path.includes("\\") || parts.some((part) => part === "" || part === "." || part === ".."))
    return "Write a path inside the working directory, with / between its parts.";
  const others = draft.files.map((file) => file.path).filter((each) => each !== renamed);
  if (others.includes(path)) return "There is a file with this path.";
  if (others.some((each) => each.startsWith(`${path}/`) || path.startsWith(`${each}/`)))
    return "A file cannot also be a folder.";
  return "";
}

export function withRenamed(draft: Draft, from: string, to: string): Draft {
  const files = draft.files.map((file) => (file.path === from ? { ...file, path: to } : file));
  return {
    ...draft,
    files: files.sort((one, other) => (one.path < other.path ? -1 : 1)),
    open: draft.open === from ? to : draft.open,
    script: draft.script === from ? to : draft.script,
  };
}

export function totalSize(files: readonly DraftFile[]): number {
  return files.reduce((sum, file) => sum + file.size, 0);
}

/** Say whether two drafts are of the same job. */
export function isSameDraft(one: Draft, other: Draft): boolean {
  return one === other || JSON.stringify(one) === JSON.stringify(other);
}
