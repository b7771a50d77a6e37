import { createHash, generateKeyPairSync, randomUUID, sign } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

const { publicKey, privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
const KEY_ID = "key-of-the-test";
const CLIENT = "console";
export const AUDIENCE = "noetl";

/** Behaviour of the provider's sign-in page. */
export type Behaviour = "accept" | "refuse" | "wait";

interface Grant {
  challenge: string;
  redirectUri: string;
  nonce: string;
}

/** An OpenID provider on a port of its own. It signs in every user at once. */
export class Provider {
  behaviour: Behaviour = "accept";
  /** Life of the tokens. */
  seconds = 600;
  /** Whether the discovery document and the token endpoint fail. */
  down = false;
  /** Number of codes that were exchanged for a token. */
  redeemed = 0;
  private readonly grants = new Map<string, Grant>();
  private readonly server = createServer((request, response) => void this.serve(request, response));

  async start(): Promise<void> {
    await new Promise<void>((resolve) => this.server.listen(0, "127.0.0.1", resolve));
  }

  async stop(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  get issuer(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  /** Settings of a server that accepts the tokens of this provider. */
  get settings(): Record<string, string> {
    return {
      NOETL_AUTH_OIDC_ISSUER: this.issuer,
      NOETL_AUTH_OIDC_AUDIENCE: AUDIENCE,
      NOETL_AUTH_OIDC_CLIENT_ID: CLIENT,
    };
  }

  private async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", this.issuer);
    if (url.pathname === "/keys") {
      json(response, 200, { keys: [{ ...publicKey.export({ format: "jwk" }), kid: KEY_ID, alg: "RS256", use: "sig" }] });
    } else if (url.pathname === "/authorize") {
      this.authorize(url.searchParams, response);
    } else if (this.down) {
      json(response, 503, {});
    } else if (url.pathname === "/.well-known/openid-configuration") {
      json(response, 200, this.discovery());
    } else if (url.pathname === "/token") {
      this.redeem(new URLSearchParams(await text(request)), response);
    } else {
      json(response, 404, {});
    }
  }

  private discovery(): unknown {
    const at = (path: string) => `${this.issuer}/${path}`;
    return { issuer: this.issuer, jwks_uri: at("keys"), authorization_endpoint: at("authorize"), token_endpoint: at("token") };
  }

  private authorize(asked: URLSearchParams, response: ServerResponse): void {
    const get = (name: string) => asked.get(name) ?? "";
    const valid = get("response_type") === "code" && get("client_id") === CLIENT && get("code_challenge_method") === "S256";
    if (!valid || get("scope") !== "openid" || get("state") === "" || get("nonce") === "") {
      json(response, 400, { wrong: asked.toString() });
    } else if (this.behaviour === "wait") {
      response.writeHead(200, { "content-type": "text/html" }).end("<title>Provider</title><h1>Name and password</h1>");
    } else {
      const back = new URL(get("redirect_uri"));
      back.search = new URLSearchParams({ ...this.reply(asked), state: get("state") }).toString();
      response.writeHead(302, { location: back.href }).end();
    }
  }

  private reply(asked: URLSearchParams): Record<string, string> {
    if (this.behaviour === "refuse") {
      return { error: "access_denied", error_description: "The user has no access." };
    }
    const code = randomUUID();
    const get = (name: string) => asked.get(name) ?? "";
    this.grants.set(code, { challenge: get("code_challenge"), redirectUri: get("redirect_uri"), nonce: get("nonce") });
    return { code };
  }

  private redeem(form: URLSearchParams, response: ServerResponse): void {
    const code = form.get("code") ?? "";
    const grant = this.grants.get(code);
    this.grants.delete(code);
    const challenge = createHash("sha256").update(form.get("code_verifier") ?? "").digest("base64url");
    if (grant?.challenge !== challenge || grant.redirectUri !== form.get("redirect_uri")) {
      json(response, 400, { error: "invalid_grant", error_description: "the code and its verifier don't match" });
      return;
    }
    this.redeemed += 1;
    json(response, 200, { token_type: "Bearer", access_token: "opaque", id_token: this.token(grant.nonce) });
  }

  private token(nonce: string): string {
    const exp = Math.floor(Date.now() / 1_000) + this.seconds;
    const claims = { iss: this.issuer, aud: AUDIENCE, sub: "ann", exp, nonce, roles: ["operator"] };
    const signed = `${part({ alg: "RS256", kid: KEY_ID })}.${part(claims)}`;
    return `${signed}.${sign("sha256", Buffer.from(signed), privateKey).toString("base64url")}`;
  }
}

function part(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString("base64url");
}

function json(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}
