//! Asks gRPC services for the types of their messages (server reflection), before the load.

use std::sync::Arc;
use std::time::Duration;

use http::header::{CONTENT_TYPE, TE};
use http::{HeaderMap, HeaderName, Method};

use base::clock::now;
use client::body::BodyContent;
use client::guard::Guard;
use client::headers::HeaderBlock;
use client::options::{HttpOptions, Settings, Version};
use client::pool::Pool;
use client::tls::{self, TlsOptions};
use client::url::Origin;
use client::{Answer, Request};
use grpc::answer::{CallStatus, ENCODING};
use grpc::reflection::{KnownFiles, PATHS, Question, ReflectionAnswer, read};
use grpc::schema::ServiceSchema;
use measure::phases::Phases;
use plan::Plan;
use text::charset;
use text::similar::did_you_mean;

use super::error::HarnessError;
use super::files;

/// How long a service may take to answer a question.
const LIMIT: Duration = Duration::from_secs(10);
/// The largest answer.
const BODY_BYTES_MAX: u64 = 64 << 20;
const UNIMPLEMENTED: u16 = 12;
/// How to do without reflection.
const NAME_FILES: &str = "name the service's .proto files in the scenario: `grpc: { protos: [shop.proto] }`";

/// What the services that a plan calls say of their messages.
pub(super) async fn schemas(plan: &Plan) -> Result<Vec<(Origin, ServiceSchema)>, HarnessError> {
    let awaited = plan.services_awaited();
    let wants_tls = awaited.iter().any(|(origin, _)| origin.tls);
    let tls = tls::config(&plan.deployment.tls, wants_tls).map_err(HarnessError::input)?;
    let headers = files::default_headers(Some(&plan.deployment));
    let mut service = ReflectionClient::new(&Settings::new(&tls, plan.http.clone()), &headers);
    let mut schemas: Vec<(Origin, ServiceSchema)> = Vec::new();
    for (origin, _) in &awaited {
        if !schemas.iter().any(|(of, _)| of == *origin) {
            let services = awaited.iter().filter(|(of, _)| of == origin).map(|(_, service)| *service);
            let schema = service.schema(origin, services.collect()).await?;
            schemas.push(((*origin).clone(), schema));
        }
    }
    Ok(schemas)
}

/// What to say of a service whose reflection fails.
fn failed(origin: &Origin, reason: &str) -> HarnessError {
    HarnessError::unreachable(format!("{}: {reason}", origin.shown())).remedy(NAME_FILES)
}

/// What questions are sent with.
struct ReflectionClient {
    pool: Pool,
    headers: HeaderBlock,
    /// Which of [`PATHS`] the current service knows.
    version: usize,
}

/// What a service says of its messages that nothing else is known of.
pub(super) async fn schema_of(origin: &Origin, tls: &TlsOptions) -> Result<ServiceSchema, HarnessError> {
    let tls = tls::config(tls, origin.tls).map_err(HarnessError::input)?;
    let guard = Guard::new(vec![origin.clone()], Vec::new(), Vec::new());
    let options = HttpOptions { guard, ..HttpOptions::default() };
    let mut service = ReflectionClient::new(&Settings::new(&tls, options), &files::default_headers(None));
    let ReflectionAnswer::Services(known) = service.ask(origin, &Question::Services).await? else {
        return Err(failed(origin, "it does not list its services"));
    };
    let own = known.iter().map(String::as_str).filter(|name| !name.starts_with("grpc."));
    service.schema(origin, own.collect()).await
}

impl ReflectionClient {
    /// `deployment`: the headers of every request, which were checked with the deployment.
    fn new(settings: &Arc<Settings>, deployment: &HeaderMap) -> Self {
        let mut headers = HeaderBlock::default();
        headers.push_valid(&CONTENT_TYPE, b"application/grpc");
        headers.push_valid(&TE, b"trailers");
        for (name, value) in deployment.iter().filter(|(name, _)| ![&CONTENT_TYPE, &TE].contains(name)) {
            let _ = headers.push(name, value.as_bytes());
        }
        Self { pool: Pool::new(settings), headers, version: 0 }
    }

