//! The pattern language of IPClassifier and IPFilter: `src net 10/8 and (tcp port www or ssh)`.
//!
//! A recursive descent parser over words and signs. [`Primitive`](super::ip_primitive) defines the test of each
//! primitive. Omitted words are taken from the previous primitive, so `src port 80 or 81` tests for both ports.

use super::expr::{Base, Expr, Field, Op, RangeTest};
use super::family::Family;
use super::ip_lexer;
use super::ip_names;
use super::ip_primitive::{Dir, Kind, Primitive, Qualifiers, Value, infer_kind, value};
use arguments::Names;

/// Parentheses and `not`s inside each other, at most.
const DEPTH: usize = 100;

/// Comparisons in a choice, at most: each doubles its condition.
const LEAVES: usize = 10_000;

type Parsed<T> = Result<T, String>;

/// Parses a pattern. The error is a sentence.
pub fn parse(text: &str, names: &Names, family: Family) -> Parsed<Expr<RangeTest>> {
    let tokens = ip_lexer::split(text);
    match tokens.as_slice() {
        [] => return Err("empty pattern".to_owned()),
        ["-" | "any" | "all"] => return Ok(Expr::TRUE),
        ["none"] => return Ok(Expr::FALSE),
        _ => {}
    }
    // No number of a pattern has a plus sign, which parsers of numbers and addresses would skip.
    if let Some(word) = tokens.iter().find(|token| token.starts_with('+')) {
        return Err(format!("unknown word `{word}`"));
    }
    let mut parser = Parser {
        tokens: &tokens,
        names,
        family,
        previous: None,
        depth: 0,
    };
    let expr = parser.choice()?;
    match parser.peek() {
        None => Ok(expr),
        Some(token) => Err(format!("garbage after expression at `{token}`")),
    }
}

struct Parser<'a> {
    tokens: &'a [&'a str],
    names: &'a Names,
    family: Family,
    /// The previous primitive, from which omitted parts are taken.
    previous: Option<Qualifiers>,
    depth: usize,
}

const OR: [&str; 2] = ["or", "||"];
const AND: [&str; 2] = ["and", "&&"];
const COMPARISONS: [(&str, Op); 7] = [
    ("==", Op::Eq),
    ("=", Op::Eq),
    ("!=", Op::Ne),
    ("<", Op::Lt),
    ("<=", Op::Le),
    (">", Op::Gt),
    (">=", Op::Ge),
];

