/** Labels of an execution. Each one leads to the executions that have it. */

import { Link } from "@tanstack/react-router";

import classes from "./label_chips.module.css";
import { labelLocation } from "./labels";

interface Props {
  labels: readonly { name: string; value: string }[];
  /** Maximum number of labels that are shown (default: all). */
  max?: number;
}

export function LabelChips({ labels, max = labels.length }: Props) {
  if (labels.length === 0) {
    return null;
  }
  const texts = labels.map(({ name, value }) => `${name}=${value}`);
  return (
    <span className={classes.chips}>
      {labels.slice(0, max).map((label, index) => (
        <Link key={label.name} {...labelLocation(label)} className={classes.chip} title={texts[index]}>
          {texts[index]}
        </Link>
      ))}
      {labels.length > max && (
        <span className={classes.more} title={texts.slice(max).join("\n")}>
          +{labels.length - max}
        </span>
      )}
    </span>
  );
}
