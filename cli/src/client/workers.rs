//! What a worker asks its control plane for.

use pilothouse_functions::api::Page;
use pilothouse_functions::api::workers::WorkerView;
use pilothouse_wire::worker::{
    ClaimAnswer, ClaimRun, Heartbeat, HeartbeatAnswer, ReportExit, TakeOrders, TakenOrders, WorkerId,
};
use reqwest::Method;

use super::{ApiError, Call, Client};

fn path(id: &WorkerId, rest: &str) -> String {
    format!("api/workers/{id}{rest}")
}

impl Client {
    /// Registers a worker, and shows that it lives.
    pub async fn beat(&self, id: &WorkerId, heartbeat: &Heartbeat) -> Result<HeartbeatAnswer, ApiError> {
        let call = Call {
            method: Method::PUT,
            path: path(id, ""),
            query: Vec::new(),
            body: Some(heartbeat),
            if_match: None,
        };
        self.call(call).await
    }

    /// Waits for orders, where the control plane has no SQS.
    pub async fn take_orders(&self, id: &WorkerId, ask: &TakeOrders) -> Result<TakenOrders, ApiError> {
        self.post(path(id, "/orders"), ask).await
    }

    /// Claims a run that the worker was given.
    pub async fn claim_run(&self, id: &WorkerId, claim: &ClaimRun) -> Result<ClaimAnswer, ApiError> {
        self.post(path(id, "/claims"), claim).await
    }

    /// Reports that a run's process is gone.
    pub async fn report_exit(&self, id: &WorkerId, report: &ReportExit) -> Result<(), ApiError> {
        self.post(path(id, "/exits"), report).await
    }

    /// Has a worker forgotten.
    pub async fn remove_worker(&self, id: &WorkerId) -> Result<(), ApiError> {
        self.delete(path(id, "")).await
    }

    /// The owner's workers: the first page, which is all that most have.
    pub async fn workers(&self) -> Result<Page<WorkerView>, ApiError> {
        self.get("api/workers".to_owned()).await
    }
}
