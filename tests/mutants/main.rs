//! Rewrites source files so that each of many small faults can be turned on by its number.
//!
//! `mutants CRATE:FILE… < JSON list of numbers to leave out` rewrites the files in place and prints a JSON list of the
//! faults: number, file, line, function and what is changed. A comparison `a < b` becomes
//! `(if crate::mutated(7) { a <= b } else if crate::mutated(8) { a > b } else { a < b })`, and a function may return a fixed
//! value at once. So one build holds all faults; tests/mutants/run.py turns them on one after another. What is in
//! macros, constants, patterns, types and tests stays as it is.

use std::collections::HashSet;
use std::io::Read as _;
use std::path::Path;

use serde_json::{Value, json};
use syn::spanned::Spanned as _;
use syn::visit_mut::{self, VisitMut};
use syn::{
    BinOp, Block, Expr, ExprBinary, ExprUnary, GenericArgument, ImplItemFn, ItemFn, ItemMod, Pat,
    PathArguments, ReturnType, Signature, Type, UnOp, parse_quote,
};

fn main() {
    let mut left_out = String::new();
    std::io::stdin().read_to_string(&mut left_out).expect("read the numbers to leave out");
    let left_out: HashSet<u64> = serde_json::from_str(&left_out).expect("a JSON list of numbers");
    let mut mutator = Mutator { left_out, ..Mutator::default() };
    for path in std::env::args().skip(1) {
        mutator.file = path;
        let text = std::fs::read_to_string(&mutator.file)
            .unwrap_or_else(|error| panic!("{}: {error}", mutator.file));
        let mut file = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", mutator.file));
        mutator.visit_file_mut(&mut file);
        std::fs::write(Path::new(&mutator.file), prettyplease::unparse(&file)).expect("write the file");
    }
    println!("{}", Value::from(mutator.found));
}

#[derive(Default)]
struct Mutator {
    left_out: HashSet<u64>,
    file: String,
    functions: Vec<String>,
    last: u64,
    found: Vec<Value>,
}

impl Mutator {
    /// A fault's number, unless it is left out.
    fn number(&mut self, line: usize, what: String) -> Option<u64> {
        self.last += 1;
        if self.left_out.contains(&self.last) {
            return None;
        }
        let function = self.functions.join("::");
        self.found.push(json!({ "number": self.last, "file": self.file, "line": line, "function": function, "what": what }));
        Some(self.last)
    }

