import { describe, expect, test } from "vitest";
import { EMPTY_FIELDS, emptyDraft, textFile, type Draft, type Fields } from "@/views/new/draft";
import { defaultName, fieldOfPlace, planSpec, submitSpec } from "@/views/new/spec";

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

function draft(more: Partial<Draft> = {}, fields: Partial<Fields> = {}): Draft {
  const files = [textFile("train.py", "print(1)\n")];
  return { ...emptyDraft(), files, ...more, fields: { ...EMPTY_FIELDS, ...fields } };
}

describe("the spec of a draft", () => {
  test("has only what was given, and the name of the script", () => {
    expect(planSpec(draft())).toEqual({
      script: "train.py",
      name: "train",
      placement: { strategy: "cheapest" },
      workdir: { snapshot: true },
    });
  });

  test("has every field of the form", () => {
    const fields = {
      name: "r50",
      args: "--epochs 30",
      dataset: "imagenet@3",
      gpu: "A10G:2",
      cpus: "4",
      memory: "16GiB",
      tags: "a, b",
      timeout: "6h",
      retries: "5",
      env: "A=1\nB=x=y",
      secrets: "HF_TOKEN, KEY=prod/key",
      requirements: "timm\ntorch",
      setup: "make data",
      checkpoint: "ckpt/*.pt",
      resumeArgs: "--resume {path}",
      outputs: "runs/**",
      python: "3.11",
      priority: "7",
    };
    expect(planSpec(draft({ budgetMicrousd: 12_000_000, deadlineS: 50_400 }, fields))).toEqual({
      script: "train.py",
      args: "--epochs 30",
      name: "r50",
      dataset: "imagenet@3",
      tags: ["a", "b"],
      env: { A: "1", B: "x=y" },
      secrets: { HF_TOKEN: "HF_TOKEN", KEY: "prod/key" },
      requirements: ["timm", "torch"],
      setup: ["make data"],
      outputs: ["runs/**"],
      python: "3.11",
      priority: "7",
      resources: { gpu: "A10G:2", cpus: "4", memory: "16GiB" },
      limits: { timeout: "6h", max_retries: "5", max_cost_microusd: 12_000_000, deadline_s: 50_400 },
      checkpoint: { paths: ["ckpt/*.pt"], resume_args: "--resume {path}" },
      placement: { strategy: "cheapest" },
      workdir: { snapshot: true },
    });
  });

  test("a requirements file is a path, packages are a list", () => {
    expect(planSpec(draft({}, { requirements: "requirements.txt" })).requirements).toBe("requirements.txt");
    expect(planSpec(draft({}, { requirements: "timm" })).requirements).toEqual(["timm"]);
  });

  test("paid machines are allowed only by the switch or by a chosen offer", () => {
    const consent = (more: Partial<Draft>, pinned = false) =>
      (submitSpec(draft(more), "ab", pinned).placement as { paid: boolean }).paid;
    expect(consent({})).toBe(false);
    expect(consent({ budgetMicrousd: 5_000_000, strategy: "fastest" })).toBe(false);
    expect(consent({ paid: true })).toBe(true);
    expect(consent({ pin: PIN }, true)).toBe(true);
  });

  test("a chosen offer binds the job to it, but does not change what is planned", () => {
    const spec = submitSpec(draft({ pin: PIN }), "ab", true);
    expect(spec.placement).toEqual({
      strategy: "cheapest",
      paid: true,
      allowed: ["aws"],
      instance_type: "g5.xlarge",
      region: "us-east-1",
      interruptible: "yes",
    });
    expect(spec.workdir).toEqual({ manifest: "ab", snapshot: true });
    expect(planSpec(draft({ pin: PIN })).placement).toEqual({ strategy: "cheapest" });
  });

  test("a chosen offer replaces an order of preference and the machine that a cloned job was bound to", () => {
    const preferred = draft({ strategy: "preferred", order: "lab, aws", pin: PIN });
    expect(submitSpec(preferred, "ab", true).placement).toEqual({
      strategy: "preferred",
      paid: true,
      allowed: ["aws"],
      instance_type: "g5.xlarge",
      region: "us-east-1",
      interruptible: "yes",
    });
    const base = {
      placement: { fallbacks: ["lab"], instance_type: "a", region: "b", zone: "c", interruptible: "no" },
    };
    const own = { ...PIN, backend: "local", price_microusd_per_hour: 0 };
    expect(submitSpec(draft({ base, pin: own }), "ab", false).placement).toEqual({
      strategy: "cheapest",
      paid: false,
      allowed: ["local"],
    });
  });

  test("a machine type that a spec cannot name is left out", () => {
    const pin = { ...PIN, name: "NVIDIA RTX A4000" };
    expect(submitSpec(draft({ pin }), "ab", true).placement).not.toHaveProperty("instance_type");
  });

  test("a preferred order is the list of allowed backends", () => {
    expect(planSpec(draft({ strategy: "preferred", order: "lab, aws" })).placement).toEqual({
      strategy: "preferred",
      allowed: ["lab", "aws"],
      fallbacks: ["lab", "aws"],
    });
  });

  test("a trainer has its settings and no files", () => {
    const spec = planSpec(
      draft({ source: "trainer", trainer: "tabular", settings: { target: "y" }, files: emptyDraft().files }),
    );
    expect(spec).toMatchObject({ trainer: "tabular", config: { target: "y" }, name: "tabular" });
    expect(spec).not.toHaveProperty("workdir");
    expect(spec).not.toHaveProperty("script");
  });
});

describe("names", () => {
  test.each([
    [{ files: [textFile("src/my train.py", "x")] }, "my-train"],
    [{ source: "command" as const, command: "./run me.sh" }, "run"],
    [{ source: "trainer" as const, trainer: "./mine.py:Mine" }, "mine"],
    [{ files: [textFile("last.py", "x")] }, ""],
  ])("%# the default name is that of the command line", (more, name) => {
    expect(defaultName(draft(more))).toBe(name);
  });
});

test("errors of the server belong to fields of the form", () => {
  expect(fieldOfPlace("resources.gpu.kind")).toBe("gpu");
  expect(fieldOfPlace("resources.memory_gib")).toBe("memory");
  expect(fieldOfPlace("env.A B")).toBe("env");
  expect(fieldOfPlace("tags[0]")).toBe("tags");
  expect(fieldOfPlace("config.epochs")).toBe("config.epochs");
  expect(fieldOfPlace("placement.region")).toBeNull();
});
