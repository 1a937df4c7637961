import "@/app/style-nonce";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { asProblem } from "@/api/client";
import { SessionProvider } from "@/app/session";
import { applyTheme } from "@/app/theme";
import { router } from "@/router";
import "@/styles/tokens.css";
import "@/styles/base.css";
import "@/styles/controls.css";
import "@/styles/status.css";
import "@/styles/data.css";
import "@/styles/charts.css";
import "@/styles/states.css";
import "@/styles/overlays.css";
import "@/styles/shell.css";

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      retry: (count, error) => count < 2 && asProblem(error).body.retryable === true,
      refetchOnWindowFocus: true,
    },
  },
});

applyTheme();

const element = document.getElementById("root");
if (element === null) throw new Error("index.html has no element with the id root");
createRoot(element).render(
  <StrictMode>
    <QueryClientProvider client={queries}>
      <SessionProvider>
        <RouterProvider router={router} />
      </SessionProvider>
    </QueryClientProvider>
  </StrictMode>,
);
