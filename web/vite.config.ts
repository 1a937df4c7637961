import react from "@vitejs/plugin-react";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

// `npm run dev` shows the app with the data of a running server. `anygpu open` prints a link with a login code: open
// /login/CODE of the development server.
const server = process.env.ANYGPU_URL ?? "http://127.0.0.1:7791";

export default defineConfig({
  plugins: [react()],
  resolve: { alias: { "@": fileURLToPath(new URL("./src", import.meta.url)) } },
  server: {
    proxy: { "/api": { target: server, ws: true }, "/login": server, "/blobs": server },
  },
  build: {
    outDir: "../src/anygpu/server/static",
    emptyOutDir: true,
    // Data URLs and inline module preloads would need a weaker Content-Security-Policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2023",
  },
});
