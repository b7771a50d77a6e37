/**
 * Reads after changes, one read at a time. A change during a read causes another one after it. So a slow read is not cut by the
 * next change, and ends also while changes go on.
 */
export function afterChanges(read: () => Promise<void>, waitMs: number): { change: () => void; stop: () => void } {
  let isChanged = false;
  let isReading = false;
  let isStopped = false;
  async function readChanges() {
    isReading = true;
    while (isChanged) {
      // Many changes at once cause one read.
      await new Promise((resolve) => setTimeout(resolve, waitMs));
      if (isStopped) {
        return;
      }
      isChanged = false;
      await read();
    }
    isReading = false;
  }
  return {
    change: () => {
      isChanged = true;
      if (!isReading) {
        void readChanges();
      }
    },
    stop: () => {
      isStopped = true;
    },
  };
}
