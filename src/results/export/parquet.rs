//! Apache Parquet: row groups of bounded size, differences for numbers, dictionaries for texts.
//!
//! The only file that uses the crate `parquet`.

use std::io::{self, Write};
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as PhysicalType};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type};

use super::{Column, ExportCell, ExportColumnKind, RowWriter};

/// Rows are held in memory until their group is full.
const GROUP_ROWS: usize = 64 * 1024;
const ID_CHARS: usize = 36;

/// A column of the group that is being filled.
enum ColumnBuffer {
    /// The characters of all ids, one after the other.
    Ids(Vec<u8>),
    Texts {
        values: Vec<ByteArray>,
        levels: Vec<i16>,
        optional: bool,
        last: ByteArray,
    },
    Integers {
        values: Vec<i64>,
        levels: Vec<i16>,
        optional: bool,
    },
    Flags(Vec<bool>),
}

pub(super) struct ParquetWriter<'a> {
    writer: SerializedFileWriter<&'a mut (dyn Write + Send)>,
    columns: Vec<ColumnBuffer>,
    rows: usize,
    group_rows: usize,
}

impl<'a> ParquetWriter<'a> {
    pub(super) fn new(columns: &[Column], output: &'a mut (dyn Write + Send)) -> io::Result<Self> {
        let fields = columns.iter().map(|column| field(*column).map(Arc::new)).collect::<Result<Vec<_>, _>>();
        let schema = Type::group_type_builder("bench").with_fields(fields.map_err(failed)?).build();
        let mut properties = WriterProperties::builder()
            .set_writer_version(WriterVersion::PARQUET_1_0)
            .set_compression(Compression::SNAPPY)
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_created_by(concat!("bench ", env!("CARGO_PKG_VERSION")).to_owned());
        for (name, kind) in columns {
            let path = ColumnPath::from(*name);
            properties = match kind {
                ExportColumnKind::Id | ExportColumnKind::Flag => {
                    properties.set_column_dictionary_enabled(path, false)
                }
                ExportColumnKind::Integer | ExportColumnKind::OptionalInteger => properties
                    .set_column_dictionary_enabled(path.clone(), false)
                    .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED),
                ExportColumnKind::Text | ExportColumnKind::OptionalText => properties,
            };
        }
        let schema = Arc::new(schema.map_err(failed)?);
        let writer =
            SerializedFileWriter::new(output, schema, Arc::new(properties.build())).map_err(failed)?;
        let columns = columns.iter().map(|(_, kind)| empty(*kind)).collect();
        Ok(Self { writer, columns, rows: 0, group_rows: GROUP_ROWS })
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = self.writer.next_row_group()?;
        for values in &mut self.columns {
            let Some(mut column) = group.next_column()? else { break };
            write_column(values, column.untyped())?;
            column.close()?;
        }
        group.close()?;
        self.rows = 0;
        Ok(())
    }
}

fn field((name, kind): Column) -> Result<Type, ParquetError> {
    let (physical, logical) = match kind {
        ExportColumnKind::Id | ExportColumnKind::Text | ExportColumnKind::OptionalText => {
            (PhysicalType::BYTE_ARRAY, Some(LogicalType::String))
        }
        ExportColumnKind::Integer | ExportColumnKind::OptionalInteger => (PhysicalType::INT64, None),
        ExportColumnKind::Flag => (PhysicalType::BOOLEAN, None),
    };
    let optional = matches!(kind, ExportColumnKind::OptionalText | ExportColumnKind::OptionalInteger);
    Type::primitive_type_builder(name, physical)
        .with_logical_type(logical)
        .with_repetition(if optional { Repetition::OPTIONAL } else { Repetition::REQUIRED })
        .build()
}

fn empty(kind: ExportColumnKind) -> ColumnBuffer {
    match kind {
        ExportColumnKind::Id => ColumnBuffer::Ids(Vec::new()),
        ExportColumnKind::Text | ExportColumnKind::OptionalText => ColumnBuffer::Texts {
            values: Vec::new(),
            levels: Vec::new(),
            optional: kind == ExportColumnKind::OptionalText,
            last: ByteArray::from(""),
        },
        ExportColumnKind::Integer | ExportColumnKind::OptionalInteger => ColumnBuffer::Integers {
            values: Vec::new(),
            levels: Vec::new(),
            optional: kind == ExportColumnKind::OptionalInteger,
        },
        ExportColumnKind::Flag => ColumnBuffer::Flags(Vec::new()),
    }
}

