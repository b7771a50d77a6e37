//! A schema with one field for each thing that can go right or wrong.

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

/// What the resolvers tell a test.
#[derive(Clone)]
pub(crate) struct Probe {
    /// The sum of all additions.
    pub(crate) sum: Arc<watch::Sender<i32>>,
    /// How many operations were prepared.
    pub(crate) prepared: Arc<watch::Sender<usize>>,
    /// How many of the fields that never end have begun.
    pub(crate) begun: Arc<watch::Sender<usize>>,
    /// How many of them were dropped.
    pub(crate) ended: Arc<watch::Sender<usize>>,
    /// How often the counted field ran, and the one inside it.
    pub(crate) counted: Arc<watch::Sender<usize>>,
    pub(crate) inner: Arc<watch::Sender<usize>>,
    /// How many items the endless subscription gave.
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

/// Counts when it is dropped.
struct Ending(Probe);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.ended.send_modify(|count| *count += 1);
    }
}

/// What `admit` attaches to an operation.
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
        Err(Error::new("It must, and can't."))
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
        Err(Error::new("No shard answers.").extend_with(|_, values| values.set("code", "SHARD_UNAVAILABLE")))
    }

    #[graphql(guard = "Nobody")]
    async fn guarded(&self) -> Option<bool> {
        Some(true)
    }

    async fn half(&self, of: Even) -> Option<i32> {
        Some(of.0 / 2)
    }

    /// Counts how often it runs.
    async fn counted(&self, context: &Context<'_>) -> Counted {
        context.data_unchecked::<Probe>().counted.send_modify(|count| *count += 1);
        Counted
    }

    async fn either(&self, context: &Context<'_>) -> Either {
        context.data_unchecked::<Probe>().counted.send_modify(|count| *count += 1);
        Either::Counted(Counted)
    }

    /// The names of the variables that have a value.
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

    /// Counts how often it runs.
    async fn inner(&self, context: &Context<'_>) -> Self {
        context.data_unchecked::<Probe>().inner.send_modify(|count| *count += 1);
        Self
    }
}

/// Lets nobody through.
struct Nobody;

impl Guard for Nobody {
    async fn check(&self, _: &Context<'_>) -> Result<()> {
        Err(Error::new("Nobody may.").extend_with(|_, values| values.set("code", "FORBIDDEN")))
    }
}

/// A scalar that is checked when it is used.
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

    /// One item, then silence.
    async fn silent(&self, context: &Context<'_>) -> impl Stream<Item = i32> + use<> {
        let ending = context.data_unchecked::<Probe>().begin();
        stream::unfold((ending, true), |(ending, first)| async move {
            if !first {
                pending::<Infallible>().await;
            }
            Some((0, (ending, false)))
        })
    }

    /// As many items of `bytes` bytes as are taken.
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
