/** Address of the server. A proxy may serve it below a path prefix of the host; the `<base>` of the page says where. */

const { origin, pathname } = new URL("./", document.baseURI);

/** Path of the server, without a slash at the end: `/noetl`, or empty at the root of the host. */
export const BASE_PATH = pathname.replace(/\/$/, "");

/** Returns the address of a path of the server. */
export function addressOf(path: `/${string}`): string {
  return origin + BASE_PATH + path;
}