fn write_column(values: &mut ColumnBuffer, column: &mut ColumnWriter<'_>) -> Result<(), ParquetError> {
    match (values, column) {
        (ColumnBuffer::Ids(characters), ColumnWriter::ByteArrayColumnWriter(column)) => {
            let characters = Bytes::from(std::mem::take(characters));
            let ids: Vec<ByteArray> = (0..characters.len())
                .step_by(ID_CHARS)
                .map(|at| ByteArray::from(characters.slice(at..at + ID_CHARS)))
                .collect();
            column.write_batch(&ids, None, None)?;
        }
        (
            ColumnBuffer::Texts { values, levels, optional, .. },
            ColumnWriter::ByteArrayColumnWriter(column),
        ) => {
            column.write_batch(values, optional.then_some(levels.as_slice()), None)?;
            values.clear();
            levels.clear();
        }
        (ColumnBuffer::Integers { values, levels, optional }, ColumnWriter::Int64ColumnWriter(column)) => {
            column.write_batch(values, optional.then_some(levels.as_slice()), None)?;
            values.clear();
            levels.clear();
        }
        (ColumnBuffer::Flags(values), ColumnWriter::BoolColumnWriter(column)) => {
            column.write_batch(values, None, None)?;
            values.clear();
        }
        _ => return Err(ParquetError::General("a column of another type".to_owned())),
    }
    Ok(())
}

impl RowWriter for ParquetWriter<'_> {
    fn row(&mut self, cells: &[ExportCell<'_>]) -> io::Result<()> {
        for (column, cell) in self.columns.iter_mut().zip(cells) {
            match (column, cell) {
                (ColumnBuffer::Ids(characters), ExportCell::Id(id)) => {
                    characters.extend_from_slice(id.hyphenated().encode_lower(&mut [0; ID_CHARS]).as_bytes());
                }
                (ColumnBuffer::Texts { values, levels, last, .. }, ExportCell::Text(text)) => {
                    levels.push(i16::from(text.is_some()));
                    if let Some(text) = text {
                        if last.data() != text.as_bytes() {
                            *last = ByteArray::from(*text);
                        }
                        values.push(last.clone());
                    }
                }
                // Nothing recorded reaches 2^63 nanoseconds.
                (ColumnBuffer::Integers { levels, optional: true, .. }, ExportCell::NoInteger) => {
                    levels.push(0)
                }
                (ColumnBuffer::Integers { values, levels, .. }, ExportCell::Integer(value)) => {
                    levels.push(1);
                    values.push(i64::try_from(*value).unwrap_or(i64::MAX));
                }
                (ColumnBuffer::Flags(values), ExportCell::Flag(flag)) => values.push(*flag),
                _ => return Err(io::Error::other("a cell of another kind than its column")),
            }
        }
        self.rows += 1;
        if self.rows >= self.group_rows { self.write_group().map_err(failed) } else { Ok(()) }
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.write_group().map_err(failed)?;
        self.writer.close().map(drop).map_err(failed)
    }
}

fn failed(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(error) => match error.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(error) => io::Error::other(error),
        },
        other => io::Error::other(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::Field;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn what_is_written_is_read_over_several_groups() {
        let columns = [
            ("id", ExportColumnKind::Id),
            ("text", ExportColumnKind::Text),
            ("maybe", ExportColumnKind::OptionalText),
            ("n", ExportColumnKind::Integer),
            ("f", ExportColumnKind::Flag),
        ];
        let mut file = Vec::new();
        let mut writer = Box::new(ParquetWriter::new(&columns, &mut file).unwrap());
        writer.group_rows = 100;
        let rows = 207;
        let maybe = |n: u64| n.is_multiple_of(3).then_some("=1+1");
        for n in 0..rows {
            let cells = [
                ExportCell::Id(Uuid::from_u128(u128::from(n))),
                ExportCell::Text(Some(if n < 5 { "a" } else { "b" })),
                ExportCell::Text(maybe(n)),
                ExportCell::Integer(n * n),
                ExportCell::Flag(n.is_multiple_of(2)),
            ];
            writer.row(&cells).unwrap();
        }
        writer.finish().unwrap();
        let reader = SerializedFileReader::new(Bytes::from(file)).unwrap();
        assert_eq!(reader.metadata().num_row_groups(), 3);
        let mut read = 0;
        for (n, row) in (0_u64..).zip(reader.get_row_iter(None).unwrap()) {
            let fields: Vec<Field> =
                row.unwrap().into_columns().into_iter().map(|(_, field)| field).collect();
            let text = |text: &str| Field::Str(text.to_owned());
            assert_eq!(fields[0], text(&Uuid::from_u128(u128::from(n)).to_string()));
            assert_eq!(fields[1], text(if n < 5 { "a" } else { "b" }));
            assert_eq!(fields[2], maybe(n).map_or(Field::Null, text));
            assert_eq!(fields[3], Field::Long((n * n) as i64));
            assert_eq!(fields[4], Field::Bool(n.is_multiple_of(2)));
            read += 1;
        }
        assert_eq!(read, rows);
    }
}
