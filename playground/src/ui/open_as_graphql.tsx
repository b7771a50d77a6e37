/** A link that opens the GraphiQL view with a document and its variables. */

import { Button } from "@mantine/core";
import { IconBraces } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";

interface Props {
  document: { toString(): string };
  variables?: object;
}

export function OpenAsGraphql({ document, variables }: Props) {
  const search = {
    // The generated documents indent the first line of each operation and fragment by four spaces.
    query: `${document.toString().trim().replace(/\n {4}(?=fragment \w+ on )/g, "\n\n")}\n`,
    ...(variables && Object.keys(variables).length > 0 && { variables: JSON.stringify(variables, null, 2) }),
  };
  return (
    <Button
      renderRoot={(props) => <Link {...props} to="/graphiql" search={search} />}
      variant="default"
      size="xs"
      leftSection={<IconBraces size={14} />}
    >
      Open as GraphQL
    </Button>
  );
}
