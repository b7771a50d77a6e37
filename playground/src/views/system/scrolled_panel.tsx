/** A panel with an anchor, so that a link leads to it. The router scrolls to an anchor only if it is drawn at once. */

import { useLocation } from "@tanstack/react-router";
import { useEffect, useRef, type ReactNode } from "react";

import { Panel } from "../../ui/panel";
import classes from "./scrolled_panel.module.css";

interface Props {
  id: string;
  title: string;
  children: ReactNode;
}

export function ScrolledPanel({ id, title, children }: Props) {
  const { hash } = useLocation();
  const anchor = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (hash === id) {
      anchor.current?.scrollIntoView({ block: "start" });
    }
  }, [hash, id]);
  return (
    <div id={id} ref={anchor} className={classes.anchor}>
      <Panel title={title}>{children}</Panel>
    </div>
  );
}
