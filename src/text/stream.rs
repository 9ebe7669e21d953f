//! Splits a stream into its events: server-sent events, lines, or pieces as they arrive.
//!
//! Server-sent events are read as browsers read them ([HTML, section 9.2.6]): comments, several lines of data, `event`,
//! `id` and `retry`, all three line ends, a byte order mark, and an unfinished last event that does not count. Of a stream
//! in progress, only the event that has begun is in memory, and its size is bounded.
//!
//! [HTML, section 9.2.6]: https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation

use std::ops::ControlFlow;

/// How a stream is made up.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum StreamFormat {
    /// Server-sent events.
    Events,
    /// A line for each event, such as JSON lines; empty lines are none.
    Lines,
    /// What arrives at once is an event.
    Chunks,
}

/// An event of a stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct StreamEvent<'a> {
    /// Its type, if it is a server-sent event that has one.
    pub kind: &'a [u8],
    pub data: &'a [u8],
}

/// An event that is larger than is read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct EventTooLarge;

/// Takes events; after [`ControlFlow::Break`], it is given no more.
pub type EventSink<'a> = dyn FnMut(StreamEvent<'_>) -> ControlFlow<()> + 'a;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Splits the pieces of a stream.
#[derive(Debug)]
pub struct Splitter {
    format: StreamFormat,
    event_bytes_max: usize,
    /// The line that has begun.
    line: Vec<u8>,
    /// True after a carriage return: a line feed that follows belongs to it.
    after_return: bool,
    /// True until the first line has come, which may begin with a mark.
    is_first_line: bool,
    /// The event that has begun.
    kind: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
}

impl Splitter {
    /// `event_bytes_max`: the largest event that is read.
    #[must_use]
    pub fn new(format: StreamFormat, event_bytes_max: usize) -> Self {
        Self {
            format,
            event_bytes_max,
            line: Vec::new(),
            after_return: false,
            is_first_line: true,
            kind: Vec::new(),
            data: Vec::new(),
            has_data: false,
        }
    }

