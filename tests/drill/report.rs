//! The report: a page in Markdown and a picture.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;

use noetl_testkit::repository;

use super::samples::{Sample, Samples, Step};

/// Time after a step in which its effects are counted, in seconds.
const AFTER: f64 = 5.0;
const WIDTH: f64 = 960.0;
/// Place of the numbers beside the panels.
const LEFT: f64 = 56.0;
const ROW: f64 = 18.0;
const PANEL: f64 = 150.0;

/// Names of programs and their versions.
pub type Programs = Vec<(&'static str, String)>;

/// Results of the final checks.
pub struct Outcome {
    /// Length of the drill, in seconds.
    pub seconds: f64,
    pub messages: usize,
    pub events: usize,
    pub readers: u64,
    pub repeated: BTreeMap<String, u64>,
}

pub struct Report<'a> {
    pub outcome: Outcome,
    /// Outcome of the drill whose workers read the stream of the relay.
    pub relayed: Outcome,
    pub programs: Programs,
    pub samples: &'a Samples<'a>,
}

impl Report<'_> {
    /// Writes the page and the picture.
    pub fn write(&self) {
        let folder = repository().join("docs/drill");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("timeline.svg"), self.picture()).unwrap();
        fs::write(repository().join("docs/drill.md"), self.page()).unwrap();
        eprintln!("written: docs/drill.md, docs/drill/timeline.svg");
    }

    fn page(&self) -> String {
        let Outcome { seconds, messages, events, readers, repeated } = &self.outcome;
        let Outcome { seconds: relay_seconds, messages: relay_messages, events: relay_events, .. } = &self.relayed;
        let mut page = format!(
            "# Scale drill\n\n\
             `make drill` writes this page; it is not edited by hand. The drill runs a whole deployment on one machine: 3 PostgreSQL\n\
             servers, each with a synchronous standby, a cluster of 3 NATS servers whose streams have 3 copies, 3 replicas, and\n\
             HAProxy with the configuration of `deploy/compose`. Sources execute a playbook with dedup keys, workers claim the\n\
             outbox rows and report 7 events in 4 calls for each message, and {readers} live readers move between the replicas.\n\
             All of them use only the address of the load balancer. First the version changes, then one of each part is lost.\n\n\
             ## Result\n\n\
             In {seconds:.0} seconds, {messages} messages ran, with {events} events.\n\n\
             - Each message ran exactly once: one claim, one execution, one log with each event once.\n\
             - Each of the {readers} readers got each event once, in the order of its execution, and no `StreamGap`.\n\
             - Nothing was left over: no open claim, no unsettled outbox row, no unpublished event, no execution that the list\n\
             \x20 does not show as completed. Each feed is still in its first epoch.\n\
             - Every replica that was asked to stop ended successfully.\n\n\
             The same holds with the relay on, whose messages workers read from the stream `noetl_executions`: {relay_messages}\n\
             messages with {relay_events} events in {relay_seconds:.0} seconds, with the same steps. The rest of this page is of the drill with claims.\n\n\
             ![Rate of completed messages, lag of a reader, and the steps](drill/timeline.svg)\n\n\
             The lag is the age of the oldest completed message of which a reader lacks an event; this reader reconnects\n\
             after at most 300 events.\n\n\
             ## Steps\n\n\
             The last two columns count from the start of the step until {AFTER:.0} seconds after its end: the longest time in which\n\
             no message was completed, and the largest lag.\n\n\
             | from | time | step | longest pause | largest lag |\n|---:|---:|---|---:|---:|\n"
        );
        for Step { name, from, to } in self.samples.steps() {
            let pause = self.samples.longest_pause(from, to + AFTER);
            let lags = self.samples.samples().into_iter().filter(|sample| sample.at >= from && sample.at <= to + AFTER);
            let lag = lags.map(|sample| sample.lag).fold(0.0, f64::max);
            writeln!(page, "| {from:.1} s | {:.1} s | {name} | {pause:.1} s | {lag:.1} s |", to - from).unwrap();
        }
        page.push_str("\nClients repeated requests for these reasons:\n\n| reason | requests |\n|---|---:|\n");
        for (reason, count) in repeated {
            writeln!(page, "| `{reason}` | {count} |").unwrap();
        }
        page.push_str("\n## Conditions\n\n| | |\n|---|---|\n");
        for (name, version) in &self.programs {
            writeln!(page, "| {name} | {version} |").unwrap();
        }
        let processors = std::thread::available_parallelism().map_or(0, usize::from);
        let build = if cfg!(debug_assertions) { "without optimisation" } else { "with optimisation" };
        writeln!(page, "| build of the server and of the clients | {build} |").unwrap();
        writeln!(page, "| processors for all parts and clients together | {processors} |").unwrap();
        page.push_str("| durability of PostgreSQL | `fsync` is off; each commit waits for the standby |\n");
        page.push_str(
            "\nThe rate is that of this machine under this load, and no benchmark; see [Benchmarks](benchmarks.md).\n\
             [Failover](operations/failover.md) says what to do when a part is lost.\n",
        );
        page
    }

    fn picture(&self) -> String {
        let (samples, steps) = (self.samples.samples(), self.samples.steps());
        let end = samples.last().map_or(1.0, |sample| sample.at);
        let top = 24.0;
        let faults = top + 2.0 * (PANEL + 44.0);
        let height = faults + steps.len() as f64 * ROW + 40.0;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
        );
        let x = |at: f64| LEFT + at / end * (WIDTH - LEFT - 16.0);
        for Step { from, to, .. } in &steps {
            let (x, width) = (x(*from), (x(*to) - x(*from)).max(1.0));
            let height = height - top - 30.0;
            writeln!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{top}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"#fde8d8\"/>"
            )
            .unwrap();
        }
        let rate: fn(&Sample) -> f64 = |sample| sample.rate;
        let lag: fn(&Sample) -> f64 = |sample| sample.lag;
        panel(&mut svg, top, "completed messages per second", "#1f6feb", &samples, rate, x);
        panel(&mut svg, top + PANEL + 44.0, "lag of a reader in seconds", "#c2410c", &samples, lag, x);
        for (row, Step { name, from, to }) in steps.iter().enumerate() {
            let y = faults + row as f64 * ROW;
            let (left, width) = (x(*from), (x(*to) - x(*from)).max(2.0));
            writeln!(svg, "<rect x=\"{left:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"12\" fill=\"#7c3aed\"/>")
                .unwrap();
            // The text is on the side with more space.
            let (anchor, at) = if left > WIDTH / 2.0 { ("end", left - 5.0) } else { ("start", left + width + 5.0) };
            writeln!(svg, "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{name}</text>", y + 10.0).unwrap();
        }
        let axis = height - 12.0;
        for second in (0..u32::MAX).step_by(30).take_while(|second| f64::from(*second) <= end) {
            let at = x(f64::from(second));
            writeln!(svg, "<text x=\"{at:.1}\" y=\"{axis}\" text-anchor=\"middle\" fill=\"#57606a\">{second} s</text>")
                .unwrap();
        }
        svg.push_str("</svg>\n");
        svg
    }
}

