/** Texts that the browser keeps. */

/** Store a text. Return whether there was room for it; without, the page goes on with what it has in memory. */
export function storeText(key: string, text: string): boolean {
  try {
    localStorage.setItem(key, text);
    return true;
  } catch {
    return false;
  }
}
