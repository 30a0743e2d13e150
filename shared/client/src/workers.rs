//! The worker's protocol, and the list of workers.

use pilothouse_api::Page;
use pilothouse_api::workers::WorkerView;
use pilothouse_wire::worker::{
    ClaimResponse, ClaimRun, Heartbeat, HeartbeatResponse, ReportExit, TakeOrders, TakenOrders, WorkerId,
};
use reqwest::Method;

use super::{ApiError, Client, Request};

fn worker_path(id: &WorkerId, rest: &str) -> String {
    format!("api/workers/{id}{rest}")
}

impl Client {
    /// Registers a worker, or renews its registration.
    pub async fn send_heartbeat(
        &self,
        id: &WorkerId,
        heartbeat: &Heartbeat,
    ) -> Result<HeartbeatResponse, ApiError> {
        self.put(worker_path(id, ""), heartbeat).await
    }

    /// Waits for assignments from a control plane without SQS.
    pub async fn take_assignments(
        &self,
        id: &WorkerId,
        request: &TakeOrders,
    ) -> Result<TakenOrders, ApiError> {
        self.post(worker_path(id, "/orders"), request).await
    }

    /// Claims a run that is assigned to the worker.
    pub async fn claim_run(&self, id: &WorkerId, claim: &ClaimRun) -> Result<ClaimResponse, ApiError> {
        self.post(worker_path(id, "/claims"), claim).await
    }

    /// Reports that the process of a run has ended.
    pub async fn report_exit(&self, id: &WorkerId, report: &ReportExit) -> Result<(), ApiError> {
        self.post(worker_path(id, "/exits"), report).await
    }

    /// Removes a worker. The server refuses while runs of the worker are active, unless its machine is `lost`.
    pub async fn remove_worker(&self, id: &WorkerId, lost: bool) -> Result<(), ApiError> {
        let query = if lost { vec![("lost", "true".to_owned())] } else { Vec::new() };
        self.send(Request { query, ..Request::new(Method::DELETE, worker_path(id, "")) }).await
    }

    /// Lists the first page of the owner's workers.
    pub async fn workers(&self) -> Result<Page<WorkerView>, ApiError> {
        self.get("api/workers".to_owned()).await
    }
}
