/** A name on one line, such as a path. A long one is shortened in its middle; the whole is in a tooltip and can be copied. */

import { Tooltip } from "@mantine/core";
import type { ReactNode } from "react";

import { CopyButton } from "./copy_button";
import { isLongText, partsOf } from "./text_parts";
import classes from "./long_text.module.css";

interface Props {
  text: string;
  /** Name of the text, such as `path`. */
  name: string;
  /** Draws the link around the text, with the whole text as its accessible name. */
  link?: (shown: ReactNode) => ReactNode;
}

export function LongText({ text, name, link = (shown) => shown }: Props) {
  if (!isLongText(text)) {
    return link(text);
  }
  const { start, end } = partsOf(text);
  const shown = (
    <span className={classes.text}>
      <span className={classes.start}>{start}</span>
      <span className={classes.end}>{end}</span>
    </span>
  );
  return (
    <span className={classes.line}>
      <Tooltip label={text} multiline className={classes.whole!} events={{ hover: true, focus: true, touch: true }}>
        <span className={classes.target}>{link(shown)}</span>
      </Tooltip>
      <CopyButton value={text} name={name} />
    </span>
  );
}
