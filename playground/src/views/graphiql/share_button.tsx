/** Copies a link to the document and the variables of the tab, and says whether it did. */

import { ToolbarButton, useGraphiQL } from "@graphiql/react";
import { Tooltip, VisuallyHidden } from "@mantine/core";
import { IconLink } from "@tabler/icons-react";
import { useState } from "react";

import { addressOf } from "../../api/address";
import { linkTo } from "./share_link";

export function ShareButton() {
  const query = useGraphiQL((state) => state.queryEditor);
  const variables = useGraphiQL((state) => state.variableEditor);
  const [outcome, setOutcome] = useState("");
  const share = async () => {
    const shared = linkTo(addressOf("/graphiql"), query?.getValue() ?? "", variables?.getValue() ?? "");
    setOutcome("refusal" in shared ? shared.refusal : await copy(shared.link));
  };
  const forget = () => setOutcome("");
  return (
    <>
      <Tooltip label={outcome} opened={outcome !== ""} position="left">
        <ToolbarButton
          label="Copy link to query and variables"
          onClick={() => void share()}
          onMouseLeave={forget}
          onBlur={forget}
        >
          <IconLink className="graphiql-toolbar-icon" aria-hidden />
        </ToolbarButton>
      </Tooltip>
      <VisuallyHidden role="status">{outcome}</VisuallyHidden>
    </>
  );
}

async function copy(link: string): Promise<string> {
  try {
    await navigator.clipboard.writeText(link);
    return "Link copied.";
  } catch {
    return "The browser did not allow to copy the link.";
  }
}
