//! RabbitMQ: notifications as oslo.messaging sends them, on the topic `profiler`.
//!
//! The format (observed on OSProfiler 4.4.0 with oslo.messaging 18.3.1): JSON of message format 1.0,
//! without an envelope, whose `payload` is the record; exchange `openstack` (topic), routing key and
//! queue `profiler.info`, neither durable. Messages of format 2.0, whose JSON holds the JSON, are read
//! too. `?exchange=` and `?topic=` name others; what exists is used as it is, durable or not, and the
//! queue is bound to the exchange. A notification that no queue takes is an error.
//!
//! # Reading takes nothing away
//!
//! Notifications wait in the queue until they are read. Python's reader removes *all* of them, other
//! traces' too. Here they are taken without an acknowledgement and go back to their places when the
//! reading is over, after a second in which nothing came. So each trace can be read again, by others
//! too. For that time other readers do not see them. The queue grows until Python's reader, or a purge,
//! empties it; over 65,535 messages it cannot be read like this, which is an error. A quorum queue
//! drops a message that was delivered too often (RabbitMQ 4: 20 times).

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

use futures_util::StreamExt;
use lapin::options::{
    BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions, ExchangeDeclareOptions,
    QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, ExchangeKind};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use super::forward::driver;
use super::{
    CONNECT_TIMEOUT, Cause, DriverError, TRACE_BYTES_MAX, TRACE_RECORDS_MAX, TraceQuery, TraceSummary, answer,
};
use crate::record::{RECORD_LEN_MAX, START_SUFFIX, STOP_SUFFIX, Timestamp, TraceRecord};
use base::clock::RunClock;

const EXCHANGE: &str = "openstack";
const TOPIC: &str = "profiler";
/// How long no message may come before a reading is over: the Python driver's default.
const IDLE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a reading may take in all.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Messages that a reading holds: as many as AMQP can count.
const MESSAGES_MAX: u16 = u16::MAX;
const TOO_MANY: &str = "its queue contains over 65,535 notifications; purge it, or let OSProfiler's own reader \
    empty it";
const PERSISTENT: u8 = 2;

/// A broker; see [`super::Collector`].
pub(super) struct MessagingCollector {
    uri: String,
    exchange: String,
    /// Routing key and queue.
    queue: String,
    target: String,
    /// `None` after a failure: the next call connects again.
    link: Mutex<Option<Link>>,
}

struct Link {
    connection: Connection,
    /// For writing; it confirms.
    channel: Channel,
}

/// How a reading ended.
enum ReadingEnd {
    /// Nothing came for [`IDLE_TIMEOUT`]: all was seen.
    Idle,
    /// Messages kept coming.
    Busy,
    /// [`MESSAGES_MAX`].
    TooMany,
}

/// A notification of message format 1.0.
#[derive(Serialize)]
struct Notification<'a> {
    message_id: String,
    publisher_id: Cow<'a, str>,
    event_type: String,
    priority: &'static str,
    payload: &'a TraceRecord,
    timestamp: String,
    #[serde(rename = "_unique_id")]
    unique_id: String,
}

/// What a message may be.
#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    payload: Value,
    /// JSON of the notification, in message format 2.0.
    #[serde(rename = "oslo.message", default)]
    inner: Option<String>,
}

const FORM: &str = "write it as messaging://user:password@host[:port][/vhost][?exchange=NAME][&topic=NAME], \
    special characters as %XX";

impl MessagingCollector {
    /// Whether a connection string can be read.
    pub(super) fn check(url: &str, target: String) -> Result<(), DriverError> {
        uri(url).map(drop).ok_or(DriverError::Invalid { target, reason: FORM })
    }

    pub(super) async fn connect(url: &str, target: String) -> Result<Self, DriverError> {
        let (uri, options) =
            uri(url).ok_or_else(|| DriverError::Invalid { target: target.clone(), reason: FORM })?;
        let option = |key: &str, default: &str| options.get(key).map_or(default, String::as_str).to_owned();
        let collector = Self {
            uri,
            exchange: option("exchange", EXCHANGE),
            queue: format!("{}.info", option("topic", TOPIC)),
            target,
            link: Mutex::default(),
        };
        let link = collector.open().await?;
        *collector.link.lock().await = Some(link);
        Ok(collector)
    }

