/** Read the beginning of a table: CSV, TSV or one JSON object per line. */

export interface TextTable {
  head: string[];
  rows: string[][];
}

const MAX_ROWS = 500;
const MAX_COLUMNS = 100;

/** Parse the text of a file. `cut`: the text is only the beginning of the file, so its last row may be incomplete. */
export function parseTable(name: string, text: string, cut: boolean): TextTable | null {
  const suffix = name.slice(name.lastIndexOf(".") + 1).toLowerCase();
  const table =
    suffix === "jsonl" || suffix === "ndjson"
      ? parseJsonLines(text)
      : parseSeparated(text, suffix === "tsv" ? "\t" : ",");
  if (table === null || table.head.length === 0) return null;
  if (cut && table.rows.length > 1) table.rows.pop();
  return { head: table.head.slice(0, MAX_COLUMNS), rows: table.rows.slice(0, MAX_ROWS) };
}

/** Fields may be quoted; a quoted field may have separators, line breaks and doubled quotes. */
function parseSeparated(text: string, separator: string): TextTable {
  const rows: string[][] = [];
  let row: string[] = [];
  let field = "";
  let quoted = false;
  for (let at = 0; at < text.length && rows.length <= MAX_ROWS + 1; at += 1) {
    const character = text[at]!;
    if (quoted) {
      if (character !== '"') field += character;
      else if (text[at + 1] === '"') {
        field += '"';
        at += 1;
      } else quoted = false;
    } else if (character === '"' && field === "") quoted = true;
    else if (character === separator) {
      row.push(field);
      field = "";
    } else if (character === "\n") {
      row.push(field.replace(/\r$/, ""));
      rows.push(row);
      row = [];
      field = "";
    } else field += character;
  }
  if (field !== "" || row.length > 0) rows.push([...row, field]);
  const [head = [], ...rest] = rows.filter((each) => each.length > 1 || each[0] !== "");
  return { head, rows: rest };
}

function parseJsonLines(text: string): TextTable | null {
  const head: string[] = [];
  const objects: Record<string, unknown>[] = [];
  for (const line of text.split("\n").slice(0, MAX_ROWS + 1)) {
    const value = parseObject(line);
    if (value === null) continue;
    objects.push(value);
    for (const key of Object.keys(value))
      if (!head.includes(key) && head.length < MAX_COLUMNS) head.push(key);
  }
  if (objects.length === 0) return null;
  return { head, rows: objects.map((each) => head.map((key) => cellText(each[key]))) };
}

function parseObject(line: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : null;
  } catch {
    return null;
  }
}

function cellText(value: unknown): string {
  if (value === undefined || value === null) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
