import { PageTitle } from "@/app/TopBar";

export default function JobPage() {
  return <PageTitle text="Job" />;
}
