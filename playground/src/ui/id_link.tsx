/** An id, as a link to its object, with a button that copies it. */

import { Group } from "@mantine/core";

import { CopyButton } from "./copy_button";
import classes from "./id_link.module.css";
import { ObjectLink, type ObjectKind } from "./object_links";

interface Props {
  id: string;
  kind: ObjectKind;
}

export function IdLink({ id, kind }: Props) {
  return (
    <Group gap={2} wrap="nowrap" component="span" display="inline-flex">
      <ObjectLink kind={kind} id={id} className={classes.id}>
        {id}
      </ObjectLink>
      <CopyButton value={id} name="id" />
    </Group>
  );
}
