import { Link } from "@tanstack/react-router";
import type { Schemas } from "@/api/client";
import { NAVIGATION } from "@/app/navigation";
import { useProjectSummary } from "@/app/project-summary";
import { RentedNow } from "@/app/RentedNow";
import { useSession } from "@/app/session";
import { setTheme, useTheme, type Theme } from "@/app/theme";
import { WatchedJobs } from "@/app/WatchedJobs";
import { formatCount, plural } from "@/lib/format";
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
  const { data: summary } = useProjectSummary();
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
            {summary !== undefined && <NavigationCount to={entry.to} summary={summary} />}
          </Link>
        ))}
      </nav>
      <WatchedJobs />
      <div className="side-foot">
        {summary !== undefined && <RentedNow summary={summary} />}
        <div className="side-bar">
          <ConnectionMark />
          <Segmented label="Theme" value={theme} choices={THEMES} onChange={setTheme} />
        </div>
      </div>
    </aside>
  );
}

function NavigationCount({ to, summary }: { to: string; summary: Schemas["ProjectSummary"] }) {
  const orphans = summary.machines_without_job ?? 0;
  if (to === "/machines" && orphans > 0) {
    return (
      <span
        className="count alert"
        title={`${plural(orphans, "machine is", "machines are")} billed without a job`}
      >
        <Icon name="warning" size={12} />
        {orphans}
      </span>
    );
  }
  const counts: Record<string, number> = { "/jobs": summary.active, "/queue": summary.queued };
  const count = counts[to] ?? 0;
  return count === 0 ? null : <span className="count">{formatCount(count)}</span>;
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
  const connection = useConnectionState();
  const partly = connection.state === "live" && connection.trouble !== null;
  const whole = connection.state === "live" && !partly;
  return (
    <span className={whole ? "live" : "live off"} title="One connection, events as they happen">
      {partly ? "Partly live" : WORDS[connection.state]}
    </span>
  );
}