    async fn open(&self) -> Result<Link, DriverError> {
        let open = async {
            let connection = Connection::connect(&self.uri, ConnectionProperties::default()).await?;
            self.declare(&connection).await?;
            let channel = connection.create_channel().await?;
            channel.confirm_select(ConfirmSelectOptions::default()).await?;
            Ok::<_, lapin::Error>(Link { connection, channel })
        };
        let target = self.target.clone();
        match timeout(CONNECT_TIMEOUT, open).await {
            Ok(Ok(link)) => Ok(link),
            Ok(Err(error)) => Err(DriverError::Connect { target, source: error.into() }),
            Err(_) => Err(DriverError::Timeout { target, limit: CONNECT_TIMEOUT }),
        }
    }

    /// Makes the exchange and the queue, as a Python service would, unless they are there.
    async fn declare(&self, connection: &Connection) -> Result<(), lapin::Error> {
        let (exchange, queue) = (self.exchange.as_str(), self.queue.as_str());
        // A refusal closes the channel, so each question has its own.
        let asking = connection.create_channel().await?;
        let options = ExchangeDeclareOptions { passive: true, ..ExchangeDeclareOptions::default() };
        let kind = ExchangeKind::Topic;
        let known =
            asking.exchange_declare(exchange.into(), kind.clone(), options, FieldTable::default()).await;
        if known.is_err() {
            let channel = connection.create_channel().await?;
            let options = ExchangeDeclareOptions::default();
            channel.exchange_declare(exchange.into(), kind, options, FieldTable::default()).await?;
            close(&channel).await;
        }
        close(&asking).await;
        let asking = connection.create_channel().await?;
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        if asking.queue_declare(queue.into(), options, FieldTable::default()).await.is_err() {
            let channel = connection.create_channel().await?;
            let options = QueueDeclareOptions::default();
            channel.queue_declare(queue.into(), options, FieldTable::default()).await?;
            close(&channel).await;
        }
        close(&asking).await;
        // A queue that was there may be bound to another exchange only. Where this may not be done,
        // what cannot be delivered comes back, and writing says so.
        let binding = connection.create_channel().await?;
        let options = QueueBindOptions::default();
        let _ = binding
            .queue_bind(queue.into(), exchange.into(), queue.into(), options, FieldTable::default())
            .await;
        close(&binding).await;
        Ok(())
    }

    async fn write(&self, records: &[TraceRecord]) -> Result<(), DriverError> {
        let mut link = self.link.lock().await;
        let open = match link.take() {
            Some(open) if open.channel.status().connected() => open,
            _ => self.open().await?,
        };
        let published = answer("write to", &self.target, self.publish(&open.channel, records)).await;
        if published.is_ok() {
            *link = Some(open);
        }
        published
    }

    async fn publish(&self, channel: &Channel, records: &[TraceRecord]) -> Result<(), Cause> {
        let now_ns = RunClock::start().wall_anchor_unix_ns();
        let mut confirms = Vec::with_capacity(records.len());
        for record in records {
            let payload = serde_json::to_vec(&notification(record, now_ns))?;
            let properties = BasicProperties::default()
                .with_content_type("application/json".into())
                .with_content_encoding("utf-8".into())
                .with_headers(FieldTable::default())
                .with_delivery_mode(PERSISTENT)
                .with_priority(0);
            let (exchange, key) = (self.exchange.as_str().into(), self.queue.as_str().into());
            let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
            confirms.push(channel.basic_publish(exchange, key, options, &payload, properties).await?);
        }
        let (mut refused, mut returned) = (0_usize, 0_usize);
        for confirm in confirms {
            match confirm.await? {
                Confirmation::Nack(_) => refused += 1,
                // Confirmed, but no queue took it.
                Confirmation::Ack(Some(_)) => returned += 1,
                Confirmation::Ack(None) | Confirmation::NotRequested => {}
            }
        }
        if refused > 0 {
            return Err(format!("the broker refuses {refused} of {} notifications", records.len()).into());
        }
        if returned > 0 {
            return Err(self.unroutable(returned, records.len()).into());
        }
        Ok(())
    }

    fn unroutable(&self, returned: usize, of: usize) -> String {
        let (exchange, queue) = (&self.exchange, &self.queue);
        format!(
            "no queue took {returned} of {of} notifications: bind the queue `{queue}` to the exchange \
             `{exchange}` with the routing key `{queue}`, or let the user do so"
        )
    }

    async fn records(&self, base_id: &str) -> Result<Vec<TraceRecord>, DriverError> {
        let (mut records, mut bytes) = (Vec::new(), 0);
        let mut full = false;
        self.read(|record, len| {
            if record.base_id == base_id {
                bytes += len;
                full |= records.len() == TRACE_RECORDS_MAX || bytes > TRACE_BYTES_MAX;
                if !full {
                    records.push(record);
                }
            }
        })
        .await?;
        if full {
            let (base_id, target) = (base_id.to_owned(), self.target.clone());
            return Err(DriverError::TooLarge { base_id, target });
        }
        Ok(records)
    }