    /// Takes a piece, and gives the events that end in it.
    ///
    /// # Errors
    /// An event larger than the limit.
    pub fn take(
        &mut self,
        mut piece: &[u8],
        sink: &mut EventSink<'_>,
    ) -> Result<ControlFlow<()>, EventTooLarge> {
        if self.format == StreamFormat::Chunks {
            return match piece.len() {
                0 => Ok(ControlFlow::Continue(())),
                length if length > self.event_bytes_max => Err(EventTooLarge),
                _ => Ok(sink(StreamEvent { kind: b"", data: piece })),
            };
        }
        while !piece.is_empty() {
            if std::mem::take(&mut self.after_return) && piece[0] == b'\n' {
                piece = &piece[1..];
                continue;
            }
            let Some(end) = memchr::memchr2(b'\n', b'\r', piece) else {
                self.line.extend_from_slice(piece);
                self.check()?;
                break;
            };
            self.after_return = piece[end] == b'\r';
            let flow = if self.line.is_empty() {
                self.line(&piece[..end], sink)?
            } else {
                self.line.extend_from_slice(&piece[..end]);
                let line = std::mem::take(&mut self.line);
                let flow = self.line(&line, sink)?;
                self.line = line;
                self.line.clear();
                flow
            };
            if flow.is_break() {
                return Ok(flow);
            }
            piece = &piece[end + 1..];
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Ends the stream: a last line counts without its end, a server-sent event does not.
    ///
    /// # Errors
    /// An event larger than the limit.
    pub fn finish(&mut self, sink: &mut EventSink<'_>) -> Result<ControlFlow<()>, EventTooLarge> {
        if self.format == StreamFormat::Lines && !self.line.is_empty() {
            let line = std::mem::take(&mut self.line);
            return self.line(&line, sink);
        }
        Ok(ControlFlow::Continue(()))
    }

    fn check(&self) -> Result<(), EventTooLarge> {
        let bytes = self.line.len() + self.data.len();
        if bytes > self.event_bytes_max { Err(EventTooLarge) } else { Ok(()) }
    }

    fn line(&mut self, mut line: &[u8], sink: &mut EventSink<'_>) -> Result<ControlFlow<()>, EventTooLarge> {
        if std::mem::take(&mut self.is_first_line) {
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        if self.data.len() + line.len() > self.event_bytes_max {
            return Err(EventTooLarge);
        }
        if self.format == StreamFormat::Lines {
            let is_empty = line.iter().all(u8::is_ascii_whitespace);
            return Ok(match is_empty {
                true => ControlFlow::Continue(()),
                false => sink(StreamEvent { kind: b"", data: line }),
            });
        }
        if line.is_empty() {
            return Ok(self.dispatch(sink));
        }
        let (name, value) = match memchr::memchr(b':', line) {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &b""[..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => {
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
                self.has_data = true;
            }
            b"event" => {
                self.kind.clear();
                self.kind.extend_from_slice(value);
            }
            // Comments, `id` and `retry`, which matter for a second connection, and what is not known.
            _ => {}
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Ends an event; one without data is none.
    fn dispatch(&mut self, sink: &mut EventSink<'_>) -> ControlFlow<()> {
        let flow = match std::mem::take(&mut self.has_data) {
            true => sink(StreamEvent { kind: &self.kind, data: &self.data }),
            false => ControlFlow::Continue(()),
        };
        self.kind.clear();
        self.data.clear();
        flow
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn events(format: StreamFormat, pieces: &[&[u8]]) -> Vec<(String, String)> {
        let mut all = Vec::new();
        let mut sink = |event: StreamEvent<'_>| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            all.push((text(event.kind), text(event.data)));
            ControlFlow::Continue(())
        };
        let mut splitter = Splitter::new(format, 1000);
        for piece in pieces {
            assert!(splitter.take(piece, &mut sink).unwrap().is_continue());
        }
        assert!(splitter.finish(&mut sink).unwrap().is_continue());
        all
    }

    /// The examples of the standard, and the cases that its text decides.
    #[test]
    fn server_sent_events_are_read_as_browsers_read_them() {
        for (stream, expected) in [
            ("data: YHOO\ndata: +2\ndata: 10\n\n", vec![("", "YHOO\n+2\n10")]),
            (
                ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n",
                vec![("", "first event"), ("", "second event"), ("", " third event")],
            ),
            ("data\n\ndata\ndata\n\ndata:", vec![("", ""), ("", "\n")]),
            ("data:test\n\ndata: test\n\n", vec![("", "test"), ("", "test")]),
            ("event: add\ndata: 7\n\nevent: remove\n\ndata: 9\n\n", vec![("add", "7"), ("", "9")]),
            ("\u{feff}data: a\r\n\r\ndata: b\r\rdata: c\n\n", vec![("", "a"), ("", "b"), ("", "c")]),
            ("\u{feff}\u{feff}data: a\n\ndata: b\n\n", vec![("", "b")]),
            ("Data: a\ndata : b\nretry: 10\nfoo\n\n", vec![]),
            ("data: a:b\ndata: [DONE]\n\n", vec![("", "a:b\n[DONE]")]),
            ("data: unfinished\n", vec![]),
        ] {
            let found = events(StreamFormat::Events, &[stream.as_bytes()]);
            let found: Vec<_> = found.iter().map(|(kind, data)| (kind.as_str(), data.as_str())).collect();
            assert_eq!(found, expected, "{stream:?}");
        }
    }

    #[test]
    fn lines_and_chunks_are_split_as_they_come() {
        let texts = |format, pieces: &[&[u8]]| -> Vec<String> {
            events(format, pieces).into_iter().map(|(_, data)| data).collect()
        };
        let lines = texts(StreamFormat::Lines, &[b"{\"a\":1}\r", b"\n\n  \n{\"a\"", b":2}\n{}"]);
        assert_eq!(lines, ["{\"a\":1}", "{\"a\":2}", "{}"]);
        assert_eq!(texts(StreamFormat::Chunks, &[b"one", b"", b"t\nwo"]), ["one", "t\nwo"]);
    }

    #[test]
    fn an_event_is_bounded_however_it_comes() {
        let mut ignore = |_: StreamEvent<'_>| ControlFlow::Continue(());
        for format in [StreamFormat::Events, StreamFormat::Lines, StreamFormat::Chunks] {
            let mut splitter = Splitter::new(format, 10);
            assert_eq!(splitter.take(&[b'x'; 11], &mut ignore), Err(EventTooLarge), "{format:?}");
        }
        let mut splitter = Splitter::new(StreamFormat::Events, 20);
        for _ in 0..3 {
            assert!(splitter.take(b"data: 1234567\n\n", &mut ignore).is_ok());
        }
        assert!(splitter.take(b"data: 1234567\ndata: 1234567\n", &mut ignore).is_ok());
        assert_eq!(splitter.take(b"data: 1234567\n", &mut ignore), Err(EventTooLarge));
    }

    #[test]
    fn a_sink_that_has_enough_is_given_no_more() {
        let mut calls = 0;
        let mut once = |_: StreamEvent<'_>| {
            calls += 1;
            ControlFlow::Break(())
        };
        let mut splitter = Splitter::new(StreamFormat::Events, 100);
        let flow = splitter.take(b"data: 1\n\ndata: 2\n\n", &mut once).unwrap();
        assert!(flow.is_break() && calls == 1);
    }

    proptest! {
        /// However a stream is cut into pieces, its events are the same.
        #[test]
        fn pieces_do_not_matter(
            parts in prop::collection::vec(
                prop::sample::select(vec![
                    "data", ":", " ", "\n", "\r", "\r\n", "\n\n", "event: a", "x", "\u{feff}", ": ping", "{}",
                ]),
                0..30,
            ),
            cuts in prop::collection::vec(0..100_usize, 0..8),
        ) {
            let stream = parts.concat().into_bytes();
            for format in [StreamFormat::Events, StreamFormat::Lines] {
                let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (stream.len() + 1)).collect();
                ends.push(stream.len());
                ends.sort_unstable();
                let mut begin = 0;
                let pieces: Vec<&[u8]> = ends.iter().map(|end| {
                    let piece = &stream[begin..*end];
                    begin = *end;
                    piece
                }).collect();
                prop_assert_eq!(events(format, &pieces), events(format, &[&stream]));
            }
        }
    }
}
