import { PageTitle } from "@/app/TopBar";

export default function SettingsPage() {
  return <PageTitle text="Settings" />;
}
