/** One sentence about the health of the system, and below it each warning with what to do. */

import { Text } from "@mantine/core";
import { IconAlertTriangle, IconCircleCheck, IconCircleX } from "@tabler/icons-react";
import type { LinkProps } from "@tanstack/react-router";

import type { SystemStatus } from "../../api/system_status";
import { warningsOf, type Warning } from "../../app/health";
import { TextLink } from "../../ui/text_link";
import { Time } from "../../ui/time";
import classes from "./health_banner.module.css";

type Level = "healthy" | Warning["severity"];

const ICONS = { healthy: IconCircleCheck, attention: IconAlertTriangle, problem: IconCircleX };

const LINKS = {
  shards: { text: "Open the shards", link: { to: "/system", hash: "shards" } },
  feeds: { text: "Open the event feeds", link: { to: "/system", hash: "feeds" } },
  outbox: { text: "Open the outbox", link: { to: "/outbox" } },
  "dead entries": { text: "Open the dead entries", link: { to: "/outbox", search: { statuses: "DEAD" } } },
} as const satisfies Record<Warning["about"], { text: string; link: LinkProps }>;

interface Props {
  status: SystemStatus;
  /** Whether the status may be out of date, because the connection is lost. */
  stale: boolean;
}

export function HealthBanner({ status, stale }: Props) {
  const warnings = warningsOf(status);
  const level: Level = warnings[0]?.severity ?? "healthy";
  const Icon = ICONS[level];
  return (
    <section className={classes.banner} data-level={level} aria-label="Health">
      <Icon size={32} stroke={1.6} className={classes.icon} aria-hidden="true" />
      <div className={classes.content}>
        <p className={classes.sentence} role="status">
          {sentence(warnings)}
        </p>
        {warnings.length > 0 && (
          <ul className={classes.warnings}>
            {warnings.map((warning) => (
              <li key={warning.text}>
                <strong>{warning.text}</strong> {warning.advice} <Details about={warning.about} />
              </li>
            ))}
          </ul>
        )}
        <Text size="xs" c="dimmed">
          {stale ? "The connection is lost; this is the state " : "Checked "}
          <Time value={status.at} />.
        </Text>
      </div>
    </section>
  );
}

function Details({ about }: Pick<Warning, "about">) {
  const { text, link } = LINKS[about];
  return (
    <TextLink {...link} inherit underline="always">
      {text}
    </TextLink>
  );
}

function sentence(warnings: readonly Warning[]): string {
  const problems = warnings.filter((warning) => warning.severity === "problem").length;
  if (problems > 0) {
    return problems === 1 ? "The system has a problem." : `The system has ${problems} problems.`;
  }
  if (warnings.length > 0) {
    return warnings.length === 1 ? "The system works; one thing needs attention." : `The system works; ${warnings.length} things need attention.`;
  }
  return "The system is healthy.";
}
