/** What the general keys of every view act on: its search field and the rows of its tables. */

const SEARCH = "#content input[type=search]";
const ROWS = "#content tbody tr";
const ACTIONS = "a[href], button:not(:disabled)";

function isVisible(element: Element): boolean {
  return element.getClientRects().length > 0;
}

/** The first search field of the view that can be seen. */
export function findSearch(): HTMLInputElement | null {
  return [...document.querySelectorAll<HTMLInputElement>(SEARCH)].find(isVisible) ?? null;
}

export function focusSearch(): void {
  findSearch()?.focus();
}

/** The rows of tables with something to open or press. */
function findRows(): { row: Element; action: HTMLElement }[] {
  return [...document.querySelectorAll(ROWS)].flatMap((row) => {
    const action = [...row.querySelectorAll<HTMLElement>(ACTIONS)].find(isVisible);
    return action === undefined ? [] : [{ row, action }];
  });
}

export function hasRows(): boolean {
  return findRows().length > 0;
}

/** Move the focus to the link or button of the next row, or of the one before. */
export function moveRow(by: 1 | -1): void {
  const rows = findRows();
  const index = rows.findIndex(({ row }) => row.contains(document.activeElement));
  const next = index < 0 ? (by > 0 ? 0 : rows.length - 1) : index + by;
  const target = rows[Math.max(0, Math.min(rows.length - 1, next))];
  target?.action.focus();
  target?.row.scrollIntoView({ block: "nearest" });
}
