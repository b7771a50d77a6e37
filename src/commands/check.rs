//! `check`: compares databases and streams, and prints the differences.

use clap::Args;
use serde_json::{Value, json};

use super::Failure;
use super::output::{self, Form};
use crate::app;
use crate::config::Config;
use noetl_service::check::findings::{Findings, Tally, Unchecked};
use noetl_service::check::kinds::Kind;

/// Options of `check`.
#[derive(Debug, Args)]
pub(super) struct Options {
    /// Repair the differences for which a repair is known. May be interrupted and repeated at any time.
    #[arg(long)]
    repair: bool,
    /// Form of the result.
    #[arg(long, value_enum, default_value_t)]
    format: Form,
}

/// Compares databases and streams, and prints the result.
pub(super) async fn run(config: &Config, options: Options) -> Result<(), Failure> {
    let findings = app::check(config, options.repair).await.map_err(Failure::CannotCheck)?;
    match options.format {
        Form::Table => output::print(&format!("{}\n", table(&findings)))?,
        Form::Json => output::print(&format!("{:#}\n", document(&findings)))?,
    }
    let left = findings.left(!options.repair);
    match (findings.unchecked.len(), left) {
        (0, 0) => Ok(()),
        (0, left) => Err(Failure::Differences(left)),
        (parts, _) => Err(Failure::Unchecked(parts)),
    }
}

fn table(findings: &Findings) -> String {
    let Findings { kinds, unchecked } = findings;
    let mut lines = Vec::new();
    if kinds.is_empty() {
        lines.push("no differences".to_owned());
    } else {
        let width = kinds.keys().map(|kind| kind.name().len()).max().unwrap_or_default();
        let header = "difference";
        lines.push(format!("{header:width$}  {:>7}  {:>8}  {:>7}  repaired by", "found", "repaired", "left"));
        for (kind, tally) in kinds {
            let Tally { found, repaired, .. } = tally;
            let (left, by) = (tally.left(), kind.repair().name());
            lines.push(format!("{kind:width$}  {found:>7}  {repaired:>8}  {left:>7}  {by}"));
        }
    }
    for (kind, tally) in kinds {
        lines.push(format!("\n{kind}: {}.\n  repair: {}", kind.meaning(), kind.action()));
        lines.extend(tally.examples.iter().map(|example| format!("  - {example}")));
    }
    lines.extend(unchecked.iter().map(|Unchecked { part, reason }| format!("\nnot checked: {part}: {reason}")));
    lines.join("\n")
}

fn document(findings: &Findings) -> Value {
    let difference = |(kind, tally): (&Kind, &Tally)| {
        json!({
            "kind": kind.name(),
            "found": tally.found,
            "repaired": tally.repaired,
            "left": tally.left(),
            "repairedBy": kind.repair().name(),
            "meaning": kind.meaning(),
            "repair": kind.action(),
            "examples": tally.examples,
        })
    };
    let unchecked = |one: &Unchecked| json!({ "part": one.part, "reason": one.reason });
    json!({
        "differences": findings.kinds.iter().map(difference).collect::<Vec<_>>(),
        "unchecked": findings.unchecked.iter().map(unchecked).collect::<Vec<_>>(),
    })
}
