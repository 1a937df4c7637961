/** What is worth telling about a watched job, as a toast and as a notification of the browser. */

import type { Schemas } from "@/api/client";
import { showToast } from "@/app/toasts";
import { formatMoney, formatProgress, shortId } from "@/lib/format";
import { progressFraction } from "@/lib/progress";
import { isEnded } from "@/ui/Status";

type JobSummary = Schemas["JobSummary"];

export interface JobNotice {
  title: string;
  text: string;
}

const BUDGET_WARNING = 0.9;

function nearsBudget(job: JobSummary): boolean {
  return job.max_cost_microusd !== null && job.cost_microusd >= BUDGET_WARNING * job.max_cost_microusd;
}

/** Return what to tell when a job changes from one state to the next; null if it is nothing special. */
export function noticeOf(before: JobSummary, now: JobSummary): JobNotice | null {
  const name = now.name || shortId(now.id);
  if (isEnded(now.status) && !isEnded(before.status)) return endNotice(name, now);
  if (now.interruptions > before.interruptions) {
    const fraction = progressFraction(now.progress);
    const at = fraction === null ? "" : ` at ${formatProgress(fraction)}`;
    const saved = now.checkpoint === null ? "No checkpoint was saved." : "It continues from its checkpoint.";
    return { title: `${name} was interrupted`, text: `The machine is gone${at}. ${saved}` };
  }
  if (!isEnded(now.status) && nearsBudget(now) && !nearsBudget(before)) {
    const spent = `${formatMoney(now.cost_microusd)} of ${formatMoney(now.max_cost_microusd ?? 0)}`;
    return { title: `${name} nears its budget`, text: `${spent} spent. At the limit it saves and stops.` };
  }
  return null;
}

function endNotice(name: string, job: JobSummary): JobNotice {
  const cost = job.cost_microusd > 0 ? ` It cost ${formatMoney(job.cost_microusd)}.` : "";
  if (job.status === "completed") return { title: `${name} completed`, text: `All work is done.${cost}` };
  if (job.status === "cancelled") return { title: `${name} was cancelled`, text: `It has ended.${cost}` };
  return { title: `${name} failed`, text: (job.failure?.message ?? "It has ended.") + cost };
}

/** Ask for permission. Browsers allow it only after a click or a key. */
export function requestPermission(): void {
  if (typeof Notification !== "undefined" && Notification.permission === "default") {
    void Notification.requestPermission();
  }
}

/**
 * Tell the user: in the page, and by the browser if the page is not visible. Several tabs tell the same; the browser
 * shows only one notification with the same tag.
 */
export function announce(notice: JobNotice, job: string, open: () => void): void {
  showToast(notice);
  if (typeof Notification === "undefined" || Notification.permission !== "granted" || !document.hidden)
    return;
  const shown = new Notification(notice.title, { body: notice.text, tag: `${job} ${notice.title}` });
  shown.onclick = () => {
    window.focus();
    open();
    shown.close();
  };
}
