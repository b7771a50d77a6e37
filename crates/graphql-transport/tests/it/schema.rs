//! A schema with one field for each kind of success and failure.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;

use async_graphql::{
    Context, Error, ErrorExtensions, Guard, InputObject, InputType, InputValueError, InputValueResult, Object, Result,
    Scalar, ScalarType, Schema, SimpleObject, Subscription, Union, ValidationMode, Value,
};
use futures::stream::{self, Stream, StreamExt};
use tokio::sync::watch;

pub(crate) type TestSchema = Schema<Query, Mutation, Live>;

/// Counters of the resolvers.
#[derive(Clone)]
pub(crate) struct Probe {
    /// Sum of all additions.
    pub(crate) sum: Arc<watch::Sender<i32>>,
    /// Number of prepared operations.
    pub(crate) prepared: Arc<watch::Sender<usize>>,
    /// Number of started fields that never end.
    pub(crate) begun: Arc<watch::Sender<usize>>,
    /// Number of these fields that were dropped.
    pub(crate) ended: Arc<watch::Sender<usize>>,
    /// Number of times that `counted` ran.
    pub(crate) counted: Arc<watch::Sender<usize>>,
    pub(crate) inner: Arc<watch::Sender<usize>>,
    /// Number of items that the endless subscription produced.
    pub(crate) produced: Arc<watch::Sender<usize>>,
}

impl Probe {
    pub(crate) fn new() -> Self {
        let counter = || Arc::new(watch::Sender::new(0));
        Self {
            sum: Arc::new(watch::Sender::new(0)),
            prepared: counter(),
            begun: counter(),
            ended: counter(),
            counted: counter(),
            inner: counter(),
            produced: counter(),
        }
    }

    fn begin(&self) -> Ending {
        self.begun.send_modify(|count| *count += 1);
        Ending(self.clone())
    }
}

/// Guard that counts an end when it is dropped.
struct Ending(Probe);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.ended.send_modify(|count| *count += 1);
    }
}

/// Name that `admit` attaches to an operation.
pub(crate) struct CallerName(pub(crate) String);

pub(crate) fn schema(probe: Probe) -> TestSchema {
    Schema::build(Query, Mutation, Live).data(probe).validation_mode(ValidationMode::Fast).finish()
}

pub(crate) struct Query;

#[derive(SimpleObject)]
pub(crate) struct Page {
    nodes: Vec<Node>,
}

pub(crate) struct Node;

#[Object]
impl Node {
    async fn name(&self) -> &str {
        "node"
    }

    async fn note(&self) -> Result<Option<String>> {
        Err(Error::new("No note."))
    }

    async fn must(&self) -> Result<String> {
        Err(Error::new("The value is missing."))
    }

    async fn pages(&self, first: Option<i32>) -> Page {
        let _ = first;
        Page { nodes: Vec::new() }
    }
}

#[Object]
impl Query {
    async fn hello(&self) -> &str {
        "world"
    }

    async fn echo(&self, text: String) -> String {
        text
    }

    async fn pages(&self, first: Option<i32>) -> Page {
        Page { nodes: (0..first.unwrap_or(1)).map(|_| Node).collect() }
    }

    /// Resolves after its siblings.
    async fn late(&self) -> bool {
        tokio::task::yield_now().await;
        true
    }

    async fn slow(&self, context: &Context<'_>) -> bool {
        let _ending = context.data_unchecked::<Probe>().begin();
        pending().await
    }

    async fn panics(&self, context: &Context<'_>) -> bool {
        assert!(context.data_opt::<Probe>().is_none(), "the password is swordfish");
        true
    }

    async fn leaks(&self) -> Result<Option<bool>> {
        Err(std::io::Error::other("postgres://admin:swordfish@10.0.0.1"))?
    }

    async fn coded(&self) -> Result<Option<bool>> {
        Err(Error::new("No shard is available.").extend_with(|_, values| values.set("code", "SHARD_UNAVAILABLE")))
    }

    #[graphql(guard = "AlwaysForbidden")]
    async fn guarded(&self) -> Option<bool> {
        Some(true)
    }

    async fn half(&self, of: Even) -> Option<i32> {
        Some(of.0 / 2)
    }

