/** Frame of a view: its title, one line about it, and its actions. The title becomes the title of the tab. */

import { Text, Title } from "@mantine/core";
import { useEffect, type ReactNode } from "react";

import classes from "./view_page.module.css";

interface Props {
  title: string;
  description?: ReactNode;
  actions?: ReactNode;
  /** Whether the view has the height of the window and scrolls inside (default false). */
  fill?: boolean;
  children: ReactNode;
}

export function ViewPage({ title, description, actions, fill = false, children }: Props) {
  useEffect(() => {
    document.title = `${title} · NoETL`;
  }, [title]);
  return (
    <div className={classes.page} data-fill={fill}>
      <header className={classes.header}>
        <div className={classes.titles}>
          <Title order={1} className={classes.title}>
            {title}
          </Title>
          {description && (
            <Text size="sm" c="dimmed" component="div">
              {description}
            </Text>
          )}
        </div>
        {actions && <div className={classes.actions}>{actions}</div>}
      </header>
      {children}
    </div>
  );
}
