//! Blanks comments, strings and character literals, so that the checks see only code.
//!
//! Line breaks stay where they were: a line of the mask is the same line of the file.

/// The code of a Rust source text; everything that is not code is spaces.
pub(crate) fn mask(text: &str) -> String {
    let mut lexer = Lexer {
        rest: text,
        out: String::with_capacity(text.len()),
    };
    while !lexer.rest.is_empty() {
        lexer.step();
    }
    lexer.out
}

struct Lexer<'a> {
    rest: &'a str,
    out: String,
}

impl Lexer<'_> {
    fn step(&mut self) {
        if self.rest.starts_with("//") {
            let end = self.rest.find('\n').unwrap_or(self.rest.len());
            self.blank(end);
        } else if self.rest.starts_with("/*") {
            self.blank(block_comment_len(self.rest));
        } else if self.rest.starts_with('"') {
            self.blank(quoted_len(self.rest, '"'));
        } else if let Some(len) = raw_string_len(self.rest) {
            self.blank(len);
        } else if let Some(len) = char_literal_len(self.rest) {
            self.blank(len);
        } else {
            self.word_or_char();
        }
    }

    fn blank(&mut self, len: usize) {
        let (gone, rest) = self.rest.split_at(len);
        let spaces = gone.chars().map(|c| if c == '\n' { '\n' } else { ' ' });
        self.out.extend(spaces);
        self.rest = rest;
    }

    /// A whole identifier at once: the `r` at the end of `for` must not begin a raw string.
    fn word_or_char(&mut self) {
        let ident = |c: char| c == '_' || c.is_alphanumeric();
        let word = self.rest.find(|c| !ident(c)).unwrap_or(self.rest.len());
        let one = self.rest.chars().next().map_or(0, char::len_utf8);
        let (kept, rest) = self.rest.split_at(word.max(one));
        self.out.push_str(kept);
        self.rest = rest;
    }
}

fn block_comment_len(text: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < text.len() {
        let here = &text[at..];
        if here.starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if here.starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += here.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// Length of a literal that begins with `quote` at 0, escapes taken into account.
fn quoted_len(text: &str, quote: char) -> usize {
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        if c == '\\' {
            chars.next();
        } else if c == quote {
            return at + c.len_utf8();
        }
    }
    text.len()
}

/// Length of `r"…"`, `r#"…"#`, and of the same after `b` or `c`; `b"…"` is left to the caller's next step.
fn raw_string_len(text: &str) -> Option<usize> {
    let prefix = ["r", "br", "cr"]
        .into_iter()
        .find(|p| text.starts_with(&format!("{p}\"")) || text.starts_with(&format!("{p}#")))?;
    let hashes = text[prefix.len()..]
        .chars()
        .take_while(|c| *c == '#')
        .count();
    let open = prefix.len() + hashes;
    if !text[open..].starts_with('"') {
        return None; // a raw identifier such as r#type
    }
    let close = format!("\"{}", "#".repeat(hashes));
    let body = &text[open + 1..];
    let end = body.find(&close).map(|at| open + 1 + at + close.len());
    Some(end.unwrap_or(text.len()))
}

/// Length of a character literal; `None` for a lifetime.
fn char_literal_len(text: &str) -> Option<usize> {
    let body = text.strip_prefix('\'')?;
    let first = body.chars().next()?;
    let is_char = first == '\\' || body[first.len_utf8()..].starts_with('\'');
    is_char.then(|| quoted_len(text, '\''))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_become_spaces_and_code_stays() {
        let cases = [
            ("a // unsafe\nb", "a          \nb"),
            ("a /* x /* y */ z */ b", "a                   b"),
            ("f(\"} \\\" {\")", "f(        )"),
            ("r#\"{\"#; r#type", "      ; r#type"),
            ("for x in 'a'..='\\n' {}", "for x in    ..=     {}"),
            ("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}"),
        ];
        for (text, code) in cases {
            assert_eq!(mask(text), code, "{text}");
        }
    }

    #[test]
    fn lines_keep_their_numbers_and_an_open_literal_ends_with_the_text() {
        assert_eq!(mask("\"a\nb\"\nc").lines().count(), 3);
        for open in ["\"never closed", "/* never", "r#\"never", "'\\"] {
            assert_eq!(mask(open).trim(), "", "{open}");
        }
    }
}
