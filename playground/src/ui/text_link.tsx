/** A link in a text to another view. */

import { Anchor, type AnchorProps } from "@mantine/core";
import { createLink } from "@tanstack/react-router";
import type { ComponentProps } from "react";

function RoutedAnchor(props: Omit<AnchorProps, "href"> & Omit<ComponentProps<"a">, keyof AnchorProps>) {
  return <Anchor {...props} />;
}

export const TextLink = createLink(RoutedAnchor);
