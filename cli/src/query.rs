//! The query language of `wait-for` (spec/clients.md 3.8): comparisons of the facts of an entity.
//!
//! `status=="active" && len(units)>=2`, `forEach(units, u => u.workload-status=="active")`. A query is parsed once and
//! evaluated against a map of facts for each status. The language is Juju's; it has no library.

use serde_json::{Map, Value};
use std::cmp::Ordering;
use std::fmt;

/// A parsed query.
#[derive(Clone, Debug, PartialEq)]
pub struct Query(Expression);

/// Why a text is no query, or why a query cannot be evaluated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryError(String);

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for QueryError {}

/// Deepest nesting of a query, so that none exhausts the stack.
const DEPTH_MAX: usize = 64;

#[derive(Clone, Debug, PartialEq)]
enum Expression {
    Value(Value),
    /// A name, and the fields below it: `u.workload-status`.
    Name(String, Vec<String>),
    Compare(Box<Expression>, &'static str, Box<Expression>),
    And(Box<Expression>, Box<Expression>),
    Or(Box<Expression>, Box<Expression>),
    Call(Function, Vec<Expression>),
    /// `forEach(entities, name => expression)`: whether the expression holds for each of them.
    ForEach(Box<Expression>, String, Box<Expression>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    Len,
    Print,
    StartsWith,
    EndsWith,
}

impl Function {
    fn parse(name: &str) -> Option<Function> {
        Some(match name {
            "len" => Function::Len,
            "print" => Function::Print,
            "startsWith" => Function::StartsWith,
            "endsWith" => Function::EndsWith,
            _ => return None,
        })
    }

    fn arguments(self) -> usize {
        match self {
            Function::Len | Function::Print => 1,
            Function::StartsWith | Function::EndsWith => 2,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Text(String),
    Number(i64),
    Name(String),
    Symbol(&'static str),
}

const SYMBOLS: [&str; 14] = ["==", "!=", "<=", ">=", "=>", "&&", "||", "<", ">", "(", ")", ",", ".", "!"];
const COMPARISONS: [&str; 6] = ["==", "!=", "<=", ">=", "<", ">"];

fn tokens(text: &str) -> Result<Vec<Token>, QueryError> {
    let (mut tokens, mut rest) = (Vec::new(), text.trim_start());
    while let Some(first) = rest.chars().next() {
        let (token, length) = if first == '"' || first == '\'' {
            let end = rest[1..].find(first);
            let end = end.ok_or_else(|| QueryError(format!("the text {rest} is not closed")))?;
            (Token::Text(rest[1..=end].to_owned()), end + 2)
        } else if first.is_ascii_digit() {
            let length = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            let number = rest[..length].parse();
            (
                Token::Number(number.map_err(|_| QueryError(format!("{} is too large", &rest[..length])))?),
                length,
            )
        } else if first.is_alphabetic() || first == '_' {
            let is_part = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
            let length = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
            (Token::Name(rest[..length].to_owned()), length)
        } else {
            let symbol = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol));
            let symbol = symbol.ok_or_else(|| QueryError(format!("unexpected {first:?}")))?;
            (Token::Symbol(symbol), symbol.len())
        };
        tokens.push(token);
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

struct Parser<'a> {
    tokens: &'a [Token],
    depth: usize,
}

impl Parser<'_> {
    fn takes(&mut self, symbol: &str) -> bool {
        let is_next = matches!(self.tokens.first(), Some(Token::Symbol(next)) if *next == symbol);
        if is_next {
            self.tokens = &self.tokens[1..];
        }
        is_next
    }

    fn require(&mut self, symbol: &str) -> Result<(), QueryError> {
        match self.takes(symbol) {
            true => Ok(()),
            false => Err(QueryError(format!("expected {symbol}"))),
        }
    }

    fn next(&mut self) -> Result<Token, QueryError> {
        let (first, rest) =
            self.tokens.split_first().ok_or_else(|| QueryError("it ends too early".to_owned()))?;
        self.tokens = rest;
        Ok(first.clone())
    }

    fn name(&mut self) -> Result<String, QueryError> {
        match self.next()? {
            Token::Name(name) => Ok(name),
            Token::Text(_) | Token::Number(_) | Token::Symbol(_) => {
                Err(QueryError("expected a name".to_owned()))
            }
        }
    }

    fn or(&mut self) -> Result<Expression, QueryError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(QueryError(format!("it is nested deeper than {DEPTH_MAX}")));
        }
        let mut left = self.and()?;
        while self.takes("||") {
            left = Expression::Or(Box::new(left), Box::new(self.and()?));
        }
        self.depth -= 1;
        Ok(left)
    }

    fn and(&mut self) -> Result<Expression, QueryError> {
        let mut left = self.comparison()?;
        while self.takes("&&") {
            left = Expression::And(Box::new(left), Box::new(self.comparison()?));
        }
        Ok(left)
    }

    fn comparison(&mut self) -> Result<Expression, QueryError> {
        let left = self.operand()?;
        match COMPARISONS.into_iter().find(|symbol| self.takes(symbol)) {
            Some(symbol) => Ok(Expression::Compare(Box::new(left), symbol, Box::new(self.operand()?))),
            None => Ok(left),
        }
    }

    fn operand(&mut self) -> Result<Expression, QueryError> {
        let mut is_negated = false;
        while self.takes("!") {
            is_negated = !is_negated;
        }
        let operand = self.positive()?;
        Ok(match is_negated {
            true => Expression::Compare(Box::new(operand), "==", Box::new(Expression::Value(false.into()))),
            false => operand,
        })
    }

    /// An operand without the signs of its negation.
    fn positive(&mut self) -> Result<Expression, QueryError> {
        if self.takes("(") {
            let inner = self.or()?;
            self.require(")")?;
            return Ok(inner);
        }
        let name = match self.next()? {
            Token::Text(text) => return Ok(Expression::Value(text.into())),
            Token::Number(number) => return Ok(Expression::Value(number.into())),
            Token::Symbol(symbol) => return Err(QueryError(format!("unexpected {symbol}"))),
            Token::Name(name) => name,
        };
        if self.takes("(") {
            return self.call(&name);
        }
        if let "true" | "false" = name.as_str() {
            return Ok(Expression::Value((name == "true").into()));
        }
        let mut fields = Vec::new();
        while self.takes(".") {
            fields.push(self.name()?);
        }
        Ok(Expression::Name(name, fields))
    }

    fn call(&mut self, name: &str) -> Result<Expression, QueryError> {
        if name == "forEach" {
            let entities = self.or()?;
            self.require(",")?;
            let entity = self.name()?;
            self.require("=>")?;
            let inner = self.or()?;
            self.require(")")?;
            return Ok(Expression::ForEach(Box::new(entities), entity, Box::new(inner)));
        }
        let function = Function::parse(name).ok_or_else(|| QueryError(format!("no function {name:?}")))?;
        let mut arguments = vec![self.or()?];
        while self.takes(",") {
            arguments.push(self.or()?);
        }
        self.require(")")?;
        match arguments.len() == function.arguments() {
            true => Ok(Expression::Call(function, arguments)),
            false => Err(QueryError(format!("{name} takes {} arguments", function.arguments()))),
        }
    }
}

impl Query {
    /// Parses a query.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Query, QueryError> {
        let tokens = tokens(text)?;
        let mut parser = Parser { tokens: &tokens, depth: 0 };
        let expression = parser.or()?;
        match parser.tokens.is_empty() {
            true => Ok(Query(expression)),
            false => Err(QueryError("it goes on after its end".to_owned())),
        }
    }