    /// `expression`, or one of the others when its number is on.
    fn either(&mut self, line: usize, expression: Expr, others: Vec<(String, Expr)>) -> Expr {
        let mut whole = expression;
        for (what, other) in others.into_iter().rev() {
            if let Some(number) = self.number(line, what) {
                whole = parse_quote!(if crate::mutated(#number) { #other } else { #whole });
            }
        }
        parse_quote!((#whole))
    }

    fn function(&mut self, signature: &Signature, block: &mut Block) {
        // What a constant calls cannot ask which fault is on; a formatter for people who debug is not judged.
        if signature.constness.is_some() {
            return;
        }
        self.functions.push(signature.ident.to_string());
        let line = signature.ident.span().start().line;
        visit_mut::visit_block_mut(self, block);
        if !block.stmts.is_empty() {
            for value in values(&signature.output).into_iter().rev() {
                let what = format!("returns {}", value.as_ref().map_or("at once".to_owned(), text));
                if let Some(number) = self.number(line, what) {
                    block.stmts.insert(0, parse_quote!(if crate::mutated(#number) { return #value; }));
                }
            }
        }
        self.functions.pop();
    }
}

fn text(tokens: &impl quote::ToTokens) -> String {
    tokens.to_token_stream().to_string()
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().map(text).any(|text| text.contains("test"))
}

/// What a function of this type might return; without a value, it returns at once.
fn values(output: &ReturnType) -> Vec<Option<Expr>> {
    match output {
        ReturnType::Default => vec![None],
        ReturnType::Type(_, of) => of_type(of).into_iter().map(Some).collect(),
    }
}

fn of_type(of: &Type) -> Vec<Expr> {
    let Type::Path(path) = of else {
        return match text(of).as_str() {
            "& str" => vec![parse_quote!(""), parse_quote!("xyzzy")],
            _ => Vec::new(),
        };
    };
    let Some(last) = path.path.segments.last() else { return Vec::new() };
    let inner = match &last.arguments {
        PathArguments::AngleBracketed(arguments) => match arguments.args.first() {
            Some(GenericArgument::Type(inner)) => Some(inner),
            _ => None,
        },
        _ => None,
    };
    match last.ident.to_string().as_str() {
        "bool" => vec![parse_quote!(true), parse_quote!(false)],
        "f64" => vec![parse_quote!(0.0), parse_quote!(1.0), parse_quote!(-1.0)],
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" | "i32" | "i64" | "i128" | "isize" | "Nanos" => {
            vec![parse_quote!(0), parse_quote!(1)]
        }
        "String" => vec![parse_quote!(String::new()), parse_quote!("xyzzy".to_owned())],
        "Vec" => vec![parse_quote!(Vec::new())],
        "Option" => {
            let some =
                inner.map(of_type).unwrap_or_default().into_iter().map(|value| parse_quote!(Some(#value)));
            std::iter::once(parse_quote!(None)).chain(some).collect()
        }
        "Result" => {
            let inner = inner.map(|inner| match inner {
                Type::Tuple(tuple) if tuple.elems.is_empty() => vec![parse_quote!(())],
                other => of_type(other),
            });
            inner.unwrap_or_default().into_iter().map(|value: Expr| parse_quote!(Ok(#value))).collect()
        }
        _ => Vec::new(),
    }
}

/// What may stand for an operator.
fn instead(operator: &BinOp) -> Vec<BinOp> {
    match operator {
        BinOp::Eq(_) => vec![parse_quote!(!=)],
        BinOp::Ne(_) => vec![parse_quote!(==)],
        BinOp::Lt(_) => vec![parse_quote!(<=), parse_quote!(>)],
        BinOp::Le(_) => vec![parse_quote!(<), parse_quote!(>)],
        BinOp::Gt(_) => vec![parse_quote!(>=), parse_quote!(<)],
        BinOp::Ge(_) => vec![parse_quote!(>), parse_quote!(<)],
        BinOp::And(_) => vec![parse_quote!(||)],
        BinOp::Or(_) => vec![parse_quote!(&&)],
        BinOp::Add(_) => vec![parse_quote!(-), parse_quote!(*)],
        BinOp::Sub(_) => vec![parse_quote!(+), parse_quote!(/)],
        BinOp::Mul(_) => vec![parse_quote!(+), parse_quote!(/)],
        BinOp::Div(_) => vec![parse_quote!(*), parse_quote!(%)],
        BinOp::Rem(_) => vec![parse_quote!(/), parse_quote!(+)],
        BinOp::AddAssign(_) => vec![parse_quote!(-=), parse_quote!(*=)],
        BinOp::SubAssign(_) => vec![parse_quote!(+=), parse_quote!(/=)],
        BinOp::MulAssign(_) => vec![parse_quote!(+=), parse_quote!(/=)],
        BinOp::DivAssign(_) => vec![parse_quote!(*=), parse_quote!(%=)],
        BinOp::BitAnd(_) => vec![parse_quote!(|), parse_quote!(^)],
        BinOp::BitOr(_) => vec![parse_quote!(&), parse_quote!(^)],
        BinOp::BitXor(_) => vec![parse_quote!(|), parse_quote!(&)],
        BinOp::Shl(_) => vec![parse_quote!(>>)],
        BinOp::Shr(_) => vec![parse_quote!(<<)],
        BinOp::BitOrAssign(_) => vec![parse_quote!(&=)],
        BinOp::BitAndAssign(_) => vec![parse_quote!(|=)],
        _ => Vec::new(),
    }
}

/// True for `let` in a condition, which only `&&` may join.
fn has_let(expression: &Expr) -> bool {
    match expression {
        Expr::Let(_) => true,
        Expr::Binary(ExprBinary { left, op: BinOp::And(_), right, .. }) => has_let(left) || has_let(right),
        _ => false,
    }
}

impl VisitMut for Mutator {
    fn visit_expr_mut(&mut self, expression: &mut Expr) {
        let original = expression.clone();
        match &original {
            Expr::Binary(binary) if !has_let(&original) => {
                let line = binary.op.span().start().line;
                let others = instead(&binary.op).into_iter().map(|op| {
                    let what = format!("`{}` becomes `{}`", text(&binary.op), text(&op));
                    (what, Expr::Binary(ExprBinary { op, ..binary.clone() }))
                });
                let others = others.collect();
                visit_mut::visit_expr_mut(self, expression);
                let inner = expression.clone();
                *expression = self.either(line, inner, others);
            }
            Expr::Unary(ExprUnary { op: op @ (UnOp::Not(_) | UnOp::Neg(_)), expr, .. })
                if !matches!(**expr, Expr::Lit(_)) =>
            {
                let others = vec![(format!("without `{}`", text(op)), (**expr).clone())];
                visit_mut::visit_expr_mut(self, expression);
                let inner = expression.clone();
                *expression = self.either(op.span().start().line, inner, others);
            }
            _ => visit_mut::visit_expr_mut(self, expression),
        }
    }

    fn visit_arm_mut(&mut self, arm: &mut syn::Arm) {
        visit_mut::visit_arm_mut(self, arm);
        if let Some((_, guard)) = &mut arm.guard
            && !has_let(guard)
        {
            let others = vec![
                ("the guard is true".to_owned(), parse_quote!(true)),
                ("the guard is false".to_owned(), parse_quote!(false)),
            ];
            let inner = (**guard).clone();
            **guard = self.either(arm.pat.span().start().line, inner, others);
        }
    }

    fn visit_item_fn_mut(&mut self, item: &mut ItemFn) {
        if !is_test(&item.attrs) {
            self.function(&item.sig, &mut item.block);
        }
    }

    fn visit_impl_item_fn_mut(&mut self, item: &mut ImplItemFn) {
        if !is_test(&item.attrs) {
            self.function(&item.sig, &mut item.block);
        }
    }

    fn visit_item_mod_mut(&mut self, item: &mut ItemMod) {
        if !is_test(&item.attrs) {
            visit_mut::visit_item_mod_mut(self, item);
        }
    }

    fn visit_item_impl_mut(&mut self, item: &mut syn::ItemImpl) {
        if is_test(&item.attrs) {
            return;
        }
        let of = text(&item.self_ty);
        self.functions.push(of);
        visit_mut::visit_item_impl_mut(self, item);
        self.functions.pop();
    }

    // What the compiler computes cannot ask which fault is on.
    fn visit_item_const_mut(&mut self, _: &mut syn::ItemConst) {}
    fn visit_item_static_mut(&mut self, _: &mut syn::ItemStatic) {}
    fn visit_impl_item_const_mut(&mut self, _: &mut syn::ImplItemConst) {}
    fn visit_trait_item_const_mut(&mut self, _: &mut syn::TraitItemConst) {}
    fn visit_expr_const_mut(&mut self, _: &mut syn::ExprConst) {}
    fn visit_expr_repeat_mut(&mut self, expression: &mut syn::ExprRepeat) {
        self.visit_expr_mut(&mut expression.expr);
    }
    fn visit_variant_mut(&mut self, _: &mut syn::Variant) {}
    fn visit_type_mut(&mut self, _: &mut Type) {}
    fn visit_pat_mut(&mut self, _: &mut Pat) {}
    fn visit_generic_argument_mut(&mut self, _: &mut GenericArgument) {}
    fn visit_attribute_mut(&mut self, _: &mut syn::Attribute) {}
}
