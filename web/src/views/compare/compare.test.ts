import { describe, expect, it } from "vitest";
import { parseRunIds } from "@/views/compare/runs";
import { horizontalAxis, scatterAxis, settingValue } from "@/views/compare/scatter";
import { compareRows, flattenSettings, parseArguments } from "@/views/compare/settings";

describe("settings", () => {
  it("reads arguments in every usual form", () => {
    expect(
      parseArguments(["data", "--lr", "0.1", "--amp", "--size=160", "-b", "8", "--shift", "-0.5"]),
    ).toEqual({
      "argument 1": "data",
      lr: "0.1",
      amp: "yes",
      size: "160",
      b: "8",
      shift: "-0.5",
    });
  });

  it("flattens a spec and leaves out what names the run", () => {
    const spec = {
      name: "a",
      tags: ["x"],
      trainer: "yolo",
      config: { epochs: 3, model: { size: "n" }, classes: ["cat", "dog"] },
      resources: { gpu: { count: 1 } },
    };
    expect(flattenSettings(spec)).toEqual({
      trainer: "yolo",
      epochs: "3",
      "model.size": "n",
      classes: "cat, dog",
      "resources.gpu.count": "1",
    });
    expect(flattenSettings({ command: "python train.py --lr 0.1" })).toEqual({
      command: "python train.py",
      lr: "0.1",
    });
    expect(flattenSettings({ command: ["python", "train.py"] })).toEqual({ command: "python train.py" });
  });

  it("says which settings differ", () => {
    expect(compareRows([{ lr: "0.1", size: "160" }, { lr: "0.2", size: "160" }, { size: "160" }])).toEqual([
      { name: "lr", texts: ["0.1", "0.2", null], equal: false },
      { name: "size", texts: ["160", "160", "160"], equal: true },
    ]);
  });
});

describe("scatterAxis", () => {
  it("is linear, logarithmic or textual", () => {
    const linear = scatterAxis([1, 4]);
    expect(linear.log).toBe(false);
    expect(linear.place(linear.ticks.length > 0 ? 1 : 0)).toBeGreaterThanOrEqual(0);
    expect(scatterAxis([0.001, 1]).log).toBe(true);
    const texts = scatterAxis(["sgd", "adam", "sgd"]);
    expect(texts.ticks).toEqual([
      { place: 0.25, text: "adam" },
      { place: 0.75, text: "sgd" },
    ]);
    expect(scatterAxis([1, "auto"]).ticks.map((tick) => tick.text)).toEqual(["1", "auto"]);
    expect([settingValue("0.1"), settingValue("auto"), settingValue("")]).toEqual([0.1, "auto", ""]);
  });
});

describe("horizontalAxis", () => {
  it("has one tick if all costs are equal, and none below zero", () => {
    const axis = horizontalAxis([0, 0], (value) => `$${value}`);
    expect(axis.ticks).toEqual([{ place: 0.5, text: "$0" }]);
    expect(axis.place(0)).toBe(0.5);
    expect(horizontalAxis([0, 3]).ticks.map((tick) => tick.text)).toEqual(["0", "1", "2", "3"]);
    expect(horizontalAxis(["adam", "adam"]).ticks).toEqual([{ place: 0.5, text: "adam" }]);
  });
});

describe("parseRunIds", () => {
  it("reads a list, without repetitions", () => {
    expect(parseRunIds("a,b,,a , c")).toEqual(["a", "b", "c"]);
    expect(parseRunIds(undefined)).toEqual([]);
    expect(parseRunIds(["a", "b"])).toEqual(["a", "b"]);
    expect(parseRunIds(12)).toEqual(["12"]);
  });
});
