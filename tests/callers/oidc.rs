//! JWTs of an OpenID provider: only tokens that the provider signed for this server are accepted, also while its keys
//! change and while it is down.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Form, Json, Router};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use futures::future::join_all;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use noetl_testkit::{Deployment, Live, Server, error_code, eventually, http_client};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

const VIEWER: &str = "{ viewer { subject roles tenant } }";

/// A key of a provider with its id.
struct Key {
    id: String,
    algorithm: Algorithm,
    secret: EncodingKey,
    public_der: Vec<u8>,
}

impl Key {
    fn new(id: &str) -> Self {
        let pair = KeyPair::generate(KeySize::Rsa2048).unwrap();
        let private: Pkcs8V1Der<'_> = pair.as_der().unwrap();
        let secret = EncodingKey::from_rsa_pem(pem("PRIVATE KEY", private.as_ref()).as_bytes()).unwrap();
        let public_der = pair.public_key().as_ref().to_vec();
        Self { id: id.to_owned(), algorithm: Algorithm::RS256, secret, public_der }
    }

    fn es256(id: &str) -> Self {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        let secret = EncodingKey::from_ec_der(pair.to_pkcs8v1().unwrap().as_ref());
        let public_der = pair.public_key().as_ref().to_vec();
        Self { id: id.to_owned(), algorithm: Algorithm::ES256, secret, public_der }
    }

    fn eddsa(id: &str) -> Self {
        let pair = Ed25519KeyPair::generate().unwrap();
        let secret = EncodingKey::from_ed_der(pair.to_pkcs8v1().unwrap().as_ref());
        let public_der = pair.public_key().as_ref().to_vec();
        Self { id: id.to_owned(), algorithm: Algorithm::EdDSA, secret, public_der }
    }

    fn jwk(&self) -> Value {
        let mut jwk = Jwk::from_encoding_key(&self.secret, self.algorithm).unwrap();
        jwk.common.key_id = Some(self.id.clone());
        serde_json::to_value(jwk).unwrap()
    }

    fn header(&self) -> Header {
        Header { kid: Some(self.id.clone()), ..Header::new(self.algorithm) }
    }

    fn sign(&self, claims: &Value) -> String {
        encode(&self.header(), claims, &self.secret).unwrap()
    }
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<&str> = text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

#[derive(Default)]
struct Published {
    issuer: Mutex<String>,
    keys: Mutex<Vec<Value>>,
    down: AtomicBool,
    fetches: AtomicUsize,
    /// Number of requests for the discovery document.
    discoveries: AtomicUsize,
    /// Token that the provider returns for the code `good`.
    token: Mutex<Value>,
    /// Forms that the token endpoint received.
    redeemed: Mutex<Vec<Value>>,
}

/// A provider on a port of its own.
struct Provider {
    issuer: String,
    published: Arc<Published>,
    _serving: JoinSet<()>,
}

impl Provider {
    async fn start(keys: &[&Key]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = format!("http://{}", listener.local_addr().unwrap());
        let published = Arc::new(Published::default());
        published.issuer.lock().unwrap().clone_from(&issuer);
        let routes = Router::new()
            .route("/.well-known/openid-configuration", get(discovery))
            .route("/keys", get(jwks))
            .route("/token", post(redeem))
            .with_state(Arc::clone(&published));
        let mut serving = JoinSet::new();
        serving.spawn(async move { axum::serve(listener, routes).await.unwrap() });
        let provider = Self { issuer, published, _serving: serving };
        provider.publish(keys);
        provider
    }

    fn publish(&self, keys: &[&Key]) {
        *self.published.keys.lock().unwrap() = keys.iter().map(|key| key.jwk()).collect();
    }

    fn set_down(&self, down: bool) {
        self.published.down.store(down, Ordering::SeqCst);
    }

    async fn replica(&self, deployment: &Deployment) -> Server {
        self.replica_with(deployment, &[]).await
    }

    async fn replica_with(&self, deployment: &Deployment, more: &[(&str, &str)]) -> Server {
        let settings = [
            ("NOETL_AUTH_OIDC_ISSUER", self.issuer.as_str()),
            ("NOETL_AUTH_OIDC_AUDIENCE", "another, noetl"),
            ("NOETL_AUTH_OIDC_TENANT_CLAIM", "org"),
            ("NOETL_AUTH_OIDC_ROLES_CLAIM", "realm_access.roles"),
        ];
        deployment.replica_with(&[&settings[..], more].concat()).await
    }

