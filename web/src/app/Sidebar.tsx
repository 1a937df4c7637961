import { Link } from "@tanstack/react-router";
import { NAVIGATION } from "@/app/navigation";
import { useSession } from "@/app/session";
import { setTheme, useTheme, type Theme } from "@/app/theme";
import { useConnectionState } from "@/live/hooks";
import { IconButton } from "@/ui/Button";
import { Segmented } from "@/ui/controls";
import { Icon, type IconName } from "@/ui/Icon";

const THEMES: { value: Theme; label: string; icon: IconName }[] = [
  { value: "system", label: "As the system", icon: "screen" },
  { value: "light", label: "Light", icon: "sun" },
  { value: "dark", label: "Dark", icon: "moon" },
];

export function Sidebar({ onCollapse }: { onCollapse: () => void }) {
  const { identity } = useSession();
  const theme = useTheme();
  return (
    <aside className="side" aria-label="Navigation">
      <div>
        <div className="side-head">
          <Link className="brand" to="/jobs">
            <BrandMark />
            <span className="txt">anygpu</span>
          </Link>
          <IconButton
            icon="sidebar"
            label="Collapse the sidebar"
            title="Collapse the sidebar  ["
            onClick={onCollapse}
          />
        </div>
        <p className="project">
          <span className="t3">Project</span> <b className="med cut">{identity.project}</b>
        </p>
      </div>
      <nav className="nav" aria-label="Main">
        {NAVIGATION.map((entry) => (
          <Link key={entry.to} to={entry.to} title={entry.label}>
            <Icon name={entry.icon} />
            <span className="txt">{entry.label}</span>
          </Link>
        ))}
      </nav>
      <div className="side-foot">
        <div className="side-bar">
          <ConnectionMark />
          <Segmented label="Theme" value={theme} choices={THEMES} onChange={setTheme} />
        </div>
      </div>
    </aside>
  );
}

export function BrandMark() {
  return (
    <svg viewBox="0 0 20 20" aria-hidden="true">
      <rect x="1" y="11" width="9" height="5" rx="1.5" fill="var(--text)" />
      <rect x="10" y="4" width="9" height="5" rx="1.5" fill="var(--c2)" />
      <path d="M10 13.5V6.5" stroke="var(--text)" strokeWidth="1.5" fill="none" />
    </svg>
  );
}

const WORDS = { live: "Live", connecting: "Connecting", lost: "Not connected", paused: "Paused" };

function ConnectionMark() {
  const { state } = useConnectionState();
  return (
    <span className={state === "live" ? "live" : "live off"} title="One connection, events as they happen">
      {WORDS[state]}
    </span>
  );
}
