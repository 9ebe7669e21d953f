//! Comma-separated values. Names and messages come from files and services, so text that a spreadsheet
//! would read as a formula is made harmless.

use std::io::{self, Write};

use super::{Column, ExportCell, RowWriter};

const BUFFER_BYTES: usize = 64 * 1024;

pub(super) struct CsvWriter<'a> {
    output: &'a mut (dyn Write + Send),
    buffer: Vec<u8>,
}

impl<'a> CsvWriter<'a> {
    pub(super) fn new(columns: &[Column], output: &'a mut (dyn Write + Send)) -> io::Result<Self> {
        let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
        let mut buffer = names.join(",").into_bytes();
        buffer.extend_from_slice(b"\r\n");
        Ok(Self { output, buffer })
    }
}

impl RowWriter for CsvWriter<'_> {
    fn row(&mut self, cells: &[ExportCell<'_>]) -> io::Result<()> {
        let buffer = &mut self.buffer;
        for (index, cell) in cells.iter().enumerate() {
            if index > 0 {
                buffer.push(b',');
            }
            match cell {
                ExportCell::Id(id) => {
                    buffer.extend_from_slice(id.hyphenated().encode_lower(&mut [0; 36]).as_bytes());
                }
                ExportCell::Text(text) => put_text(text.unwrap_or(""), buffer),
                ExportCell::NoInteger => {}
                ExportCell::Integer(value) => super::jsonl::put_integer(*value, buffer),
                ExportCell::Flag(flag) => buffer.extend_from_slice(if *flag { b"true" } else { b"false" }),
            }
        }
        buffer.extend_from_slice(b"\r\n");
        if buffer.len() >= BUFFER_BYTES {
            self.output.write_all(buffer)?;
            buffer.clear();
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        self.output.write_all(&self.buffer)
    }
}

fn put_text(text: &str, buffer: &mut Vec<u8>) {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let quoted = text.contains([',', '"', '\n', '\r']);
    if quoted {
        buffer.push(b'"');
    }
    if formula {
        buffer.push(b'\'');
    }
    for byte in text.bytes() {
        if byte == b'"' {
            buffer.push(b'"');
        }
        buffer.push(byte);
    }
    if quoted {
        buffer.push(b'"');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_quoted_and_no_formula() {
        for (text, expected) in [
            ("", ""),
            ("log in", "log in"),
            ("a,b", "\"a,b\""),
            ("say \"no\"", "\"say \"\"no\"\"\""),
            ("two\nlines", "\"two\nlines\""),
            ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("@SUM(A1,A2)", "\"'@SUM(A1,A2)\""),
            ("\t=1", "'\t=1"),
        ] {
            let mut buffer = Vec::new();
            put_text(text, &mut buffer);
            assert_eq!(String::from_utf8(buffer).unwrap(), expected);
        }
    }
}
