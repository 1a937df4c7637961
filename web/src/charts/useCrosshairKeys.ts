import { useEffect } from "react";
import type { Crosshair } from "@/charts/crosshair";

const ZOOM_KEYS: Record<string, number> = { "+": 1, "=": 1, "-": -1, "0": 0 };

/** Move the crosshair with the arrow keys and zoom around it, while a chart or nothing particular has the focus. */
export function useCrosshairKeys(crosshair: Crosshair): void {
  useEffect(() => {
    const handle = (event: KeyboardEvent) => {
      const direction = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
      const zoom = ZOOM_KEYS[event.key];
      if (direction === 0 && zoom === undefined) return;
      if (event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey) return;
      const target = event.target instanceof HTMLElement ? event.target : document.body;
      const free = target === document.body || target.matches("main, .plot-host, dialog, [role=dialog]");
      const act = () => (zoom === undefined ? crosshair.step(direction) : crosshair.zoom(zoom));
      if (free && act()) event.preventDefault();
    };
    document.addEventListener("keydown", handle);
    return () => document.removeEventListener("keydown", handle);
  }, [crosshair]);
}
