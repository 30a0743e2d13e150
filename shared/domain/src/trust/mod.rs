//! The trust engine (S2, "Trust score update rules" and "Trust score calibration"; decision 68).
//!
//! A score is a whole number of thousandths of a point. An outcome changes it by a table or profile, weighted by risk, halved at the
//! extremes and limited to a range. Between outcomes it decays with the ticks of its project, computed when it is read.
//!
//! Scores decide which actions of an agent need a person. They never reach the agent.
//!
//! | module | contents |
//! |---|---|
//! | `points` | numbers with three decimals |
//! | `outcome` | outcomes and S2's delta table |
//! | `source` | what an outcome is about; trust changes once for each |
//! | `calibration` | parameters and the three profiles |
//! | `update` | the change by an outcome, and decay |
//! | `approval` | approval rates and their 95 % interval |
//! | `autonomy` | what an agent may do without asking |
//! | `profile` | the trust of one agent, and the entries of its history |
//! | `simulation` | replay under another profile |

mod approval;
mod autonomy;
mod calibration;
mod outcome;
mod points;
mod profile;
mod simulation;
mod source;
mod update;

pub use approval::{ApprovalCounts, ApprovalInterval};
pub use autonomy::{Autonomy, AutonomyChange, NoProposal, RevocationReason};
pub use calibration::{
    AutonomyPolicy, InvalidCalibration, TrustCalibrationConfig, TrustCalibrationProfile, TrustProfileName,
};
pub use outcome::{JudgedAction, TrustOutcome};
pub use points::{Factor, InvalidNumber, Points, Rate};
pub use profile::{ReportedOutcome, TrustEntry, TrustProfile};
pub use simulation::{Simulation, simulate};
pub use source::OutcomeSource;
pub use update::{TrackedScore, TrustRule};
