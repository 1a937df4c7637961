import { Link, Outlet, useNavigate } from "@tanstack/react-router";
import { lazy, Suspense, useState } from "react";
import { ConnectionBanner } from "@/app/ConnectionBanner";
import { NAVIGATION } from "@/app/navigation";
import { openHelp, openPalette, useOverlay } from "@/app/palette-state";
import { useSession } from "@/app/session";
import { findSearch, focusSearch, hasRows, moveRow } from "@/app/page-keys";
import { Sidebar } from "@/app/Sidebar";
import { PALETTE_KEYS, useShortcuts, type Shortcut } from "@/app/shortcuts";
import { TabBar } from "@/app/TabBar";
import { Toasts } from "@/app/toasts";
import { TitleSlotProvider, TopBar } from "@/app/TopBar";
import { storeText } from "@/lib/storage";
import { useConnectionState, useLiveConnection } from "@/live/hooks";
import { Skeleton } from "@/ui/states";

const Palette = lazy(() => import("@/app/Palette").then((module) => ({ default: module.Palette })));
const HelpDialog = lazy(() => import("@/app/HelpDialog").then((module) => ({ default: module.HelpDialog })));

const COLLAPSED = "anygpu.sidebar";

/** The frame of every view: sidebar, top bar, and a tab bar on small screens. */
export function Shell() {
  useLiveConnection();
  const [title, setTitle] = useState<HTMLElement | null>(null);
  const [collapsed, setCollapsed] = useState(() => localStorage.getItem(COLLAPSED) === "collapsed");
  const stale = useConnectionState().state === "lost";
  const toggle = () => {
    storeText(COLLAPSED, collapsed ? "open" : "collapsed");
    setCollapsed(!collapsed);
  };
  useGlobalShortcuts(toggle);
  return (
    <TitleSlotProvider value={title}>
      <a className="skip" href="#content">
        Skip to content
      </a>
      <div className={collapsed ? "app collapsed" : "app"}>
        <Sidebar onCollapse={toggle} />
        <div className="main">
          <TopBar titleRef={setTitle} />
          <ConnectionBanner />
          <main className={stale ? "content stale" : "content"} id="content" tabIndex={-1}>
            <Suspense fallback={<Skeleton label="Loading the view" />}>
              <Outlet />
            </Suspense>
          </main>
        </div>
        <TabBar />
      </div>
      <Toasts />
      <Overlays />
    </TitleSlotProvider>
  );
}

function Overlays() {
  const overlay = useOverlay();
  return (
    <Suspense>
      {overlay === "palette" && <Palette />}
      {overlay === "help" && <HelpDialog />}
    </Suspense>
  );
}

function useGlobalShortcuts(toggleSidebar: () => void): void {
  const navigate = useNavigate();
  const { can } = useSession();
  const group = "Everywhere";
  const shortcuts: Shortcut[] = [
    { keys: PALETTE_KEYS, label: "Search or run a command", group, run: openPalette },
    { keys: "?", label: "Keyboard shortcuts", group, run: openHelp },
    { keys: "/", label: "Search in the page", group, run: focusSearch, usable: () => findSearch() !== null },
    { keys: "j", label: "Next row", group, run: () => moveRow(1), usable: hasRows },
    { keys: "k", label: "Previous row", group, run: () => moveRow(-1), usable: hasRows },
    { keys: "[", label: "Collapse the sidebar", group, run: toggleSidebar },
    ...NAVIGATION.map((each) => ({
      keys: `g ${each.key}`,
      label: `Go to ${each.label}`,
      group,
      run: () => void navigate({ to: each.to }),
    })),
  ];
  if (can("write")) {
    shortcuts.push({ keys: "n", label: "New job", group, run: () => void navigate({ to: "/new" }) });
  }
  useShortcuts(shortcuts);
}

export function NotFound() {
  return (
    <div className="stage">
      <div className="empty sm">
        <h2>There is no such page</h2>
        <Link className="btn" to="/jobs">
          All jobs
        </Link>
      </div>
    </div>
  );
}