    /// Whether the query holds for an entity with these facts. `print` receives what the query prints.
    ///
    /// # Errors
    /// If it names an unknown fact, or compares values of different types.
    pub fn holds(&self, facts: &Map<String, Value>, print: &mut dyn FnMut(&str)) -> Result<bool, QueryError> {
        is_true(&Evaluation { facts, print: &mut *print }.value(&self.0)?)
    }
}

fn is_true(value: &Value) -> Result<bool, QueryError> {
    value.as_bool().ok_or_else(|| QueryError(format!("{value} is neither true nor false")))
}

struct Evaluation<'a> {
    facts: &'a Map<String, Value>,
    print: &'a mut dyn FnMut(&str),
}

impl Evaluation<'_> {
    fn value(&mut self, expression: &Expression) -> Result<Value, QueryError> {
        Ok(match expression {
            Expression::Value(value) => value.clone(),
            Expression::Name(first, fields) => {
                let fact = self.facts.get(first);
                let found =
                    fact.and_then(|fact| fields.iter().try_fold(fact, |value, field| value.get(field)));
                let unknown = || {
                    let path: Vec<&str> = [first].into_iter().chain(fields).map(String::as_str).collect();
                    let known: Vec<&str> = self.facts.keys().map(String::as_str).collect();
                    QueryError(format!("no fact {:?}; there are {}", path.join("."), known.join(", ")))
                };
                found.ok_or_else(unknown)?.clone()
            }
            Expression::And(left, right) => {
                (is_true(&self.value(left)?)? && is_true(&self.value(right)?)?).into()
            }
            Expression::Or(left, right) => {
                (is_true(&self.value(left)?)? || is_true(&self.value(right)?)?).into()
            }
            Expression::Compare(left, symbol, right) => {
                let (left, right) = (self.value(left)?, self.value(right)?);
                compare(&left, symbol, &right)?.into()
            }
            Expression::Call(function, arguments) => self.call(*function, arguments)?,
            Expression::ForEach(entities, name, inner) => {
                let entities = self.value(entities)?;
                let all: Vec<&Value> = match &entities {
                    Value::Object(map) => map.values().collect(),
                    Value::Array(list) => list.iter().collect(),
                    other => return Err(QueryError(format!("{other} has no entities"))),
                };
                let mut holds = true;
                for entity in all {
                    let mut facts = self.facts.clone();
                    facts.insert(name.clone(), entity.clone());
                    let mut of_entity = Evaluation { facts: &facts, print: &mut *self.print };
                    holds &= is_true(&of_entity.value(inner)?)?;
                }
                holds.into()
            }
        })
    }

    fn call(&mut self, function: Function, arguments: &[Expression]) -> Result<Value, QueryError> {
        let values = arguments.iter().map(|argument| self.value(argument)).collect::<Result<Vec<_>, _>>()?;
        let texts = || -> Result<Vec<&str>, QueryError> {
            let text = |value: &'_ Value| QueryError(format!("{value} is no text"));
            values.iter().map(|value| value.as_str().ok_or_else(|| text(value))).collect()
        };
        Ok(match function {
            Function::Len => match &values[0] {
                Value::Object(map) => map.len().into(),
                Value::Array(list) => list.len().into(),
                Value::String(text) => text.chars().count().into(),
                other => return Err(QueryError(format!("{other} has no length"))),
            },
            Function::Print => {
                (self.print)(&values[0].as_str().map_or_else(|| values[0].to_string(), str::to_owned));
                true.into()
            }
            Function::StartsWith => texts()?[0].starts_with(texts()?[1]).into(),
            Function::EndsWith => texts()?[0].ends_with(texts()?[1]).into(),
        })
    }
}

