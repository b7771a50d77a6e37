import { expectAccessible } from "./accessibility";
import { execute } from "./api";
import { expect, test } from "./console";

const PARTS = ["flow", "timeline", "data", "events", "children", "compare"];

for (const part of PARTS) {
  test(`the part ${part} of an execution has no serious issue of accessibility, and is not cut off`, async ({
    console,
    page,
  }) => {
    const [id, other] = [await execute(console.url), await execute(console.url)];
    await console.open(`/executions/${id}?tab=${part}&compare=${other}&step=charge`, "samples/orders/process");
    await expect(page.getByRole("tabpanel")).not.toBeEmpty();
    await expectAccessible(page, part);
  });
}