    /// The types of these services of a target.
    async fn schema(&mut self, origin: &Origin, services: Vec<&str>) -> Result<ServiceSchema, HarnessError> {
        let failed = |reason: String| failed(origin, &reason);
        self.version = 0;
        let mut files = KnownFiles::default();
        for service in services {
            match self.ask(origin, &Question::FileOfService(service.to_owned())).await? {
                ReflectionAnswer::Files(more) => files.add(&more).map_err(failed)?,
                ReflectionAnswer::Refused(..) => return Err(self.no_service(origin, service).await),
                ReflectionAnswer::Services(_) => {
                    return Err(failed("the answer to reflection is one to another question".to_owned()));
                }
            }
        }
        while let Some(name) = files.missing() {
            match self.ask(origin, &Question::File(name.clone())).await? {
                ReflectionAnswer::Files(more) => files.add(&more).map_err(failed)?,
                ReflectionAnswer::Refused(_, reason) => {
                    return Err(failed(format!("its reflection lacks the file {name}: {reason}")));
                }
                ReflectionAnswer::Services(_) => {}
            }
            if files.missing().is_some_and(|missing| missing == name) {
                return Err(failed(format!("its reflection lacks the file {name}")));
            }
        }
        files.schema().map_err(|reason| failed(format!("what its reflection says is no schema: {reason}")))
    }

    /// What to say of a service that is not there.
    async fn no_service(&mut self, origin: &Origin, service: &str) -> HarnessError {
        let error = HarnessError::input(format!("{} has no service `{service}`", origin.shown()));
        match self.ask(origin, &Question::Services).await {
            Ok(ReflectionAnswer::Services(known)) => {
                let similar = did_you_mean(service, known.iter().map(String::as_str));
                error.remedy(match similar {
                    Some(similar) => format!("did you mean `{similar}`?"),
                    None => format!("it has {}", known.join(", ")),
                })
            }
            _ => error.remedy("correct the name, or name .proto files under `grpc: { protos: […] }`"),
        }
    }

    async fn ask(&mut self, origin: &Origin, question: &Question) -> Result<ReflectionAnswer, HarnessError> {
        let failed = |reason: String| failed(origin, &reason);
        loop {
            let answer = self.send(origin, question).await?;
            let header = |name: &HeaderName| {
                let value = answer.headers.as_ref()?.get(name)?;
                Some(charset::of_field(value.as_bytes()))
            };
            let status = CallStatus::of(answer.status, header, answer.trailers.as_deref())
                .map_err(|reason| failed(format!("not valid gRPC: {reason}")))?;
            match status.code {
                0 => {
                    let encoding = header(&ENCODING);
                    return read(&answer.body, encoding.as_deref()).map_err(failed);
                }
                UNIMPLEMENTED if self.version + 1 < PATHS.len() => self.version += 1,
                UNIMPLEMENTED => {
                    return Err(HarnessError::input(format!(
                        "{} does not say what its messages are: it has no server reflection",
                        origin.shown()
                    ))
                    .remedy(NAME_FILES));
                }
                _ => return Err(failed(format!("server reflection answered {}", status.words(None)))),
            }
        }
    }

    async fn send(&mut self, origin: &Origin, question: &Question) -> Result<Answer, HarnessError> {
        let nothing = HeaderBlock::default();
        let request = Request {
            method: &Method::POST,
            origin,
            path: PATHS[self.version],
            fixed: &self.headers,
            own: &nothing,
            body: &BodyContent::from(bytes::Bytes::from(question.body(&origin.authority))),
            started: now(),
            redirects_max: 0,
            body_bytes_max: BODY_BYTES_MAX,
            cookies: None,
            keep_headers: true,
            keep_body: true,
            keep_trailers: true,
            reader: None,
            version: Version::Http2,
            is_refused: &|_| true,
        };
        let mut phases = Phases::default();
        let sent = tokio::time::timeout(LIMIT, self.pool.send(&request, &mut phases)).await;
        let late = |_| {
            let seconds = LIMIT.as_secs();
            failed(origin, &format!("server reflection had no answer in {seconds} s"))
        };
        sent.map_err(late)?.map_err(HarnessError::unreachable)
    }
}
