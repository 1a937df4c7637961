import { PageTitle } from "@/app/TopBar";

export default function CostsPage() {
  return <PageTitle text="Costs" />;
}
