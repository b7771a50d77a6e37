/** A task of an operator, whose clicks and keys are counted. A text that is typed counts once. */
export class Task {
  count = 0;

  async act(action: Promise<void>): Promise<void> {
    await action;
    this.count += 1;
  }
}
