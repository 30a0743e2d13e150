//! Given a worker, a run and the folders of its session; when a rule decides; then it returns this decision.

#![allow(clippy::unwrap_used)]

use super::*;

struct Worker {
    workspace: WorkspaceOffer,
    owner: UserId,
    name: &'static str,
    shared: bool,
    labels: BTreeMap<String, String>,
    capacity: u32,
    assigned: usize,
    draining: bool,
    seen_at: Timestamp,
}

impl Worker {
    const fn offer(&self) -> WorkerOffer<'_> {
        WorkerOffer {
            owner: &self.owner,
            name: self.name,
            shared: self.shared,
            labels: &self.labels,
            workspace: &self.workspace,
            capacity: self.capacity,
            assigned: self.assigned,
            draining: self.draining,
            seen_at: self.seen_at,
        }
    }
}

fn user(name: &str) -> UserId {
    UserId::parse(name).unwrap()
}

fn at_second(second: u64) -> Timestamp {
    Timestamp::from_millis(0) + Duration::from_secs(second)
}

const NOW: u64 = 1000;

fn seconds_ago(seconds: u64) -> Timestamp {
    at_second(NOW - seconds)
}

fn rules() -> PlacementRules {
    let heartbeats = HeartbeatPolicy { heartbeat: Duration::from_secs(15), alive: Duration::from_secs(45) };
    PlacementRules { heartbeats, now: at_second(NOW) }
}

fn labels(of: &[(&str, &str)]) -> BTreeMap<String, String> {
    of.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// A live worker of ada with a capacity of 4 and one run.
fn given(name: &'static str) -> Worker {
    Worker {
        workspace: WorkspaceOffer::default(),
        owner: user("ada"),
        name,
        shared: false,
        labels: labels(&[("gpu", "a100")]),
        capacity: 4,
        assigned: 1,
        draining: false,
        seen_at: at_second(NOW),
    }
}

fn fits(worker: &Worker, owner: &str, wanted: &[(&str, &str)]) -> bool {
    rules().fits(&worker.offer(), &RunNeeds { owner: &user(owner), labels: &labels(wanted), workspace: None })
}

fn least_loaded(best: Option<Worker>, more: Vec<Worker>) -> Option<&'static str> {
    let (owner, labels) = (user("ada"), BTreeMap::new());
    let run = RunNeeds { owner: &owner, labels: &labels, workspace: None };
    rules().least_loaded(best, more, Worker::offer, &run).map(|worker| worker.name)
}

fn candidates(folders: SessionFolders<'_>) -> Candidates {
    rules().candidates(&folders, &RunNeeds { owner: &user("ada"), labels: &BTreeMap::new(), workspace: None })
}

#[test]
fn worker_is_alive_for_45_seconds_after_a_heartbeat() {
    let worker = |seconds| Worker { seen_at: seconds_ago(seconds), ..given("w") };
    assert!(rules().is_alive(&worker(45).offer()));
    assert!(!rules().is_alive(&worker(46).offer()));
}

#[test]
fn silent_and_draining_workers_accept_no_runs() {
    assert!(rules().accepts_runs(&given("w").offer()));
    assert!(!rules().accepts_runs(&Worker { draining: true, ..given("w") }.offer()));
    assert!(!rules().accepts_runs(&Worker { seen_at: seconds_ago(46), ..given("w") }.offer()));
}

#[test]
fn worker_serves_its_owner_and_a_shared_one_everybody() {
    assert!(fits(&given("w"), "ada", &[]));
    assert!(!fits(&given("w"), "bob", &[]));
    assert!(fits(&Worker { shared: true, ..given("w") }, "bob", &[]));
}

#[test]
fn full_silent_or_draining_worker_does_not_fit() {
    assert!(fits(&Worker { assigned: 3, ..given("w") }, "ada", &[]));
    assert!(!fits(&Worker { assigned: 4, ..given("w") }, "ada", &[]));
    assert!(!fits(&Worker { assigned: 5, ..given("w") }, "ada", &[]));
    assert!(!fits(&Worker { draining: true, ..given("w") }, "ada", &[]));
    assert!(!fits(&Worker { seen_at: seconds_ago(46), ..given("w") }, "ada", &[]));
}

#[test]
fn worker_needs_every_label_of_the_run() {
    assert!(fits(&given("w"), "ada", &[("gpu", "a100")]));
    assert!(!fits(&given("w"), "ada", &[("gpu", "h100")]));
    assert!(!fits(&given("w"), "ada", &[("gpu", "a100"), ("os", "linux")]));
}

#[test]
fn label_id_selects_a_worker_by_name() {
    assert!(fits(&given("w"), "ada", &[("id", "w")]));
    assert!(!fits(&given("w"), "ada", &[("id", "other")]));
    let labeled = Worker { labels: labels(&[("id", "other")]), ..given("w") };
    assert!(!fits(&labeled, "ada", &[("id", "other")]), "a label does not replace the name");
}

