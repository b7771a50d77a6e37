/** Objects by name in the local storage of the browser. All pages of the console share them, and see a change at once. */

import { useSyncExternalStore } from "react";

type ByName<Value> = Readonly<Record<string, Value>>;

export class Stored<Value> {
  private values: ByName<Value>;
  private readonly listeners = new Set<() => void>();

  /** Reads the values that are stored under a key. */
  constructor(private readonly key: string) {
    this.values = this.read();
    window.addEventListener("storage", (change) => {
      // Without a key, the whole storage was cleared.
      if (change.key === key || change.key === null) {
        this.show(this.read());
      }
    });
  }

  readonly all = (): ByName<Value> => this.values;

  readonly listen = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  set(name: string, value: Value): void {
    this.store({ ...this.read(), [name]: value });
  }

  remove(name: string): void {
    this.store(Object.fromEntries(Object.entries(this.read()).filter(([stored]) => stored !== name)));
  }

  private store(changed: ByName<Value>): void {
    window.localStorage.setItem(this.key, JSON.stringify(changed));
    this.show(changed);
  }

  private show(values: ByName<Value>): void {
    this.values = values;
    this.listeners.forEach((listener) => listener());
  }

  private read(): ByName<Value> {
    try {
      const stored: unknown = JSON.parse(window.localStorage.getItem(this.key) ?? "{}");
      return typeof stored === "object" && stored !== null ? (stored as ByName<Value>) : {};
    } catch {
      return {};
    }
  }
}

/** Returns the stored values, and draws the caller again after a change. */
export function useStored<Value>(stored: Stored<Value>): ByName<Value> {
  return useSyncExternalStore(stored.listen, stored.all);
}
