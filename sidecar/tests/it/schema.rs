//! The exported schema of scripts matches the code.

#[test]
fn exported_script_schema_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/wire/script.schema.json");
    let schema = serde_json::to_string_pretty(&pilothouse_sidecar::script::schema()).unwrap() + "\n";
    if std::env::var_os("PILOTHOUSE_EXPORT").is_some() {
        std::fs::write(path, &schema).unwrap();
    }
    let exported = std::fs::read_to_string(path).unwrap_or_default();
    assert!(exported == schema, "run this test with PILOTHOUSE_EXPORT=1 to export the schema");
}
