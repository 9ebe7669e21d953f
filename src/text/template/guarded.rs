//! Rewrites a parsed template so that operators only traverse values that were measured before.
//!
//! minijinja counts `[1] * 10000000000 == x` as a single step, like `1 + 1`, and folds constants during
//! compilation. So operands of operations that may take long are passed through the filters of
//! [`super::builtins`], which are not folded. Operations on numbers alone are not changed.

use minijinja::Value;
use minijinja::machinery::Span;
use minijinja::machinery::ast::{
    AutoEscape, BinOp, BinOpKind, Call, CallArg, CallBlock, Compare, CompareOp, CompareOpKind, Const, Do,
    EmitExpr, EmitRaw, Expr, Filter, FilterBlock, ForLoop, GetAttr, GetItem, IfCond, IfExpr, List, Macro,
    Map, Set, SetBlock, Slice, Spanned, Stmt, Template, Test, UnaryOp, UnaryOpKind, Var, WithBlock,
};

use crate::digits;

use super::arithmetic::{self, AT_MOST, CHAIN, DIVIDED, LESS, MINUS, PLUS, POWER, REST, TIMES, WHOLES};
use super::builtins::{COUNTED, MADE, OPERAND, READ, SAME, TEXT};
use super::numbers;
use super::python::LISTED;

/// Loops may repeat text this short without charge: the limit on steps bounds it.
const RAW_BYTES_FREE: usize = 32;
/// Functions that create values from their arguments.
const MAKERS: [&str; 2] = ["dict", "namespace"];

/// Rewrites templates, and detects loops and macros, which can take more steps than the template has bytes.
#[derive(Default)]
pub(super) struct Rewriter {
    /// True if there is a loop or a macro.
    pub(super) repeats: bool,
    /// Lists that are written in the template can grow, as in Python.
    pub(super) lists_grow: bool,
    /// A statement that needs other templates; there are none.
    pub(super) refused: Option<&'static str>,
    /// A filter or a test that lacks an argument.
    pub(super) lacks: Option<String>,
    /// The text that was parsed, if its literals keep the digits with which they are written there.
    pub(super) source: &'static str,
}

impl Rewriter {
    /// For a text whose literals keep their digits.
    pub(super) fn of(source: &'static str) -> Self {
        Self { source, ..Self::default() }
    }

