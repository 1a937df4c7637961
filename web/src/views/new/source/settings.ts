/** Settings of a trainer: which are shown first, and how text becomes a value. */

import type { Json, Mapping } from "@/views/new/draft";

/** The part of a JSON schema that the server uses to describe a setting. */
export interface SettingSchema {
  type?: "string" | "integer" | "number" | "boolean" | "array";
  description?: string;
  default?: Json;
  enum?: string[];
  examples?: string[];
  items?: { enum?: string[] };
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
}

const MAIN = [
  "model",
  "task",
  "epochs",
  "batch_size",
  "image_size",
  "learning_rate",
  "optimizer",
  "patience",
  "amp",
];

export interface SettingGroups {
  /** Required and often used settings. */
  main: string[];
  more: string[];
  /** Options of the framework whose type the server does not know. */
  free: string[];
}

export function groupSettings(
  properties: Record<string, SettingSchema>,
  required: readonly string[],
): SettingGroups {
  const names = Object.keys(properties);
  const main = [...required, ...MAIN.filter((name) => names.includes(name) && !required.includes(name))];
  const rest = names.filter((name) => !main.includes(name));
  return {
    main,
    more: rest.filter((name) => properties[name]?.type !== undefined),
    free: rest.filter((name) => properties[name]?.type === undefined),
  };
}

/** Return the value of a text; undefined for an empty one, which means the default. */
export function parseSetting(schema: SettingSchema, text: string): Json | undefined {
  const plain = text.trim();
  if (plain === "") return undefined;
  if (schema.type === "array") {
    return plain
      .split(",")
      .map((item) => item.trim())
      .filter((item) => item !== "");
  }
  if (schema.type === "integer" || schema.type === "number") {
    const number = Number(plain);
    return Number.isNaN(number) ? plain : number;
  }
  return schema.type === "string" ? plain : parseFree(plain);
}

/** Parse a value of unknown type: JSON if it is JSON, else text. */
export function parseFree(text: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return text;
  }
}

export function settingText(value: Json | undefined): string {
  if (value === undefined || value === null) return "";
  if (Array.isArray(value) && value.every((item) => typeof item === "string")) return value.join(", ");
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** What is wrong with a value, before the server is asked; empty if nothing is. */
export function settingProblem(schema: SettingSchema, value: Json | undefined): string {
  if (value === undefined || (schema.type !== "integer" && schema.type !== "number")) return "";
  if (typeof value !== "number") return "Write a number.";
  if (schema.type === "integer" && !Number.isInteger(value)) return "Write a whole number.";
  const { minimum, maximum, exclusiveMinimum: above, exclusiveMaximum: below } = schema;
  if (minimum !== undefined && value < minimum) return `Write ${minimum} or more.`;
  if (maximum !== undefined && value > maximum) return `Write ${maximum} or less.`;
  if (above !== undefined && value <= above) return `Write more than ${above}.`;
  if (below !== undefined && value >= below) return `Write less than ${below}.`;
  return "";
}

/** Lines of NAME=VALUE for the options whose type is not known. */
export function freeText(settings: Mapping, names: readonly string[]): string {
  return names
    .filter((name) => settings[name] !== undefined)
    .map((name) => `${name}=${settingText(settings[name])}`)
    .join("\n");
}

/** Return the settings with these options replaced by those of the text. */
export function withFree(settings: Mapping, names: readonly string[], text: string): Mapping {
  const others = Object.entries(settings).filter(([name]) => !names.includes(name));
  const given = text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line.includes("="))
    .map((line): [string, Json] => {
      const at = line.indexOf("=");
      return [line.slice(0, at).trim(), parseFree(line.slice(at + 1).trim())];
    });
  return Object.fromEntries([...others, ...given]);
}