/// True if a token can be a value, or another word of a primitive.
fn is_word(token: &str) -> bool {
    let reserved = ["or", "and", "not", ":"];
    !reserved.contains(&token) && !token.starts_with(|c| "()[]!&|=<>?".contains(c))
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.tokens.first().copied()
    }

    fn next(&mut self) -> Option<&'a str> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(first)
    }

    /// Takes the next token if it is one of these.
    fn take(&mut self, tokens: &[&str]) -> bool {
        let found = self.peek().is_some_and(|t| tokens.contains(&t));
        if found {
            self.next();
        }
        found
    }

    fn expect(&mut self, token: &str) -> Parsed<()> {
        match self.take(&[token]) {
            true => Ok(()),
            false => Err(match self.peek() {
                Some(other) => format!("missing `{token}` before `{other}`"),
                None => format!("missing `{token}` at the end"),
            }),
        }
    }

    /// `a ? b : c`.
    fn choice(&mut self) -> Parsed<Expr<RangeTest>> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(format!("expressions more than {DEPTH} deep"));
        }
        let mut expr = self.parse_or()?;
        if self.take(&["?"]) {
            let yes = self.choice()?;
            self.expect(":")?;
            let no = self.choice()?;
            let not = expr.clone().negate();
            expr = Expr::any([Expr::all([expr, yes]), Expr::all([not, no])]);
            if expr.leaf_count() > LEAVES {
                return Err("the expression is too large".to_owned());
            }
        }
        self.depth -= 1;
        Ok(expr)
    }

    fn parse_or(&mut self) -> Parsed<Expr<RangeTest>> {
        let mut parts = vec![self.parse_and()?];
        while self.take(&OR) {
            parts.push(self.parse_and()?);
        }
        Ok(Expr::any(parts))
    }

    fn parse_and(&mut self) -> Parsed<Expr<RangeTest>> {
        let mut parts = vec![self.factor()?];
        loop {
            let said = self.take(&AND);
            let more = self
                .peek()
                .is_some_and(|t| is_word(t) && t != ":" || t == "(" || t == "!" || t == "not");
            if !said && !more {
                return Ok(Expr::all(parts));
            }
            parts.push(self.factor()?);
        }
    }

    fn factor(&mut self) -> Parsed<Expr<RangeTest>> {
        let mut not = false;
        while self.take(&["!", "not"]) {
            not = !not;
        }
        let expr = if self.take(&["("]) {
            let inner = self.choice()?;
            self.expect(")")?;
            inner
        } else {
            self.primitive()?.expr(self.family)?
        };
        Ok(if not { expr.negate() } else { expr })
    }

    fn primitive(&mut self) -> Parsed<Primitive> {
        let mut head = self.head()?;
        let constant = match (head.is_empty(), self.peek()) {
            (true, Some("true" | "any" | "all" | "-")) => Some(Kind::True),
            (true, Some("false" | "none")) => Some(Kind::False),
            _ => None,
        };
        if let Some(kind) = constant {
            self.next();
            head.kind = Some(kind);
            return Ok(Primitive::bare(head));
        }
        let bare = head.kind.is_none() && (head.proto.is_some() || head.ip);
        if bare && head.dir.is_none() && !self.goes_on(&head) {
            // `tcp` alone.
            head.kind = Some(if head.proto.is_some() {
                Kind::Proto
            } else {
                Kind::True
            });
            self.previous = Some(head);
            let own = head.proto.map(|p| Value::Number(p.into(), p.into()));
            head.proto = None;
            return Ok(Primitive {
                head,
                mask: None,
                op: Op::Eq,
                value: own,
            });
        }
        self.inherit(&mut head)?;
        let primitive = self.comparison(head)?;
        self.previous = Some(primitive.head);
        Ok(primitive)
    }

    /// True if the words after a protocol's name belong to the same primitive.
    fn goes_on(&self, head: &Qualifiers) -> bool {
        self.peek().is_some_and(|token| {
            let sign = COMPARISONS.iter().any(|c| c.0 == token) || token == "&" || token == "[";
            let known = |kind: Option<Kind>| {
                matches!(kind, Some(Kind::Port | Kind::TcpFlag | Kind::IcmpType))
            };
            sign || is_word(token) && known(infer_kind(token, head, self.names, self.family))
        })
    }

    /// The words before an operator and a value.
    fn head(&mut self) -> Parsed<Qualifiers> {
        let mut head = Qualifiers::default();
        while let Some(token) = self.peek() {
            match token {
                "src" | "dst" if head.dir.is_none() => {
                    self.next();
                    head.dir = Some(self.direction(token));
                    continue;
                }
                "ip" | "ip6" if token == self.family.word() && !head.ip && head.proto.is_none() => {
                    head.ip = true;
                }
                "ip" if self.family == Family::V6 => {
                    return Err("packets are of IPv6 here: write `ip6` in place of `ip`".to_owned());
                }
                "ether" if self.family == Family::V6 => {
                    let wrong = "Ethernet addresses are not looked at in IPv6 packets: put a Classifier before";
                    return Err(wrong.to_owned());
                }
                "transp" if head.proto.is_none() && !head.transp => head.transp = true,
                "ether" if head.kind.is_none() => {
                    self.next();
                    head.kind = Some(Kind::EtherHost);
                    if let (None, Some(side @ ("src" | "dst"))) = (head.dir, self.peek()) {
                        self.next();
                        head.dir = Some(self.direction(side));
                    }
                    self.take(&["host"]);
                    return Ok(head);
                }
                "[" => {
                    head.kind = Some(self.bytes(&head)?);
                    return Ok(head);
                }
                _ => {
                    if let Some(kind) = Kind::named(token, self.family) {
                        self.next();
                        head.kind = Some(kind);
                        return Ok(head);
                    }
                    match ip_names::protocol(token).filter(|_| head.proto.is_none()) {
                        Some(proto) => head.proto = Some(proto),
                        None => return Ok(head),
                    }
                }
            }
            self.next();
        }
        Ok(head)
    }

    /// Direction that begins with `src` or `dst`; also `src or dst`.
    fn direction(&mut self, first: &str) -> Dir {
        let other = if first == "src" { "dst" } else { "src" };
        match self.tokens {
            [word, second, ..] if *second == other && OR.contains(word) => {
                self.tokens = &self.tokens[2..];
                Dir::Either
            }
            [word, second, ..] if *second == other && AND.contains(word) => {
                self.tokens = &self.tokens[2..];
                Dir::Both
            }
            _ if first == "src" => Dir::Src,
            _ => Dir::Dst,
        }
    }

    /// `[POS:LEN]`.
    fn bytes(&mut self, head: &Qualifiers) -> Parsed<Kind> {
        self.expect("[")?;
        let base = match (head.ip, head.proto.is_some() || head.transp) {
            (true, false) => Base::Start,
            (false, true) => Base::Transport,
            _ => {
                let ip = self.family.word();
                return Err(format!("`[` must follow `{ip}`, `transp` or a protocol"));
            }
        };
        let place = self.next().unwrap_or("");
        let (pos, len) = place.split_once(':').unwrap_or((place, "1"));
        let (Ok(pos), Ok(len)) = (pos.parse::<u16>(), len.parse::<u16>()) else {
            return Err(format!("`[{place}]` is not of the form [POS:LEN]"));
        };
        if !(1..=4).contains(&len) || pos > 60_000 {
            return Err(format!("`[{place}]` is not of 1 to 4 bytes of a header"));
        }
        self.expect("]")?;
        Ok(Kind::Bytes(Field::new(base, pos, len)))
    }

    /// Fills in omitted parts.
    fn inherit(&self, head: &mut Qualifiers) -> Parsed<()> {
        if head.kind.is_some() {
            return Ok(());
        }
        let word = self.peek().unwrap_or("");
        let last = self
            .previous
            .filter(|last| last.kind.is_some_and(Kind::has_value));
        if let Some(last) = last
            && head.is_empty()
            && (!is_word(word) || value(last.kind, word, &last, self.names, self.family).is_ok())
        {
            *head = last;
            return Ok(());
        }
        head.kind = infer_kind(word, head, self.names, self.family);
        if let Some(last) = last {
            let addresses = [Some(Kind::Host), Some(Kind::Net)];
            if head.is_empty_but_kind()
                && [head.kind, last.kind].iter().all(|k| addresses.contains(k))
            {
                head.dir = last.dir;
            }
            if head.kind.is_none() && value(last.kind, word, head, self.names, self.family).is_ok()
            {
                head.kind = last.kind;
            }
        }
        match head.kind {
            Some(_) => Ok(()),
            None if word.is_empty() => Err("partial directive at the end".to_owned()),
            None if !is_word(word) => Err(format!("partial directive before `{word}`")),
            None => Err(format!("unknown word `{word}`")),
        }
    }

    /// `[& MASK] [OP] VALUE`.
    fn comparison(&mut self, head: Qualifiers) -> Parsed<Primitive> {
        if head.kind.is_some_and(|k| !k.has_value()) {
            return Ok(Primitive::bare(head));
        }
        let mask = match self.take(&["&"]) {
            true => Some(self.value(&head)?),
            false => None,
        };
        let sign = COMPARISONS.iter().find(|c| Some(c.0) == self.peek());
        if sign.is_some() {
            self.next();
        } else if mask.is_some() && !self.peek().is_some_and(is_word) {
            return Ok(Primitive {
                head,
                mask,
                op: Op::Ne,
                value: Some(Value::zero(&head, self.family)),
            });
        }
        let mut value = self.value(&head)?;
        if head.kind == Some(Kind::Net) && self.take(&["mask"]) {
            value = value.with_mask(self.next().unwrap_or(""))?;
        }
        Ok(Primitive {
            head,
            mask,
            op: sign.map_or(Op::Eq, |c| c.1),
            value: Some(value),
        })
    }

    fn value(&mut self, head: &Qualifiers) -> Parsed<Value> {
        match self.next() {
            Some(word) if is_word(word) => value(head.kind, word, head, self.names, self.family),
            Some(other) => Err(format!("a value is missing before `{other}`")),
            None => Err("a value is missing at the end".to_owned()),
        }
    }
}