    /// Counts its runs.
    async fn counted(&self, context: &Context<'_>) -> Counted {
        context.data_unchecked::<Probe>().counted.send_modify(|count| *count += 1);
        Counted
    }

    async fn either(&self, context: &Context<'_>) -> Either {
        context.data_unchecked::<Probe>().counted.send_modify(|count| *count += 1);
        Either::Counted(Counted)
    }

    /// Returns the names of the variables that have a value.
    async fn variables(&self, context: &Context<'_>, a: Option<i32>, p: Option<Vec<Point>>) -> Vec<String> {
        let _ = (a, p.iter().flatten().map(|point| point.x + point.y).sum::<i32>());
        context.query_env.variables.keys().map(ToString::to_string).collect()
    }

    async fn caller(&self, context: &Context<'_>) -> Option<String> {
        context.data_opt::<CallerName>().map(|caller| caller.0.clone())
    }
}

#[derive(InputObject)]
pub(crate) struct Point {
    x: i32,
    y: i32,
}

#[derive(Union)]
pub(crate) enum Either {
    Counted(Counted),
    Node(Node),
}

pub(crate) struct Counted;

#[Object]
impl Counted {
    async fn number(&self) -> i32 {
        1
    }

    /// Counts its runs.
    async fn inner(&self, context: &Context<'_>) -> Self {
        context.data_unchecked::<Probe>().inner.send_modify(|count| *count += 1);
        Self
    }
}

/// A guard that refuses every caller.
struct AlwaysForbidden;

impl Guard for AlwaysForbidden {
    async fn check(&self, _: &Context<'_>) -> Result<()> {
        Err(Error::new("Forbidden.").extend_with(|_, values| values.set("code", "FORBIDDEN")))
    }
}

/// A scalar that is checked when it is parsed.
struct Even(i32);

#[Scalar]
impl ScalarType for Even {
    fn parse(value: Value) -> InputValueResult<Self> {
        let number = <i32 as InputType>::parse(Some(value)).map_err(InputValueError::propagate)?;
        if number % 2 == 0 { Ok(Self(number)) } else { Err(InputValueError::custom("not even")) }
    }

    fn to_value(&self) -> Value {
        self.0.into()
    }
}

pub(crate) struct Mutation;

#[Object]
impl Mutation {
    async fn add(&self, context: &Context<'_>, amount: i32) -> i32 {
        let probe = context.data_unchecked::<Probe>();
        probe.sum.send_modify(|sum| *sum += amount);
        *probe.sum.borrow()
    }

    async fn total(&self, of: Option<Vec<i32>>, at: Option<Point>) -> i32 {
        let _ = at.map(|point| point.x + point.y);
        of.iter().flatten().sum()
    }

    /// Adds, and never returns.
    async fn add_and_hang(&self, context: &Context<'_>, amount: i32) -> i32 {
        let probe = context.data_unchecked::<Probe>();
        probe.sum.send_modify(|sum| *sum += amount);
        let _ending = probe.begin();
        pending().await
    }
}

pub(crate) struct Live;

#[Subscription]
impl Live {
    async fn count(&self, to: i32) -> impl Stream<Item = i32> {
        stream::iter(1..=to)
    }

    /// Delivers one item and then nothing.
    async fn silent(&self, context: &Context<'_>) -> impl Stream<Item = i32> + use<> {
        let ending = context.data_unchecked::<Probe>().begin();
        stream::unfold((ending, true), |(ending, first)| async move {
            if !first {
                pending::<Infallible>().await;
            }
            Some((0, (ending, false)))
        })
    }

    /// Delivers items of `bytes` bytes without end.
    async fn endless(&self, context: &Context<'_>, bytes: usize) -> impl Stream<Item = String> + use<> {
        let probe = context.data_unchecked::<Probe>().clone();
        stream::unfold(probe.begin(), move |ending| async move {
            ending.0.produced.send_modify(|count| *count += 1);
            Some(("x".repeat(bytes), ending))
        })
    }

    async fn panics_after(&self, items: i32) -> impl Stream<Item = i32> {
        stream::iter(0..=items).map(move |item| if item < items { item } else { panic!("the password is swordfish") })
    }

    async fn unavailable(&self) -> Result<stream::Empty<i32>> {
        Err(Error::new("The stream is down.").extend_with(|_, values| values.set("code", "STREAM_UNAVAILABLE")))
    }
}
