/** The values of a form for a kind of backend, and the request that they make. */

import type { Schemas } from "@/api/client";
import { sentenceCase } from "@/lib/format";

type BackendKind = Schemas["BackendKindDetails"];
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

/** Lists whose entries may contain commas, so each entry has its own line. */
const LINE_LISTS = new Set(["setup", "sbatch_options", "host_keys"]);
/** Texts with several lines, which a field of one line would join. */
const LONG_TEXTS = new Set(["private_key", "kubeconfig", "certificate_authority", "headers"]);

/** Whether the value has lines, as a key, a file or a list of commands has. */
export function hasLines(option: BackendOption): boolean {
  return LONG_TEXTS.has(option.name) || (isList(option) && LINE_LISTS.has(option.name));
}

/** The options that most users need, by kind and in this order. Other kinds have `COMMON`. */
const FIRST: Readonly<Record<string, readonly string[]>> = {
  slurm: ["host", "account", "private_key", "partitions", "directory", "setup"],
  kubernetes: ["kubeconfig", "context", "namespace", "image", "image_pull_secrets"],
  celery: ["broker", "queue", "username", "password"],
  ray: ["address", "token"],
  ssh: ["host", "hosts", "private_key"],
};

/** Options that most users need of a cloud: required ones, credentials, and where machines are. */
const COMMON = new Set([
  "regions",
  "profile",
  "project",
  "max_machines",
  "endpoint",
  "access_key_id",
  "unattended",
]);

interface FormFields {
  first: readonly BackendOption[];
  /** What is folded away. */
  more: readonly BackendOption[];
}

export function formFields({ name, options }: BackendKind): FormFields {
  const names = FIRST[name];
  const isFirst = (option: BackendOption) =>
    option.required || (names === undefined && (option.secret || COMMON.has(option.name)));
  const chosen = (names ?? []).flatMap((each) => options.filter((option) => option.name === each));
  const first = [...chosen, ...options.filter((option) => isFirst(option) && !chosen.includes(option))];
  const rest = options.filter((option) => !first.includes(option));
  // Fields of the whole width come last, so that the two columns before them have no gaps.
  return { first, more: [...rest.filter((each) => !hasLines(each)), ...rest.filter(hasLines)] };
}

/** Kinds that are machines or engines of one's own; all others are clouds. */
const OWN_KINDS = ["ssh", "slurm", "kubernetes", "celery", "ray"];

/** The kinds in groups, in the order of the select field. */
export function groupKinds(kinds: readonly BackendKind[]): [string, readonly BackendKind[]][] {
  const own = OWN_KINDS.flatMap((name) => kinds.filter((kind) => kind.name === name));
  return [
    ["Your own machines and clusters", own],
    ["Clouds", kinds.filter((kind) => !own.includes(kind))],
  ];
}

const LABELS: Readonly<Record<string, string>> = {
  price_microusd_per_hour: "Price per hour (micro-dollars)",
  prices_microusd_per_hour: "Prices per hour (micro-dollars)",
  gpu_prices: "Prices by GPU",
  max_price_microusd_per_hour: "Highest price per hour (micro-dollars)",
  sbatch_options: "Options of sbatch",
  gres: "Generic resource (gres)",
  verify_tls: "Verify TLS",
  kubeconfig_path: "Kubeconfig file on the server",
  identity: "Key file on the server",
};
const WORDS: Readonly<Record<string, string>> = {
  api: "API",
  ca: "CA",
  cpus: "CPUs",
  gpu: "GPU",
  id: "ID",
  qos: "QoS",
  ssh: "SSH",
  tls: "TLS",
  url: "URL",
};
const UNITS: Readonly<Record<string, string>> = { s: "(seconds)", gib: "(GiB)" };

/** The name of an option as a label: `ssh_port` is "SSH port", `lease_s` is "Lease (seconds)". */
export function optionLabel({ name }: Pick<BackendOption, "name">): string {
  const words = name.split("_").map((word) => WORDS[word] ?? word);
  const unit = UNITS[words.at(-1) ?? ""];
  const text = unit === undefined || words.length === 1 ? words : [...words.slice(0, -1), unit];
  return LABELS[name] ?? sentenceCase(text.join(" "));
}

/** What the option does, and how to write several values. */
export function optionHelp(option: BackendOption): string {
  const about = sentenceCase(option.about);
  if (!isList(option)) return about;
  return `${about}; ${hasLines(option) ? "one per line" : "separate several with commas"}`;
}

export function hasChoices(option: BackendOption): boolean {
  return (option.choices ?? []).length > 0;
}

/** The choice as the select field shows it. */
export function choiceText(option: BackendOption, choice: string): string {
  const text = choice === "" ? "empty" : choice;
  return choice === (option.default ?? "") ? `${text} (default)` : text;
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
    if (value === undefined || isDefault(option, value)) continue;
    if (option.secret) request.credentials![option.name] = String(value);
    else request.options![option.name] = parseValue(option, value);
  }
  return request;
}

/** An empty field keeps the default. A choice may be empty although the default is not. */
function isDefault(option: BackendOption, value: string | boolean): boolean {
  return hasChoices(option) ? value === (option.default ?? "") : value === "";
}

function parseValue(option: BackendOption, value: string | boolean): unknown {
  if (typeof value === "boolean") return value;
  if (isNumber(option) && Number.isFinite(Number(value))) return Number(value);
  if (isList(option)) {
    return value
      .split(hasLines(option) ? "\n" : ",")
      .map((each) => each.trim())
      .filter(Boolean);
  }
  return value;
}

/** The message for each field of an error answer: `options.regions.0` belongs to the field `regions`. */
export function fieldErrors(
  problems: { place: string; message: string; suggestion?: string }[],
): Record<string, string> {
  const errors: Record<string, string> = {};
  for (const { place, message, suggestion } of problems) {
    const [head = place, option] = place.split(".");
    const field = option !== undefined && (head === "options" || head === "credentials") ? option : head;
    errors[field] ??= suggestion ? `${message}: ${suggestion}` : message;
  }
  return errors;
}