    /// Returns valid claims with some values replaced. Null removes a claim.
    fn claims(&self, replaced: Value) -> Value {
        let mut claims = json!({
            "iss": self.issuer, "aud": "noetl", "sub": "ann", "exp": chrono::Utc::now().timestamp() + 600, "org": "acme",
            "realm_access": { "roles": ["viewer", "of-another-program"] },
        });
        for (name, value) in replaced.as_object().unwrap() {
            claims[name] = value.clone();
        }
        claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        claims
    }
}

async fn discovery(State(published): State<Arc<Published>>) -> Json<Value> {
    published.discoveries.fetch_add(1, Ordering::SeqCst);
    let issuer = published.issuer.lock().unwrap().clone();
    Json(json!({
        "issuer": issuer,
        "jwks_uri": format!("{issuer}/keys"),
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"),
    }))
}

/// The token endpoint (RFC 6749, section 5).
async fn redeem(
    State(published): State<Arc<Published>>,
    Form(form): Form<Vec<(String, String)>>,
) -> (StatusCode, Json<Value>) {
    if published.down.load(Ordering::SeqCst) {
        return (StatusCode::INTERNAL_SERVER_ERROR, Json(Value::Null));
    }
    let is_good = form.iter().any(|(name, value)| name == "code" && value == "good");
    let form = form.into_iter().map(|(name, value)| (name, Value::from(value))).collect();
    published.redeemed.lock().unwrap().push(Value::Object(form));
    if is_good {
        (StatusCode::OK, Json(published.token.lock().unwrap().clone()))
    } else {
        (StatusCode::BAD_REQUEST, Json(json!({ "error": "invalid_grant", "error_description": "the code is spent" })))
    }
}

async fn jwks(State(published): State<Arc<Published>>) -> Result<Json<Value>, StatusCode> {
    published.fetches.fetch_add(1, Ordering::SeqCst);
    if published.down.load(Ordering::SeqCst) {
        return Err(StatusCode::INTERNAL_SERVER_ERROR);
    }
    Ok(Json(json!({ "keys": *published.keys.lock().unwrap() })))
}

async fn is_accepted(server: &Server, token: &str) -> bool {
    let response = server.send_as(token, VIEWER, Value::Null).await;
    assert!(response["data"]["viewer"].is_object() || error_code(&response) == "UNAUTHENTICATED", "{response}");
    response["data"]["viewer"].is_object()
}

#[tokio::test]
async fn only_tokens_that_the_provider_signed_for_this_server_are_accepted_until_they_expire() {
    let (deployment, key) = (Deployment::start(0).await, Key::new("one"));
    let provider = Provider::start(&[&key]).await;
    let server = provider.replica(&deployment).await;
    Box::pin(a_token_needs_valid_claims_and_a_signature_of_the_provider(&provider, &server, &key)).await;
    a_token_without_roles_identifies_the_caller_and_permits_nothing(&provider, &server, &key).await;
    a_live_connection_ends_when_its_jwt_expires(&provider, &server, &key).await;
    Box::pin(keys_of_each_allowed_kind_verify_their_own_tokens_only(&deployment)).await;
}

/// A token with wrong claims is refused, and so is each forgery.
async fn a_token_needs_valid_claims_and_a_signature_of_the_provider(provider: &Provider, server: &Server, key: &Key) {
    let good = server.send_as(&key.sign(&provider.claims(json!({}))), VIEWER, Value::Null).await;
    assert_eq!(good["data"]["viewer"], json!({ "subject": "oidc:ann", "roles": ["VIEWER"], "tenant": "acme" }));
    assert!(is_accepted(server, &key.sign(&provider.claims(json!({ "aud": ["else", "noetl"] })))).await);

    let now = chrono::Utc::now().timestamp();
    let wrong_claims = [
        json!({ "iss": "https://issuer.example.org" }),
        json!({ "iss": null }),
        json!({ "aud": "someone-else" }),
        json!({ "aud": null }),
        json!({ "exp": now - 1 }),
        json!({ "exp": null }),
        json!({ "exp": "tomorrow" }),
        json!({ "nbf": now + 300 }),
        json!({ "sub": null }),
        json!({ "sub": "local" }),
    ];
    for claims in wrong_claims {
        assert!(!is_accepted(server, &key.sign(&provider.claims(claims.clone()))).await, "{claims}");
    }
    let claims = provider.claims(json!({}));
    for (name, token) in forgeries(key, &claims) {
        assert!(!is_accepted(server, &token).await, "{name}: {token}");
    }
}

/// Returns tokens with valid claims that the provider did not sign.
fn forgeries(key: &Key, claims: &Value) -> Vec<(&'static str, String)> {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let unsigned = |alg: &str| format!("{}.{}.", part(&json!({ "alg": alg, "kid": key.id })), part(claims));
    let signed = key.sign(claims);
    let (head, signature) = signed.rsplit_once('.').unwrap();
    let other = Key::new(&key.id);
    let mut carried = other.header();
    carried.jwk = Some(serde_json::from_value(other.jwk()).unwrap());
    let mut critical = key.header();
    critical.crit = Some(vec!["exp".to_owned()]);
    let mut tokens = vec![
        ("unsigned", unsigned("none")),
        ("unsigned, in capitals", unsigned("NONE")),
        ("no signature", format!("{head}.")),
        ("the signature of another token", format!("{}.{signature}", unsigned("RS256").trim_end_matches('.'))),
        ("another key", other.sign(claims)),
        ("a key in the header", encode(&carried, claims, &other.secret).unwrap()),
        ("an unknown extension", encode(&critical, claims, &key.secret).unwrap()),
        ("an unknown key", Key::new("two").sign(claims)),
        ("an algorithm that is not allowed", {
            let header = Header { alg: Algorithm::RS512, ..key.header() };
            encode(&header, claims, &key.secret).unwrap()
        }),
    ];
    // The public key as the secret of a symmetric algorithm, in every form that an insecure server could use.
    let public_pem = pem("RSA PUBLIC KEY", &key.public_der);
    let modulus = key.jwk()["n"].as_str().unwrap().to_owned();
    for secret in [key.public_der.as_slice(), public_pem.as_bytes(), public_pem.trim().as_bytes(), modulus.as_bytes()] {
        let header = Header { alg: Algorithm::HS256, ..key.header() };
        tokens
            .push(("the public key as a secret", encode(&header, claims, &EncodingKey::from_secret(secret)).unwrap()));
    }
    tokens
}

/// RSA, ECDSA and Ed25519 keys verify the tokens that they signed, if their algorithms are allowed.
async fn keys_of_each_allowed_kind_verify_their_own_tokens_only(deployment: &Deployment) {
    let keys = [Key::new("rsa"), Key::es256("ec"), Key::eddsa("ed")];
    let provider = Provider::start(&keys.each_ref()).await;
    let server = provider.replica_with(deployment, &[("NOETL_AUTH_OIDC_ALGORITHMS", "RS256,ES256,EdDSA")]).await;
    let claims = provider.claims(json!({}));
    let others = [Key::new("rsa"), Key::es256("ec"), Key::eddsa("ed")];
    for (key, other) in keys.iter().zip(&others) {
        assert!(is_accepted(&server, &key.sign(&claims)).await, "{:?}", key.algorithm);
        assert!(!is_accepted(&server, &other.sign(&claims)).await, "{:?} of another key", key.algorithm);
    }
    // The id names a key of another kind than the algorithm.
    let mismatched = Header { kid: Some("ec".to_owned()), ..keys[2].header() };
    assert!(!is_accepted(&server, &encode(&mismatched, &claims, &keys[2].secret).unwrap()).await);
}

#[tokio::test]
async fn keys_can_be_rotated_and_known_keys_are_used_while_the_provider_is_down() {
    let deployment = Deployment::start(0).await;
    tokio::join!(
        keys_can_be_rotated_while_the_server_runs(&deployment),
        known_keys_are_used_while_the_provider_is_down(&deployment)
    );
}

/// An unknown key is fetched, and a key that the provider no longer publishes is removed.
async fn keys_can_be_rotated_while_the_server_runs(deployment: &Deployment) {
    let (old, new) = (Key::es256("old"), Key::es256("new"));
    let provider = Provider::start(&[&old]).await;
    let server = provider.replica(deployment).await;
    let [by_old, by_new] = [&old, &new].map(|key| key.sign(&provider.claims(json!({}))));
    assert!(is_accepted(&server, &by_old).await);
    provider.publish(&[&old, &new]);
    assert!(is_accepted(&server, &by_new).await, "a token with an unknown key must trigger a fetch of the keys");
    assert!(is_accepted(&server, &by_old).await);

    provider.publish(&[&new]);
    let unknown = Key::es256("unknown").sign(&provider.claims(json!({})));
    assert!(!is_accepted(&server, &unknown).await);
    eventually("the old key is removed", async || (!is_accepted(&server, &by_old).await).then_some(())).await;
    assert!(is_accepted(&server, &by_new).await);
}

/// Unknown keys cause few requests to a provider that is down. A replica that starts meanwhile gets its keys later.
async fn known_keys_are_used_while_the_provider_is_down(deployment: &Deployment) {
    let key = Key::new("one");
    let provider = Provider::start(&[&key]).await;
    let server = provider.replica(deployment).await;
    let token = key.sign(&provider.claims(json!({})));
    assert!(is_accepted(&server, &token).await);
    provider.set_down(true);
    let before = provider.published.fetches.load(Ordering::SeqCst);
    let unknown = Key::es256("unknown").sign(&provider.claims(json!({})));
    let asked = (0..20).map(|_| is_accepted(&server, &unknown));
    assert_eq!(join_all(asked).await, [false; 20]);
    let fetches = provider.published.fetches.load(Ordering::SeqCst) - before;
    assert!((1..=4).contains(&fetches), "{fetches} fetches for 20 tokens");
    assert!(is_accepted(&server, &token).await);

    let late = provider.replica(deployment).await;
    assert!(!is_accepted(&late, &token).await, "the replica accepted a token without keys");
    provider.set_down(false);
    eventually("the replica has the keys", async || is_accepted(&late, &token).await.then_some(())).await;
}

/// The socket of a token is closed at the end of the token.
async fn a_live_connection_ends_when_its_jwt_expires(provider: &Provider, server: &Server, key: &Key) {
    assert!(is_accepted(server, &key.sign(&provider.claims(json!({})))).await);
    let token = key.sign(&provider.claims(json!({ "exp": chrono::Utc::now().timestamp() + 4 })));
    let mut socket = Live::init(&server.url, &[], json!({ "Authorization": format!("Bearer {token}") })).await.unwrap();
    assert_eq!(socket.message().await.unwrap()["type"], "connection_ack");
    socket.subscribe("subscription { systemStatus(everySeconds: 60) { at } }", Value::Null).await.unwrap();
    assert!(socket.next().await.is_some());
    assert_eq!((socket.message().await, socket.close_code), (None, Some(4403)));
    assert!(!is_accepted(server, &token).await);
}

/// Roles of other programs and of other claims don't count.
async fn a_token_without_roles_identifies_the_caller_and_permits_nothing(
    provider: &Provider,
    server: &Server,
    key: &Key,
) {
    let token = key.sign(&provider.claims(json!({ "realm_access": { "roles": ["guest"] }, "roles": ["admin"] })));
    let viewer = server.send_as(&token, VIEWER, Value::Null).await;
    assert_eq!(viewer["data"]["viewer"], json!({ "subject": "oidc:ann", "roles": [], "tenant": "acme" }));
    let list = server.send_as(&token, "{ executions { nodes { id } } }", Value::Null).await;
    assert_eq!(error_code(&list), "FORBIDDEN");
}

/// A server whose console users sign in to at the provider.
struct SignIn<'a> {
    provider: &'a Provider,
    server: Server,
    http: reqwest::Client,
}

