import { useEffect, useState, type RefObject } from "react";
import type { LineRange } from "@/log/scroll";

/** More selected lines than this are not kept in the page. */
const MAX_SELECTED = 2000;

/** The lines that the user has selected. They stay in the page while it scrolls, so that they can be copied. */
export function useSelectedLines(element: RefObject<HTMLElement | null>): LineRange | null {
  const [range, setRange] = useState<LineRange | null>(null);
  useEffect(() => {
    const update = () => {
      const next = selectedLines(element.current);
      setRange((old) => (old?.first === next?.first && old?.last === next?.last ? old : next));
    };
    document.addEventListener("selectionchange", update);
    return () => document.removeEventListener("selectionchange", update);
  }, [element]);
  return range;
}

function selectedLines(element: HTMLElement | null): LineRange | null {
  const selection = document.getSelection();
  if (element === null || selection === null || selection.isCollapsed) return null;
  const start = lineOf(selection.anchorNode, element);
  const end = lineOf(selection.focusNode, element);
  if (start === null || end === null || Math.abs(end - start) > MAX_SELECTED) return null;
  return { first: Math.min(start, end), last: Math.max(start, end) };
}

function lineOf(node: Node | null, element: HTMLElement): number | null {
  const parent = node instanceof HTMLElement ? node : node?.parentElement;
  const row = parent?.closest<HTMLElement>("[data-line]");
  return row == null || !element.contains(row) ? null : Number(row.dataset["line"]);
}
