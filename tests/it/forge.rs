//! The comments of a pull request, as the APIs of GitHub and GitLab have them, on a server of the test.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::server::{After, ScriptedRequest, ScriptedServer, Wire};

/// The token that the tests use; nothing may ever show it.
pub(crate) const TOKEN: &str = "ghp_Canary7Token9Of2Tests4Only";
/// The number of the token's owner.
pub(crate) const OWNER: u64 = 77;
/// Comments on a page, whatever is asked for; fewer than the real ones, so that tests need few comments.
const PAGE: usize = 5;

/// A comment.
#[derive(Clone, Debug)]
pub(crate) struct ForgeComment {
    pub(crate) id: u64,
    pub(crate) author: u64,
    pub(crate) body: String,
}

/// What the server does to the request of this number instead of serving it; none serves it.
pub(crate) type ForgeFault = dyn Fn(&ScriptedRequest) -> Option<ForgeAnswer> + Send + Sync;

/// An answer that a fault gives.
#[derive(Clone, Debug)]
pub(crate) struct ForgeAnswer {
    pub(crate) status: &'static str,
    pub(crate) headers: String,
    pub(crate) body: &'static str,
    /// Whether the request has its effect first.
    pub(crate) is_done: bool,
}

/// A server with one pull request.
pub(crate) struct Forge {
    pub(crate) server: ScriptedServer,
    comments: Arc<Mutex<Vec<ForgeComment>>>,
}

impl Forge {
    pub(crate) fn start(
        fault: impl Fn(&ScriptedRequest) -> Option<ForgeAnswer> + Send + Sync + 'static,
    ) -> Self {
        let comments: Arc<Mutex<Vec<ForgeComment>>> = Arc::default();
        let own = Arc::clone(&comments);
        let fault: Box<ForgeFault> = Box::new(fault);
        let server = ScriptedServer::start(move |request, wire| serve(request, wire, &own, &*fault));
        Self { server, comments }
    }

    /// One that serves whatever is asked for.
    pub(crate) fn obliging() -> Self {
        Self::start(|_| None)
    }

    pub(crate) fn comments(&self) -> Vec<ForgeComment> {
        self.comments.lock().unwrap().clone()
    }

    /// Adds a comment of somebody.
    pub(crate) fn add(&self, author: u64, body: &str) {
        add(&mut self.comments.lock().unwrap(), author, body);
    }
}

fn add(comments: &mut Vec<ForgeComment>, author: u64, body: &str) -> ForgeComment {
    let comment = ForgeComment { id: 1_000 + comments.len() as u64, author, body: body.to_owned() };
    comments.push(comment.clone());
    comment
}

fn serve(
    request: &ScriptedRequest,
    wire: &mut Wire<'_>,
    comments: &Mutex<Vec<ForgeComment>>,
    fault: &ForgeFault,
) -> After {
    let fault = fault(request);
    let answer = match &fault {
        Some(fault) if !fault.is_done => None,
        _ => Some(done(request, &mut comments.lock().unwrap())),
    };
    let (status, headers, body) = match (fault, answer) {
        (Some(fault), _) => (fault.status, fault.headers, fault.body.to_owned()),
        (None, Some((status, headers, json))) => (status, headers, json.to_string()),
        (None, None) => unreachable!(),
    };
    let length = body.len();
    wire.send(format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
    ));
    After::Keep
}

/// What both APIs answer: status, further headers, JSON.
fn done(request: &ScriptedRequest, comments: &mut Vec<ForgeComment>) -> (&'static str, String, Value) {
    let is_gitlab = request.path.starts_with("/api/v4");
    let (header, expected) = match is_gitlab {
        true => ("private-token", TOKEN.to_owned()),
        false => ("authorization", format!("Bearer {TOKEN}")),
    };
    if request.headers.get(header) != Some(&expected) {
        return ("401 Unauthorized", String::new(), json!({ "message": "Bad credentials" }));
    }
    let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
    let path = path.strip_prefix("/api/v4").unwrap_or(path);
    let shown = |comment: &ForgeComment| match is_gitlab {
        true => {
            json!({ "id": comment.id, "body": comment.body, "system": false, "author": { "id": comment.author } })
        }
        false => json!({
            "id": comment.id, "body": comment.body, "user": { "id": comment.author, "type": "User" },
            "html_url": format!("https://github.test/me/shop/pull/12#issuecomment-{}", comment.id),
        }),
    };
    let text = || {
        let json: Value = serde_json::from_slice(&request.body).unwrap();
        json["body"].as_str().unwrap().to_owned()
    };
    let all = match is_gitlab {
        true => "/projects/me%2Fshop/merge_requests/12/notes",
        false => "/repos/me/shop/issues/12/comments",
    };
    let one = if is_gitlab { all } else { "/repos/me/shop/issues/comments" };
    let id = path.strip_prefix(one).and_then(|id| id.strip_prefix('/')?.parse::<u64>().ok());
    match (request.method.as_str(), path) {
        ("GET", "/user") => ("200 OK", String::new(), json!({ "id": OWNER })),
        ("GET", path) if path == all => {
            let page = query.split('&').find_map(|pair| pair.strip_prefix("page=")?.parse::<usize>().ok());
            let page = page.unwrap();
            let shown: Vec<Value> = comments.iter().skip((page - 1) * PAGE).take(PAGE).map(shown).collect();
            let more = page * PAGE < comments.len();
            let headers = match (is_gitlab, more) {
                (true, true) => format!("x-next-page: {}\r\n", page + 1),
                (true, false) => "x-next-page: \r\n".to_owned(),
                // It must not be followed: the token is for the API only.
                (false, true) => "Link: <http://127.0.0.1:9/elsewhere>; rel=\"next\"\r\n".to_owned(),
                (false, false) => "Link: <http://127.0.0.1:9/elsewhere>; rel=\"prev\"\r\n".to_owned(),
            };
            ("200 OK", headers, Value::Array(shown))
        }
        ("POST", path) if path == all => {
            let comment = add(comments, OWNER, &text());
            ("201 Created", String::new(), shown(&comment))
        }
        ("PATCH" | "PUT", _) => match comments.iter_mut().find(|comment| Some(comment.id) == id) {
            Some(comment) => {
                comment.body = text();
                ("200 OK", String::new(), shown(comment))
            }
            None => ("404 Not Found", String::new(), json!({ "message": "Not Found" })),
        },
        _ => ("404 Not Found", String::new(), json!({ "message": "404 Project Not Found" })),
    }
}
