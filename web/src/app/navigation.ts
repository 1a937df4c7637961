/** The views of the app, in the order of the sidebar. */

import type { IconName } from "@/ui/Icon";

export interface NavigationEntry {
  to: "/jobs" | "/compare" | "/queue" | "/costs" | "/machines" | "/accuracy" | "/settings";
  label: string;
  icon: IconName;
  /** Second key after `g`. */
  key: string;
}

export const NAVIGATION: readonly NavigationEntry[] = [
  { to: "/jobs", label: "Jobs", icon: "jobs", key: "j" },
  { to: "/compare", label: "Compare", icon: "compare", key: "o" },
  { to: "/queue", label: "Queue", icon: "queue", key: "q" },
  { to: "/costs", label: "Costs", icon: "costs", key: "c" },
  { to: "/machines", label: "Machines", icon: "machines", key: "m" },
  { to: "/accuracy", label: "Accuracy", icon: "accuracy", key: "a" },
  { to: "/settings", label: "Settings", icon: "settings", key: "s" },
];
