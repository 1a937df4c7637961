/** A value that belongs to the address of the job page, so that a link shows the same. */

import { useNavigate, useSearch } from "@tanstack/react-router";

/** The text of a search parameter, "" if it is not there, and a function that changes it. */
export function useAddress(name: string): [string, (value: string) => void] {
  const search: Record<string, unknown> = useSearch({ strict: false });
  const navigate = useNavigate();
  const change = (value: string) =>
    void navigate({
      to: ".",
      search: (before: Record<string, unknown>) => ({ ...before, [name]: value || undefined }),
      replace: true,
      resetScroll: false,
    });
  const value = search[name];
  return [value === undefined ? "" : String(value), change];
}
