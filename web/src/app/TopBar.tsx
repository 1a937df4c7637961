import { Link } from "@tanstack/react-router";
import { createContext, useContext, useEffect, type ReactNode } from "react";
import { createPortal } from "react-dom";
import { openPalette } from "@/app/palette-state";
import { useSession } from "@/app/session";
import { Icon } from "@/ui/Icon";

const TitleSlot = createContext<HTMLElement | null>(null);
export const TitleSlotProvider = TitleSlot.Provider;

interface PageTitleProps {
  /** The text of the browser's tab. */
  text: string;
  /** A breadcrumb, or the text as heading by default. */
  children?: ReactNode;
}

/** Put the title of a view into the top bar and the browser's tab. */
export function PageTitle({ text, children }: PageTitleProps) {
  const slot = useContext(TitleSlot);
  useEffect(() => {
    document.title = `${text} · anygpu`;
  }, [text]);
  if (slot === null) return null;
  return createPortal(children ?? <h1>{text}</h1>, slot);
}

const isMac = /mac/i.test(navigator.userAgent);

export function TopBar({ titleRef }: { titleRef: (element: HTMLElement | null) => void }) {
  const { can } = useSession();
  return (
    <header className="top">
      <div className="top-title" ref={titleRef} />
      <div className="actions">
        <button type="button" className="field find" onClick={openPalette}>
          <Icon name="search" size={14} />
          <span className="find-t">Search or run a command</span>
          <kbd aria-hidden="true">{isMac ? "⌘K" : "Ctrl K"}</kbd>
        </button>
        {can("write") && (
          <Link className="btn primary" to="/new">
            <Icon name="plus" size={14} />
            New job
            <kbd aria-hidden="true">N</kbd>
          </Link>
        )}
      </div>
    </header>
  );
}
