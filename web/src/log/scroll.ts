/**
 * The position in a log with more lines than an element can be high.
 *
 * Browsers limit the height of an element to between 16 and 33 million pixels. A higher log gets an element of
 * `MAX_HEIGHT`, and its scroll bar stands for the whole log. Small movements (wheel, keys, touch) still move by
 * as many pixels as they say; large ones (dragging the scroll bar) go to the place that the scroll bar stands for.
 */

export const LINE_HEIGHT = 20;
export const MAX_HEIGHT = 12_000_000;
/** Near both ends, a pixel of the scroll bar is a pixel of the log. */
const EXACT = 100_000;
/** A scroll bar may be this far from the proportional place before it is corrected. */
const MAX_DRIFT = 400;
/** Selected lines that are not visible are at most this many pixels away from the visible ones in the page. */
const MAX_GAP = 20_000;

export interface ScrollGeometry {
  lines: number;
  /** Visible height in pixels. */
  viewport: number;
}

export interface LineRange {
  first: number;
  last: number;
}

export interface ScrollPosition {
  /** `scrollTop` of the element. */
  top: number;
  /** Pixels of the log above the visible part. */
  position: number;
}

/** Height of the scrolled element. */
export function scrolledHeight({ lines }: ScrollGeometry): number {
  return Math.min(MAX_HEIGHT, lines * LINE_HEIGHT);
}

function maxPosition({ lines, viewport }: ScrollGeometry): number {
  return Math.max(0, lines * LINE_HEIGHT - viewport);
}

function maxTop(geometry: ScrollGeometry): number {
  return Math.max(0, scrolledHeight(geometry) - geometry.viewport);
}

function isScaled(geometry: ScrollGeometry): boolean {
  return geometry.lines * LINE_HEIGHT > MAX_HEIGHT;
}

/** The place of the scroll bar for a position: exact near both ends, proportional between them. */
export function topOf(position: number, geometry: ScrollGeometry): number {
  const [range, top] = [maxPosition(geometry), maxTop(geometry)];
  if (!isScaled(geometry) || position <= EXACT) return Math.min(position, top);
  if (position >= range - EXACT) return top - Math.max(0, range - position);
  return EXACT + ((position - EXACT) / (range - 2 * EXACT)) * (top - 2 * EXACT);
}

/** The position for a place of the scroll bar. */
function positionOf(place: number, geometry: ScrollGeometry): number {
  const [range, top] = [maxPosition(geometry), maxTop(geometry)];
  if (!isScaled(geometry) || place <= EXACT) return place;
  if (place >= top - EXACT) return range - (top - place);
  return EXACT + ((place - EXACT) / (top - 2 * EXACT)) * (range - 2 * EXACT);
}

/** The end of the log. */
export function endPosition(geometry: ScrollGeometry): ScrollPosition {
  const position = maxPosition(geometry);
  return { position, top: topOf(position, geometry) };
}

/** Show a line (from 1) in the middle of the visible part. */
export function positionOfLine(line: number, geometry: ScrollGeometry): ScrollPosition {
  const wanted = (line - 1) * LINE_HEIGHT - (geometry.viewport - LINE_HEIGHT) / 2;
  const position = Math.min(maxPosition(geometry), Math.max(0, wanted));
  return { position, top: topOf(position, geometry) };
}

/**
 * The position after the element was scrolled to `top`. If the returned `top` differs, set it on the element: the
 * scroll bar was too far from its proportional place.
 */
export function afterScroll(previous: ScrollPosition, top: number, geometry: ScrollGeometry): ScrollPosition {
  if (!isScaled(geometry)) return { top, position: top };
  const moved = top - previous.top;
  const isJump = Math.abs(moved) > 2 * geometry.viewport;
  if (isJump) return { top, position: positionOf(top, geometry) };
  const position = Math.min(maxPosition(geometry), Math.max(0, previous.position + moved));
  const place = topOf(position, geometry);
  return { position, top: Math.abs(place - top) > MAX_DRIFT ? place : top };
}

/** First and last visible line (from 1), with `extra` lines on both sides. */
export function visibleLines(position: number, geometry: ScrollGeometry, extra: number): LineRange {
  const first = Math.floor(position / LINE_HEIGHT) + 1 - extra;
  const last = Math.ceil((position + geometry.viewport) / LINE_HEIGHT) + extra;
  return { first: Math.max(1, first), last: Math.min(geometry.lines, last) };
}

/** The lines that are in the page, as one or two ranges in order. */
export interface ShownLines {
  ranges: LineRange[];
  /** Pixels between the ranges. */
  gap: number;
  /** Pixels from the first line in the page to the first visible line. */
  above: number;
}

/** The visible lines and the selected ones. The lines between them are left out, because they may be millions. */
export function shownLines(visible: LineRange, selected: LineRange | null): ShownLines {
  if (selected === null) return { ranges: [visible], gap: 0, above: 0 };
  const below = selected.first - visible.last - 1;
  if (below > 0) return { ranges: [visible, selected], gap: gapHeight(below), above: 0 };
  const between = visible.first - selected.last - 1;
  if (between > 0) {
    const gap = gapHeight(between);
    return { ranges: [selected, visible], gap, above: lineCount(selected) * LINE_HEIGHT + gap };
  }
  const first = Math.min(visible.first, selected.first);
  const last = Math.max(visible.last, selected.last);
  return { ranges: [{ first, last }], gap: 0, above: (visible.first - first) * LINE_HEIGHT };
}

function gapHeight(lines: number): number {
  return Math.min(MAX_GAP, lines * LINE_HEIGHT);
}

function lineCount({ first, last }: LineRange): number {
  return last - first + 1;
}

export function isAtEnd({ position }: ScrollPosition, geometry: ScrollGeometry): boolean {
  return position >= maxPosition(geometry) - LINE_HEIGHT / 2;
}