    async fn list(&self, query: &TraceQuery) -> Result<Vec<TraceSummary>, DriverError> {
        let mut traces: HashMap<String, TraceSummary> = HashMap::new();
        self.read(|record, _| {
            let name =
                record.name.strip_suffix(START_SUFFIX).or_else(|| record.name.strip_suffix(STOP_SUFFIX));
            let failed = record.info.has("etype");
            let trace = traces.entry(record.base_id.to_string()).or_insert_with(|| TraceSummary {
                base_id: record.base_id.to_string(),
                timestamp: record.timestamp.to_string(),
                records: Some(0),
                name: None,
                failed: Some(false),
            });
            let timestamp = record.timestamp.to_string();
            if trace.name.is_none() || timestamp < trace.timestamp {
                trace.timestamp = timestamp;
                trace.name = Some(name.unwrap_or(&record.name).to_owned());
            }
            trace.records = trace.records.map(|records| records + 1);
            trace.failed = trace.failed.map(|known| known || failed);
        })
        .await?;
        let mut traces: Vec<TraceSummary> = traces.into_values().collect();
        traces.retain(|trace| !query.errors_only || trace.failed == Some(true));
        traces.sort_by(|one, other| (&other.timestamp, &other.base_id).cmp(&(&one.timestamp, &one.base_id)));
        traces.truncate(query.limit);
        Ok(traces)
    }

    /// Shows every record that waits in the queue, with its length in bytes, and puts all back.
    async fn read(&self, see: impl FnMut(TraceRecord, usize)) -> Result<(), DriverError> {
        let link = self.open().await?;
        let failed = |error: lapin::Error| {
            let target = self.target.clone();
            DriverError::Request { action: "read from", target, source: error.into() }
        };
        let channel = link.connection.create_channel().await.map_err(failed)?;
        let seen = self.consume(&channel, see).await;
        // What is not acknowledged goes back.
        close(&channel).await;
        let _ = timeout(CONNECT_TIMEOUT, link.connection.close(200, "done".into())).await;
        let target = || self.target.clone();
        match seen.map_err(failed)? {
            ReadingEnd::Idle => Ok(()),
            ReadingEnd::TooMany => {
                Err(DriverError::NotOffered { action: "read from", target: target(), reason: TOO_MANY })
            }
            ReadingEnd::Busy => {
                let source = format!(
                    "its queue was never idle for {IDLE_TIMEOUT:?} within {READ_TIMEOUT:?}, so what \
                     was read may not be all; read it when less is written to it"
                );
                Err(DriverError::Request { action: "read from", target: target(), source: source.into() })
            }
        }
    }

    /// How the reading ended.
    async fn consume(
        &self,
        channel: &Channel,
        mut see: impl FnMut(TraceRecord, usize),
    ) -> Result<ReadingEnd, lapin::Error> {
        channel.basic_qos(MESSAGES_MAX, BasicQosOptions::default()).await?;
        let (queue, options) = (self.queue.as_str().into(), BasicConsumeOptions::default());
        let mut consumer = channel.basic_consume(queue, "".into(), options, FieldTable::default()).await?;
        let deadline = Instant::now() + READ_TIMEOUT;
        let mut messages = 0;
        while messages < MESSAGES_MAX {
            if Instant::now() >= deadline {
                return Ok(ReadingEnd::Busy);
            }
            let Ok(Some(delivery)) = timeout(IDLE_TIMEOUT, consumer.next()).await else {
                return Ok(ReadingEnd::Idle);
            };
            let delivery = delivery?;
            messages += 1;
            if let Some(record) = decode(&delivery.data) {
                see(record, delivery.data.len());
            }
        }
        Ok(ReadingEnd::TooMany)
    }

    async fn probe(&self) -> Result<(), DriverError> {
        let mut link = self.link.lock().await;
        let open = match link.take() {
            Some(open) if open.channel.status().connected() => open,
            _ => self.open().await?,
        };
        let ask = async {
            let channel = open.connection.create_channel().await?;
            channel.close(200, "done".into()).await
        };
        answer("read from", &self.target, ask).await?;
        *link = Some(open);
        Ok(())
    }
}

