import { expect, type Page } from "@playwright/test";

/** The Events view. */
export class EventsPage {
  constructor(
    readonly page: Page,
    readonly url: string,
  ) {}

  /** Opens the view and waits until it follows: the server has sent the start position. */
  async open(search = ""): Promise<void> {
    await this.page.goto(`${this.url}/events${search}`);
    await this.following();
  }

  async following(): Promise<void> {
    await expect(this.state).toHaveText("Live");
    await expect(this.list.getByText("the events below are live").last()).toBeVisible();
  }

  get state() {
    return this.page.getByRole("status", { name: "Stream" });
  }

  get list() {
    return this.page.getByRole("list", { name: "Events, newest last" });
  }

  get rows() {
    return this.list.getByRole("button");
  }

  rowsOf(executionId: string) {
    return this.rows.filter({ hasText: executionId });
  }

  async filter(label: string, value: string): Promise<void> {
    await this.page.getByRole("textbox", { name: label }).fill(value);
    await this.page.keyboard.press("Enter");
  }
}
