/** Filter of the subscriptions. The server filters. */

import { getRouteApi } from "@tanstack/react-router";

import { FilterBar, FilterText } from "../../ui/filter_bar";
import { FilterChoices } from "../../ui/filter_choices";
import { STATUSES } from "./filter";
import type { SubscriptionsSearch } from "./search";

const route = getRouteApi("/subscriptions");

export function SubscriptionFilters() {
  const { statuses, path, labels, deactivated } = route.useSearch();
  const navigate = route.useNavigate();
  function apply(change: SubscriptionsSearch) {
    void navigate({ search: (before) => ({ ...before, ...change }) });
  }
  return (
    <FilterBar active={(statuses ?? path ?? labels ?? deactivated) !== undefined} onClear={() => void navigate({ search: {} })}>
      <FilterChoices label="State" value={statuses} choices={STATUSES} onApply={(value) => apply({ statuses: value })} />
      <FilterText
        label="Path begins with"
        placeholder="samples/orders"
        value={path}
        onApply={(value) => apply({ path: value })}
      />
      <FilterText label="Labels" placeholder="area=orders, team" value={labels} onApply={(value) => apply({ labels: value })} />
    </FilterBar>
  );
}