#[test]
fn run_without_folders_goes_to_the_least_loaded_worker() {
    assert_eq!(candidates(SessionFolders::Nowhere), Candidates::LeastLoaded);
}

#[test]
fn run_with_folders_goes_to_their_worker_or_waits() {
    assert_eq!(candidates(SessionFolders::On(given("w").offer())), Candidates::FolderWorker);
    let full = Worker { assigned: 4, ..given("w") };
    assert_eq!(candidates(SessionFolders::On(full.offer())), Candidates::None);
}

#[test]
fn load_is_relative_to_capacity() {
    let large = Worker { capacity: 10, assigned: 2, ..given("large") };
    assert_eq!(least_loaded(None, vec![given("small"), large]), Some("large"));
}

#[test]
fn first_of_equally_loaded_workers_wins() {
    assert_eq!(least_loaded(None, vec![given("a"), given("b")]), Some("a"));
    assert_eq!(least_loaded(Some(given("best")), vec![given("a")]), Some("best"));
    let idle = Worker { assigned: 0, ..given("idle") };
    assert_eq!(least_loaded(Some(given("best")), vec![idle]), Some("idle"));
}

#[test]
fn least_loaded_ignores_workers_that_do_not_fit() {
    let idle = Worker { assigned: 0, draining: true, ..given("idle") };
    assert_eq!(least_loaded(None, vec![idle, given("w")]), Some("w"));
    assert_eq!(least_loaded(None, vec![Worker { assigned: 4, ..given("full") }]), None);
}

#[test]
fn full_worker_is_offered_runs_only_for_missing_reports() {
    let full = Worker { assigned: 4, ..given("w") };
    assert!(rules().may_offer_to(&given("w").offer(), true));
    assert!(!rules().may_offer_to(&full.offer(), true));
    assert!(rules().may_offer_to(&full.offer(), false));
    assert!(!rules().may_offer_to(&Worker { draining: true, ..given("w") }.offer(), false));
}

#[test]
fn unassigned_run_may_be_assigned_and_a_claimed_one_not() {
    assert_eq!(rules().reassignment(&CurrentAssignment::Unassigned), Reassignment::Possible);
    assert_eq!(rules().reassignment(&CurrentAssignment::ClaimedOrOver), Reassignment::Leave);
}

#[test]
fn order_is_resent_after_a_heartbeat_without_a_report() {
    let decide = |seconds, reported| {
        rules().reassignment(&CurrentAssignment::SameWorker { at: seconds_ago(seconds), reported })
    };
    assert_eq!(decide(14, false), Reassignment::Leave);
    assert_eq!(decide(15, false), Reassignment::ResendOrder { at: seconds_ago(15) });
    assert_eq!(decide(15, true), Reassignment::Leave);
}

#[test]
fn run_leaves_a_worker_that_vanished_or_drains() {
    let decide = |holder: Option<&Worker>| {
        rules().reassignment(&CurrentAssignment::OtherWorker(holder.map(Worker::offer)))
    };
    assert_eq!(decide(Some(&given("w"))), Reassignment::Leave);
    assert_eq!(decide(Some(&Worker { draining: true, ..given("w") })), Reassignment::Possible);
    assert_eq!(decide(Some(&Worker { seen_at: seconds_ago(46), ..given("w") })), Reassignment::Possible);
    assert_eq!(decide(None), Reassignment::Possible);
}

#[test]
fn folders_permit_only_their_worker() {
    let (home, other) = (given("home"), given("other"));
    let namesake = Worker { owner: user("bob"), ..given("home") };
    let folders = SessionFolders::On(home.offer());
    assert!(folders.permit(&home.offer()));
    assert!(!folders.permit(&other.offer()) && !folders.permit(&namesake.offer()));
    assert!(SessionFolders::Nowhere.permit(&other.offer()));
}

fn offered(
    assignment: CurrentAssignment<'_>,
    is_current: bool,
    folders: SessionFolders<'_>,
) -> OfferDecision {
    let (owner, labels) = (user("ada"), BTreeMap::new());
    let needs = RunNeeds { owner: &owner, labels: &labels, workspace: None };
    rules().offer(&given("w").offer(), &OfferedRun { assignment, needs, is_current, folders })
}

#[test]
fn offered_run_is_assigned_if_it_fits() {
    let unassigned = CurrentAssignment::Unassigned;
    let (home, other) = (given("w"), given("other"));
    assert_eq!(offered(unassigned, true, SessionFolders::Nowhere), OfferDecision::Assign);
    assert_eq!(offered(unassigned, true, SessionFolders::On(home.offer())), OfferDecision::Assign);
    assert_eq!(offered(unassigned, true, SessionFolders::On(other.offer())), OfferDecision::Leave);

    let (owner, labels) = (user("bob"), BTreeMap::new());
    let needs = RunNeeds { owner: &owner, labels: &labels, workspace: None };
    let run =
        OfferedRun { assignment: unassigned, needs, is_current: true, folders: SessionFolders::Nowhere };
    assert_eq!(rules().offer(&given("w").offer(), &run), OfferDecision::Leave);
}

