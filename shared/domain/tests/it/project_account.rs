//! The account of a project: what its agents draw from the spending cap (decision 78).

use pilothouse_domain::project::{Project, ProjectError, SpendingCap};
use pilothouse_domain::project_account::{AgentSpend, ProjectAccount};
use pilothouse_domain::{ProjectAccountEvent as E, Usd};
use proptest::prelude::*;

use crate::projects::{agent_id, project_with_agents};

fn usd(cents: u32) -> Usd {
    Usd::new(rust_decimal::Decimal::new(cents.into(), 2)).unwrap()
}

fn account(project: &Project, cap: Usd) -> ProjectAccount {
    let mut account = ProjectAccount::open(project.id(), project.owner_id().clone());
    account.set_cap(Some(SpendingCap::new(cap, None).unwrap()));
    account
}

fn spend(agent: u128, spent_usd: Usd, ended: bool) -> AgentSpend {
    AgentSpend { agent_id: agent_id(agent), spent_usd, ended }
}

#[test]
fn owner_is_warned_of_each_cap_once() {
    let project = project_with_agents(1);
    let mut account = account(&project, usd(100));
    let warnings = |account: &mut ProjectAccount, cents| {
        let events = account.settle(&[spend(1, usd(cents), false)], &project).events;
        events.iter().filter(|event| matches!(event, E::Warning { .. })).count()
    };
    assert_eq!(warnings(&mut account, 50), 0);
    assert_eq!(warnings(&mut account, 85), 1);
    assert_eq!(warnings(&mut account, 99), 0);
    account.set_cap(Some(SpendingCap::new(usd(200), Some(60)).unwrap()));
    assert_eq!(warnings(&mut account, 110), 0);
    assert_eq!(warnings(&mut account, 150), 1);
}

#[test]
fn owner_is_warned_of_the_cost_of_reviews() {
    let project = project_with_agents(1);
    let mut account = account(&project, usd(100));
    assert_eq!(account.count_reviews(usd(50), &project).len(), 1);
    let events = account.count_reviews(usd(85), &project);
    assert!(matches!(events[..], [E::ReviewsCounted { .. }, E::Warning { .. }]), "{events:?}");
    assert_eq!(account.count_reviews(usd(90), &project).len(), 1);
    assert_eq!(account.settle(&[spend(1, usd(1), false)], &project).events.len(), 1, "it is warned once");
}

#[test]
fn last_slice_is_what_is_left_and_the_next_one_is_refused() {
    let project = project_with_agents(1);
    let mut account = account(&project, usd(100));
    for cents in 1..100 {
        let settled = account.settle(&[spend(1, usd(cents), false)], &project);
        assert!(!settled.is_refused, "{cents}");
    }
    assert!(account.settle(&[spend(1, usd(100), false)], &project).is_refused);
    let cap = account.cap().unwrap();
    assert_eq!(account.ensure_covers_start(cap), Err(ProjectError::SpendingCapReached { cap: usd(100) }));
}

proptest! {
    #[test]
    fn account_covers_the_spend_and_holds_little_more(
        steps in prop::collection::vec((1_u128..5, 1_u32..400, prop::bool::weighted(0.1)), 1..60),
    ) {
        let project = project_with_agents(4);
        let mut account = account(&project, usd(3000));
        let mut spent = [0_u32; 5];
        for (agent, cents, ended) in steps {
            let total = &mut spent[usize::try_from(agent).unwrap()];
            *total += cents;
            let one = spend(agent, usd(*total), ended);
            account.settle(&[one], &project);
            let again = account.settle(&[one], &project);
            prop_assert!(again.events.is_empty(), "{again:?}");
            let sum = usd(spent.iter().sum());
            prop_assert!(account.drawn_usd() >= sum);
            prop_assert!(account.overshoot_usd() >= sum.excess_over(usd(3000)));
            let unused = account.drawn_usd().excess_over(sum);
            prop_assert!(account.overshoot_usd() <= sum.excess_over(usd(3000)) + unused);
            prop_assert!(unused <= usd(300), "{unused} are held and not used");
        }
    }
}
