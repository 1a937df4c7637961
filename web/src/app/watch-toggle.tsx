import { requestPermission } from "@/app/notifications";
import { showToast } from "@/app/toasts";
import { isWatched, unwatchJob, watchJob } from "@/app/watched";
import { shortId } from "@/lib/format";
import { Icon } from "@/ui/Icon";

/** Watch a job or stop watching it, and say so. Call it for a click or a key, because it may ask for permission. */
export function toggleWatch(id: string, name?: string): void {
  const title = name || shortId(id);
  const icon = <Icon name="bell" />;
  if (isWatched(id)) {
    unwatchJob(id);
    showToast({ title: `${title} is no longer watched`, icon });
    return;
  }
  requestPermission();
  watchJob(id);
  const text = "A message tells when it ends, fails, is interrupted or nears its budget.";
  showToast({ title: `Watching ${title}`, text, icon });
}
