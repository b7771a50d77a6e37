//! The budget of an operation: its limits, and the work that it charges.

use std::sync::Arc;

use futures::FutureExt;
use noetl_storage::budget::{Budget, BudgetLimits, Exceeded, Resource, uncharged};

#[test]
fn exceeded_limit_stays_exceeded_until_the_budget_is_renewed() {
    let limits = BudgetLimits { read_bytes: 10, read_rows: 2, response_bytes: 5 };
    let budget = Budget::new(limits, None);
    assert_eq!(budget.charge_row(5).and(budget.charge_row(5)), Ok(()));
    assert_eq!(budget.charge_row(0), Err(Exceeded { limit: Resource::ReadRows, allowed: 2, actual: 3 }));
    assert!(budget.charge_response(0).is_err() && budget.check().is_err());
    budget.renew();
    assert_eq!(budget.charge_row(11), Err(Exceeded { limit: Resource::ReadBytes, allowed: 10, actual: 11 }));
    budget.renew();
    assert_eq!((budget.check_response(5), budget.check_response(5)), (Ok(()), Ok(())));
    let exceeded = Err(Exceeded { limit: Resource::ResponseBytes, allowed: 5, actual: 6 });
    assert_eq!((budget.check_response(6), budget.check()), (exceeded, exceeded));
    budget.renew();
    assert_eq!(budget.charge_response(6), Err(Exceeded { limit: Resource::ResponseBytes, allowed: 5, actual: 6 }));
}

#[test]
fn budget_is_current_only_while_it_is_entered() {
    let budget = Budget::new(BudgetLimits::default(), None);
    assert!(Budget::current().is_none());
    assert!(budget.enter(|| Arc::ptr_eq(&Budget::current().unwrap(), &budget)));
    let inside = budget.enter(|| uncharged(async { Budget::current().is_none() }).now_or_never());
    assert_eq!(inside, Some(true));
    assert!(Budget::current().is_none());
}
