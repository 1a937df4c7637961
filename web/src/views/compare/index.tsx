import { PageTitle } from "@/app/TopBar";

export default function ComparePage() {
  return <PageTitle text="Compare" />;
}
