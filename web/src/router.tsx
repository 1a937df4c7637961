/** Paths of the app and the view that each shows. Views are loaded when they are first opened. */

import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  redirect,
} from "@tanstack/react-router";
import { NotFound, Shell } from "@/app/Shell";
import { asProblem } from "@/api/client";
import { ErrorState } from "@/ui/states";

type Search = Record<string, unknown>;

/** Each view checks its own search parameters; unknown ones are kept so that links stay complete. */
const anySearch = (search: Search): Search => search;

const root = createRootRoute({
  component: Shell,
  notFoundComponent: NotFound,
  errorComponent: ({ error, reset }) => (
    <ErrorState title="The view could not be shown" error={asProblem(error)} onRetry={reset} />
  ),
});

const parent = () => root;

const routes = [
  createRoute({
    getParentRoute: parent,
    path: "/",
    beforeLoad: () => {
      throw redirect({ to: "/jobs" });
    },
  }),
  createRoute({
    getParentRoute: parent,
    path: "/jobs",
    validateSearch: anySearch,
    component: lazyRouteComponent(() => import("@/views/jobs")),
  }),
  createRoute({
    getParentRoute: parent,
    path: "/jobs/$ref",
    validateSearch: anySearch,
    component: lazyRouteComponent(() => import("@/views/job")),
  }),
  createRoute({
    getParentRoute: parent,
    path: "/new",
    validateSearch: anySearch,
    component: lazyRouteComponent(() => import("@/views/new")),
  }),
  createRoute({
    getParentRoute: parent,
    path: "/compare",
    validateSearch: anySearch,
    component: lazyRouteComponent(() => import("@/views/compare")),
  }),
  createRoute({
    getParentRoute: parent,
    path: "/queue",
    validateSearch: anySearch,
    component: lazyRouteComponent(() => import("@/views/queue")),
  }),
  createRoute({
    getParentRoute: parent,
    path: "/costs",
    validateSearch: anySearch,
    component: lazyRouteComponent(() => import("@/views/costs")),
  }),
  createRoute({
    getParentRoute: parent,
    path: "/machines",
    validateSearch: anySearch,
    component: lazyRouteComponent(() => import("@/views/machines")),
  }),
  createRoute({
    getParentRoute: parent,
    path: "/accuracy",
    validateSearch: anySearch,
    component: lazyRouteComponent(() => import("@/views/accuracy")),
  }),
  createRoute({
    getParentRoute: parent,
    path: "/settings",
    validateSearch: anySearch,
    component: lazyRouteComponent(() => import("@/views/settings")),
  }),
] as const;

export const router = createRouter({
  routeTree: root.addChildren(routes),
  defaultPreload: "intent",
  scrollRestoration: true,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
