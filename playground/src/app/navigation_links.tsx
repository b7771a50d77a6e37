/** The links of the navigation, and below them the server of this page. */

import { AppShell, NavLink, Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";

import { useViewer } from "../api/viewer";
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
