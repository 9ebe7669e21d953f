//! What the templates of Rally's task files have of Python and of Jinja2 beside minijinja's own: methods of texts, lists and
//! maps, lists that grow, and the global functions `cycler` and `joiner`.
//!
//! Sources: Jinja2 3.1, "List of Global Functions" and "List of Builtin Filters"; Python, "String Methods" and "Format
//! String Syntax". From the last one, fill, alignment, width, precision and the types `d`, `f`, `s`, `x` are taken.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use minijinja::value::{Enumerator, Kwargs, Object, ObjectRepr, Rest, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, Value};

use super::allowance::{self, invalid};
use super::{arithmetic, builtins};

/// The widest field of a format.
const WIDTH_MAX: usize = 1000;

/// Adds the functions, filters and methods.
pub(super) fn install(environment: &mut Environment<'static>) {
    environment.set_unknown_method_callback(method);
    environment.add_function("cycler", |items: Rest<Value>| match items.is_empty() {
        true => Err(invalid("cycler() needs at least one item")),
        false => Ok(Value::from_object(Cycler { items: items.0, at: AtomicUsize::new(0) })),
    });
    environment.add_function("joiner", |separator: Option<Value>| {
        let separator = separator.unwrap_or_else(|| Value::from(", "));
        Value::from_object(Joiner { separator, used: AtomicUsize::new(0) })
    });
    environment.add_filter("int", int);
    environment.add_filter("sum", sum);
    environment.add_filter(LISTED, |value: Value| -> Result<Value, Error> {
        allowance::read(&value)?;
        let items = value.try_iter()?.collect();
        Ok(Value::from_object(List(Mutex::new(items))))
    });
}

/// The names of the functions.
pub(super) const FUNCTIONS: [&str; 2] = ["cycler", "joiner"];
/// Makes of a list one that can grow.
pub(super) const LISTED: &str = "#listed";

/// Jinja2's `int(value, default=0)`: what is no number is the default.
fn int(state: &State<'_, '_>, value: &Value, default: Option<Value>) -> Result<Value, Error> {
    allowance::read(value)?;
    let own = if value.is_none() || value.is_undefined() { None } else { builtins::int(state, value).ok() };
    Ok(own.or(default).unwrap_or_else(|| Value::from(0)))
}

/// Jinja2's `sum(list, attribute, start=0)`; lists are joined.
fn sum(state: &State<'_, '_>, list: Value, attribute: Option<Value>, named: Kwargs) -> Result<Value, Error> {
    let attribute = attribute.or(named.get("attribute")?).filter(|attribute| !attribute.is_none());
    let start: Option<Value> = named.get("start")?;
    named.assert_all_used()?;
    let items = match attribute {
        Some(attribute) => {
            state.apply_filter("map", &[list, Value::from(Kwargs::from_iter([("attribute", attribute)]))])?
        }
        None => list,
    };
    allowance::read(&items)?;
    match start {
        Some(start) if start.kind() == ValueKind::Seq => {
            let mut all: Vec<Value> = start.try_iter()?.collect();
            for item in items.try_iter()? {
                allowance::read(&item)?;
                all.extend(item.try_iter()?);
            }
            Ok(Value::from(all))
        }
        start => {
            let all: Vec<Value> = items.try_iter()?.chain(start).collect();
            arithmetic::sum(&Value::from(all))
        }
    }
}

/// Jinja2's `cycler`.
#[derive(Debug)]
struct Cycler {
    items: Vec<Value>,
    at: AtomicUsize,
}

impl Cycler {
    fn current(&self) -> Value {
        self.items[self.at.load(Ordering::Relaxed) % self.items.len()].clone()
    }
}

impl Object for Cycler {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        (key.as_str() == Some("current")).then(|| self.current())
    }

    fn call_method(self: &Arc<Self>, _: &State<'_, '_>, name: &str, _: &[Value]) -> Result<Value, Error> {
        match name {
            "next" => {
                let value = self.current();
                self.at.fetch_add(1, Ordering::Relaxed);
                Ok(value)
            }
            "reset" => {
                self.at.store(0, Ordering::Relaxed);
                Ok(Value::from(()))
            }
            _ => Err(unknown(name)),
        }
    }
}

/// Jinja2's `joiner`: nothing at the first call, the separator at all others.
#[derive(Debug)]
struct Joiner {
    separator: Value,
    used: AtomicUsize,
}

impl Object for Joiner {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, _: &State<'_, '_>, _: &[Value]) -> Result<Value, Error> {
        let first = self.used.fetch_add(1, Ordering::Relaxed) == 0;
        Ok(if first { Value::from("") } else { self.separator.clone() })
    }
}

/// A list that can grow, as every list of Python can. What is put into it is copied, so that no list contains itself.
#[derive(Debug)]
struct List(Mutex<Vec<Value>>);

