/** The settings of runs as flat names and texts, and how they differ. */

type Json = unknown;

/** Fields of a spec that name a run or its files, and say nothing about how it trains. */
const NOT_SETTINGS = new Set([
  "name",
  "tags",
  "notes",
  "idempotency_key",
  "workdir",
  "code",
  "secrets",
  "outputs",
  "notify",
]);

/** Arguments such as `--lr 0.1 --amp --size=160` as names and values. */
export function parseArguments(words: readonly string[]): Record<string, string> {
  const found: Record<string, string> = {};
  let position = 0;
  for (let index = 0; index < words.length; index += 1) {
    const word = words[index]!;
    const option = /^--?([A-Za-z][\w.-]*)(?:=(.*))?$/s.exec(word);
    if (option === null) {
      position += 1;
      found[`argument ${position}`] = word;
      continue;
    }
    const [, name, value] = option;
    const next = words[index + 1];
    const takesNext = value === undefined && next !== undefined && !/^--?[A-Za-z]/.test(next);
    found[name!] = value ?? (takesNext ? next : "yes");
    if (takesNext) index += 1;
  }
  return found;
}

/** The settings of a spec by name. Trainer settings and arguments have their own names, other fields their path. */
export function flattenSettings(spec: Record<string, Json>): Record<string, string> {
  const settings: Record<string, string> = {};
  for (const [field, value] of Object.entries(spec)) {
    if (NOT_SETTINGS.has(field)) continue;
    if (field === "args" && Array.isArray(value)) Object.assign(settings, parseArguments(value.map(String)));
    else if (field === "command") Object.assign(settings, parseCommand(value));
    else flatten(settings, field === "config" ? "" : field, value);
  }
  return settings;
}

function parseCommand(command: Json): Record<string, string> {
  const words = Array.isArray(command) ? command.map(String) : String(command).split(/\s+/).filter(Boolean);
  const first = words.findIndex((word) => word.startsWith("--"));
  const program = first < 0 ? words : words.slice(0, first);
  return { command: program.join(" "), ...(first < 0 ? {} : parseArguments(words.slice(first))) };
}

function flatten(settings: Record<string, string>, path: string, value: Json): void {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) {
    for (const [name, inner] of Object.entries(value))
      flatten(settings, path === "" ? name : `${path}.${name}`, inner);
  } else if (value !== null && value !== undefined) {
    settings[path] = Array.isArray(value) ? value.map(settingText).join(", ") : settingText(value);
  }
}

function settingText(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

export interface ComparedRow {
  name: string;
  /** One text for each run; null if the run has no such setting. */
  texts: (string | null)[];
  equal: boolean;
}

/** A row for each name that one of the runs has, sorted by name. */
export function compareRows(runs: readonly Readonly<Record<string, string>>[]): ComparedRow[] {
  const names = [...new Set(runs.flatMap((run) => Object.keys(run)))].sort();
  return names.map((name) => {
    const texts = runs.map((run) => run[name] ?? null);
    return { name, texts, equal: texts.every((text) => text === texts[0]) };
  });
}