fn compare(left: &Value, symbol: &str, right: &Value) -> Result<bool, QueryError> {
    let order = match (left, right) {
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Number(left), Value::Number(right)) => left.as_i64().cmp(&right.as_i64()),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        _ => return Err(QueryError(format!("cannot compare {left} with {right}"))),
    };
    Ok(match symbol {
        "==" => order == Ordering::Equal,
        "!=" => order != Ordering::Equal,
        "<" => order == Ordering::Less,
        "<=" => order != Ordering::Greater,
        ">" => order == Ordering::Greater,
        _ => order != Ordering::Less,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn holds(text: &str) -> Result<bool, QueryError> {
        let facts = json!({
            "name": "ledger", "status": "active", "exposed": false,
            "units": {
                "ledger/0": { "workload-status": "active", "leader": true },
                "ledger/1": { "workload-status": "waiting", "leader": false },
            },
        });
        Query::parse(text)?.holds(facts.as_object().expect("a map"), &mut |_| ())
    }

    #[test]
    fn a_query_compares_facts() {
        for (text, expected) in [
            ("status==\"active\" && len(units)==2", true),
            ("status == 'active' && len(units) >= 3", false),
            ("status=='blocked' || exposed!=true", true),
            ("(status=='blocked' || exposed==true) && true", false),
            ("status=='blocked' || status=='active' && exposed==true", false),
            ("startsWith(name,\"led\") && endsWith(name, 'ger')", true),
            ("len(name)<6", false),
            ("print(name) && len(units)>1", true),
            ("!startsWith(name, 'x') && !(status=='blocked') && !!exposed==false", true),
            ("!exposed==false", false),
            ("forEach(units, u => u.workload-status=='active')", false),
            ("forEach(units, u => u.leader==true || u.workload-status=='waiting')", true),
        ] {
            assert_eq!(holds(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_query_is_refused() {
        for text in [
            "",
            "status==",
            "status=='active",
            "status=='a' &&",
            "(status=='a'",
            "status=='a')",
            "len()",
            "len(name,1)",
            "shout(name)",
            "forEach(units, 1)",
            "name $ 1",
            "99999999999999999999==1",
            "status",
            "colour=='red'",
            "units.ledger=='a'",
            "len(exposed)==1",
            "name==1",
            "startsWith(name,1)",
            "forEach(name, n => true)",
        ] {
            assert!(holds(text).is_err(), "{text}");
        }
        let deep = |levels: usize| format!("{}true{}", "(".repeat(levels), ")".repeat(levels));
        assert_eq!(holds(&deep(DEPTH_MAX - 1)), Ok(true));
        assert!(holds(&deep(DEPTH_MAX)).is_err());
    }
}
