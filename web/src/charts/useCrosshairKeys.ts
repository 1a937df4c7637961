import { useEffect } from "react";
import type { Crosshair } from "@/charts/crosshair";

/** Move the crosshair with the arrow keys, while a chart or nothing particular has the focus. */
export function useCrosshairKeys(crosshair: Crosshair): void {
  useEffect(() => {
    const handle = (event: KeyboardEvent) => {
      const direction = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
      if (direction === 0 || event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey) return;
      const target = event.target instanceof HTMLElement ? event.target : document.body;
      const free = target === document.body || target.matches("main, .plot-host, dialog, [role=dialog]");
      if (free && crosshair.step(direction)) event.preventDefault();
    };
    document.addEventListener("keydown", handle);
    return () => document.removeEventListener("keydown", handle);
  }, [crosshair]);
}
