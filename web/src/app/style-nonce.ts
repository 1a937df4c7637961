/**
 * Radix adds a style element that keeps the page from scrolling behind a dialog. It takes the nonce that the
 * Content-Security-Policy requires from this global variable. Import this module before the first component.
 */
const nonce = document.querySelector<HTMLMetaElement>('meta[name="csp-nonce"]')?.content;
if (nonce) Object.assign(globalThis, { __webpack_nonce__: nonce });