/// Draws one line with its scale.
fn panel(
    svg: &mut String,
    top: f64,
    title: &str,
    colour: &str,
    samples: &[Sample],
    value: fn(&Sample) -> f64,
    x: impl Fn(f64) -> f64,
) {
    let most = samples.iter().map(value).fold(1.0, f64::max);
    let y = |value: f64| top + PANEL - value / most * PANEL;
    let right = WIDTH - 16.0;
    for part in [0.0, 0.5, 1.0] {
        let (at, number) = (y(most * part), most * part);
        let number = if most < 10.0 { format!("{number:.1}") } else { format!("{number:.0}") };
        writeln!(svg, "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#d0d7de\"/>").unwrap();
        let (left, middle) = (LEFT - 6.0, at + 4.0);
        writeln!(svg, "<text x=\"{left}\" y=\"{middle:.1}\" text-anchor=\"end\" fill=\"#57606a\">{number}</text>")
            .unwrap();
    }
    writeln!(svg, "<text x=\"{LEFT}\" y=\"{:.1}\" font-weight=\"bold\">{title}</text>", top - 8.0).unwrap();
    let points: Vec<String> =
        samples.iter().map(|sample| format!("{:.1},{:.1}", x(sample.at), y(value(sample)))).collect();
    writeln!(svg, "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>", points.join(" "))
        .unwrap();
}
