import { Link, useNavigate } from "@tanstack/react-router";
import { NAVIGATION, type NavigationEntry } from "@/app/navigation";
import { useSession } from "@/app/session";
import { setTheme, useTheme } from "@/app/theme";
import { Icon, type IconName } from "@/ui/Icon";
import { Menu } from "@/ui/Menu";

const SHOWN = ["/jobs", "/costs", "/machines"];

/** The navigation on small screens. */
export function TabBar() {
  const { can } = useSession();
  const navigate = useNavigate();
  const theme = useTheme();
  const [jobs, ...others] = NAVIGATION.filter((each) => SHOWN.includes(each.to));
  const rest = NAVIGATION.filter((each) => !SHOWN.includes(each.to));
  const next = theme === "dark" ? "light" : "dark";
  return (
    <nav className="tabbar" aria-label="Main, small screens">
      {jobs !== undefined && <TabLink to={jobs.to} label={jobs.label} icon={jobs.icon} />}
      {can("write") && <TabLink to="/new" label="New" icon="plus" />}
      {others.map((each) => (
        <TabLink key={each.to} to={each.to} label={each.label} icon={each.icon} />
      ))}
      <Menu
        trigger={
          <button type="button" className="tab-more">
            <Icon name="menu" />
            More
          </button>
        }
        items={[
          ...rest.map((each) => ({
            label: each.label,
            icon: each.icon,
            onSelect: () => void navigate({ to: each.to }),
          })),
          {
            label: `Use the ${next} theme`,
            icon: next === "dark" ? "moon" : "sun",
            onSelect: () => setTheme(next),
          },
        ]}
      />
    </nav>
  );
}

interface TabLinkProps {
  to: NavigationEntry["to"] | "/new";
  label: string;
  icon: IconName;
}

function TabLink({ to, label, icon }: TabLinkProps) {
  return (
    <Link to={to}>
      <Icon name={icon} />
      {label}
    </Link>
  );
}