/// The broker's URI, and the part after `?`.
fn uri(url: &str) -> Option<(String, HashMap<String, String>)> {
    let (scheme, rest) = url.split_once("://")?;
    let scheme = if scheme == "messaging+amqps" { "amqps" } else { "amqp" };
    let parsed = url::Url::parse(&format!("{scheme}://{rest}")).ok()?;
    parsed.host_str().filter(|host| !host.is_empty())?;
    let options = parsed.query_pairs().into_owned().collect();
    let rest = rest.split(['?', '#']).next()?;
    let (authority, vhost) = rest.split_once('/').unwrap_or((rest, ""));
    // oslo.messaging takes no virtual host for `/`, a URI of AMQP for the one without a name.
    let vhost = if vhost.is_empty() { "%2f" } else { vhost };
    Some((format!("{scheme}://{authority}/{vhost}"), options))
}

fn notification(record: &TraceRecord, now_ns: u64) -> Notification<'_> {
    Notification {
        message_id: Uuid::new_v4().to_string(),
        publisher_id: record.host().unwrap_or(Cow::Borrowed("None")),
        event_type: format!("profiler.{}", record.service.as_deref().unwrap_or("None")),
        priority: "INFO",
        payload: record,
        timestamp: Timestamp::from_unix_ns(now_ns).to_string().replace('T', " "),
        unique_id: Uuid::new_v4().simple().to_string(),
    }
}

/// The record of a message; `None` if it holds none, as what others send may.
fn decode(message: &[u8]) -> Option<TraceRecord> {
    if message.len() > RECORD_LEN_MAX {
        return None;
    }
    let mut message: Message = serde_json::from_slice(message).ok()?;
    if let Some(inner) = message.inner.take() {
        message = serde_json::from_str(&inner).ok()?;
    }
    let record: TraceRecord = serde_json::from_value(message.payload).ok()?;
    record.timestamp_us().map(|_| record)
}

async fn close(channel: &Channel) {
    // A channel that is closed already refuses; that is fine.
    let _ = timeout(CONNECT_TIMEOUT, channel.close(200, "done".into())).await;
}

impl std::fmt::Debug for MessagingCollector {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "MessagingCollector({})", self.target)
    }
}

driver!(MessagingCollector {
    fn target(&self) -> &str {
        &self.target
    }
});

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record() -> TraceRecord {
        TraceRecord {
            name: "wsgi-start".into(),
            base_id: "b".into(),
            trace_id: "t".into(),
            parent_id: "b".into(),
            timestamp: "2026-11-20T22:52:01.123456".into(),
            info: serde_json::json!({"host": "vm"}).as_object().cloned().unwrap_or_default().into(),
            project: Some("demo".into()),
            service: Some("api".into()),
        }
    }

    #[test]
    fn both_message_formats_are_read() {
        let json = serde_json::to_string(&notification(&record(), 0)).unwrap();
        assert_eq!(decode(json.as_bytes()), Some(record()));
        let envelope = serde_json::json!({"oslo.version": "2.0", "oslo.message": json}).to_string();
        assert_eq!(decode(envelope.as_bytes()), Some(record()));
        let value: Value = serde_json::from_str(&json).unwrap();
        let keys: Vec<&String> = value.as_object().unwrap().keys().collect();
        let expected =
            ["message_id", "publisher_id", "event_type", "priority", "payload", "timestamp", "_unique_id"];
        assert_eq!(keys, expected);
        assert_eq!(value["event_type"], "profiler.api");
        for other in
            ["", "{}", "[]", "{\"payload\": 3}", "{\"oslo.message\": \"{\"}", "{\"oslo.message\": 1}"]
        {
            assert_eq!(decode(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn connection_strings_become_uris() {
        for (url, expected) in [
            ("messaging://u:p@h", Some("amqp://u:p@h/%2f")),
            ("messaging://u:p@h:5/", Some("amqp://u:p@h:5/%2f")),
            ("messaging://u:p%40@h/v%2fx?topic=t", Some("amqp://u:p%40@h/v%2fx")),
            ("messaging+amqps://h/v", Some("amqps://h/v")),
            ("messaging://", None),
            ("messaging:///v", None),
        ] {
            assert_eq!(uri(url).map(|(uri, _)| uri).as_deref(), expected, "{url}");
        }
    }

    proptest! {
        #[test]
        fn decoding_never_panics(bytes: Vec<u8>, inner in "[\\[{\"a:1}\\]]{0,24}") {
            let _ = decode(&bytes);
            let _ = decode(serde_json::json!({"oslo.message": inner}).to_string().as_bytes());
            let _ = decode(serde_json::json!({"payload": {"name": inner, "base_id": inner}}).to_string().as_bytes());
            let _ = uri(&inner);
        }
    }
}
