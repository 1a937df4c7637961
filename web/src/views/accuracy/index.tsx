import { PageTitle } from "@/app/TopBar";

export default function AccuracyPage() {
  return <PageTitle text="Accuracy" />;
}
