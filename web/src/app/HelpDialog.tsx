import { closeOverlay } from "@/app/palette-state";
import { activeShortcuts } from "@/app/shortcuts";
import { Dialog } from "@/ui/Dialog";

/** All keyboard shortcuts of the current view. */
export function HelpDialog() {
  const shortcuts = activeShortcuts();
  const groups = [...new Set(shortcuts.map((each) => each.group))];
  return (
    <Dialog open wide title="Keyboard shortcuts" onClose={closeOverlay}>
      <div className="help">
        {groups.map((group) => (
          <section key={group}>
            <h3>{group}</h3>
            <dl>
              {shortcuts
                .filter((each) => each.group === group)
                .map((each) => (
                  <div key={each.keys}>
                    <dt>{each.label}</dt>
                    <dd>
                      {each.keys.split(" ").map((key) => (
                        <kbd key={key}>
                          {key.replace(/mod\+(.)/, (_, letter: string) => `Ctrl ${letter.toUpperCase()}`)}
                        </kbd>
                      ))}
                    </dd>
                  </div>
                ))}
            </dl>
          </section>
        ))}
      </div>
    </Dialog>
  );
}