impl<'a> SignIn<'a> {
    async fn new(provider: &'a Provider, deployment: &Deployment, more: &[(&str, &str)]) -> Self {
        let server = provider.replica_with(deployment, more).await;
        Self { provider, server, http: http_client() }
    }

    async fn invitation(&self) -> (u16, Value) {
        read(self.http.get(format!("{}/auth/sign-in", self.server.url)).send().await.unwrap()).await
    }

    /// Sends a code to the server, and returns the status and the body of the response.
    async fn redeem(&self, code: &str) -> (u16, Value) {
        let redirect = format!("{}/signed-in", self.server.url);
        let form = [("code", code), ("verifier", "secret-of-the-page"), ("redirectUri", &redirect)];
        let request = self.http.post(format!("{}/auth/token", self.server.url)).form(&form);
        read(request.send().await.unwrap()).await
    }

    fn provider_returns(&self, tokens: Value) {
        *self.provider.published.token.lock().unwrap() = tokens;
    }
}

async fn read(response: reqwest::Response) -> (u16, Value) {
    let status = response.status().as_u16();
    (status, serde_json::from_str(&response.text().await.unwrap()).unwrap_or(Value::Null))
}

#[tokio::test]
async fn a_user_of_the_console_signs_in_at_the_provider_or_learns_why_not() {
    let (deployment, key) = (Deployment::start(0).await, Key::new("one"));
    Box::pin(a_user_of_the_console_signs_in_at_the_provider(&deployment, &key)).await;
    Box::pin(a_sign_in_that_fails_says_why(&deployment, &key)).await;
}

