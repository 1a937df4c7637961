/** The parts of the address that belong to the log: `log` (attempt), `node` (machine), `find`, `line`. */

import { useNavigate, useSearch } from "@tanstack/react-router";
import type { LogQuery } from "@/log/useSearch";

interface LogAddress {
  /** Null: the newest attempt. */
  attempt: number | null;
  /** The machine of an attempt on several machines. */
  node: number;
  query: LogQuery;
  line: number | null;
  change: (changes: Record<string, string | number | boolean | undefined>) => void;
}

export function useLogAddress(): LogAddress {
  const search = useSearch({ strict: false }) as Record<string, unknown>;
  const navigate = useNavigate();
  return {
    attempt: positive(search["log"]),
    node: positive(search["node"]) ?? 0,
    query: {
      text: search["find"] === undefined ? "" : String(search["find"]),
      regex: search["find_regex"] === true,
      matchCase: search["find_case"] === true,
    },
    line: positive(search["line"]),
    change: (changes) =>
      void navigate({
        to: ".",
        search: (old: Record<string, unknown>) => ({ ...old, ...changes }),
        replace: true,
        resetScroll: false,
      }),
  };
}

function positive(value: unknown): number | null {
  return typeof value === "number" && Number.isInteger(value) && value > 0 ? value : null;
}
