/** Which files of a dropped folder belong to the job. The rules are those of `anygpu run`. */

import ignore, { type Ignore } from "ignore";

export const GITIGNORE = ".gitignore";
export const OWN_IGNORE = ".anygpuignore";
const DEFAULT_NAMES = new Set([
  ".git",
  ".hg",
  ".svn",
  "__pycache__",
  ".venv",
  "venv",
  "node_modules",
  ".ipynb_checkpoints",
  ".DS_Store",
  ".mypy_cache",
  ".pytest_cache",
  ".ruff_cache",
  ".tox",
  ".nox",
  ".hypothesis",
  ".idea",
  ".vscode",
  ".anygpu",
]);
const DEFAULT_SUFFIXES = [".pyc", ".pyo", ".swp", ".egg-info"];

/** The rules of one ignore file. They apply to paths below `base`, which is "" or ends with /. */
interface RuleFile {
  base: string;
  rules: Ignore;
}

/** Rules at one folder. Later ones win: defaults, .gitignore, .anygpuignore, both from outer to inner folders. */
export class IgnoreRules {
  constructor(
    private readonly git: readonly RuleFile[] = [],
    private readonly own: readonly RuleFile[] = [],
  ) {}

  /** Return the rules inside a folder. The texts are those of its ignore files, or null. */
  entering(base: string, gitignore: string | null, ownIgnore: string | null): IgnoreRules {
    return new IgnoreRules(withRules(this.git, base, gitignore), withRules(this.own, base, ownIgnore));
  }

  /** Whether a path is left out. A folder's path ends with /. */
  ignores(path: string): boolean {
    for (const files of [this.own, this.git]) {
      for (const file of files.toReversed()) {
        if (!path.startsWith(file.base)) continue;
        const { ignored, unignored } = file.rules.test(path.slice(file.base.length));
        if (ignored || unignored) return ignored;
      }
    }
    const name = path.replace(/\/$/, "").split("/").at(-1) ?? "";
    return DEFAULT_NAMES.has(name) || DEFAULT_SUFFIXES.some((suffix) => name.endsWith(suffix));
  }
}

function withRules(files: readonly RuleFile[], base: string, text: string | null): readonly RuleFile[] {
  if (text === null) return files;
  return [...files, { base, rules: ignore({ allowRelativePaths: true }).add(text) }];
}

/** A folder whose content can be listed, whatever the browser's interface for it is. */
export interface Folder {
  list: () => Promise<Listing>;
}

export interface Listing {
  files: { name: string; open: () => Promise<File> }[];
  folders: { name: string; folder: Folder }[];
}

export interface FoundFile {
  path: string;
  file: File;
}

/** Thrown when a folder has more files than a job may have. */
export class TooManyFiles extends Error {}

/** Return the files of a folder that are not ignored, by path. Ignored folders are not listed at all. */
export async function walkFolder(
  folder: Folder,
  maxFiles: number,
  base = "",
  rules = new IgnoreRules(),
): Promise<FoundFile[]> {
  const found: FoundFile[] = [];
  const waiting: { folder: Folder; base: string; rules: IgnoreRules }[] = [{ folder, base, rules }];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const listing = await next.folder.list();
    const inner = await rulesInside(next.rules, next.base, listing);
    for (const { name, open } of listing.files) {
      const path = next.base + name;
      if (!inner.ignores(path)) found.push({ path, file: await open() });
      if (found.length > maxFiles) throw new TooManyFiles();
    }
    for (const child of listing.folders) {
      const path = `${next.base}${child.name}/`;
      if (!inner.ignores(path)) waiting.push({ folder: child.folder, base: path, rules: inner });
    }
  }
  return found.sort((one, other) => (one.path < other.path ? -1 : 1));
}

async function rulesInside(rules: IgnoreRules, base: string, listing: Listing): Promise<IgnoreRules> {
  const read = async (name: string): Promise<string | null> => {
    const file = listing.files.find((each) => each.name === name);
    return file === undefined ? null : await (await file.open()).text();
  };
  return rules.entering(base, await read(GITIGNORE), await read(OWN_IGNORE));
}