    pub(super) fn statement<'a>(&mut self, statement: &Stmt<'a>) -> Stmt<'a> {
        match statement {
            Stmt::Template(s) => {
                self.repeats |= repeats(&s.children);
                Stmt::Template(at(s, Template { children: self.all(&s.children) }))
            }
            Stmt::EmitExpr(s) => Stmt::EmitExpr(at(s, EmitExpr { expr: self.expression(&s.expr) })),
            Stmt::EmitRaw(s) if self.repeats && s.raw.len() > RAW_BYTES_FREE => {
                let value = Value::from(s.raw);
                Stmt::EmitExpr(at(s, EmitExpr { expr: Expr::Const(at(s, Const { value })) }))
            }
            Stmt::EmitRaw(s) => Stmt::EmitRaw(at(s, EmitRaw { raw: s.raw })),
            Stmt::ForLoop(s) => Stmt::ForLoop(at(s, self.for_loop(s))),
            Stmt::IfCond(s) => Stmt::IfCond(at(
                s,
                IfCond {
                    expr: self.expression(&s.expr),
                    true_body: self.all(&s.true_body),
                    false_body: self.all(&s.false_body),
                },
            )),
            Stmt::WithBlock(s) => {
                let pair = |(to, expr): &(Expr<'a>, Expr<'a>)| (target(to), self.expression(expr));
                let assignments = s.assignments.iter().map(pair).collect();
                Stmt::WithBlock(at(s, WithBlock { assignments, body: self.all(&s.body) }))
            }
            Stmt::Set(s) => {
                Stmt::Set(at(s, Set { target: target(&s.target), expr: self.expression(&s.expr) }))
            }
            Stmt::SetBlock(s) => Stmt::SetBlock(at(
                s,
                SetBlock {
                    target: target(&s.target),
                    filter: s.filter.as_ref().map(|filter| self.expression(filter)),
                    body: self.all(&s.body),
                },
            )),
            Stmt::AutoEscape(s) => {
                let enabled = self.expression(&s.enabled);
                Stmt::AutoEscape(at(s, AutoEscape { enabled, body: self.all(&s.body) }))
            }
            Stmt::FilterBlock(s) => {
                let filter = self.expression(&s.filter);
                Stmt::FilterBlock(at(s, FilterBlock { filter, body: self.all(&s.body) }))
            }
            Stmt::Macro(s) => Stmt::Macro(self.defined(s)),
            Stmt::CallBlock(s) => {
                let (call, macro_decl) = (self.call(&s.call), self.defined(&s.macro_decl));
                Stmt::CallBlock(at(s, CallBlock { call, macro_decl }))
            }
            Stmt::Do(s) => Stmt::Do(at(s, Do { call: self.call(&s.call) })),
            Stmt::Block(s) => self.refuse("block", s.span()),
            Stmt::Import(s) => self.refuse("import", s.span()),
            Stmt::FromImport(s) => self.refuse("from", s.span()),
            Stmt::Extends(s) => self.refuse("extends", s.span()),
            Stmt::Include(s) => self.refuse("include", s.span()),
        }
    }

    fn refuse<'a>(&mut self, statement: &'static str, span: Span) -> Stmt<'a> {
        self.refused.get_or_insert(statement);
        Stmt::EmitRaw(Spanned::new(EmitRaw { raw: "" }, span))
    }

    fn all<'a>(&mut self, statements: &[Stmt<'a>]) -> Vec<Stmt<'a>> {
        statements.iter().map(|statement| self.statement(statement)).collect()
    }

    fn for_loop<'a>(&mut self, s: &ForLoop<'a>) -> ForLoop<'a> {
        ForLoop {
            target: target(&s.target),
            iter: self.expression(&s.iter),
            filter_expr: s.filter_expr.as_ref().map(|filter| self.expression(filter)),
            recursive: s.recursive,
            body: self.all(&s.body),
            else_body: self.all(&s.else_body),
        }
    }

    fn defined<'a>(&mut self, s: &Spanned<Macro<'a>>) -> Spanned<Macro<'a>> {
        let defaults = s.defaults.iter().map(|default| self.expression(default)).collect();
        let args = s.args.iter().map(target).collect();
        at(s, Macro { name: s.name, args, defaults, body: self.all(&s.body) })
    }

    /// An expression in which every operator is guarded.
    pub(super) fn expression<'a>(&mut self, expr: &Expr<'a>) -> Expr<'a> {
        match expr {
            Expr::Var(_) => target(expr),
            Expr::Const(s) => match self.digits(s) {
                Some(digits) => Expr::Const(at(s, Const { value: numbers::number(digits) })),
                None => target(expr),
            },
            Expr::Slice(s) => {
                let mut part = |part: &Option<Expr<'a>>| part.as_ref().map(|part| self.expression(part));
                let (start, stop, step) = (part(&s.start), part(&s.stop), part(&s.step));
                Expr::Slice(at(s, Slice { expr: self.read(&s.expr), start, stop, step }))
            }
            Expr::UnaryOp(s) if matches!(s.op, UnaryOpKind::Neg) && self.negated(&s.expr).is_some() => {
                let value = self.negated(&s.expr).unwrap_or_default();
                Expr::Const(at(s, Const { value }))
            }
            Expr::UnaryOp(s) => {
                let op = if matches!(s.op, UnaryOpKind::Not) { UnaryOpKind::Not } else { UnaryOpKind::Neg };
                let expr = match op {
                    UnaryOpKind::Neg => self.operand(&s.expr),
                    UnaryOpKind::Not => self.expression(&s.expr),
                };
                Expr::UnaryOp(at(s, UnaryOp { op, expr }))
            }
            Expr::BinOp(s) => self.operator(s),
            Expr::Compare(s) => self.compare(s),
            Expr::IfExpr(s) => Expr::IfExpr(at(
                s,
                IfExpr {
                    test_expr: self.expression(&s.test_expr),
                    true_expr: self.expression(&s.true_expr),
                    false_expr: s.false_expr.as_ref().map(|other| self.expression(other)),
                },
            )),
            Expr::Filter(s) => {
                self.count_arguments("filter", s.name, &s.args);
                let expr = s.expr.as_ref().map(|expr| self.expression(expr));
                Expr::Filter(at(s, Filter { name: s.name, expr, args: self.arguments(&s.args) }))
            }
            Expr::Test(s) => {
                self.count_arguments("test", s.name, &s.args);
                let (expr, args) = (self.expression(&s.expr), self.arguments(&s.args));
                Expr::Test(at(s, Test { name: s.name, expr, args }))
            }
            Expr::GetAttr(_) | Expr::GetItem(_) => {
                let (member, is_negative) = self.member(expr);
                if !is_negative {
                    return member;
                }
                let span = expr.span();
                let expr = through(OPERAND, member, Vec::new());
                Expr::UnaryOp(Spanned::new(UnaryOp { op: UnaryOpKind::Neg, expr }, span))
            }
            Expr::Call(s) => {
                let makes = matches!(&s.expr, Expr::Var(var) if MAKERS.contains(&var.id));
                let call = Expr::Call(self.call(s));
                if makes { through(READ, call, Vec::new()) } else { call }
            }
            Expr::List(s) => {
                let items = s.items.iter().map(|item| self.expression(item)).collect();
                let name = if self.lists_grow { LISTED } else { READ };
                through(name, Expr::List(at(s, List { items })), Vec::new())
            }
            Expr::Map(s) => {
                let keys = s.keys.iter().map(|key| self.read(key)).collect();
                let values = s.values.iter().map(|value| self.expression(value)).collect();
                through(READ, Expr::Map(at(s, Map { keys, values })), Vec::new())
            }
        }
    }

    /// Finds a filter or a test that would fail whatever its value is.
    fn count_arguments(&mut self, kind: &str, name: &str, arguments: &[CallArg<'_>]) {
        let least = match (kind, name) {
            ("filter", "replace") => 2,
            ("filter", "attr" | "batch" | "groupby" | "hash" | "hmac" | "slice") => 1,
            (
                "test",
                "divisibleby" | "endingwith" | "eq" | "equalto" | "ge" | "greaterthan" | "gt" | "in" | "le"
                | "lessthan" | "lt" | "ne" | "sameas" | "startingwith",
            ) => 1,
            _ => 0,
        };
        if arguments.len() < least {
            let many = if least == 1 { "an argument" } else { "two arguments" };
            self.lacks.get_or_insert_with(|| format!("the {kind} `{name}` needs {many}"));
        }
    }

    /// The digits of a literal, if they are not those that its value is shown with.
    fn digits(&self, literal: &Spanned<Const>) -> Option<&'static str> {
        let (value, span) = (&literal.value, literal.span());
        if !value.is_number() || value.is_integer() {
            return None;
        }
        let written = self.source.get(span.start_offset as usize..span.end_offset as usize)?;
        let real = f64::try_from(value.clone()).ok()?;
        let is_it = digits::raw(written).is_ok() && written.parse::<f64>() == Ok(real);
        (is_it && *written != *value.to_string()).then_some(written)
    }

    /// A literal behind a minus, with its digits.
    fn negated(&self, expr: &Expr<'_>) -> Option<Value> {
        let Expr::Const(s) = expr else { return None };
        self.digits(s).map(|digits| numbers::number(&format!("-{digits}")))
    }

    /// A member of a map or an item of a list, and whether a minus is before all of it: minijinja parses `-a.b` as
    /// `(-a).b`, which means nothing.
    fn member<'a>(&mut self, expr: &Expr<'a>) -> (Expr<'a>, bool) {
        match expr {
            Expr::GetAttr(s) => {
                let (expr, is_negative) = self.member(&s.expr);
                (Expr::GetAttr(at(s, GetAttr { expr, name: s.name })), is_negative)
            }
            Expr::GetItem(s) => {
                let (expr, is_negative) = self.member(&s.expr);
                let subscript_expr = self.read(&s.subscript_expr);
                let expr = through(COUNTED, expr, Vec::new());
                (Expr::GetItem(at(s, GetItem { expr, subscript_expr })), is_negative)
            }
            Expr::UnaryOp(s) if matches!(s.op, UnaryOpKind::Neg) => (self.expression(&s.expr), true),
            other => (self.expression(other), false),
        }
    }

    fn operator<'a>(&mut self, s: &Spanned<BinOp<'a>>) -> Expr<'a> {
        use BinOpKind::{
            Add, Concat, Div, Eq, FloorDiv, Gt, Gte, In, Lt, Lte, Mul, Ne, Pow, Rem, ScAnd, ScOr, Sub,
        };
        if let (Rem, Expr::Const(format)) = (s.op, &s.left)
            && format.value.as_str().is_some()
        {
            return self.formatted(s);
        }
        match s.op {
            Lt => return self.ordered(LESS, &s.left, &s.right),
            Lte => return self.ordered(AT_MOST, &s.left, &s.right),
            Gt => return self.ordered(LESS, &s.right, &s.left),
            Gte => return self.ordered(AT_MOST, &s.right, &s.left),
            _ => {}
        }
        // A small whole number stays the same whatever the other one is.
        let simple = is_small(&s.left) || is_small(&s.right);
        let mut operand = |expr: &Expr<'a>| match s.op {
            ScAnd | ScOr => self.expression(expr),
            Concat => self.text(expr),
            Eq | Ne | In => self.compared(expr),
            Mul => self.read(expr),
            Add | Sub | Div | FloorDiv | Rem | Pow | Lt | Lte | Gt | Gte => self.operand(expr),
        };
        let (op, left, right) = (s.op, operand(&s.left), operand(&s.right));
        let own = match op {
            Mul => TIMES,
            Add if !simple => PLUS,
            Sub if !simple => MINUS,
            Div => DIVIDED,
            FloorDiv => WHOLES,
            Rem => REST,
            Pow => POWER,
            Concat => return through(MADE, Expr::BinOp(at(s, BinOp { op, left, right })), Vec::new()),
            _ => return Expr::BinOp(at(s, BinOp { op, left, right })),
        };
        through(own, left, vec![CallArg::Pos(right)])
    }

    /// Python's `'%s-%s' % (a, b)`, as the filter `format`.
    fn formatted<'a>(&mut self, s: &BinOp<'a>) -> Expr<'a> {
        let values = match &s.right {
            Expr::List(list) => list.items.iter().collect(),
            one => vec![one],
        };
        let values = values.into_iter().map(|value| CallArg::Pos(self.expression(value))).collect();
        through("format", target(&s.left), values)
    }

    /// Numbers in order, by all of their digits.
    fn compare<'a>(&mut self, s: &Spanned<Compare<'a>>) -> Expr<'a> {
        let order = match s.ops.as_slice() {
            [CompareOp { op: CompareOpKind::Lt, expr }] => Some((LESS, &s.expr, expr)),
            [CompareOp { op: CompareOpKind::Lte, expr }] => Some((AT_MOST, &s.expr, expr)),
            [CompareOp { op: CompareOpKind::Gt, expr }] => Some((LESS, expr, &s.expr)),
            [CompareOp { op: CompareOpKind::Gte, expr }] => Some((AT_MOST, expr, &s.expr)),
            _ => None,
        };
        match order {
            Some((name, left, right)) => self.ordered(name, left, right),
            None => self.several(s),
        }
    }

    fn ordered<'a>(&mut self, name: &'static str, left: &Expr<'a>, right: &Expr<'a>) -> Expr<'a> {
        let (left, right) = (self.read(left), self.read(right));
        through(name, left, vec![CallArg::Pos(right)])
    }

    fn several<'a>(&mut self, s: &Spanned<Compare<'a>>) -> Expr<'a> {
        let sign = |op: CompareOpKind| match op {
            CompareOpKind::Lt => "<",
            CompareOpKind::Lte => "<=",
            CompareOpKind::Gt => ">",
            CompareOpKind::Gte => ">=",
            CompareOpKind::Eq => "==",
            CompareOpKind::Ne => "!=",
            CompareOpKind::In => "in",
            CompareOpKind::NotIn => "not in",
        };
        let signs: Vec<_> = s.ops.iter().map(|other| sign(other.op)).collect();
        if !signs.iter().any(|sign| sign.starts_with(['<', '>'])) {
            let mut side = |expr: &Expr<'a>| self.compared(expr);
            let expr = side(&s.expr);
            let ops = s.ops.iter().map(|other| CompareOp { op: other.op, expr: side(&other.expr) }).collect();
            return Expr::Compare(at(s, Compare { expr, ops }));
        }
        let mut others = Vec::new();
        for (sign, other) in signs.into_iter().zip(&s.ops) {
            others.push(CallArg::Pos(Expr::Const(at(s, Const { value: Value::from(sign) }))));
            others.push(CallArg::Pos(self.read(&other.expr)));
        }
        through(CHAIN, self.read(&s.expr), others)
    }

    fn call<'a>(&mut self, s: &Spanned<Call<'a>>) -> Spanned<Call<'a>> {
        // The name of a method or function must stay a name.
        at(s, Call { expr: self.expression(&s.expr), args: self.arguments(&s.args) })
    }

    fn arguments<'a>(&mut self, arguments: &[CallArg<'a>]) -> Vec<CallArg<'a>> {
        let argument = |argument: &CallArg<'a>| match argument {
            CallArg::Pos(expr) => CallArg::Pos(self.expression(expr)),
            CallArg::Kwarg(name, expr) => CallArg::Kwarg(name, self.expression(expr)),
            CallArg::PosSplat(expr) => CallArg::PosSplat(self.read(expr)),
            CallArg::KwargSplat(expr) => CallArg::KwargSplat(self.read(expr)),
        };
        arguments.iter().map(argument).collect()
    }

    /// An expression whose value is measured, and a number that can be calculated with if it is one.
    fn operand<'a>(&mut self, expr: &Expr<'a>) -> Expr<'a> {
        match expr {
            Expr::Const(s) if self.digits(s).is_none() => target(expr),
            // What was calculated is an ordinary number.
            Expr::UnaryOp(s) if self.negated(&s.expr).is_none() => self.expression(expr),
            Expr::BinOp(s) if !matches!(s.op, BinOpKind::ScAnd | BinOpKind::ScOr) => self.expression(expr),
            _ => through(OPERAND, self.expression(expr), Vec::new()),
        }
    }

    /// An expression whose value is measured and compared.
    fn compared<'a>(&mut self, expr: &Expr<'a>) -> Expr<'a> {
        match expr {
            Expr::Const(s) if self.digits(s).is_none() => target(expr),
            _ => through(SAME, self.expression(expr), Vec::new()),
        }
    }

    /// An expression whose value becomes a part of a text.
    fn text<'a>(&mut self, expr: &Expr<'a>) -> Expr<'a> {
        match expr {
            Expr::Const(constant) if constant.value.as_str().is_some() => target(expr),
            _ => through(TEXT, self.expression(expr), Vec::new()),
        }
    }

    /// An expression whose value is measured.
    fn read<'a>(&mut self, expr: &Expr<'a>) -> Expr<'a> {
        match expr {
            Expr::Const(s) if self.digits(s).is_none() => target(expr),
            _ => through(READ, self.expression(expr), Vec::new()),
        }
    }
}

