//! A server without a database: a total that clients read, change and watch.
//!
//! Usage: `cargo run --example server [ADDRESS]`. The default address is 127.0.0.1:8080; the port 0 selects a free port.
//! The server prints the URL of its API, and ends on Ctrl-C.

use std::env;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use async_graphql::{Context, Object, Schema, Subscription, ValidationMode};
use axum::middleware::from_fn;
use futures::stream::{self, Stream};
use graphql_transport::listener::Listener;
use graphql_transport::{Edge, TypeSystem, router, trace};
use tokio::net::TcpListener;
use tokio::signal::ctrl_c;
use tokio::time::interval;

/// Sum of all additions.
#[derive(Clone, Default)]
struct Total(Arc<AtomicI32>);

struct Query;

#[Object]
impl Query {
    async fn total(&self, context: &Context<'_>) -> async_graphql::Result<i32> {
        Ok(context.data::<Total>()?.0.load(Ordering::Relaxed))
    }
}

struct Mutation;

#[Object]
impl Mutation {
    /// Adds an amount and returns the new total.
    async fn add(&self, context: &Context<'_>, amount: i32) -> async_graphql::Result<i32> {
        let Total(total) = context.data()?;
        Ok(total.fetch_add(amount, Ordering::Relaxed).wrapping_add(amount))
    }
}

struct Live;

#[Subscription]
impl Live {
    /// Delivers the total at once, and then at an interval of at least one second.
    async fn totals(
        &self,
        context: &Context<'_>,
        #[graphql(default = 1)] every_seconds: u32,
    ) -> async_graphql::Result<impl Stream<Item = i32> + use<>> {
        let total = context.data::<Total>()?.clone();
        let ticks = interval(Duration::from_secs(every_seconds.max(1).into()));
        Ok(stream::unfold((ticks, total), |(mut ticks, total)| async {
            ticks.tick().await;
            Some((total.0.load(Ordering::Relaxed), (ticks, total)))
        }))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let schema = Schema::build(Query, Mutation, Live).data(Total::default());
    let schema = schema.validation_mode(ValidationMode::Fast).finish();
    let types = TypeSystem::from_sdl(&schema.sdl())?;
    let edge = Edge::new(schema, types);
    let (closing, connections) = (edge.closing.clone(), edge.connections.clone());

    let address = env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let socket = TcpListener::bind(address).await?;
    println!("http://{}/graphql", socket.local_addr()?);
    let listener = Listener { limits: edge.limits, tls: None, draining: closing.clone(), closing: closing.clone() };
    let serving = listener.serve(socket, router(edge).layer(from_fn(trace::identify)));
    let stopping = async {
        ctrl_c().await?;
        closing.cancel();
        Ok(())
    };
    tokio::try_join!(serving, stopping)?;
    connections.close();
    connections.wait().await;
    Ok(())
}
