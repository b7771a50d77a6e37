/** A JSON value as a tree that opens and closes by mouse and keyboard. */

import { useMemo } from "react";
import { JsonView, type Props as TreeProps } from "react-json-view-lite";

import { ExactNumber } from "../api/exact_json";
import classes from "./json_tree.module.css";

const STYLE: NonNullable<TreeProps["style"]> = {
  container: classes.container!,
  basicChildStyle: classes.child!,
  childFieldsContainer: classes.children!,
  label: classes.label!,
  clickableLabel: classes.label!,
  nullValue: classes.keyword!,
  undefinedValue: classes.keyword!,
  booleanValue: classes.keyword!,
  numberValue: classes.number!,
  stringValue: classes.string!,
  // Only numbers with many digits are other values.
  otherValue: classes.number!,
  punctuation: classes.punctuation!,
  expandIcon: classes.closed!,
  collapseIcon: classes.open!,
  collapsedContent: classes.collapsed!,
  ariaLables: { collapseJson: "Close", expandJson: "Open" },
};

interface Props {
  value: unknown;
  name: string;
  /** Number of levels that are open at first (default 2). */
  openLevels?: number;
}

export function JsonTree({ value, name, openLevels = 2 }: Props) {
  const drawn = useMemo(() => drawable(value), [value]);
  if (typeof drawn !== "object" || drawn === null || value instanceof ExactNumber) {
    return <code className={classes.scalar}>{JSON.stringify(value)}</code>;
  }
  return (
    <JsonView data={drawn} style={STYLE} shouldExpandNode={(level) => level < openLevels} clickToExpandNode aria-label={name} />
  );
}

/** A number that the tree draws with all its digits: it draws a date as its `toISOString`, and other objects as maps. */
class Digits extends Date {
  constructor(private readonly source: string) {
    super(0);
  }

  override toISOString(): string {
    return this.source;
  }
}

function drawable(value: unknown): unknown {
  if (value instanceof ExactNumber) {
    return new Digits(value.source);
  }
  if (Array.isArray(value)) {
    return value.map(drawable);
  }
  if (typeof value === "object" && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([key, child]) => [key, drawable(child)]));
  }
  return value;
}
