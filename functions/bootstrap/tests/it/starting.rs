//! A start in an invalid environment is refused, and one error names all problems.

use pilothouse_bootstrap::start::{StartError, start};

async fn refused(variables: &[(&str, &str)]) -> StartError {
    let read =
        |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    match start(read).await {
        Ok(_) => panic!("it starts"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn a_handler_that_names_no_function_is_refused() {
    for name in ["no-such-function", "stream-connect", "gateway-send-events"] {
        let error = refused(&[("_HANDLER", name)]).await;
        assert_eq!(error.name(), "Pilothouse.UnknownFunction");
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[tokio::test]
async fn missing_settings_are_all_reported_at_start() {
    for handler in ["intake", "bootstrap", ""] {
        let error = refused(&[("_HANDLER", handler)]).await;
        assert_eq!(error.name(), "Pilothouse.Settings");
        let text = error.to_string();
        for name in ["PILOTHOUSE_PREFIX", "PILOTHOUSE_TABLE", "PILOTHOUSE_BUCKET"] {
            assert!(text.contains(name), "{text}");
        }
    }
}
