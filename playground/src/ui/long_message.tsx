/** A message of any length, such as an error: its beginning, and on demand the rest. The whole can be copied. */

import { Button } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";

import { CopyButton } from "./copy_button";
import { formatNumber } from "./format";
import { firstOf } from "./text_parts";
import classes from "./long_message.module.css";

/** Number of characters that are shown at first. */
const SHOWN = 300;

interface Props {
  text: string;
  /** Name of the message, such as `error`. */
  name: string;
}

export function LongMessage({ text, name }: Props) {
  const [opened, { toggle }] = useDisclosure(false);
  if (text.length <= SHOWN) {
    return <span className={classes.text}>{text}</span>;
  }
  return (
    <span className={classes.message}>
      {opened ? (
        <span className={classes.whole} role="group" aria-label={`Whole ${name}`} tabIndex={0}>
          {text}
        </span>
      ) : (
        <span className={classes.text}>{firstOf(text, SHOWN)}…</span>
      )}
      <span className={classes.actions}>
        <Button variant="subtle" size="compact-xs" aria-expanded={opened} onClick={toggle}>
          {opened ? "Show less" : `Show all ${formatNumber(text.length)} characters`}
        </Button>
        <CopyButton value={text} name={`whole ${name}`} />
      </span>
    </span>
  );
}
