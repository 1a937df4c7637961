/** The values of a form for a kind of backend, and the request that they make. */

import type { Schemas } from "@/api/client";

export type BackendOption = Schemas["BackendOption"];

/** What the user typed, by option. An option that is not in it keeps its default. */
export type FormValues = Readonly<Record<string, string | boolean>>;

export function isSwitch(option: BackendOption): boolean {
  return option.type === "true or false";
}

export function isNumber(option: BackendOption): boolean {
  return option.type === "a number" || option.type === "a whole number";
}

export function isList(option: BackendOption): boolean {
  return option.type.startsWith("a list");
}

/** Options that most users need: required ones, credentials, and where machines are. The rest is folded away. */
const COMMON = new Set([
  "host",
  "hosts",
  "regions",
  "profile",
  "project",
  "max_machines",
  "endpoint",
  "access_key_id",
  "unattended",
]);

export function isCommon(option: BackendOption): boolean {
  return option.required || option.secret || COMMON.has(option.name);
}

/** The default as text for a placeholder. */
export function defaultText(option: BackendOption): string {
  const value = option.default;
  if (value === null || value === undefined || value === "") return "";
  if (Array.isArray(value)) return value.join(", ");
  return String(value);
}

/** The request that adds the backend. Fields that the user left empty are not sent. */
export function toRequest(
  name: string,
  kind: string,
  options: readonly BackendOption[],
  values: FormValues,
): Schemas["BackendRequest"] {
  const request: Schemas["BackendRequest"] = {
    name: name.trim(),
    kind,
    options: {},
    credentials: {},
    replace: false,
  };
  for (const option of options) {
    const value = values[option.name];
    if (value === undefined || value === "") continue;
    if (option.secret) request.credentials![option.name] = String(value);
    else request.options![option.name] = parseValue(option, value);
  }
  return request;
}

function parseValue(option: BackendOption, value: string | boolean): unknown {
  if (typeof value === "boolean") return value;
  if (isNumber(option) && Number.isFinite(Number(value))) return Number(value);
  if (isList(option)) {
    return value
      .split(",")
      .map((each) => each.trim())
      .filter(Boolean);
  }
  return value;
}

/** The message for each field of an error answer: `options.regions` belongs to the field `regions`. */
export function fieldErrors(
  problems: { place: string; message: string; suggestion?: string }[],
): Record<string, string> {
  const errors: Record<string, string> = {};
  for (const { place, message, suggestion } of problems) {
    const field = place.split(".").at(-1) ?? place;
    errors[field] = suggestion ? `${message}: ${suggestion}` : message;
  }
  return errors;
}
