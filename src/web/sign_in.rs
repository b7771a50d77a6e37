//! Sign-in of the console at the OpenID provider. The routes need no token, because they are for users who have none.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CACHE_CONTROL;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Form, Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};

use graphql_transport::sites::{self, RouteKind, Sites};
use noetl_auth::oidc::{Code, SignIn, SignInError};

/// Returns the routes.
///
/// `GET /auth/sign-in` returns the parameters with which the console sends a user to the provider, or null if users
/// can't sign in there. `POST /auth/token` exchanges the code that the provider returned for a token.
pub fn routes(sites: &Sites, sign_in: Option<Arc<SignIn>>) -> Router {
    let routes = match sign_in {
        Some(sign_in) => {
            Router::new().route("/auth/sign-in", get(invitation)).route("/auth/token", post(token)).with_state(sign_in)
        }
        None => Router::new().route("/auth/sign-in", get(async || answer(StatusCode::OK, &Value::Null))),
    };
    sites::protect(routes, sites, RouteKind::Api)
}

async fn invitation(State(sign_in): State<Arc<SignIn>>) -> Response {
    match sign_in.invitation().await {
        Ok(invitation) => answer(
            StatusCode::OK,
            &json!({
                "authorizationEndpoint": invitation.authorization_endpoint,
                "clientId": invitation.client_id,
                "scopes": invitation.scopes,
            }),
        ),
        Err(error) => failure(&error),
    }
}

/// Form of `POST /auth/token`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TokenForm {
    code: String,
    verifier: String,
    redirect_uri: String,
}

async fn token(State(sign_in): State<Arc<SignIn>>, Form(form): Form<TokenForm>) -> Response {
    let code = Code { code: &form.code, verifier: &form.verifier, redirect_uri: &form.redirect_uri };
    match sign_in.redeem(code).await {
        Ok(token) => answer(StatusCode::OK, &json!({ "token": token })),
        Err(error) => failure(&error),
    }
}

fn failure(error: &SignInError) -> Response {
    tracing::info!(%error, "a sign-in to the console failed");
    let status = match error {
        SignInError::Unavailable(_) => StatusCode::BAD_GATEWAY,
        SignInError::Refused(_) | SignInError::NoToken(_) => StatusCode::BAD_REQUEST,
    };
    answer(status, &json!({ "error": error.to_string() }))
}

fn answer(status: StatusCode, body: &Value) -> Response {
    (status, [(CACHE_CONTROL, "no-store")], Json(body)).into_response()
}
