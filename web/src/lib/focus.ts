/** A `ref` that focuses an element when it appears, e.g. a field that the user has just asked for. */
export function focusOnMount(element: HTMLElement | null): void {
  element?.focus();
}
