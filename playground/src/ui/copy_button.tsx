/** A small button that copies a text, and says that it did. */

import { ActionIcon, CopyButton as Copy, Tooltip } from "@mantine/core";
import { IconCheck, IconCopy } from "@tabler/icons-react";

interface Props {
  value: string;
  /** Name of the copied thing, such as `id`. */
  name: string;
}

export function CopyButton({ value, name }: Props) {
  return (
    <Copy value={value}>
      {({ copied, copy }) => (
        <Tooltip label={copied ? "Copied" : `Copy ${name}`}>
          <ActionIcon variant="subtle" color="gray" size={24} onClick={copy} aria-label={copied ? "Copied" : `Copy ${name}`}>
            {copied ? <IconCheck size={14} /> : <IconCopy size={14} />}
          </ActionIcon>
        </Tooltip>
      )}
    </Copy>
  );
}
