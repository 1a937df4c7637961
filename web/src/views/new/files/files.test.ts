import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { TooManyFiles, walkFolder, type Folder } from "@/views/new/files/ignore";
import { hashBytes, hashOf } from "@/views/new/files/hash";
import { asText, readFile, readPicked } from "@/views/new/files/read";
import { batches } from "@/views/new/files/upload";

type Tree = { [name: string]: string | Tree };

/** A folder in memory. `listed` collects the folders that were looked into. */
function folderOf(tree: Tree, listed: string[] = [], path = ""): Folder {
  return {
    list: () => {
      listed.push(path);
      const entries = Object.entries(tree);
      return Promise.resolve({
        files: entries.flatMap(([name, value]) =>
          typeof value === "string" ? [{ name, open: () => Promise.resolve(new File([value], name)) }] : [],
        ),
        folders: entries.flatMap(([name, value]) =>
          typeof value === "string" ? [] : [{ name, folder: folderOf(value, listed, `${path}${name}/`) }],
        ),
      });
    },
  };
}

async function paths(tree: Tree): Promise<string[]> {
  return (await walkFolder(folderOf(tree), 1000)).map((found) => found.path);
}

describe("ignore rules are those of the command line", () => {
  test("caches, environments and repositories are left out, and not even listed", async () => {
    const listed: string[] = [];
    const tree = {
      "train.py": "",
      "a.pyc": "",
      __pycache__: { x: "" },
      ".git": { HEAD: "" },
      ".venv": { y: "" },
      src: { "a.py": "" },
    };
    const found = await walkFolder(folderOf(tree, listed), 1000);
    expect(found.map((each) => each.path)).toEqual(["src/a.py", "train.py"]);
    expect(listed.sort()).toEqual(["", "src/"]);
  });

  test(".gitignore files apply below their folder, and inner ones win", async () => {
    const tree = {
      ".gitignore": "*.log\n/out\ndata/*\n!data/keep.csv\n",
      "a.log": "",
      out: { x: "" },
      src: { out: { y: "" }, ".gitignore": "!b.log\n", "b.log": "", "c.log": "" },
      data: { "keep.csv": "", "big.bin": "" },
    };
    expect(await paths(tree)).toEqual([
      ".gitignore",
      "data/keep.csv",
      "src/.gitignore",
      "src/b.log",
      "src/out/y",
    ]);
  });

  test(".anygpuignore wins over .gitignore and over the defaults", async () => {
    const tree = {
      ".gitignore": "weights.pt\n",
      ".anygpuignore": "!weights.pt\n!.vscode\n*.ckpt\n",
      "weights.pt": "",
      ".vscode": { s: "" },
      "m.ckpt": "",
    };
    expect(await paths(tree)).toEqual([".anygpuignore", ".gitignore", ".vscode/s", "weights.pt"]);
  });

  test("too many files are refused before all are read", async () => {
    const many = Object.fromEntries(Array.from({ length: 20 }, (_, index) => [`f${index}`, ""]));
    await expect(walkFolder(folderOf(many), 10)).rejects.toBeInstanceOf(TooManyFiles);
  });
});

test("a picked folder is the working directory itself", async () => {
  const file = (path: string) =>
    Object.defineProperty(new File(["x"], path.split("/").at(-1) ?? ""), "webkitRelativePath", {
      value: path,
    });
  const found = await readPicked(
    [file("project/train.py"), file("project/lib/a.py"), file("project/.git/HEAD")],
    100,
  );
  expect(found.map((each) => each.path)).toEqual(["lib/a.py", "train.py"]);
});

describe("contents", () => {
  test("the hash is SHA-256, also of a file in several pieces", async () => {
    const bytes = new Uint8Array(3_000_000).fill(7);
    const expected = createHash("sha256").update(bytes).digest("hex");
    expect(hashBytes(bytes)).toBe(expected);
    expect(await hashOf(new Blob([bytes]))).toBe(expected);
  });

  test("text is kept with its line ends and byte order mark; binary files only by their hash", async () => {
    const text = await readFile({ path: "a.py", file: new File(["\ufeffx\r\n"], "a.py") });
    expect(text).toMatchObject({ text: "\ufeffx\r\n", size: 6 });
    const binary = await readFile({ path: "b", file: new File([new Uint8Array([35, 33, 0])], "b") });
    expect(binary).toMatchObject({ text: null, size: 3, executable: true });
    expect(asText(new Uint8Array([0xff, 0xfe]))).toBeNull();
  });

  test("small contents are sent in batches of bounded size", () => {
    const sizes = batches(Array.from({ length: 1200 }, () => ({ size: 10 }))).map((batch) => batch.length);
    expect(sizes).toEqual([500, 500, 200]);
    expect(batches([{ size: 6 << 20 }, { size: 4 << 20 }]).length).toBe(2);
  });
});
