/** Notifications of the browser. */

/** Shows a notification; null if the user or the browser does not permit it. Some browsers let no page make one. */
export function showNotification(title: string, body: string): Notification | null {
  try {
    return Notification.permission === "granted" ? new Notification(title, { body }) : null;
  } catch {
    return null;
  }
}