impl List {
    fn items(&self) -> MutexGuard<'_, Vec<Value>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Object for List {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.items().get(key.as_usize()?).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.items().len())
    }

    fn call_method(
        self: &Arc<Self>,
        state: &State<'_, '_>,
        name: &str,
        arguments: &[Value],
    ) -> Result<Value, Error> {
        let one = || arguments.first().ok_or_else(|| invalid(format!("{name}() needs an argument")));
        let none = Value::from(());
        match name {
            "append" => {
                let item = copied(one()?)?;
                self.items().push(item);
                Ok(none)
            }
            "extend" => {
                let more = one()?.try_iter()?.map(|item| copied(&item)).collect::<Result<Vec<_>, _>>()?;
                self.items().extend(more);
                Ok(none)
            }
            "insert" => {
                let item =
                    copied(arguments.get(1).ok_or_else(|| invalid("insert() needs an index and an item"))?)?;
                let at = one()?.as_usize().ok_or_else(|| invalid("insert() needs an index from 0"))?;
                let mut items = self.items();
                let at = at.min(items.len());
                items.insert(at, item);
                Ok(none)
            }
            "pop" => {
                let at = arguments
                    .first()
                    .map(|at| at.as_usize().ok_or_else(|| invalid("pop() needs an index from 0")));
                let at = at.transpose()?;
                let mut items = self.items();
                let at = at.unwrap_or(items.len().wrapping_sub(1));
                if at < items.len() {
                    Ok(items.remove(at))
                } else {
                    Err(invalid("pop() from an index that is not there"))
                }
            }
            _ => method(state, &Value::from_dyn_object(Arc::clone(self)), name, arguments),
        }
    }
}

/// A value in which no list can grow any more. It is charged for.
fn copied(value: &Value) -> Result<Value, Error> {
    allowance::made(value)?;
    if value.downcast_object_ref::<List>().is_none() {
        return Ok(value.clone());
    }
    let items = value.try_iter()?.map(|item| copied(&item)).collect::<Result<Vec<_>, _>>()?;
    Ok(Value::from(items))
}

fn unknown(name: &str) -> Error {
    Error::new(ErrorKind::UnknownMethod, format!("there is no method `{name}`"))
}

/// The methods of Python's texts, lists and maps that templates use most; filters do the work, and bound it.
fn method(state: &State<'_, '_>, value: &Value, name: &str, arguments: &[Value]) -> Result<Value, Error> {
    let filter = |filter: &str| {
        let with_value: Vec<Value> =
            std::iter::once(value.clone()).chain(arguments.iter().cloned()).collect();
        state.apply_filter(filter, &with_value)
    };
    match value.as_str() {
        Some(own) => of_text(state, own, name, arguments, &filter),
        None => of_collection(state, value, name, arguments, &filter),
    }
}

type FilterFunction<'a> = dyn Fn(&str) -> Result<Value, Error> + 'a;

fn of_text(
    state: &State<'_, '_>,
    own: &str,
    name: &str,
    arguments: &[Value],
    filter: &FilterFunction<'_>,
) -> Result<Value, Error> {
    let text = |index: usize| arguments.get(index).and_then(Value::as_str).unwrap_or_default();
    let chars: Vec<char> = text(0).chars().collect();
    let is_cut = |c: char| if chars.is_empty() { c.is_whitespace() } else { chars.contains(&c) };
    let all = |is: fn(char) -> bool| Value::from(!own.is_empty() && own.chars().all(is));
    match name {
        "upper" | "lower" | "title" | "capitalize" | "replace" => filter(name),
        "split" => state.apply_filter("list", &[filter(name)?]),
        "splitlines" => Ok(own.lines().map(Value::from).collect()),
        "strip" => Ok(Value::from(own.trim_matches(is_cut))),
        "lstrip" => Ok(Value::from(own.trim_start_matches(is_cut))),
        "rstrip" => Ok(Value::from(own.trim_end_matches(is_cut))),
        "startswith" => Ok(Value::from(own.starts_with(text(0)))),
        "endswith" => Ok(Value::from(own.ends_with(text(0)))),
        "count" => Ok(Value::from(own.matches(text(0)).count())),
        "find" => {
            let at = own.find(text(0)).map(|at| own[..at].chars().count() as i64);
            Ok(Value::from(at.unwrap_or(-1)))
        }
        "isdigit" => Ok(all(|c| c.is_ascii_digit())),
        "isalpha" => Ok(all(char::is_alphabetic)),
        "isalnum" => Ok(all(char::is_alphanumeric)),
        "zfill" => {
            let width = arguments.first().and_then(Value::as_usize).unwrap_or(0).min(WIDTH_MAX);
            let sign = usize::from(own.starts_with(['-', '+']));
            let zeros = "0".repeat(width.saturating_sub(own.chars().count()));
            Ok(Value::from(format!("{}{zeros}{}", &own[..sign], &own[sign..])))
        }
        "join" => {
            let list = arguments.first().cloned().unwrap_or_default();
            state.apply_filter("join", &[list, Value::from(own)])
        }
        "format" => format_text(state, own, arguments).map(Value::from),
        _ => Err(unknown(name)),
    }
}

