//! The entry of the Lambda artifact.

use std::process::ExitCode;

use lambda_runtime::service_fn;
use pilothouse_bootstrap::invocation::Invocations;
use pilothouse_bootstrap::{observe, start};
use pilothouse_functions::intake::chain;

// One thread: a function has one event at a time, and most have less than one processor.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    observe::start();
    let dispatch = match start::start(|name| std::env::var(name).ok()).await {
        Ok(dispatch) => dispatch,
        Err(error) => {
            let cause = chain(&error);
            tracing::error!(kind = error.name(), cause, "this function cannot start");
            start::tell(error.name(), &cause).await;
            return ExitCode::FAILURE;
        }
    };
    let exporter = observe::Exporter::from_environment(|name| std::env::var(name).ok());
    let invocations = Invocations::new(dispatch).traced(exporter);
    match lambda_runtime::Runtime::new(service_fn(|event| invocations.run(event))).run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(cause = %error, "the runtime API cannot be reached");
            ExitCode::FAILURE
        }
    }
}
