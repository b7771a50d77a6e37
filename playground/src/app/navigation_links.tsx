/** The links of the navigation with the number of warnings, and below them the server of this page. */

import { AppShell, NavLink, Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";

import { useSystemStatus } from "../api/system_status";
import { useViewer } from "../api/viewer";
import { warningsOf } from "./health";
import { NAVIGATION } from "./navigation";
import classes from "./navigation_links.module.css";

export function Navigation() {
  return (
    <>
      <AppShell.Section grow>
        {NAVIGATION.map(({ to, title, icon: Icon }) => (
          <NavLink
            key={to}
            renderRoot={(props) => <Link {...props} to={to} activeOptions={{ exact: to === "/", includeSearch: false }} />}
            label={title}
            leftSection={<Icon size={18} stroke={1.6} />}
            {...(to === "/" && { rightSection: <WarningCount /> })}
            className={classes.link}
          />
        ))}
      </AppShell.Section>
      <AppShell.Section>
        <ServerName />
      </AppShell.Section>
    </>
  );
}

/** The number of warnings, which the overview explains. It is visible in all views. */
function WarningCount() {
  const { status } = useSystemStatus();
  const count = status ? warningsOf(status).length : 0;
  return count > 0 ? (
    <span className={classes.warnings} role="status" aria-label={count === 1 ? "1 warning" : `${count} warnings`}>
      {count}
    </span>
  ) : null;
}

function ServerName() {
  const { data } = useViewer();
  const server = data?.data.server;
  if (!server) {
    return null;
  }
  return (
    <div className={classes.server}>
      <Text size="xs" c="dimmed">
        Version {server.version}
      </Text>
      <Text size="xs" c="dimmed" truncate title={`Replica ${server.replica}`}>
        Replica {server.replica}
      </Text>
    </div>
  );
}
