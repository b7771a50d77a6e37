/** A figure with its name, a line of explanation, and optionally a link to the view that has the details. */

import { Link, type LinkProps } from "@tanstack/react-router";
import type { ReactNode } from "react";

import type { Tone } from "./tone";
import classes from "./figure.module.css";

interface Props {
  name: string;
  value: ReactNode;
  explanation?: ReactNode;
  tone?: Tone;
  link?: Pick<LinkProps, "to" | "search" | "hash">;
  children?: ReactNode;
}

export function Figure({ name, value, explanation, tone, link, children }: Props) {
  const content = (
    <>
      <span className={classes.name}>{name}</span>
      <span className={classes.value} data-tone={tone}>
        {value}
      </span>
      {explanation && <span className={classes.explanation}>{explanation}</span>}
      {children}
    </>
  );
  return link ? (
    <Link {...link} className={classes.figure}>
      {content}
    </Link>
  ) : (
    <div className={classes.figure}>{content}</div>
  );
}
