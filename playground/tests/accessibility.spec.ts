import { expectAccessible } from "./accessibility";
import { execute } from "./api";
import { expect, test } from "./console";
import { VIEWS } from "./views";

for (const { name, path, title } of VIEWS) {
  test(`${name} has no serious issue of accessibility, and is not cut off`, async ({ console, page }) => {
    await execute(console.url);
    await console.open(path, title);
    await expect(console.connection).toHaveText("Live");
    await expectAccessible(page, name);
  });
}
