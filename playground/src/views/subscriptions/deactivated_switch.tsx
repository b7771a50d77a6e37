/** Shows or hides the deactivated subscriptions, and says how many there are. */

import { Switch } from "@mantine/core";
import { getRouteApi } from "@tanstack/react-router";

import { useApiQuery } from "../../api/hooks";
import { formatCount } from "../../ui/format";
import { choosesStatuses, filterOf } from "./filter";
import { DeactivatedCountDocument } from "./operations.generated";

const route = getRouteApi("/subscriptions");

/** Draws nothing if there are none, or if the filter names the states. */
export function DeactivatedSwitch() {
  const { statuses, path, labels, deactivated } = route.useSearch();
  const navigate = route.useNavigate();
  const filter = filterOf({ statuses: "DEACTIVATED", path, labels });
  const offered = !choosesStatuses(statuses);
  const { data } = useApiQuery(DeactivatedCountDocument, { filter }, { enabled: offered });
  const list = data?.data.subscriptions;
  if (!offered || !list?.totalCount || list.totalCount.value === 0) {
    return null;
  }
  const { value, capped } = list.totalCount;
  const count = formatCount({ value, capped: capped || list.unavailableShards.length > 0 });
  return (
    <Switch
      size="xs"
      label={`Show deactivated (${count})`}
      checked={deactivated === "1"}
      onChange={({ currentTarget: { checked } }) =>
        void navigate({ search: (before) => ({ ...before, deactivated: checked ? "1" : undefined }) })
      }
    />
  );
}
