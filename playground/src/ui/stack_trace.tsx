/** A stack trace as reported. A long one shows its last lines, where Python names the error, until the user asks for all. */

import { Button, Code, Group, Text } from "@mantine/core";
import { useState } from "react";

import { CopyButton } from "./copy_button";
import classes from "./stack_trace.module.css";

/** Number of lines that are shown of a long one. */
const LAST = 5;
/** Number of lines up to which all are shown. */
const SHORT = 8;

interface Props {
  text: string;
  /** Name of what failed, if several stack traces are near each other. */
  of?: string;
}

export function StackTrace({ text, of }: Props) {
  const [open, setOpen] = useState(false);
  const lines = text.trimEnd().split("\n");
  const long = lines.length > SHORT;
  const name = of === undefined ? "Stack trace" : `Stack trace of ${of}`;
  return (
    <section aria-label={name}>
      <Group gap="xs" my={4}>
        <Text size="xs" fw={600} span>
          {name}
        </Text>
        <CopyButton value={text} name={name.charAt(0).toLowerCase() + name.slice(1)} />
        {long && (
          <Button size="compact-xs" variant="default" aria-expanded={open} onClick={() => setOpen(!open)}>
            {open ? "Show fewer lines" : `Show all ${lines.length} lines`}
          </Button>
        )}
      </Group>
      <Code block className={classes.text!}>
        {(long && !open ? lines.slice(-LAST) : lines).join("\n")}
      </Code>
    </section>
  );
}
