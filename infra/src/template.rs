//! A builder for templates, and the intrinsic functions of `CloudFormation`.

use serde_json::{Map, Value, json};

use crate::parameters;

#[derive(Debug)]
pub struct Stack {
    /// The name of the deployed stack is `{prefix}-{name}`.
    pub name: String,
    description: &'static str,
    resources: Map<String, Value>,
    outputs: Map<String, Value>,
}

impl Stack {
    pub(crate) fn new(name: impl Into<String>, description: &'static str) -> Self {
        Self { name: name.into(), description, resources: Map::new(), outputs: Map::new() }
    }

    pub(crate) fn add(&mut self, id: impl Into<String>, kind: &str, properties: Value) {
        self.add_with(id, kind, properties, json!({}));
    }

    /// Adds a resource with attributes beside its properties, such as `DeletionPolicy`.
    pub(crate) fn add_with(
        &mut self,
        id: impl Into<String>,
        kind: &str,
        properties: Value,
        attributes: Value,
    ) {
        let mut resource = Map::from_iter([("Type".to_owned(), json!(kind))]);
        if let Value::Object(attributes) = attributes {
            resource.extend(attributes);
        }
        resource.insert("Properties".to_owned(), properties);
        self.resources.insert(id.into(), Value::Object(resource));
    }

    /// Adds an output. Following stacks get it as the parameter of the same name.
    pub(crate) fn output(&mut self, name: &str, value: &Value) {
        self.outputs.insert(name.to_owned(), json!({ "Value": value }));
    }

    /// Adds an output with a condition.
    pub(crate) fn output_if(&mut self, condition: &str, name: &str, value: &Value) {
        self.outputs.insert(name.to_owned(), json!({ "Condition": condition, "Value": value }));
    }

    /// The finished template. It declares the parameters and conditions that it uses.
    pub fn document(&self) -> Value {
        let body = json!({ "Resources": self.resources, "Outputs": self.outputs });
        let mut document = json!({
            "AWSTemplateFormatVersion": "2010-09-09",
            "Description": format!("Pilothouse: {}", self.description),
        });
        let conditions = parameters::conditions_in(&body);
        let parameters = parameters::parameters_in(&[&body, &conditions]);
        for (section, value) in [
            ("Parameters", &parameters),
            ("Conditions", &conditions),
            ("Resources", &body["Resources"]),
            ("Outputs", &body["Outputs"]),
        ] {
            if value.as_object().is_some_and(|fields| !fields.is_empty()) {
                document[section] = value.clone();
            }
        }
        document
    }
}

/// `Fn::Sub`: text with `${…}` in it.
pub(crate) fn sub(text: impl Into<String>) -> Value {
    json!({ "Fn::Sub": text.into() })
}

pub(crate) fn reference(name: &str) -> Value {
    json!({ "Ref": name })
}

pub(crate) fn attribute(id: &str, name: &str) -> Value {
    json!({ "Fn::GetAtt": [id, name] })
}

/// `Fn::If` with `AWS::NoValue` as the alternative.
pub(crate) fn only_if(condition: &str, value: &Value) -> Value {
    json!({ "Fn::If": [condition, value, { "Ref": "AWS::NoValue" }] })
}

/// The properties of an encrypted bucket that cannot be made public.
pub(crate) fn private_bucket(name: &Value) -> Value {
    json!({
        "BucketName": name,
        "BucketEncryption": {
            "ServerSideEncryptionConfiguration":
                [{ "ServerSideEncryptionByDefault": { "SSEAlgorithm": "AES256" } }],
        },
        "PublicAccessBlockConfiguration": {
            "BlockPublicAcls": true,
            "BlockPublicPolicy": true,
            "IgnorePublicAcls": true,
            "RestrictPublicBuckets": true,
        },
        "OwnershipControls": { "Rules": [{ "ObjectOwnership": "BucketOwnerEnforced" }] },
    })
}

pub(crate) fn named(name: &str) -> Value {
    sub(format!("${{Prefix}}-{name}"))
}
