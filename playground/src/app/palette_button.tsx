/** The button that opens the command palette: with its keys on a wide screen, an icon on a narrow one. */

import { ActionIcon, Button, Kbd } from "@mantine/core";
import { IconSearch } from "@tabler/icons-react";

export function PaletteButton({ onClick }: { onClick: () => void }) {
  return (
    <>
      <Button
        variant="default"
        size="xs"
        onClick={onClick}
        visibleFrom="sm"
        leftSection={<IconSearch size={14} />}
        rightSection={<Kbd size="xs">Ctrl K</Kbd>}
      >
        Go to…
      </Button>
      <ActionIcon variant="default" size={30} onClick={onClick} hiddenFrom="sm" aria-label="Go to…">
        <IconSearch size={16} />
      </ActionIcon>
    </>
  );
}
