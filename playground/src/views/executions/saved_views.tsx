/** Menu of the saved views: opens one, saves the current filter under a name, and removes one. */

import { ActionIcon, Button, Group, Popover, Stack, Text, TextInput } from "@mantine/core";
import { IconBookmark, IconTrash } from "@tabler/icons-react";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useState } from "react";

import { removeView, saveView, useSavedViews } from "./saved_views_store";

const route = getRouteApi("/executions");

export function SavedViews() {
  const views = Object.entries(useSavedViews());
  const [opened, setOpened] = useState(false);
  return (
    <Popover opened={opened} onChange={setOpened} position="bottom-end" width={280} shadow="md" trapFocus>
      <Popover.Target>
        <Button size="xs" variant="default" leftSection={<IconBookmark size={14} />} onClick={() => setOpened(!opened)}>
          Saved views{views.length > 0 && ` (${views.length})`}
        </Button>
      </Popover.Target>
      <Popover.Dropdown>
        <Stack gap="sm">
          {views.length === 0 && (
            <Text size="sm" c="dimmed">
              Save the current filter under a name. It is kept in this browser.
            </Text>
          )}
          {views.map(([name, search]) => (
            <Group key={name} justify="space-between" wrap="nowrap" gap="xs">
              <Button
                renderRoot={(props) => <Link {...props} to="/executions" search={search} />}
                onClick={() => setOpened(false)}
                variant="subtle"
                size="compact-sm"
                justify="flex-start"
                flex={1}
              >
                {name}
              </Button>
              <ActionIcon variant="subtle" color="gray" aria-label={`Remove ${name}`} onClick={() => removeView(name)}>
                <IconTrash size={14} />
              </ActionIcon>
            </Group>
          ))}
          <SaveForm />
        </Stack>
      </Popover.Dropdown>
    </Popover>
  );
}

function SaveForm() {
  const search = route.useSearch();
  const [name, setName] = useState("");
  const title = name.trim();
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (title) {
          saveView(title, search);
          setName("");
        }
      }}
    >
      <Group gap="xs" align="flex-end" wrap="nowrap">
        <TextInput
          label="Name of the current filter"
          size="xs"
          flex={1}
          maxLength={60}
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
        />
        <Button type="submit" size="xs" disabled={!title}>
          Save
        </Button>
      </Group>
    </form>
  );
}
