//! Brace expressions: `{a,b}`, `{1..9}`.

use crate::syntax::{Operation, Piece, Word};

/// Maximum number of words that one word becomes.
pub(crate) const MAX_WORDS: usize = 32;

/// A part of a word.
#[derive(Debug, Clone)]
enum Token<'w> {
    Open,
    Comma,
    Close,
    Piece(&'w Piece),
    Text(String),
}

/// The words that a word with braces becomes. A sequence becomes a wildcard. `None` if there are too many, or if
/// they cannot be known.
pub(crate) fn expand(word: &Word) -> Option<Vec<Word>> {
    let has_braces = word.0.iter().any(|piece| matches!(piece, Piece::Unquoted(text) if text.contains('{')));
    if !has_braces {
        return Some(vec![word.clone()]);
    }
    let tokens = tokens(word);
    // `$x{a,b}` reads the variables `xa` and `xb`.
    let is_bare = |piece: &Piece| matches!(piece, Piece::Parameter(parameter) if parameter.operation == Operation::Bare);
    if word.0.iter().any(is_bare) && first_braces(&tokens).is_some() {
        return None;
    }
    // In `{a},b}` the first closing brace is literal.
    if !closes_each_brace(&tokens) && tokens.iter().any(|token| matches!(token, Token::Comma)) {
        return None;
    }
    let mut pending = vec![tokens];
    let mut done = Vec::new();
    while let Some(tokens) = pending.pop() {
        if done.len() + pending.len() > MAX_WORDS {
            return None;
        }
        let Some((start, end)) = first_braces(&tokens) else {
            done.push(Word(tokens.iter().map(to_piece).collect()));
            continue;
        };
        let (before, inner, after) = (&tokens[..start], &tokens[start + 1..end], &tokens[end + 1..]);
        let commas = top_level_commas(inner);
        let mut alternatives: Vec<Vec<Token<'_>>> = Vec::new();
        if commas.is_empty() {
            alternatives.push(vec![Token::Text("*".to_owned())]);
        } else {
            let mut from = 0;
            for to in commas.into_iter().chain(std::iter::once(inner.len())) {
                alternatives.push(inner[from..to].to_vec());
                from = to + 1;
            }
        }
        for alternative in alternatives.into_iter().rev() {
            pending.push([before, &alternative, after].concat());
        }
    }
    Some(done)
}

/// The texts that a pattern with braces expands to. `None` if there are too many.
pub(crate) fn alternatives(pattern: &str) -> Option<Vec<String>> {
    let text = |piece: &Piece| match piece {
        Piece::Unquoted(text) | Piece::Literal(text) => text.clone(),
        _ => String::new(),
    };
    let words = expand(&Word(vec![Piece::Unquoted(pattern.to_owned())]))?;
    Some(words.iter().map(|word| word.0.iter().map(text).collect()).collect())
}

fn tokens(word: &Word) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    for piece in &word.0 {
        let Piece::Unquoted(text) = piece else {
            tokens.push(Token::Piece(piece));
            continue;
        };
        let mut plain = String::new();
        for c in text.chars() {
            let mark = match c {
                '{' => Token::Open,
                ',' => Token::Comma,
                '}' => Token::Close,
                c => {
                    plain.push(c);
                    continue;
                }
            };
            if !plain.is_empty() {
                tokens.push(Token::Text(std::mem::take(&mut plain)));
            }
            tokens.push(mark);
        }
        if !plain.is_empty() {
            tokens.push(Token::Text(plain));
        }
    }
    tokens
}

fn to_piece(token: &Token<'_>) -> Piece {
    match token {
        // Remaining braces are literal.
        Token::Open => Piece::Literal("{".to_owned()),
        Token::Close => Piece::Literal("}".to_owned()),
        Token::Comma => Piece::Literal(",".to_owned()),
        Token::Piece(piece) => (*piece).clone(),
        Token::Text(text) => Piece::Unquoted(text.clone()),
    }
}

/// The positions of the first braces with a comma or a sequence in them.
fn first_braces(tokens: &[Token<'_>]) -> Option<(usize, usize)> {
    let mut open: Vec<(usize, bool)> = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Open => open.push((at, false)),
            Token::Comma => {
                if let Some((_, expands)) = open.last_mut() {
                    *expands = true;
                }
            }
            Token::Text(text) if text.contains("..") => {
                if let Some((_, expands)) = open.last_mut() {
                    *expands = true;
                }
            }
            Token::Close => {
                if let Some((start, true)) = open.pop() {
                    return Some((start, at));
                }
            }
            Token::Piece(_) | Token::Text(_) => {}
        }
    }
    None
}

/// Whether each brace that closes belongs to one with a comma or a sequence.
fn closes_each_brace(tokens: &[Token<'_>]) -> bool {
    let mut open: Vec<bool> = Vec::new();
    for token in tokens {
        match token {
            Token::Open => open.push(false),
            Token::Comma => open.iter_mut().last().into_iter().for_each(|expands| *expands = true),
            Token::Text(text) if text.contains("..") => {
                open.iter_mut().last().into_iter().for_each(|expands| *expands = true);
            }
            Token::Close if open.pop() != Some(true) => return false,
            Token::Close | Token::Piece(_) | Token::Text(_) => {}
        }
    }
    open.is_empty()
}

fn top_level_commas(tokens: &[Token<'_>]) -> Vec<usize> {
    let mut depth = 0_usize;
    let mut commas = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Open => depth += 1,
            Token::Close => depth = depth.saturating_sub(1),
            Token::Comma if depth == 0 => commas.push(at),
            _ => {}
        }
    }
    commas
}
