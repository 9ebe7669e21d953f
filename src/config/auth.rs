//! Ways to get a token, as written.

use crate::notation::{schema, written_as_its_value};
use schemars::{JsonSchema, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use text::digits;

use super::reference::{DurationText, Reference, SecretReference};

/// OAuth 2.0's client credentials grant.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct OAuth2 {
    /// The URL of the token endpoint, such as `https://login.example/oauth2/token`.
    pub token_url: Reference,
    /// The client's name.
    pub client_id: Reference,
    /// The client's secret.
    pub client_secret: SecretReference,
    /// The scopes, separated by blanks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<Reference>,
    /// The service that the token is for, where the server wants to know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audience: Option<Reference>,
    /// How the client shows who it is: `basic` (the default), in the header Authorization; `post`, in the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub style: Option<Style>,
}

/// How a client shows who it is.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Style {
    /// In the header Authorization.
    Basic,
    /// In the body.
    Post,
}

schema!(Style, "Style", |_| json_schema!({ "type": "string", "enum": ["basic", "post"] }));

/// A program that prints a token: alone, or in JSON such as that of kubectl's credential plugins.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TokenCommand {
    /// The program: a list of its name and arguments, or a line for the shell.
    pub run: CommandLine,
    /// The header that carries the token alone, such as X-Auth-Token (default: `Authorization: Bearer TOKEN`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<Reference>,
    /// How long a token is used (default: as long as the JSON says, or 5m).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime: Option<DurationText>,
    /// The token's place in the JSON, as a JSON pointer such as /credential/access_token (default: `token`,
    /// `access_token` or `status.token`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<Reference>,
    /// The time limit of the program (default 30s).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<DurationText>,
}

/// A program and its arguments.
#[derive(Clone, Debug)]
pub enum CommandLine {
    /// A line for the shell.
    Shell(Reference),
    /// The program's name and its arguments.
    Words(Vec<Reference>),
}

impl<'de> Deserialize<'de> for CommandLine {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match digits::rounded(deserializer)? {
            words @ Value::Array(_) => Vec::deserialize(words).map(Self::Words),
            line => Reference::deserialize(line).map(Self::Shell),
        }
        .map_err(serde::de::Error::custom)
    }
}

written_as_its_value!(CommandLine: Shell, Words);

schema!(CommandLine, "CommandLine", |generator| {
    let one = generator.subschema_for::<Reference>();
    // The reference's own branches come first, so that a text is checked as a text.
    let reference = Reference::json_schema(generator).to_value();
    let mut branches = reference["anyOf"].as_array().cloned().unwrap_or_default();
    branches.push(serde_json::json!({ "type": "array", "minItems": 1, "items": one }));
    json_schema!({
        "description": "A line for the shell, or a list of a program's name and its arguments.",
        "anyOf": branches
    })
});
