//! The decentralised accounts of NATS: an operator signs accounts, and an account signs users.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nkeys::KeyPair;
use serde_json::{Value, json};

/// Signs claims about `subject` with the key of `issuer`.
fn sign(issuer: &KeyPair, subject: &KeyPair, name: &str, claims: &Value) -> String {
    let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let header = encode(&json!({ "typ": "JWT", "alg": "ed25519-nkey" }));
    let body = encode(&json!({
        "jti": subject.public_key(), "iat": 1_700_000_000, "iss": issuer.public_key(), "name": name,
        "sub": subject.public_key(), "nats": claims,
    }));
    let signed = format!("{header}.{body}");
    let signature = URL_SAFE_NO_PAD.encode(issuer.sign(signed.as_bytes()).unwrap());
    format!("{signed}.{signature}")
}

/// Returns the configuration of a broker with accounts that an operator signed, and the credentials file of a user.
pub(super) fn operated() -> (String, String) {
    let (operator, system, account) = (KeyPair::new_operator(), KeyPair::new_account(), KeyPair::new_account());
    let user = KeyPair::new_user();
    let unlimited = |storage: i64, streams: i64| {
        json!({
            "type": "account", "version": 2, "default_permissions": { "pub": {}, "sub": {} },
            "limits": {
                "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1,
                "leaf": -1, "mem_storage": storage, "disk_storage": storage, "streams": streams, "consumer": streams,
            },
        })
    };
    let of_operator = json!({ "type": "operator", "version": 2, "system_account": system.public_key() });
    let operator_jwt = sign(&operator, &operator, "operator", &of_operator);
    let system_jwt = sign(&operator, &system, "system", &unlimited(0, 0));
    let account_jwt = sign(&operator, &account, "account", &unlimited(-1, -1));
    let of_user = json!({ "type": "user", "version": 2, "pub": {}, "sub": {}, "subs": -1, "data": -1, "payload": -1 });
    let user_jwt = sign(&account, &user, "noetl", &of_user);
    let configuration = format!(
        "operator: {operator_jwt}\nsystem_account: {}\nresolver: MEMORY\nresolver_preload: {{\n  {}: {system_jwt}\n  \
         {}: {account_jwt}\n}}\n",
        system.public_key(),
        system.public_key(),
        account.public_key(),
    );
    let credentials = format!(
        "-----BEGIN NATS USER JWT-----\n{user_jwt}\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY SEED------\n",
        user.seed().unwrap()
    );
    (configuration, credentials)
}
