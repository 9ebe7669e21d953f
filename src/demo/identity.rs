//! The demo's users, and the steps of each operation as trace points.
//!
//! Users are in memory; [`super::database`] simulates the time of a real database. No HTTP here.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::database::{self as db, Database, RoleCache};
use super::flow::Flow;
use super::tokens::{Tokens, VALID_FOR_S};
use plan::deployment::EmbeddedDemoOptions as Options;
use text::times::rfc3339;

/// The number of users besides `admin`: `user-1`, `user-2`, …
pub(super) const USERS: usize = 50;
/// The password of every user. The demo has nothing to protect.
pub(super) const PASSWORD: &str = "demo";

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// The identity service without its HTTP.
pub(super) struct Identity {
    users: Vec<String>,
    tokens: Tokens,
    database: Database,
    roles: RoleCache,
}

pub(super) struct IssuedToken {
    pub(super) token: String,
    pub(super) body: Value,
}

impl Identity {
    pub(super) fn new(seed: u64, options: &Options) -> Self {
        let numbered = (1..=USERS).map(|number| format!("user-{number}"));
        Self {
            users: std::iter::once("admin".to_owned()).chain(numbered).collect(),
            tokens: Tokens::random(),
            database: Database::new(seed, options),
            roles: RoleCache::new(seed, options),
        }
    }

    /// Checks the password and issues a token.
    pub(super) async fn authenticate(&self, flow: &Flow, name: &str, password: &str) -> Option<IssuedToken> {
        let database = &self.database;
        database.run(flow, &db::USER_BY_NAME, || json!(["default", name])).await;
        let known = self.users.iter().find(|user| *user == name)?;
        let verify = async {
            let point = flow.call("verify_password");
            database.run(&point.flow, &db::PASSWORD_HASH, || json!([known])).await;
            password == PASSWORD
        };
        let groups = async {
            let point = flow.call("get_groups");
            database.run(&point.flow, &db::GROUPS, || json!([known])).await;
        };
        // Both are independent.
        let (verified, ()) = tokio::join!(verify, groups);
        if !verified {
            return None;
        }
        let point = flow.call("issue_token");
        let issued_unix_s = now_unix_s();
        let expires_unix_s = issued_unix_s + VALID_FOR_S;
        let time = |unix_s: u64| rfc3339(unix_s.saturating_mul(NANOS_PER_SECOND));
        database.run(&point.flow, &db::LAST_ACTIVE, || json!([time(issued_unix_s), known])).await;
        let body = json!({ "token": {
            "methods": ["password"],
            "user": { "id": known, "name": known, "domain": { "id": "default", "name": "Default" } },
            "issued_at": time(issued_unix_s),
            "expires_at": time(expires_unix_s),
        } });
        Some(IssuedToken { token: self.tokens.issue(known, expires_unix_s), body })
    }

    /// Whether the caller's token is valid.
    pub(super) async fn validate_token(&self, flow: &Flow, token: &str) -> bool {
        let Some(user) = self.tokens.verify(token, now_unix_s()) else { return false };
        let point = flow.call("validate_token");
        self.database.run(&point.flow, &db::REVOCATIONS, || json!([user])).await;
        true
    }

    pub(super) async fn list_users(&self, flow: &Flow, base_url: &str) -> Value {
        let rows = self.database.run(flow, &db::USERS, || json!([self.users.len()]));
        let count = self.database.run(flow, &db::USER_COUNT, || json!([true]));
        tokio::join!(rows, count);
        let users: Vec<Value> = self.users.iter().map(|user| describe(user, base_url)).collect();
        json!({ "users": users, "links": { "self": format!("{base_url}/v3/users") } })
    }

    /// One user with roles and groups, which are fetched in parallel.
    pub(super) async fn show_user(&self, flow: &Flow, id: &str, base_url: &str) -> Option<Value> {
        self.database.run(flow, &db::USER_BY_ID, || json!([id])).await;
        let user = self.users.iter().find(|user| *user == id)?;
        let groups = async {
            let point = flow.call("get_groups");
            self.database.run(&point.flow, &db::GROUPS, || json!([user])).await;
        };
        tokio::join!(self.get_roles(flow, user), groups);
        let mut described = describe(user, base_url);
        described["roles"] = if user == "admin" { json!(["admin", "member"]) } else { json!(["member"]) };
        Some(json!({ "user": described }))
    }

    /// The reason for slow look-ups: if they miss the cache, they read `assignment` without an index.
    async fn get_roles(&self, flow: &Flow, user: &str) {
        let missed = self.roles.misses();
        let point = flow.enter("rpc", || {
            let outcome = if missed { "miss" } else { "hit" };
            vec![("function", json!({ "name": "get_roles" })), ("cache", json!(outcome))]
        });
        if missed {
            self.database.scan_assignments(&point.flow, user).await;
        }
        self.database.run(&point.flow, &db::ROLES, || json!(["member", "admin"])).await;
    }
}

fn describe(user: &str, base_url: &str) -> Value {
    json!({
        "id": user,
        "name": user,
        "domain_id": "default",
        "enabled": true,
        "links": { "self": format!("{base_url}/v3/users/{user}") },
    })
}

fn now_unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
