/** A titled part of a view. */

import { Paper, Title } from "@mantine/core";
import { useId, type ReactNode } from "react";

import classes from "./panel.module.css";

interface Props {
  title: string;
  /** Controls at the end of the title line. */
  actions?: ReactNode;
  children: ReactNode;
}

export function Panel({ title, actions, children }: Props) {
  const heading = useId();
  return (
    <Paper component="section" aria-labelledby={heading} withBorder className={classes.panel}>
      <header className={classes.header}>
        <Title order={2} id={heading} className={classes.title}>
          {title}
        </Title>
        {actions && <div className={classes.actions}>{actions}</div>}
      </header>
      {children}
    </Paper>
  );
}