fn of_collection(
    state: &State<'_, '_>,
    value: &Value,
    name: &str,
    arguments: &[Value],
    filter: &FilterFunction<'_>,
) -> Result<Value, Error> {
    let is_list = value.kind() == ValueKind::Seq;
    match name {
        "items" => filter("items"),
        "keys" => filter("list"),
        "values" => {
            let pairs = filter("items")?;
            state.apply_filter("map", &[pairs, Value::from("last")])
        }
        "get" => {
            let key = arguments.first().ok_or_else(|| invalid("get() needs a key"))?;
            let found = value.get_item(key).ok().filter(|found| !found.is_undefined());
            Ok(found.or_else(|| arguments.get(1).cloned()).unwrap_or_else(|| Value::from(())))
        }
        "count" | "index" if is_list => {
            let wanted = arguments.first().ok_or_else(|| invalid(format!("{name}() needs an item")))?;
            allowance::read(value)?;
            let mut places = value.try_iter()?.enumerate().filter(|(_, item)| item == wanted);
            if name == "count" {
                return Ok(Value::from(places.count()));
            }
            let place = places.next().map(|(at, _)| Value::from(at));
            place.ok_or_else(|| invalid("index(): the list does not have this item"))
        }
        _ => Err(unknown(name)),
    }
}

/// Python's `'{} {name:>5}'.format(…)`.
fn format_text(state: &State<'_, '_>, format: &str, arguments: &[Value]) -> Result<String, Error> {
    let named = arguments.last().and_then(|last| Kwargs::try_from(last.clone()).ok());
    let count = arguments.len() - usize::from(named.is_some());
    let (mut output, mut rest, mut next) = (String::new(), format, 0);
    while let Some(at) = rest.find(['{', '}']) {
        output.push_str(&rest[..at]);
        let brace = &rest[at..=at];
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix(brace) {
            output.push_str(brace);
            rest = after;
            continue;
        }
        let (field, after) = rest.split_once('}').filter(|_| brace == "{").ok_or_else(|| {
            invalid("format(): a brace has no partner; write it twice if it stands for itself")
        })?;
        rest = after;
        let (name, spec) = field.split_once(':').unwrap_or((field, ""));
        let value = match name.parse::<usize>() {
            Ok(number) => arguments[..count].get(number).cloned(),
            Err(_) if name.is_empty() => {
                next += 1;
                arguments[..count].get(next - 1).cloned()
            }
            Err(_) => named.as_ref().and_then(|named| named.get::<Option<Value>>(name).ok().flatten()),
        };
        let value = value.ok_or_else(|| invalid(format!("format(): there is no value for {{{name}}}")))?;
        output.push_str(&field_text(state, &value, spec)?);
    }
    output.push_str(rest);
    Ok(output)
}

/// A value as a field's specification writes it: `[[fill]align][0][width][.precision][type]`.
fn field_text(state: &State<'_, '_>, value: &Value, spec: &str) -> Result<String, Error> {
    let wrong = || invalid(format!("format(): `{spec}` is not supported"));
    let shown = state.format(value.clone())?;
    let chars: Vec<char> = spec.chars().collect();
    let is_align = |c: Option<&char>| c.is_some_and(|c| "<>^".contains(*c));
    let (fill, align, used) = match (is_align(chars.get(1)), is_align(chars.first())) {
        (true, _) => (chars[0], Some(chars[1]), 2),
        (false, true) => (' ', Some(chars[0]), 1),
        _ => (' ', None, 0),
    };
    let rest: String = chars[used..].iter().collect();
    let kind = rest.chars().last().filter(char::is_ascii_alphabetic);
    let rest = kind.map_or(rest.as_str(), |kind| &rest[..rest.len() - kind.len_utf8()]);
    let (width, precision) =
        rest.split_once('.').map_or((rest, None), |(width, precision)| (width, Some(precision)));
    let number =
        |text: &str| text.parse::<usize>().ok().filter(|number| *number <= WIDTH_MAX).ok_or_else(wrong);
    let precision = precision.map(number).transpose()?;
    let real = || f64::try_from(value.clone()).map_err(|_| wrong());
    let text = match kind {
        Some('f') => format!("{:.*}", precision.unwrap_or(6), real()?),
        Some('d') if value.is_integer() => shown,
        Some('x') => format!("{:x}", i64::try_from(value.clone()).map_err(|_| wrong())?),
        None | Some('s') => shown.chars().take(precision.unwrap_or(usize::MAX)).collect(),
        _ => return Err(wrong()),
    };
    let is_zero = width.starts_with('0') && align.is_none();
    let width = if width.is_empty() { 0 } else { number(width)? };
    let missing = width.saturating_sub(text.chars().count());
    allowance::charge_text(missing as u64)?;
    let fill = if is_zero { '0' } else { fill };
    let pad = |count: usize| fill.to_string().repeat(count);
    let usual = if value.is_number() { '>' } else { '<' };
    Ok(match align.unwrap_or(usual) {
        '<' => format!("{text}{}", pad(missing)),
        '^' => format!("{}{text}{}", pad(missing / 2), pad(missing - missing / 2)),
        _ if is_zero && text.starts_with('-') => format!("-{}{}", pad(missing), &text[1..]),
        _ => format!("{}{text}", pad(missing)),
    })
}
