/** Show the findings of a plan in the editor: the line is marked, and the message with its fix is below it. */

import { StateEffect, StateField, type Extension, type Range } from "@codemirror/state";
import {
  Decoration,
  EditorView,
  GutterMarker,
  WidgetType,
  gutter,
  type DecorationSet,
} from "@codemirror/view";
import type { Fix, Lint } from "@/views/new/fixes";

export const setLints = StateEffect.define<readonly Lint[]>();

const SVG = "http://www.w3.org/2000/svg";

class LintWidget extends WidgetType {
  constructor(
    private readonly lint: Lint,
    private readonly onFix: (fix: Fix) => void,
  ) {
    super();
  }

  override eq(other: LintWidget): boolean {
    return JSON.stringify(other.lint) === JSON.stringify(this.lint);
  }

  override toDOM(): HTMLElement {
    const box = document.createElement("div");
    box.className = "lint";
    const text = document.createElement("p");
    text.append(`${this.lint.says} `, element("span", "t2", this.lint.do), " ");
    text.append(element("span", "t3 mono", this.lint.code));
    box.append(text);
    const { fix } = this.lint;
    if (fix) {
      const button = element("button", "btn", fix.title);
      button.setAttribute("type", "button");
      button.addEventListener("mousedown", (event) => event.preventDefault());
      button.addEventListener("click", () => this.onFix(fix));
      box.append(button);
    }
    return box;
  }

  override ignoreEvent(): boolean {
    return true;
  }
}

function element(tag: string, className: string, text: string): HTMLElement {
  const made = document.createElement(tag);
  made.className = className;
  made.textContent = text;
  return made;
}

class WarningMarker extends GutterMarker {
  override toDOM(): Node {
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("class", "i i-12");
    svg.setAttribute("viewBox", "0 0 16 16");
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("d", "M8 2.5 14.25 13.5H1.75zM8 6.5v3.25M8 11.75h.01");
    svg.append(path);
    return svg;
  }
}

const marker = new WarningMarker();
const lineMark = Decoration.line({ class: "cm-lint-line" });
const textMark = Decoration.mark({ class: "cm-lint-text" });

/** The extension that shows lints. Edits move them with their lines until the next plan arrives. */
export function lintDisplay(onFix: (fix: Fix) => void): Extension {
  const field = StateField.define<DecorationSet>({
    create: () => Decoration.none,
    update(current, transaction) {
      let next = current.map(transaction.changes);
      for (const effect of transaction.effects) {
        if (effect.is(setLints)) next = decorate(transaction.state.doc, effect.value, onFix);
      }
      return next;
    },
    provide: (self) => EditorView.decorations.from(self),
  });
  const warnings = gutter({
    class: "cm-warnings",
    lineMarker: (view, line) => {
      let found: GutterMarker | null = null;
      view.state.field(field).between(line.from, line.from, (_from, _to, value) => {
        if (value.spec.class === "cm-lint-line") found = marker;
      });
      return found;
    },
    initialSpacer: () => marker,
  });
  return [field, warnings];
}

type Doc = EditorView["state"]["doc"];

function decorate(doc: Doc, lints: readonly Lint[], onFix: (fix: Fix) => void): DecorationSet {
  const ranges: Range<Decoration>[] = [];
  const shown = lints.filter((lint) => lint.line >= 1 && lint.line <= doc.lines);
  for (const number of new Set(shown.map((lint) => lint.line))) {
    ranges.push(lineMark.range(doc.line(number).from));
  }
  for (const lint of shown) {
    const line = doc.line(lint.line);
    const from = line.from + Math.min(lint.column ?? 0, line.length);
    const to = line.from + Math.min(lint.end_column ?? 0, line.length);
    if (to > from) ranges.push(textMark.range(from, to));
    const widget = new LintWidget(lint, onFix);
    ranges.push(Decoration.widget({ widget, block: true, side: 1 }).range(line.to));
  }
  return Decoration.set(ranges, true);
}