/// The server redeems the code of a confidential client for the token of the user.
async fn a_user_of_the_console_signs_in_at_the_provider(deployment: &Deployment, key: &Key) {
    let provider = Provider::start(&[key]).await;
    let client = [
        ("NOETL_AUTH_OIDC_CLIENT_ID", "console"),
        ("NOETL_AUTH_OIDC_CLIENT_SECRET", "of the client"),
        ("NOETL_AUTH_OIDC_SCOPES", "openid roles"),
    ];
    let sign_in = SignIn::new(&provider, deployment, &client).await;
    let expected = json!({
        "authorizationEndpoint": format!("{}/authorize", provider.issuer), "clientId": "console", "scopes": "openid roles",
    });
    assert_eq!(sign_in.invitation().await, (200, expected));

    let token = key.sign(&provider.claims(json!({})));
    sign_in.provider_returns(json!({ "access_token": token, "token_type": "Bearer" }));
    assert_eq!(sign_in.redeem("good").await, (200, json!({ "token": token })));
    let sent = provider.published.redeemed.lock().unwrap().pop().unwrap();
    let expected = json!({
        "grant_type": "authorization_code", "code": "good", "code_verifier": "secret-of-the-page",
        "redirect_uri": format!("{}/signed-in", sign_in.server.url), "client_id": "console",
        "client_secret": "of the client",
    });
    assert_eq!(sent, expected);
    assert!(is_accepted(&sign_in.server, &token).await);

    // The access tokens of some providers are not JWTs. Then the id token names the caller.
    sign_in.provider_returns(json!({ "access_token": "opaque", "id_token": token }));
    assert_eq!(sign_in.redeem("good").await, (200, json!({ "token": token })));

    let before = provider.published.discoveries.load(Ordering::SeqCst);
    join_all((0..20).map(|_| sign_in.invitation())).await;
    let discoveries = provider.published.discoveries.load(Ordering::SeqCst);
    assert_eq!(discoveries, before, "a caller without a token must not cause requests to the provider");
}

