//! Reads the caller from the claims of a verified token.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

use super::BadJwt;
use crate::principal::{PROVIDED, Principal, Role};
use crate::tokens::check_name;

type Claims = Map<String, Value>;

/// Reads the caller. Unknown role names are ignored, because they may belong to other programs. If tokens have a tenant, a
/// token without one is refused, because its caller could use the data of all tenants.
pub(super) fn principal(claims: &Claims, roles_claim: &str, tenant_claim: Option<&str>) -> Result<Principal, BadJwt> {
    let subject = name(claims.get("sub"), "subject").ok_or(BadJwt::Claim("sub"))?;
    let expires_at = claims.get("exp").and_then(time).ok_or(BadJwt::Claim("exp"))?;
    let roles: Vec<Role> = texts(claim(claims, roles_claim)).filter_map(|name| name.parse().ok()).collect();
    let tenant = |path| name(claim(claims, path), "tenant").map(Arc::from).ok_or(BadJwt::Claim("of the tenant"));
    let tenant = tenant_claim.map(tenant).transpose()?;
    let subject = format!("{PROVIDED}{subject}");
    Ok(Principal { tenant, expires_at: Some(expires_at), ..Principal::new(&subject, &roles) })
}

fn name<'a>(value: Option<&'a Value>, field: &str) -> Option<&'a str> {
    value.and_then(Value::as_str).filter(|name| check_name(field, name).is_ok())
}

/// Returns the claim of this name. If no claim has the name, reads the name as a path of names separated by dots.
fn claim<'a>(claims: &'a Claims, path: &str) -> Option<&'a Value> {
    if let Some(value) = claims.get(path) {
        return Some(value);
    }
    let mut names = path.split('.');
    let first = claims.get(names.next()?)?;
    names.try_fold(first, |value, name| value.get(name))
}

fn texts(value: Option<&Value>) -> impl Iterator<Item = &str> {
    let items = match value {
        Some(Value::Array(items)) => items.as_slice(),
        Some(one) => std::slice::from_ref(one),
        None => &[],
    };
    items.iter().filter_map(Value::as_str).flat_map(str::split_whitespace)
}

/// Reads a time in seconds since 1970, possibly with a fraction (RFC 7519, section 2).
fn time(value: &Value) -> Option<DateTime<Utc>> {
    let seconds = value.as_f64().filter(|seconds| (0.0..1e11).contains(seconds))?;
    #[expect(clippy::cast_possible_truncation, reason = "it was just bounded")]
    DateTime::from_timestamp_millis((seconds * 1000.0) as i64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(claims: &Value) -> Result<Principal, BadJwt> {
        principal(claims.as_object().unwrap(), "realm.roles", Some("org"))
    }

    #[test]
    fn roles_and_tenant_are_read_from_the_configured_claims() {
        let roles = [json!(["operator", "other", 1]), json!("viewer operator")];
        for (roles, expected) in roles.into_iter().zip([&[Role::Operator][..], &[Role::Viewer, Role::Operator]]) {
            let named = json!({"sub": "ann", "exp": 4e9, "realm": {"roles": roles}, "org": "acme"});
            let flat = json!({"sub": "ann", "exp": 4e9, "realm.roles": roles, "org": "acme"});
            for claims in [named, flat] {
                let principal = read(&claims).unwrap();
                assert_eq!((principal.roles.as_slice(), principal.tenant.as_deref()), (expected, Some("acme")));
                assert_eq!(&*principal.subject, "oidc:ann");
            }
        }
        let none = json!({"sub": "ann", "exp": 4_000_000_000_u64, "roles": ["admin"], "org": "acme"});
        let none = principal(none.as_object().unwrap(), "realm.roles", None).unwrap();
        assert_eq!((none.roles.len(), none.tenant, none.capabilities.iter().count()), (0, None, 0));
        assert_eq!(none.expires_at.unwrap().timestamp(), 4_000_000_000);
    }

    #[test]
    fn missing_and_malformed_claims_are_refused() {
        for wrong in [
            json!({"exp": 4e9, "org": "acme"}),
            json!({"sub": "", "exp": 4e9, "org": "acme"}),
            json!({"sub": 1, "exp": 4e9, "org": "acme"}),
            json!({"sub": "local", "exp": 4e9, "org": "acme"}),
            json!({"sub": "ann", "org": "acme"}),
            json!({"sub": "ann", "exp": "soon", "org": "acme"}),
            json!({"sub": "ann", "exp": 1e300, "org": "acme"}),
            json!({"sub": "ann", "exp": 4e9}),
            json!({"sub": "ann", "exp": 4e9, "org": null}),
            json!({"sub": "ann", "exp": 4e9, "org": ""}),
            json!({"sub": "ann", "exp": 4e9, "org": ["acme"]}),
        ] {
            assert!(read(&wrong).is_err(), "{wrong}");
        }
    }
}
