/**
 * The nonce of the page's Content-Security-Policy, for libraries that add a style element.
 *
 * Radix adds one that keeps the page from scrolling behind a dialog, and takes the nonce from the global variable.
 * Import this module before the first component.
 */
export const styleNonce = document.querySelector<HTMLMetaElement>('meta[name="csp-nonce"]')?.content ?? "";

Object.assign(globalThis, { __webpack_nonce__: styleNonce });
