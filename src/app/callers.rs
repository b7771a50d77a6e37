//! Admission of callers: attaches the principal of the caller to each operation.

use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, TryFutureExt};
use tokio::time::Instant;

use super::AppError;
use crate::config::AuthSettings;
use graphql_transport::{Admit, Admitted, Caller, Permits, Prepare, Refusal};
use noetl_auth::bearer;
use noetl_auth::oidc::{Oidc, SignIn};
use noetl_auth::principal::{Capability, Principal};
use noetl_auth::tokens::Tokens;
use noetl_auth::{Authenticator, Grant};
use noetl_runtime::clock;
use noetl_runtime::supervisor::Supervisor;

/// Longest remaining lifetime of a token that gets a timer: no connection lasts longer.
const LONGEST: Duration = Duration::from_hours(24 * 365);

/// Identification of callers.
pub(super) struct Callers {
    /// Function that admits callers.
    pub(super) admit: Admit,
    /// Sign-in of the console at the provider; `None` if it is not configured.
    pub(super) sign_in: Option<Arc<SignIn>>,
}

/// Returns the identification of callers, and starts the tasks that keep tokens and keys current.
pub(super) fn identification(settings: &AuthSettings, supervisor: &mut Supervisor) -> Result<Callers, AppError> {
    if !settings.is_on() {
        let everyone = Admitted::anonymous(attach(Arc::new(Principal::local())));
        let admit: Admit = Arc::new(move |_| futures::future::ready(Ok(everyone.clone())).boxed());
        return Ok(Callers { admit, sign_in: None });
    }
    let tokens = Arc::new(Tokens::open(settings.token_file.as_deref(), settings.internal_token)?);
    let oidc = settings.oidc.clone().map(Oidc::new).transpose()?.map(Arc::new);
    let (watching, soft) = (Arc::clone(&tokens), supervisor.soft());
    supervisor.start("token file", async move {
        let problems = metrics::gauge!("noetl_token_file_problems");
        #[expect(clippy::cast_precision_loss, reason = "a file has few lines")]
        let report = |count: usize| problems.set(count as f64);
        report(0);
        watching.watch(soft.clone(), report).await;
        soft.cancelled().await;
        Ok::<(), std::convert::Infallible>(())
    });
    if let Some(oidc) = oidc.clone() {
        let soft = supervisor.soft();
        supervisor.start("provider's keys", async move {
            oidc.run(soft).await;
            Ok::<(), std::convert::Infallible>(())
        });
    }
    let client = settings.oidc.as_ref().and_then(|settings| Some((settings, settings.client.clone()?)));
    let sign_in =
        client.zip(oidc.clone()).map(|((settings, client), oidc)| SignIn::new(&settings.issuer, client, oidc));
    let sign_in = sign_in.transpose()?.map(Arc::new);
    let authenticator = Arc::new(Authenticator { tokens, oidc });
    let any_introspects = !settings.restrict_introspection;
    let admit: Admit = Arc::new(move |caller| {
        let admitted = admit(Arc::clone(&authenticator), caller);
        admitted
            .map_ok(move |mut admitted| {
                admitted.permits.introspection |= any_introspects;
                admitted
            })
            .boxed()
    });
    Ok(Callers { admit, sign_in })
}

async fn admit(authenticator: Arc<Authenticator>, caller: Caller) -> Result<Admitted, Refusal> {
    let refuse = |reason: &dyn std::fmt::Display| {
        metrics::counter!("noetl_callers_refused_total").increment(1);
        tracing::debug!(%reason, "refused a caller");
        Refusal::Unauthenticated
    };
    let token = bearer::token(&caller.headers, caller.init.as_ref()).map_err(|reason| refuse(&reason))?;
    let (now, arrived) = (clock::now(), Instant::now());
    let Grant { principal, revoked } =
        authenticator.authenticate(token, now).await.map_err(|reason| refuse(&reason))?;
    let remaining = principal.expires_at.and_then(|end| (end - now).to_std().ok()).filter(|left| *left < LONGEST);
    Ok(Admitted {
        subject: Some(Arc::clone(&principal.subject)),
        expires_at: remaining.map(|left| arrived + left),
        revoked,
        permits: permits(&principal),
        prepare: attach(principal),
    })
}

/// Returns what a caller is allowed beside the fields of the schema: introspection, documents that are not trusted, and
/// the metrics and backlogs, which a token of one tenant does not get, because they count the data of all tenants.
fn permits(principal: &Principal) -> Permits {
    let has = |capability| principal.capabilities.has(capability);
    Permits {
        introspection: has(Capability::Introspect),
        any_document: has(Capability::AnyDocument),
        metrics: principal.tenant.is_none() && (has(Capability::Read) || has(Capability::Outbox)),
    }
}

fn attach(principal: Arc<Principal>) -> Prepare {
    Arc::new(move |request| request.data(Arc::clone(&principal)))
}
