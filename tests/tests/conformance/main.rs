//! Conformance of capabilities: performs every command of an owner on each agent, through the real control plane and with a
//! scripted model, and compares the outcome with the capabilities that the adapter declared.
//!
//! Tests exist for the agents that `tests/agents` installs. `tests/conformance` runs all installed agents, and writes the table of
//! `docs/adapters.md`.

#![cfg(test)]

mod abilities;
mod agents;
mod fixture;
mod script;
mod table;
mod verbs;

use crate::agents::Agent;
use crate::fixture::AgentFixture;
use crate::table::Column;
use crate::verbs::{Finding, drive};

async fn findings(agent: Agent) -> Vec<Finding> {
    let mut fixture = AgentFixture::new(agent).await;
    drive(&mut fixture).await
}

/// Fails with all differences between declared and observed capabilities.
async fn conforms(agent: Agent) {
    if !agent.is_installed() {
        println!("not tested: {} is not installed; `tests/agents` installs it", agent.name());
        return;
    }
    let findings = findings(agent).await;
    let differences: Vec<_> = findings.iter().filter(|finding| !finding.agrees()).collect();
    assert!(
        differences.is_empty(),
        "{} differs from its declared capabilities: {differences:#?}",
        agent.name()
    );
}

#[tokio::test]
async fn native_matches_its_declaration() {
    conforms(Agent::Native).await;
}

#[tokio::test]
async fn script_matches_its_declaration() {
    conforms(Agent::Script).await;
}

#[tokio::test]
async fn claude_matches_its_declaration() {
    conforms(Agent::Claude).await;
}

#[tokio::test]
async fn claude_agent_acp_matches_its_declaration() {
    conforms(Agent::ClaudeAcp).await;
}

#[tokio::test]
async fn opencode_matches_its_declaration() {
    conforms(Agent::OpenCode).await;
}

/// Not a test: drives the installed agents, or those that `PILOTHOUSE_CONFORMANCE` names, and writes the table.
#[tokio::test]
#[ignore = "tests/conformance runs it: it drives every agent, and writes docs/adapters.md"]
async fn table() {
    let named = std::env::var("PILOTHOUSE_CONFORMANCE").unwrap_or_default();
    let is_chosen = |agent: &Agent| named.is_empty() || named.split(',').any(|name| name == agent.name());
    let mut columns = Vec::new();
    for agent in Agent::ALL.into_iter().filter(is_chosen) {
        if agent.is_installed() {
            columns.push(Column { agent, findings: findings(agent).await });
        } else {
            println!("{} is not installed; `tests/agents --all` installs it", agent.name());
        }
    }
    if named.is_empty() {
        table::write(&columns);
    }
}
