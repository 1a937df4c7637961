/** Parts that the lists of checkpoints and artifacts share. */

import { showToast } from "@/app/toasts";
import { copyText } from "@/lib/clipboard";
import { Icon } from "@/ui/Icon";

/** The beginning of a SHA-256; a click copies all of it. */
export function Hash({ sha256 }: { sha256: string }) {
  const copy = () => {
    void copyText(sha256);
    showToast({ title: "SHA-256 copied", icon: <Icon name="copy" /> });
  };
  return (
    <button type="button" className="hash" title={`SHA-256 ${sha256}, click to copy`} onClick={copy}>
      <code>{sha256.slice(0, 8)}…</code>
    </button>
  );
}

interface DownloadLinkProps {
  href: string;
  label: string;
  mini?: boolean;
}

export function DownloadLink({ href, label, mini = false }: DownloadLinkProps) {
  return (
    <a
      className={mini ? "btn quiet icon mini" : "btn"}
      href={href}
      download
      aria-label={label}
      title={mini ? label : undefined}
    >
      <Icon name="download" size={mini ? 12 : 14} />
      {!mini && "Download"}
    </a>
  );
}

/** ".pt" from "out/model.pt"; "file" without an ending. */
export function fileEnding(name: string): string {
  const base = name.slice(name.lastIndexOf("/") + 1);
  const dot = base.lastIndexOf(".");
  return dot > 0 && base.length - dot <= 8 ? base.slice(dot) : "file";
}
