//! The live page: a load under way in a browser, and its report when it is over.
//!
//! It shows what the screen shows ([`LiveFeed`]), made at most once a second for all viewers together, and not at all
//! without one. Viewers are few ([`super::local_server`]); one that reads slowly misses pictures and holds up nobody.

use std::convert::Infallible;
use std::net::TcpListener;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming};
use live::figures::{WatchedPart, shown};
use report::html::live as page;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::error::HarnessError;
use super::event::{Event, Sink};
use super::live_feed::LiveFeed;
use super::local_server::{LocalSite, SiteBody, answer, machine, refusal, serve, with_body};

/// A new picture comes this often.
const PICTURE_EVERY: Duration = Duration::from_secs(1);
/// A picture that is as new as this is sent to another viewer, too.
const PICTURE_LASTS: Duration = Duration::from_millis(900);
/// How long the end of the program waits for viewers who have not got the report.
const REPORT_WITHIN: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_millis(20);
const HTML: &str = "text/html; charset=utf-8";

/// How far the run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PagePhase {
    Load,
    /// The load is over, and its report is made.
    Ending,
    /// There is a report.
    Report,
}

/// The page of a load.
struct LivePage {
    feed: Arc<LiveFeed>,
    title: String,
    deployment: String,
    machine: String,
    phase: watch::Sender<PagePhase>,
    picture: Mutex<Option<(Instant, Bytes)>>,
    report: Mutex<Option<Bytes>>,
    /// Viewers who were told of the report and have not fetched it.
    awaited: AtomicUsize,
}

/// A page that is served, if one was asked for.
#[derive(Default)]
pub(super) struct ServedPage(Option<(Arc<LivePage>, JoinHandle<()>)>);

impl ServedPage {
    /// Starts to serve.
    pub(super) fn start(
        listener: TcpListener,
        feed: Arc<LiveFeed>,
        (title, deployment): (&str, &str),
        runtime: &Runtime,
        events: &Sink,
    ) -> Result<Self, HarnessError> {
        let failed = |error: std::io::Error| HarnessError::cannot("serve the live page")(error);
        let at = listener.local_addr().map_err(failed)?;
        let site = Arc::new(LivePage {
            feed,
            title: shown(title),
            deployment: shown(deployment),
            machine: machine(),
            phase: watch::Sender::new(PagePhase::Load),
            picture: Mutex::new(None),
            report: Mutex::new(None),
            awaited: AtomicUsize::new(0),
        });
        let _guard = runtime.enter();
        let listener = tokio::net::TcpListener::from_std(listener).map_err(failed)?;
        let server = runtime.spawn(serve(listener, site.clone()));
        events.event(&Event::PageServed(&format!("http://{at}/")));
        Ok(Self(Some((site, server))))
    }

    /// The load is over.
    pub(super) fn load_ended(&self) {
        if let Some((site, _)) = &self.0 {
            site.phase.send_replace(PagePhase::Ending);
        }
    }

    /// The report is there, if it is: viewers get it, within bounds.
    pub(super) async fn finish(&self, report: &Path) {
        let Some((site, _)) = &self.0 else { return };
        let Ok(bytes) = tokio::fs::read(report).await else { return };
        *site.report.lock().unwrap_or_else(PoisonError::into_inner) = Some(bytes.into());
        site.awaited.fetch_add(site.phase.receiver_count(), Ordering::AcqRel);
        site.phase.send_replace(PagePhase::Report);
        let began = Instant::now();
        while site.awaited.load(Ordering::Acquire) > 0 && began.elapsed() < REPORT_WITHIN {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

impl Drop for ServedPage {
    fn drop(&mut self) {
        if let Some((_, server)) = &self.0 {
            server.abort();
        }
    }
}

impl LocalSite for LivePage {
    fn answer(self: Arc<Self>, request: &Request<Incoming>) -> Response<SiteBody> {
        match request.uri().path() {
            "/" => {
                let mut text = Vec::new();
                match page::write(&self.title, &self.deployment, &mut text) {
                    Ok(()) => answer(HTML, text),
                    Err(error) => refusal(StatusCode::INTERNAL_SERVER_ERROR, &format!("{error}\n")),
                }
            }
            "/events" => self.events(),
            "/report" => match self.report.lock().unwrap_or_else(PoisonError::into_inner).clone() {
                Some(report) => {
                    // More may come than were told.
                    let fewer = |awaited: usize| awaited.checked_sub(1);
                    let _ = self.awaited.fetch_update(Ordering::AcqRel, Ordering::Acquire, fewer);
                    answer(HTML, report)
                }
                None => refusal(StatusCode::NOT_FOUND, "the report is not there yet\n"),
            },
            _ => refusal(StatusCode::NOT_FOUND, "the page is at /\n"),
        }
    }

    fn machine(&self) -> &str {
        &self.machine
    }
}

/// Events as the body of an answer: the next one is taken when the viewer has room for it.
struct EventBody(mpsc::Receiver<Bytes>);

impl Body for EventBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
    ) -> task::Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|event| event.map(|event| Ok(Frame::data(event))))
    }
}

impl LivePage {
    /// Events for a viewer, until the load is over or the viewer is gone.
    fn events(self: Arc<Self>) -> Response<SiteBody> {
        let (sender, events) = mpsc::channel(1);
        let phase = self.phase.subscribe();
        tokio::spawn(self.tell(phase, sender));
        with_body(StatusCode::OK, "text/event-stream", EventBody(events).boxed_unsync())
    }

    async fn tell(self: Arc<Self>, mut phase: watch::Receiver<PagePhase>, sender: mpsc::Sender<Bytes>) {
        loop {
            let now = *phase.borrow_and_update();
            let event = match now {
                PagePhase::Load => self.picture(),
                PagePhase::Ending => Bytes::from_static(b"event: over\ndata:\n\n"),
                PagePhase::Report => Bytes::from_static(b"event: report\ndata:\n\n"),
            };
            // Waits for a viewer who does not read.
            if sender.send(event).await.is_err() || now == PagePhase::Report {
                return;
            }
            tokio::select! {
                changed = phase.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(PICTURE_EVERY) => {}
            }
        }
    }

    /// The load now, as an event.
    fn picture(&self) -> Bytes {
        let mut last = self.picture.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, picture)) = last.as_ref().filter(|(made, _)| made.elapsed() < PICTURE_LASTS) {
            return picture.clone();
        }
        let snapshot = self.feed.snapshot(WatchedPart::Every);
        let json = snapshot.and_then(|snapshot| serde_json::to_string(&snapshot).ok());
        let picture = Bytes::from(match json {
            Some(json) => format!("event: snapshot\ndata: {json}\n\n"),
            None => ": the load has not begun\n\n".to_owned(),
        });
        *last = Some((Instant::now(), picture.clone()));
        picture
    }
}
