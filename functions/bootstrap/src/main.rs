use std::process::ExitCode;

use lambda_runtime::service_fn;
use pilothouse_app::error_chain;
use pilothouse_bootstrap::invocation::Invocations;
use pilothouse_bootstrap::{observe, start};

// One thread is enough: a function processes one event at a time, and most have less than one processor.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    observe::start();
    let dispatch = match start::start(|name| std::env::var(name).ok()).await {
        Ok(dispatch) => dispatch,
        Err(error) => {
            let cause = error_chain(&error);
            tracing::error!(kind = error.name(), cause, "failed to start the function");
            start::report_init_error(error.name(), &cause).await;
            return ExitCode::FAILURE;
        }
    };
    let exporter = observe::Exporter::from_environment(|name| std::env::var(name).ok());
    let invocations = Invocations::new(dispatch).traced(exporter);
    match lambda_runtime::Runtime::new(service_fn(|event| invocations.run(event))).run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(cause = %error, "failed to reach the runtime API");
            ExitCode::FAILURE
        }
    }
}
