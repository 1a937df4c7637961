import type { CSSProperties } from "react";

/** CSS custom properties for the `style` of an element. */
export function vars(values: Record<`--${string}`, string | number>): CSSProperties {
  return values as CSSProperties;
}

/** 0.307 as "30.70%", limited to 0 to 100 %. */
export function percentOf(fraction: number): string {
  return `${(Math.min(1, Math.max(0, fraction)) * 100).toFixed(2)}%`;
}

const COLOURS = 6;

/** The colour of an attempt: the series colours in order. */
export function attemptColour(attempt: number): string {
  return `var(--c${((attempt - 1) % COLOURS) + 1})`;
}
