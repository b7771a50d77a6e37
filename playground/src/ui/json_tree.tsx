/** A JSON value as a tree that opens and closes by mouse and keyboard. */

import { JsonView, type Props as TreeProps } from "react-json-view-lite";

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
  otherValue: classes.keyword!,
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
  if (typeof value !== "object" || value === null) {
    return <code className={classes.scalar}>{JSON.stringify(value)}</code>;
  }
  return (
    <JsonView data={value} style={STYLE} shouldExpandNode={(level) => level < openLevels} clickToExpandNode aria-label={name} />
  );
}
