//! The provider's public keys.
//!
//! One task fetches them. So at most one fetch runs at a time, and at most one per [`MIN_INTERVAL`], regardless of the
//! number of tokens with unknown keys. A failed fetch changes nothing: known keys stay valid while the provider is
//! down. A token with an unknown key waits for the next fetch, so keys can be rotated while the server runs.

use std::time::Duration;

use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use reqwest::Url;
use serde::Deserialize;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use super::provider::{BadProvider, FetchError, Provider, address};
use plain_json::{self as json, AnyJson, Typed};

/// Interval between fetches if no token has an unknown key.
const REFRESH: Duration = Duration::from_mins(5);
/// Interval between fetches after a failed one.
const RETRY: Duration = Duration::from_secs(10);
/// Minimum interval between two fetches.
const MIN_INTERVAL: Duration = Duration::from_secs(2);
/// Maximum duration of a fetch, with the discovery.
const FETCH_TIME: Duration = Duration::from_secs(5);
/// Maximum number of keys that are kept.
const MAX_KEYS: usize = 100;

/// Keys of a provider, kept current by [`Jwks::keep_current`].
#[derive(Debug)]
pub(super) struct Jwks {
    provider: Provider,
    url: Option<Url>,
    keys: watch::Sender<Vec<Key>>,
    wanted: Notify,
}

#[derive(Debug, Clone)]
struct Key {
    id: Option<String>,
    algorithm: Option<KeyAlgorithm>,
    decoding: DecodingKey,
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<AnyJson>,
}

/// A key as the provider publishes it.
#[derive(Deserialize)]
#[serde(transparent)]
struct PublishedKey(Jwk);

impl Typed for KeySet {}
impl Typed for PublishedKey {}

impl Jwks {
    pub(super) fn new(issuer: &str, url: Option<&str>) -> Result<Self, BadProvider> {
        let (provider, url) = (Provider::new(issuer)?, url.map(address).transpose()?);
        Ok(Self { provider, url, keys: watch::Sender::new(Vec::new()), wanted: Notify::new() })
    }

    /// Finds the key of a token. If the key is unknown, requests a fetch, waits for it and searches once more.
    pub(super) async fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<DecodingKey> {
        let mut keys = self.keys.subscribe();
        if let Some(key) = fitting(&keys.borrow_and_update(), id, algorithm) {
            return Some(key);
        }
        self.wanted.notify_one();
        timeout(MIN_INTERVAL + FETCH_TIME, keys.changed()).await.ok()?.ok()?;
        let keys = keys.borrow();
        fitting(&keys, id, algorithm)
    }

    pub(super) async fn keep_current(&self) {
        loop {
            let fetched = timeout(FETCH_TIME, self.fetch()).await.unwrap_or(Err(FetchError::Slow));
            let pause = if fetched.is_ok() { REFRESH } else { RETRY };
            match fetched {
                Ok(keys) => drop(self.keys.send_replace(keys)),
                Err(error) => {
                    tracing::warn!(
                        issuer = self.provider.issuer,
                        %error,
                        "the provider's keys can't be fetched; known keys stay valid"
                    );
                    // Wakes the tasks that wait for this fetch.
                    self.keys.send_modify(|_| ());
                }
            }
            sleep(MIN_INTERVAL).await;
            drop(timeout(pause, self.wanted.notified()).await);
        }
    }

    async fn fetch(&self) -> Result<Vec<Key>, FetchError> {
        let url = match &self.url {
            Some(url) => url.clone(),
            None => address(&self.provider.discover().await?.jwks_uri)?,
        };
        let set: KeySet = self.provider.get(url).await?;
        Ok(set.keys.into_iter().filter_map(usable).take(MAX_KEYS).collect())
    }
}

/// Reads a key that verifies signatures. Returns `None` for keys of other uses or unknown types, and for symmetric
/// keys.
fn usable(AnyJson(key): AnyJson) -> Option<Key> {
    let PublishedKey(jwk) = json::fields(key).ok()?;
    let signs = jwk.common.public_key_use.as_ref().is_none_or(|used| *used == PublicKeyUse::Signature);
    let public = !matches!(jwk.algorithm, AlgorithmParameters::OctetKey(_));
    let decoding = DecodingKey::from_jwk(&jwk).ok().filter(|_| signs && public)?;
    Some(Key { id: jwk.common.key_id, algorithm: jwk.common.key_algorithm, decoding })
}

/// Returns the key with this id for this algorithm. Without an id, returns the key only if exactly one fits the
/// algorithm.
fn fitting(keys: &[Key], id: Option<&str>, algorithm: Algorithm) -> Option<DecodingKey> {
    let same = |named: &KeyAlgorithm| named.to_string().parse() == Ok(algorithm);
    let of_algorithm =
        |key: &&Key| key.decoding.family() == algorithm.family() && key.algorithm.as_ref().is_none_or(same);
    let mut fitting = keys.iter().filter(of_algorithm).filter(|key| id.is_none() || key.id.as_deref() == id);
    let first = fitting.next()?;
    (id.is_some() || fitting.next().is_none()).then(|| first.decoding.clone())
}
