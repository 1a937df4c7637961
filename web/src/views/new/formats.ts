/** How a cloned job fills the form: the text of each field, and what the text of a field cannot express. */

import type { FieldName, Json, Mapping } from "@/views/new/draft";
import { asMapping, items, lines, pairs, requirementsOf, secretsOf } from "@/views/new/spec";

/** The text of a field, and the part of the value that reading the text would not give again. */
interface Written {
  text: string;
  rest?: Json;
}

interface Format {
  field: FieldName;
  /** Where the spec has the value. */
  place: string;
  write: (value: Json) => Written;
}

const MAX_WORDS_TEXT = 65_536; // the server splits no longer text into words

export const FORMATS: readonly Format[] = [
  { field: "name", place: "name", write: line(text) },
  { field: "args", place: "args", write: line(words) },
  { field: "dataset", place: "dataset", write: whole(datasetText, datasetOf) },
  { field: "gpu", place: "resources.gpu", write: whole(gpuText, gpuOf) },
  { field: "cpus", place: "resources.cpus", write: line(text) },
  { field: "memory", place: "resources.memory_gib", write: line((value) => quantity(value, "GiB")) },
  { field: "tags", place: "tags", write: whole(commas, items) },
  { field: "timeout", place: "limits.timeout_s", write: line((value) => quantity(value, "s")) },
  { field: "retries", place: "limits.max_retries", write: line(text) },
  { field: "env", place: "env", write: entries(pairs) },
  { field: "secrets", place: "secrets", write: entries(secretsOf) },
  { field: "requirements", place: "requirements", write: whole(lineTexts, requirementsOf) },
  { field: "setup", place: "setup", write: whole(lineTexts, lines) },
  { field: "checkpoint", place: "checkpoint.paths", write: whole(commas, items) },
  { field: "resumeArgs", place: "checkpoint.resume_args", write: line(words) },
  { field: "outputs", place: "outputs", write: whole(commas, items) },
  { field: "python", place: "python", write: line(text) },
  { field: "priority", place: "priority", write: line(text) },
];

/** A value that its text expresses unless that has more than one line, or spaces around it. */
function line(write: (value: Json) => string): Format["write"] {
  return (value) => {
    const written = write(value);
    const fits = written === written.trim() && !/[\r\n]/.test(written) && written.length <= MAX_WORDS_TEXT;
    return fits ? { text: written } : { text: "", rest: value };
  };
}

/** A value that its text expresses if reading the text gives the same value. */
function whole(write: (value: Json) => string, read: (text: string) => Json): Format["write"] {
  return (value) => {
    const written = write(value);
    return isSame(readAsShown(read, written), value) ? { text: written } : { text: "", rest: value };
  };
}

/** A mapping with one line for each entry that a line can express. */
function entries(read: (text: string) => Mapping): Format["write"] {
  return (value) => {
    const all = Object.entries(asMapping(value));
    const lineOf = ([key, each]: [string, Json]) => `${key}=${text(each)}`;
    const fits = (entry: [string, Json]) =>
      isSame(readAsShown(read, lineOf(entry)), Object.fromEntries([entry]));
    const rest = Object.fromEntries(all.filter((entry) => !fits(entry)));
    return {
      text: all.filter(fits).map(lineOf).join("\n"),
      ...(Object.keys(rest).length > 0 ? { rest } : {}),
    };
  };
}

/** Read a text as the browser gives it back: its fields have no other line breaks than \n. */
function readAsShown<T>(read: (text: string) => T, written: string): T {
  return read(written.replaceAll(/\r\n?/g, "\n"));
}

export function isSame(one: Json | undefined, other: Json | undefined): boolean {
  if (typeof one !== "object" || typeof other !== "object" || one === null || other === null) {
    return one === other;
  }
  const [left, right] = [Object.entries(one), new Map(Object.entries(other))];
  return (
    Array.isArray(one) === Array.isArray(other) &&
    left.length === right.size &&
    left.every(([key, value]) => right.has(key) && isSame(value, right.get(key)))
  );
}

export function text(value: Json | undefined): string {
  return value === undefined || value === null || typeof value === "object" ? "" : String(value);
}

function list(value: Json): string[] {
  return Array.isArray(value) ? value.map((each) => text(each)) : [];
}

function commas(value: Json): string {
  return list(value).join(", ");
}

function lineTexts(value: Json): string {
  return typeof value === "string" ? value : list(value).join("\n");
}

export function words(value: Json): string {
  return list(value).map(quoteWord).join(" ");
}

/** Quote a word for the field of arguments, which is split as a shell does. */
export function quoteWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`;
}

/** A number with its unit. The server reads exponents only without a unit. */
function quantity(value: Json, unit: string): string {
  return text(value).includes("e") ? text(value) : `${text(value)}${unit}`;
}

function gpuText(value: Json): string {
  const gpu = asMapping(value);
  const memory = gpu.memory_gib === undefined ? "" : `${text(gpu.memory_gib)}GiB`;
  const parts = [text(gpu.kind), memory, text(gpu.count)].filter((part) => part !== "");
  return parts.join(":") || "1";
}

/** The GPUs that a text of `gpuText` requests, as the server reads it. One GPU is the default. */
function gpuOf(written: string): Mapping {
  const gpu: Mapping = {};
  for (const part of written.split(":").map((each) => each.trim())) {
    if (part === "1") continue;
    if (/^\d{1,9}$/.test(part)) gpu.count = Number(part);
    else if (/^[\d.]+GiB$/.test(part)) gpu.memory_gib = Number(part.slice(0, -"GiB".length));
    else if (!/^[\d.]+\s*[kmgtp]i?b?$/i.test(part)) gpu.kind = part;
  }
  return gpu;
}

function datasetText(value: Json): string {
  const { path, url, name, version } = asMapping(value);
  return text(path) || text(url) || [text(name), text(version)].filter(Boolean).join("@");
}

/** The dataset that a text names, as the server reads it. */
function datasetOf(written: string): Mapping {
  const trimmed = written.trim();
  if (trimmed.includes("://")) return { url: trimmed };
  const [, name, version] = /^([A-Za-z0-9][\w./-]*)@([A-Za-z0-9][\w.-]*)$/.exec(trimmed) ?? [];
  return name === undefined || version === undefined ? { path: trimmed } : { name, version };
}
