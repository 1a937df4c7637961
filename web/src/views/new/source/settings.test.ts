import { describe, expect, test } from "vitest";
import { applyFix } from "@/views/new/fixes";
import {
  freeText,
  groupSettings,
  parseSetting,
  settingProblem,
  settingText,
  withFree,
  type SettingSchema,
} from "@/views/new/source/settings";

const EPOCHS: SettingSchema = { type: "integer", minimum: 1, maximum: 100 };

describe("settings", () => {
  test("required ones come first, those of unknown type last", () => {
    const groups = groupSettings(
      { target: { type: "string" }, seed: { type: "integer" }, epochs: EPOCHS, alpha: {} },
      ["target"],
    );
    expect(groups).toEqual({ main: ["target", "epochs"], more: ["seed"], free: ["alpha"] });
  });

  test.each<[SettingSchema, string, unknown]>([
    [EPOCHS, " 12 ", 12],
    [EPOCHS, "", undefined],
    [EPOCHS, "many", "many"],
    [{ type: "number" }, "1e-3", 0.001],
    [{ type: "string" }, "007", "007"],
    [{ type: "array" }, "a, b,", ["a", "b"]],
    [{}, "0.5", 0.5],
    [{}, "cosine", "cosine"],
  ])("%j %j", (schema, text, value) => expect(parseSetting(schema, text)).toEqual(value));

  test.each<[number | string, boolean]>([
    [1, true],
    [100, true],
    [0, false],
    [101, false],
    [1.5, false],
    ["many", false],
  ])("%j is checked against the bounds", (value, valid) => {
    expect(settingProblem(EPOCHS, value) === "").toBe(valid);
  });

  test("bounds that are excluded", () => {
    const rate: SettingSchema = { type: "number", exclusiveMinimum: 0, exclusiveMaximum: 1 };
    expect([0, 0.5, 1].map((value) => settingProblem(rate, value) === "")).toEqual([false, true, false]);
  });

  test("free options are lines that round-trip", () => {
    const settings = withFree(
      { epochs: 3, alpha: 1 },
      ["alpha", "solver"],
      "solver=lbfgs\nalpha=0.5\nnonsense",
    );
    expect(settings).toEqual({ epochs: 3, alpha: 0.5, solver: "lbfgs" });
    expect(freeText(settings, ["alpha", "solver"])).toBe("alpha=0.5\nsolver=lbfgs");
    expect(settingText(["onnx", "safetensors"])).toBe("onnx, safetensors");
  });
});

describe("fixes", () => {
  const fix = { title: "", edits: [{ file: "train.py", line: 2, old: "b", new: "b, 4" }] };

  test("replace lines", () => expect(applyFix("a\nb\nc", "train.py", fix)).toBe("a\nb, 4\nc"));
  test("are not applied to code that has changed", () =>
    expect(applyFix("a\nx\nc", "train.py", fix)).toBeNull());
});
