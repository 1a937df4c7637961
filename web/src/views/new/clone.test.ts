import { describe, expect, test } from "vitest";
import { draftOfJob } from "@/views/new/clone";
import type { Fields, Mapping } from "@/views/new/draft";
import { quoteWord } from "@/views/new/formats";
import { keptValues, withoutKept } from "@/views/new/kept";
import { isRunnable, planSpec, submitSpec } from "@/views/new/spec";

const PIN = {
  backend: "aws",
  name: "g5.xlarge",
  region: "us-east-1",
  zone: "",
  gpu: "A10G",
  gpus: 1,
  interruptible: true,
  price_microusd_per_hour: 430_000,
};

describe("a cloned job", () => {
  const spec = {
    script: "train.py",
    args: ["--name", "it's me"],
    name: "r50",
    env: { A: "1" },
    image: "pytorch:2",
    resources: { gpu: { kind: "A10G", count: 2 }, disk_gib: 100 },
    limits: { max_cost_microusd: 5_000_000, timeout_s: 3600 },
    placement: { strategy: "fastest", paid: true, region: "us-east-1" },
    workdir: { manifest: "ab", snapshot: true },
  };
  const file = { path: "train.py", size: 1, sha256: "cd", executable: false, link: null, text: "x" };
  const code = { id: "j", stored: true, manifest: "ab", directory: null, files: [file], more_files: 0 };

  /** The spec of the clone of a job after the browser has shown its fields. */
  function again(job: Mapping): Mapping {
    const cloned = draftOfJob(job, code);
    const shown = Object.entries(cloned.fields).map(([name, text]) => [
      name,
      text.replaceAll(/\r\n?/g, "\n"),
    ]);
    return submitSpec({ ...cloned, fields: Object.fromEntries(shown) as Fields }, "ab", false);
  }

  test("keeps what the form does not show, and submits the same spec again", () => {
    const cloned = draftOfJob(spec, code);
    expect(cloned.fields).toMatchObject({
      args: `--name 'it'"'"'s me'`,
      gpu: "A10G:2",
      env: "A=1",
      timeout: "3600s",
    });
    expect(cloned).toMatchObject({
      budgetMicrousd: 5_000_000,
      strategy: "fastest",
      paid: true,
      open: "train.py",
    });
    expect(submitSpec(cloned, "ab", false)).toMatchObject({
      image: "pytorch:2",
      resources: { gpu: "A10G:2", disk_gib: 100 },
      placement: { strategy: "fastest", paid: true, region: "us-east-1" },
    });
  });

  test.each<[string, Mapping]>([
    ["allowed", { strategy: "cheapest", paid: true, allowed: ["aws-eu"] }],
    ["allowed and fallbacks", { strategy: "fastest", paid: true, allowed: ["a", "b"], fallbacks: ["a"] }],
    ["an order", { strategy: "preferred", paid: false, allowed: ["lab", "aws"], fallbacks: ["lab", "aws"] }],
    ["fallbacks only", { strategy: "preferred", paid: false, fallbacks: ["lab", "aws"] }],
    [
      "more allowed than preferred",
      { strategy: "preferred", paid: false, allowed: ["lab", "aws"], fallbacks: ["aws"] },
    ],
    [
      "a chosen offer",
      {
        strategy: "cheapest",
        paid: true,
        allowed: ["ec2"],
        instance_type: "g5.xlarge",
        region: "us-east-1",
        zone: "us-east-1a",
        interruptible: "no",
      },
    ],
    ["others", { strategy: "queue", paid: false, forbidden: ["x"], profile: "lab", dedicated: true }],
  ])("is submitted with the same placement: %s", (_, placement) => {
    expect(again({ script: "train.py", placement }).placement).toEqual(placement);
  });

  test("shows what the form has no field for, and does not keep what was removed", () => {
    const cloned = draftOfJob({ ...spec, placement: { allowed: ["aws-eu"], region: "eu" } }, code);
    expect(keptValues(cloned)).toEqual([
      { place: "image", text: "pytorch:2" },
      { place: "resources.disk_gib", text: "100" },
      { place: "placement.allowed", text: "aws-eu" },
      { place: "placement.region", text: "eu" },
    ]);
    const freed = ["image", "placement.allowed", "placement.region"].reduce(withoutKept, cloned);
    expect(keptValues(freed)).toEqual([{ place: "resources.disk_gib", text: "100" }]);
    expect(planSpec(freed)).not.toHaveProperty("image");
    expect(planSpec(freed).placement).toEqual({ strategy: "cheapest" });
  });

  test("does not show as kept what the form or a chosen offer replaces", () => {
    const kept = { script: "train.py", setup: ["a\nb"], placement: { allowed: ["lab"], region: "eu" } };
    const cloned = draftOfJob(kept, code);
    expect(keptValues(cloned)).toEqual([
      { place: "setup", text: '["a\\nb"]' },
      { place: "placement.allowed", text: "lab" },
      { place: "placement.region", text: "eu" },
    ]);
    const changed = { ...cloned, fields: { ...cloned.fields, setup: "make" }, pin: PIN };
    expect(submitSpec(changed, "ab", true)).toMatchObject({
      setup: ["make"],
      placement: { allowed: ["aws"] },
    });
    expect(keptValues(changed)).toEqual([]);
  });

  const texts = [
    "plain",
    " before",
    "after ",
    "a,b",
    "lr=0.1, wd=0",
    "=",
    "a\nb",
    "a: 1\nb: 2\n",
    "a\r\nb",
    "a\rb",
    "\t",
    "'\"$(id)",
    "\u00a0",
    "requirements.txt",
    "reqs/dev",
  ];
  test.each(texts)("is submitted with the same values: %j", (value) => {
    for (const values of [[value], [value, "last"], ["first", value]]) {
      const lists = { tags: values, setup: values, outputs: values, requirements: values };
      const job = { script: "train.py", ...lists, checkpoint: { paths: values } };
      expect(again(job)).toMatchObject(job);
    }
    expect(again({ script: "train.py", requirements: value }).requirements).toEqual(value);
    const env = { CONFIG: value, EMPTY: "", LAST: "x" };
    expect(again({ script: "train.py", env }).env).toEqual(env);
  });

  test("has the variables that a line can express in the form, and keeps the others", () => {
    const cloned = draftOfJob({ script: "train.py", env: { A: "1", CONFIG: "a: 1\nb: 2" } }, code);
    expect(cloned.fields.env).toBe("A=1");
    expect(keptValues(cloned)).toEqual([{ place: "env.CONFIG", text: "a: 1\nb: 2" }]);
    const changed = { ...cloned, fields: { ...cloned.fields, env: "A=2\nCONFIG=c" } };
    expect(planSpec(changed).env).toEqual({ A: "2", CONFIG: "c" });
  });

  test.each<[string, Mapping, string]>([
    ["args", { args: ["--prompt", "a\nb"] }, "args"],
    ["a stored dataset without version", { dataset: { name: "imagenet" } }, "dataset"],
    ["a path like a version", { dataset: { path: "a@b" } }, "dataset"],
    ["an uploaded dataset", { dataset: { path: "data", parts: ["ab"] } }, "dataset"],
    ["a GPU like a number", { resources: { gpu: { kind: "4090", count: 2 } } }, "resources.gpu"],
    ["a GPU like a size", { resources: { gpu: { kind: "24G" } } }, "resources.gpu"],
  ])("keeps what the server would read differently: %s", (_, more, place) => {
    const job = { script: "train.py", ...more };
    expect(again(job)).toMatchObject(job);
    expect(keptValues(draftOfJob(job, code)).map((each) => each.place)).toEqual([place]);
  });

  test.each<[Mapping, Partial<Fields>]>([
    [{ dataset: { name: "imagenet", version: "3" } }, { dataset: "imagenet@3" }],
    [{ dataset: { url: "s3://b/c" } }, { dataset: "s3://b/c" }],
    [{ resources: { gpu: {} } }, { gpu: "1" }],
    [{ resources: { gpu: { kind: "RTX 4090", memory_gib: 22.5, count: 2 } } }, { gpu: "RTX 4090:22.5GiB:2" }],
    [{ resources: { memory_gib: 1e-7 } }, { memory: "1e-7" }],
  ])("has what the server reads in the same way in the form: %j", (more, fields) => {
    const cloned = draftOfJob({ script: "train.py", ...more }, code);
    expect(cloned.fields).toMatchObject(fields);
    expect(keptValues(cloned)).toEqual([]);
  });

  test("keeps no arguments for a command or a trainer, which have none", () => {
    const cloned = draftOfJob({ script: "train.py", args: ["a\nb"] }, code);
    expect(planSpec({ ...cloned, source: "command", command: "make" })).not.toHaveProperty("args");
  });

  test("without stored files it runs in the directory of the first job", () => {
    const cloned = draftOfJob({ script: "train.py", workdir: { path: "/home/me/job" } }, null);
    expect(isRunnable(cloned)).toBe(true);
    expect(planSpec(cloned)).toMatchObject({ script: "train.py", workdir: { path: "/home/me/job" } });
  });

  test.each([
    ["--epochs", "--epochs"],
    ["a b", "'a b'"],
    ["", "''"],
    ["$(id)", "'$(id)'"],
  ])("the word %j is written as %j", (word, quoted) => {
    expect(quoteWord(word)).toBe(quoted);
  });
});
