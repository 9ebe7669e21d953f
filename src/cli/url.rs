//! The options of `bench run` that replace a scenario's load, or the scenario itself.

use std::io::Read as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::units::parse_duration;
use config::runner::RateText;
use harness::HarnessError;
use harness::url_run::UrlRun;
use plan::http;
use plan::overrides::{LoadShape, threshold};
use text::files::open_named;

/// A body from a file or a pipe is not larger than this, in bytes.
const BODY_BYTES_MAX: u64 = 1 << 20;

/// Another load than the scenario's.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ShapeArguments {
    /// How many iterations run at the same time; with a rate, the most that may.
    #[arg(short, long, visible_alias = "vus", aliases = ["users", "connections"], value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    concurrency: Option<u32>,
    /// How many iterations to run.
    #[arg(short = 'n', long, visible_alias = "iterations", alias = "requests", value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    times: Option<u64>,
    /// For how long iterations start, such as 30s.
    #[arg(short = 'z', long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    /// How many iterations start per second, however long each takes.
    #[arg(long, visible_alias = "rps", alias = "qps", value_name = "N", value_parser = rate)]
    rate: Option<f64>,
    /// For how long iterations are made and not measured at the start, such as 5s.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    warm_up: Option<Duration>,
    /// A condition that the run must meet, such as 'p95 < 200ms' or 'rate(errors) < 1%' (may be repeated).
    ///
    /// It is added to the scenario's own criteria, for each of its workloads. A run that breaks one exits with 2.
    #[arg(long, value_name = "CONDITION", value_parser = condition)]
    threshold: Vec<String>,
}

/// The request of a load on a URL.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct UrlArguments {
    /// The method (default: GET, or POST with --data).
    #[arg(short, long, value_name = "METHOD", help_heading = URL)]
    method: Option<String>,
    /// A header (may be repeated).
    #[arg(short = 'H', long, value_name = "NAME: VALUE", value_parser = header, help_heading = URL)]
    header: Vec<(String, String)>,
    /// The body's content type.
    #[arg(short = 'T', long, value_name = "TYPE", help_heading = URL)]
    content_type: Option<String>,
    /// The body, as text, or @FILE, or @- for standard input.
    #[arg(long, value_name = "TEXT|@FILE", help_heading = URL)]
    data: Option<String>,
    /// How long a request may take, such as 5s; one that takes longer has failed.
    #[arg(short, long, value_name = "TIME", value_parser = duration, help_heading = URL)]
    timeout: Option<Duration>,
    /// Accept certificates unverified.
    #[arg(short = 'k', long, help_heading = URL)]
    insecure: bool,
}

/// What becomes of the request of a load on a URL.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct SaveArgument {
    /// Write what is run as a scenario to this file, and its deployment beside it.
    #[arg(long, value_name = "FILE", help_heading = URL)]
    pub(super) save: Option<PathBuf>,
}

/// The load of each round of a comparison of two URLs.
const ROUND: Duration = Duration::from_secs(10);
const ROUND_USERS: u32 = 10;

const URL: &str = "The request, with a URL";

impl ShapeArguments {
    pub(super) fn shape(&self, rate_per_s: Option<f64>) -> LoadShape {
        let Self { concurrency, times, duration, rate, warm_up, ref threshold } = *self;
        let rate_per_s = rate.or(rate_per_s);
        LoadShape { concurrency, times, duration, rate_per_s, warm_up, thresholds: threshold.clone() }
    }
}

impl ShapeArguments {
    /// The load of a comparison's rounds: unless something else is wanted, ten users for ten seconds.
    pub(super) fn of_rounds(&self) -> Result<LoadShape, HarnessError> {
        if self.times.is_some() {
            return Err(HarnessError::usage("--times: a round lasts for a time").remedy("write --round 30s"));
        }
        let shape = self.shape(None);
        let concurrency = shape.concurrency.or(shape.rate_per_s.is_none().then_some(ROUND_USERS));
        Ok(LoadShape { concurrency, duration: shape.duration.or(Some(ROUND)), ..shape })
    }

    /// The first option that was given.
    pub(super) fn first_given(&self) -> Option<&'static str> {
        let given = [
            ("--concurrency", self.concurrency.is_some()),
            ("--times", self.times.is_some()),
            ("--duration", self.duration.is_some()),
            ("--rate", self.rate.is_some()),
            ("--warm-up", self.warm_up.is_some()),
            ("--threshold", !self.threshold.is_empty()),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }
}

impl UrlArguments {
    /// The request.
    pub(super) fn request(&self, url: &str) -> Result<UrlRun, HarnessError> {
        let mut headers = self.header.clone();
        // A body has one type: that of the option made for it.
        headers.retain(|(name, _)| self.content_type.is_none() || !name.eq_ignore_ascii_case("content-type"));
        headers.extend(self.content_type.iter().map(|value| ("Content-Type".to_owned(), value.clone())));
        Ok(UrlRun {
            url: url.to_owned(),
            method: self.method.clone(),
            headers,
            body: self.data.as_deref().map(body).transpose()?,
            timeout: self.timeout,
            insecure: self.insecure,
            ..UrlRun::default()
        })
    }

    /// The first option that means nothing with a scenario file.
    pub(super) fn first_given(&self) -> Option<&'static str> {
        let given = [
            ("--method", self.method.is_some()),
            ("--header", !self.header.is_empty()),
            ("--content-type", self.content_type.is_some()),
            ("--data", self.data.is_some()),
            ("--timeout", self.timeout.is_some()),
            ("--insecure", self.insecure),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let lasts = parse_duration(text).map_err(|complaint| complaint.to_string())?;
    if lasts.is_zero() { Err("write a time above zero, such as 30s".to_owned()) } else { Ok(lasts) }
}

fn condition(text: &str) -> Result<String, String> {
    threshold(text).map_err(|complaint| complaint.to_string())
}

/// An address to receive spans at.
pub(super) fn receive_address(text: &str) -> Result<SocketAddr, String> {
    http::receive_address(text).map_err(|complaint| complaint.to_string())
}

/// A rate as a number of iterations per second.
pub(super) fn rate(text: &str) -> Result<f64, String> {
    RateText::parse(text).map(|rate| rate.0).map_err(|complaint| complaint.to_string())
}

fn header(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once(':').filter(|(name, _)| !name.trim().is_empty());
    let (name, value) = pair.ok_or_else(|| "write it as 'Name: value'".to_owned())?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn body(text: &str) -> Result<String, HarnessError> {
    let Some(path) = text.strip_prefix('@') else { return Ok(text.to_owned()) };
    let mut bytes = Vec::new();
    let limit = BODY_BYTES_MAX + 1;
    let read = match path {
        "-" => std::io::stdin().take(limit).read_to_end(&mut bytes),
        path => open_named(Path::new(path)).and_then(|file| file.take(limit).read_to_end(&mut bytes)),
    };
    read.map_err(|error| {
        HarnessError::usage(format!("cannot read {path} for --data: {error}")).remedy("check the path")
    })?;
    if bytes.len() as u64 > BODY_BYTES_MAX {
        return Err(
            HarnessError::usage(format!("{path} has more than 1 MiB")).remedy("give --data a smaller file")
        );
    }
    String::from_utf8(bytes)
        .map_err(|_| HarnessError::usage(format!("{path} is not UTF-8")).remedy("give --data a text"))
}
