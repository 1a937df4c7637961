/**
 * Colours of terminal output. A line becomes parts of text with the classes of `log.css`.
 *
 * All colours are mapped to the few `--term-*` tokens, so that they are legible in both themes. Every other control
 * sequence (cursor movements, titles, links) is removed: it has no meaning in a page.
 */

export interface TextPart {
  text: string;
  /** Class names, or "" for plain text. */
  className: string;
}

interface Style {
  color: string;
  background: string;
  bold: boolean;
  dim: boolean;
  italic: boolean;
  underline: boolean;
  strike: boolean;
  inverse: boolean;
}

const PLAIN: Style = {
  color: "",
  background: "",
  bold: false,
  dim: false,
  italic: false,
  underline: false,
  strike: false,
  inverse: false,
};

/** Token names of the colours 0 to 7. Black and white are the text colour: they would be invisible in one theme. */
const BASE = ["", "red", "green", "yellow", "blue", "magenta", "cyan", ""];

// Control sequences (group 1: parameters and final byte of `ESC [ … m`), operating system commands, other escapes,
// control characters except the tab, and characters that change the direction of the text.
const CONTROL =
  // eslint-disable-next-line no-control-regex
  /\x1b\[([0-9;:]*)m|\x1b\[[0-?]*[ -/]*[@-~]?|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[PX^_][^\x1b]*(?:\x1b\\)?|\x1b[ -/]*[0-~]?|[\x00-\x08\x0a-\x1f\x7f-\x9f]|([\u202a-\u202e\u2066-\u2069])/g;

/** Split a line into parts of equal style. */
export function parseAnsi(line: string): TextPart[] {
  const parts: TextPart[] = [];
  let style = PLAIN;
  let end = 0;
  const add = (text: string) => {
    if (text === "") return;
    const className = classNames(style);
    const last = parts.at(-1);
    if (last?.className === className) last.text += text;
    else parts.push({ text, className });
  };
  for (const match of line.matchAll(CONTROL)) {
    add(line.slice(end, match.index));
    if (match[1] !== undefined) style = applyCodes(style, match[1]);
    if (match[2] !== undefined) add("\ufffd");
    end = match.index + match[0].length;
  }
  add(line.slice(end));
  return parts;
}

/** The text of a line without its control sequences. */
export function plainText(line: string): string {
  return line.replace(CONTROL, (_all, _codes: unknown, direction: unknown) =>
    direction === undefined ? "" : "\ufffd",
  );
}

function classNames(style: Style): string {
  const swapped = style.inverse;
  const names = [
    style.color !== "" && !swapped ? `t-${style.color}` : "",
    style.background !== "" && !swapped ? `tb-${style.background}` : "",
    swapped ? `t-inverse${style.color === "" ? "" : ` tb-${style.color}`}` : "",
    style.bold ? "t-bold" : "",
    style.dim ? "t-dim" : "",
    style.italic ? "t-italic" : "",
    style.underline ? "t-underline" : "",
    style.strike ? "t-strike" : "",
  ];
  return names.filter((name) => name !== "").join(" ");
}

function applyCodes(style: Style, parameters: string): Style {
  const codes = parameters.split(/[;:]/).map((text) => (text === "" ? 0 : Number(text)));
  let next = { ...style };
  for (let index = 0; index < codes.length; index += 1) {
    const code = codes[index]!;
    if (code === 38 || code === 48) {
      const [color, used] = extendedColor(codes.slice(index + 1));
      if (code === 38) next.color = color;
      else next.background = color;
      index += used;
    } else {
      next = applyCode(next, code);
    }
  }
  return next;
}

function applyCode(style: Style, code: number): Style {
  if (code === 0) return PLAIN;
  if (code >= 30 && code <= 37) return { ...style, color: BASE[code - 30]! };
  if (code >= 40 && code <= 47) return { ...style, background: BASE[code - 40]! };
  if (code === 90) return { ...style, color: "dim" };
  if (code > 90 && code <= 97) return { ...style, color: BASE[code - 90]! };
  if (code > 100 && code <= 107) return { ...style, background: BASE[code - 100]! };
  return { ...style, ...(CHANGES[code] ?? {}) };
}

const CHANGES: Record<number, Partial<Style>> = {
  1: { bold: true },
  2: { dim: true },
  3: { italic: true },
  4: { underline: true },
  7: { inverse: true },
  9: { strike: true },
  21: { underline: true },
  22: { bold: false, dim: false },
  23: { italic: false },
  24: { underline: false },
  27: { inverse: false },
  29: { strike: false },
  39: { color: "" },
  49: { background: "" },
};

/** The token of `5;N` (256 colours) or `2;R;G;B`, and how many codes it used. */
function extendedColor(codes: number[]): [string, number] {
  const [mode, first = 0, second = 0, third = 0] = codes;
  if (mode === 5) return [paletteColor(first), 2];
  if (mode === 2) return [nearestToken(first, second, third), 4];
  return ["", codes.length];
}

function paletteColor(index: number): string {
  if (index < 8) return BASE[index] ?? "";
  if (index === 8) return "dim";
  if (index < 16) return BASE[index - 8]!;
  if (index >= 232) return index < 250 ? "dim" : "";
  const levels = [0, 95, 135, 175, 215, 255];
  const cube = index - 16;
  return nearestToken(
    levels[Math.floor(cube / 36) % 6]!,
    levels[Math.floor(cube / 6) % 6]!,
    levels[cube % 6]!,
  );
}

/** The token with the nearest hue. Grey is dim, very dark and very light grey are the text colour. */
export function nearestToken(red: number, green: number, blue: number): string {
  const high = Math.max(red, green, blue);
  const range = high - Math.min(red, green, blue);
  if (range < 30) return high < 60 || high > 230 ? "" : "dim";
  let hue: number;
  if (high === red) hue = ((green - blue) / range) * 60;
  else if (high === green) hue = ((blue - red) / range) * 60 + 120;
  else hue = ((red - green) / range) * 60 + 240;
  hue = (hue + 360) % 360;
  if (hue < 20 || hue >= 335) return "red";
  if (hue < 70) return "yellow";
  if (hue < 165) return "green";
  if (hue < 205) return "cyan";
  return hue < 265 ? "blue" : "magenta";
}
