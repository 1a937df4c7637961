/** The code editor. It is a module of its own, so that CodeMirror is loaded only when this page opens. */

import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { python } from "@codemirror/lang-python";
import { yaml } from "@codemirror/lang-yaml";
import {
  HighlightStyle,
  bracketMatching,
  indentOnInput,
  indentUnit,
  syntaxHighlighting,
} from "@codemirror/language";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { EditorState, Prec, type Extension } from "@codemirror/state";
import {
  EditorView,
  drawSelection,
  highlightActiveLine,
  highlightActiveLineGutter,
  keymap,
  lineNumbers,
} from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useEffectEvent, useRef } from "react";
import { lintDisplay, setLints } from "@/views/new/editor/lints";
import { styleNonce } from "@/app/style-nonce";
import type { Fix, Lint } from "@/views/new/fixes";

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.bool, tags.null, tags.self], color: "var(--code-key)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--code-str)" },
  { tag: tags.number, color: "var(--code-num)" },
  {
    tag: [tags.function(tags.variableName), tags.function(tags.propertyName), tags.propertyName],
    color: "var(--code-fn)",
  },
  { tag: tags.comment, color: "var(--code-note)" },
]);

interface CodeEditorProps {
  path: string;
  text: string;
  lints: readonly Lint[];
  /** A line to show and mark, and a number that changes with every request. */
  jump: { line: number; count: number } | null;
  readOnly?: boolean;
  onChange: (text: string) => void;
  onFix: (fix: Fix) => void;
  onSubmit: () => void;
}

export default function CodeEditor(props: CodeEditorProps) {
  const { path, text, lints, jump, readOnly = false } = props;
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const onChange = useEffectEvent((next: string) => props.onChange(next));
  const onFix = useEffectEvent((fix: Fix) => props.onFix(fix));
  const onSubmit = useEffectEvent(() => props.onSubmit());
  const initialText = useEffectEvent(() => text);
  const currentLints = useEffectEvent(() => lints);

  useEffect(() => {
    if (host.current === null) return;
    const made = new EditorView({
      parent: host.current,
      state: EditorState.create({
        doc: initialText(),
        extensions: [
          lintDisplay((fix) => onFix(fix)), // first, so that its marks are left of the line numbers
          ...basics(path, readOnly),
          Prec.highest(keymap.of([{ key: "Mod-Enter", run: () => (onSubmit(), true) }])),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) onChange(update.state.doc.toString());
          }),
        ],
      }),
    });
    made.dispatch({ effects: setLints.of(currentLints()) });
    view.current = made;
    return () => {
      made.destroy();
      view.current = null;
    };
  }, [path, readOnly]);

  useEffect(() => {
    const current = view.current;
    if (current === null || current.state.doc.toString() === text) return;
    current.dispatch({ changes: { from: 0, to: current.state.doc.length, insert: text } });
  }, [text]);

  useEffect(() => {
    view.current?.dispatch({ effects: setLints.of(lints) });
  }, [lints]);

  useEffect(() => {
    if (jump !== null) showLine(view.current, jump.line);
  }, [jump, path]);

  return <div ref={host} className="editor-host" />;
}

function showLine(view: EditorView | null, number: number): void {
  if (view === null || number < 1 || number > view.state.doc.lines) return;
  const line = view.state.doc.line(number);
  view.dispatch({
    selection: { anchor: line.from },
    effects: EditorView.scrollIntoView(line.from, { y: "center" }),
  });
  view.focus();
}

function basics(path: string, readOnly: boolean): Extension[] {
  return [
    EditorView.cspNonce.of(styleNonce),
    lineNumbers(),
    history(),
    drawSelection(),
    indentOnInput(),
    bracketMatching(),
    highlightActiveLine(),
    highlightActiveLineGutter(),
    highlightSelectionMatches(),
    search({ top: true }),
    syntaxHighlighting(colours),
    replaceSelection,
    indentUnit.of("    "),
    EditorState.readOnly.of(readOnly),
    EditorView.contentAttributes.of({
      "aria-label": path,
      tabindex: "0",
      "aria-description": "Escape, then Tab, leaves the editor",
    }),
    // Escape, then Tab, leaves the editor with the keyboard.
    keymap.of([...defaultKeymap, ...historyKeymap, ...searchKeymap, indentWithTab]),
    ...languageOf(path),
  ];
}

/**
 * Text typed over a selection. The browser would copy the style of the selected text into an attribute, which the
 * Content-Security-Policy reports as a violation.
 */
const replaceSelection = EditorView.domEventHandlers({
  beforeinput: (event, view) => {
    const { main } = view.state.selection;
    if (event.inputType !== "insertText" || event.data === null || main.empty || view.composing) return false;
    if (view.state.readOnly) return false;
    event.preventDefault();
    view.dispatch(view.state.replaceSelection(event.data), { userEvent: "input.type", scrollIntoView: true });
    return true;
  },
});

function languageOf(path: string): Extension[] {
  if (path.endsWith(".py")) return [python()];
  return /\.ya?ml$/.test(path) ? [yaml()] : [];
}
