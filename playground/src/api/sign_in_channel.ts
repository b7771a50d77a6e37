/**
 * Messages between a page of the console and its sign-in window. They stay in the browser and reach all pages of this
 * server, so each has the state of its sign-in, and a page ignores those of another one.
 */

/** Path of the server to which the provider sends the user back. */
export const SIGNED_IN_PATH = "/signed-in";

const CHANNEL = "noetl-sign-in";

/** Reply of the provider: a code, or an error (RFC 6749, sections 4.1.2 and 4.1.2.1). */
export interface ProviderReply {
  state: string;
  code?: string | undefined;
  error?: string | undefined;
  description?: string | undefined;
}

type Message = { reply: ProviderReply } | { received: string };

/** Calls `take` with the reply to the sign-in that has this state, until the returned function is called. */
export function receiveReply(state: string, take: (reply: ProviderReply) => void): () => void {
  const channel = new BroadcastChannel(CHANNEL);
  channel.onmessage = ({ data }: MessageEvent<Message>) => {
    if ("reply" in data && data.reply.state === state) {
      channel.postMessage({ received: state } satisfies Message);
      take(data.reply);
    }
  };
  return () => channel.close();
}

/** Sends a reply to the page that waits for it, and calls `received` when the page has it. */
export function sendReply(reply: ProviderReply, received: () => void): () => void {
  const channel = new BroadcastChannel(CHANNEL);
  channel.onmessage = ({ data }: MessageEvent<Message>) => {
    if ("received" in data && data.received === reply.state) {
      received();
    }
  };
  channel.postMessage({ reply } satisfies Message);
  return () => channel.close();
}
