/** Menu of the user: who is signed in with which roles, sign-in, theme, and time zone. */

import { Button, Divider, Popover, SegmentedControl, Stack, Text, useMantineColorScheme } from "@mantine/core";
import { IconUser } from "@tabler/icons-react";
import { useSyncExternalStore } from "react";

import { requestSignIn, signInState, signOut, subscribeSignIn } from "../api/token";
import { NOT_IDENTIFIED, useViewer } from "../api/viewer";
import { setZone, useZone, type Zone } from "../ui/clock";
import { Time } from "../ui/time";

export function UserMenu() {
  const { data } = useViewer();
  const viewer = data?.data.viewer;
  const name = viewer ? (viewer.subject ?? NOT_IDENTIFIED) : "Not signed in";
  return (
    <Popover position="bottom-end" width={280} shadow="md" trapFocus>
      <Popover.Target>
        <Button variant="default" size="xs" leftSection={<IconUser size={14} />} aria-label={`User and settings: ${name}`} maw={160}>
          {name}
        </Button>
      </Popover.Target>
      <Popover.Dropdown>
        <Stack gap="sm">
          {viewer ? <Identity viewer={viewer} /> : <Text size="sm">The server does not know you yet.</Text>}
          <SignInActions />
          <Divider />
          <ThemeChoice />
          <ZoneChoice />
        </Stack>
      </Popover.Dropdown>
    </Popover>
  );
}

interface IdentityProps {
  viewer: { subject: string | null; roles: readonly string[]; tenant: string | null; expiresAt: string | null };
}

function Identity({ viewer }: IdentityProps) {
  return (
    <div>
      <Text fw={600} size="sm" truncate>
        {viewer.subject ?? NOT_IDENTIFIED}
      </Text>
      <Text size="xs" c="dimmed">
        {viewer.roles.length > 0 ? `Role: ${viewer.roles.join(", ").toLowerCase()}` : "No role"}
        {viewer.tenant !== null && ` · Tenant: ${viewer.tenant}`}
      </Text>
      {viewer.subject === null && (
        <Text size="xs" c="dimmed">
          This server does not identify callers.
        </Text>
      )}
      {viewer.expiresAt !== null && (
        <Text size="xs" c="dimmed">
          The token expires <Time value={viewer.expiresAt} />.
        </Text>
      )}
    </div>
  );
}

function SignInActions() {
  const { token } = useSyncExternalStore(subscribeSignIn, signInState);
  return token === null ? (
    <Button size="xs" variant="default" onClick={requestSignIn}>
      Sign in
    </Button>
  ) : (
    <Button size="xs" variant="default" onClick={signOut}>
      Sign out
    </Button>
  );
}

function ThemeChoice() {
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  return (
    <div role="group" aria-label="Theme">
      <Text size="xs" c="dimmed" mb={4}>
        Theme
      </Text>
      <SegmentedControl
        fullWidth
        size="xs"
        aria-label="Theme"
        value={colorScheme}
        onChange={(value) => setColorScheme(value as typeof colorScheme)}
        data={[
          { value: "auto", label: "System" },
          { value: "light", label: "Light" },
          { value: "dark", label: "Dark" },
        ]}
      />
    </div>
  );
}

function ZoneChoice() {
  const zone = useZone();
  return (
    <div role="group" aria-label="Times">
      <Text size="xs" c="dimmed" mb={4}>
        Times
      </Text>
      <SegmentedControl
        fullWidth
        size="xs"
        aria-label="Times"
        value={zone}
        onChange={(value) => setZone(value as Zone)}
        data={[
          { value: "local", label: "My zone" },
          { value: "utc", label: "UTC" },
        ]}
      />
    </div>
  );
}
