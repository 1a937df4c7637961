import { useSession } from "@/app/session";
import { PageTitle } from "@/app/TopBar";
import { BackendsSummary } from "@/views/settings/BackendsSummary";
import { PreferencesPanel } from "@/views/settings/PreferencesPanel";
import { SecretsPanel } from "@/views/settings/SecretsPanel";
import { TokensPanel } from "@/views/settings/TokensPanel";
import "./settings.css";

/** Tokens, secrets, backends and preferences: `/settings`. */
export default function SettingsPage() {
  const { can } = useSession();
  return (
    <>
      <PageTitle text="Settings" />
      {can("admin") && <TokensPanel />}
      <SecretsPanel />
      <div className="settings-lower">
        <BackendsSummary />
        <PreferencesPanel />
      </div>
    </>
  );
}