/// The error names a refusal of the provider, a response without a token for this server, and a provider that is down.
async fn a_sign_in_that_fails_says_why(deployment: &Deployment, key: &Key) {
    let provider = Provider::start(&[key]).await;
    let sign_in = SignIn::new(&provider, deployment, &[("NOETL_AUTH_OIDC_CLIENT_ID", "console")]).await;
    let refused = "the provider refused the sign-in: the code is spent";
    assert_eq!(sign_in.redeem("spent").await, (400, json!({ "error": refused })));
    assert!(provider.published.redeemed.lock().unwrap()[0]["client_secret"].is_null(), "a public client has no secret");

    for tokens in [
        json!({}),
        json!({ "access_token": "opaque" }),
        json!({ "access_token": key.sign(&provider.claims(json!({ "aud": "someone-else" }))) }),
        json!({ "id_token": Key::new("two").sign(&provider.claims(json!({}))) }),
    ] {
        sign_in.provider_returns(tokens.clone());
        let (status, body) = sign_in.redeem("good").await;
        assert_eq!((status, &body["token"]), (400, &Value::Null), "{tokens}: {body}");
        assert!(body["error"].as_str().unwrap().starts_with("the provider sent no token"), "{tokens}: {body}");
    }
    provider.set_down(true);
    let (status, body) = sign_in.redeem("good").await;
    assert_eq!(status, 502, "{body}");

    // A page of another site can't use the routes. A server without a client id offers no sign-in.
    let foreign =
        sign_in.http.post(format!("{}/auth/token", sign_in.server.url)).header("origin", "https://evil.example");
    assert_eq!(foreign.form(&[("code", "good")]).send().await.unwrap().status().as_u16(), 403);
    let without = SignIn::new(&provider, deployment, &[]).await;
    assert_eq!((without.invitation().await, without.redeem("good").await.0), ((200, Value::Null), 404));
}