#[test]
fn offered_run_is_closed_if_its_session_moved_on() {
    let (silent, other) = (Worker { seen_at: seconds_ago(46), ..given("silent") }, given("other"));
    let elsewhere = SessionFolders::On(other.offer());
    assert_eq!(offered(CurrentAssignment::Unassigned, false, SessionFolders::Nowhere), OfferDecision::Close);
    assert_eq!(offered(CurrentAssignment::Unassigned, false, elsewhere), OfferDecision::Close);
    let vanished = CurrentAssignment::OtherWorker(Some(silent.offer()));
    assert_eq!(offered(vanished, false, SessionFolders::Nowhere), OfferDecision::Close);
}

#[test]
fn run_of_another_live_worker_is_left_to_it() {
    let other = given("other");
    for is_current in [true, false] {
        let held = CurrentAssignment::OtherWorker(Some(other.offer()));
        assert_eq!(offered(held, is_current, SessionFolders::Nowhere), OfferDecision::Leave);
        let claimed = CurrentAssignment::ClaimedOrOver;
        assert_eq!(offered(claimed, is_current, SessionFolders::Nowhere), OfferDecision::Leave);
    }
}

#[test]
fn offer_resends_an_order_that_may_not_have_been_sent() {
    let at = seconds_ago(15);
    let unreported = CurrentAssignment::SameWorker { at, reported: false };
    assert_eq!(offered(unreported, true, SessionFolders::Nowhere), OfferDecision::ResendOrder { at });
}

#[test]
fn claim_of_an_assigned_run_is_granted() {
    assert_eq!(ClaimedPlace::Assigned.claim(true), ClaimDecision::Grant);
    assert_eq!(ClaimedPlace::Claimed.claim(true), ClaimDecision::AlreadyGranted);
}

#[test]
fn claim_closes_an_unclaimed_run_whose_session_moved_on() {
    assert_eq!(ClaimedPlace::Assigned.claim(false), ClaimDecision::Close);
    assert_eq!(ClaimedPlace::Claimed.claim(false), ClaimDecision::RunIsOver);
}

#[test]
fn claim_of_a_run_elsewhere_or_over_is_refused() {
    for is_current in [true, false] {
        assert_eq!(ClaimedPlace::Elsewhere.claim(is_current), ClaimDecision::HeldByOther);
        assert_eq!(ClaimedPlace::Over.claim(is_current), ClaimDecision::RunIsOver);
    }
}

#[test]
fn worker_serves_runs_by_owner_or_share() {
    assert!(given("w").offer().serves(&user("ada")));
    assert!(!given("w").offer().serves(&user("bob")));
    assert!(Worker { shared: true, ..given("w") }.offer().serves(&user("bob")));
}

#[test]
fn run_needs_a_worker_that_offers_its_workspace() {
    let mut worker = given("one");
    let needed: WorkspaceRequirements =
        serde_json::from_value(serde_json::json!({ "capabilities": ["gpu"] })).unwrap();
    let (owner, labels) = (user("ada"), BTreeMap::new());
    let run = RunNeeds { owner: &owner, labels: &labels, workspace: Some(&needed) };
    assert!(!rules().fits(&worker.offer(), &run));
    worker.workspace.capabilities.insert(crate::project_agent::SandboxCapability::Gpu);
    assert!(rules().fits(&worker.offer(), &run));
}

#[test]
fn free_disk_counts_until_the_session_has_its_folders() {
    let needed: WorkspaceRequirements =
        serde_json::from_value(serde_json::json!({ "resourceLimits": { "diskMb": 100 } })).unwrap();
    let (owner, labels) = (user("ada"), BTreeMap::new());
    let needs = RunNeeds { owner: &owner, labels: &labels, workspace: Some(&needed) };
    let with_free = |free| {
        let workspace = WorkspaceOffer { free_disk_mb: Some(free), ..WorkspaceOffer::default() };
        Worker { workspace, ..given("one") }
    };
    let decide = |worker: &Worker, folders: SessionFolders<'_>| {
        let assignment = CurrentAssignment::Unassigned;
        rules().offer(&worker.offer(), &OfferedRun { assignment, needs, is_current: true, folders })
    };
    let (short, enough) = (with_free(99), with_free(100));
    assert!(!rules().fits(&short.offer(), &needs) && rules().fits(&enough.offer(), &needs));
    assert_eq!(decide(&short, SessionFolders::Nowhere), OfferDecision::Leave);
    assert_eq!(decide(&enough, SessionFolders::Nowhere), OfferDecision::Assign);

    let home = SessionFolders::On(short.offer());
    assert_eq!(decide(&short, home), OfferDecision::Assign, "its own files use the disk");
    assert_eq!(rules().candidates(&home, &needs), Candidates::FolderWorker);
    let elsewhere = Worker { name: "two", ..with_free(100) };
    assert_eq!(decide(&elsewhere, home), OfferDecision::Leave, "its folders are on another worker");
}
