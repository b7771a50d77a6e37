//! Conditions on labels as a JSON path, which statements compare with stored labels.

use serde_json::Value;

use noetl_domain::labels::LabelCondition;

/// Returns the predicate that labels must meet, as a JSON path; `None`: there is no condition.
pub(super) fn label_path(conditions: &[LabelCondition]) -> Option<String> {
    // The texts of JSON are those of a path too.
    let quoted = |text: &str| Value::from(text).to_string();
    let predicate = |condition: &LabelCondition| {
        let label = format!("$.{}", quoted(&condition.name));
        match &condition.values {
            None => format!("exists({label})"),
            Some(values) if values.is_empty() => "1 == 2".to_owned(),
            Some(values) => {
                let equal: Vec<String> = values.iter().map(|value| format!("{label} == {}", quoted(value))).collect();
                format!("({})", equal.join(" || "))
            }
        }
    };
    let predicates: Vec<String> = conditions.iter().map(predicate).collect();
    (!predicates.is_empty()).then(|| predicates.join(" && "))
}