/// True if statements contain a loop or a macro, at any depth.
fn repeats(statements: &[Stmt<'_>]) -> bool {
    statements.iter().any(|statement| match statement {
        Stmt::ForLoop(_) | Stmt::Macro(_) | Stmt::CallBlock(_) => true,
        Stmt::Template(s) => repeats(&s.children),
        Stmt::IfCond(s) => repeats(&s.true_body) || repeats(&s.false_body),
        Stmt::WithBlock(s) => repeats(&s.body),
        Stmt::SetBlock(s) => repeats(&s.body),
        Stmt::AutoEscape(s) => repeats(&s.body),
        Stmt::FilterBlock(s) => repeats(&s.body),
        _ => false,
    })
}

fn is_small(expr: &Expr<'_>) -> bool {
    matches!(expr, Expr::Const(constant) if arithmetic::is_small(&constant.value))
}

/// The target of an assignment, unchanged.
fn target<'a>(expr: &Expr<'a>) -> Expr<'a> {
    match expr {
        Expr::Var(s) => Expr::Var(at(s, Var { id: s.id })),
        Expr::Const(s) => Expr::Const(at(s, Const { value: s.value.clone() })),
        Expr::List(s) => Expr::List(at(s, List { items: s.items.iter().map(target).collect() })),
        Expr::GetAttr(s) => Expr::GetAttr(at(s, GetAttr { expr: target(&s.expr), name: s.name })),
        // The parser refuses any other target.
        other => Rewriter::default().expression(other),
    }
}

fn through<'a>(name: &'a str, expr: Expr<'a>, args: Vec<CallArg<'a>>) -> Expr<'a> {
    let span: Span = expr.span();
    Expr::Filter(Spanned::new(Filter { name, expr: Some(expr), args }, span))
}

/// The new node at the position of the old one.
fn at<O, N>(old: &Spanned<O>, new: N) -> Spanned<N> {
    Spanned::new(new, old.span())
}
