/**
 * A Chromium that was started with the locale C or POSIX has the language "en-US@posix", which `Intl` refuses. uPlot
 * reads the language when it is loaded, so this module must be imported before it.
 */

function isKnownLanguage(language: string): boolean {
  try {
    return Intl.NumberFormat.supportedLocalesOf(language).length >= 0;
  } catch {
    return false;
  }
}

if (!isKnownLanguage(navigator.language)) {
  Object.defineProperty(navigator, "language", { value: "en", configurable: true });
}
