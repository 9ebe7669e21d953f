//! Reads the conditions after `where`: `service = "orders" and attr("db.rows") > 100`.

use std::ops::Range;

use super::{Cursor, Mistake, mistake};
use crate::threshold::Operator;
use crate::threshold::selector::{CONDITIONS_MAX, NumberTest, PointCondition, PointField, TextTest};
use text::similar::did_you_mean;

const FIELDS: [&str; 7] = ["service", "name", "detail", "host", "attr", "error", "depth"];
const KNOWN: &str = "known: service, name, detail, host, depth, error, attr(\"KEY\")";

/// A comparison within a condition.
enum Test {
    Equal,
    NotEqual,
    Contains,
    Ordered(Operator),
}

impl Cursor<'_> {
    /// The conditions after `where`, up to what cannot belong to them.
    pub(super) fn conditions(&mut self, where_at: &Range<usize>) -> Result<Vec<PointCondition>, Mistake> {
        let mut conditions = Vec::new();
        loop {
            conditions.push(self.condition(conditions.is_empty().then_some(where_at))?);
            self.skip_blanks();
            let before = self.at;
            let (at, word) = self.take(char::is_alphanumeric);
            match word {
                "and" if conditions.len() >= CONDITIONS_MAX => {
                    let message = format!("more than {CONDITIONS_MAX} conditions");
                    return Err(mistake(at, message, "write fewer conditions"));
                }
                "and" => {}
                "" if self.rest().starts_with(['&', '|']) => return Err(only_and(self.here())),
                "" => {
                    self.at = before;
                    return Ok(conditions);
                }
                "or" | "not" => return Err(only_and(at)),
                _ => {
                    let help = "join conditions with `and`, and close the parenthesis after the last";
                    return Err(mistake(at, format!("`{word}` has no meaning after a condition"), help));
                }
            }
        }
    }

    /// One condition; `first` is the place of `where` if nothing came since.
    fn condition(&mut self, first: Option<&Range<usize>>) -> Result<PointCondition, Mistake> {
        self.skip_blanks();
        let (at, word) = self.take(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '-'));
        let field = match word {
            "error" => return self.error(),
            "service" => PointField::Service,
            "name" => PointField::Name,
            "detail" => PointField::Detail,
            "host" => PointField::Host,
            "depth" => PointField::Depth,
            "attr" => self.attribute(at)?,
            "" => {
                let help = format!("write one, such as service = \"orders\"; {KNOWN}");
                let at = first.cloned().filter(|_| self.rest().is_empty()).unwrap_or_else(|| self.here());
                return Err(mistake(at, "a condition is missing here", help));
            }
            "not" => return Err(only_and(at)),
            _ => {
                let help = match did_you_mean(word, FIELDS) {
                    Some("attr") => "did you mean `attr(\"KEY\")`?".to_owned(),
                    Some(known) => format!("did you mean `{known}`?"),
                    None => format!("write attr(\"{word}\") for an attribute; {KNOWN}"),
                };
                return Err(mistake(at, format!("unknown condition `{word}`"), help));
            }
        };
        let (test, test_at) = self.test(&field)?;
        self.value(field, &test, test_at)
    }

    /// `error` stands alone.
    fn error(&mut self) -> Result<PointCondition, Mistake> {
        self.skip_blanks();
        match self.rest().chars().next() {
            Some('=' | '!' | '<' | '>' | '~' | '≤' | '≥') => {
                let help = "write only `error`; for its class, attr(\"etype\") = \"CLASS\"";
                Err(mistake(self.here(), "`error` is not compared with anything", help))
            }
            _ => Ok(PointCondition::Error),
        }
    }

    /// The key in `attr("KEY")`.
    fn attribute(&mut self, at: Range<usize>) -> Result<PointField, Mistake> {
        const HELP: &str = "write attr(\"KEY\"), such as attr(\"db.system\")";
        self.skip_blanks();
        if !self.rest().starts_with('(') {
            return Err(mistake(at, "`attr` without its key", HELP));
        }
        let open = self.here();
        self.at += 1;
        self.skip_blanks();
        let key = match self.rest().chars().next() {
            Some(quote @ ('"' | '\'')) => self.quoted_text(quote)?.1,
            Some(')') | None => return Err(mistake(open, "`attr` without its key", HELP)),
            Some(_) => return Err(mistake(self.here(), "the key is not in quotes", HELP)),
        };
        if key.is_empty() {
            return Err(mistake(at, "`attr` with an empty key", HELP));
        }
        self.skip_blanks();
        if !self.rest().starts_with(')') {
            return Err(mistake(open, "a parenthesis that is not closed", "close it with `)`"));
        }
        self.at += 1;
        Ok(PointField::Attribute(key))
    }

    fn test(&mut self, field: &PointField) -> Result<(Test, Range<usize>), Mistake> {
        const HELP: &str = "write =, !=, ~ (contains), <, <=, > or >=";
        self.skip_blanks();
        let (at, found) = self.take(|c| matches!(c, '<' | '>' | '=' | '!' | '~' | '≤' | '≥'));
        let test = match found {
            "=" | "==" => Test::Equal,
            "!=" => Test::NotEqual,
            "~" => Test::Contains,
            "<" => Test::Ordered(Operator::Below),
            "<=" | "≤" => Test::Ordered(Operator::AtMost),
            ">" => Test::Ordered(Operator::Above),
            ">=" | "≥" => Test::Ordered(Operator::AtLeast),
            "" => return Err(mistake(self.here(), format!("a comparison is missing after {field}"), HELP)),
            "=~" | "!~" => {
                let help = "write ~, which means: contains this text";
                return Err(mistake(at, format!("`{found}` is not a comparison"), help));
            }
            _ => return Err(mistake(at, format!("`{found}` is not a comparison"), HELP)),
        };
        Ok((test, at))
    }

    /// The value of a condition, and the condition.
    fn value(
        &mut self,
        field: PointField,
        test: &Test,
        test_at: Range<usize>,
    ) -> Result<PointCondition, Mistake> {
        self.skip_blanks();
        if let Some(quote @ ('"' | '\'')) = self.rest().chars().next() {
            let (at, value) = self.quoted_text(quote)?;
            return text(field, test, test_at, at, value);
        }
        let (at, word) = self.take(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '+' | ':' | '/'));
        if word.is_empty() {
            let help = "write a text in quotes, or a number";
            return Err(mistake(self.here(), format!("the value after {field} is missing"), help));
        }
        let number = word.parse::<f64>().ok().filter(|number| number.is_finite());
        match (number, &field) {
            (Some(number), PointField::Depth | PointField::Attribute(_)) => {
                let test = match test {
                    Test::Equal => NumberTest::Is(Operator::Equal),
                    Test::NotEqual => NumberTest::IsNot,
                    Test::Ordered(operator) => NumberTest::Is(*operator),
                    Test::Contains => {
                        let help = "put the value in quotes to search a text, or write =";
                        return Err(mistake(test_at, "`~` searches texts, not numbers", help));
                    }
                };
                Ok(PointCondition::Number(field, test, number))
            }
            (None, PointField::Attribute(_)) if matches!(word, "true" | "false") => {
                text(field, test, test_at, at, word.to_owned())
            }
            (None, PointField::Depth) => {
                Err(mistake(at, format!("`{word}` is not a number"), "write a number, such as depth > 3"))
            }
            _ => Err(mistake(at, format!("the value {word} is not in quotes"), format!("write \"{word}\""))),
        }
    }
}

fn text(
    field: PointField,
    test: &Test,
    test_at: Range<usize>,
    at: Range<usize>,
    value: String,
) -> Result<PointCondition, Mistake> {
    if field == PointField::Depth {
        return Err(mistake(at, "a depth is a number", "write it without quotes, such as depth > 3"));
    }
    let test = match test {
        Test::Equal => TextTest::Is,
        Test::NotEqual => TextTest::IsNot,
        Test::Contains => TextTest::Contains,
        Test::Ordered(operator) => {
            let help = "write a number without quotes, or compare the text with =, != or ~ (contains)";
            return Err(mistake(test_at, format!("`{}` compares numbers, not texts", operator.text()), help));
        }
    };
    Ok(PointCondition::Text(field, test, value))
}

fn only_and(at: Range<usize>) -> Mistake {
    mistake(at, "conditions are joined by `and` only", "write a threshold for each alternative")
}
