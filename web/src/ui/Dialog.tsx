import { Dialog as Primitive } from "radix-ui";
import { useId, useRef, type ReactNode } from "react";
import { Button, IconButton } from "@/ui/Button";

/** Handlers that give the focus back to the button, link or menu from which a dialog was opened. */
export function useReturnedFocus() {
  const opener = useRef<HTMLElement | null>(null);
  const remember = () => {
    const active = document.activeElement;
    const menuButton = active?.closest("[role=menu]")?.getAttribute("aria-labelledby");
    opener.current = menuButton == null ? (active as HTMLElement) : document.getElementById(menuButton);
  };
  const giveBack = (event: Event) => {
    event.preventDefault();
    opener.current?.focus();
  };
  return { remember, giveBack };
}

interface DialogProps {
  open: boolean;
  onClose: () => void;
  title: string;
  /** Wide dialogs hold forms and previews. */
  wide?: boolean;
  children: ReactNode;
}

/** A modal dialog: traps the focus, closes with Escape, and returns the focus when it closes. */
export function Dialog({ open, onClose, title, wide = false, children }: DialogProps) {
  const { remember, giveBack } = useReturnedFocus();
  return (
    <Primitive.Root open={open} onOpenChange={(next) => !next && onClose()}>
      <Primitive.Portal>
        <Primitive.Overlay className="scrim-full" />
        <Primitive.Content
          className={wide ? "dialog modal wide" : "dialog modal"}
          aria-describedby={undefined}
          onOpenAutoFocus={remember}
          onCloseAutoFocus={giveBack}
        >
          <header className="dialog-head">
            <Primitive.Title asChild>
              <h2>{title}</h2>
            </Primitive.Title>
            {wide && <IconButton icon="close" label="Close" onClick={onClose} />}
          </header>
          {children}
        </Primitive.Content>
      </Primitive.Portal>
    </Primitive.Root>
  );
}

interface ConfirmDialogProps {
  open: boolean;
  title: string;
  /** What is lost and what is kept. */
  children: ReactNode;
  /** The safe choice, e.g. "Keep it running". It has the focus first. */
  keep: string;
  /** The verb of the action, e.g. "Cancel the job". */
  act: string;
  danger?: boolean;
  pending?: boolean;
  onKeep: () => void;
  onAct: () => void;
}

/** Asks before an action that cannot be undone. */
export function ConfirmDialog(props: ConfirmDialogProps) {
  const { open, title, children, keep, act, danger = true, pending = false, onKeep, onAct } = props;
  const safe = useRef<HTMLButtonElement>(null);
  const id = useId();
  const { remember, giveBack } = useReturnedFocus();
  return (
    <Primitive.Root open={open} onOpenChange={(next) => !next && onKeep()}>
      <Primitive.Portal>
        <Primitive.Overlay className="scrim-full" />
        <Primitive.Content
          className="dialog modal"
          role="alertdialog"
          aria-describedby={id}
          onOpenAutoFocus={(event) => {
            remember();
            event.preventDefault();
            safe.current?.focus();
          }}
          onCloseAutoFocus={giveBack}
        >
          <Primitive.Title asChild>
            <h2>{title}</h2>
          </Primitive.Title>
          <div id={id} className="t2">
            {children}
          </div>
          <div className="row dialog-actions">
            <button type="button" className="btn" ref={safe} onClick={onKeep}>
              {keep}
            </button>
            <Button look={danger ? "danger-fill" : "primary"} disabled={pending} onClick={onAct}>
              {act}
            </Button>
          </div>
        </Primitive.Content>
      </Primitive.Portal>
    </Primitive.Root>
  );
}
