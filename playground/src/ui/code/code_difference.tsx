/** The difference of two documents, in the text of the newer one. Long unchanged parts are closed. */

import { Chunk, unifiedMergeView } from "@codemirror/merge";
import { Text as Lines } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import { Text } from "@mantine/core";
import { useMemo } from "react";

import { codeExtensions, READ_ONLY } from "./extensions";
import { useEditor } from "./use_editor";
import classes from "./code.module.css";

interface Props {
  older: string;
  newer: string;
  /** Name of the difference for screen readers. */
  label: string;
}

const COLORS = EditorView.theme({
  "&.cm-merge-b .cm-changedLine": { backgroundColor: "var(--noetl-added)" },
  ".cm-deletedChunk": { backgroundColor: "var(--noetl-removed)" },
  "&.cm-merge-b .cm-changedText, &.cm-merge-b .cm-insertedLine .cm-changedText": { background: "var(--noetl-added-text)" },
  "& .cm-deletedChunk .cm-deletedText": { background: "var(--noetl-removed-text)" },
  "& .cm-collapsedLines": { background: "var(--noetl-mark)", color: "var(--mantine-color-dimmed)" },
});

export function CodeDifference({ older, newer, label }: Props) {
  const summary = useMemo(() => summaryOf(older, newer), [older, newer]);
  const extensions = () => [
    codeExtensions(newer, label),
    READ_ONLY,
    unifiedMergeView({ original: older, mergeControls: false, collapseUnchanged: { margin: 3, minSize: 6 } }),
    COLORS,
  ];
  const { frame } = useEditor(newer, extensions, [older, newer, label]);
  return (
    <>
      <Text size="xs" c="dimmed" mb="xs" role="status">
        {summary}
      </Text>
      <div ref={frame} className={classes.code} />
    </>
  );
}

function summaryOf(older: string, newer: string): string {
  const [before, after] = [Lines.of(older.split("\n")), Lines.of(newer.split("\n"))];
  const chunks = Chunk.build(before, after);
  if (chunks.length === 0) {
    return "The contents are equal.";
  }
  const removed = chunks.reduce((sum, chunk) => sum + linesIn(before, chunk.fromA, chunk.toA), 0);
  const added = chunks.reduce((sum, chunk) => sum + linesIn(after, chunk.fromB, chunk.toB), 0);
  return `${inWords(removed)} removed, ${inWords(added)} added.`;
}

/** Returns the number of lines of a change. Its end is behind the line break of its last line. */
function linesIn(text: Lines, from: number, to: number): number {
  return to > from ? text.lineAt(to - 1).number - text.lineAt(from).number + 1 : 0;
}

function inWords(lines: number): string {
  return lines === 1 ? "1 line" : `${lines} lines`;
}
