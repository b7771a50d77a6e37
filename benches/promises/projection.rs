//! Benchmark of reading and advancing an execution with a long log, compared with a short log of the same workflow.

use std::time::Instant;

use noetl_testkit::projections::ADVANCE_PROJECTIONS;
use noetl_testkit::{Deployment, QUIET, Server};
use serde_json::{Value, json};
use sqlx::PgConnection;

use crate::report::{self, Limit, Report, Spread};

const SHORT: i64 = 1_000;
const LONG: i64 = 1_000_000;
const MORE: i64 = 100;
const ROUNDS: i64 = 20;

/// Writes the events of a workflow that repeats 20 steps. Each run of a step has ten events, three of unknown type.
pub const WRITE: &str = "
    INSERT INTO noetl.event (execution_id, event_id, event_type, node_name, meta, result, context)
    SELECT $1, $1 + n,
           (ARRAY['step.enter', 'command.issued', 'command.claimed', 'command.started', 'call.done',
                  'command.completed', 'ctx.updated', 'worker.heartbeat', 'worker.heartbeat', 'worker.heartbeat']
           )[n % 10 + 1],
           'step' || n / 10 % 20,
           CASE WHEN n % 10 = 0 THEN '{}' ELSE jsonb_build_object('command_id', 'c' || n / 10) END,
           CASE WHEN n % 10 = 4 THEN jsonb_build_object('data', jsonb_build_object('n', n, 'text', repeat('x', 200))) END,
           CASE WHEN n % 10 = 6 THEN jsonb_build_object('values', jsonb_build_object('v' || n / 10 % 10, n)) END
    FROM generate_series($2::bigint, $3::bigint) AS n";

const READ: &str = "query($id: ID!) { execution(id: $id) { status steps { nodes { name status attempt } } } }";

struct Log {
    id: i64,
    shard: PgConnection,
    written: i64,
}

impl Log {
    async fn new(deployment: &Deployment, server: &Server, events: i64) -> Self {
        let payload = server.execute(json!({ "path": "bench/fold" })).await;
        let id: i64 = payload["execution"]["id"].as_str().unwrap().parse().unwrap();
        let shard = usize::try_from(payload["execution"]["shard"].as_u64().unwrap()).unwrap();
        let mut log = Self { id, shard: deployment.shard(shard).await, written: 9 };
        log.write(events).await;
        sqlx::query("VACUUM ANALYZE noetl.event").execute(&mut log.shard).await.unwrap();
        log
    }

    async fn write(&mut self, events: i64) {
        let (from, to) = (self.written + 1, self.written + events);
        sqlx::query(WRITE).bind(self.id).bind(from).bind(to).execute(&mut self.shard).await.unwrap();
        self.written = to;
    }

    /// Advances the projection and returns the time in seconds.
    async fn advance(&self, server: &Server, folded: i64) -> f64 {
        let begun = Instant::now();
        let data = server.data(ADVANCE_PROJECTIONS, json!({ "ids": [self.id.to_string()] })).await;
        let seconds = begun.elapsed().as_secs_f64();
        let result = &data["advanceProjections"]["results"][0];
        assert_eq!(result["userErrors"], json!([]), "{data}");
        assert_eq!(result["advanced"]["folded"], folded.to_string(), "{data}");
        seconds
    }

    /// Reads status and steps and returns the time in seconds.
    async fn read(&self, server: &Server) -> f64 {
        let begun = Instant::now();
        let data = server.data(READ, json!({ "id": self.id.to_string() })).await;
        let steps: &Vec<Value> = data["execution"]["steps"]["nodes"].as_array().unwrap();
        assert_eq!(steps.len(), 20);
        begun.elapsed().as_secs_f64()
    }

    /// Returns the median times in seconds of advancing and of reading after [`MORE`] more events.
    async fn follow(&mut self, server: &Server) -> (f64, f64) {
        let (mut advances, mut reads) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            self.write(MORE).await;
            reads.push(self.read(server).await);
            advances.push(self.advance(server, MORE).await);
        }
        (Spread::of(advances).median, Spread::of(reads).median)
    }
}

pub async fn measure(report: &mut Report) {
    let deployment = Deployment::start(0).await;
    // Background tasks are off: otherwise their work would be measured too.
    let server = deployment.replica_with(&QUIET).await;
    server.register_entry("bench/fold", &json!({ "kind": "playbook" })).await;
    let mut short = Log::new(&deployment, &server, SHORT).await;
    let mut long = Log::new(&deployment, &server, LONG).await;
    short.advance(&server, SHORT + 1).await;
    let idle = report::resident_mib(&server);
    report::reset_peak(&server);
    let rebuilt = long.advance(&server, LONG + 1).await;
    let peak = report::peak_mib(&server) - idle;
    report.figure("rebuild of an execution with 1,000,000 events", rebuilt, "s", None);
    report.figure("the same: memory above idle at its peak", peak, "MiB", Some(Limit::AtMost(64.0)));
    let (advance_short, read_short) = short.follow(&server).await;
    let (advance_long, read_long) = long.follow(&server).await;
    report.figure("advance after 100 more events, of 1,000,000", advance_long * 1000.0, "ms", None);
    report.figure("the same / of 1,000", advance_long / advance_short, "ratio", Some(Limit::AtMost(2.0)));
    report.figure("read of status and steps after 100 more events, of 1,000,000", read_long * 1000.0, "ms", None);
    report.figure("the same / of 1,000", read_long / read_short, "ratio", Some(Limit::AtMost(2.0)));
}
