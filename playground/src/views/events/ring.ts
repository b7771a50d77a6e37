/** A list that keeps the newest items. Each item has a number that never changes; that of the first pushed item is 0. */

export class Ring<Item> {
  private items: Item[] = [];
  private dropped = 0;

  constructor(private readonly capacity: number) {}

  /** Number of the oldest kept item. */
  get first(): number {
    return this.dropped + Math.max(0, this.items.length - this.capacity);
  }

  /** Number of the next item. */
  get end(): number {
    return this.dropped + this.items.length;
  }

  get(number: number): Item | undefined {
    return number >= this.first ? this.items[number - this.dropped] : undefined;
  }

  push(item: Item): void {
    this.items.push(item);
    // Dropping many items at a time keeps the cost of one item constant.
    if (this.items.length >= this.capacity * 1.25) {
      const surplus = this.items.length - this.capacity;
      this.items.splice(0, surplus);
      this.dropped += surplus;
    }
  }

  /** Adds items before the first one, the last ones as far as there is room, and returns their number. */
  prepend(items: readonly Item[]): number {
    const room = Math.max(0, this.capacity - this.items.length);
    const added = items.slice(Math.max(0, items.length - room));
    this.items = [...added, ...this.items];
    this.dropped -= added.length;
    return added.length;
  }
}
