import { useState } from "react";
import { useSession } from "@/app/session";
import { setTheme, useTheme } from "@/app/theme";
import { Button } from "@/ui/Button";
import { Segmented } from "@/ui/controls";

/** Theme, notifications and what this is. */
export function PreferencesPanel() {
  const { identity } = useSession();
  const theme = useTheme();
  return (
    <section className="panel" aria-labelledby="preferences">
      <header>
        <h2 id="preferences">This browser and server</h2>
      </header>
      <ul className="settings-list">
        <li>
          <span>Theme</span>
          <Segmented
            label="Theme"
            value={theme}
            choices={[
              { value: "system", label: "System" },
              { value: "light", label: "Light" },
              { value: "dark", label: "Dark" },
            ]}
            onChange={setTheme}
          />
        </li>
        <li>
          <span className="two-lines">
            Notifications
            <small className="t3">when a watched job ends, fails, is interrupted or nears its budget</small>
          </span>
          <NotificationPermissionState />
        </li>
        <li>
          <span>Signed in as</span>
          <span className="t2">
            {identity.person}, {identity.role} of {identity.organisation}/{identity.project}
          </span>
        </li>
        <li>
          <span>Version</span>
          <span className="t2">anygpu {identity.server_version}</span>
        </li>
        <li>
          <span>API</span>
          <a className="link" href="/api/v1/openapi.json" target="_blank" rel="noreferrer">
            OpenAPI document
          </a>
        </li>
      </ul>
    </section>
  );
}

function NotificationPermissionState() {
  const [permission, setPermission] = useState(
    typeof Notification === "undefined" ? "unsupported" : Notification.permission,
  );
  if (permission === "default") {
    return <Button onClick={() => void Notification.requestPermission().then(setPermission)}>Allow</Button>;
  }
  return <span className="t2">{STATES[permission] ?? permission}</span>;
}

const STATES: Record<string, string> = {
  granted: "allowed",
  denied: "blocked in this browser's settings",
  unsupported: "not available in this browser",
};
